r"""The price of a composition of releases: epsilon at a given delta, and delta at a given epsilon.

Plain Gaussian releases have a closed form (:mod:`skdpfl.privacy.pricing.gaussian`). Everything else
is priced by privacy loss distributions: each release's dominating pair
(:mod:`skdpfl.privacy.pricing.loss_pairs`) is made discrete on the safe side
(:mod:`skdpfl.privacy.pricing.loss_pairs`) and all are convolved at once
(:mod:`skdpfl.privacy.pricing.loss_sum`). The grid's step follows the composition::

    h = f sqrt(sum_k n_k Var L_k / sum_k n_k),   1/64 <= f <= 1/16

a fixed fraction of the (root mean square) deviation of one release's loss. The error of the grid is
then a fixed fraction of epsilon, for any epsilon and any number of steps: epsilon is 0.04 % too
large at f = 1/16 and 0.003 % at f = 1/64, used while the work is small. If the error is estimated
to be larger, or the sum would need more than ``_MAX_WINDOW`` points, the price is computed again
(:mod:`skdpfl.privacy.pricing.refining`). An epsilon below delta may be too large by 0.2 % of delta,
which 0.1 % more noise makes up for: d epsilon / d log noise is about -2 delta there. With more than
``_MOST_DISTINCT`` distinct releases, similar ones are priced as the most expensive of them
(:mod:`skdpfl.privacy.pricing.releases`): for noise multipliers within a factor of four epsilon is
0.5 % too large (batches of fixed size: 1.4 %).

Compared with dp-accounting: its distributions agree with these (tested), but it composes one event
after the other, has no batches of fixed size, loses precision on grids below 1e-6 (a million steps
at epsilon 1e-3 need 1e-8) and in tails below 1e-10, and takes longer to import than a calibration
here. The tests use it as the independent reference.

Formal guarantee
----------------
The returned (epsilon, delta) holds for the composition of the events under the stated relation.
Delta may be as small as 1e-250: rounding is accounted for relative to delta.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from skdpfl.privacy.events import Composition, Neighbours
from skdpfl.privacy.pricing.gaussian import gaussian_delta, gaussian_epsilon
from skdpfl.privacy.pricing.loss_pairs import Grid, TooFine, gaussian_pair
from skdpfl.privacy.pricing.loss_sum import Bound, LossSum
from skdpfl.privacy.pricing.refining import TOLERATED, Pairs, refined, unlike
from skdpfl.privacy.pricing.releases import AtomsPair, Releases, merged, releases

#: Grid step over the root mean square deviation of one release's loss: least, largest.
_FINEST, _COARSEST = 1 / 64, 1 / 16

#: Points in the sum, times the number of distinct releases, above which the grid is made coarser.
_WORK = 2**16

#: Points in all one-release distributions together (the first number if there is one release, more
#: with the square root of their number), and points in their sum.
_POINTS, _MAX_POINTS, _MAX_WINDOW = 2**16, 2**17, 2**18

#: Points for each of many distinct releases: as many as these, with so many in all.
_EACH, _ALL_POINTS = 2**14, 2**19

#: More distinct releases are merged.
_MOST_DISTINCT = 96

#: Share of delta spent on losses beyond the grid.
_TAIL_SHARE = 1e-4

#: Probability that some loss lies below the grid; it is rounded up.
_BELOW = 1e-6


@lru_cache(maxsize=4096)
def price_epsilon(composition: Composition, delta: float, neighbours: Neighbours) -> float:
    """Return the epsilon at which the composition is (epsilon, delta)-DP; ``inf`` if there is none.

    Parameters
    ----------
    composition : Composition
        The releases, see :mod:`skdpfl.privacy.events`.
    delta : float
        In [0, 1).
    neighbours : {"replace", "add_remove"}
        The relation between data sets.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta={delta!r} must lie in [0, 1).")
    released = releases(merged(composition, _MOST_DISTINCT), neighbours)
    if not released.pairs or released.mu == math.inf:
        return gaussian_epsilon(released.mu, delta)
    infinite, largest = _infinite_probability(released), _largest_loss(released)
    if infinite >= delta:
        return largest if infinite == delta else math.inf
    first = _worst(released, delta, lambda loss: loss.epsilon(delta))
    epsilon = first.value
    too_much = first.excess * epsilon > TOLERATED * (epsilon + 2 * delta)
    if too_much or unlike(_pairs(released)):
        again = refined(_pairs(released), delta, epsilon, lambda loss: loss.epsilon(delta), True)
        epsilon = min([epsilon, *again])
    return min(largest, epsilon)


@lru_cache(maxsize=4096)
def price_delta(composition: Composition, epsilon: float, neighbours: Neighbours) -> float:
    """Return the delta at which the composition is (epsilon, delta)-DP.

    Parameters
    ----------
    composition : Composition
        The releases, see :mod:`skdpfl.privacy.events`.
    epsilon : float
        At least 0.
    neighbours : {"replace", "add_remove"}
        The relation between data sets.
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon={epsilon!r} must be at least 0.")
    released = releases(merged(composition, _MOST_DISTINCT), neighbours)
    if not released.pairs or released.mu == math.inf:
        return gaussian_delta(released.mu, epsilon)
    infinite = _infinite_probability(released)
    if epsilon >= _largest_loss(released):
        return infinite
    # losses beyond the grid may take a share of delta, which is guessed first
    guess = max(infinite, 1e-7)

    def at_epsilon(loss: LossSum) -> Bound:
        finite = loss.finite_delta(epsilon, guess / 30)
        return finite._replace(value=loss.infinite + finite.value)

    while True:
        first = _worst(released, guess, at_epsilon)
        if guess <= max(infinite, 30 * first.value) or guess < 1e-250:
            break
        guess = max(infinite, first.value, 1e-9 * guess)
    delta = min(1.0, first.value)
    if epsilon > 0.0 and (first.excess > TOLERATED or unlike(_pairs(released))):
        delta = min([delta, *refined(_pairs(released), delta, epsilon, at_epsilon, False)])
    return delta


def _worst(released: Releases, delta: float, question: Callable[[LossSum], Bound]) -> Bound:
    """Return the larger answer of the relation's two directions, on a grid made for ``delta``."""
    pairs = _pairs(released)
    n_releases = sum(n for _, n in pairs)
    tail = max(1e-300, _TAIL_SHARE * delta / (2 * n_releases))
    points = int(min(_MAX_POINTS, _POINTS * math.sqrt(n_releases))) // len(pairs)
    points = max(points, min(_EACH, _ALL_POINTS // len(pairs)))
    h, cut_short = _step(pairs), False
    while True:
        try:
            grid = Grid(h, max(tail, _BELOW / n_releases), tail, points)
            both = [(pair.grids(grid), n) for pair, n in pairs]
            sums = [LossSum(tuple((g[k], n) for g, n in both), _MAX_WINDOW) for k in (0, 1)]
            symmetric = all(one is other for (one, other), _ in both)
            worst = max(question(s) for s in (sums[:1] if symmetric else sums))
            return worst._replace(spread=math.inf) if cut_short else worst
        except TooFine as error:
            h *= error.ratio * 1.001
            cut_short = cut_short or error.of_sum


def _pairs(released: Releases) -> Pairs:
    """Return the pairs of all releases, with plain Gaussians as one release."""
    if released.mu_squared:
        return (*released.pairs, (gaussian_pair(released.mu), 1))
    return released.pairs


def _step(pairs: Pairs) -> float:
    """Return the step of the grid."""
    n_releases = sum(n for _, n in pairs)
    deviation = math.sqrt(sum(n * pair.variance() for pair, n in pairs) / n_releases)
    # a sum is about 16 standard deviations wide
    fineness = 16 * math.sqrt(n_releases) * len(pairs) / _WORK
    h = min(_COARSEST, max(_FINEST, fineness)) * (deviation or 1e-3)
    if not all(isinstance(pair, AtomsPair) for pair, _ in pairs):
        return h
    # there are few atoms: a much finer grid costs little, and the largest loss lies on it
    largest = max(max(pair.losses) for pair, _ in pairs if isinstance(pair, AtomsPair))
    return largest / math.ceil(16 * largest / h) if largest > 0 else h


def _largest_loss(released: Releases) -> float:
    """Return the sum of the largest finite losses: above it delta comes from infinite losses."""
    if released.mu_squared:
        return math.inf
    total = 0.0
    for pair, n in released.pairs:
        if not isinstance(pair, AtomsPair):
            return math.inf
        total += n * max(pair.losses)
    return total


def _infinite_probability(released: Releases) -> float:
    """Return the probability that some release has an infinite loss."""
    atoms = [(pair.infinite, n) for pair, n in released.pairs if isinstance(pair, AtomsPair)]
    atoms = [(infinite, n) for infinite, n in atoms if infinite]
    if any(infinite == 1.0 for infinite, _ in atoms):
        return 1.0
    if len(atoms) == 1 and atoms[0][1] == 1:  # no rounding: delta may be equal to it
        return atoms[0][0]
    return -math.expm1(sum(n * math.log1p(-infinite) for infinite, n in atoms))
