"""How much a letter may cost a silo before anybody has paid: one table; each line has a test."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """The limits of what is read, agreed to and kept; larger things are refused in words."""

    #: bytes of a message; those before its arrays; commas, colons and brackets there
    message_bytes: int = 2**30
    header_bytes: int = 2**22
    header_parts: int = 2**18
    #: how deep values are nested
    depth: int = 24
    #: bytes of an array of text, all of whose entries take as much as the longest one
    text_bytes: int = 2**22
    #: letters of the name of a fit, a silo, an estimator, a label
    name: int = 200
    #: labels of a fit
    classes: int = 10_000
    #: rounds of a fit, and gradient steps in all of them
    rounds: int = 50_000
    steps: int = 500_000
    #: releases of a fit beside its rounds
    releases: int = 64
    #: fits that were agreed to and not begun: the oldest are forgotten
    waiting_offers: int = 64
    waiting_bytes: int = 2**30
    waiting_days: int = 30
    #: fits in a silo's ledger; then its operator begins another one
    fits: int = 10_000


LIMITS = Limits()
