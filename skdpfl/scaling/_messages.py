"""What leaves the silos: sums of bounded contributions plus Gaussian noise.

::

    message_i = sum over silo i's records of weight * contribution + (D / (share mu_i)) * normal
    mean      = sum_i w_i message_i / n_i                    (server: one sum, noise added once)

Contributions are points of a fixed bounded set whatever the record holds (a NaN, an infinity and
1e300 included): a one in one bin per column, ``phi`` inside a box per column, or a row in a ball.

**Formal guarantee.** Let ``D`` bound ``|S(data) - S(data')|_2`` over neighbouring data, S being the
sum: replacing a record moves S by at most the diameter of the contributions' set, zeroing it by at
most the largest norm; over columns (a row in a ball counts as one) these add in squares with the
squared weights. With unit "silo"
S is the mean over the silo's records, which lies in the convex hull of the same set, rounded to
multiples of 2^-27. Contributions are such multiples too, so float64 adds up 2^25 of them without
rounding, in any order. Which records are read depends on their index and silo alone. Noise and sum
are added on one grid (:mod:`skdpfl.privacy.release`); the grid's step and the divisions are
part of ``D`` (:meth:`ScalingPlan.noise_scale`). So a message is a Gaussian mechanism of noise
multiplier ``2 / (share mu)`` (replace) or ``1 / (share mu)`` (zeroed), and everything later is
computed from messages. Other silos' records enter no silo's message but through earlier messages,
so under trust "silo" each silo's messages are private whatever the other silos hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import NoisedSum, grid_for
from skdpfl.scaling._ball import sums_of_rows
from skdpfl.scaling._magnitudes import MagnitudeGrid
from skdpfl.scaling._maps import Array, squash
from skdpfl.scaling._moments import Boxes, levels, phi_sums
from skdpfl.scaling._scaling_plan import STEP, Release, ScalingPlan

#: numbers held at once, of messages and of rows read: larger blocks leave the cache, and fresh
#: memory for each of them costs more than what is computed
_MESSAGES, _ROWS = 2**18, 2**16

Sums = Callable[[Array, np.ndarray, int], Array]
"""(columns (n, c), sorted local silo codes (n,), number of silos) -> sums (silos, c, entries)"""


class Messages:
    """The noisy means of a plan's releases, over records held by several silos."""

    def __init__(
        self,
        plan: ScalingPlan,
        X: Array,
        y: Array | None,
        codes: np.ndarray,
        streams: Streams,
    ) -> None:
        self.plan, self.X, self.y, self.streams = plan, X, y, streams
        sizes = np.bincount(codes, minlength=plan.setting.n_silos)
        if plan.setting.unit == "record" and not np.array_equal(sizes, plan.setting.silo_sizes):
            raise ValueError("The plan was made for silos of other sizes than those of the data.")
        in_order = bool((codes[1:] >= codes[:-1]).all())
        self.order = None if in_order else np.argsort(_small(codes, sizes.size), kind="stable")
        strides = np.maximum(plan.setting.strides(sizes), 1)
        if strides.max() > 1:
            first = np.repeat(np.cumsum(sizes) - sizes, sizes)
            within = np.arange(len(codes)) - first
            kept = np.flatnonzero(within % np.repeat(strides, sizes) == 0)
            self.order = kept if self.order is None else self.order[kept]
            sizes = -(-sizes // strides)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])

    def mean(self, release: Release, sums: Sums, round: int) -> Array:
        """The noisy mean contribution (columns, entries) over all silos."""
        setting = self.plan.setting
        if setting.at_server:
            return self._mean_at_server(release, sums, round)
        total: Array | float = 0.0
        noised = self.noised(release)
        for silos, exact in self._silo_sums(release, sums):
            units = self.streams.units_block("scales", silos, round, exact.shape[1:], np.float64)
            factors = setting.weights[silos] / setting.units[silos]
            total = total + np.einsum("i,ice->ce", factors, _added(noised.of(silos), exact, units))
        return np.asarray(total) / self.plan.weights(release)[:, None]

    def noised(self, release: Release) -> NoisedSum:
        """The noised sum of each silo, or at the server, (M,)."""
        std, bounds = self.plan.noise_scale(release), self.plan.largest_entry(release)
        pairs = zip(std.tolist(), bounds.tolist(), strict=True)
        return NoisedSum(std, np.array([grid_for(s, b) if s else 0.0 for s, b in pairs]))

    def _mean_at_server(self, release: Release, sums: Sums, round: int) -> Array:
        exact: Array | float = 0.0
        for _, block in self._silo_sums(release, sums):
            exact = exact + block.sum(axis=0, keepdims=True)
        exact = np.asarray(exact)
        units = self.streams.units_block("scales", [0], round, exact.shape[1:], np.float64)
        message = _added(self.noised(release).of(np.zeros(1, int)), exact, units)[0]
        return message / (self.plan.setting.units.sum() * self.plan.weights(release)[:, None])

    def _silo_sums(self, release: Release, sums: Sums) -> Iterator[tuple[np.ndarray, Array]]:
        """Yield blocks of silos with their weighted sums, (silos, columns, entries)."""
        weights = self.plan.weights(release)[:, None]
        per_block = max(1, _MESSAGES // max(1, weights.size * release.entries))
        for first in range(0, self.plan.setting.n_silos, per_block):
            silos = np.arange(first, min(first + per_block, self.plan.setting.n_silos))
            exact = np.zeros((silos.size, weights.size, release.entries))
            for columns, local in self._rows_of(silos, release):
                low, high = local[0], local[-1] + 1  # the silos that the block has rows of
                exact[low:high] += sums(columns, local - low, high - low)
            if self.plan.setting.unit == "silo":
                # means, rounded: STEP is a power of two, so this is rint(mean / STEP) * STEP
                exact /= (np.diff(self.starts)[silos] * STEP)[:, None, None]
                np.rint(exact, out=exact)
                exact *= STEP
            exact *= weights
            yield silos, exact

    def _rows_of(self, silos: np.ndarray, release: Release) -> Iterator[tuple[Array, np.ndarray]]:
        """Yield blocks of rows of some silos: their columns, and each row's position in silos."""
        first, last = self.starts[silos[0]], self.starts[silos[-1] + 1]
        positions = np.repeat(np.arange(silos.size), np.diff(self.starts)[silos])
        per_block = max(1, _ROWS // max(1, self.plan.is_feature.size))
        for start in range(first, last, per_block):
            stop = min(start + per_block, last)
            columns = self._columns(start, stop, release)
            yield columns, positions[start - first : stop - first]

    def _columns(self, start: int, stop: int, release: Release) -> Array:
        rows = slice(start, stop) if self.order is None else self.order[start:stop]
        plan, parts = self.plan, []
        if plan.features_read.any() and (not release.is_counts or plan.features == "private"):
            X = np.asarray(self.X[rows])
            X = X if plan.features_read.all() else X[:, plan.features_read]
            parts.append(squash(X) if plan.features == "refined squash" else X)
        if plan.reads_target and (not release.is_counts or plan.target == "private"):
            if self.y is None:
                raise ValueError("The plan reads the target; y must be given.")
            parts.append(np.asarray(self.y[rows])[:, None])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _added(noised: NoisedSum, exact: Array, units: np.ndarray) -> Array:
    """Sums (silos, columns, entries) plus noise; those of infinite budgets stay exact."""
    noisy = noised.std > 0
    if noisy.any():
        exact[noisy] = noised.of(noisy).added(exact[noisy], units[noisy])
    return exact


def counts_on(grid: MagnitudeGrid) -> Sums:
    """Sums of one-hot contributions: how many values of each silo and column lie in each bin."""

    def sums(columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        shape = (n_silos, columns.shape[1], grid.n_bins)
        cells = silos[:, None] * shape[1] + np.arange(shape[1])
        flat = np.bincount(
            (cells * shape[2] + grid.bins(columns)).ravel(), minlength=np.prod(shape)
        )
        return flat.reshape(shape).astype(np.float64)

    return sums


def moments_in(boxes: Boxes) -> Sums:
    """Sums of ``phi`` inside boxes: all terms are integers until the last line."""

    def sums(columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        total = np.zeros((n_silos, 2, columns.shape[1]))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        u = levels(columns, boxes)
        linear = np.add.reduceat(u, first, axis=0)
        u *= u
        square = np.add.reduceat(u, first, axis=0)
        counts = np.diff(np.append(first, len(silos)))[:, None]
        total[silos[first]] = phi_sums(linear, square, counts)
        return total.transpose(0, 2, 1)

    return sums


def rows_in(boxes: Boxes, release: Release) -> Sums:
    """Sums of rows in the release's ball, and of the target's ``phi``."""
    ball = release.ball
    if ball is None:
        raise ValueError("The release has no ball.")

    def sums(columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        total = np.zeros((n_silos, columns.shape[1], 2))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        total[silos[first]] = sums_of_rows(columns, first, boxes, ball)
        return total

    return sums


def _small(codes: np.ndarray, n_silos: int) -> np.ndarray:
    """Codes in 16 bits where they fit, which numpy sorts ten times faster."""
    return codes.astype(np.uint16) if n_silos <= 2**16 else codes
