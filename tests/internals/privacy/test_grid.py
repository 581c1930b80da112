"""More of tests/privacy/test_grid.py: what only private names show."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdpfl.models._products import sum_over_records
from skdpfl.privacy.mechanisms.base import clip_rows
from skdpfl.privacy.pricing.gaussian import gaussian_delta, gaussian_epsilon
from skdpfl.privacy.release import (
    MAX_LOSS,
    Precision,
    PrecisionError,
    grid_for,
    reduced_clip,
    relative_error,
)
from tests.privacy.test_grid import TERMS, distance, sizes, vectors
from tests.privacy.test_rounding import U


@given(vectors, sizes, st.sampled_from(sorted(TERMS)), st.floats(1e-3, 0.99))
@settings(max_examples=100)
def test_snapped_sums_are_as_sensitive_as_priced(rng, size, neighbours, coarse):
    """Formal guarantee: for any two sums D c apart, c the reduced norm, at most D clip / gamma."""
    # a far coarser grid than ours: the bound has to hold for any
    gamma, terms = coarse * MAX_LOSS / math.sqrt(size), TERMS[neighbours]
    c = reduced_clip(1.0, gamma, size, neighbours)
    base = rng.normal(size=size) * 5
    step = rng.normal(size=size) * rng.integers(0, 2, size)
    step *= terms * c / max(np.linalg.norm(step), 1e-9)
    assert distance(base, base + step, gamma) <= terms / gamma * (1 + 1e-12)


@pytest.mark.parametrize("delta", [0.9, 0.3, 1e-2, 1e-5, 1e-10, 1e-100])
@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 1.0, 5.0, 100.0])
@pytest.mark.parametrize(("size", "neighbours"), [(1, "replace"), (10_000, "add_remove")])
def test_a_little_of_mu_pays_for_normals_that_are_not_quite_normal(mu, delta, size, neighbours):
    """What runs has less mu than what is priced, by more than 3e-4 mu of epsilon."""
    terms, std = TERMS[neighbours], 2.0**36
    c = reduced_clip(std * mu / terms, std * 2.0**-36, size, neighbours)
    runs = (terms * c + std * 2.0**-36 * math.sqrt(size)) / std
    priced = gaussian_epsilon(mu, delta)
    if priced > 0:
        assert gaussian_epsilon(runs, delta) + 3e-4 * mu <= priced
    else:  # at epsilon 0 the difference must be covered by delta
        assert gaussian_delta(runs, 0.0) <= gaussian_delta(mu, 0.0) * (1 - 3e-4)


def test_float32_asks_for_float64_where_it_is_too_coarse():
    with pytest.raises(PrecisionError, match=r"clip_norm=1.0 by more than 5% .* in float64"):
        reduced_clip(1.0, grid_for(5e3, 1, np.float32), 36_895, "replace")
    with pytest.raises(PrecisionError, match="in float64"):
        reduced_clip(1.0, 0.0, 9, "replace", rounding=2000 * relative_error((2000, np.float32)))
    assert reduced_clip(1.0, grid_for(5e3, 1), 36_895, "replace") > 1 - MAX_LOSS
    fine = 2000 * relative_error((2000, np.float64))
    assert reduced_clip(1.0, 0.0, 9, "replace", rounding=fine) > 0.999


def is_within(vector, norm):
    """Whether the norm of numbers given as floats is at most that, without any rounding."""
    return sum(Fraction(float(v)) ** 2 for v in vector) <= Fraction(norm) ** 2


class Counted:
    """A number that counts the operations that a term went through on its way into it."""

    def __init__(self, operations=0):
        self.operations = operations

    def __mul__(self, other):
        return Counted(max(self.operations, other.operations) + 1)

    __add__ = __iadd__ = __mul__


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 8, 20])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 33])
def test_operations_of_a_sum_of_gradients_are_counted(n, chunk, intercept):
    """The products themselves, on numbers that count, against what the clip norm allows for."""
    X = np.array([[Counted() for _ in range(2)] for _ in range(n)], dtype=object)
    slopes = np.array([[Counted() for _ in range(n)]], dtype=object)
    sums = sum_over_records(X, slopes, intercept, chunk)
    most = max(number.operations for number in sums.ravel())
    allowed = chunk - (-n // chunk)
    assert most <= allowed
    if n % chunk == 0 and chunk > 1:
        assert most == allowed - 1  # not twice as many as needed
    u, both = float(U[np.float32]), Precision(np.dtype("f4"), chunk, np.dtype("f4"))
    assert both.rounding(n, n) == pytest.approx(n * (allowed + 2) * u, rel=1e-4)


@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.floats(-200, 140))
@example(size=3, seed=0, exponent=-158.0)
@example(size=200, seed=0, exponent=-170.0)
def test_clipped_messages_are_clipped(size, seed, exponent):
    """Exactly measured norms, of messages of any magnitude, squares that vanish included."""
    rng = np.random.default_rng(seed)
    message = (rng.normal(size=size) * 10.0 ** rng.uniform(-3, 0, size) * 10.0**exponent)[None]
    for clip in (1.0, 1e-3, 10.0 ** (exponent / 2), 10.0 ** (exponent - 3)):
        allowed = Fraction(clip) * (1 + Fraction(relative_error((size + 6, np.float64))))
        assert is_within(clip_rows(message, clip)[0], allowed)
