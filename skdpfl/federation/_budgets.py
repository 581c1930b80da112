"""Sizes and budgets of silos, and the noise of a common mean.

A budget is given as Gaussian-DP ``mu``: a release of replace-one sensitivity ``D`` with noise of
standard deviation ``D / mu``. Budgets add in squares. Spending the share ``s`` of each silo's mu on
a sum whose sensitivity is ``D`` gives the mean over all records, with weights ``w_i``::

    trust "silo"     silo i adds D / (s mu_i) to its sum,  w_i ~ n_i mu_i^2
                     -> noise D sqrt(sum_i (w_i / (s mu_i n_i))^2)
    trust "server"   noise is added once, for the smallest mu,  w_i ~ n_i
                     -> noise D / (s mu N)
    trust "secagg"   likewise, in M shares of which M - t have to suffice
                     -> noise D / (s mu N) sqrt(M / (M - t))
    unit "silo"      the same with n_i = 1: a silo sends the mean over its records

Noise is least for w_i ~ (n_i mu_i)^2; but silos' data differ, and with equal budgets the mean
should be that over all records. On four tables in which one silo had a tenth of the others' budget,
n_i mu_i^2 was better than n_i mu_i, by less than the standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from skdpfl.privacy.events import Guarantee, Guaranteed

#: numbers per product
NUMBERS_A_PRODUCT = 2**16


@dataclass(frozen=True, eq=False)
class SiloBudgets(Guaranteed):
    """Public numbers of silos: sizes (M,), budgets mu (M,), and the guarantee of their sums.

    Unit "record": each silo reads every ``every``-th of its records, starting with the first. Unit
    "person": sizes are numbers of persons, all of whose records are read. Unit "silo": sizes are
    secret and not used; a silo reads at most ``most`` of its records, evenly spaced (None: all),
    which does not affect privacy since it sends their mean. With ``trust="shuffler"`` each silo
    adds its own noise, as with "silo". If silos share noise, ``spare`` sums of a plan (0 or 1) may
    be repeated if a silo did not answer.
    """

    silo_sizes: np.ndarray
    mu: np.ndarray
    guarantee: Guarantee = field(default_factory=Guarantee)
    every: int = 1
    most: int | None = None
    spare: int = 0

    @classmethod
    def of(
        cls, guarantee: Guarantee, silo_sizes: ArrayLike, mu: ArrayLike, spare_rounds: int = 0
    ) -> SiloBudgets:
        """Return budgets for a guarantee; ``mu`` is one for all silos, or one for each."""
        sizes = np.array(silo_sizes)  # a copy, as plans are immutable
        budgets = np.full(sizes.shape, mu, np.float64)
        return cls(sizes, budgets, guarantee, spare=min(spare_rounds, 1))

    def of_silo(self, i: int) -> SiloBudgets:
        """Return the budgets of one silo, if each adds its own noise."""
        return replace(self, silo_sizes=self.silo_sizes[i : i + 1], mu=self.mu[i : i + 1])

    @property
    def n_silos(self) -> int:
        """The number of silos."""
        return len(self.silo_sizes)

    @property
    def as_one(self) -> bool:
        """Whether only the sum over all silos has noise: from the server, or in shares."""
        return self.trust == "server" or self.shares_noise

    @property
    def excess(self) -> float:
        """The noise of a sum over that of a trusted server: more if silos share it.

        How a budget is split depends on a trusted server's noise, so a fit's sums have about this
        many times its noise (exactly, where no choice depends on the noise itself).
        """
        if not self.shares_noise:
            return 1.0
        return math.sqrt(self.n_silos / max(1, self.n_silos - self.colluding))

    @property
    def event_share(self) -> float:
        """A silo's mu over that of a sum, for a person in k silos whose terms are in one sum.

        Together the terms cost k mu, as k releases of sqrt(k) mu do.
        """
        return math.sqrt(min(self.silos_per_person, self.n_silos)) if self.as_one else 1.0

    @cached_property
    def spends(self) -> np.ndarray:
        """The mu that each silo spends: its own, or the smallest if there is one common noise."""
        return np.full(self.n_silos, self.mu.min()) if self.as_one else self.mu

    @cached_property
    def units(self) -> np.ndarray:
        """The number of protected units in a silo's message."""
        if self.unit == "silo":
            return np.ones(self.n_silos)
        return np.ceil(np.asarray(self.silo_sizes) / self.every)

    @cached_property
    def summed(self) -> np.ndarray:
        """The number of units in the sum that gets noise: a silo's, or all (n_silos,)."""
        return np.full(self.n_silos, self.units.sum()) if self.as_one else self.units

    def strides(self, sizes: np.ndarray) -> np.ndarray:
        """The step between the records that each silo reads, given its true size."""
        if self.unit != "silo" or self.most is None:
            return np.full(self.n_silos, self.every)
        return -(-sizes // self.most)

    @cached_property
    def weights(self) -> np.ndarray:
        """Each silo's weight in the common mean; they sum to 1.

        An infinite budget counts like the largest finite one.
        """
        finite = self.spends[np.isfinite(self.spends)]
        most = finite.max() if finite.size else 1.0
        mu = np.minimum(self.spends, most)
        amount = mu * self.units * (mu / most)
        return amount / amount.sum()

    def noise_of_mean(self, scales: np.ndarray) -> float:
        """Standard deviation of the noise in the common mean, given that of each silo's sum.

        If only the sum over all silos has noise, ``scales`` repeats its scale.
        """
        if self.as_one:
            return float(scales[0] / self.units.sum())
        parts = self.weights * scales / self.units
        return float(np.sqrt(parts @ parts))


def sum_in_order(weights: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """Return the :class:`CohortSum` of all messages (n, width), in the order of the silos."""
    n, width = messages.shape
    rows, total = max(1, NUMBERS_A_PRODUCT // width), np.zeros(width)
    for i in range(0, n, rows):
        total += weights[i : i + rows] @ np.ascontiguousarray(messages[i : i + rows], np.float64)
    return total


class CohortSum:
    """The weighted sum of a cohort's messages, bit for bit whatever their order of arrival.

    The cohort is split into pieces of consecutive silos, whose lengths depend only on its size and
    the length of messages. A piece is added when all its messages have arrived, in one product in
    double precision, and pieces are added in order. If messages arrive in the order of the silos,
    one piece is held at a time; otherwise pieces wait for missing messages.

    Parameters
    ----------
    cohort : ndarray of shape (n,)
        The silos, increasing.
    weights : ndarray of shape (n,)
        Their weights.
    width : int
        The length of a message.
    """

    def __init__(self, cohort: np.ndarray, weights: np.ndarray, width: int) -> None:
        self._cohort, self._weights, self._width = cohort, weights, width
        self._rows = max(1, NUMBERS_A_PRODUCT // width)
        self._came: np.ndarray | None = None
        self._missing = len(cohort)
        #: incomplete pieces with their number of missing messages; sums of pieces that wait
        self._open: dict[int, tuple[np.ndarray, int]] = {}
        self._waiting: dict[int, np.ndarray] = {}
        self._total, self._next = np.zeros(width), 0

    def add(self, silos: np.ndarray, messages: np.ndarray) -> None:
        """Add the messages (n, width) of some of the silos."""
        cohort = self._cohort
        alone = self._missing == len(cohort) == len(silos)
        if alone and (silos is cohort or np.logical_and.reduce(silos == cohort)):
            self._missing, self._total = 0, sum_in_order(self._weights, messages)
            return
        places = self._places(silos)
        pieces, rising = places // self._rows, (places[1:] > places[:-1]).all()
        for piece in sorted(set(pieces.tolist())):
            mine = slice(*pieces.searchsorted([piece, piece + 1])) if rising else pieces == piece
            self._fill(piece, places[mine] - piece * self._rows, messages[mine])

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the sum."""
        return self._total.dtype

    def result(self) -> np.ndarray:
        """Return the sum; raise if a silo's message is missing."""
        if self._missing:
            raise ValueError(f"{self._missing} of the cohort's silos sent no message.")
        return self._total

    def _places(self, silos: np.ndarray) -> np.ndarray:
        """Return the silos' positions in the cohort, and mark them as received."""
        cohort, places = self._cohort, np.searchsorted(self._cohort, silos)
        if self._came is None:
            self._came = np.full(len(cohort), not self._missing)
        came = self._came
        if (places == len(cohort)).any() or (cohort[places] != silos).any():
            raise ValueError("A message came from a silo outside the cohort.")
        rising = (places[1:] > places[:-1]).all()
        if came[places].any() or not (rising or len(np.unique(places)) == len(places)):
            raise ValueError("A silo sent two messages in one round.")
        came[places] = True
        self._missing -= len(places)
        return places

    def _fill(self, piece: int, rows: np.ndarray, messages: np.ndarray) -> None:
        """Put messages into their piece; add it, and those that waited for it, once complete."""
        weights = self._weights[piece * self._rows : (piece + 1) * self._rows]
        if piece not in self._open and np.array_equal(rows, np.arange(len(weights))):
            table, missing = np.ascontiguousarray(messages, np.float64), len(weights)
        else:
            empty = np.empty((len(weights), self._width)), len(weights)
            table, missing = self._open.pop(piece, empty)
            table[rows] = messages
        if missing > len(rows):
            self._open[piece] = table, missing - len(rows)
            return
        self._waiting[piece] = weights @ table
        while self._next in self._waiting:
            self._total += self._waiting.pop(self._next)
            self._next += 1


class GridSum(CohortSum):
    """The sum modulo 2^64 of a cohort's messages on one grid, int64: exact in any order."""

    def __init__(self, cohort: np.ndarray, width: int) -> None:
        super().__init__(cohort, np.ones(len(cohort)), width)
        self._total = np.zeros(width, np.int64)

    def add(self, silos: np.ndarray, messages: np.ndarray) -> None:
        if messages.dtype != np.int64:
            raise TypeError(f"Messages on a grid must be int64; got {messages.dtype}.")
        self._places(silos)
        self._total += messages.sum(axis=0)
