"""A noised sum: the clip norm of its terms, its noise and its grid; and the noise of a fit's steps.

Gradients, messages of whole silos, sums at the server, private scales and noisy scores are all
released by this object. Its clip norm is reduced to allow for rounding, and it adds noise exactly
(below).

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
normals that are not exact (below).

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

Exact addition of noise: the clipped sum and the noise are integers on the same grid.
-------------------------------------------------------------------------------------
::

    gamma   = s / 2^20 (float32)  or  s / 2^36 (float64)        s: the noise's standard deviation
    k       = rint(S / gamma)                                   S: clipped sum, shape (..., size)
    release = gamma (k + N)                                     N: Stream.units, std s / gamma

k + N is integer arithmetic, so it is exact; the product with gamma is post-processing. In floating
point the last bits of S + noise would reveal S. (float32, noise 1, S = 0 or 2: for S = 2 every
result is a multiple of 2^-23, for S = 0 four in ten are not; delta >= 0.4 at every epsilon.) The
same happens if gamma is not s / 2^20: rounding scaled noise to another grid makes some multiples
impossible and others twice as likely. So each standard deviation of noise needs its own grid.

Formal guarantee
----------------
The released integers are ``k + N``: a Gaussian mechanism on the query k, sampled on the integers.
Rounding (above) bounds the sensitivity of k by (1 - 4e-4) times the priced one, so mu is smaller by
a factor of 1 - 4e-4 than the noise multiplier gives. The law of the integers is not exactly
Gaussian; this changes epsilon by at most 3e-4 mu, except for events of probability below 1e-22 in
all (:mod:`skdpfl.privacy.randomness.normals`). At any delta, a decrease of mu by 4e-4 mu lowers
epsilon by more than that: from the derivatives of the profile, phi and Phi the standard normal's ::

    d epsilon / d mu = phi(a) / Phi(-a),   a = epsilon / mu + mu / 2        (at least 0.797, a >= 0)

so the price covers both. Integers that overflow wrap around, which is post-processing: only k must
fit (:func:`grid_for`).

Shared noise: each silo adds a part of it to its own sum, and only the total is revealed.
-----------------------------------------------------------------------------------------
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
   by at most what :mod:`skdpfl.privacy.release` says, for that silo's sum alone. Sums of
   integers modulo 2^64 are exact in every order.
4. *The sampler.* A normal's law (:mod:`skdpfl.privacy.randomness.normals`) is within 3.2e-35 in
   total variation of one whose likelihood ratio is known. So h n normals, for n released numbers,
   add ``(1 + exp(epsilon)) h n 3.2e-35`` to delta. The clip norm, smaller by 4e-4 where 3e-4 are
   used, lowers delta by ``1e-4 mu phi(epsilon / mu - mu / 2)``, far more wherever a price is above
   1e-20 (:data:`MOST_NORMALS` bounds h n).
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

from skdpfl._compiled import noise as compiled
from skdpfl.privacy.events import change_of
from skdpfl.privacy.randomness.normals import FINE_BITS, UNIT_BITS
from skdpfl.privacy.randomness.streams import Streams

#: noise stays under 2^4 standard deviations by construction
_NOISE_BITS = 4
#: relative cost, in mu, of drawing normals that are not exact, see the guarantee
NORMALS = 4e-4

_INTEGERS: dict[np.dtype, np.dtype] = {
    np.dtype(np.float32): np.dtype(np.int32),
    np.dtype(np.float64): np.dtype(np.int64),
}


#: up to this many rows Python's own sets are faster than np.unique
_FEW_ROWS = 128


def distinct(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each distinct row occurs first (k,), sorted, and the number of each row's (n,).

    Columns are (n,) or (n, m); numbers must not be NaN.

    Examples
    --------
    >>> import numpy as np
    >>> distinct(np.array([3, 1, 3]), np.array([0.5, 0.5, 0.5]))
    (array([1, 0]), array([1, 0, 1]))
    """
    if len(columns[0]) > _FEW_ROWS:
        table = columns[0] if len(columns) == 1 else np.column_stack(columns)
        if (table == table[0]).all():
            return np.zeros(1, np.intp), np.zeros(len(table), np.intp)
        axis = 0 if table.ndim > 1 else None
        _, first, of_row = np.unique(table, axis=axis, return_index=True, return_inverse=True)
        return first, of_row.ravel()
    single = [part for column in columns for part in column.reshape(len(column), -1).T.tolist()]
    if all(part.count(part[0]) == len(part) for part in single):
        return np.zeros(1, np.intp), np.zeros(len(columns[0]), np.intp)
    rows = list(zip(*single, strict=True))
    seen: dict[tuple[float, ...], int] = {}
    for i, row in enumerate(rows):
        seen.setdefault(row, i)
    kinds = sorted(seen)
    code = {row: k for k, row in enumerate(kinds)}
    codes = np.array([code[row] for row in rows], dtype=np.intp)
    return np.array([seen[row] for row in kinds], dtype=np.intp), codes


class PrecisionError(ValueError):
    """The arithmetic is too coarse for this sum, which must be computed and released in float64."""


@lru_cache(maxsize=1024)
def grid_for(scale: float, bound: float, dtype: DTypeLike = np.float64) -> float:
    """Return the grid's step gamma for noise of standard deviation ``scale``.

    In float32 it is rounded up to a float32. ``bound`` is the largest possible absolute value of an
    entry of the sum (largest batch x clip norm), ``dtype`` the sum's, float32 or float64. A
    PrecisionError is raised if an entry may overflow the integers of the release (int32 for
    float32), which happens when ``bound`` exceeds 2,000 times ``scale``, or if floats cannot hold
    the result.
    """
    dtype = np.dtype(dtype)
    if not (scale > 0 and math.isfinite(scale)):
        raise ValueError(f"scale must be positive and finite, got {scale!r}.")
    if not (bound >= 0 and math.isfinite(bound)):
        raise ValueError(f"bound must be finite and 0 or more, got {bound!r}.")
    bits, room = (UNIT_BITS, 31) if dtype == np.float32 else (FINE_BITS, 63)
    gamma = scale * 2.0**-bits
    least, most = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
    if gamma < least or bound + scale * 2.0**_NOISE_BITS > most:
        raise PrecisionError(
            f"scale={scale!r} (with sums of up to {bound!r}) is out of the range of {dtype}."
        )
    if dtype == np.float32:
        single = np.float32(gamma)
        up = float(single) >= gamma  # as Python floats: NumPy would compare in float32
        gamma = float(single if up else np.nextafter(single, np.float32(np.inf)))
    if bound / gamma + 2.0 ** (bits + _NOISE_BITS) >= 2.0**room:
        raise PrecisionError(
            f"A sum of up to {bound!r} with noise of {scale!r} does not fit the grid of "
            f"{dtype}; " + ("use float64." if room == 31 else "raise the noise.")
        )
    return gamma


def snapped_release(
    clipped_sum: np.ndarray, units: np.ndarray, gamma: float | np.ndarray
) -> np.ndarray:
    """Return gamma (rint(clipped_sum / gamma) + units): see the module's guarantee.

    The sum, float32 or float64, is finite and within the bound given to :func:`grid_for`, whose
    result ``gamma`` is; it may differ between silos. ``units`` is noise from
    :meth:`skdpfl.privacy.randomness.streams.Stream.units` with the sum's dtype.
    """
    _check_integers(clipped_sum, units)
    # a float64 scalar would make float32 sums float64
    gamma = np.asarray(gamma, dtype=clipped_sum.dtype)
    if clipped_sum.ndim == 2 and gamma.shape in ((), (1, 1), (len(clipped_sum), 1)):
        grids = np.resize(gamma, len(clipped_sum))
        return _of_rows(clipped_sum.copy(), units, grids, grids)
    return _by_numpy(clipped_sum, units, gamma, gamma, None)


class GridRows(NamedTuple):
    """The grid (S,) of each row of sums, and the factor of its integers, for many sums.

    ``dtype`` is that of the sums (S, size).
    """

    grids: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, gamma: np.ndarray, divisor: np.ndarray, dtype: np.dtype) -> GridRows:
        """Return the rows for grids (S,) and divisors (S,)."""
        grids = np.asarray(gamma, dtype=dtype)
        return cls(grids, np.asarray(grids / divisor, dtype=dtype))

    def release(self, clipped_sums: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return :func:`snapped_release` of sums (S, size), which it may overwrite."""
        _check_integers(clipped_sums, units)
        return _of_rows(clipped_sums, units, self.grids, self.factors)


def _check_integers(clipped_sum: np.ndarray, units: np.ndarray) -> None:
    """Raise unless the units are integers for a sum of this dtype and shape."""
    integers = _INTEGERS.get(clipped_sum.dtype)
    if integers is None or units.dtype != integers or units.shape != clipped_sum.shape:
        raise TypeError(
            "clipped_sum must be float32 with int32 units, or float64 with int64 units, got "
            f"{clipped_sum.dtype} and {units.dtype}."
        )


def _of_rows(
    sums: np.ndarray, units: np.ndarray, grids: np.ndarray, factors: np.ndarray
) -> np.ndarray:
    """Return the release of sums (S, size), which may be overwritten."""
    if compiled is None:
        return _by_numpy(sums, units, grids[:, None], factors[:, None], sums)
    out = np.ascontiguousarray(sums)
    compiled.release(out, np.ascontiguousarray(units), grids, factors, out)
    return out


def _by_numpy(
    clipped_sum: np.ndarray,
    units: np.ndarray,
    gamma: np.ndarray,
    factor: np.ndarray,
    out: np.ndarray | None,
) -> np.ndarray:
    """Return factor (rint(clipped_sum / gamma) + units)."""
    out = np.divide(clipped_sum, gamma, out=out)
    np.rint(out, out=out)
    total = out.astype(units.dtype)
    total += units
    np.copyto(out, total)
    return np.multiply(out, factor, out=out)


#: share of the clip norm that rounding may cost before a finer arithmetic is required
MAX_LOSS = 0.05


@lru_cache(maxsize=1024)
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

    def of(self, silos: np.ndarray | slice) -> NoisedSum:
        """Return the sums of some of the silos."""
        clip = None if self.clip is None else self.clip[silos]
        return NoisedSum(self.std[silos], self.grid[silos], clip, self.dtype)

    def scaled(self, factor: float) -> NoisedSum:
        """Return the sums with ``factor`` times the noise and the same clip norms."""
        std = self.std * factor
        return self._replace(std=std, grid=grids(std, self.grid, self.dtype))

    def added(self, sums: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return sums plus noise; ``units`` is the noise as multiples of the grid."""
        grid = self.grid
        if isinstance(grid, np.ndarray):
            grid = grid.reshape(-1, *[1] * (sums.ndim - 1))
        return snapped_release(sums, units, grid)


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
    if noises and noises[0] > 0 and noises.count(noises[0]) == len(noises):
        return np.full(len(noises), grid_for(noises[0], 0.0, dtype))
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


@lru_cache(maxsize=256)
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
    common = precision, sums.clip_norm, sums.least, sums.most, sums.size, sums.neighbours
    keys = zip(*(column[first].tolist() for column in columns), strict=True)
    return np.asarray([_clip(*common, *key) for key in keys])[of_silo]


@lru_cache(maxsize=256)
def _clip(
    precision: Precision,
    clip: float,
    least: float,
    most: float,
    size: int,
    neighbours: str,
    records: float,
    batch: float,
    std: float,
    apart: float,
) -> float:
    # raises unless the sum fits
    grid_for(std * least or clip, batch * clip, precision.release)
    widest = grid_for(std * most or clip, 0.0, precision.release)
    return reduced_clip(
        clip,
        widest,
        size,
        neighbours,
        rounding=precision.rounding(int(batch), int(records)),
        apart=apart + precision.underflow(int(records), size),
    )


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
