"""A noised sum: the clip norm of its terms, its noise and its grid; and the noise of a fit's steps.

Gradients, messages of whole silos, sums at the server, private scales and noisy scores are all
released by this object. Its clip norm is reduced to allow for rounding, and it adds noise exactly
(:mod:`skdpfl.privacy.release.grid`).

Noise is in whole units of the grid: 2^-20 (float32) or 2^-36 (float64) standard deviations.
:class:`FreshNoise` is independent noise for every step; a mechanism may use noise that is
correlated over steps: see :meth:`skdpfl.privacy.mechanisms.Mechanism.noise`.

The proof behind every noised sum is about the sensitivity of sums computed in floating point. S is
the exact sum of terms (clipped gradients, messages, scores), each of norm at most c; S^ is gamma
times the computed value of ``S / gamma``, for the grid's step gamma::

    u            unit roundoff: 2^-24 in float32, 2^-53 in float64
    g(m, u)      = m u / (1 - m u)
    rho          = (1 + g(m, u)) (1 + g(m', u')) ... - 1     :func:`relative_error`
    |S^ - S|    <= r c + e,     r = B rho                    B: largest number of terms

Formal guarantee
----------------
**1. Rounding.** Let each coordinate of S^ be computed from the terms' coordinates by additions in
any order, products and divisions by public numbers, and changes of dtype, such that no term goes
through more than m operations in the dtype of u, m' in that of u', .... Every operation (also a
fused one) multiplies its result by 1 + d, |d| <= u, unless it underflows. A term's coordinate is
thus multiplied by a product of m such factors, of m' others, ..., which is within rho of 1 (Higham,
"Accuracy and stability of numerical algorithms", lemma 3.1). So the error of a coordinate is at
most rho times the sum of the terms' absolute values there. As a vector over the coordinates that
sum has norm at most B c, by the triangle inequality: r = B rho, for every order. Underflow changes
a result by at most the smallest normal number (whether it is gradual or flushes to zero): n
operations in a coordinate add ``n tiny sqrt(size)`` to e (:func:`underflow`). e also contains the
errors of other summands, such as other silos' sums.

**2. The grid.** Replacing a term changes S by at most 2 c, zeroing it by c: D c. Rounding to
integers changes the difference of two numbers by at most 1. So between neighbours ::

    |rint(S^ / gamma) - rint(S^' / gamma)| <= (D c + 2 (r c + e)) / gamma + sqrt(size)

**3. Correction.** The noise of standard deviation s is priced for a sum of sensitivity D C. Either
c is smaller than C (:func:`reduced_clip`) or, where terms cannot be made smaller, s is larger
(:func:`noise_for`), such that the right side is at most (1 - 4e-4) D C / gamma. The 4e-4 allow for
normals that are not exact (:mod:`skdpfl.privacy.release.grid`).

**4. Many steps.** Let N = A xi be the noise of a fit's steps, A an integer matrix, xi independent
integer normals, and suppose that a unimodular integer matrix M has M A = 1 (both lower triangular).
The released k + N is then a function of M k + xi, a sequence of Gaussian releases. The sensitivity
of the t-th is at most sum_s |M_ts| over the steps s in which the record takes part, times the right
side above. Independent noise is M = 1.

Assumption: BLAS multiplies matrices by the definition, in the precision of its arguments, in any
order of summation, with or without fused multiply-add. Casacuberta, Shoham, Vadhan and Wagner
(2022) show attacks on implementations that ignore r.

Single or double precision
--------------------------
The precision in which clipped gradients are summed and released follows from public numbers. A step
of a silo of n records sums a batch of at most B of them: in at most n / chunk products of at most
``chunk`` records each, whose results are then added, all in the dtype of ``products``. The result
is released with noise in the dtype of ``release``. So a record's gradient goes through at most
chunk + n / chunk operations in the first dtype, and two in the second (the change of dtype and the
division by the grid). The cost is above. Single precision is used where it costs little: first with
smaller chunks, then with a release in double precision, then double precision for all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from skdpfl._distinct import distinct
from skdpfl.privacy.events import change_of
from skdpfl.privacy.randomness.normals import FINE_BITS
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release.grid import NORMALS, PrecisionError, grid_for, snapped_release

#: share of the clip norm that rounding may cost before a finer arithmetic is required
MAX_LOSS = 0.05


def relative_error(*roundings: tuple[float, DTypeLike]) -> float:
    """Return rho for terms that go through (number of operations, dtype), ..."""
    total = 0.0
    for count, dtype in roundings:
        drift = count * float(np.finfo(dtype).eps) / 2
        if drift >= 1:
            return math.inf
        total += drift / (1 - drift) * (1 + total)
    return total


def underflow(n_operations: float, dtype: DTypeLike, size: int) -> float:
    """Return a bound of the error by underflow of ``n_operations`` in each coordinate, in norm."""
    return n_operations * float(np.finfo(dtype).tiny) * math.sqrt(size)


def reduced_clip(
    clip_norm: float,
    gamma: float,
    size: int,
    neighbours: str,
    *,
    rounding: float = 0.0,
    apart: float = 0.0,
) -> float:
    """Return c, the clip norm for which a rounded sum of ``size`` numbers has the priced cost.

    C = ``clip_norm``, the noise on the sum over the noise multiplier, was priced, for terms that
    are replaced (sensitivity twice the norm) or zeroed. ``gamma`` is the step of the coarsest grid,
    ``rounding`` and ``apart`` are r and e. A PrecisionError is raised if c would be more than 5 %
    below C.
    """
    change = change_of(neighbours)
    priced = (1 - NORMALS) * change * clip_norm
    reduced = (priced - (gamma * math.sqrt(size) + 2 * apart)) / (change + 2 * rounding)
    # a few roundings of this very formula
    reduced *= 1 - 1e-15
    if not reduced >= (1 - MAX_LOSS) * clip_norm:
        raise PrecisionError(
            f"Rounding would reduce clip_norm={clip_norm!r} by more than {MAX_LOSS:.0%} ({size} "
            f"coordinates on a grid of {gamma:.3g}, rounding errors up to {rounding:.3g} clip "
            "norms): sum and release in float64, or use smaller batches."
        )
    return reduced


def noise_for(mu: np.ndarray, sensitivity: float, size: int, apart: np.ndarray) -> np.ndarray:
    """Return the noise that makes float64 sums cost ``mu`` of Gaussian DP each; 0 if it is inf.

    ``sensitivity`` is D c, that of the exact sum, and ``apart`` is r c + e. The grid's step is the
    noise times 2^-36, so both sides of the guarantee grow with the noise.
    """
    left = (1 - NORMALS) * mu - math.sqrt(size) * 2.0**-FINE_BITS
    if not (left > 0).all():
        raise PrecisionError(
            f"The budget mu={mu.min():.3g} is too small for {size} coordinates: give a larger "
            "epsilon."
        )
    return (sensitivity + 2 * apart) / left * (1 + 1e-15)


class StepNoise(ABC):
    """The noise of silos' steps in one fit.

    A silo's steps are requested in order, each at most once; steps that it does not take are
    skipped. A silo may be saved and restored between rounds, perhaps with streams of another
    secret: ``state`` returns what later steps need of earlier noise, and ``restore`` accepts it.
    """

    @abstractmethod
    def units(self, silos: np.ndarray, steps: range) -> np.ndarray:
        """Return integers of shape (len(steps), len(silos), size).

        Steps are numbered from the first one of the fit. int32 for sums that are released in
        float32, int64 for float64.
        """

    def state(self, silo: int) -> dict[str, np.ndarray]:
        """Return the state that later steps of a silo need; it is as secret as the records."""
        return {}

    def restore(self, silo: int, state: dict[str, np.ndarray]) -> None:
        """Continue from a result of :meth:`state`."""
        if state:
            raise ValueError(f"{type(self).__name__} has no state to restore; got {sorted(state)}.")


@dataclass(frozen=True)
class FreshNoise(StepNoise):
    """Independent normals, from a separate stream for each (silo, step)."""

    streams: Streams
    purpose: str
    size: int
    dtype: np.dtype

    def units(self, silos: np.ndarray, steps: range) -> np.ndarray:
        return self.streams.units_blocks(self.purpose, silos, steps, (self.size,), self.dtype)


SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class NoisedSum(NamedTuple):
    """A sum of clipped terms plus noise; or one for each of n silos, the fields then (n,).

    Attributes
    ----------
    std : float or ndarray
        Standard deviation of the noise on the sum; 0: none (an infinite budget).
    grid : float or ndarray
        The step of the grid; noise is drawn in units of it.
    clip : float, ndarray or None
        Clip norm of the terms, slightly below the priced one. None: terms are bounded by other
        means, and the noise is larger instead.
    dtype : dtype
        The dtype of the release.
    """

    std: Any
    grid: Any
    clip: Any = None
    dtype: np.dtype = DOUBLE

    def of(self, silos: np.ndarray) -> NoisedSum:
        """Return the sums of some of the silos."""
        clip = None if self.clip is None else self.clip[silos]
        return NoisedSum(self.std[silos], self.grid[silos], clip, self.dtype)

    def scaled(self, factor: float) -> NoisedSum:
        """Return the sums with ``factor`` times the noise and the same clip norms."""
        std = self.std * factor
        return self._replace(std=std, grid=grids(std, self.grid, self.dtype))

    def added(
        self,
        sums: np.ndarray,
        units: np.ndarray,
        *,
        divisor: float | np.ndarray = 1.0,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return (sums + noise) / divisor; ``units`` is the noise as multiples of the grid."""
        grid = self.grid
        if isinstance(grid, np.ndarray):
            grid = grid.reshape(-1, *[1] * (sums.ndim - 1))
        return snapped_release(sums, units, grid, out=out, divisor=divisor)


@lru_cache(maxsize=256)  # called several times in a round, mostly with the same arguments
def noised_sum(
    clip_norm: float, std: float, size: int, neighbours: str, *, terms: float, operations: int
) -> NoisedSum:
    """Return the release of a float64 sum of ``size`` numbers.

    Noise of ``std`` for terms of norm ``clip_norm`` is what was priced, for terms that are replaced
    or zeroed (``neighbours``). ``terms`` is the largest total weight of the terms (each at most 1),
    ``operations`` the most floating-point operations on a term, up to the grid.
    """
    grid = grid_for(std, terms * clip_norm)
    error = terms * relative_error((operations, DOUBLE))
    # with messages, squares are sent as well, divided by the norm
    lost = underflow(4 * operations, DOUBLE, size) * max(1.0, 1 / clip_norm)
    clip = reduced_clip(clip_norm, grid, size, neighbours, rounding=error, apart=lost)
    return NoisedSum(std, grid, clip)


def grids(std: np.ndarray, otherwise: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the grids of noises of standard deviation ``std`` (n,), ``otherwise`` where 0."""
    noises = std.tolist()
    made = {s: grid_for(s, 0.0, dtype) for s in set(noises) if s > 0}
    return np.array([made.get(s, o) for s, o in zip(noises, otherwise.tolist(), strict=True)])


#: share of the clip norm that rounding may cost before the next finer arithmetic is tried
TOLERANCE = 0.02

#: records in a product, by dtype; products of fewer are slower than others in double precision
CHUNKS = {SINGLE: (256, 128, 64), DOUBLE: (4096,)}


@dataclass(frozen=True)
class Precision:
    """The arithmetic for sums; ``chunk`` is a number of records."""

    products: np.dtype
    chunk: int
    release: np.dtype

    def rounding(self, batch: int, n_records: int) -> float:
        """Return r for batches of at most ``batch`` out of ``n_records`` records."""
        operations = self.chunk - (-n_records // self.chunk)
        return batch * relative_error((operations, self.products), (2, self.release))

    def underflow(self, n_records: int, size: int) -> float:
        """Return a bound of the error of a silo's sum due to underflow."""
        return underflow(4 * n_records + 8, self.products, size)


class GradientSums(NamedTuple):
    """Public numbers about the fit's noisy sums, which decide the precision.

    ``records`` and ``batches`` (n_silos,) are the silos' sizes and largest batches; ``std`` the
    noise on a silo's sum (0: none), times ``least`` to ``most`` over the steps; ``size`` is the
    number of coordinates. ``apart`` (n_silos,) bounds the errors that come after a silo's sum, in
    the units of that sum.
    """

    records: np.ndarray
    batches: np.ndarray
    std: np.ndarray
    least: float
    most: float
    clip_norm: float
    size: int
    neighbours: str
    apart: np.ndarray


def choose_precision(
    sums: GradientSums, dtype: np.dtype, release: np.dtype = SINGLE
) -> tuple[Precision, NoisedSum]:
    """Return the fastest precision that is fine enough, and the silos' noised sums in it.

    ``dtype`` is that of the data; ``release`` the coarsest one to release sums in.
    """
    *quick, last = _candidates(sums, np.dtype(dtype), np.dtype(release))
    for precision in quick:
        try:
            clips = _clips(sums, precision)
        except PrecisionError:
            continue
        if clips.min() >= (1 - TOLERANCE) * sums.clip_norm:
            return precision, _noised(sums, precision, clips)
    return last, _noised(sums, last, _clips(sums, last))


def _noised(sums: GradientSums, precision: Precision, clips: np.ndarray) -> NoisedSum:
    """Add noise and grids to the clip norms; without noise the grid is that of the clip norm."""
    fallback = np.full(len(clips), grid_for(sums.clip_norm, 0.0, precision.release))
    grid = grids(sums.std, fallback, precision.release)
    return NoisedSum(sums.std, grid, clips, precision.release)


def _candidates(sums: GradientSums, dtype: np.dtype, release: np.dtype) -> Iterator[Precision]:
    most = int(sums.batches.max()), int(sums.records.max())
    if dtype == SINGLE:
        if release == SINGLE:
            yield Precision(SINGLE, _chunk(*most, SINGLE), SINGLE)
        yield Precision(SINGLE, _chunk(*most, SINGLE), DOUBLE)
    yield Precision(DOUBLE, _chunk(*most, DOUBLE), DOUBLE)


def _chunk(batch: int, n_records: int, dtype: np.dtype) -> int:
    """Return the largest chunk whose rounding uses half the tolerance, else the smallest."""
    for chunk in CHUNKS[dtype]:
        if Precision(dtype, chunk, DOUBLE).rounding(batch, n_records) <= TOLERANCE / 2:
            break
    return chunk


def _clips(sums: GradientSums, precision: Precision) -> np.ndarray:
    """Return the reduced clip norms; raises where the precision is too coarse."""
    columns = sums.records, sums.batches, sums.std, sums.apart
    first, of_silo = distinct(*columns)
    keys = zip(*(column[first].tolist() for column in columns), strict=True)
    return np.asarray([_clip(sums, precision, *key) for key in keys])[of_silo]


def _clip(
    sums: GradientSums, precision: Precision, records: float, batch: float, std: float, apart: float
) -> float:
    clip, release = sums.clip_norm, precision.release
    # raises unless the sum fits
    grid_for(std * sums.least or clip, batch * clip, release)
    widest = grid_for(std * sums.most or clip, 0.0, release)
    return reduced_clip(
        clip,
        widest,
        sums.size,
        sums.neighbours,
        rounding=precision.rounding(int(batch), int(records)),
        apart=apart + precision.underflow(int(records), sums.size),
    )
