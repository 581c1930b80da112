"""Compositions that never cost more than another one, at any delta, and need not be priced.

Formal guarantee
----------------
Event by event, more noise, a lower sampling rate and fewer releases cost at most as much, at every
delta and in any composition: noise can be added afterwards; a sample at rate q' < q is a sample at
rate q that is replaced, with probability 1 - q'/q, by a draw that does not depend on the record
(joint convexity of the hockey-stick divergence); and a release can be ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from skdpfl.privacy.events import Composition, Event, FixedSizeGaussian, Gaussian, PoissonGaussian


def undominated(compositions: Sequence[Composition]) -> list[int]:
    """Return the indices of compositions that are not dominated by another one."""
    kept: list[int] = []
    for i, composition in enumerate(compositions):
        if any(dominates(compositions[j], composition) for j in kept):
            continue
        kept = [j for j in kept if not dominates(composition, compositions[j])] + [i]
    return kept


def dominates(a: Composition, b: Composition) -> bool:
    """Whether each event of ``a`` costs at least as much as that of ``b``; False if unknown."""
    return len(a) == len(b) and all(
        m >= n and _costs_more(x, y) for (x, m), (y, n) in zip(a, b, strict=True)
    )


def _costs_more(x: Event, y: Event) -> bool:
    if x == y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, Gaussian) and isinstance(y, Gaussian):
        return x.noise_multiplier <= y.noise_multiplier
    if isinstance(x, PoissonGaussian | FixedSizeGaussian):
        assert isinstance(y, PoissonGaussian | FixedSizeGaussian)
        return x.noise_multiplier <= y.noise_multiplier and x.sampling_rate >= y.sampling_rate
    return False
