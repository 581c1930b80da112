"""Limits that follow from noisy scales move coefficients by what normal columns say."""

import numpy as np
from scipy.stats import norm

from skdpfl.estimators._noise_error import _of_limits
from skdpfl.models import LinearModel
from skdpfl.scaling import AffineScaling, Scales


def test_the_error_of_limits_is_that_of_normal_columns_clipped_at_noisy_scales():
    """Each coefficient is that of a regression of the column on itself, clipped."""
    x = norm.ppf((np.arange(10_000) + 0.5) / 10_000)
    nodes = norm.ppf((np.arange(40) + 0.5) / 40)
    for t in (0.1, 0.3):
        variances = []
        for e in nodes:
            clipped = [np.clip(x, -r, r) for r in 4 * np.exp(t * (e + nodes))]
            variances.append(np.var([(x @ each) / (each @ each) for each in clipped]))
        scaling = AffineScaling(np.zeros(2), np.array([2.0, np.inf]))
        scales = Scales(scaling, limit_errors=np.array([t, 0.0])).clipped_around(4.0)
        model = LinearModel(2, 1, True)
        (error, along), (none, _) = _of_limits(model, scales, np.array([0.5, 0.0, 7.0]))
        assert 0.8 < error / np.sqrt(np.mean(variances)) < 1.25 and none == 0
        assert along.tolist() == [0.5, 0.0, 0.0]
        declared = scales.clipped(np.full(2, -9.0), np.full(2, 9.0))
        assert not _of_limits(model, declared, np.array([0.5, 0.0, 7.0]))
