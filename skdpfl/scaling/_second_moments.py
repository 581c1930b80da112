r"""Second moments of rows in a ball, as in "Analyze Gauss" [1]_, together with the mean.

::

    x = c(row - center),  |x| <= R         c: rows that are longer than R are cut to it
    z = (x, b),   b = R / 2 where the mean is to be learnt, else 0
    Phi(row) = z z^T without the corner b^2: each square once, each product once, times sqrt(2)
    M = mean of x x^T,  m = mean of x,  covariance = M - m m^T         (m = 0 without the mean)

Formal guarantee
----------------
Products are multiplied by sqrt(2), so distances of Phi are Frobenius distances of ``z z^T`` (the
corner is the same for all records). With t = <x, y>, for two rows of norms p, q ::

    |Phi(x) - Phi(y)|^2 = p^4 + q^4 - 2 t^2 + 2 b^2 (p^2 + q^2 - 2 t)

which grows with p and q for a given t; at p = q = R it is largest at t = -b^2 (allowed, as b <= R),
where it is ``2 (R^2 + b^2)^2``. So the diameter of the set of terms is ``sqrt(2) (R^2 + b^2)``, and
its radius ``R sqrt(R^2 + 2 b^2)``. Both are attained. :mod:`skdpfl.federation._sums` proves the
cost of a noised sum, including the rounding of the sum, in pieces of 2^14 records.

In the matrix, noise of standard deviation s on the sum is s on the diagonal and s / sqrt(2) off the
diagonal: less than independent noise of s in each entry of the upper triangle, which would have the
same price.

A row is clipped by a norm computed in floating point, slightly increased; rows whose norm is not
finite count as zero.

References
----------
.. [1] C. Dwork, K. Talwar, A. Thakurta, L. Zhang, "Analyze Gauss: optimal bounds for
       privacy-preserving principal component analysis", STOC 2014.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skdpfl.federation import PIECE, BoundedSum, SiloData
from skdpfl.privacy.release import DOUBLE, relative_error
from skdpfl.scaling._centre_sums import as_numbers
from skdpfl.scaling._maps import Array


class RowMean(NamedTuple):
    """The noisy mean (d,), zeros if it is not learnt, and the noisy second moments (d, d)."""

    mean: Array
    second: Array


@dataclass(frozen=True, eq=False)
class SecondMoments(BoundedSum):
    """The sum of ``Phi``, packed: the upper triangle, then the row's mean if it is learnt.

    ``center`` (n_features,) is declared; adding ``n_silos`` sums counts in the rounding error.
    """

    center: Array
    length: float
    with_mean: bool
    n_silos: int = 1

    @property
    def lift(self) -> float:
        """The entry b that is appended to rows."""
        return self.length / 2 if self.with_mean else 0.0

    @property
    def d(self) -> int:
        """The number of columns."""
        return len(self.center)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.d * (self.d + 1) // 2 + self.d * self.with_mean,)

    @property
    def radius(self) -> float:
        return self.length * float(np.sqrt(self.length**2 + 2 * self.lift**2))

    @property
    def diameter(self) -> float:
        return float(np.sqrt(2)) * (self.length**2 + self.lift**2)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        numbers = self.center.dtype == np.float64 and bool(np.isfinite(self.center).all())
        fine = numbers and 0 < self.length < np.inf and self.n_silos >= 1
        if self.center.shape != (n_features,) or not fine:
            raise ValueError("The center does not fit a table with this number of columns.")

    def operations(self, records: np.ndarray, n_added: int) -> np.ndarray:
        return PIECE + np.ceil(records / PIECE) + max(self.n_silos, n_added) + 8

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, Array]]:
        for silo in np.flatnonzero(data.sizes).tolist():
            yield np.array([silo]), self._sum(data, silo)[None]

    def _sum(self, data: SiloData, silo: int) -> Array:
        d, n = self.d, int(data.sizes[silo])
        second, mean = np.zeros((d, d)), np.zeros(d)
        for start in range(0, n, PIECE):
            rows = data.rows_of(silo, slice(start, min(start + PIECE, n)))
            x = self._cut(data.X[rows])
            second += x.T @ x
            mean += x.sum(axis=0)
        second *= np.sqrt(2)
        np.fill_diagonal(second, second.diagonal() / np.sqrt(2))
        parts = [second[np.triu_indices(d)]]
        if self.with_mean:
            parts.append(np.sqrt(2) * self.lift * mean)
        return np.concatenate(parts)

    def _cut(self, X: np.ndarray) -> Array:
        """Return rows clipped to the ball."""
        return cut(np.asarray(X), self.center, self.length)

    def unpacked(self, means: Array) -> RowMean:
        """Return the moments from their packed noisy means."""
        d = self.d
        upper = np.zeros((d, d))
        upper[np.triu_indices(d)] = means[: d * (d + 1) // 2]
        second = (upper + upper.T) / np.sqrt(2)
        np.fill_diagonal(second, upper.diagonal())
        if not self.with_mean:
            return RowMean(np.zeros(d), second)
        return RowMean(means[d * (d + 1) // 2 :] / (np.sqrt(2) * self.lift), second)


@dataclass(frozen=True, eq=False)
class ScaledMoments(SecondMoments):
    """Second moments of scaled columns; a column with scale 0 is not read.

    A row with a missing value or text in a column that is read counts as zero.
    """

    scale: Array = field(kw_only=True)
    of_words = True

    @property
    def used(self) -> np.ndarray:
        """The columns that are read."""
        return self.scale > 0

    @property
    def d(self) -> int:
        return int(self.used.sum())

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        same = self.scale.shape == self.center.shape and self.scale.dtype == np.float64
        if not same or not np.isfinite(self.scale).all() or not self.used.any():
            raise ValueError("The scales do not fit a table with this number of columns.")

    def _cut(self, X: np.ndarray) -> Array:
        with np.errstate(all="ignore"):
            rows = (as_numbers(X[:, self.used]) - self.center[self.used]) / self.scale[self.used]
        return cut(rows, np.zeros(rows.shape[1]), self.length)


def cut(rows: Array, center: Array, radius: float) -> Array:
    """Return rows - center, clipped to the norm, float64; rows that are not finite give zeros."""
    with np.errstate(all="ignore"):
        x = np.subtract(rows, center, dtype=np.float64)
        norms = np.sqrt(np.einsum("nd,nd->n", x, x))
        below = radius * (1 - relative_error((x.shape[1] + 16, DOUBLE)))
        finite = np.isfinite(norms)
        x *= np.where(finite, np.minimum(1.0, below / norms), 0.0)[:, None]
    x[~finite] = 0.0
    return x
