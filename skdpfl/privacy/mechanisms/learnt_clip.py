r"""Adaptive clipping: the clip norm of messages follows a quantile of their norms.

    C_(r+1) = min(H, C_r exp(-rate_r ([share_r]_0^1 - quantile)))
    rate_r  = max(last, first / (1 + r / 2)) / (1 + (s / 0.3)^2)

``share_r`` is the released share of messages within C_r, ``s`` the standard deviation of its noise,
a public number. Shares are clipped to [0, 1]. Rates decrease, so that a start that is wrong by a
factor of ten is corrected within a few rounds and C is stable later; noisier shares have less
effect. H is a public upper bound: where noise drives the model away, messages grow, and C must not
grow with them without bound, since the noise grows with C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: standard deviation of the noise on the share at which the rate is halved
NOISE = 0.3


@dataclass(frozen=True)
class LearntClip:
    """Adaptive clipping of Andrew et al. (NeurIPS 2021) with decreasing rates and an upper bound.

    Parameters
    ----------
    highest : float
        H, in the units of messages.
    quantile : float, default=0.5
        The target share of messages that are not clipped.
    first_rate, last_rate : float, default=2.0, 0.2
        Change of log C in the first round, and in late ones, for an error of one in the share.
    """

    highest: float
    quantile: float = 0.5
    first_rate: float = 2.0
    last_rate: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0 < self.quantile < 1.0:
            raise ValueError(f"quantile must be in (0, 1), got {self.quantile!r}.")

    def update(self, clip_norm: float, share: float, noise: float, round: int) -> float:
        """Return the clip norm of the round after ``round``."""
        rate = max(self.last_rate, self.first_rate / (1 + round / 2)) / (1 + (noise / NOISE) ** 2)
        share = min(1.0, max(0.0, share))
        return min(self.highest, clip_norm * math.exp(-rate * (share - self.quantile)))
