"""Scales found privately: what is charged, what is released, how good it is."""

import numpy as np

from skdpfl.preprocessing._planning import plan_scaling
from skdpfl.preprocessing._private_scales import run_scaling
from skdpfl.privacy.random import streams_for

N, M = 4000, 4
MEANS = np.array([40.0, -3.0, 0.3, 1e4, 0.02])
SPREADS = np.array([12.0, 1.0, np.sqrt(0.21), 4e3, 0.004])


def records(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(MEANS, SPREADS, (n, 5))
    X[:, 2] = rng.random(n) < 0.3
    return X, 5e4 + 2e4 * rng.normal(size=n), rng.integers(0, M, n)


def sizes_of(codes):
    return np.bincount(codes, minlength=M)


def test_found_scales_are_within_a_factor_of_two_and_centers_within_a_deviation():
    X, y, codes = records()
    plan = plan_scaling(silo_sizes=sizes_of(codes), n_features=5, mu=1.0, has_target=True)
    assert (plan.features, plan.target, plan.advice) == ("private", "private", "")
    scales = run_scaling(plan, X, y, codes, streams_for(0))
    assert (np.abs(np.log2(scales.features.scale / SPREADS)) < 1).all()
    assert (np.abs(scales.features.center - MEANS) < SPREADS).all()
    assert 1e4 < scales.target.scale < 4e4 and abs(scales.target.center - 5e4) < 2e4
