"""Sizes and budgets of silos, and the noise of a common mean.

A budget is given as Gaussian-DP ``mu``: a release of replace-one sensitivity ``D`` with noise of
standard deviation ``D / mu``. Budgets add in squares. Spending the share ``s`` of each silo's mu on
a sum whose sensitivity is ``D`` gives the mean over all records, with weights ``w_i``::

    trust "silo"     silo i adds D / (s mu_i) to its sum,  w_i ~ n_i mu_i^2
                     -> noise D sqrt(sum_i (w_i / (s mu_i n_i))^2)
    trust "server"   noise is added once, for the smallest mu,  w_i ~ n_i
                     -> noise D / (s mu N)
    unit "silo"      the same with n_i = 1: a silo sends the mean over its records

The least noise is at w_i ~ (n_i mu_i)^2; but silos differ, and for equal budgets the mean should be
that over all records. On four tables with one silo of a tenth of the others' budget n_i mu_i^2 was
better than n_i mu_i, by less than the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from skdpfl.scaling._maps import Array

Unit = Literal["record", "silo"]
Trust = Literal["silo", "shuffler", "server"]
Neighbours = Literal["replace", "add_remove"]


@dataclass(frozen=True, eq=False)
class Setting:
    """Public numbers: silo sizes (M,), budgets mu (M,), what is protected from whom.

    Unit "record": of each silo's records, in their order, each ``every``-th is read, from the
    first on. Unit "silo": sizes are secret and not used; a silo reads at most ``most`` of its
    records, evenly spaced (None: all), which does not affect privacy as it sends their mean. Under
    ``trust="shuffler"`` each silo adds its own noise, as under "silo".
    """

    silo_sizes: np.ndarray
    mu: Array
    unit: Unit = "record"
    trust: Trust = "silo"
    neighbours: Neighbours = "replace"
    every: int = 1
    most: int | None = None

    def of_silo(self, i: int) -> Setting:
        """Return what one silo needs to know, where each adds its own noise."""
        return replace(self, silo_sizes=self.silo_sizes[i : i + 1], mu=self.mu[i : i + 1])

    @property
    def n_silos(self) -> int:
        """The number of silos."""
        return len(self.silo_sizes)

    @property
    def at_server(self) -> bool:
        """Whether the noise is added once, to the sum over all silos."""
        return self.trust == "server"

    @cached_property
    def spends(self) -> Array:
        """The mu of each silo: its own, or the smallest one if the server adds the noise."""
        return np.full(self.n_silos, self.mu.min()) if self.at_server else self.mu

    @cached_property
    def units(self) -> Array:
        """The number of protected units in a silo's message."""
        if self.unit == "silo":
            return np.ones(self.n_silos)
        return np.ceil(np.asarray(self.silo_sizes) / self.every)

    def strides(self, sizes: np.ndarray) -> np.ndarray:
        """The step between the records that each silo reads, given its true size."""
        if self.unit == "record" or self.most is None:
            return np.full(self.n_silos, self.every)
        return -(-sizes // self.most)

    @cached_property
    def weights(self) -> Array:
        """Each silo's weight in the common mean; they sum to 1.

        An infinite budget counts as the largest finite one.
        """
        finite = self.spends[np.isfinite(self.spends)]
        most = finite.max() if finite.size else 1.0
        mu = np.minimum(self.spends, most)
        amount = mu * self.units * (mu / most)
        return amount / amount.sum()

    def noise_of_mean(self, scales: Array) -> float:
        """Standard deviation of the noise in the common mean, given that of each silo's sum.

        Where the noise is added once, to the sum over all silos, ``scales`` repeats that.
        """
        if self.at_server:
            return float(scales[0] / self.units.sum())
        parts = self.weights * scales / self.units
        return float(np.sqrt(parts @ parts))
