"""A back end that plays canaries and writes down what an adversary sees.

In units in which a canary's contribution to a release is about 1, for round r and silo i::

    along[r, i]    projection on the canary's gradient, times the round's turn
    across[r, i]   length of the rest of the message
    extra[r, i]    what is sent beside the message

Under a trusted server or shuffler there is one release in place of the silos' messages (i = 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skdpfl.algorithms import Released, sends_one_gradient
from skdpfl.federation import Federation, LocalFederation, Question, SiloData, Work
from skdpfl.inspection.audits.canaries import HUGE, PLUS, TINY, CanaryLoss, KeepsMarks
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams

#: silos' records and streams -> a back end
BackEnd = Callable[[SiloData, Streams], Federation]


def shuffles_records(plan: PrivacyPlan) -> bool:
    """Whether the server sees single records' noised messages, shuffled."""
    if plan.trust != "shuffler" or plan.mechanism.noised_later:
        return False
    return bool((plan.expected_sizes == 1).all())


@dataclass
class Seen:
    """What was released in one fit; see the module."""

    along: np.ndarray
    across: np.ndarray
    extra: np.ndarray
    answers: list[np.ndarray] = field(default_factory=list)
    #: (n_rounds, n_silos) of a shuffler whose messages are single records', else (n_rounds, 0)
    messages: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class Stage:
    """Where a fit is played: records, canaries' features, who is absent, and who looks.

    ``asked`` are the records that questions before the rounds are answered from, ``records`` those
    of the rounds; ``rows`` (m, n_features) are the canaries' features.
    """

    asked: SiloData
    records: SiloData
    rows: np.ndarray
    absent: np.ndarray
    aggregate: bool
    turns: bool
    silo: int


class Watch(Federation):
    """The silos of a fit under audit."""

    def __init__(self, stage: Stage, streams: Streams, back_end: BackEnd = LocalFederation) -> None:
        self._stage, self._clip = stage, np.inf
        self._asked = back_end(stage.asked, streams)
        self._silos = back_end(stage.records, streams)
        self._answers: list[np.ndarray] = []

    @property
    def n_silos(self) -> int:
        return self._silos.n_silos

    @property
    def rows(self) -> np.ndarray:
        """The canaries' features (m, n_features)."""
        return self._stage.rows

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for silos, answers in self._asked.ask(question):
            table = np.zeros((self.n_silos, answers.shape[1]))
            table[silos] = answers
            self._answers.append(table)
            yield silos, answers

    def start(self, work: Work) -> None:
        stage, gaussian = self._stage, work.plan.mechanism.gaussian
        self._loss = CanaryLoss(work.loss, HUGE if gaussian else TINY)
        target = None if work.target is None else KeepsMarks(work.target)
        self.work = work
        self._silos.start(replace(work, loss=self._loss, target=target))
        self.directions = self._gradients(work)
        plan, n_seen = work.plan, 1 if stage.aggregate else self.n_silos
        shape = plan.n_rounds, n_seen
        many = len(stage.rows) if len(stage.rows) > 1 else 0
        self.seen = Seen(
            np.zeros((*shape, many) if many else shape),
            np.zeros(shape),
            np.zeros((*shape, plan.mechanism.n_extra + 2 * stage.aggregate)),
            self._answers,
        )
        # loud, and at times with nothing to say: a squared norm that is released tells that
        quiet = self._stage.aggregate and plan.unit == "silo" and plan.mechanism.n_extra
        self._turns = ((1.0, -1.0, 1.0, 0.0) if quiet else (1.0, -1.0)) if stage.turns else (1.0,)
        self._shuffled = stage.aggregate and shuffles_records(plan)
        if self._shuffled:
            self.seen.messages = np.full((plan.n_rounds, self.n_silos), np.nan)
        if plan.unit == "record":
            self._in_message = plan.expected_sizes / plan.clip_norm
            self._in_release = 1 / (plan.record_shares * plan.clip_norm)
        else:
            # whole silos send how far they moved, against the gradient
            self._in_message, self._in_release = -np.ones(self.n_silos), -1 / plan.weights

    def _gradients(self, work: Work) -> np.ndarray:
        """Return the directions of canaries' gradients (m, size), of norm about one."""
        X = np.asarray(self._stage.rows, work.dtype)
        if work.features is not None:
            X = np.ascontiguousarray(work.features.transform(X))
        y = np.full(len(X), PLUS, work.target_dtype or np.int64)
        params = work.model.init(None, work.dtype)
        norms = work.model.squared_row_norms(X)
        return np.stack(
            [
                work.model.clipped_gradient_sum(
                    params,
                    X[i : i + 1],
                    y[i : i + 1],
                    self._loss,
                    clip_norm=1.0,
                    squared_norms=norms[i : i + 1],
                ).astype(float)
                for i in range(len(X))
            ]
        )

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        self._clip = clip_norm if self.work.plan.unit == "silo" else 1.0
        self._loss.turn.sign = self._turns[round % len(self._turns)]
        plain = self.work.alpha and sends_one_gradient(self.work.algorithm)
        self._public = self.work.penalty * shared if plain else np.zeros(1)
        for silos, messages in self._silos.round(round, shared, cohort, clip_norm):
            gone = self._stage.absent[silos]
            messages = np.where(gone[:, None], 0.0, messages) if gone.any() else messages
            if not self._stage.aggregate:
                scale = self._in_message[silos, None] / self._clip
                self._write(round, silos, messages, scale)
            elif self._shuffled:
                along = (messages - self._public) @ self.directions[0] * self._in_message[silos]
                self.seen.messages[round, silos] = along * self._loss.turn.sign
            yield silos, messages

    def on_release(self, round: int, released: Released) -> None:
        if self._stage.aggregate:
            scale = released.sampled * self._in_release[self._stage.silo] / self._clip
            extra = [released.squared_norm / self._clip, released.unclipped]
            row = np.concatenate([released.mean, np.nan_to_num(extra)])
            self._write(round, np.zeros(1, int), row[None], scale)

    def _write(self, round: int, who: np.ndarray, messages: np.ndarray, scale: Any) -> None:
        size = self.directions.shape[1]
        vectors = (np.asarray(messages[:, :size], float) - self._public) * scale
        along = vectors @ self.directions.T
        if self.seen.along.ndim == 2:
            along = along[:, 0]
            rest = np.square(vectors).sum(axis=1) - np.square(along)
            self.seen.across[round, who] = np.sqrt(np.maximum(rest, 0.0))
        self.seen.along[round, who] = along * self._loss.turn.sign
        rest = messages[:, size:] * scale
        self.seen.extra[round, who, : rest.shape[1]] = rest[:, : self.seen.extra.shape[2]]
