"""Lines: a silo dials the server by gRPC (extra ``grpc``); letters go the other way.

::

    silo                               server
    TLS; the server's certificate      checked against the one that the hospital has
                        <- Hello       with a challenge: the address that was dialled, a nonce
    Introduction ->                    with the gate's signature of the challenge, by the silo's key
                        <- letter      and so on; one at a time
    answer ->

    a letter, or an answer = its length (8 bytes) | its bytes, in pieces

A server is known by its certificate. A silo is known by its key, which the gate has and which
whoever carries letters has not: no other secret is needed at the hospital. The challenge begins
with the server's address, and the carrier passes on no other, neither at first nor later, so that
one server cannot use a silo's signature at another. An engine that knows its nodes gives them
tokens instead, and gets no signature.

Who has not introduced itself can send one short message, within some seconds. gRPC takes in one
piece at a time, so memory grows with the letters of silos that are known, whoever dials.
"""

import datetime
import os
import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc

from skdpfl._arguments import host_and_port
from skdpfl._codec import LIMITS, WireError
from skdpfl._durable import replace_file
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import Hello, Introduction, introduction_in
from skdpfl.remote._masks import line_text, signed_by_silo
from skdpfl.remote._socket import DirectCourier, asks_to_sign

_METHOD, _TOKEN = ("skdpfl", "letters"), "token-bin"
#: seconds for a silo to introduce itself, and for a server to get its port
_KNOCK = 20.0
#: lines at one time; those without an introduction, of one address
_LINES, _UNMET = 2048, 16
#: bytes of a letter's length, of a piece of a letter, and of an introduction
_LENGTH, _PIECE, _SHORT = 8, 2**18, 2**12
_OPTIONS = [
    ("grpc.max_receive_message_length", _PIECE),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]
_SERVER_OPTIONS = [
    *_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", 1),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", int(_KNOCK * 1000)),  # without an introduction
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
]


class SiloLine:
    """One silo's line: the server's letters go out, answers come in, one at a time.

    ``cancel`` ends the call in which an answer is late, however it trickles in.
    """

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._letters = queue.SimpleQueue[bytes | None]()
        self._answers = queue.SimpleQueue[bytes | None]()
        self._turn, self._closed = threading.Lock(), threading.Event()

    def ask(self, letter: bytes, timeout: float) -> bytes:
        """Return the answer to a letter; raise an OSError if the line is closed, or closes."""
        with self._turn:
            if self._closed.is_set():
                raise ConnectionError("The line is closed.")
            self._letters.put(letter)
            try:
                answer = self._answers.get(timeout=timeout)
            except queue.Empty:
                answer = None
            if answer is None:
                self.close()
                self._cancel()
                raise ConnectionError("The line was closed.")
            return answer

    def close(self) -> None:
        """Close the line, which ends the silo's side."""
        self._closed.set()
        self._letters.put(None)
        self._answers.put(None)

    def serve(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces of letters, and take in those of an answer after each."""
        try:
            while (letter := self._letters.get()) is not None:
                yield from _pieces_of(letter)
                self._answers.put(_joined(pieces))
        finally:
            self.close()


#: a server's question about a silo: whether it admits its line
Admit = Callable[[bytes, Introduction, str, SiloLine], bool]


class LineServer:
    """The server's port for lines.

    ``admit(token, silo, challenge, line)`` is called with each silo that introduces itself; it
    returns whether the line stays open.
    """

    def __init__(self, address: str, identity: tuple[bytes, bytes], admit: Admit) -> None:
        self._address, self._admit = address, admit
        self._unmet, self._guard = Counter[str](), threading.Lock()
        stream = grpc.stream_stream_rpc_method_handler(self._meet)
        most = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 2 * _LINES
        room = min(most // 2, _LINES)  # half of the descriptors stay for the process's own files
        self._server = grpc.server(
            ThreadPoolExecutor(_LINES, thread_name_prefix="line"),
            handlers=[grpc.method_handlers_generic_handler(_METHOD[0], {_METHOD[1]: stream})],
            options=[*_SERVER_OPTIONS, ("grpc.max_allowed_incoming_connections", room)],
            maximum_concurrent_rpcs=_LINES,
        )
        self._listen(grpc.ssl_server_credentials([identity]))
        self._server.start()

    def _listen(self, credentials: Any) -> None:
        """Take the port; again while a killed run's process still holds it."""
        host, port = host_and_port(self._address)
        here = host if host in ("127.0.0.1", "localhost") else "[::]"
        end = time.monotonic() + _KNOCK
        while True:
            try:
                self._server.add_secure_port(f"{here}:{port}", credentials)
                return
            except RuntimeError as error:
                if time.monotonic() > end:
                    raise OSError(f"Port {port} cannot be opened.") from error
                time.sleep(0.5)

    def close(self) -> None:
        """Close the port and all lines."""
        self._server.stop(grace=None)

    def _meet(self, pieces: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Ask who is there; serve the line of a silo that is admitted."""
        peer, line = str(context.peer()).rpartition(":")[0], SiloLine(context.cancel)
        context.add_callback(line.close)
        with self._guard:
            self._unmet[peer] += 1
            crowded = self._unmet[peer] > _UNMET
        challenge = f"{self._address} {secrets.token_hex(32)}"
        late = threading.Timer(_KNOCK, context.cancel)
        late.daemon = True
        late.start()
        admitted = False
        try:
            if not crowded:
                yield from _pieces_of(pack(Hello(challenge)))
                silo = introduction_in(_joined(pieces, _SHORT))
                token = dict(context.invocation_metadata()).get(_TOKEN, b"")
                admitted = silo is not None and self._admit(token, silo, challenge, line)
        finally:
            late.cancel()
            with self._guard:
                self._unmet[peer] -= 1
                self._unmet += Counter()  # without those that have none
        if not admitted:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "This silo is not known here.")
        yield from line.serve(pieces)


def _pieces_of(letter: bytes) -> Iterator[bytes]:
    data = len(letter).to_bytes(_LENGTH, "little") + letter
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


def _joined(pieces: Iterator[bytes], most: int = LIMITS.message_bytes) -> bytes | None:
    """Return the next letter; None if the other side ended, or announces more than ``most``."""
    first = next(pieces, b"")
    size, data = int.from_bytes(first[:_LENGTH], "little"), bytearray(first[_LENGTH:])
    if len(first) < _LENGTH or size > most:
        return None
    while len(data) < size:
        if not (piece := next(pieces, b"")):
            return None
        data += piece
    return bytes(data)


def dial(
    address: str, certificate: bytes, answer: Callable[[bytes], bytes], *, token: bytes = b""
) -> None:
    """Open a line to a server and answer its letters until the line ends.

    Parameters
    ----------
    address : str
        ``host:port`` of the server.
    certificate : bytes
        The server's certificate, or that of the authority that signed it (PEM).
    answer : callable
        Returns the gate's answer to a letter; nothing if the gate is not there.
    token : bytes, optional
        What an engine gave to this node.

    Raises
    ------
    ConnectionError
        If the line could not be opened, or the server asked for what it must not have.
    """
    credentials = grpc.ssl_channel_credentials(certificate)
    replies = queue.SimpleQueue[bytes | None]()
    pieces = (piece for reply in iter(replies.get, None) for piece in _pieces_of(reply))
    with grpc.secure_channel(address, credentials, _OPTIONS) as channel:
        letters = channel.stream_stream("/" + "/".join(_METHOD))(pieces, metadata=[(_TOKEN, token)])
        opened = False
        try:
            first = _joined(letters, _SHORT) or b""
            hello = unpack(first)
            if not isinstance(hello, Hello) or not hello.challenge.startswith(f"{address} "):
                raise WireError("It asks for a signature that is not for it.")
            replies.put(answer(pack(Hello()) if token else first))
            while (letter := _joined(letters)) is not None:
                opened = True
                if asks_to_sign(letter):
                    raise WireError("It asks for another signature.")
                replies.put(answer(letter))
        except (grpc.RpcError, WireError) as error:
            if not opened or isinstance(error, WireError):
                words = error.details() if isinstance(error, grpc.Call) else error
                raise ConnectionError(f"{address}: {words}") from None
        finally:
            replies.put(None)
            letters.cancel()


class LineCourier(DirectCourier):
    """Take letters to silos that dialled in (``skdpfl silo connect HOST:PORT``).

    The server's key and certificate are made in a folder when there are none; hospitals need the
    certificate (``server.crt``), from a person they trust. A silo is admitted if its gate signs
    with the key that is listed. Needs the extras ``grpc`` and ``secure``.

    Parameters
    ----------
    address : str
        ``host:port`` as hospitals dial it.
    silos : mapping from str to str
        Each silo's public key, as on a roster (``skdpfl silo key`` prints it).
    folder : path-like
        Where ``server.key`` and ``server.crt`` are.
    timeout : float, default=60.0
        Seconds to wait for an answer, and for a silo that is not there.
    """

    def __init__(
        self, address: str, silos: Mapping[str, str], *, folder: str | Path, timeout: float = 60.0
    ) -> None:
        super().__init__(timeout=timeout, absence=timeout)
        self._silos, self._lines = dict(silos), dict[str, SiloLine]()
        identity = server_identity(Path(folder), host_and_port(address)[0])
        self._server = LineServer(address, identity, self._admit)

    def ask(self, name: str, letter: bytes) -> bytes:
        if name not in self._lines:
            raise ConnectionError(f"The silo {name!r} has not dialled in.")
        if not (answer := self._lines[name].ask(letter, self._timeout)):
            raise ConnectionError(f"The gate of {name!r} is not there.")
        return answer

    def close(self) -> None:
        """Close all lines, and the port."""
        self._server.close()

    def _admit(self, token: bytes, silo: Introduction, challenge: str, line: SiloLine) -> bool:
        """Keep the line of a silo that signed the challenge; close the one that it had before."""
        known = signed_by_silo(self._silos, silo.name, silo.signature, line_text(challenge))
        if known and (old := self._lines.get(silo.name)):
            old.close()
        if known:
            self._lines[silo.name] = line
        return known


def server_identity(folder: Path, host: str) -> tuple[bytes, bytes]:
    """Return the key and the certificate in a folder, which are made if there are none."""
    key, certificate = folder / "server.key", folder / "server.crt"
    if not key.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = new_identity(host)
        replace_file(certificate, made[1], 0o644)
        replace_file(key, made[0])
    return key.read_bytes(), certificate.read_bytes()


def new_identity(host: str) -> tuple[bytes, bytes]:
    """Return a new private key, and its self-signed certificate for a host (PEM)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "skdpfl server")])
    known: x509.GeneralName = x509.DNSName(host)
    with suppress(ValueError):
        known = x509.IPAddress(ip_address(host))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([known]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(encoding, form, serialization.NoEncryption())
    return private, certificate.public_bytes(encoding)
