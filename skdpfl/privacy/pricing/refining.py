r"""A second look at prices that the first grid makes too large.

The first grid's step is a share of the deviation of one release's loss. That is too coarse where
one release is unlike the others: a record that is hardly ever sampled, but told when it is, has
losses of a thousand times the others' size. The deviation is made by these, the price by the
others. And where delta is tiny next to the rate of such a sampling, a transform's rounding, or the
share of delta given to losses beyond the grid, is not small against what epsilon changes.

So where a :class:`~skdpfl.privacy.pricing.loss_window.Window` estimates an excess above
``TOLERATED``, or the sum would have too many points, the composition is priced again: on a grid
that ends at a loss somewhat above the last price, whose end keeps the probabilities of what lies
beyond, and whose step is cut until the price stays; where a transform's rounding is what counts,
by :mod:`skdpfl.privacy.pricing.loss_product`.

Formal guarantee
----------------
Each of these prices is an upper bound, hence so is the least of them. The first one is the sum of
losses c_k that the releases exceed with probabilities that sum to at most delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from skdpfl.privacy.pricing.loss_atoms import AtomsPair
from skdpfl.privacy.pricing.loss_grid import Grid, GridLoss, TooFine
from skdpfl.privacy.pricing.loss_product import LossProduct
from skdpfl.privacy.pricing.loss_sum import LossSum
from skdpfl.privacy.pricing.loss_window import Bound
from skdpfl.privacy.pricing.releases import LossPair

Pairs = tuple[tuple[LossPair, int], ...]
Question = Callable[[LossSum], Bound]

#: Prices whose estimated excess is below are left alone.
TOLERATED = 1e-3

#: A price is final if a finer grid lowers it by less, or if its own estimated excess is less.
_ENOUGH = 2e-4

#: Epsilons below and above are not looked at more closely.
_SMALL, _LARGE = 1e-6, 600.0

#: Where to look first if nothing is known.
_GUESSES = (1.0, 30.0)

#: The least delta at which rounding is accounted for.
_LEAST = 1e-250

#: Points from 0 to the largest loss: at first, how many times more each time, at most.
_FIRST, _MORE, _MOST = 2**10, 4, 2**19

#: At most so many points are convolved without a transform.
_FEW = 2**12

#: Probabilities of a loss beyond the grid, below and above.
_BELOW, _ABOVE = 1e-9, 1e-300


def refined(
    pairs: Pairs, delta: float, epsilon: float, ask: Question, moves: bool
) -> Iterator[float]:
    """Yield upper bounds that answer a question at ``delta``.

    ``epsilon`` is the one asked for, or a first answer; the answers that follow say better where
    the grid may end if the question ``moves`` it.
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
    """Yield upper bounds on finer and finer grids, made for an epsilon of about ``epsilon``."""
    points, before = _FIRST, math.inf
    while points <= _MOST and _SMALL < epsilon < math.inf:
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
            points *= _MORE
        before = value


def unlike(pairs: Pairs) -> bool:
    """Whether a few atoms stand among other losses: their places on a grid decide the price."""
    few = [isinstance(pair, AtomsPair) and len(pair.losses) <= 2 for pair, _ in pairs]
    moved = any(a and pair.largest(0.0) > 0.0 for a, (pair, _) in zip(few, pairs, strict=True))
    return moved and not all(few)


def _priced(pairs: Pairs, epsilon: float, points: int, ask: Question) -> Bound:
    """Ask on a grid of so many points, without a transform where its rounding decides."""
    parts = _parts(pairs, epsilon, points)
    if sum(n for _, n in pairs) == 1:
        return max(ask(LossProduct(part, 4 * _MOST)) for part in parts)
    try:
        bound = max(ask(LossSum(part, 4 * _MOST)) for part in parts)
    except TooFine:
        if points > _FEW:
            raise
        bound = Bound(math.inf, math.inf)
    if points > _FEW or bound.missing <= max(_ENOUGH, bound.spread):
        return bound
    return min(bound, max(ask(LossProduct(part, 4 * _MOST)) for part in parts))


def _parts(pairs: Pairs, epsilon: float, points: int) -> list[tuple[tuple[GridLoss, int], ...]]:
    """Losses on a grid whose ends leave room for what others may add to a loss of epsilon."""
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
