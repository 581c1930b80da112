"""Noisy shares of cells: a total that is kept, also where no single cell stands out."""

import numpy as np

from skdpfl.scaling._curves import denoise_histogram


def test_without_noise_shares_stay_and_with_it_they_sum_to_one():
    shares = np.random.default_rng(0).dirichlet(np.ones(95))
    prior = np.ones(95)
    np.testing.assert_allclose(denoise_histogram(shares, prior, 0.0), shares, atol=1e-12)
    for noise in (0.001, 0.1, 10.0):
        found = denoise_histogram(
            shares + np.random.default_rng(1).normal(0, noise, 95), prior, noise
        )
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(), 1.0)
    np.testing.assert_allclose(
        denoise_histogram(shares, prior, 10.0), 1 / 95
    )  # noise alone: the prior


def test_a_tail_keeps_its_mass_where_every_cell_is_below_the_noise():
    """20 % in 64 cells of .3 % each, noise 1 %: cut cell by cell, next to nothing would be left."""
    shares = np.concatenate([[0.8], np.zeros(31), np.full(64, 0.2 / 64)])
    kept = [
        denoise_histogram(
            shares + np.random.default_rng(seed).normal(0, 0.01, 96), np.ones(96), 0.01
        )[32:].sum()
        for seed in range(20)
    ]
    assert 0.1 < np.mean(kept) < 0.3
    assert min(kept) > 0.02
