"""The server as a Flower app: it fits an estimator with the silos that it can reach.

Letters go by Flower; silos are known by name, whichever node they run on.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Literal

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from skdpfl._pipelines import check_fits_elsewhere
from skdpfl.federation import Schema
from skdpfl.flower._client import content_of, letter_in
from skdpfl.flower._lines import Door, OpenLine
from skdpfl.remote import (
    Courier,
    Hello,
    Introduction,
    RemoteFederation,
    SilosMissing,
    WireError,
    pack,
    unpack,
)

#: seconds between two looks for replies
_PAUSE = 0.3
#: the share of the timeout after which a letter is sent again: with keys a SuperNode that was
#: restarted is the same node, and what the old process had pulled is lost. A silo that is still at
#: work answers both alike.
_LATE = 0.25
#: seconds after which a silo is asked again whose gate was not there
_AGAIN = 3.0

#: answers by silo; None where its line is no more
Told = queue.SimpleQueue[tuple[str, bytes | None]]


class FlowerCourier(Courier):
    """Takes letters to silos that run as SuperNodes.

    A SuperNode that was restarted is another node with the same silo: nodes are asked for their
    silo's name before they get a letter, and again when an answer is missing.

    Parameters
    ----------
    grid : Grid
        What a ServerApp is given.
    timeout : float, default=60.0
        Seconds to wait for answers, and at first for silos. Nothing waits longer.
    line : str, optional
        ``host:port`` of the server, where silos' apps can reach it: each opens one line there, and
        a letter takes no message of Flower's. Where that fails, letters are messages.
    """

    def __init__(self, grid: Grid, *, timeout: float = 60.0, line: str | None = None) -> None:
        if not 0 < timeout < float("inf"):
            raise ValueError(f"timeout must be a finite number of seconds, got {timeout!r}.")
        self._grid, self._timeout = grid, timeout
        self._door = Door(line) if line else None
        #: of silos that opened one, their lines; of tokens, the nodes that were invited by them
        self._lines: dict[str, OpenLine] = {}
        self._invited: dict[bytes, int] = {}
        #: of each silo, its node and the mark of its memory
        self._nodes: dict[str, int] = {}
        self._marks: dict[str, str] = {}
        #: nodes that were asked for their silo's name, and the messages that ask
        self._seen: set[int] = set()
        self._open: dict[str, tuple[int, float]] = {}
        #: nodes whose answer named no silo, and when: their gate may be there later
        self._quiet: dict[int, float] = {}

    def deliver(self, letters: Mapping[str, bytes]) -> dict[str, bytes]:
        end = time.monotonic() + self._timeout
        self._moved()
        sent: dict[str, str] = {}
        answers: dict[str, bytes] = {}
        told: Told = queue.SimpleQueue()
        self._send(letters, sent, told)
        pushed = dict.fromkeys(letters, time.monotonic())
        while len(answers) < len(letters) and time.monotonic() < end:
            for name, letter in self._came(sent, told):
                if letter:
                    answers[name] = letter
                else:  # its gate is being started: soon it is late
                    pushed[name] = time.monotonic() - self._timeout * _LATE + _AGAIN
            if len(answers) == len(letters):
                break
            now, moved = time.monotonic(), self._moved()
            late = [n for n, when in pushed.items() if now - when > self._timeout * _LATE]
            again = {*moved, *late} & letters.keys() - answers.keys()
            self._send({name: letters[name] for name in sorted(again)}, sent, told)
            pushed |= dict.fromkeys(again, now)
        return answers

    def close(self) -> None:
        """Close lines: silos' apps end."""
        for line in self._lines.values():
            line.close()
        if self._door is not None:
            self._door.close()

    def _came(self, sent: dict[str, str], told: Told) -> list[tuple[str, bytes]]:
        """Return answers by silo, after a pause at most: empty ones where no gate is there."""
        heard = []
        with suppress(queue.Empty):
            heard.append(told.get(timeout=_PAUSE))
            while True:
                heard.append(told.get_nowait())
        for name, letter in heard:
            if letter is None:  # the line is no more: its node is invited again
                self._lines.pop(name, None)
                self._seen.discard(self._nodes.pop(name, -1))
        found = [(name, letter or b"") for name, letter in heard]
        for message in self._grid.pull_messages(list(sent)) if sent else []:
            silo = sent.pop(message.metadata.reply_to_message_id, None)
            if silo is not None:
                found.append((silo, letter_in(message)))
        return found

    def _send(self, letters: Mapping[str, bytes], sent: dict[str, str], told: Told) -> None:
        """Send letters: ``told`` gets answers of lines, ``sent`` then has each message's silo."""
        by_message = []
        for name in letters:
            if name in self._lines:
                self._lines[name].ask(letters[name], partial(_tell, told, name))
            elif name in self._nodes:
                by_message.append(name)
        train = MessageType.TRAIN
        messages = [self._message(self._nodes[n], letters[n], train) for n in by_message]
        sent |= self._push(messages, by_message)

    def _push(self, messages: Sequence[Message], to: Sequence[Any]) -> dict[str, Any]:
        """Push messages; return whom each is to. Those that Flower did not take are late."""
        ids = self._grid.push_messages(messages) if messages else []
        return {m: who for m, who in zip(ids, to, strict=True) if m is not None}

    def _message(self, node: int, letter: bytes, kind: str) -> Message:
        ttl = self._timeout  # later it is of no use to anybody
        return Message(content_of(letter), dst_node_id=node, message_type=kind, ttl=ttl)

    def _question(self, node: int) -> Message:
        """Return what asks a node who it is, and invites it to open a line."""
        hello, kind = pack(Hello()), MessageType.QUERY
        if self._door is None:
            return self._message(node, hello, kind)
        token, invitation = self._door.invitation()
        self._invited[token] = node
        return Message(content_of(hello, invitation), dst_node_id=node, message_type=kind)

    def _moved(self) -> list[str]:
        """Ask new nodes who they are; return the silos that answered from one."""
        new = [node for node in self._grid.get_node_ids() if node not in self._seen]
        now = time.monotonic()
        if new:
            asked = self._push([self._question(node) for node in new], new)
            self._open |= {message: (node, now) for message, node in asked.items()}
            self._seen |= set(new)
        found = self._met()
        for message in self._grid.pull_messages(list(self._open)) if self._open else []:
            asked_one = self._open.pop(message.metadata.reply_to_message_id, None)
            silo = _introduction_in(message)
            if asked_one is not None and silo is not None:
                self._check_new(silo)
                self._nodes[silo.name] = asked_one[0]
                found.append(silo.name)
            elif asked_one is not None:
                self._quiet[asked_one[0]] = now
        for late in [m for m, (_, when) in self._open.items() if now - when > self._timeout / 3]:
            self._seen.discard(self._open.pop(late)[0])  # it is asked once more
        for node in [n for n, when in self._quiet.items() if now - when > _AGAIN]:
            self._seen.discard(node)
            del self._quiet[node]
        return found

    def _met(self) -> list[str]:
        """Return the silos that opened a line meanwhile."""
        found: list[str] = []
        while self._door is not None and not self._door.met.empty():
            token, silo, line = self._door.met.get()
            self._check_new(silo)
            node = self._nodes[silo.name] = self._invited.pop(token)
            self._open = {m: asked for m, asked in self._open.items() if asked[0] != node}
            if silo.name in self._lines:
                self._lines[silo.name].close()
            self._lines[silo.name] = OpenLine(line, self._timeout)
            found.append(silo.name)
        return found

    def _check_new(self, silo: Introduction) -> None:
        """Raise if another silo has this name: one that was restarted has its memory."""
        if self._marks.setdefault(silo.name, silo.mark) != silo.mark:
            raise SilosMissing(
                f"Two silos call themselves {silo.name!r}, or one lost its memory: each silo has a "
                "name of its own, and keeps the folder beside its ledger."
            )


def _tell(told: Told, name: str, answer: bytes | None) -> None:
    told.put((name, answer))


def _introduction_in(message: Message) -> Introduction | None:
    """Return what a node's silo said of itself; None where it said something else."""
    try:
        letter = unpack(letter_in(message))
    except WireError:
        return None
    return letter if isinstance(letter, Introduction) else None


def server_app(
    estimator: Any,
    facts: Schema,
    *,
    finished: Callable[[Any, RemoteFederation, Mapping[str, Any]], None],
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
        What to fit; a function is given Flower's run config and returns it. Classifiers need
        ``classes``. Pipelines and searches are refused, with what to do instead.
    facts : Schema
        What is public of the silos' records, their names above all.
    finished : callable
        ``finished(estimator, federation, run_config)`` is called with the fitted estimator, to
        keep it, and with its :class:`~skdpfl.remote.RemoteFederation`.
    on_missing : {"fail", "skip"}, default="fail"
        What to do in a round without some silos' answers
        (:class:`skdpfl.remote.RemoteFederation`).
    masked : bool, default=False
        Show the server the sum of a round's messages only
        (:class:`skdpfl.remote.RemoteFederation`).
    timeout : float, default=60.0
        Seconds to wait for answers.
    n_attempts : int, default=3
        How often a letter is sent.
    patience : float, default=0.0
        Seconds to wait for silos where a person has to say yes to a fit.
    journal : path-like or function, optional
        A file for one fit: a run after a server was killed goes on with it
        (:class:`skdpfl.remote.RemoteFederation`). A function is given Flower's run config and
        returns the path.
    line : str or function, optional
        ``host:port`` of this server, to which silos can connect: each opens one line there
        (TLS) for the length of a fit, and a round takes a tenth of a second instead of Flower's
        eight. A function is given Flower's run config.

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
        federation = RemoteFederation(
            courier,
            facts,
            classes=getattr(model, "classes", None),
            estimator=type(model).__name__,
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
    """Return what was given, or what a function says for a run."""
    return value(config) if callable(value) else value
