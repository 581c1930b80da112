"""More of tests/estimators/test_exact.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.choosing._final_step import largest_eigenvalue


@pytest.mark.parametrize("sizes", [(50, 3), (20, 400), (600, 350)])
def test_the_largest_eigenvalue_is_never_missed(sizes):
    """Nor where the one direction of all columns is orthogonal to it."""
    A = np.random.default_rng(0).normal(size=sizes)
    A[:, 0] = -A[:, 1] * 3
    exact = np.linalg.eigvalsh(A.T @ A)[-1]
    half = len(A) // 2
    found = largest_eigenvalue(lambda: [A[:half], A[half:]])
    assert exact * (1 - 1e-9) <= found <= 1.06 * exact
