"""More of tests/privacy/test_grid.py: what only private names show."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.privacy.pricing.gaussian import gaussian_delta, gaussian_epsilon
from skdpfl.privacy.release import MAX_LOSS, PrecisionError, grid_for, reduced_clip, relative_error
from tests.privacy.test_grid import TERMS, distance, sizes, vectors


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
