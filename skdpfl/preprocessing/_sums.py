"""Noised sums over silos' records, for the imputer and the encoder.

::

    message_i = sum over silo i's records of contribution + noise        server: one sum, one noise
    total     = sum_i message_i

Formal guarantee
----------------
Let every record's contribution lie in a fixed set whatever the record holds, of diameter ``Delta``
(a record is replaced) or with norms of at most ``Delta`` (its contribution is set to zero). Silo
i's exact sum then moves by at most Delta in Euclidean norm. Contributions are multiples of 2^-20 of
at most 1, so float64 adds up 2^32 of them without rounding, in any order. A product with a public
weight and the division by the grid's step round twice, by what :func:`relative_error` bounds;
:func:`noise_for` adds that to Delta, and the rounding to the grid. So each message is a Gaussian
mechanism of ``mu``, as the transformers' costs say, whatever the other silos hold; at the server
the one sum moves by as much. Everything later is computed from messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.events import Neighbours
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE, grid_for, noise_for, relative_error, snapped_release

#: contributions are multiples of this
STEP = 2.0**-20


@dataclass(frozen=True, eq=False)
class Held:
    """Whose record is whose, who adds the noise, what neighbours are, where noise comes from."""

    codes: np.ndarray
    sizes: np.ndarray
    at_server: bool
    neighbours: Neighbours
    streams: Streams

    @property
    def groups(self) -> np.ndarray:
        """How many records each noised sum adds up: the silos' sizes, or all records."""
        return self.sizes.sum(keepdims=True) if self.at_server else self.sizes

    @property
    def group_of(self) -> np.ndarray:
        """For each record the noised sum that it enters."""
        return np.zeros_like(self.codes) if self.at_server else self.codes

    def counted(self, bins: np.ndarray, n_bins: int) -> np.ndarray:
        """How many records of each group fall in each bin (groups, columns, n_bins); -1: in none.

        ``bins`` is (records, columns).
        """
        groups, columns = self.groups.size, bins.shape[1]
        place = self.group_of[:, None] * columns + np.arange(columns)
        here = bins >= 0
        flat = np.bincount(place[here] * n_bins + bins[here], minlength=groups * columns * n_bins)
        return flat.reshape(groups, columns, n_bins).astype(np.float64)

    def added(self, terms: np.ndarray) -> np.ndarray:
        """Sums of the terms (records, size), multiples of 2^-20, in each group."""
        sums = [
            np.bincount(self.group_of, weights=column, minlength=self.groups.size)
            for column in terms.T
        ]
        return np.stack(sums, axis=1)

    def released(
        self, exact: np.ndarray, mu: float, *, change: float, norm: float, number: int
    ) -> tuple[np.ndarray, float]:
        """Return the total of noised sums (...), and the standard deviation of its noise.

        Each of the ``exact`` sums (groups, ...) may spend ``mu``. ``change`` is Delta, ``norm`` the
        largest norm of a contribution; ``number`` is the release's in this fit, each of which has
        noise of its own.
        """
        if math.isinf(mu):
            return exact.sum(axis=0), 0.0
        std = self.noise(mu, change=change, norm=norm, size=exact[0].size)
        grid = grid_for(std, float(self.groups.max()) * norm)
        shape = exact.shape[1:]
        who = range(len(exact))
        units = self.streams.units_block("preprocessing", list(who), number, shape, np.float64)
        noisy = snapped_release(exact.astype(np.float64), units, grid)
        return noisy.sum(axis=0), std * math.sqrt(len(exact))

    def noise(self, mu: float, *, change: float, norm: float, size: int) -> float:
        """Return the standard deviation of the noise on one sum; 0 for an infinite budget."""
        if math.isinf(mu):
            return 0.0
        apart = relative_error((2, DOUBLE)) * float(self.groups.max()) * norm
        return float(noise_for(np.array([mu]), change, size, np.array([apart]))[0])
