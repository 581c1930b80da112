"""Shared noise: each silo adds a part of it to its own sum, and only the total is revealed.

A cohort has c silos; the server and up to t of them may collude. They know their own terms and
noise in each released sum, so the noise of the other c - t has to suffice::

    s       = std / sqrt(c - t)                   std: the noise that was priced, on the total
    gamma   = 2^-36 s                             one grid for all silos of the cohort
    k_j     = rint(S_j / gamma) + N_j             silo j, int64; N_j: Stream.units, of its own
    release = gamma sum_j k_j                     the sum is taken modulo 2^64

``S_j`` are weighted sums, all in the units of the total. What masks hide is ``k_j``: adding masks
modulo 2^64 and adding up the letters gives the same sum, bit for bit. ::

    noise = shared_noise(std, n_silos=len(cohort), colluding=t, bound=largest_total)
    k = noise.steps(weight * message, streams.units("share", silo, attempt))     # each silo
    mean = noise.total(k_1 + k_2 + ...) / divisor                                # the server

Formal guarantee
----------------
1. *The coalition's view.* Whatever it knows of its t silos, it reads the sum of the other silos'
   ``k_j``, h = c - t or more of them, the record's own silo among them (a function of it and of
   what the coalition holds anyway). Their noises add up to a sum of h independent normals on one
   grid, of deviation ``s sqrt(h) = std`` or more.
2. *Its price.* Such a sum costs at most what the Gaussian mechanism with deviation ``std`` costs:
   docs/proofs.rst, "Noise that silos share", for shares of at least 2^20 steps. These have 2^36.
3. *Rounding.* Between neighbours one silo's integers ``rint(S_j / gamma)`` change, and no other's:
   by at most what :mod:`skdpfl.privacy.release.noised_sum` says, for that silo's sum alone. Sums of
   integers modulo 2^64 are exact in every order.
4. *The sampler.* A normal's law (:mod:`skdpfl.privacy.randomness.normals`) is within 3.2e-35 in
   total variation of one whose likelihood ratio is known. So h n normals, for n released numbers,
   add ``(1 + exp(epsilon)) h n 3.2e-35`` to delta. The clip norm, smaller by 4e-4 where 3e-4 are
   used, lowers delta by ``1e-4 mu phi(epsilon / mu - mu / 2)``, far more wherever a price is above
   1e-20 (:data:`MOST_NORMALS` bounds h n).
"""

import math
from typing import NamedTuple

import numpy as np

from skdpfl.privacy.randomness.normals import FINE_BITS
from skdpfl.privacy.release.grid import PrecisionError, grid_for

#: a share of fewer steps is refused: the proof needs shares that are large against the grid
LEAST_STEPS = 2.0**20
#: the most silos that share a sum's noise: their noises fit the integers with room to spare
MOST_SHARES = 2**20
#: the most normals of a fit, all silos' together
MOST_NORMALS = 3e12


class SharedNoise(NamedTuple):
    """One silo's part of a total's noise.

    Attributes
    ----------
    std : float
        Standard deviation of one silo's share.
    grid : float
        The step of the cohort's common grid.
    n_silos : int
        The number of silos that add a share.
    """

    std: float
    grid: float
    n_silos: int

    @property
    def std_of_total(self) -> float:
        """Standard deviation of the noise in the released total."""
        return self.std * math.sqrt(self.n_silos)

    def steps(self, sums: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return a silo's part of the total, int64: its weighted sum on the grid, plus noise.

        ``units`` are int64 normals in units of 2^-36, of the silo's own stream.
        """
        if units.dtype != np.int64 or sums.dtype != np.float64:
            raise TypeError(f"Shares need float64 sums and int64 units; got {sums.dtype}.")
        return np.rint(sums / self.grid).astype(np.int64) + units

    def total(self, steps: np.ndarray) -> np.ndarray:
        """Return the noised total, from the sum of all silos' steps modulo 2^64."""
        return steps.astype(np.float64) * self.grid


def shared_noise(std: float, n_silos: int, colluding: int, bound: float = 0.0) -> SharedNoise:
    """Return the shares of ``n_silos`` of which any ``n_silos - colluding`` sum to ``std``.

    ``bound`` is the largest absolute value of a number in the total. A ValueError is raised if no
    honest silo would be left, a PrecisionError if the total does not fit the grid.
    """
    check_honest(n_silos, colluding)
    share = std / math.sqrt(n_silos - colluding)
    grid = grid_for(share, bound)
    if share / grid < LEAST_STEPS or n_silos > MOST_SHARES:
        raise PrecisionError(
            f"A share of {share:.3g} on a grid of {grid:.3g}, or {n_silos} shares, are not covered "
            "by the proof."
        )
    if bound / grid + n_silos * 2.0 ** (FINE_BITS + 4) >= 2.0**63:
        raise PrecisionError(
            f"A total of up to {bound!r} with {n_silos} shares of {share!r} does not fit the grid; "
            "raise the noise."
        )
    return SharedNoise(share, grid, n_silos)


def check_honest(n_silos: int, colluding: int) -> None:
    """Raise unless noise is left when the colluding silos subtract theirs."""
    if n_silos - colluding < 1:
        raise ValueError(
            f"Too few silos for colluding={colluding}: {n_silos} add noise to a sum, and if "
            f"{colluding} of them collude with the server, no unknown noise is left. Give a "
            f'smaller colluding (below {n_silos}), a larger silo_fraction, or trust="silo".'
        )
