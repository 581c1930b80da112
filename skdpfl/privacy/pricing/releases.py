"""From events to privacy losses: the dominating pair of each event, and which event costs more.

Plain Gaussians compose in closed form and are kept apart as one squared mu; everything else becomes
a list of (pair, how many times). An event class that is not in the table is refused.

**Profiles.** Some releases are known by their privacy profile only. A profile delta(eps), as a
function of alpha = e^eps, is convex, non-increasing, 1 at alpha = 0, and (since the bounds cover
both directions) ``delta(-eps) = 1 - e^-eps (1 - delta(eps))``. Given bounds at some points, the
largest such function is their lower convex hull; it belongs to a pair whose losses are the hull's
corners, with (slopes in alpha)::

    Q(L = eps_i) = slope_i - slope_{i-1},   P(L = eps_i) = e^{eps_i} Q(L = eps_i),
    P(L = inf) = the last delta

For one point (eps, delta) this is randomised response that fails with probability delta.

Formal guarantee: profiles
--------------------------
Every pair within the bounds has its profile below the hull, hence is dominated by this pair, also
under composition. Each atom is then shared between the two nearest grid points so that both its P-
and its Q-probability are kept, which dominates again (:mod:`skdpfl.privacy.pricing.loss_pairs`).

**Merging.** Of very many distinct releases similar ones are priced as the most expensive of them.
Cells are steps of a factor e^width in noise multiplier and sampling rate (or in epsilon and delta);
all releases of a cell become one with the least noise and the highest rate among them. Prices are
about proportional to 1/z and to the rate, so each adds a factor of at most e^width, half of that on
average. The width is the smallest with few enough cells.

Formal guarantee: domination
----------------------------
Event by event, more noise, a lower sampling rate and fewer releases cost at most as much, at every
delta and in any composition: noise can be added afterwards; a sample at rate q' < q is a sample at
rate q that is replaced, with probability 1 - q'/q, by a draw that does not depend on the record
(joint convexity of the hockey-stick divergence); and a release can be ignored. A larger epsilon or
delta dominates, too, and domination is kept under composition: merged releases cost at least as
much.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from skdpfl._arguments import check_count, check_number
from skdpfl.privacy import events
from skdpfl.privacy.pricing import loss_pairs

#: Larger values of epsilon are not used, as e^epsilon would overflow.
_LARGEST_EPSILON = 600.0


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

    def grids(self, grid: loss_pairs.Grid) -> tuple[loss_pairs.GridLoss, loss_pairs.GridLoss]:
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
            beyond = masses * (
                1.0 - loss_pairs.COUNTED_TAIL * np.exp(np.minimum(0.0, grid.h * high - losses))
            )
            beyond[losses <= grid.h * high] = 0.0
            probs[-1] -= beyond.sum()
            infinite += float(beyond.sum())
        loss = loss_pairs.GridLoss(grid.h, low, probs, infinite)
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
    points = [(e, d) for e, d in zip(epsilons, deltas, strict=True) if abs(e) <= _LARGEST_EPSILON]
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


LossPair = (
    loss_pairs.ReplacePair
    | loss_pairs.ZeroOutPair
    | loss_pairs.FixedSizePair
    | loss_pairs.WithReplacementPair
    | AtomsPair
)

#: Sampled sums with less noise count as exact, since squares of the loss would overflow.
NO_NOISE = 1e-60


@dataclass(frozen=True)
class Releases:
    """A composition ready to be priced: (sum of) mu^2, and the other losses with their counts."""

    mu_squared: float
    pairs: tuple[tuple[LossPair, int], ...]

    @property
    def mu(self) -> float:
        """The plain Gaussians together are mu-GDP; infinite for an exact release."""
        return math.sqrt(self.mu_squared)


@lru_cache(maxsize=4096)
def releases(composition: events.Composition, neighbours: events.Neighbours) -> Releases:
    """Return the squared mu and the pairs of a composition."""
    events.change_of(neighbours)  # raises if there is no such relation
    mu_squared, pairs = 0.0, []
    for event, count in composition:
        price = _PRICES.get(type(event))
        if price is None:
            raise TypeError(
                f"{event!r} is refused: the accountant can price "
                f"{', '.join(kind.__name__ for kind in _PRICES)} only."
            )
        if not (count >= 0 and count % 1 == 0):
            raise ValueError(f"{event!r} cannot be released {count} times.")
        if count:
            squared, pair = price(event, neighbours)
            mu_squared += count * squared if squared else 0.0
            pairs += [(pair, int(count))] if pair is not None else []
    return Releases(mu_squared, tuple(pairs))


#: What one release adds: to mu squared, and to the list of pairs.
_Price = tuple[float, LossPair | None]


def _gaussian(event: events.Gaussian, neighbours: events.Neighbours) -> _Price:
    z = _noise(event.noise_multiplier)
    mu = math.inf if z == 0 else events.change_of(neighbours) / z
    return mu * mu, None  # not mu**2, which raises where this is infinite


def _poisson(event: events.PoissonGaussian, neighbours: events.Neighbours) -> _Price:
    z, rate = _noise(event.noise_multiplier), _rate(event.sampling_rate)
    pair = loss_pairs.ReplacePair if neighbours == "replace" else loss_pairs.ZeroOutPair
    return _sampled(z, rate, neighbours, pair)


def _refuse_unpriced(neighbours: events.Neighbours) -> None:
    if neighbours != "replace":
        raise ValueError(
            f"neighbours={neighbours!r}: batches of a fixed size are priced under "
            "neighbours='replace' only."
        )


def _fixed_size(event: events.FixedSizeGaussian, neighbours: events.Neighbours) -> _Price:
    _refuse_unpriced(neighbours)
    z, rate = _noise(event.noise_multiplier), _rate(event.sampling_rate)
    return _sampled(z, rate, neighbours, lambda q, shift: loss_pairs.FixedSizePair(q, 2 * shift))


def _with_replacement(
    event: events.WithReplacementGaussian, neighbours: events.Neighbours
) -> _Price:
    _refuse_unpriced(neighbours)
    z, rate = _noise(event.noise_multiplier), _rate(event.sampling_rate)
    batch = check_count("batch", event.batch)
    return _sampled(z, rate, None, lambda q, s: loss_pairs.WithReplacementPair(q, s, batch))


def _sampled(z: float, rate: float, whole: events.Neighbours | None, pair: Any) -> _Price:
    """Price sampled sums; under the relation ``whole``, all records are a plain Gaussian."""
    if rate == 0.0 or z == math.inf:
        return 0.0, None
    if z < NO_NOISE:
        return math.inf, None
    if rate == 1.0 and whole is not None:
        return _gaussian(events.Gaussian(z), whole)
    return 0.0, pair(rate, 1.0 / z)


def _approximate(event: events.Approximate, neighbours: events.Neighbours) -> _Price:
    epsilon = check_number("epsilon", event.epsilon, low=0)
    delta = _rate(event.delta, "delta")
    if delta == 1.0 or epsilon == math.inf:
        return math.inf, None
    return 0.0, approximate_pair(epsilon, delta)


def _profile(event: events.Profile, neighbours: events.Neighbours) -> _Price:
    epsilons, deltas = event.epsilons, event.deltas
    if len(epsilons) != len(deltas) or any(not a < b for a, b in itertools.pairwise(epsilons)):
        raise ValueError(f"epsilons={epsilons!r} must increase, and match deltas={deltas!r}.")
    return 0.0, profile_pair(epsilons, tuple(_rate(delta, "deltas") for delta in deltas))


_PRICES: dict[type, Callable[[Any, events.Neighbours], _Price]] = {
    events.Exact: lambda event, neighbours: (math.inf, None),
    events.Gaussian: _gaussian,
    events.PoissonGaussian: _poisson,
    events.FixedSizeGaussian: _fixed_size,
    events.WithReplacementGaussian: _with_replacement,
    events.Approximate: _approximate,
    events.Profile: _profile,
}


def _noise(z: float) -> float:
    return check_number("noise_multiplier", z, low=0)


def _rate(value: float, name: str = "sampling_rate") -> float:
    return check_number(name, value, low=0, high=1)


#: The first width that is tried, and the factor between two widths.
_WIDTH, _WIDER = 2e-4, 1.25


def merged(composition: events.Composition, most: int) -> events.Composition:
    """Return a composition that costs at least as much, with about ``most`` distinct releases.

    Plain Gaussians, which compose in closed form, and profiles are not changed.
    """
    alike = [part for part in composition if isinstance(part[0], _Mergeable)]
    if len(alike) <= most:
        return composition
    others = [part for part in composition if not isinstance(part[0], _Mergeable)]
    width, cells = _WIDTH, _cells(alike, _WIDTH)
    while len(cells) > most and width < 10.0:
        width *= _WIDER
        cells = _cells(alike, width)
    return events.compose(
        [*others, *((_most_expensive(cell), sum(n for _, n in cell)) for cell in cells)]
    )


_Mergeable = events.PoissonGaussian | events.FixedSizeGaussian | events.Approximate


def _cells(
    parts: list[tuple[events.Event, int]], width: float
) -> list[list[tuple[events.Event, int]]]:
    """Releases of the same kind whose parameters lie in the same steps."""
    cells: dict[tuple[object, ...], list[tuple[events.Event, int]]] = {}
    for event, count in parts:
        steps = (_step(number, width) for number in vars(event).values())
        cells.setdefault((type(event), *steps), []).append((event, count))
    return list(cells.values())


def _step(number: float, width: float) -> int | str:
    """The index of a number's step; 0 and infinity have their own."""
    return math.floor(math.log(number) / width) if 0 < number < math.inf else str(number)


def _most_expensive(cell: list[tuple[events.Event, int]]) -> events.Event:
    """Return a release that costs at least as much as each one of the cell."""
    numbers = [tuple(vars(event).values()) for event, _ in cell]
    first, second = zip(*numbers, strict=True)
    if isinstance(cell[0][0], events.Approximate):
        return events.Approximate(max(first), max(second))
    return type(cell[0][0])(min(first), max(second))  # type: ignore[call-arg]


def undominated(compositions: Sequence[events.Composition]) -> list[int]:
    """Return the indices of compositions that are not dominated by another one."""
    best: list[int] = []
    for i, composition in enumerate(compositions):
        if any(dominates(compositions[j], composition) for j in best):
            continue
        best = [j for j in best if not dominates(composition, compositions[j])] + [i]
    return best


def dominates(a: events.Composition, b: events.Composition) -> bool:
    """Whether each event of ``a`` costs at least as much as that of ``b``; False if unknown."""
    return len(a) == len(b) and all(
        m >= n and _costs_more(x, y) for (x, m), (y, n) in zip(a, b, strict=True)
    )


def _costs_more(x: events.Event, y: events.Event) -> bool:
    if x == y or type(x) is not type(y) or not hasattr(x, "noise_multiplier"):
        return x == y
    more, less = vars(x), vars(y)
    fewer = more["noise_multiplier"] <= less["noise_multiplier"]
    rates = more.get("sampling_rate", 1.0) >= less.get("sampling_rate", 1.0)
    # with replacement: a draw of y is one of x, or of other records
    return bool(fewer and rates and more.get("batch") == less.get("batch"))
