"""Letters over a socket: the length of a message in eight bytes, then the message.

It has few imports: with Flower, a process may start for each letter.
"""

import os
import socket
import struct

from skdpfl.remote._wire import LIMITS

_LENGTH = struct.Struct("<Q")
_PIECE = 2**20
#: seconds that a gate may take for an answer
PATIENCE = 600.0


def ask_gate(
    address: str, letter: bytes, *, token: bytes = b"", timeout: float = PATIENCE
) -> bytes:
    """Send a letter to the gate at an address, and return its answer.

    Parameters
    ----------
    address : str
        The path of its socket, or ``127.0.0.1:PORT``.
    letter : bytes
        What a server sent.
    token : bytes, optional
        The token that a gate at a port requires.
    timeout : float, default=600.0
        Seconds to wait for its answer.

    Returns
    -------
    bytes
        Its answer. An OSError is raised if there is no gate.
    """
    with connected(address) as line:
        line.settimeout(timeout)
        if is_port(address):
            send(line, token)
        send(line, letter)
        return receive(line)


def is_port(address: str) -> bool:
    """Whether an address is that of a port, not a path."""
    return os.sep not in address and ":" in address


def connected(address: str) -> socket.socket:
    """Return a connected socket."""
    if is_port(address):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(address)
    except OSError:
        line.close()
        raise
    return line


def send(line: socket.socket, letter: bytes) -> None:
    """Send a message."""
    line.sendall(_LENGTH.pack(len(letter)))
    if letter:  # whoever got an empty one may have left
        line.sendall(letter)


def receive(line: socket.socket, *, most: int = LIMITS.message_bytes) -> bytes:
    """Return a whole message; raise an OSError if it is too long, or the connection closes early.

    Memory grows with the bytes received, not with the announced length.
    """
    (size,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    if size > most:
        raise OSError("The message is too long.")
    return bytes(_exactly(line, size))


def _exactly(line: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = line.recv(min(size - len(data), _PIECE))
        if not piece:
            raise OSError("The other side closed the connection.")
        data += piece
    return data
