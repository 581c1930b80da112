"""Shuffling: every bound above the exact divergence of configurations that can be computed.

Monte-Carlo comparisons allow 6 standard errors: false alarms below 2e-9 each.
"""

import itertools
import math

import numpy as np
import pytest

from skdpfl.privacy import shuffling
from skdpfl.privacy.events import FixedSizeGaussian
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.shuffling import (
    CELLS,
    _exponential_moments,
    blanket_delta,
    largest_kappa,
    shuffled_levels,
    shuffled_profile,
    spread,
)


def shuffled_deltas(epsilons, *, noise_multiplier, n_reports, slack):
    """The bounds on delta for one round without sampling, at each epsilon."""
    bound = shuffling.RoundBound(noise_multiplier, n_reports, slack)
    return np.minimum.accumulate([bound.delta(epsilon) for epsilon in epsilons.tolist()])


# ------------------------------------------------------------------------- E (sum)_+


def law_of_atoms(values, masses, step):
    """Spread a law of finitely many values over a grid; values on the grid stay where they are."""
    cell = np.floor(values / step).astype(np.int64)
    first = int(cell.min())
    cells = int(cell.max()) - first + 1
    mass, moment = (np.bincount(cell - first, w, cells) for w in (masses, masses * values))
    return spread(first, step, mass, moment)


@pytest.mark.parametrize("size", [1, 2, 3, 17, 100, 1001])
def test_exponential_moments_are_those_of_the_law(size):
    rng = np.random.default_rng(size)
    law = law_of_atoms(np.arange(size) - size / 3, 0.7 * rng.dirichlet(np.ones(size)), 1.0)
    thetas = np.array([1e-4, 0.1, 500.0 / size])  # the last reaches the end of floating point
    exact = np.exp(np.outer(thetas, law.values)) @ law.masses
    assert _exponential_moments(law, thetas) == pytest.approx(exact, rel=1e-12)


# ------------------------------------------------------------------------- Gaussian reports


@pytest.mark.parametrize(("mu", "x"), [(1.0, (0.5, 0.0)), (1.0, (0.0, 0.8)), (0.6, (0.9, 0.5))])
def test_other_reports_are_nearly_above_the_blanket(mu, x):
    """Guarantee 1: the missing mass, by quadrature in the plane of the pair and the other input."""
    grid = np.linspace(-9, 9, 1201)
    t, w = np.meshgrid(grid, grid)

    def normal(a, b):
        return np.exp(-((t - a) ** 2 + (w - b) ** 2) / 2) / (2 * math.pi)

    smaller = np.minimum(normal(mu / 2, 0), normal(-mu / 2, 0))
    distance = math.hypot(max(abs(x[0]) - mu / 2, 0.0), x[1])
    for deficit in (1e-2, 1e-4):
        kappa = largest_kappa(max(distance, 1e-3), deficit)
        missing = np.maximum(kappa * smaller - normal(*x), 0).sum() * (grid[1] - grid[0]) ** 2
        assert missing <= deficit * (1 + 1e-6)
        used = kappa * gaussian_delta(max(distance, 1e-3), -math.log(kappa))
        assert 0.999 * deficit <= used <= deficit or kappa > 1 - 1e-6


def configurations(z):
    """Inputs (a, b, others) in the unit ball over z: antipodal, chords, others near and far."""
    for h in (1.0, 0.7, 0.3):
        o = math.sqrt(1 - h * h)
        for x in ((h, o), (0.0, -1.0), (0.0, o), (-h, -o)):
            yield (h / z, o / z), (-h / z, o / z), (x[0] / z, x[1] / z)


@pytest.mark.slow
@pytest.mark.parametrize(("z", "n"), [(1.2, 3000), (2.0, 300), (4.0, 60)])
def test_bound_lies_above_configurations_that_can_be_computed(z, n):
    """Guarantee: with all others equal, H = E (sum (P - alpha Q) / R)_+ / n; by Monte Carlo."""
    epsilons = np.array([0.0, 0.1, 0.3])
    bound = shuffled_deltas(epsilons, noise_multiplier=z, n_reports=n, slack=1e-8)
    rng = np.random.default_rng(1)
    tightest = math.inf
    for a, b, x in configurations(z):
        y = rng.standard_normal((400, n, 2)) + np.array(x)

        def log_ratio(centre, y=y, x=x):
            c, x = np.array(centre), np.array(x)
            return y @ (c - x) - (c @ c - x @ x) / 2

        near, far = np.exp(log_ratio(a)), np.exp(log_ratio(b))
        for j, epsilon in enumerate(epsilons):
            parts = np.maximum((near - math.exp(epsilon) * far).sum(axis=1), 0.0) / n
            assert parts.mean() - 6 * parts.std() / 20 <= bound[j]
            if epsilon == 0.0:
                tightest = min(tightest, bound[j] / parts.mean())
    assert tightest < 60, "the bound must be of some use"


# ------------------------------------------------------------------------- rounds


def test_sampling_is_advanced_joint_convexity():
    """delta'(log(1 + g (e^eps - 1))) = g delta(eps), point by point."""
    whole, sampled = (shuffled_profile(3.0, 2000, g) for g in (1.0, 0.1))
    eps, deltas = np.array(whole.epsilons), np.array(whole.deltas)
    assert np.array(sampled.epsilons) == pytest.approx(np.log1p(0.1 * np.expm1(eps)))
    assert np.array(sampled.deltas) == pytest.approx(0.1 * deltas)


@pytest.mark.parametrize(("z", "n"), [(1.9, 2000), (4.1, 300), (1.15, 10**6), (2.5, 1)])
def test_cells_that_are_skipped_would_not_have_been_the_worst(z, n):
    slack, epsilons = 1e-7, np.array([0.0, 0.1, 0.5, 1.5, 3.0])
    alphas, worst = np.exp(epsilons), np.zeros(5)
    for low, high in itertools.pairwise(CELLS):
        bound = np.array([gaussian_delta(2 * high / z, e) for e in epsilons])
        if n > 1:
            kappa = largest_kappa((1 + math.sqrt(1 - low**2)) / z, slack / 4 / (n - 1))
            hidden = [blanket_delta(2 * high / z, kappa, n, a, slack / 2) for a in alphas]
            bound = np.minimum(bound, np.array(hidden) + (1 + alphas) * slack / 4)
        worst = np.maximum(worst, bound)
    found = shuffled_deltas(epsilons, noise_multiplier=z, n_reports=n, slack=slack)
    assert found.tolist() == np.minimum.accumulate(worst).tolist()


@pytest.mark.parametrize("z", [1.0, 0.5, 0.3])
def test_little_noise_has_the_price_of_each_message_alone(z):
    """Nothing hides here; the profile goes on until what it leaves out is small."""
    known = price_epsilon(((FixedSizeGaussian(z, 0.2), 5),), 1e-5, "replace")
    price = price_epsilon(shuffled_levels([(z, 5)], 200, 0.2, 1e-5), 1e-5, "replace")
    assert known <= price <= 1.01 * known


@pytest.mark.parametrize("z", [2e7, 1e9, 1e300])
def test_noise_beyond_all_roundings_is_priced_as_less(z):
    event = shuffled_profile(z, 1000, 0.1)
    assert event == shuffled_profile(1e7, 1000, 0.1)
    # no less than the sum of all messages alone would tell
    assert event.deltas[0] >= 0.1 * gaussian_delta(2 / (z * math.sqrt(1000)), 0.0)
