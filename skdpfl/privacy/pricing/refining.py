"""Finer grids for prices that the first grid makes too large.

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
from functools import cached_property, reduce

import numpy as np

from skdpfl.privacy.pricing.loss_pairs import SURE, Grid, GridLoss, TooFine
from skdpfl.privacy.pricing.loss_sum import Bound, LossSum, Window
from skdpfl.privacy.pricing.releases import AtomsPair, LossPair

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
        kept = probs[keep:] * SURE * np.exp(-a.h * np.arange(1, probs.size - keep + 1))
        infinite += float((probs[keep:] - kept).sum())
        probs = probs[:keep].copy()
        probs[-1] += kept.sum()
    return replace(a, low=low, probs=probs, infinite=infinite)


Pairs = tuple[tuple[LossPair, int], ...]
Question = Callable[[LossSum], Bound]

#: Prices with a smaller estimated excess are not computed again.
TOLERATED = 1e-3

#: A price is final if a finer grid lowers it by less, or if its own estimated excess is less.
_ENOUGH = 2e-4

#: Smaller and larger values of epsilon are not refined.
_SMALL, _LARGE = 1e-6, 600.0

#: The first guess of epsilon if there is none.
_GUESSES = (1.0, 30.0)

#: The least delta at which rounding is accounted for.
_LEAST = 1e-250

#: Points from 0 to the largest loss: at first, the factor from one grid to the next, at most.
_FIRST_POINTS, _POINTS_GROWTH, _MOST_POINTS = 2**10, 4, 2**19

#: The largest number of points convolved without a transform.
_FEW = 2**12

#: Probabilities of a loss beyond the grid, below and above.
_BELOW, _ABOVE = 1e-9, 1e-300


def refined(
    pairs: Pairs, delta: float, epsilon: float, ask: Question, moves: bool
) -> Iterator[float]:
    """Yield upper bounds for a question at ``delta``.

    ``epsilon`` is the given one, or a first answer to be improved (``moves``); then each answer
    decides where the next grid ends.
    """
    n_releases = sum(n for _, n in pairs)
    surely = sum(n * pair.largest(delta / (4 * n_releases)) for pair, n in pairs)
    if delta < _LEAST:
        return
    told = sum(n * pair.infinite for pair, n in pairs if isinstance(pair, AtomsPair))
    if moves and told <= delta / 2:
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
    while points <= _MOST_POINTS and _SMALL < epsilon < math.inf:
        try:
            bound = _priced(pairs, epsilon, points, ask)
        except TooFine:
            return
        value = bound.value
        yield value
        sharp = bound.excess < _ENOUGH and (value <= epsilon or not moves)
        if sharp or before >= value > min(_LARGE, (1.0 - _ENOUGH) * before):
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
        if points > _FEW:
            raise
        bound = Bound(math.inf, math.inf)
    if points > _FEW or bound.missing <= max(_ENOUGH, bound.spread):
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
    below = _BELOW / sum(n for _, n in pairs)
    grid = Grid(h, below, _ABOVE, 4 * points, largest)
    both = [(pair.grids(grid), n) for pair, n in pairs]
    return [tuple((g[k], n) for g, n in both) for k in (0, 1)]
