"""More of tests/privacy/test_rounding.py: what only private names show."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdpfl.models._products import sum_over_records
from skdpfl.privacy.mechanisms.base import clip_rows
from skdpfl.privacy.release import Precision, relative_error
from tests.privacy.test_rounding import U


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
