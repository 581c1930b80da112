"""Chains of neighbours: above every group's exact profile, close to it for Gaussians."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdpfl.privacy.pricing.gaussian import gaussian_delta, gaussian_epsilon
from skdpfl.privacy.spending.spent import Chain


def hockey_stick(p, q, epsilon):
    return max(np.maximum(0, a - math.exp(epsilon) * b).sum() for a, b in ((p, q), (q, p)))


@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), wild=st.floats(0.01, 3))
def test_no_chain_of_distributions_exceeds_the_bound(seed, k, wild):
    """Neighbours on six outcomes, one of which some of them never give."""
    rng = np.random.default_rng(seed)
    p = np.exp(np.cumsum(rng.normal(0, wild, (k + 1, 6)), axis=0))
    p[:, 0] *= rng.uniform(size=k + 1) < 0.5
    p /= p.sum(axis=1, keepdims=True)
    epsilons = np.linspace(0, 3 * wild, 8)
    deltas = [max(hockey_stick(*p[i : i + 2], e) for i in range(k)) for e in epsilons]
    chain = Chain(epsilons, deltas, k)
    for epsilon in np.linspace(0, k * epsilons[-1] + 1, 12):
        assert hockey_stick(p[0], p[-1], epsilon) <= chain.delta(epsilon)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("mu", [0.02, 0.25, 1.0])
def test_gaussians_are_met_from_above(mu, k):
    """(k mu)-GDP is exact: the chain of one record's curve comes within 1 %."""
    epsilons = gaussian_epsilon(mu, 1e-5) * np.linspace(0, 6, 121)
    chain = Chain(epsilons, [gaussian_delta(mu, e) for e in epsilons], k)
    exact = gaussian_epsilon(k * mu, 1e-5)
    assert chain.delta(0.999 * exact) > 1e-5 >= chain.delta(1.01 * exact)
    assert all(chain.delta(e) >= gaussian_delta(k * mu, e) for e in exact * np.linspace(0, 3, 31))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_supremum_at_corners_is_that_over_a_grid(k):
    """H, as the module defines it, applied k times to a fine grid."""
    rng, x = np.random.default_rng(k), np.linspace(0, 1, 20_001)
    for _ in range(25):
        epsilons, deltas = np.sort(rng.uniform(0, 2, 3)), -np.sort(-rng.uniform(0, 0.5, 3))
        chain, y = Chain(epsilons, deltas, k), x
        for _ in range(k):
            lines = [np.ones_like(y)]
            for e, d in zip(epsilons, deltas, strict=True):
                lines += [math.exp(e) * y + d, 1 - math.exp(-e) * (1 - y - d)]
            y = np.min(lines, axis=0)
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            largest = max(0.0, float((y - math.exp(epsilon) * x).max()))
            assert largest <= chain.delta(epsilon) + 1e-12
            assert chain.delta(epsilon) <= largest + math.exp(min(2 * k, 4)) / 20_000
