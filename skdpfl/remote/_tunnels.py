"""A courier that connects to gates directly, by sockets or tunnels."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._exchange import Courier
from skdpfl.remote._letters import Hello, Introduction
from skdpfl.remote._socket import PATIENCE, ask_gate
from skdpfl.remote._wire import WireError


class SocketCourier(Courier):
    """Send letters directly to gates (``skdpfl silo serve``), by a tunnel or on this machine.

    Between machines the connection has to be secure: an SSH tunnel or a private network, opened by
    the hospital (``ssh -N -R 7001:/run/skdpfl/north.socket server``). Whoever overhears letters
    learns what the server may know, and the token, with which they could send letters too.

    Parameters
    ----------
    addresses : mapping from str to str
        Each silo's gate: the path of a socket, or ``127.0.0.1:PORT``.
    tokens : mapping from str to bytes, optional
        The tokens of gates at ports.
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
        """Raise unless the silo at an address is the expected one."""
        if name in self._met:
            return
        answer = self._ask(name, pack(Hello()))
        try:
            found = unpack(answer)
        except WireError:
            found = None
        if not isinstance(found, Introduction) or found.name != name:
            who = repr(found.name) if isinstance(found, Introduction) else "no gate"
            raise ValueError(
                f"{self._addresses[name]} must be the address of silo {name!r}; found {who}."
            )
        self._met.add(name)

    def _ask(self, name: str, letter: bytes) -> bytes:
        token = self._tokens.get(name, b"")
        return ask_gate(self._addresses[name], letter, token=token, timeout=self._timeout)
