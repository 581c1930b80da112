"""Sums behind a shuffler: exact fractions, transforms that err, quadrature, convolutions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from skdpfl.privacy import shuffling
from skdpfl.privacy.shuffling import GridLaw, positive_part_of_sum

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
    return GridLaw(int(rng.integers(-6, 3)), masses, float(rng.choice([0.125, 0.3, 3.0])))


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_sums_are_never_below_fractions_and_hardly_above(n):
    for seed in range(25):
        law = random_law(seed)
        found, true = positive_part_of_sum(law, n, NOTHING), exact(law, n)
        assert Fraction(found) >= true
        assert float(Fraction(found) - true) <= 1e-10 * law.step * (1 + float(true))


def test_a_transform_that_errs_as_much_as_is_allowed(monkeypatch):
    """Each frequency is wrong by its share, in the phase that lowers the result the most."""
    rng, power = np.random.default_rng(0), shuffling._power
    law, n = GridLaw(-40, 0.9 * rng.dirichlet(np.ones(100)), 0.25), 12
    told = positive_part_of_sum(law, n, NOTHING)
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
    found = positive_part_of_sum(law, n, NOTHING)
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
    "light": (GridLaw(-20, np.full(41, 0.9 / 41), 0.2), 200),
    "rarely large": (GridLaw(-1, np.array([0.3, 0, 0.2, *np.zeros(38), 1e-4]), 0.5), 100),
    "one sided": (GridLaw(3, np.array([0.01, 0.02]), 2.0), 300),
    "rare": (GridLaw(10, np.array([1e-3]), 0.5), 2),
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
    found = positive_part_of_sum(law, n, tolerance)
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
