"""Few rows are compared in Python, many by NumPy: with the same result."""

import numpy as np
import pytest

from skdpfl._distinct import FEW, distinct


@pytest.mark.parametrize("n", [1, 7, FEW, FEW + 1, 3 * FEW])
@pytest.mark.parametrize("kinds", [1, 3, 50])
def test_kinds_are_those_of_numpy(n, kinds):
    rng = np.random.default_rng(n + kinds)
    a, b = rng.integers(0, kinds, n), rng.integers(0, 2, (n, 3)) * np.array([1.5, -2.0, 0.0])
    for columns in ((a,), (a * 0.1, b), (b, a)):
        table = np.column_stack(columns)
        want = np.unique(table, axis=0, return_index=True, return_inverse=True)
        first, of_row = distinct(*columns)
        np.testing.assert_array_equal(table[first], want[0])
        np.testing.assert_array_equal(first, want[1])
        np.testing.assert_array_equal(of_row, want[2].ravel())
