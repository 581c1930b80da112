"""A letter in a Flower message: its bytes in one record."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

_RECORD, _BYTES = "skdpfl", "letter"


def content_of(letter: bytes) -> RecordDict:
    """Return what a Flower message carries."""
    return RecordDict({_RECORD: ConfigRecord({_BYTES: letter})})


def letter_in(message: Message) -> bytes:
    """Return the letter in a message; empty where there is none."""
    if message.has_error():
        return b""
    letter = message.content.config_records.get(_RECORD, {}).get(_BYTES, b"")
    return letter if isinstance(letter, bytes) else b""
