r"""Releases of which only the privacy profile is known: the worst pair with that profile.

A profile delta(eps), as a function of alpha = e^eps, is convex, non-increasing, 1 at alpha = 0, and
(since the bounds cover both directions) ``delta(-eps) = 1 - e^-eps (1 - delta(eps))``. Given bounds
at some points, the largest such function is their lower convex hull; it belongs to a pair whose
losses are the hull's corners, with (slopes in alpha)::

    Q(L = eps_i) = slope_i - slope_{i-1},   P(L = eps_i) = e^{eps_i} Q(L = eps_i),
    P(L = inf) = the last delta

For one point (eps, delta) this is randomised response that fails with probability delta.

Formal guarantee
----------------
Every pair within the bounds has its profile below the hull, hence is dominated by this pair, also
under composition. Each atom is then shared between the two nearest grid points so that both its P-
and its Q-probability are kept, which dominates again (:mod:`skdpfl.privacy.pricing.loss_grid`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.pricing.loss_grid import SURE, Grid, GridLoss

#: Larger values of epsilon are not used, as e^epsilon would overflow.
_LARGEST = 600.0


@dataclass(frozen=True)
class AtomsPair:
    """Losses with probabilities, and ``infinite``, the probability of an infinite loss."""

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float

    def variance(self, largest: float = math.inf) -> float:
        """Variance of the (finite) loss, cut off at ``largest``."""
        losses, masses = np.clip(self.losses, -largest, largest), np.array(self.masses)
        return max(0.0, float(masses @ losses**2 - (masses @ losses) ** 2))

    def grids(self, grid: Grid) -> tuple[GridLoss, GridLoss]:
        """The loss on the grid in both directions (the same one twice)."""
        losses, masses = np.array(self.losses), np.array(self.masses)
        low, high = grid.indices(losses.min(), losses.max())
        index = np.clip(np.floor(losses / grid.h).astype(np.int64), low, high - 1)
        rest = np.clip(losses - grid.h * index, 0.0, grid.h)
        upper = masses * np.expm1(-rest) / math.expm1(-grid.h)
        probs = np.bincount(index - low, masses - upper, high - low + 1)
        probs += np.bincount(index - low + 1, upper, high - low + 1)
        infinite = self.infinite
        if losses.max() > grid.largest:  # split between the last point and infinity
            beyond = masses * (1.0 - SURE * np.exp(np.minimum(0.0, grid.h * high - losses)))
            beyond[losses <= grid.h * high] = 0.0
            probs[-1] -= beyond.sum()
            infinite += float(beyond.sum())
        loss = GridLoss(grid.h, low, probs, infinite)
        return loss, loss

    def largest(self, tail: float) -> float:
        """The largest finite loss."""
        return max(self.losses)


def approximate_pair(epsilon: float, delta: float) -> AtomsPair:
    """The worst pair of an (epsilon, delta)-DP release."""
    up = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    return AtomsPair((-epsilon, epsilon), (1.0 - delta - up, up), delta)


def profile_pair(epsilons: tuple[float, ...], deltas: tuple[float, ...]) -> AtomsPair:
    """The worst pair whose delta at each given epsilon is at most the delta given there."""
    points = [(e, d) for e, d in zip(epsilons, deltas, strict=True) if abs(e) <= _LARGEST]
    points += [(-e, 1.0 - math.exp(-e) * (1.0 - d)) for e, d in points if e != 0.0]
    corners = _lower_hull(sorted(points))
    if not corners:
        return AtomsPair((0.0,), (0.0,), 1.0)
    alphas = np.array([0.0] + [math.exp(e) for e, _ in corners])
    heights = np.array([1.0] + [d for _, d in corners])
    slopes = np.append(np.diff(heights) / np.diff(alphas), 0.0)
    masses = np.maximum(0.0, np.diff(slopes)) * alphas[1:]
    return AtomsPair(tuple(e for e, _ in corners), tuple(masses.tolist()), float(heights[-1]))


def _lower_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Decreasing corners of the lower convex hull in (e^epsilon, delta), starting at (0, 1)."""
    hull: list[tuple[float, float]] = []
    for epsilon, delta in points:
        if delta >= (hull[-1][1] if hull else 1.0):
            continue
        while hull and _slope(hull[-2] if len(hull) > 1 else None, hull[-1]) >= _slope(
            hull[-1], (epsilon, delta)
        ):
            hull.pop()
        hull.append((epsilon, delta))
    return hull


def _slope(a: tuple[float, float] | None, b: tuple[float, float]) -> float:
    """Slope between two points; None is the point (alpha, delta) = (0, 1)."""
    alpha, delta = (0.0, 1.0) if a is None else (math.exp(a[0]), a[1])
    return (b[1] - delta) / (math.exp(b[0]) - alpha) if math.exp(b[0]) > alpha else -math.inf
