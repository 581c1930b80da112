r"""Chains of neighbours: what one record's privacy profile says about k records.

Between neighbours every event A has P(A) <= e^eps Q(A) + delta(eps), for each eps, and, of the
complement with P and Q exchanged, P(A) <= 1 - e^{-eps} (1 - Q(A) - delta(eps)). Hence P(A) <=
H(Q(A)) with the increasing, concave function

    H(x) = min(1, min_eps e^eps x + delta(eps), min_eps 1 - e^{-eps} (1 - x - delta(eps)))

and, from neighbour to neighbour, P_0(A) <= H(H(... P_k(A))) = H^k(P_k(A)) for data sets that differ
in k records. (H is one minus the trade-off function of Dong, Roth & Su 2022, whose theorem 2.14
this is.) The group's profile is delta_k(E) = sup_x H^k(x) - e^E x.

With finitely many eps, H is larger, hence a bound, and made of straight lines. So is H^k: the
supremum is at 0 or where some H^j(x), j < k, is a corner of H.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

#: Covers rounding, of a share (of a point, of H there) and of a difference to 1.
_ROUNDING, _OF_ONE = 1e-9, 1e-15

#: exp of more is infinite.
_LARGEST = 700.0


class Chain:
    """The profile of k records together, from one record's ``deltas`` at ``epsilons``."""

    def __init__(self, epsilons: Sequence[float], deltas: Sequence[float], k: int) -> None:
        finite = [(e, d) for e, d in zip(epsilons, deltas, strict=True) if e < _LARGEST]
        eps, delta = np.array(finite).T
        shrunk = np.exp(-eps)
        self._slopes = np.concatenate([np.exp(eps), shrunk, [0.0]])
        self._offsets = np.concatenate([delta, 1 - shrunk * (1 - delta) + _OF_ONE, [1.0]])
        corners = np.append(0.0, self._corners())
        onwards = [corners]  # H^j of the corners
        for _ in range(k):
            onwards.append(self._power(onwards[-1]))
        at = corners
        points, values = [], []
        for j in range(k):
            points.append(at)
            values.append(onwards[k - j])
            at = self._before(at)
        self._points = np.concatenate(points) * (1 - _ROUNDING)
        self._values = np.concatenate(values) * (1 + _ROUNDING)

    def delta(self, epsilon: float) -> float:
        """Return the delta at which k records together are (epsilon, delta)-DP."""
        above = self._values - np.exp(min(epsilon, _LARGEST)) * self._points
        return float(min(1.0, max(0.0, above.max())))

    def _power(self, x: _Floats) -> _Floats:
        """Return H(x)."""
        return np.min(self._slopes[:, None] * x + self._offsets[:, None], axis=0)

    def _before(self, y: _Floats) -> _Floats:
        """Return the x with H(x) = y, not rounded up; 0 where H is larger everywhere."""
        rising = self._slopes > 0
        slopes, offsets = self._slopes[rising, None], self._offsets[rising, None]
        rounding = np.where(offsets > 0.5, _OF_ONE, 0.0)
        return np.maximum(0.0, np.max((y - offsets - rounding) / slopes, axis=0))

    def _corners(self) -> _Floats:
        """Return the points where H changes from one line to another."""
        i, j = np.triu_indices(len(self._slopes), 1)
        i, j = (np.where(self._slopes[i] > self._slopes[j], *pair) for pair in ((i, j), (j, i)))
        steeper = self._slopes[i] > self._slopes[j]
        i, j = i[steeper], j[steeper]
        x = (self._offsets[j] - self._offsets[i]) / (self._slopes[i] - self._slopes[j])
        inside = (x > 0) & (x <= 1)
        x, i = x[inside], i[inside]
        on_line = self._slopes[i] * x + self._offsets[i]
        return np.unique(x[on_line <= self._power(x) * (1 + _ROUNDING)])
