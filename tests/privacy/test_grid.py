"""The grid: exact sums, no tell-tale bits, and the sensitivity that is priced."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.privacy import release
from skdpfl.privacy.randomness.streams import streams_for

STREAMS = streams_for(0)
DTYPES = [np.float32, np.float64]
BITS = {np.float32: 20, np.float64: 36}
TERMS = {"replace": 2, "add_remove": 1}


def integers_of(released, gamma):
    """Return the integers k + N that a release stands for."""
    return np.rint(released.astype(float) / gamma)


# -- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 0.37, 60.0, 1e-9, 3e12])
def test_a_release_is_the_grid_times_an_exact_integer(dtype, scale):
    rng = np.random.default_rng(0)
    total = (scale * rng.normal(size=(4, 500)) * [[0.01], [1], [30], [400]]).astype(dtype)
    gamma = release.grid_for(scale, float(np.abs(total).max()), dtype)
    units = STREAMS.units_block("noise", range(4), 0, 500, dtype)
    released = release.snapped_release(total, units, gamma)
    assert released.dtype == dtype
    for s, n, r in zip(total.ravel(), units.ravel(), released.ravel(), strict=True):
        k = round(Fraction(float(s / dtype(gamma)))) + int(n)  # halves to even, as rint
        assert r == dtype(k) * dtype(gamma)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_noise_is_what_was_asked_for(dtype):
    n, scale = 400_000, 0.73
    gamma = release.grid_for(scale, 1, dtype)
    noise = release.snapped_release(np.zeros(n, dtype), STREAMS.stream("n").units(n, dtype), gamma)
    assert noise.std() == pytest.approx(scale, rel=6 / math.sqrt(2 * n))


@pytest.mark.parametrize("scale", [1.0, 0.7, 0.71, 0.72, 0.73, 3e-7, 12345.678])
def test_in_float32_the_grid_is_rounded_up(scale):
    exact, gamma = scale * 2.0**-20, release.grid_for(scale, scale, np.float32)
    assert gamma == float(np.float32(gamma))
    assert exact <= gamma <= exact * (1 + 2**-22)
    assert release.grid_for(scale, scale) == scale * 2.0**-36
    assert release.grid_for(0.5, 0.5, np.float32) == 2.0**-21  # a float32 already


# -- what goes wrong without it ------------------------------------------------------------------


def test_noise_must_fit_the_sum():
    total, gamma = np.zeros(3, np.float32), release.grid_for(1.0, 1, np.float32)
    for units in (np.zeros(3), np.zeros(3, np.int64), np.zeros(3, np.float32)):
        with pytest.raises(TypeError, match="float32 with int32 units"):
            release.snapped_release(total, units, gamma)
    with pytest.raises(TypeError, match="float32 with int32 units"):
        release.snapped_release(total.astype(float), np.zeros(3, np.int32), gamma)


# -- sensitivity ---------------------------------------------------------------------------------


def distance(a, b, gamma):
    """Return |rint(a / gamma) - rint(b / gamma)| as :func:`snapped_release` computes it."""
    zeros = np.zeros(a.shape, {4: np.int32, 8: np.int64}[a.dtype.itemsize])
    a, b = (integers_of(release.snapped_release(v, zeros, gamma), gamma) for v in (a, b))
    return np.linalg.norm(a - b)


sizes = st.integers(1, 60)
vectors = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@pytest.mark.parametrize("neighbours", TERMS)
def test_the_reduction_is_needed_and_enough(neighbours):
    """Sums just under an edge between grid points: without the reduction the price is wrong."""
    size, gamma, terms = 10_000, 2.0**-12, TERMS[neighbours]
    low = np.full(size, (0.5 - 1e-6) * gamma)
    for norm in (1.0, release.reduced_clip(1.0, gamma, size, neighbours)):
        moved = distance(low, low + terms * norm / math.sqrt(size), gamma)
        assert (moved <= terms / gamma) == (norm < 1)


def clipped_rows(rng, n, size, c, dtype):
    rows = rng.normal(size=(n, size)) * rng.choice([1e-3, 1, 1e3], size=(n, 1))
    return (rows * (c / np.linalg.norm(rows, axis=1, keepdims=True)) * (1 - 2**-20)).astype(dtype)


@given(vectors, st.integers(1, 300), sizes, st.sampled_from(sorted(TERMS)))
@settings(max_examples=100)
def test_rounding_of_float32_sums_is_paid_for(rng, n, size, neighbours):
    """Formal guarantee with r: neighbours' float32 sums, added up in orders of their own."""
    z, clip = 5.0, 1.0
    gamma = release.grid_for(z * clip, n * clip, np.float32)
    rounding = n * release.relative_error((n + 1, np.float32))
    c = release.reduced_clip(clip, gamma, size, neighbours, rounding=rounding)
    rows = clipped_rows(rng, n, size, c, np.float32)
    # all records but one point the same way: the sum is large and its rounding, too
    rows[1:] = rows[0] * np.sign(rng.random((n - 1, 1)) - 0.1).astype(np.float32)
    other = rows.copy()
    other[0] = -rows[0] if neighbours == "replace" else 0
    sums = [np.add.accumulate(r[rng.permutation(n)], axis=0)[-1] for r in (rows, other)]
    assert distance(*sums, gamma) <= TERMS[neighbours] * clip / gamma


# -- too coarse, or wrong ------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "ratio"), [(np.float32, 2030), (np.float64, 1e8)])
def test_sums_that_do_not_fit_the_integers_are_refused(dtype, ratio):
    gamma = release.grid_for(0.7, 0.7 * ratio, dtype)
    total = np.array([0.7 * ratio, -0.7 * ratio], dtype)
    top = np.full(2, 2 ** (BITS[dtype] + 4) - 1).astype({4: np.int32, 8: np.int64}[total.itemsize])
    released = release.snapped_release(total, top, gamma)  # no overflow: the sign survives
    assert released[0] > 0.7 * ratio and released[1] < -0.7 * ratio * 0.98
    with pytest.raises(release.PrecisionError, match="does not fit the grid"):
        release.grid_for(0.7, 0.7 * ratio * 1.4, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_sum_leaves_room_for_the_largest_noise(dtype):
    """Noise is below 2^4 standard deviations of 2^BITS steps."""
    room = 2 ** (31 if dtype == np.float32 else 63)
    most = (room - 2 ** (BITS[dtype] + 4)) * 2.0 ** -BITS[dtype]
    release.grid_for(1.0, most * (1 - 1e-6), dtype)
    with pytest.raises(release.PrecisionError, match="does not fit the grid"):
        release.grid_for(1.0, most * (1 + 1e-6), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scales_out_of_a_dtypes_range(dtype):
    for scale in (float(np.finfo(dtype).tiny), float(np.finfo(dtype).max) / 2):
        with pytest.raises(release.PrecisionError, match="out of the range of float"):
            release.grid_for(scale, 0.0, dtype)


def test_bad_arguments():
    for bad in (0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="scale must be positive and finite, got"):
            release.grid_for(bad, 1.0)
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="bound must be finite and 0 or more, got"):
            release.grid_for(1.0, bad)
    with pytest.raises(
        ValueError, match="neighbours must be 'replace' or 'add_remove'; got 'swap'"
    ):
        release.reduced_clip(1.0, 0.1, 1, "swap")
