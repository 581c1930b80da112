"""The server as a Flower app, which fits an estimator with the silos that it can reach.

Flower carries the letters; silos are identified by name, whichever node they run on.
"""

from __future__ import annotations

import math
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Literal

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from skdpfl import remote
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
_AGAIN = 3.0

#: answers by silo; None where its line is no more
Told = queue.SimpleQueue[tuple[str, bytes | None]]


class FlowerCourier(remote.Courier):
    """Takes letters to silos that run as SuperNodes.

    A restarted SuperNode is a new node with the same silo. So nodes are asked for their silo's name
    before they get a letter, and again if an answer is missing. While lines answer, Flower is not
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
        self._grid, self._timeout = grid, timeout
        #: of tokens, the nodes that were invited by them; silos that opened a line
        self._invited: dict[bytes, int] = {}
        self._new: queue.SimpleQueue[tuple[int, remote.Introduction, remote.SiloLine]] = (
            queue.SimpleQueue()
        )
        self._door = None if line is None else self._opened(line)
        #: of each silo, its node, its line if it has one, and the mark of its memory
        self._nodes: dict[str, int] = {}
        self._lines: dict[str, remote.SiloLine] = {}
        self._marks: dict[str, str] = {}
        #: when each node is asked for its silo's name, and the messages that ask
        self._due: dict[int, float] = {}
        self._open: dict[str, int] = {}

    def deliver(self, letters: Mapping[str, bytes]) -> dict[str, bytes]:
        end, told = time.monotonic() + self._timeout, Told()
        due, sent, answers = dict.fromkeys(letters, 0.0), dict[str, str](), dict[str, bytes]()
        quiet = not letters.keys() <= self._lines.keys()
        while due and time.monotonic() < end:
            if quiet:
                self._ask_nodes()
            due |= dict.fromkeys(self._met() & due.keys(), 0.0)
            now = time.monotonic()
            ready = [n for n, when in due.items() if when <= now and n in self._nodes]
            due |= self._send({name: letters[name] for name in ready}, sent, told)
            came = self._told(told)
            quiet = not came
            for name, letter in came or self._pulled(sent):
                if letter:
                    answers[name] = letter
                    due.pop(name, None)
                elif name in due:  # its gate is being started
                    due[name] = time.monotonic() + _AGAIN
        return answers

    def close(self) -> None:
        """Close all lines, which ends the silos' apps."""
        for line in self._lines.values():
            line.close()
        if self._door is not None:
            self._door[1].close()

    def _opened(self, address: str) -> tuple[dict[str, str], remote.LineServer]:
        """Open the port for lines; return what invitations to it say."""
        key, certificate = remote.new_identity(address.rpartition(":")[0])
        invitation = {"address": address, "certificate": certificate.decode()}
        return invitation, remote.LineServer(address, (key, certificate), self._admit)

    def _admit(
        self, token: bytes, silo: remote.Introduction, challenge: str, line: remote.SiloLine
    ) -> bool:
        """Take in a line of a node that was invited."""
        node = self._invited.pop(token, None)
        if node is not None:
            self._new.put((node, silo, line))
        return node is not None

    def _told(self, told: Told) -> list[tuple[str, bytes]]:
        """Return the answers of lines; empty ones if there is no gate, or the line is no more."""
        heard = []
        with suppress(queue.Empty):
            heard.append(told.get(timeout=_PAUSE))
            while True:
                heard.append(told.get_nowait())
        for name, letter in heard:
            if letter is None:  # its node is invited again
                self._lines.pop(name, None)
                self._due.pop(self._nodes.pop(name, -1), None)
        return [(name, letter or b"") for name, letter in heard]

    def _pulled(self, sent: dict[str, Any]) -> list[tuple[Any, bytes]]:
        """Return who replied to messages by Flower, and the letters of the replies."""
        messages = self._grid.pull_messages(list(sent)) if sent else []
        who = [sent.pop(each.metadata.reply_to_message_id, None) for each in messages]
        return [(w, letter_in(m)) for w, m in zip(who, messages, strict=True) if w is not None]

    def _send(
        self, letters: Mapping[str, bytes], sent: dict[str, str], told: Told
    ) -> dict[str, float]:
        """Send letters, and return when they are sent again.

        ``told`` receives the answers of lines, ``sent`` the silo of each message.
        """
        lines = {name: self._lines[name] for name in letters if name in self._lines}
        for name, line in lines.items():
            carry = name, line, letters[name], told
            threading.Thread(target=self._carry, args=carry, daemon=True).start()
        others = [name for name in letters if name not in lines]
        train, again = MessageType.TRAIN, time.monotonic() + self._timeout * _LATE
        messages = [self._message(self._nodes[n], letters[n], train) for n in others]
        sent |= self._push(messages, others)
        return dict.fromkeys(lines, math.inf) | dict.fromkeys(others, again)

    def _carry(self, name: str, line: remote.SiloLine, letter: bytes, told: Told) -> None:
        """Report a silo's answer; None if its line is closed."""
        try:
            told.put((name, line.ask(letter, self._timeout)))
        except ConnectionError:
            told.put((name, None))

    def _push(self, messages: Sequence[Message], to: Sequence[Any]) -> dict[str, Any]:
        """Push messages and return their receivers, without those that Flower did not accept."""
        ids = self._grid.push_messages(messages) if messages else []
        return {m: who for m, who in zip(ids, to, strict=True) if m is not None}

    def _message(self, node: int, letter: bytes, kind: str) -> Message:
        ttl = self._timeout  # later it is of no use to anybody
        return Message(content_of(letter), dst_node_id=node, message_type=kind, ttl=ttl)

    def _question(self, node: int) -> Message:
        """Return the message that asks a node for its silo, and invites it to open a line."""
        hello, kind = remote.pack(remote.Hello()), MessageType.QUERY
        if self._door is None:
            return self._message(node, hello, kind)
        token = secrets.token_bytes(32)
        self._invited[token] = node
        invitation = self._door[0] | {"token": token}
        return Message(content_of(hello, invitation), dst_node_id=node, message_type=kind)

    def _ask_nodes(self) -> None:
        """Ask nodes for their silos: new ones, and those that named none for a while."""
        now = time.monotonic()
        asked = [n for n in self._grid.get_node_ids() if self._due.get(n, now) <= now]
        self._due |= dict.fromkeys(asked, now + self._timeout / 3)
        self._open = {message: n for message, n in self._open.items() if n not in asked}
        self._open |= self._push([self._question(node) for node in asked], asked)

    def _met(self) -> set[str]:
        """Return the silos that said where they are, in a message or by a line."""
        met = set[str]()
        for node, letter in self._pulled(self._open):
            if (silo := remote.introduction_in(letter)) is not None:
                met.add(self._placed(silo, node))
            else:  # its gate may be there later
                self._due[node] = time.monotonic() + _AGAIN
        while not self._new.empty():
            node, silo, line = self._new.get()
            met.add(self._placed(silo, node))
            self._open = {message: n for message, n in self._open.items() if n != node}
            if silo.name in self._lines:
                self._lines[silo.name].close()
            self._lines[silo.name] = line
        return met

    def _placed(self, silo: remote.Introduction, node: int) -> str:
        """Note a silo's node; raise if two silos have its name: a restarted one has its memory."""
        if self._marks.setdefault(silo.name, silo.mark) != silo.mark:
            raise remote.SilosMissing(
                f"Two silos have the name {silo.name!r}, or one lost its memory. Each silo needs "
                "its own name, and has to keep the folder beside its ledger."
            )
        self._nodes[silo.name], self._due[node] = node, math.inf
        return silo.name


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
    if not made:
        check_fits_elsewhere(estimator)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        model: Any = estimator(config) if made else estimator
        check_fits_elsewhere(model)
        courier = FlowerCourier(grid, timeout=timeout, line=_said(line, config))
        federation = remote.RemoteFederation(
            courier,
            facts,
            classes=getattr(model, "classes", None),
            estimator=type(model).__name__,
            requester=requester,
            purpose=purpose,
            key=key,
            on_missing=on_missing,
            masked=masked,
            n_attempts=n_attempts,
            patience=patience,
            journal=_said(journal, config),
        )
        with closing(courier):
            finished(model.fit_federation(federation, facts), federation, config)

    return app


def _said(value: Any, config: Mapping[str, Any]) -> Any:
    """Return an argument, or what a function returns for a run."""
    return value(config) if callable(value) else value
