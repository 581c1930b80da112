"""A courier that asks gates itself, at their sockets or through tunnels."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._exchange import Courier
from skdpfl.remote._letters import Hello, Introduction
from skdpfl.remote._socket import PATIENCE, ask_gate
from skdpfl.remote._wire import WireError


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
