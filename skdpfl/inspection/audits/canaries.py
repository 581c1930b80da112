"""Canaries: records with chosen gradients, the data around them, and what is observed.

An audit runs fits on ``AuditData``, the user's records or silos of given sizes, with canaries in
some silos. The target marks a record. ``SILENT`` records have gradient zero; a canary's gradient is
so long that it is clipped, and points along or against its features, for any model::

    dloss / draw_1 = 0, turn * HUGE or -turn * HUGE       for SILENT, PLUS, MINUS

A person who is a canary has ``ROWS`` records, by the coin; their gradients together are one
contribution.

``turn`` is +1 or -1 and may change from round to round: a worst-case record adapts to what was
released. All other code is that of a fit: batches, clipping, sums, noise, algorithm and mechanism.

``Watch`` is the back end of such a fit. It records what an adversary sees, in units in which a
canary's contribution to a release is about 1, for round r and silo i::

    along[r, i]    projection on the canary's gradient, times the round's turn
    across[r, i]   length of the rest of the message
    extra[r, i]    what is sent beside the message

With a trusted server or shuffler there is one release instead of the silos' messages (i = 0). If
silos share noise, it is the sum after the colluding silos have subtracted their messages, including
their noise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from skdpfl import federation
from skdpfl._arguments import advising, check_count, codes_of, refuse_sparse
from skdpfl.algorithms import Released, sends_one_gradient
from skdpfl.losses import Loss
from skdpfl.privacy.mechanisms import Aggregate
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.silos import read_persons, read_silos
from skdpfl.table import contributions

#: targets from here on mark records; single precision holds them exactly
SILENT, PLUS, MINUS = (2.0**22 + i for i in range(3))
#: slopes of canaries; tiny ones keep the direction of a message and take its norm
HUGE, TINY = 2.0**30, 2.0**-30
#: numbers of records of a person who is a canary, by the coin: the number is secret
ROWS = {False: 1, True: 5}
#: the size of the features of canaries: a record of norm far above any clip norm's reach
CANARY_SIZE = 1e3


@dataclass
class Turn:
    """The sign of canaries in the current round."""

    sign: float = 1.0


@dataclass(frozen=True)
class CanaryLoss(Loss):
    """A loss with the gradients of canaries for marked records, and unchanged for others.

    Parameters
    ----------
    inner : Loss
        The loss of records that are not marked.
    minus : float, default=HUGE
        The size of the slope of MINUS records.
    turn : Turn, optional
        The sign, which may be changed between rounds.
    """

    is_classifier = False
    inner: Loss
    minus: float = HUGE
    turn: Turn = field(default_factory=Turn)

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        """See `Loss.value`; marked records have value zero."""
        marked = y >= SILENT
        plain = np.where(marked, 0, y).astype(y.dtype)
        return np.where(marked, 0.0, self.inner.value(plain, raw, squared_norms=squared_norms))

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        """See `Loss.gradient`."""
        marked = y >= SILENT
        if marked.all():
            out = np.empty_like(raw) if out is None else out
        else:
            plain = np.where(marked, 0, y).astype(y.dtype)
            out = self.inner.gradient(plain, raw, squared_norms=squared_norms, out=out)
        slopes = np.array([0.0, HUGE, -self.minus]) * self.turn.sign
        out[marked] = 0
        out[..., 0][marked] = slopes[(y[marked] - SILENT).astype(int)]
        return out

    def lipschitz(self, n_outputs: int) -> float:
        """See `Loss.lipschitz`."""
        return HUGE

    def curvature(self, n_outputs: int) -> float:
        """See `Loss.curvature`."""
        return self.inner.curvature(n_outputs)


@dataclass(frozen=True)
class KeepsMarks:
    """A map of targets that leaves marked records as they are."""

    inner: federation.RecordMap

    def transform(self, values: NDArray) -> NDArray:
        """Return the mapped targets."""
        marked = values >= SILENT
        return np.where(marked, values, self.inner.transform(np.where(marked, 0, values)))


#: silos' records and streams -> a back end
BackEnd = Callable[[federation.SiloData, Streams], federation.Federation]


def shuffles_records(plan: PrivacyPlan) -> bool:
    """Whether the server sees single records' noised messages, shuffled."""
    if plan.trust != "shuffler" or plan.mechanism.noised_later:
        return False
    return bool((plan.expected_sizes == 1).all())


@dataclass
class Observed:
    """The releases of one fit; see the module's docstring."""

    along: np.ndarray
    across: np.ndarray
    extra: np.ndarray
    answers: list[np.ndarray] = field(default_factory=list)
    #: (n_rounds, n_silos) of a shuffler whose messages are single records', else (n_rounds, 0)
    messages: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class AuditedFit:
    """The setting of an audited fit: records, canaries' features, missing silos, and the view.

    ``asked`` are the records for sums before the rounds, ``records`` those of the rounds; ``rows``
    (m, n_features) are the canaries' features.
    """

    asked: federation.SiloData
    records: federation.SiloData
    rows: np.ndarray
    absent: np.ndarray
    aggregate: bool
    turns: bool
    silo: int


class Watch(federation.Federation):
    """The silos of a fit under audit."""

    def __init__(
        self, fit: AuditedFit, streams: Streams, back_end: BackEnd = federation.LocalFederation
    ) -> None:
        self._fit, self._clip, self._streams = fit, np.inf, streams
        self._asked = back_end(fit.asked, streams)
        self._silos = back_end(fit.records, streams)
        self._answers: list[np.ndarray] = []

    @property
    def n_silos(self) -> int:
        return self._silos.n_silos

    @property
    def rows(self) -> np.ndarray:
        """The canaries' features (m, n_features)."""
        return self._fit.rows

    def ask(self, question: federation.Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        table = np.zeros((self.n_silos, 0))  # one for each question, in however many parts it comes
        for silos, answers in self._asked.ask(question):
            if not table.size:
                table = np.zeros((self.n_silos, answers.shape[1]))
                self._answers.append(table)
            table[silos] = answers
            yield silos, answers

    def start(self, work: federation.Work) -> None:
        fit, gaussian = self._fit, work.plan.mechanism.gaussian
        self._loss = CanaryLoss(work.loss, HUGE if gaussian else TINY)
        target = None if work.target is None else KeepsMarks(work.target)
        self.work = work
        self._silos.start(replace(work, loss=self._loss, target=target))
        self.directions = self._gradients(work)
        plan, n_seen = work.plan, 1 if fit.aggregate else self.n_silos
        shape = plan.n_rounds, n_seen
        many = len(fit.rows) if len(fit.rows) > 1 else 0
        self.seen = Observed(
            np.zeros((*shape, many) if many else shape),
            np.zeros(shape),
            np.zeros((*shape, plan.mechanism.n_extra + 2 * fit.aggregate)),
            self._answers,
        )
        # loud, and at times with nothing to say: a squared norm that is released tells that
        quiet = self._fit.aggregate and plan.unit == "silo" and plan.mechanism.n_extra
        self._turns = ((1.0, -1.0, 1.0, 0.0) if quiet else (1.0, -1.0)) if fit.turns else (1.0,)
        self._shuffled = fit.aggregate and shuffles_records(plan)
        if self._shuffled:
            self.seen.messages = np.full((plan.n_rounds, self.n_silos), np.nan)
        if plan.unit != "silo":
            self._in_message = plan.expected_sizes / plan.clip_norm
            self._in_release = 1 / (plan.record_shares * plan.clip_norm)
        else:
            # whole silos send how far they moved, against the gradient
            self._in_message, self._in_release = -np.ones(self.n_silos), -1 / plan.weights

    def _gradients(self, work: federation.Work) -> np.ndarray:
        """Return the directions of canaries' gradients (m, size), of norm about one."""
        X = np.asarray(self._fit.rows, work.dtype)
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
        on_grid = self.work.plan.mechanism.shared
        self._cohort, self._left = cohort, np.zeros(1, np.int64)
        others = cohort[cohort != self._fit.silo]
        colluding = others[: self.work.plan.colluding]
        for silos, messages in self._silos.round(round, shared, cohort, clip_norm):
            gone = self._fit.absent[silos]
            if gone.any():  # nothing but noise, where silos share it
                zeros = np.zeros_like(messages[gone])
                address = "share", silos[gone], round, zeros.shape[1:], np.float64
                messages[gone] = self._streams.units_block(*address) if on_grid else zeros
            if on_grid:
                honest = messages[~np.isin(silos, colluding)]
                self._left = self._left + honest.sum(axis=0)
            if not self._fit.aggregate:
                scale = self._in_message[silos, None] / self._clip
                self._write(round, silos, messages, scale)
            elif self._shuffled:
                along = (messages - self._public) @ self.directions[0] * self._in_message[silos]
                self.seen.messages[round, silos] = along * self._loss.turn.sign
            yield silos, messages

    def on_release(self, round: int, released: Released) -> None:
        if self._fit.aggregate:
            scale = released.sampled * self._in_release[self._fit.silo] / self._clip
            if self.work.plan.mechanism.shared:
                released = self._without_colluders(round, released)
            extra = [released.squared_norm / self._clip, released.unclipped]
            row = np.concatenate([released.mean, np.nan_to_num(extra)])
            self._write(round, np.zeros(1, int), row[None], scale)

    def _without_colluders(self, round: int, released: Released) -> Released:
        """Return a release minus the colluding silos' messages."""
        plan, size = self.work.plan, self.work.model.size
        left = Aggregate(self._left, released.sampled, self._clip, len(self._cohort))
        mean = plan.mechanism.release(plan, left, round, self._streams)
        more = plan.mechanism.statistics(plan, mean[size:], self._clip)
        return Released(mean[:size] + self._public, released.fraction, released.sampled, *more)

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


@dataclass(frozen=True, eq=False)
class AuditData:
    """Records silo by silo: ``X``, coded targets ``y``, the silos' first rows, and their ids.

    ``of_row`` (n,) numbers their persons, silo by silo; None: each record is of its own.
    """

    X: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    ids: Sequence[Any]
    #: whether the records are the user's; others have gradients of zero
    of_user: bool
    names: Sequence[str] | None = None
    of_row: np.ndarray | None = None

    @cached_property
    def firsts(self) -> np.ndarray:
        """The first row of each record (or person)."""
        if self.of_row is None:
            return np.arange(len(self.y))
        return np.unique(self.of_row, return_index=True)[1]

    @property
    def begins(self) -> np.ndarray:
        """Silo i has the records (or persons) ``begins[i]`` to ``begins[i + 1]``."""
        return np.searchsorted(self.firsts, self.starts)

    @property
    def sizes(self) -> np.ndarray:
        """The silos' numbers of records (or persons)."""
        return np.diff(self.begins)

    @property
    def schema(self) -> federation.Schema:
        """The public facts."""
        sizes = dict(zip(self.ids, self.sizes.tolist(), strict=True))
        return federation.Schema(sizes, self.X.shape[1], feature_names=self.names)

    def fit_with(
        self,
        unit: str,
        coins: dict[int, list[bool]],
        *,
        zero_out: bool,
        aggregate: bool,
        turns: bool,
        loud_others: bool = False,
    ) -> AuditedFit:
        """Return one fit: ``coins`` are those of each attacked silo's canaries.

        ``loud_others``: records that are not the user's have the canary's gradient instead of zero,
        among which a message with another direction is hidden least.
        """
        X, y = self.X.copy(), self.y.astype(float)
        absent, rows = np.zeros(len(self.ids), bool), self._rows(max(map(len, coins.values())))
        asked, times, persons = self.X.copy(), np.ones(len(y), int), unit == "person"
        if not self.of_user:
            y[:] = PLUS if loud_others else SILENT
            X[:] = rows[0] if loud_others else X
        for silo, flips in coins.items():
            start, stop = self.starts[silo], self.starts[silo + 1]
            if unit == "silo":
                absent[silo] = zero_out and not flips[0]
                X[start:stop], y[start:stop] = rows[0], PLUS if flips[0] else MINUS
                continue
            for j, flip in enumerate(flips):
                unit_of = int(self.begins[silo]) + j
                row = self.firsts[unit_of]
                X[row] = rows[j]
                y[row] = PLUS if flip else SILENT if zero_out else MINUS
                asked[row] = (2 * flip - (not zero_out or flip)) * CANARY_SIZE * CANARY_SIZE
                if persons:
                    times[self._persons == unit_of] = 0
                    times[row] = ROWS[flip]
        plain = self._data(asked, self.y, times, persons)
        played = self._data(X, y, times, persons)
        return AuditedFit(plain, played, rows, absent, aggregate, turns, next(iter(coins)))

    @property
    def _persons(self) -> np.ndarray:
        return np.arange(len(self.y)) if self.of_row is None else self.of_row

    def _data(
        self, X: np.ndarray, y: np.ndarray, times: np.ndarray, persons: bool
    ) -> federation.SiloData:
        """Return a fit's records, each repeated ``times``; with their persons, if protected."""
        if not persons:
            return federation.SiloData(X, y, self.starts)
        rows = np.repeat(np.arange(len(y)), times)
        codes = np.repeat(np.arange(len(self.ids)), np.diff(self.starts))[rows]
        whose = self._persons[rows]
        return federation.SiloData.from_codes(X[rows], y[rows], codes, len(self.ids), of_row=whose)

    def _rows(self, m: int) -> np.ndarray:
        """Return the orthogonal features (m, n_features) of canaries."""
        if not self.of_user:
            return np.eye(m, self.X.shape[1]) * CANARY_SIZE
        # where the given records vary least
        axes = np.linalg.svd(self.X - self.X.mean(axis=0), full_matrices=True)[2]
        return axes[::-1][:m] * CANARY_SIZE * max(1.0, float(np.abs(self.X).max()))


def table_of(X: Any, y: Any = None) -> np.ndarray:
    """Return the user's features as numbers, or raise."""
    refuse_sparse(X)
    with advising(X, y):
        table: np.ndarray = check_array(X, dtype=np.float64, input_name="X")
    return table


def like(X: Any, table: np.ndarray) -> Any:
    """Return a table as a frame with the names of X, if X has some."""
    named = isinstance(X, pd.DataFrame)
    return pd.DataFrame(table, index=X.index, columns=X.columns) if named else table


def data_of_sizes(silo_sizes: Any, n_features: Any) -> AuditData:
    """Return silos of given sizes, whose records have gradient zero."""
    if silo_sizes is None or n_features is None:
        raise ValueError(
            "An audit needs silo_sizes and n_features, for worst-case records; or X, y and silos."
        )
    named = pd.Series(silo_sizes, dtype=object)
    sizes = np.array([check_count(f"silo_sizes[{silo!r}]", n) for silo, n in named.items()])
    width = check_count("n_features", n_features)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n = int(starts[-1])
    return AuditData(np.zeros((n, width)), np.zeros(n), starts, named.index.tolist(), False)


def read_users_data(
    X: Any, y: Any, silos: Any, classes: np.ndarray | None, persons: Any = None
) -> AuditData:
    """Return the user's records, silo by silo."""
    table, target = table_of(X, y), np.asarray(y)
    read = read_silos(silos, len(table), X)
    codes = target.astype(float) if classes is None else codes_of(target, classes)
    if classes is None and np.abs(codes).max() >= SILENT:
        raise ValueError(f"An audit needs targets below {SILENT:g}; scale y, and target_bounds.")
    of_row = contributions(read_persons(persons, len(table), X), read, len(read.ids))[0]
    order = np.argsort(read.codes if of_row is None else of_row, kind="stable")
    of_row = None if of_row is None else of_row[order]
    starts = np.concatenate([[0], np.cumsum(read.sizes)])
    ids, names = read.ids.tolist(), X.columns.tolist() if isinstance(X, pd.DataFrame) else None
    return AuditData(table[order], codes[order].astype(float), starts, ids, True, names, of_row)
