"""Letters over a socket: the length of a message in eight bytes, then the message."""

from __future__ import annotations

import socket
import struct

from skdpfl.remote._limits import LIMITS

_LENGTH = struct.Struct("<Q")
_PIECE = 2**20


def send(line: socket.socket, letter: bytes) -> None:
    """Send a message."""
    line.sendall(_LENGTH.pack(len(letter)))
    if letter:  # whoever got an empty one may have left
        line.sendall(letter)


def receive(line: socket.socket) -> bytes:
    """Return a whole message; an OSError if it is too long, or the other side leaves early.

    Memory grows with what has come, not with the length that was announced.
    """
    (size,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    if size > LIMITS.message_bytes:
        raise OSError("The message is too long.")
    return bytes(_exactly(line, size))


def _exactly(line: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = line.recv(min(size - len(data), _PIECE))
        if not piece:
            raise OSError("The other side left.")
        data += piece
    return data
