"""The server as a Flower app, which fits an estimator with the silos that it can reach.

Flower carries the letters; silos are identified by name, whichever node they run on.
"""

from __future__ import annotations

import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from skdpfl import remote
from skdpfl._arguments import host_and_port
from skdpfl._pipelines import check_fits_elsewhere
from skdpfl.federation import Schema
from skdpfl.flower._client import content_of, letter_in

#: poll interval, in seconds
_PAUSE = 0.3
#: the share of the timeout after which a letter is sent again: with keys a SuperNode that was
#: restarted is the same node, and what the old process had pulled is lost. A silo that is still at
#: work answers both alike.
_LATE = 0.25
#: retry delay for unreachable silos, in seconds
_RETRY_DELAY = 3.0


class FlowerCourier(remote.DirectCourier):
    """Takes letters to silos that run as SuperNodes.

    A restarted SuperNode is a new node with the same silo. So nodes are asked for their silo's name
    before they get a letter, and again if its line was closed. While lines answer, Flower is not
    asked for anything.

    Parameters
    ----------
    grid : Grid
        The Grid of the ServerApp.
    timeout : float, default=60.0
        The longest time to wait for answers, and at the start for silos, in seconds.
    line : str, optional
        ``host:port`` at which silos' apps can reach the server: each opens one line there, which
        carries the letters instead of Flower's messages. If that fails, Flower's messages are used.
    """

    def __init__(self, grid: Grid, *, timeout: float = 60.0, line: str | None = None) -> None:
        if not 0 < timeout < float("inf"):
            raise ValueError(f"timeout must be a finite number of seconds, got {timeout!r}.")
        super().__init__(timeout=timeout, absence=timeout)
        self._grid, self._turn, self._next = grid, threading.RLock(), 0.0
        #: of tokens, the nodes that were invited by them; of silos, their lines
        self._invited, self._lines = dict[bytes, int](), dict[str, remote.SiloLine]()
        #: of silos, the marks of their memories, and their answers
        self._marks, self._came = dict[str, str](), dict[str, bytes]()
        #: of silos, their nodes; when each node is asked for its silo's name
        self._nodes, self._due = dict[str, int](), dict[int, float]()
        #: the replier to a message: a node, or a silo
        self._open = dict[str, int | str]()
        self._door = None if line is None else self._opened(line)

    def ask(self, name: str, letter: bytes) -> bytes:
        if (line := self._lines.get(name)) is None:
            answer = self._asked_by_message(name, letter)
        else:
            try:
                answer = line.ask(letter, self._timeout)
            except ConnectionError:  # its node is invited again
                with self._turn:
                    self._lines.pop(name, None)
                    self._due.pop(self._nodes.pop(name, -1), None)
                raise
        if not answer:
            time.sleep(_RETRY_DELAY)
            raise ConnectionError(f"The gate of {name!r} is being started.")
        return answer

    def close(self) -> None:
        """Close all lines, which ends the silos' apps."""
        for line in self._lines.values():
            line.close()
        if self._door is not None:
            self._door[1].close()

    def _meet(self, name: str) -> None:
        """Raise unless a silo has said where it is."""
        if name not in self._lines:
            self._look()
        if name not in self._nodes:
            raise ConnectionError(f"No node has the silo {name!r}.")

    def _asked_by_message(self, name: str, letter: bytes) -> bytes:
        """Return a silo's answer to a message, which is sent again where it is late or moved."""
        end, again, node = time.monotonic() + self._timeout, 0.0, -1
        self._forget({name})  # answers to earlier letters
        self._came.pop(name, None)
        while (now := time.monotonic()) < end and name not in self._lines:
            if now >= again or self._nodes.get(name) != node:
                node, again = self._nodes[name], now + self._timeout * _LATE
                self._push([self._message(node, letter, MessageType.TRAIN)], [name])
            self._look()
            if (answer := self._came.pop(name, None)) is not None:
                return answer
            time.sleep(_PAUSE / 10)
        raise TimeoutError(f"The silo {name!r} has not answered.")

    def _look(self) -> None:
        """Ask nodes for their silos, and take in replies; not more often than needed."""
        with self._turn:
            if (now := time.monotonic()) < self._next:
                return
            self._next = now + _PAUSE
            asked = [n for n in self._grid.get_node_ids() if self._due.get(n, now) <= now]
            self._due |= dict.fromkeys(asked, now + self._timeout / 3)
            self._forget(asked)
            self._push([self._question(node) for node in asked], asked)
            for each in self._grid.pull_messages(list(self._open)) if self._open else []:
                who, letter = self._open.pop(each.metadata.reply_to_message_id, -1), letter_in(each)
                if isinstance(who, str):
                    self._came[who] = letter
                elif (silo := remote.introduction_in(letter)) is not None:
                    self._place(silo, who)
                else:  # its gate may be there later
                    self._due[who] = time.monotonic() + _RETRY_DELAY

    def _place(self, silo: remote.Introduction, node: int) -> None:
        """Note a silo's node; raise if two silos have its name: a restarted one has its memory."""
        if self._marks.setdefault(silo.name, silo.mark) != silo.mark:
            raise remote.SilosMissing(
                f"Two silos have the name {silo.name!r}, or one lost its memory. Each silo needs "
                "its own name, and has to keep the folder beside its ledger."
            )
        self._nodes[silo.name], self._due[node] = node, math.inf

    def _push(self, messages: Sequence[Message], to: Sequence[int | str]) -> None:
        """Push messages, and note whose replies are open: of those that Flower accepted."""
        with self._turn:
            ids = self._grid.push_messages(messages) if messages else []
            self._open |= {m: who for m, who in zip(ids, to, strict=True) if m is not None}

    def _forget(self, who: Collection[int | str]) -> None:
        """Wait no longer for replies of these."""
        with self._turn:
            self._open = {m: each for m, each in self._open.items() if each not in who}

    def _message(self, node: int, letter: bytes, kind: str, **invitation: str | bytes) -> Message:
        """Return a message; later than the timeout it is of no use to anybody.

        Nodes reply to an invitation when their line has ended, so that has Flower's own time.
        """
        content, ttl = content_of(letter, invitation or None), self._timeout
        if invitation:
            return Message(content, dst_node_id=node, message_type=kind)
        return Message(content, dst_node_id=node, message_type=kind, ttl=ttl)

    def _question(self, node: int) -> Message:
        """Return the message that asks a node for its silo, and invites it to open a line."""
        hello, kind = remote.pack(remote.Hello()), MessageType.QUERY
        if self._door is None:
            return self._message(node, hello, kind)
        token = secrets.token_bytes(32)
        self._invited[token] = node
        return self._message(node, hello, kind, token=token, **self._door[0])

    def _opened(self, address: str) -> tuple[dict[str, str], remote.LineServer]:
        """Open the port for lines; return what invitations to it say."""
        key, certificate = remote.new_identity(host_and_port(address)[0])
        invitation = {"address": address, "certificate": certificate.decode()}
        return invitation, remote.LineServer(address, (key, certificate), self._admit)

    def _admit(self, token: bytes, silo: Any, challenge: str, line: remote.SiloLine) -> bool:
        """Take in a line of a node that was invited."""
        node = self._invited.pop(token, None)
        if node is None:
            return False
        with self._turn:
            self._place(silo, node)
            self._forget({node})
            if silo.name in self._lines:
                self._lines[silo.name].close()
            self._lines[silo.name] = line
        return True


def server_app(
    estimator: Any,
    facts: Schema,
    *,
    finished: Callable[[Any, remote.RemoteFederation, Mapping[str, Any]], None],
    requester: str = "",
    purpose: str = "",
    key: str | None = None,
    on_missing: Literal["fail", "skip"] = "fail",
    masked: bool = False,
    timeout: float = 60.0,
    n_attempts: int = 3,
    patience: float = 0.0,
    journal: str | os.PathLike[str] | Callable[[Mapping[str, Any]], str] | None = None,
    line: str | Callable[[Mapping[str, Any]], str] | None = None,
) -> ServerApp:
    """Return the server's app.

    Parameters
    ----------
    estimator : estimator or function
        The estimator to fit, or a function that returns it from Flower's run config. Classifiers
        need ``classes``. Pipelines and searches raise an error that names an alternative.
    facts : Schema
        Public facts of the silos' records, including the silos' names.
    finished : callable
        ``finished(estimator, federation, run_config)`` is called with the fitted estimator, to
        store it, and with its :class:`~skdpfl.remote.RemoteFederation`.
    requester, purpose : str, default=""
        Who asks for the fits, and for what.
    key : str, optional
        The requester's private key, which signs offers (:class:`skdpfl.remote.RemoteFederation`).
    on_missing : {"fail", "skip"}, default="fail"
        What to do if some silos do not answer in a round (:class:`skdpfl.remote.RemoteFederation`).
    masked : bool, default=False
        Whether the server sees only the sum of a round's messages
        (:class:`skdpfl.remote.RemoteFederation`).
    timeout : float, default=60.0
        Seconds to wait for answers.
    n_attempts : int, default=3
        How often a letter is sent.
    patience : float, default=0.0
        Seconds to wait for silos where a person has to approve a fit.
    journal : path-like or function, optional
        A file for one fit, with which a run can continue after the server was killed
        (:class:`skdpfl.remote.RemoteFederation`). A function is given Flower's run config and
        returns the path.
    line : str or function, optional
        ``host:port`` of this server, to which silos can connect: each opens one line there (gRPC)
        for the duration of a fit, and a round takes a tenth of a second instead of eight. Or a
        function that returns it from Flower's run config.

    Returns
    -------
    ServerApp
        What ``flwr run`` runs.

    See Also
    --------
    gate_app : A silo's app.
    """
    app, made = ServerApp(), callable(estimator)
    who: dict[str, Any] = {"requester": requester, "purpose": purpose, "key": key}
    how: dict[str, Any] = {"on_missing": on_missing, "masked": masked, "patience": patience}
    how["n_attempts"] = n_attempts
    if not made:
        check_fits_elsewhere(estimator)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        model: Any = estimator(config) if made else estimator
        check_fits_elsewhere(model)
        courier = FlowerCourier(grid, timeout=timeout, line=_resolve(line, config))
        federation = remote.RemoteFederation(
            courier,
            facts,
            classes=getattr(model, "classes", None),
            estimator=type(model).__name__,
            journal=_resolve(journal, config),
            **who,
            **how,
        )
        with closing(courier):
            finished(model.fit_federation(federation, facts), federation, config)

    return app


def _resolve(value: Any, config: Mapping[str, Any]) -> Any:
    """Return an argument, or what a function returns for a run."""
    return value(config) if callable(value) else value
