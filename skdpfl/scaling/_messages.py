"""The silos' messages: sums of bounded contributions plus Gaussian noise.

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
computed from messages. A silo's message depends on other silos' records through earlier messages
only, so under trust "silo" each silo's messages are private for any data of the other silos.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skdpfl.federation import CohortSum, Federation, Question, SiloData
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import NoisedSum, grid_for
from skdpfl.scaling._contributions import Sums
from skdpfl.scaling._maps import Array, squash
from skdpfl.scaling._scaling_plan import STEP, Release, ScalingPlan

#: the largest block of messages and of rows, in numbers: larger blocks leave the cache, and
#: allocating them takes longer than the computation
_MESSAGES, _ROWS = 2**18, 2**16
#: rows per exact sum
_PIECE = 2**14
#: row numbers, or consecutive rows
Rows = np.ndarray | slice


class Messages:
    """The noisy means of a plan's releases, from the silos of a federation."""

    def __init__(self, plan: ScalingPlan, federation: Federation, streams: Streams) -> None:
        self.plan, self.federation, self.streams = plan, federation, streams

    def mean(self, release: Release, sums: Sums, number: int) -> Array:
        """The noisy mean contribution (columns, entries) over all silos.

        ``number`` is the release's among the plan's.
        """
        setting, weights = self.plan.setting, self.plan.weights(release)
        shape = weights.size, release.entries
        factors = np.ones(setting.n_silos)
        if not setting.at_server:
            factors = setting.weights / setting.units
        total = CohortSum(np.arange(setting.n_silos), factors, weights.size * release.entries)
        for silos, answers in self.federation.ask(Look(self.plan, release, sums, number)):
            total.add(silos, answers)
        if not setting.at_server:
            return total.result().reshape(shape) / weights[:, None]
        units = self.streams.units_block("scales", [0], number, shape, np.float64)
        noised = noised_sums(self.plan, release).of(np.zeros(1, int))
        message = _added(noised, total.result().reshape(1, *shape), units)[0]
        return message / (setting.units.sum() * weights[:, None])


@dataclass(frozen=True, eq=False)
class Look(Question):
    """One release: each silo's noised sum of contributions; exact where the server adds noise."""

    plan: ScalingPlan
    release: Release
    sums: Sums
    number: int
    purpose = "scales"

    @property
    def asked(self) -> Sums:
        return self.sums

    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        noised = noised_sums(self.plan, self.release)
        for silos, exact in self.exact_sums(data):
            if not self.plan.setting.at_server:
                units = streams.units_block(
                    "scales", silos, self.number, exact.shape[1:], np.float64
                )
                exact = _added(noised.of(silos), exact, units)
            yield silos, exact.reshape(len(silos), -1)

    def exact_sums(self, data: SiloData) -> Iterator[tuple[np.ndarray, Array]]:
        """Yield blocks of silos with their weighted sums, (silos, columns, entries)."""
        plan, release, rows = self.plan, self.release, RowsRead(self.plan, data)
        weights, here = plan.weights(release)[:, None], np.flatnonzero(data.sizes)
        per_block = max(1, _MESSAGES // max(1, weights.size * release.entries))
        for first in range(0, len(here), per_block):
            silos = here[first : first + per_block]
            exact = np.zeros((silos.size, weights.size, release.entries))
            for columns, local in rows.of(silos, release):
                low, high = local[0], local[-1] + 1  # the silos that the block has rows of
                exact[low:high] += self.sums(columns, local - low, high - low)
            if plan.setting.unit == "silo":
                # means, rounded: STEP is a power of two, so this is rint(mean / STEP) * STEP
                exact /= (rows.sizes[silos] * STEP)[:, None, None]
                np.rint(exact, out=exact)
                exact *= STEP
            exact *= weights
            yield silos, exact


def scales_question(plan: ScalingPlan, number: int, asked: object) -> Look:
    """Return a question that somebody else asks, if it is one of the plan's; raise otherwise.

    Counts are number 0 and moments follow; boxes may be any, as contributions are bounded in all.
    """
    releases = dict(enumerate(plan.moments, 1))
    for counts in (plan.counts, plan.target_bins):  # a plan has one of them at most
        if counts is not None:
            releases[0] = counts
    if number not in releases or not isinstance(asked, Sums):
        raise ValueError(f"The plan has no question about scales of the number {number!r}.")
    asked.check(releases[number], plan.is_feature)
    return Look(plan, releases[number], asked, number)


@dataclass(frozen=True, eq=False)
class ExactLook(Question):
    """Each silo's exact sums, in fits without privacy; independent of other silos' sizes."""

    plan: ScalingPlan
    sums: Sums
    number: int
    purpose = "scales"

    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        here = np.flatnonzero(data.sizes)
        large = data.sizes[here] > _PIECE
        for i in here[large].tolist():
            rows = range(data.starts[i], data.starts[i + 1])
            pieces = (rows[k : k + _PIECE] for k in range(0, len(rows), _PIECE))
            total = sum(self._answers(data, np.array([i]), piece) for piece in pieces)
            yield np.array([i]), np.asarray(total)
        others = here[~large]
        group = np.cumsum(data.sizes[others]) // _PIECE
        for silos in np.split(others, np.flatnonzero(np.diff(group)) + 1):
            if len(silos):
                yield from self._small(data, silos)

    def _small(self, data: SiloData, silos: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Answer for small silos, in runs of adjacent ones."""
        for run in np.split(silos, np.flatnonzero(np.diff(silos) > 1) + 1):
            rows = range(data.starts[run[0]], data.starts[run[-1] + 1])
            yield run, self._answers(data, run, rows)

    def _answers(self, data: SiloData, silos: np.ndarray, rows: range) -> np.ndarray:
        positions = np.searchsorted(data.starts, rows, "right") - 1 - silos[0]
        where = (
            slice(rows.start, rows.stop)
            if data.order is None
            else data.order[rows.start : rows.stop]
        )
        columns = columns_of(self.plan, data, where, counts=False)
        return self.sums(columns, positions, len(silos)).reshape(len(silos), -1)


class RowsRead:
    """The records that a plan reads, silo by silo: all or evenly spaced ones."""

    def __init__(self, plan: ScalingPlan, data: SiloData) -> None:
        self.plan, self.data, self.order, self.sizes = plan, data, data.order, data.sizes
        known = plan.setting.silo_sizes
        if plan.setting.unit == "record" and ((data.sizes != known) & (data.sizes > 0)).any():
            raise ValueError("The plan was made for silos of other sizes than those of the data.")
        strides = np.maximum(plan.setting.strides(data.sizes), 1)
        if strides.max() > 1:
            within = np.arange(len(data.y)) - np.repeat(data.starts[:-1], data.sizes)
            kept = np.flatnonzero(within % np.repeat(strides, data.sizes) == 0)
            self.order = kept if self.order is None else self.order[kept]
            self.sizes = -(-data.sizes // strides)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def of(self, silos: np.ndarray, release: Release) -> Iterator[tuple[Array, np.ndarray]]:
        """Yield blocks of rows of some silos: their columns, and each row's position in silos."""
        first, last = self.starts[silos[0]], self.starts[silos[-1] + 1]
        positions = np.repeat(np.arange(silos.size), self.sizes[silos])
        per_block = max(1, _ROWS // max(1, self.plan.is_feature.size))
        for start in range(first, last, per_block):
            stop = min(start + per_block, last)
            columns = self._columns(start, stop, release)
            yield columns, positions[start - first : stop - first]

    def _columns(self, start: int, stop: int, release: Release) -> Array:
        rows = slice(start, stop) if self.order is None else self.order[start:stop]
        if release.is_of_target:
            return np.asarray(self.data.y[rows])[:, None]
        return columns_of(self.plan, self.data, rows, counts=release.is_counts)


def columns_of(plan: ScalingPlan, data: SiloData, rows: Rows, *, counts: bool) -> Array:
    """Return the columns that a plan reads; ``counts``: those without bounds."""
    parts = []
    if plan.features_read.any() and (not counts or plan.features == "private"):
        X = np.asarray(data.X[rows])
        X = X if plan.features_read.all() else X[:, plan.features_read]
        parts.append(squash(X) if plan.features == "refined squash" else X)
    if plan.reads_target and (not counts or plan.target == "private"):
        parts.append(np.asarray(data.y[rows])[:, None])
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def noised_sums(plan: ScalingPlan, release: Release) -> NoisedSum:
    """Return the noised sum of each silo, or at the server, (M,)."""
    std, bounds = plan.noise_scale(release), plan.largest_entry(release)
    pairs = zip(std.tolist(), bounds.tolist(), strict=True)
    return NoisedSum(std, np.array([grid_for(s, b) if s else 0.0 for s, b in pairs]))


def _added(noised: NoisedSum, exact: Array, units: np.ndarray) -> Array:
    """Sums (silos, columns, entries) plus noise; those of infinite budgets stay exact."""
    noisy = noised.std > 0
    if noisy.any():
        exact[noisy] = noised.of(noisy).added(exact[noisy], units[noisy])
    return exact
