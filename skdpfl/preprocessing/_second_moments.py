r"""Noisy second moments of rows in a ball: the analysis of Gauss [1]_, with the mean beside it.

::

    x = c(row - center),  |x| <= R         c: rows that are longer than R are cut to it
    z = (x, b),   b = R / 2 where the mean is to be learnt, else 0
    Phi(row) = z z^T without the corner b^2: each square once, each product once, times sqrt(2)
    message  = sum over records of Phi + s * normal,     unit "silo": the mean over the silo's
    M = mean of x x^T,  m = mean of x,  covariance = M - m m^T         (m = 0 without the mean)

Formal guarantee
----------------
**Sensitivity.** Products are multiplied by sqrt(2), so distances of Phi are Frobenius distances of
``z z^T`` (the corner is the same for all records). With t = <x, y>, for two rows of norms p, q ::

    |Phi(x) - Phi(y)|^2 = p^4 + q^4 - 2 t^2 + 2 b^2 (p^2 + q^2 - 2 t)

which grows with p and q for a given t; at p = q = R it is largest at t = -b^2 (allowed, as b <= R),
where it is ``2 (R^2 + b^2)^2``. So replacing a record moves the sum by at most
``sqrt(2) (R^2 + b^2)``. Zeroing one moves it by ``|Phi(x)| <= R sqrt(R^2 + 2 b^2)``. Both are
attained. With unit "silo" a silo sends the mean of Phi over its records (the first 2^25 of them),
which lies in the convex hull of the same set: the same bounds for replacing or zeroing a silo.

**Noise.** The message is one Gaussian mechanism, noise ``s = D / mu`` (D the bound above), released
on a grid (:mod:`skdpfl.privacy.release`); the rounding of the sum, in pieces of 2^14 records, is
part of D. With trust "server" it is added once to the sum of all silos. In the matrix it has
standard deviation s on the diagonal, and s / sqrt(2) beside it: less than independent noise of s in
each entry of the upper triangle, which the bound would cost as well.

A row is cut by a norm computed in floating point, and divided by slightly more; rows whose norm
is not finite count as zero.

References
----------
.. [1] C. Dwork, K. Talwar, A. Thakurta, L. Zhang, "Analyze Gauss: optimal bounds for
       privacy-preserving principal component analysis", STOC 2014.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skdpfl.federation import CohortSum, Federation, Question, SiloBudgets, SiloData
from skdpfl.privacy.events import Composition, Exact, Gaussian
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE, NoisedSum, grid_for, noise_for, relative_error
from skdpfl.scaling import Array

#: records that are added up in one product, and the most that a protected silo reads
PIECE, MOST = 2**14, 2**25
_PURPOSE = "second moments"


@dataclass(frozen=True, eq=False)
class MomentsPlan:
    """What will be released: public numbers only.

    ``center`` (n_features,) is declared; ``with_mean``: the mean is learnt.
    """

    setting: SiloBudgets
    radius: float
    center: Array
    with_mean: bool

    @property
    def lift(self) -> float:
        """The entry b that is appended to rows."""
        return self.radius / 2 if self.with_mean else 0.0

    @property
    def width(self) -> int:
        """How many numbers a message has."""
        d = len(self.center)
        return d * (d + 1) // 2 + d * self.with_mean

    @property
    def norm(self) -> float:
        """The largest norm of a record's contribution."""
        return self.radius * float(np.sqrt(self.radius**2 + 2 * self.lift**2))

    @property
    def sensitivity(self) -> float:
        """D, how far one unit's data move the sum."""
        if self.setting.neighbours == "replace":
            return float(np.sqrt(2)) * (self.radius**2 + self.lift**2)
        return self.norm

    @cached_property
    def noise(self) -> Array:
        """s, the standard deviation of the noise on each silo's message (M,); 0: no privacy."""
        setting = self.setting
        units = setting.units.sum() if setting.at_server else setting.units
        records = np.full(setting.n_silos, MOST if setting.unit == "silo" else units)
        operations = PIECE + np.ceil(records / PIECE) + setting.n_silos + 8
        rho = np.array([relative_error((n, DOUBLE)) for n in operations.tolist()])
        return noise_for(setting.spends, self.sensitivity, self.width, units * rho * self.norm)

    def composition(self) -> Composition:
        """What every silo releases, for the accountant."""
        mu = float(self.setting.spends[0])
        change = 2.0 if self.setting.neighbours == "replace" else 1.0
        return ((Gaussian(change / mu) if np.isfinite(mu) else Exact(), 1),)

    def noised(self, silo: int) -> NoisedSum:
        """Return the noised sum of a silo, or at the server."""
        setting, std = self.setting, float(self.noise[silo])
        units = setting.units.sum() if setting.at_server else setting.units[silo]
        return NoisedSum(std, grid_for(std, float(units) * self.norm))

    @property
    def noise_of_matrix(self) -> float:
        """Standard deviation of the noise in M, beside the diagonal."""
        return self.setting.noise_of_mean(self.noise) / float(np.sqrt(2))


class RowMean(NamedTuple):
    """The noisy mean (d,), zeros where it is not learnt, and the noisy second moments (d, d)."""

    mean: Array
    second: Array


def cut(rows: Array, center: Array, radius: float) -> Array:
    """Return rows - center, cut to the norm, float64; rows that are not finite give zeros."""
    with np.errstate(all="ignore"):
        x = np.subtract(rows, center, dtype=np.float64)
        norms = np.sqrt(np.einsum("nd,nd->n", x, x))
        below = radius * (1 - relative_error((x.shape[1] + 16, DOUBLE)))
        finite = np.isfinite(norms)
        x *= np.where(finite, np.minimum(1.0, below / norms), 0.0)[:, None]
    x[~finite] = 0.0
    return x


def noisy_moments(plan: MomentsPlan, federation: Federation, streams: Streams) -> RowMean:
    """Ask the silos, and return the moments over all records (unit "silo": over all silos)."""
    setting = plan.setting
    factors = np.ones(setting.n_silos)
    if not setting.at_server:
        factors = setting.weights / setting.units
    total = CohortSum(np.arange(setting.n_silos), factors, plan.width)
    for silos, answers in federation.ask(SecondMoments(plan)):
        total.add(silos, answers)
    message = total.result()
    if setting.at_server:
        message = _with_noise(plan, 0, message, streams) / setting.units.sum()
    return _unpacked(plan, message)


@dataclass(frozen=True, eq=False)
class SecondMoments(Question):
    """Each silo's sum of contributions, noised by itself; exact where the server adds noise."""

    plan: MomentsPlan
    number: int = 0

    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for silo in np.flatnonzero(data.sizes).tolist():
            message = self._sum(data, silo)
            if not self.plan.setting.at_server:
                message = _with_noise(self.plan, silo, message, streams)
            yield np.array([silo]), message[None]

    def _sum(self, data: SiloData, silo: int) -> Array:
        """Return the exact sum, or mean, of one silo's contributions (width,)."""
        plan, d = self.plan, len(self.plan.center)
        first, last = int(data.starts[silo]), int(data.starts[silo + 1])
        if plan.setting.unit == "silo":
            last = min(last, first + MOST)
        second, mean = np.zeros((d, d)), np.zeros(d)
        for start in range(first, last, PIECE):
            stop = min(start + PIECE, last)
            rows = slice(start, stop) if data.order is None else data.order[start:stop]
            x = cut(np.asarray(data.X[rows]), plan.center, plan.radius)
            second += x.T @ x
            mean += x.sum(axis=0)
        second *= np.sqrt(2)
        np.fill_diagonal(second, second.diagonal() / np.sqrt(2))
        parts = [second[np.triu_indices(d)]]
        if plan.with_mean:
            parts.append(np.sqrt(2) * plan.lift * mean)
        message = np.concatenate(parts)
        return message / (last - first) if plan.setting.unit == "silo" else message


def _with_noise(plan: MomentsPlan, silo: int, message: Array, streams: Streams) -> Array:
    """Return a message plus noise; with an infinite budget it stays exact."""
    if np.isinf(plan.setting.spends[silo]):
        return message
    units = streams.units_block(_PURPOSE, [silo], 0, (plan.width,), np.float64)[0]
    return plan.noised(silo).added(message, units)


def _unpacked(plan: MomentsPlan, message: Array) -> RowMean:
    d = len(plan.center)
    upper = np.zeros((d, d))
    upper[np.triu_indices(d)] = message[: d * (d + 1) // 2]
    second = (upper + upper.T) / np.sqrt(2)
    np.fill_diagonal(second, upper.diagonal())
    if not plan.with_mean:
        return RowMean(np.zeros(d), second)
    return RowMean(message[d * (d + 1) // 2 :] / (np.sqrt(2) * plan.lift), second)
