"""The line of Platt's scaling from noisy counts: noise makes it no steeper than counts allow."""

import numpy as np
import pytest
from scipy.special import expit

from skdpfl.model_selection._prefit import fitted_line

CENTRES = np.linspace(-3, 3, 32)
EXACT = np.stack([expit(-CENTRES), expit(CENTRES)]) / 32


def test_without_noise_it_is_the_line_of_the_counts():
    assert fitted_line(CENTRES, EXACT) == pytest.approx((1.0, 0.0), abs=1e-3)


def test_noise_as_large_as_counts_gives_no_steep_line():
    """While positives of a bin could be negative, some slopes were at their bound."""
    noise = np.random.default_rng(0).normal(0.0, 0.02, (200, 2, 32))
    slopes = np.array([fitted_line(CENTRES, EXACT + each)[0] for each in noise])
    assert 0.3 < np.median(slopes) < 3 and slopes.max() < 20
