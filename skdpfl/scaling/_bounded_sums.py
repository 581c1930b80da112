"""Noisy sums of one bounded number of each record, asked for after training.

::

    c_j    a record's term: |c_j| <= c, a multiple of 2^-20, computed from the record alone
    S_i    = sum of c_j over silo i's records + noise of its own
    m      = sum_i w_i S_i / n_i          w_i ~ n_i, the same as in scales

**Formal guarantee.** Let D be 2 where a record is replaced and 1 where its contribution is set to
zero. c_j is a function of record j and of what was released before (the model, the scales, earlier
answers), and |c_j| <= c, so between neighbours sum_j c_j moves by at most D c: a record's term is
replaced, or becomes 0. All terms are multiples of 2^-20 and at most 4, so float64 adds up 2^31 of
them without rounding, in any order. Sum and noise are added on one grid, and the grid's step and
the divisions by public numbers are part of the noise (:func:`skdpfl.privacy.release.noise_for`). So
each S_i (with ``trust="server"``: their one sum, whose terms move alike) is a Gaussian mechanism of
noise multiplier D / (share mu_i), as ``composition`` tells the accountant, and everything later is
computed from such sums and public numbers. A silo's sums depend on other silos' records only
through what these released, so the guarantee holds whatever they hold.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from skdpfl.privacy.events import Composition, Exact, Gaussian
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE, NoisedSum, grid_for, noise_for, relative_error
from skdpfl.scaling._maps import Array
from skdpfl.scaling._setting import Setting

#: the largest cut, and what all terms are multiples of
MOST, STEP = 4.0, 2.0**-20

#: silos, and what each sends (n, 1); in any order and pieces
Answers = Iterable[tuple[np.ndarray, Array]]


@dataclass(frozen=True, eq=False)
class BoundedSums(ABC):
    """The releases of sums of bounded terms, and their cost, from public numbers.

    Parameters
    ----------
    setting : Setting
        Silo sizes, budgets as mu, trust and relation; records are protected.
    """

    setting: Setting
    #: what the releases are for, and the name of their random streams
    purpose: ClassVar[str]
    #: how many there are, and the part of mu that each of them spends
    evaluations: ClassVar[int]
    share: ClassVar[float]

    @property
    @abstractmethod
    def cut(self) -> float:
        """c, a public number of at most `MOST`."""

    @abstractmethod
    def of_silo(self, i: int) -> Self:
        """Return what one silo needs to know of the plan."""

    def composition(self, silo: int) -> Composition:
        """The releases of the silo at this position, for the accountant."""
        mu = float(self._mu[silo])
        event = Exact() if math.isinf(mu) else Gaussian(self._change / mu)
        return ((event, self.evaluations),)

    @cached_property
    def _mu(self) -> Array:
        """The mu that each silo spends on each evaluation, at most 1."""
        mu = self.setting.spends
        return np.where(np.isfinite(mu), np.minimum(self.share * mu, 1.0), np.inf)

    @property
    def _change(self) -> float:
        """D."""
        return 2.0 if self.setting.neighbours == "replace" else 1.0

    def _std(self, cut: float) -> Array:
        """Standard deviations of the noises (n_silos,) for terms within ``cut``; 0: none."""
        units = self.setting.units
        most = units.sum() if self.setting.at_server else units
        error = np.broadcast_to(relative_error((2, DOUBLE)) * cut * most, units.shape)
        return noise_for(self._mu, self._change * cut, 1, error)

    @cached_property
    def noised(self) -> NoisedSum:
        """The noised sum of each silo, or at the server, (n_silos,)."""
        std, units = self._std(self.cut), self.setting.units
        bounds = self.cut * (np.full(units.shape, units.sum()) if self.setting.at_server else units)
        pairs = zip(std.tolist(), bounds.tolist(), strict=True)
        return NoisedSum(std, np.array([grid_for(s, b) if s else 0.0 for s, b in pairs]))

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a mean."""
        return self.setting.noise_of_mean(self.noised.std)

    def answers(self, silos: np.ndarray, exact: Array, streams: Streams, number: int) -> Array:
        """Return what silos send (n,) of their exact sums: noised, unless the server does that."""
        if self.setting.at_server:
            return exact
        return self._added(self.noised.of(silos), silos, exact, streams, number)

    def mean(self, answers: Answers, streams: Streams, number: int) -> float:
        """Return the noisy mean term, from what all silos sent."""
        sums, units = _gathered(answers, self.setting.n_silos), self.setting.units
        if not self.setting.at_server:
            return float(self.setting.weights @ (sums / units))
        first = np.zeros(1, int)
        noised = self._added(self.noised.of(first), first, sums.sum()[None], streams, number)
        return float(noised[0] / units.sum())

    def _added(
        self, noised: NoisedSum, silos: np.ndarray, exact: Array, streams: Streams, number: int
    ) -> Array:
        """Return sums (n,) plus their noises; those of infinite budgets stay exact."""
        units = streams.units_block(self.purpose, silos, number, (), np.float64)
        noisy, out = noised.std > 0, exact.astype(np.float64)
        if noisy.any():
            out[noisy] = noised.of(noisy).added(out[noisy], units[noisy])
        return out


def _gathered(answers: Answers, n_silos: int) -> Array:
    """Return what all silos sent (n_silos,), each once."""
    sent, came = np.zeros(n_silos), np.zeros(n_silos, int)
    for silos, values in answers:
        sent[silos] = values[:, 0]
        np.add.at(came, silos, 1)
    if (came != 1).any():
        raise ValueError("Each silo answers a question once: some did not, or did so twice.")
    return sent
