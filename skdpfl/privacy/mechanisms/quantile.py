r"""Clipping norms learnt for a price, and what two sums over one cohort cost together.

Two noisy sums of the *same* silos are one release of a longer vector. With contributions ``a_i``
and ``b_i``, ``|a_i| <= A``, ``|b_i| <= B`` and noise of standard deviation ``z1 A`` and ``z2 B``,
the vector ``(a_i / (z1 A), b_i / (z2 B))`` has unit noise and norm at most ``1/z``, where ::

    1 / z^2 = 1 / z1^2 + 1 / z2^2

so the pair is a Gaussian release with noise multiplier z, under zero-out (a contribution of norm
1/z appears) and under replacement (two of them differ by 2/z), sampled or not. Priced as two
sampled releases it would be counted as if two independent cohorts had been drawn: too cheap.

Adaptive clipping [1]_: silo i sends with its message the bit ``b_i = 1{|x_i| <= C}``, as
``b_i - 1/2``, so that B = 1/2 and its noise has standard deviation ``z2 / 2`` on the sum. With the
public number of silos expected ::

    beta = sum_i (b_i - 1/2) / expected + noise + 1/2          (an unbiased share of silos below C)
    C   <- C exp(-rate (beta - quantile))

Sum of squared norms, for the numerator of extrapolated steps: ``|x_i|^2`` lies in [0, C^2]. Setting
one to zero or replacing one moves the sum by at most C^2, so with standard deviation s on the sum
``z2 = s / C^2`` under zero-out, and ``z2 = 2 s / C^2`` under replacement (pair 2 / z2), where the
joint z is a little safe: messages 2 C apart have equal norms. If cohorts
are sampled *and* records replaced, contributions must be centred for the latter: send
``|x_i|^2 - C^2/2``, for which B = C^2/2.

A histogram of norms on a fixed logarithmic grid asks once instead of every round. Each silo is in
one bin: B = 1 under zero-out; without sampling a replacement moves two bins by one, sqrt(2) in all,
hence ``z = s sqrt(2)``. A share of silos below an edge j is then known to ``s sqrt(j + 1)`` silos.
One such question is the better use of a budget for few rounds or norms that hardly change; the bit
follows norms that shrink while the model converges.

Formal guarantee
----------------
Every number here is a function of noisy sums with the stated multiplier, and the formulas bound the
contribution of any silo whatever its data; C itself is post-processing of earlier releases.

References
----------
.. [1] Andrew, Thakkar, McMahan & Ramaswamy, "Differentially private learning with adaptive
   clipping", NeurIPS 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdpfl.privacy.pricing.price import Neighbours


def joint_noise_multiplier(*noise_multipliers: float) -> float:
    """Return the noise multiplier of several noisy sums over one cohort, priced as one release.

    Parameters
    ----------
    *noise_multipliers : float
        Noise over clip norm of each sum; ``inf`` for a part that is not released.

    Returns
    -------
    float
        z with 1/z^2 = sum of 1/z_j^2: 0 if one part is exact, ``inf`` if nothing is released.
    """
    for z in noise_multipliers:
        if not z >= 0.0:
            raise ValueError(f"noise multipliers must be at least 0, got {z!r}.")
    if any(z == 0.0 for z in noise_multipliers):
        return 0.0
    precision = math.hypot(*(1.0 / z for z in noise_multipliers))
    return 1.0 / precision if precision else math.inf


def split_noise_multiplier(noise_multiplier: float, share: float) -> tuple[float, float]:
    """Divide one release into a main sum and a small one.

    Parameters
    ----------
    noise_multiplier : float
        z of the two together.
    share : float
        The small sum's share of 1/z^2, in (0, 1): 0.01 costs the main sum 0.5 % more noise.

    Returns
    -------
    main, small : float
        Their noise multipliers; :func:`joint_noise_multiplier` of them is z.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"share must be in (0, 1), got {share!r}.")
    return noise_multiplier / math.sqrt(1.0 - share), noise_multiplier / math.sqrt(share)


def numerator_noise_multiplier(std: float, clip_norm: float, neighbours: Neighbours) -> float:
    """Return the noise multiplier of a noisy sum of squared norms of clipped messages.

    Parameters
    ----------
    std : float
        Standard deviation of the noise on the sum (not on the mean).
    clip_norm : float
        C, the largest norm of a message.
    neighbours : {"replace", "add_remove"}
        Under "replace" with sampled cohorts the contributions must be centred, see the module.
    """
    return std / clip_norm**2 * (2.0 if neighbours == "replace" else 1.0)


@dataclass(frozen=True)
class AdaptiveClip:
    """Steer a clip norm to a quantile of the messages' norms by one noisy bit per silo.

    Parameters
    ----------
    quantile : float
        The share of silos whose messages should not be clipped, in (0, 1).
    learning_rate : float
        log C rises by at most ``learning_rate * quantile`` a round, and falls by at most
        ``learning_rate * (1 - quantile)``: start low for a high quantile.
    """

    quantile: float = 0.5
    learning_rate: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0 < self.quantile < 1.0:
            raise ValueError(f"quantile must be in (0, 1), got {self.quantile!r}.")
        if not 0.0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate!r}.")

    def bits(self, norms: np.ndarray, clip_norm: float) -> np.ndarray:
        """Return +1/2 for each norm up to the clip norm and -1/2 for the rest, any shape.

        A norm that is not finite belongs to a message that counts as zero, and so does the bit.
        """
        norms = np.asarray(norms, dtype=float)
        return np.where((norms <= clip_norm) | ~np.isfinite(norms), 0.5, -0.5)

    def noise_std(self, noise_multiplier: float) -> float:
        """Return the standard deviation of the noise on the sum of bits."""
        return 0.5 * noise_multiplier

    def update(self, clip_norm: float, noisy_sum: float, expected: float) -> float:
        """Return the next clip norm.

        Parameters
        ----------
        clip_norm : float
            C of the round that sent the bits.
        noisy_sum : float
            Sum of the cohort's bits, plus noise.
        expected : float
            The public expected number of silos in a cohort, never the realised one.
        """
        share = noisy_sum / expected + 0.5
        # what lies outside [0, 1] is noise: cut it, so that no round runs away
        share = min(1.0, max(0.0, share))
        return clip_norm * math.exp(-self.learning_rate * (share - self.quantile))


@dataclass(frozen=True)
class LogHistogram:
    """Find a quantile of norms in one release: noisy counts on a fixed logarithmic grid.

    Parameters
    ----------
    low, high : float
        The smallest and largest answer; public, 0 < low < high.
    bins_per_octave : int
        Edges per factor of two.
    """

    low: float = 2.0**-10
    high: float = 2.0**10
    bins_per_octave: int = 1

    def __post_init__(self) -> None:
        if not 0.0 < self.low < self.high < math.inf:
            raise ValueError(
                f"low and high must satisfy 0 < low < high, got {self.low!r} and {self.high!r}."
            )
        if self.bins_per_octave < 1:
            raise ValueError(f"bins_per_octave must be at least 1, got {self.bins_per_octave!r}.")

    @cached_property
    def edges(self) -> np.ndarray:
        """The possible answers, increasing from ``low`` to at least ``high``."""
        n = math.ceil(math.log2(self.high / self.low) * self.bins_per_octave - 1e-9)
        return self.low * 2.0 ** (np.arange(n + 1) / self.bins_per_octave)

    def one_hot(self, norms: np.ndarray) -> np.ndarray:
        """Return contributions of shape (M, len(edges) + 1): a one in each norm's bin.

        The last bin is for norms above all edges; a norm that is not finite counts as zero.
        """
        norms = np.asarray(norms, dtype=float)
        place = np.searchsorted(self.edges, np.where(np.isfinite(norms), norms, 0.0))
        return np.eye(len(self.edges) + 1)[place]

    def noise_multiplier(self, std: float, neighbours: Neighbours) -> float:
        """Return the noise multiplier of all counts together; no sampling under "replace"."""
        return std * (math.sqrt(2.0) if neighbours == "replace" else 1.0)

    def quantile(self, noisy_counts: np.ndarray, expected: float, quantile: float) -> float:
        """Return the edge whose noisy share of norms below comes nearest to the quantile."""
        below = np.cumsum(noisy_counts[:-1])
        return float(self.edges[int(np.argmin(np.abs(below - quantile * expected)))])
