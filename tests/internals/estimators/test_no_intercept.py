"""More of tests/estimators/test_no_intercept.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.choosing import ScalingStep
from skdpfl.scaling._maps import affine_from_bounds, read_feature_bounds
from tests.internals.preprocessing.held import planned


def test_bounds_far_from_zero():
    bounds = read_feature_bounds(([-1, 9, 0, 0], [1, 11, 4, 0]), 4)
    scaling = affine_from_bounds(bounds, centred=False)
    corners = scaling.transform(np.array([[-1.0, 9, 0, 5], [1, 11, 4, 5], [0, 0, 0, 0]]))
    assert np.abs(corners).max() <= 1
    assert not corners[:, 3].any() and not corners[2].any()
    rows = np.random.default_rng(0).uniform([-1, 9, 0, 0], [1, 11, 4, 0], (20000, 4))
    measured = np.sqrt((scaling.transform(rows) ** 2).mean(axis=0))
    np.testing.assert_allclose(scaling.spread, measured, atol=0.01)
    step = ScalingStep(planned([5], 4, 1e-3, feature_bounds=bounds, centred=False))
    assert step.plan.features == "bounds"
    assert step.squared_row == pytest.approx(np.square(scaling.spread).sum())
