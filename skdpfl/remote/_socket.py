"""Letters over a socket: the length of a message in eight bytes, then the message."""

import os
import socket
import struct
import threading
from collections.abc import Mapping

from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._exchange import Courier
from skdpfl.remote._letters import Hello, Introduction
from skdpfl.remote._wire import LIMITS, WireError

_LENGTH = struct.Struct("<Q")
_PIECE = 2**20
#: seconds that a gate may take for an answer
PATIENCE = 600.0


def ask_gate(
    address: str, letter: bytes, *, token: bytes = b"", timeout: float = PATIENCE
) -> bytes:
    """Return what the gate at an address answers.

    Parameters
    ----------
    address : str
        The path of its socket, or ``127.0.0.1:PORT``.
    letter : bytes
        What a server sent.
    token : bytes, optional
        What a gate at a port wants to hear first.
    timeout : float, default=600.0
        Seconds to wait for its answer.

    Returns
    -------
    bytes
        Its answer. An OSError if there is no gate.
    """
    with connected(address) as line:
        line.settimeout(timeout)
        if is_port(address):
            send(line, token)
        send(line, letter)
        return receive(line)


class SocketCourier(Courier):
    """Takes letters straight to gates: ``skdpfl silo serve``, by a tunnel or on this machine.

    Between machines the line itself has to be safe: a tunnel of SSH or a private network, which the
    hospital opens (``ssh -N -R 7001:/run/skdpfl/north.socket server``). Letters that are overheard
    tell what a server may know, and the token tells who else may ask.

    Parameters
    ----------
    addresses : mapping from str to str
        Each silo's gate: the path of a socket, or ``127.0.0.1:PORT``.
    tokens : mapping from str to bytes, optional
        What gates at ports want to hear first.
    timeout : float, default=600.0
        Seconds to wait for an answer.

    Examples
    --------
    >>> from skdpfl.remote import SocketCourier
    >>> courier = SocketCourier({"north": "/tmp/no-gate.socket"})
    >>> courier.deliver({"north": b"a letter"})  # nobody is there
    {}
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        tokens: Mapping[str, bytes] | None = None,
        timeout: float = PATIENCE,
    ) -> None:
        self._addresses, self._tokens = dict(addresses), dict(tokens or {})
        self._timeout, self._met = timeout, set[str]()
        if unknown := sorted(self._tokens.keys() - self._addresses.keys()):
            raise ValueError(f"tokens has entries for {unknown}, which have no address.")

    def deliver(self, letters: Mapping[str, bytes]) -> dict[str, bytes]:
        if unknown := sorted(letters.keys() - self._addresses.keys()):
            raise ValueError(f"addresses has no entry for silo(s) {unknown[:5]}.")
        answers: dict[str, bytes] = {}
        errors: list[Exception] = []

        def take(name: str) -> None:
            try:
                self._meet(name)
                answers[name] = self._ask(name, letters[name])
            except OSError:
                self._met.discard(name)  # not there now: it is asked again
            except ValueError as error:
                errors.append(error)

        threads = [threading.Thread(target=take, args=(name,), daemon=True) for name in letters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return {name: answers[name] for name in letters if name in answers}

    def _meet(self, name: str) -> None:
        """Raise unless it is this silo that lives at its address."""
        if name in self._met:
            return
        answer = self._ask(name, pack(Hello()))
        try:
            found = unpack(answer)
        except WireError:
            found = None
        if not isinstance(found, Introduction) or found.name != name:
            who = repr(found.name) if isinstance(found, Introduction) else "no gate"
            raise ValueError(f"At {self._addresses[name]} there is {who}, not silo {name!r}.")
        self._met.add(name)

    def _ask(self, name: str, letter: bytes) -> bytes:
        token = self._tokens.get(name, b"")
        return ask_gate(self._addresses[name], letter, token=token, timeout=self._timeout)


def is_port(address: str) -> bool:
    """Whether an address is that of a port, not a path."""
    return os.sep not in address and ":" in address


def connected(address: str) -> socket.socket:
    """Return a line to an address."""
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
    """Return a whole message; an OSError if it is too long, or the other side leaves early.

    Memory grows with what has come, not with the length that was announced.
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
            raise OSError("The other side left.")
        data += piece
    return data
