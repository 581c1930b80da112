"""Letters over sockets: the length of a message in eight bytes, then the message.

A whole letter has one deadline, however it trickles in, and memory grows with the bytes that came.
A :class:`Doorway` admits a few connections at a time. It has few imports: with Flower, a process
may start for each letter.
"""

import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from skdpfl._codec import LIMITS, WireError, header_of

_LENGTH = struct.Struct("<Q")
_PEER, _TIME = struct.Struct("3i"), struct.Struct("2l")
_PIECE_BYTES = 2**20
#: seconds that a gate may take for an answer, and to accept a connection
PATIENCE, _KNOCK = 600.0, 10.0
#: seconds between attempts to accept or to connect, while there are no resources for it
_PAUSE = 0.1


class Courier(ABC):
    """Base class of objects that take letters to silos and bring back answers."""

    @abstractmethod
    def deliver(self, letters: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver letters, and return the answers that came in time.

        Parameters
        ----------
        letters : mapping
            A letter for each silo, by its name.

        Returns
        -------
        mapping
            The names of silos that answered, and their answers.
        """


def ask_gate(
    path: str, letter: bytes, *, timeout: float = PATIENCE, signing: bool = False
) -> bytes:
    """Send a letter to the gate at a socket, and return its answer.

    Parameters
    ----------
    path : str
        The path of its socket.
    letter : bytes
        What a server sent.
    timeout : float, default=600.0
        Seconds until its whole answer must be there.
    signing : bool, default=False
        Whether the letter may ask for a signature: for :func:`dial`, which checks whose it is.

    Returns
    -------
    bytes
        Its answer. An OSError is raised if there is no gate, or the letter must not be brought.
    """
    if not signing and asks_to_sign(letter):
        raise PermissionError("It asks for a signature.")
    end = time.monotonic() + timeout
    with connected(path, min(timeout, _KNOCK)) as line:
        send(line, letter, seconds=end - time.monotonic())
        return receive(line, seconds=end - time.monotonic())


def asks_to_sign(letter: bytes) -> bool:
    """Whether a letter asks for the signature that introduces a silo to a server."""
    try:
        header = header_of(letter)
    except WireError:  # the gate cannot read it either
        return False
    hello = isinstance(header, dict) and header.get("o") == "remote.Hello"
    return hello and header.get("v") != {"challenge": ""}


def connected(path: str, seconds: float = _KNOCK) -> socket.socket:
    """Return a connected socket; it waits so long where many are knocking."""
    line = socket.socket(socket.AF_UNIX)
    whole, rest = divmod(max(seconds, 1e-6), 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(int(whole), int(rest * 1e6)))
    try:
        line.connect(path)
    except OSError:
        line.close()
        raise
    return line


def send(line: socket.socket, letter: bytes, *, seconds: float = PATIENCE) -> None:
    """Send a message; raise an OSError unless all of it is taken within these seconds."""
    end = time.monotonic() + seconds
    for part in (_LENGTH.pack(len(letter)), letter):
        line.settimeout(_until(end))
        line.sendall(part)  # within this time in all


def receive(
    line: socket.socket,
    *,
    most: int = LIMITS.message_bytes,
    seconds: float = PATIENCE,
    idle: float = PATIENCE,
    room: Callable[[int], object] = lambda size: None,
) -> bytes:
    """Return a whole message; raise an OSError if it is too long, too late, or cut short.

    It may begin within ``idle`` seconds, and then has ``seconds`` in all. ``room`` is called with
    its length before it is read.
    """
    line.settimeout(idle)
    first = line.recv(1)
    end = time.monotonic() + seconds
    (size,) = _LENGTH.unpack(first + _exactly(line, _LENGTH.size - len(first), end))
    if size > most:
        raise OSError("The message is too long.")
    room(size)
    return bytes(_exactly(line, size, end))


def _exactly(line: socket.socket, size: int, end: float) -> bytearray:
    data = bytearray()
    while len(data) < size:
        line.settimeout(_until(end))
        piece = line.recv(min(size - len(data), _PIECE_BYTES))
        if not piece:
            raise OSError("The other side closed the connection.")
        data += piece
    return data


def _until(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("The message took too long.")
    return left


class Doorway:
    """Accept connections and serve each in a thread, a few at a time; close the others at once.

    ``meet(line, short)`` serves one. ``places`` says how many are served at a time: in all, of one
    user, and beside them with ``short=True``, so that a health check finds a place. Running out of
    descriptors or threads delays it, and no more. Signals are seen each second: one that comes just
    before a system call does not interrupt it.
    """

    def __init__(
        self, door: socket.socket, meet: Callable[..., object], places: tuple[int, int, int]
    ) -> None:
        self._door, self._meet, self._places = door, meet, places
        self._held, self._guard = Counter[object](), threading.Lock()
        door.settimeout(1.0)

    def serve(self) -> None:
        """Accept connections until the door is closed."""
        while self._door.fileno() >= 0:
            try:
                self._admit(self._door.accept()[0])
            except TimeoutError:
                continue
            except (OSError, RuntimeError):  # closed; or no descriptor or thread is left
                time.sleep(_PAUSE)

    def _admit(self, line: socket.socket) -> None:
        """Serve a connection in a thread of its own, or close it."""
        who, (of_all, of_one, beside) = peer_of(line), self._places
        with self._guard:
            in_all = self._held.total() - self._held[None]
            short = self._held[who] >= of_one or in_all >= of_all
            peer = None if short else who
            full = short and self._held[peer] >= beside
            self._held[peer] += not full
        if full:
            line.close()
            return
        try:
            threading.Thread(target=self._serve, args=(line, peer, short), daemon=True).start()
        except RuntimeError:
            self._leave(peer)
            line.close()

    def _serve(self, line: socket.socket, peer: object, short: bool) -> None:
        try:
            with suppress(OSError):
                self._meet(line, short)
        finally:
            self._leave(peer)

    def _leave(self, peer: object) -> None:
        with self._guard:
            self._held[peer] -= 1
            self._held += Counter()  # without those that have none


def peer_of(line: socket.socket) -> int:
    """Return the number of the user at the other end."""
    return int(_PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1])


class DirectCourier(Courier):
    """Base class of couriers that ask each silo for itself, in a thread per silo.

    The first answer of a silo has to be its name; so has the first after it was away.

    Parameters
    ----------
    timeout : float, default=600.0
        Seconds to wait for an answer.
    absence : float, default=0.0
        Seconds for which a silo may be away: it is asked again until then.
    """

    def __init__(self, *, timeout: float = PATIENCE, absence: float = 0.0) -> None:
        self._timeout, self._absence, self._met = timeout, absence, set[str]()

    @abstractmethod
    def ask(self, name: str, letter: bytes) -> bytes:
        """Return a silo's answer to a letter; raise an OSError if it is not there."""

    def deliver(self, letters: Mapping[str, bytes]) -> dict[str, bytes]:
        came = dict[str, bytes | BaseException]()

        def take(name: str) -> None:
            try:
                came[name] = self._asked(name, letters[name])
            except BaseException as error:  # raised below
                came[name] = error

        threads = [threading.Thread(target=take, args=(n,), daemon=True) for n in letters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in came.values():
            if isinstance(each, BaseException) and not isinstance(each, OSError):
                raise each
        return {n: each for n in letters if isinstance(each := came[n], bytes)}

    def _asked(self, name: str, letter: bytes) -> bytes:
        """Ask a silo, again while it may be away."""
        end = time.monotonic() + self._absence
        while True:
            try:
                self._meet(name)
                return self.ask(name, letter)
            except OSError:
                self._met.discard(name)
                if time.monotonic() >= end:
                    raise
                time.sleep(_PAUSE)

    def _meet(self, name: str) -> None:
        """Raise unless the silo that answers is the expected one."""
        from skdpfl.remote._declared import pack
        from skdpfl.remote._letters import Hello, introduction_in

        if name in self._met:
            return
        introduction = introduction_in(self.ask(name, pack(Hello())))
        if introduction is None or introduction.name != name:
            who = "no gate" if introduction is None else repr(introduction.name)
            raise ValueError(f"What is reached as silo {name!r} must be that; found {who}.")
        self._met.add(name)


class SocketCourier(DirectCourier):
    """Send letters directly to gates (``skdpfl silo serve``) on this computer.

    Between computers hospitals dial in: :class:`LineCourier`.

    Parameters
    ----------
    paths : mapping from str to str
        The path of the socket of each silo's gate.
    timeout : float, default=600.0
        Seconds to wait for an answer.

    Examples
    --------
    >>> from skdpfl.remote import SocketCourier
    >>> courier = SocketCourier({"north": "/tmp/no-gate.socket"})
    >>> courier.deliver({"north": b"a letter"})  # nobody is there
    {}
    """

    def __init__(self, paths: Mapping[str, str], *, timeout: float = PATIENCE) -> None:
        super().__init__(timeout=timeout)
        self._paths = dict(paths)

    def ask(self, name: str, letter: bytes) -> bytes:
        if name not in self._paths:
            raise ValueError(f"paths has no entry for the silo {name!r}.")
        return ask_gate(self._paths[name], letter, timeout=self._timeout)
