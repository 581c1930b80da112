"""Letters by Flower: silos are known by name, whichever node they run on."""

from __future__ import annotations

import time
from collections.abc import Mapping

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from skdpfl.flower._client import content_of, letter_in
from skdpfl.remote import Courier, Hello, Introduction, SilosMissing, WireError, pack, unpack

#: seconds between two looks for replies
_PAUSE = 0.3
#: the share of the timeout after which a letter is sent again: with keys a SuperNode that was
#: restarted is the same node, and what the old process had pulled is lost. A silo that is still at
#: work answers both alike.
_LATE = 0.25
#: seconds after which a silo is asked again whose gate was not there
_AGAIN = 3.0


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
    """

    def __init__(self, grid: Grid, *, timeout: float = 60.0) -> None:
        if not 0 < timeout < float("inf"):
            raise ValueError(f"timeout must be a finite number of seconds, got {timeout!r}.")
        self._grid, self._timeout = grid, timeout
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
        self._send({n: v for n, v in letters.items() if n in self._nodes}, sent)
        pushed = dict.fromkeys(letters, time.monotonic())
        while len(answers) < len(letters) and time.monotonic() < end:
            for message in self._grid.pull_messages(list(sent)):
                name = sent.pop(message.metadata.reply_to_message_id, None)
                if name is not None and (letter := letter_in(message)):
                    answers[name] = letter
                elif name is not None:  # its gate is being started: soon it is late
                    pushed[name] = time.monotonic() - self._timeout * _LATE + _AGAIN
            now, moved = time.monotonic(), self._moved()
            late = [n for n, when in pushed.items() if now - when > self._timeout * _LATE]
            again = {*moved, *(n for n in late if n in self._nodes)} & letters.keys()
            again -= answers.keys()
            self._send({name: letters[name] for name in sorted(again)}, sent)
            pushed |= dict.fromkeys(again, now)
            time.sleep(_PAUSE)
        return answers

    def _send(self, letters: Mapping[str, bytes], sent: dict[str, str]) -> None:
        """Push letters; ``sent`` then has each message's silo."""
        messages = [self._message(self._nodes[n], letters[n], MessageType.TRAIN) for n in letters]
        if messages:
            sent.update(zip(self._grid.push_messages(messages), letters, strict=True))

    def _message(self, node: int, letter: bytes, kind: str) -> Message:
        ttl = self._timeout  # later it is of no use to anybody
        return Message(content_of(letter), dst_node_id=node, message_type=kind, ttl=ttl)

    def _moved(self) -> list[str]:
        """Ask new nodes who they are; return the silos that answered from one."""
        new = [node for node in self._grid.get_node_ids() if node not in self._seen]
        hello = pack(Hello())
        messages = [self._message(node, hello, MessageType.QUERY) for node in new]
        now = time.monotonic()
        if messages:
            asked = zip(self._grid.push_messages(messages), new, strict=True)
            self._open |= {message: (node, now) for message, node in asked}
            self._seen |= set(new)
        found = []
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

    def _check_new(self, silo: Introduction) -> None:
        """Raise if another silo has this name: one that was restarted has its memory."""
        if self._marks.setdefault(silo.name, silo.mark) != silo.mark:
            raise SilosMissing(
                f"Two silos call themselves {silo.name!r}, or one lost its memory: each silo has a "
                "name of its own, and keeps the folder beside its ledger."
            )


def _introduction_in(message: Message) -> Introduction | None:
    """Return what a node's silo said of itself; None where it said something else."""
    try:
        letter = unpack(letter_in(message))
    except WireError:
        return None
    return letter if isinstance(letter, Introduction) else None
