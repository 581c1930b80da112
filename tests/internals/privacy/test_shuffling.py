"""Shuffling: every bound above the exact divergence of configurations that can be computed.

Monte-Carlo comparisons allow 6 standard errors: false alarms below 2e-9 each.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from skdpfl.privacy import shuffling
from skdpfl.privacy.events import FixedSizeGaussian
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.pricing.price import price_epsilon


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
    return shuffling.spread(first, step, mass, moment)


@pytest.mark.parametrize("size", [1, 2, 3, 17, 100, 1001])
def test_exponential_moments_are_those_of_the_law(size):
    rng = np.random.default_rng(size)
    law = law_of_atoms(np.arange(size) - size / 3, 0.7 * rng.dirichlet(np.ones(size)), 1.0)
    thetas = np.array([1e-4, 0.1, 500.0 / size])  # the last reaches the end of floating point
    exact = np.exp(np.outer(thetas, law.values)) @ law.masses
    assert shuffling._exponential_moments(law, thetas) == pytest.approx(exact, rel=1e-12)


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
        kappa = shuffling.largest_kappa(max(distance, 1e-3), deficit)
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
    whole, sampled = (shuffling.shuffled_profile(3.0, 2000, g) for g in (1.0, 0.1))
    eps, deltas = np.array(whole.epsilons), np.array(whole.deltas)
    assert np.array(sampled.epsilons) == pytest.approx(np.log1p(0.1 * np.expm1(eps)))
    assert np.array(sampled.deltas) == pytest.approx(0.1 * deltas)


@pytest.mark.parametrize(("z", "n"), [(1.9, 2000), (4.1, 300), (1.15, 10**6), (2.5, 1)])
def test_cells_that_are_skipped_would_not_have_been_the_worst(z, n):
    slack, epsilons = 1e-7, np.array([0.0, 0.1, 0.5, 1.5, 3.0])
    alphas, worst = np.exp(epsilons), np.zeros(5)
    for low, high in itertools.pairwise(shuffling.CELLS):
        bound = np.array([gaussian_delta(2 * high / z, e) for e in epsilons])
        if n > 1:
            kappa = shuffling.largest_kappa((1 + math.sqrt(1 - low**2)) / z, slack / 4 / (n - 1))
            hidden = [shuffling.blanket_delta(2 * high / z, kappa, n, a, slack / 2) for a in alphas]
            bound = np.minimum(bound, np.array(hidden) + (1 + alphas) * slack / 4)
        worst = np.maximum(worst, bound)
    found = shuffled_deltas(epsilons, noise_multiplier=z, n_reports=n, slack=slack)
    assert found.tolist() == np.minimum.accumulate(worst).tolist()


@pytest.mark.parametrize("z", [1.0, 0.5, 0.3])
def test_little_noise_has_the_price_of_each_message_alone(z):
    """Nothing hides here; the profile goes on until what it leaves out is small."""
    known = price_epsilon(((FixedSizeGaussian(z, 0.2), 5),), 1e-5, "replace")
    price = price_epsilon(shuffling.shuffled_levels([(z, 5)], 200, 0.2, 1e-5), 1e-5, "replace")
    assert known <= price <= 1.01 * known


@pytest.mark.parametrize("z", [2e7, 1e9, 1e300])
def test_noise_beyond_all_roundings_is_priced_as_less(z):
    event = shuffling.shuffled_profile(z, 1000, 0.1)
    assert event == shuffling.shuffled_profile(1e7, 1000, 0.1)
    # no less than the sum of all messages alone would tell
    assert event.deltas[0] >= 0.1 * gaussian_delta(2 / (z * math.sqrt(1000)), 0.0)


# ---- sums behind a shuffler: exact fractions, transforms that err, quadrature, convolutions ------

#: so small that what lies beyond the window does not count
NOTHING = 1e-280


def exact(law, n):
    """E (sum)_+ in fractions, for probabilities that are floating-point numbers."""
    masses = {law.first + i: Fraction(float(m)) for i, m in enumerate(law.masses)}
    masses[0] = masses.get(0, Fraction(0)) + 1 - sum(masses.values())
    total = {0: Fraction(1)}
    for _ in range(n):
        further: dict[int, Fraction] = {}
        for (a, p), (b, q) in itertools.product(total.items(), masses.items()):
            further[a + b] = further.get(a + b, Fraction(0)) + p * q
        total = further
    return Fraction(law.step) * sum(s * p for s, p in total.items() if s > 0)


def random_law(seed):
    rng = np.random.default_rng(seed)
    masses = np.round(rng.dirichlet(np.ones(rng.integers(1, 9))) * 2**20 * 0.9) / 2**20
    return shuffling.GridLaw(int(rng.integers(-6, 3)), masses, float(rng.choice([0.125, 0.3, 3.0])))


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_sums_are_never_below_fractions_and_hardly_above(n):
    for seed in range(25):
        law = random_law(seed)
        found, true = shuffling.positive_part_of_sum(law, n, NOTHING), exact(law, n)
        assert Fraction(found) >= true
        assert float(Fraction(found) - true) <= 1e-10 * law.step * (1 + float(true))


def test_a_transform_that_errs_as_much_as_is_allowed(monkeypatch):
    """Each frequency is wrong by its share, in the phase that lowers the result the most."""
    rng, power = np.random.default_rng(0), shuffling._power
    law, n = shuffling.GridLaw(-40, 0.9 * rng.dirichlet(np.ones(100)), 0.25), 12
    told = shuffling.positive_part_of_sum(law, n, NOTHING)
    true = float(np.maximum(sums(law, n), 0.0) @ distribution(law, n))
    lowered = 0.0

    def worst(frequencies, n):
        nonlocal lowered
        size = 2 * (len(frequencies) - 1)
        share = 4 * np.finfo(float).eps * (n + 2 * math.log2(size))
        # the window's positive part begins at index 0; what is above it stands for sums below 0
        values = law.step * np.arange(size) * (np.arange(size) < size // 2)
        weights = np.fft.rfft(values)
        exactly = power(frequencies, n)
        error = -share * np.abs(exactly) * weights / np.maximum(np.abs(weights), 1e-300)
        lowered = -float(values @ np.fft.irfft(error, size))
        return exactly + error

    monkeypatch.setattr(shuffling, "_power", worst)
    monkeypatch.setattr(shuffling, "next_fast_len", lambda size, real: 2 * size)
    found = shuffling.positive_part_of_sum(law, n, NOTHING)
    assert lowered > 1e-14 * true
    assert found >= true * (1 - 1e-15)
    assert found - true <= 200 * lowered and told - true <= 200 * lowered


def sums(law, n):
    low, high = min(law.first, 0), max(law.first + len(law.masses) - 1, 0)
    return law.step * np.arange(n * low, n * high + 1)


def distribution(law, n):
    low, high = min(law.first, 0), max(law.first + len(law.masses) - 1, 0)
    one = np.zeros(high - low + 1)
    one[law.first - low : law.first - low + len(law.masses)] = law.masses
    one[-low] += 1 - law.masses.sum()
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, one)
    return total


LAWS = {
    "light": (shuffling.GridLaw(-20, np.full(41, 0.9 / 41), 0.2), 200),
    "rarely large": (shuffling.GridLaw(-1, np.array([0.3, 0, 0.2, *np.zeros(38), 1e-4]), 0.5), 100),
    "one sided": (shuffling.GridLaw(3, np.array([0.01, 0.02]), 2.0), 300),
    "rare": (shuffling.GridLaw(10, np.array([1e-3]), 0.5), 2),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("tolerance", [0.05, 1e-6, 1e-12])
def test_what_lies_beyond_the_window(name, tolerance):
    """E (S; S > W) by convolution; W no further than the inequality needs at its best theta."""
    law, n = LAWS[name]
    end, beyond = shuffling._range(law, n, tolerance)
    values, masses = sums(law, n), distribution(law, n)
    above = values > end * (1 + 1e-12)
    assert float(values[above] @ masses[above]) <= beyond <= tolerance
    thetas = np.geomspace(1e-4, 300, 4000) / float(law.values[-1])
    logs = n * np.log1p(law.masses @ np.expm1(np.outer(law.values, thetas)))
    places = np.geomspace(law.step, n * float(law.values[-1]) * 3, 400)
    best = [
        (math.log(w) + logs - thetas * w)[thetas * w >= 1.0].min(initial=math.inf) for w in places
    ]
    least = places[np.flatnonzero(np.array(best) <= math.log(tolerance))[0]]
    mean, deviation = float(values @ masses), math.sqrt(n * float(law.masses @ law.values**2))
    assert end <= max(1.5 * least, mean + 7 * deviation, float(law.values[-1])) * 1.01
    assert end >= 0.99 * min(least, mean + 7 * deviation)
    total = float(np.maximum(values, 0) @ masses)
    found = shuffling.positive_part_of_sum(law, n, tolerance)
    assert total * (1 - 1e-12) <= found <= total * (1 + 1e-9) + tolerance


# ------------------------------------------------------------------------- the law of X


PAIRS = [(0.5, 1.0, 0.1), (1.0, 1.3, 0.5), (2.0, 1.05, 0.01), (0.2, 2.0, 0.3), (0.8, 9.0, 0.4)]


def nodes(reach):
    """Gauss and Legendre's points of 400 intervals, which meet at 0."""
    ends, (x, w) = np.linspace(-reach, reach, 401), np.polynomial.legendre.leggauss(20)
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


def ratio_at(t, mu, alpha):
    """(P - alpha Q) / min(P, Q), P around mu / 2; and min(P, Q)."""
    log_p, log_q = norm.logpdf(t - mu / 2), norm.logpdf(t + mu / 2)
    least = np.minimum(log_p, log_q)
    return np.exp(log_p - least) - alpha * np.exp(log_q - least), np.exp(least)


@pytest.mark.parametrize(("mu", "alpha", "kappa"), PAIRS)
def test_the_law_of_the_ratio_by_quadrature(mu, alpha, kappa):
    """Its mass and mean are kept; it lies above in the convex order, and by little."""
    reach = mu / 2 + 4.0
    law = shuffling._law_of_ratio(mu, kappa, alpha, reach)
    t, weights = nodes(reach)
    x, least = ratio_at(t, mu, alpha)
    weights = weights * least
    mass, square = weights.sum(), weights @ x**2
    size = math.sqrt(square / mass)
    assert law.step == pytest.approx(size / 8, rel=1e-9)
    assert law.masses.sum() == pytest.approx(kappa * mass, rel=1e-12)
    assert law.masses @ law.values == pytest.approx(kappa * (weights @ x), abs=1e-12 * kappa * size)
    assert 0 <= law.masses @ law.values**2 / kappa - square <= mass * law.step**2 / 4 * 1.001
    for place in np.linspace(-3, 3, 61) * size:
        true = kappa * (weights @ np.maximum(x - place, 0.0))
        found = float(law.masses @ np.maximum(law.values - place, 0.0))
        assert -1e-5 * law.step <= (found - true) / kappa <= mass * law.step / 4
