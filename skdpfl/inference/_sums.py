r"""Noised sums at a released pilot: scores, curvature, their outer products, residuals' size.

::

    z, eta       the record (x, 1) in the fit's units, x scaled; eta = z' theta_1
    rho          the residual, with mean 0 at the true model; |rho| <= b(eta), slope h(eta)
                     logistic   y - p                              b = max(p, 1 - p), h = p (1 - p)
                     counts     clip(y, mu -+ 2.5 sqrt(mu)) less its mean;  h = Cov(clip(y), y)
                     linear     clip((y - eta) / sigma, -+ 2.5)
    W            = min(1, C / (|z| b), K / (|z|^2 h))              of z and eta only, not of y
    w            = min(1, R / |z|)                                 linear: W = w^2

    score        sum W z rho                             radius C          diameter 2 C
    curvature    sum W h z z'                            radius K          diameter sqrt(2) K
    meat         sum (W z rho)(W z rho)'                 radius C^2        diameter sqrt(2) C^2
    linear       sum phi phi', phi = w (z, R / 2.5 rho)  radius 2 R^2      diameter sqrt(2) 2 R^2
    residuals    sum min(1, |y - eta| / 2)               radius 1          diameter 1

Formal guarantee
----------------
Each sum is a :class:`skdpfl.federation.BoundedSum`: its terms are functions of one record, of
public numbers and of the released pilot, so :mod:`skdpfl.federation._sums` prices it. Records whose
terms are not finite count as zero.

1. *Norms.* ``W |z| |rho| <= W |z| b <= C``, ``W h |z|^2 <= K``, and ``|phi|^2 <= 2 R^2``. Vectors
   are clipped to these norms as well, whatever was computed.
2. *Outer products* g g' of vectors with |g| <= L have Frobenius norm at most L^2, and
   ``|g g' - f f'|^2 = |g|^4 + |f|^4 - 2 (g'f)^2 <= 2 L^4``. Packing (the upper triangle, products
   times sqrt(2)) keeps distances.
3. *Residuals' size* is in [0, 1], whose diameter is 1.
4. *Persons.* A person's term is the mean over the records, which is in the convex hull. The outer
   product of a person's mean score is in the set of 2, as the mean has norm at most C.

Why the weights leave no bias: W depends on z and theta_1 only, so E[score] = 0 at the true model.

Hazards
-------
Sums at a released piecewise exponential model are

::

    x, b            features, one of B intervals; z_b = (x, sqrt(B) times the unit vector of b)
    e_b, d_b        the time in interval b, and whether the event was there     (public cuts)
    mu_b            = e_b exp(x w + a_b),  r_b = d_b - mu_b
    L               = sum_b |b| exp(x w + a_b), the hazard over the whole horizon: of x only
    n               = sqrt(|x|^2 max(1, L)^2 + 1 + L^2)
    W               = min(1, C / n, K / (L (|x|^2 + B)))                of x only

    score           sum W ((sum_b r_b) x, r)            radius C      diameter 2 C
    curvature       sum W sum_b mu_b z_b z_b'           radius K      diameter sqrt(2) K
    meat            sum of the scores' outer products   radius C^2    diameter sqrt(2) C^2

As above, ``sum_b mu_b <= L`` and at most one d_b is 1, so
``-L <= sum_b r_b <= 1`` and ``sum_b r_b^2 <= 1 + L^2``: a score has norm at most W n <= C. A
curvature term is positive semidefinite with trace ``W sum_b mu_b (|x|^2 + B) <= K``, and for two of
them ``|A - B|^2 = |A|^2 + |B|^2 - 2 tr(A B) <= 2 K^2``. Both are clipped by what was computed, too;
a record whose numbers are not finite counts as zero. The mean over a person's records is in the
convex hull of scores, and of curvature terms, which have the same bounds; the outer product of a
person's mean score is in the set of 2.

The residual sum_b r_b is the martingale residual, whose mean given x is 0 at the true model, for
any censoring that depends on x only, so that of a person's mean is 0, too, however the records are
correlated; the curvature's mean is the score's variance. An interval has
a B-th of the events, so z_b is longer there: else the noise hides the curvature of log hazards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import expit, pdtr

from skdpfl.algorithms import is_vector
from skdpfl.federation import PIECE, BoundedSum, SiloBudgets, SiloData
from skdpfl.inference._fieller import Array, packed
from skdpfl.losses import PiecewiseExponential
from skdpfl.scaling import cut

#: residuals' limit, in their deviations
CUT = 2.5
#: silos (persons) of at most so many records are summed together, and numbers at once
_FEW_RECORDS, _NUMBERS = 64, 2**22
#: fields that are positive numbers; letters may hold whole ones
_LIMITS = ("cut_score", "cut_curvature", "scale", "length", "sigma")
#: raw predictions of counts beyond it would overflow
LARGEST_RAW = 30.0


class Residuals(NamedTuple):
    """Residuals, their bounds and their slopes (n,)."""

    rho: Array
    bound: Array
    slope: Array


def of_labels(eta: Array, y: Array) -> Residuals:
    """Return the residuals of labels 0 and 1 at log odds ``eta``."""
    p = expit(eta)
    return Residuals(y - p, np.maximum(p, 1 - p), p * (1 - p))


def of_counts(eta: Array, y: Array) -> Residuals:
    """Return the residuals of counts at log means ``eta``, cut where they are far from the mean.

    With lo, hi = mu -+ 2.5 sqrt(mu) and E over Poisson(mu): E[y; y <= j] = mu P(y <= j - 1), and
    E[y (y - 1); y <= j] = mu^2 P(y <= j - 2).
    """
    mu = np.exp(np.clip(eta, -LARGEST_RAW, LARGEST_RAW))
    low, high = mu - CUT * np.sqrt(mu), mu + CUT * np.sqrt(mu)
    below, up_to = np.ceil(low) - 1, np.floor(high)  # y < low;  y <= high

    def share(j: Array) -> Array:
        return np.where(j >= 0, pdtr(np.maximum(j, 0), mu), 0.0)

    first, last = share(below), share(up_to)
    first_y, last_y = mu * share(below - 1), mu * share(up_to - 1)
    inside = last_y - first_y
    squares = mu**2 * (share(up_to - 2) - share(below - 2)) + inside
    mean = low * first + high * (1 - last) + inside
    product = low * first_y + high * (mu - last_y) + squares  # E[clip(y) y]
    bound = np.maximum(high - mean, mean - np.maximum(low, 0.0))
    return Residuals(np.clip(y, low, high) - mean, bound, product - mu * mean)


@dataclass(frozen=True, eq=False)
class PilotSum(BoundedSum):
    """Base class of sums at a pilot.

    Parameters
    ----------
    pilot : ndarray of shape (k,)
        The released parameters, the intercept's last.
    intercept : bool
        Whether there is an intercept.
    limited : bool
        Whether features are clipped to the map's limits first.
    products : {"none", "records", "persons"}
        Whether terms are vectors, the outer product of each record's, or that of the mean of a
        person's, n times for n records: the mean over them, which a release for persons takes, is
        then the product itself.
    """

    pilot: np.ndarray
    intercept: bool
    limited: bool = False
    products: Literal["none", "records", "persons"] = field(default="none", kw_only=True)

    @property
    def limit(self) -> float:
        """The largest norm L of a record's vector."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """The length of a record's vector."""
        return len(self.pilot)

    @property
    def _squared(self) -> bool:
        """Whether a record's term is an outer product."""
        return self.products == "records"

    @property
    def shape(self) -> tuple[int, ...]:
        vectors = self.products == "none"
        return (self.width,) if vectors else (self.width * (self.width + 1) // 2,)

    @property
    def radius(self) -> float:
        return self.limit if self.products == "none" else self.limit**2

    @property
    def diameter(self) -> float:
        return 2 * self.limit if self.products == "none" else math.sqrt(2) * self.limit**2

    def operations(self, records: np.ndarray, n_added: int) -> np.ndarray:
        factors = 2 if self.products == "persons" else 1  # the mean's error is in both
        return factors * super().operations(records, n_added)

    def drift(self, budgets: SiloBudgets) -> np.ndarray:
        if self.products == "persons" and budgets.unit != "person":
            # a record would move the product of its silo's mean by more than the diameter
            raise ValueError('Outer products of persons\' means are for unit="person".')
        return super().drift(budgets)

    def vectors(self, z: Array, y: Array, eta: Array) -> Array:
        """Return the vectors (n, width) of rows with the intercept's 1, targets and predictions."""
        raise NotImplementedError

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        numbers = [value for name, value in vars(self).items() if name in _LIMITS]
        if not is_vector(self.pilot, n_features + self.intercept) or work is None:
            raise ValueError("Sums for intervals need the fit's model, which fits the columns.")
        if not all(0 < value < math.inf for value in numbers):
            raise ValueError("Limits of sums for intervals must be positive and finite.")

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, Array]]:
        features = work.features
        if not self.limited and getattr(features, "low", None) is not None:
            features = replace(features, low=None, high=None)
        data = data.mapped(features, self._target(work), None)
        few = (data.sizes > 0) & (data.sizes <= _FEW_RECORDS)
        for silo in np.flatnonzero((data.sizes > 0) & ~few).tolist():
            n = int(data.sizes[silo])
            pieces = (slice(start, min(start + PIECE, n)) for start in range(0, n, PIECE))
            parts = (self._of(data, data.rows_of(silo, piece)) for piece in pieces)
            yield np.array([silo]), self._whole(sum(parts)[None], np.array([n]))  # type: ignore[index]
        small, most = (
            np.flatnonzero(few),
            max(1, _NUMBERS // (_FEW_RECORDS * math.prod(self.shape))),
        )
        for start in range(0, len(small), most):
            silos = small[start : start + most]
            rows, edges = data.rows_together(silos)
            each = np.add.reduceat(self._terms_of(data, rows), edges[:-1], axis=0)
            yield silos, self._whole(each, data.sizes[silos])

    def _whole(self, sums: Array, n: np.ndarray) -> Array:
        """Return the sums of silos (m, *shape) from those of their records' terms."""
        if self.products != "persons":
            return sums
        return outer_products(sums / n[:, None]) * n[:, None]

    def _target(self, work: Any) -> Any:
        """Return the map of targets."""
        return work.target

    @np.errstate(all="ignore")  # warnings could depend on a single record
    def _terms_of(self, data: SiloData, rows: Any) -> Array:
        """Return each record's term (n, *shape), computed from it alone."""
        vectors = self._vectors(data, rows)
        vectors = cut(vectors, np.zeros(vectors.shape[1]), self.limit)
        return outer_products(vectors) if self._squared else vectors

    @np.errstate(all="ignore")
    def _of(self, data: SiloData, rows: Any) -> Array:
        """Return the sum over some rows of one silo, in arrays of its own."""
        vectors = self._vectors(data, rows)
        vectors = cut(vectors, np.zeros(vectors.shape[1]), self.limit)
        return packed(vectors.T @ vectors) if self._squared else vectors.sum(axis=0)

    def _vectors(self, data: SiloData, rows: Any) -> Array:
        """Return the vectors (n, width) of some records."""
        return self.vectors(*self._read(data, rows))

    def _read(self, data: SiloData, rows: Any) -> tuple[Array, Array, Array]:
        """Return rows with the intercept's 1, targets, and predictions, each from its row alone."""
        x, y = data.at(rows)
        z = np.ones((len(x), len(self.pilot)))
        z[:, : x.shape[1]] = x
        eta = np.einsum("nk,k->n", z, self.pilot)
        if y.dtype.names is not None:
            y, eta = y["target"], eta + y["offset"]
        return z, np.asarray(y, np.float64), np.asarray(eta)


@dataclass(frozen=True, eq=False)
class GeneralizedSum(PilotSum):
    """Base class of sums for labels and counts.

    ``cut_score`` and ``cut_curvature`` are C and K. ``counts``: targets are counts, whose log means
    are ``eta + log(scale)``, with the logarithm of exposures in eta; otherwise labels.
    """

    cut_score: float = 1.0
    cut_curvature: float = 1.0
    counts: bool = False
    scale: float = 1.0

    def _target(self, work: Any) -> Any:
        return None  # counts are not scaled: the pilot is

    def weighted(self, z: Array, y: Array, eta: Array) -> tuple[Array, Residuals]:
        """Return W (n,) and the residuals."""
        residuals = (of_counts if self.counts else of_labels)(eta + math.log(self.scale), y)
        norms = np.maximum(np.sqrt(np.einsum("nk,nk->n", z, z)), 1e-300)
        by_score = self.cut_score / (norms * residuals.bound)
        by_curvature = self.cut_curvature / (norms**2 * residuals.slope)
        return np.minimum(1.0, np.minimum(by_score, by_curvature)), residuals


@dataclass(frozen=True, eq=False)
class PilotScores(GeneralizedSum):
    """The score."""

    @property
    def limit(self) -> float:
        return self.cut_score

    def vectors(self, z: Array, y: Array, eta: Array) -> Array:
        weights, residuals = self.weighted(z, y, eta)
        return np.asarray((weights * residuals.rho)[:, None] * z)


@dataclass(frozen=True, eq=False)
class PilotCurvature(GeneralizedSum):
    """The curvature."""

    products: Literal["records"] = field(default="records", kw_only=True)

    @property
    def limit(self) -> float:
        return math.sqrt(self.cut_curvature)

    def vectors(self, z: Array, y: Array, eta: Array) -> Array:
        weights, residuals = self.weighted(z, y, eta)
        return np.asarray(np.sqrt(weights * residuals.slope)[:, None] * z)


@dataclass(frozen=True, eq=False)
class LinearMoments(PilotSum):
    """Outer products of rows with their residuals, in deviations ``sigma``; ``length`` is R."""

    length: float = 1.0
    sigma: float = 1.0
    products: Literal["records", "persons"] = field(default="records", kw_only=True)

    @property
    def width(self) -> int:
        return len(self.pilot) + 1

    @property
    def limit(self) -> float:
        return math.sqrt(2) * self.length

    @property
    def factor(self) -> float:
        """The factor of residuals in the vectors."""
        return self.length / CUT

    def weighted(self, z: Array, y: Array, eta: Array) -> tuple[Array, Array]:
        """Return w and the residuals (n,)."""
        norms = np.maximum(np.sqrt(np.einsum("nk,nk->n", z, z)), 1e-300)
        rho = np.clip((y - eta) / self.sigma, -CUT, CUT)
        return np.minimum(1.0, self.length / norms), rho

    def vectors(self, z: Array, y: Array, eta: Array) -> Array:
        w, rho = self.weighted(z, y, eta)
        return np.column_stack([w[:, None] * z, self.factor * w * rho])


@dataclass(frozen=True, eq=False)
class LinearMeat(LinearMoments):
    """The outer products of the linear scores, |w^2 z rho| <= 2.5 R."""

    @property
    def width(self) -> int:
        return len(self.pilot)

    @property
    def limit(self) -> float:
        return CUT * self.length

    def vectors(self, z: Array, y: Array, eta: Array) -> Array:
        w, rho = self.weighted(z, y, eta)
        return np.asarray((w**2 * rho)[:, None] * z)


@dataclass(frozen=True, eq=False)
class ResidualSize(PilotSum):
    """The sum of min(1, |y - eta| / 2)."""

    products: Literal["none"] = field(default="none", kw_only=True)
    shape: ClassVar[tuple[int, ...]] = ()
    limit: ClassVar[float] = 1.0
    diameter: ClassVar[float] = 1.0  # terms are in [0, 1]

    @np.errstate(all="ignore")
    def _terms_of(self, data: SiloData, rows: Any) -> Array:
        _, y, eta = self._read(data, rows)
        size = np.minimum(1.0, np.abs(y - eta) / 2)
        return np.where(np.isfinite(size), size, 0.0)

    def _of(self, data: SiloData, rows: Any) -> Array:
        return np.asarray(self._terms_of(data, rows).sum())


@dataclass(frozen=True, eq=False)
class HazardScores(PilotSum):
    """The score; ``pilot`` (d + k,) has the slope, then the log hazards of k intervals.

    ``cuts`` are the inner ends of the intervals, in shares of the horizon; ``cut_score`` and
    ``cut_curvature`` are C and K.
    """

    cuts: tuple[float, ...] = ()
    cut_score: float = 1.0
    cut_curvature: float = 1.0

    @property
    def limit(self) -> float:
        return self.cut_score

    @property
    def d(self) -> int:
        """The number of features."""
        return len(self.pilot) - len(self.cuts) - 1

    @property
    def n_intervals(self) -> int:
        """The number B of intervals."""
        return len(self.cuts) + 1

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        PiecewiseExponential(self.cuts)  # raises unless they increase
        numbers = 0 < self.cut_score < np.inf and 0 < self.cut_curvature < np.inf
        if not (numbers and is_vector(self.pilot, n_features + len(self.cuts) + 1)) or work is None:
            raise ValueError("Sums for intervals need the fit's model, which fits the columns.")

    def _target(self, work: Any) -> Any:
        return None  # times are in horizons

    def _records(self, data: SiloData, rows: Any) -> tuple[Array, Array, Array, Array]:
        """Return x (n, d), events and mu (n, k), and W (n,)."""
        stored, y = data.at(rows)
        x = np.array(stored, np.float64)  # an array of its own, whatever is beside it
        hazard = np.einsum("nd,d->n", x, self.pilot[: self.d])[:, None] + self.pilot[self.d :]
        hazard = np.exp(np.clip(hazard, -LARGEST_RAW, LARGEST_RAW))
        spent, event = PiecewiseExponential(self.cuts).exposures(np.asarray(y, np.float64))
        whole = np.einsum("nb,b->n", hazard, np.diff([0.0, *self.cuts, 1.0]))
        squares = np.einsum("nd,nd->n", x, x)
        norm = np.sqrt(squares * np.maximum(1.0, whole) ** 2 + 1 + whole**2)
        by_curvature = self.cut_curvature / (whole * (squares + self.n_intervals))
        weights = np.minimum(1.0, np.minimum(self.cut_score / norm, by_curvature))
        return x, event, spent * hazard, weights

    def _vectors(self, data: SiloData, rows: Any) -> Array:
        x, event, mu, weights = self._records(data, rows)
        left = event - mu
        return weights[:, None] * np.column_stack([left.sum(axis=1)[:, None] * x, left])


@dataclass(frozen=True, eq=False)
class HazardCurvature(HazardScores):
    """The curvature."""

    products: Literal["records"] = field(default="records", kw_only=True)

    @property
    def radius(self) -> float:
        return self.cut_curvature

    @property
    def diameter(self) -> float:
        return math.sqrt(2) * self.cut_curvature

    def operations(self, records: np.ndarray, n_added: int) -> np.ndarray:
        return super().operations(records, n_added) + PIECE * self.n_intervals

    @np.errstate(all="ignore")
    def _weighted(self, data: SiloData, rows: Any) -> tuple[Array, Array]:
        """Return x (n, d) and W mu (n, k), zeros where anything is not finite."""
        x, _, mu, weights = self._records(data, rows)
        trace = mu.sum(axis=1) * (np.einsum("nd,nd->n", x, x) + self.n_intervals)
        weights = np.minimum(weights, self.cut_curvature * (1 - 1e-12) / trace)
        fine = np.isfinite(weights * trace)
        x[~fine], mu[~fine], weights[~fine] = 0.0, 0.0, 0.0
        return x, weights[:, None] * mu

    def _terms_of(self, data: SiloData, rows: Any) -> Array:
        x, weighted = self._weighted(data, rows)
        d, n = x.shape[1], self.n_intervals
        z = np.column_stack([x, np.full((len(x), n), math.sqrt(n))])
        whole = np.broadcast_to(weighted.sum(axis=1)[:, None], x.shape)
        i, j = np.triu_indices(d + n)
        # two intervals have nothing in common
        factors = np.where(i == j, 1.0, np.where(i < d, math.sqrt(2), 0.0))
        return np.asarray(z[:, i] * z[:, j] * np.column_stack([whole, weighted])[:, j] * factors)

    def _of(self, data: SiloData, rows: Any) -> Array:
        x, weighted = self._weighted(data, rows)
        rows_of = np.sqrt(weighted.sum(axis=1))[:, None] * x
        upper, across = rows_of.T @ rows_of, math.sqrt(self.n_intervals) * (x.T @ weighted)
        alone = self.n_intervals * np.diag(weighted.sum(axis=0))
        return packed(np.block([[upper, across], [across.T, alone]]))


def outer_products(vectors: Array) -> Array:
    """Return the packed outer products of vectors (n, k), each from its own vector alone."""
    i, j = np.triu_indices(vectors.shape[1])
    return np.asarray(vectors[:, i] * vectors[:, j] * np.where(i == j, 1.0, math.sqrt(2)))
