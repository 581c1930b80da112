"""The price of a composition of releases: epsilon at a given delta, and delta at a given epsilon.

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
(:mod:`skdpfl.privacy.pricing.price`). An epsilon below delta may be too large by 0.2 % of delta,
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

Finer grids for prices that the first grid makes too large.
-----------------------------------------------------------
The step of the first grid is a share of the standard deviation of one release's loss. That is too
coarse if one release differs from the others: a record that is hardly ever sampled, but exposed
when it is, has losses a thousand times as large. They determine the deviation, the others the
price. And if delta is tiny next to the rate of such a sampling, the rounding error of a transform,
or the share of delta for losses beyond the grid, is not small.

So if a :class:`~skdpfl.privacy.pricing.loss_sum.Window` estimates an excess above ``TOLERATED``,
or the sum would have too many points, the composition is priced again: on a grid that ends somewhat
above the last price, with the probability beyond kept at its end, and with smaller and smaller
steps until the price does not change; if the rounding error of a transform dominates, without
one (:class:`LossProduct`).

Formal guarantee: finer grids
-----------------------------
Each of these prices is an upper bound, hence so is the least of them. The first one is the sum of
losses c_k that the releases exceed with probabilities that sum to at most delta.

**Without a transform.** The rounding errors of a fast Fourier transform are relative to the largest
tilted probability. For heavy-tailed losses (a record is rarely sampled, but exposed when it is) and
tiny delta, no tilt makes the relevant probabilities large enough. Here products of positive numbers
are added, so that the relative error is small for every probability, however small.

Formal guarantee: sums without a transform
------------------------------------------
For grid losses that dominate the true ones the result bounds the true delta (or epsilon) from
above. Sums below the window are rounded up to its first point. Sums l above its last point l' share
their probability p: ``p e^{l' - l}`` stays at l', which keeps Q's probability, the rest goes to
infinity (:mod:`skdpfl.privacy.pricing.loss_pairs` says why that dominates). A convolution of N
points adds N + 2 roundings to the relative errors of its two factors, which add up: n releases are
right to n (N + 2) roundings. That share is added to delta, and ``_LOST``, far above what
underflows.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache, reduce

import numpy as np

from skdpfl.privacy.events import Composition, Neighbours
from skdpfl.privacy.pricing.gaussian import gaussian_delta, gaussian_epsilon
from skdpfl.privacy.pricing.loss_pairs import COUNTED_TAIL, Grid, GridLoss, TooFine, gaussian_pair
from skdpfl.privacy.pricing.loss_sum import Bound, LossSum, Window
from skdpfl.privacy.pricing.releases import AtomsPair, LossPair, Releases, merged, releases

#: The least relative error that is assumed, and a bound on what underflows.
_PRODUCT_ROUND, _LOST = 1e-9, 1e-290


class LossProduct(LossSum):
    """Independent losses on one grid: ``parts`` are (loss, how many times)."""

    @property
    def infinite(self) -> float:
        """The probability that some loss is infinite."""
        return self._law.infinite * (1.0 + self._rounding)

    @property
    def _rounding(self) -> float:
        """A bound on the relative rounding error of each probability."""
        return max(_PRODUCT_ROUND, self.n_releases * (self._law.probs.size + 2) * 2.0**-52)

    @cached_property
    def _law(self) -> GridLoss:
        """The distribution of the sum, in a window that holds all losses."""
        most = max(max(-loss.low, loss.low + loss.probs.size - 1) for loss, _ in self.parts)
        return reduce(
            lambda a, b: _sum(a, b, most), (_times(loss, n, most) for loss, n in self.parts)
        )

    def _window(self, saddle: float, epsilon: float, log_size: float) -> Window:
        law = self._law
        losses = law.losses
        centre = float(min(max(epsilon, losses[0]), losses[-1]))
        return Window(
            self.h, losses, law.probs, 0.0, centre, 0.0, _LOST, self.n_releases, self._rounding
        )


def _times(loss: GridLoss, n: int, most: int) -> GridLoss:
    """The sum of n identically distributed losses, by doubling."""
    total = None
    while True:
        if n % 2:
            total = loss if total is None else _sum(total, loss, most)
        n //= 2
        if not n:
            assert total is not None
            return total
        loss = _sum(loss, loss, most)


def _sum(a: GridLoss, b: GridLoss, most: int) -> GridLoss:
    """The sum of two losses, on at most ``most`` points on either side of 0."""
    low, probs = a.low + b.low, np.convolve(a.probs, b.probs)
    infinite = a.infinite + b.infinite
    if (cut := -most - low) > 0:
        probs[cut] += probs[:cut].sum()
        low, probs = -most, probs[cut:]
    if (keep := most - low + 1) < probs.size:
        tail = probs[keep:] * COUNTED_TAIL * np.exp(-a.h * np.arange(1, probs.size - keep + 1))
        infinite += float((probs[keep:] - tail).sum())
        probs = probs[:keep].copy()
        probs[-1] += tail.sum()
    return replace(a, low=low, probs=probs, infinite=infinite)


Pairs = tuple[tuple[LossPair, int], ...]
Question = Callable[[LossSum], Bound]

#: Prices with a smaller estimated excess are not computed again.
TOLERATED = 1e-3

#: A price is final if a finer grid lowers it by less, or if its own estimated excess is less.
_FINAL_CHANGE = 2e-4

#: Smaller and larger values of epsilon are not refined.
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-6, 600.0

#: The first guess of epsilon if there is none.
_GUESSES = (1.0, 30.0)

#: The least delta at which rounding is accounted for.
_LEAST_DELTA = 1e-250

#: Points from 0 to the largest loss: at first, the factor from one grid to the next, at most.
_FIRST_POINTS, _POINTS_GROWTH, _MOST_POINTS = 2**10, 4, 2**19

#: The largest number of points convolved without a transform.
_FEW_POINTS = 2**12

#: Probabilities of a loss beyond the grid, below and above.
_FAR_BELOW, _FAR_ABOVE = 1e-9, 1e-300


def refined(
    pairs: Pairs, delta: float, epsilon: float, ask: Question, moves: bool
) -> Iterator[float]:
    """Yield upper bounds for a question at ``delta``.

    ``epsilon`` is the given one, or a first answer to be improved (``moves``); then each answer
    decides where the next grid ends.
    """
    n_releases = sum(n for _, n in pairs)
    surely = sum(n * pair.largest(delta / (4 * n_releases)) for pair, n in pairs)
    if delta < _LEAST_DELTA:
        return
    infinite = sum(n * pair.infinite for pair, n in pairs if isinstance(pair, AtomsPair))
    if moves and infinite <= delta / 2:
        yield surely
    starts = [min(epsilon, surely) if moves else epsilon]
    if epsilon == math.inf:  # the sum of the largest losses may be far away
        starts = [e for e in _GUESSES if e < surely] + starts
    for start in starts:
        value = math.inf
        for value in _finer(pairs, start, ask, moves):
            yield value
        if value <= start:
            return


def _finer(pairs: Pairs, epsilon: float, ask: Question, moves: bool) -> Iterator[float]:
    """Yield upper bounds on finer and finer grids for an epsilon of about ``epsilon``."""
    points, before = _FIRST_POINTS, math.inf
    while points <= _MOST_POINTS and _LEAST_EPSILON < epsilon < math.inf:
        try:
            bound = _priced(pairs, epsilon, points, ask)
        except TooFine:
            return
        value = bound.value
        yield value
        sharp = bound.excess < _FINAL_CHANGE and (value <= epsilon or not moves)
        if sharp or before >= value > min(_LARGEST_EPSILON, (1.0 - _FINAL_CHANGE) * before):
            return
        if moves and value < epsilon / 2:
            epsilon = value
        else:
            points *= _POINTS_GROWTH
        before = value


def unlike(pairs: Pairs) -> bool:
    """Whether there are atoms among continuous losses, so that the position of the grid matters."""
    few = [isinstance(pair, AtomsPair) and len(pair.losses) <= 2 for pair, _ in pairs]
    moved = any(a and pair.largest(0.0) > 0.0 for a, (pair, _) in zip(few, pairs, strict=True))
    return moved and not all(few)


def _priced(pairs: Pairs, epsilon: float, points: int, ask: Question) -> Bound:
    """Return the answer on a grid of ``points`` points, by a transform if that is exact enough."""
    parts = _parts(pairs, epsilon, points)
    if sum(n for _, n in pairs) == 1:
        return max(ask(LossProduct(part, 4 * _MOST_POINTS)) for part in parts)
    try:
        bound = max(ask(LossSum(part, 4 * _MOST_POINTS)) for part in parts)
    except TooFine:
        if points > _FEW_POINTS:
            raise
        bound = Bound(math.inf, math.inf)
    if points > _FEW_POINTS or bound.missing <= max(_FINAL_CHANGE, bound.spread):
        return bound
    return min(bound, max(ask(LossProduct(part, 4 * _MOST_POINTS)) for part in parts))


def _parts(pairs: Pairs, epsilon: float, points: int) -> list[tuple[tuple[GridLoss, int], ...]]:
    """Losses on a grid that reaches beyond epsilon by as much as other losses may subtract."""
    deviation = math.sqrt(sum(n * pair.variance(2 * epsilon) for pair, n in pairs))
    largest = 2 * epsilon + 8 * deviation
    h = largest / points
    atom = max((pair.largest(0.0) for pair, _ in pairs if isinstance(pair, AtomsPair)), default=0.0)
    if h < atom <= largest:  # the largest atom lies on the grid
        h = atom / math.ceil(atom / h)
    below = _FAR_BELOW / sum(n for _, n in pairs)
    grid = Grid(h, below, _FAR_ABOVE, 4 * points, largest)
    both = [(pair.grids(grid), n) for pair, n in pairs]
    return [tuple((g[k], n) for g, n in both) for k in (0, 1)]


#: Grid step over the root mean square deviation of one release's loss: least, largest.
_FINEST_STEP, _COARSEST_STEP = 1 / 64, 1 / 16

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
    h = min(_COARSEST_STEP, max(_FINEST_STEP, fineness)) * (deviation or 1e-3)
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
