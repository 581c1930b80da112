"""The binomial vector sum: exact divergences by enumeration, bias, variance, quantiles.

Statistical tests allow 6 standard errors or p-values of 1e-8.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.mechanisms import binomial
from skdpfl.privacy.pricing.price import price_delta


class Draws:
    """A stream of random numbers as the protocol sees it."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed).random


def shifted(n, p, k):
    """Laws of Bin(n, p) and Bin(n, p) + k on 0..n+k."""
    pmf = stats.binom.pmf(np.arange(n + 1), n, p)
    return np.append(pmf, np.zeros(k)), np.append(np.zeros(k), pmf)


def cropped(a, b):
    """Both laws where either is above 1e-19."""
    kept = np.flatnonzero(np.maximum(a, b) > 1e-19)
    return a[kept[0] : kept[-1] + 1], b[kept[0] : kept[-1] + 1]


def hockey_stick(a, b, epsilon):
    return float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())


# ------------------------------------------------------------------------- one coordinate

LAWS = [(3000, 0.5), (20_000, 0.5), (30_000, 0.25), (10**6, 0.5)]


@pytest.mark.parametrize(("n", "p"), LAWS)
def test_every_step_is_below_the_largest_step(n, p):
    """Guarantee 3, directly: Phi^-1 P(X >= m) - Phi^-1 P(X >= m + 1) over the range; and tight."""
    depth = 25.0
    step, tau = binomial.largest_step(n, p, depth)
    sd = math.sqrt(n * p * (1 - p))
    m = np.arange(int(n * p - 6.5 * sd), int(n * p + 6.5 * sd))
    upper = np.where(m > n * p, stats.binom.sf(m - 1, n, p), 1.0)
    lower = np.where(m > n * p, 0.0, stats.binom.cdf(m - 1, n, p))
    y = np.where(m > n * p, ndtri(upper), -ndtri(lower))
    found = -np.diff(y)
    assert found.max() <= step * (1 + 1e-7)
    assert step <= 1 / sd * (1 + (0.02 if p == 0.5 else 0.12))
    assert 0 < tau < 1e-8


@pytest.mark.parametrize(("n", "p"), LAWS)
def test_tails_are_as_small_as_promised(n, p):
    """Guarantee 1: the geometric tails lie above the binomial's, and tau above their mass."""
    depth = 20.0
    _, tau = binomial.largest_step(n, p, depth)
    reach = math.sqrt(2 * depth * n * p * (1 - p)) + depth
    low, high = math.floor(n * p - reach), math.ceil(n * p + reach)
    outside = stats.binom.cdf(low - 1, n, p) + stats.binom.sf(high, n, p)
    assert outside <= tau <= math.exp(-depth)


def stirling(n):
    """Return log n! to 40 digits, for n >= 1e9."""
    n = Decimal(n)
    two_pi = Decimal("6.28318530717958647692528676655900576839433879875021")
    return n * n.ln() - n + (two_pi * n).ln() / 2 + 1 / (12 * n) - 1 / (360 * n**3)


@pytest.mark.parametrize("n", [10**9, 10**12, 10**14, 10**16])
@pytest.mark.parametrize("depth", [60.0, 62.3, 70.0])
def test_tails_of_very_many_bits_are_not_lost_in_rounding(n, depth):
    """tau is at least the mass of the geometric tails, from factorials to 40 digits."""
    with localcontext(prec=60):
        reach = math.sqrt(2 * depth * n / 4) + depth
        low, high = math.floor(n * 0.5 - reach), math.ceil(n * 0.5 + reach)
        tails = 0.0
        for end, ratio in ((low, (low + 1) / (n - low)), (high, (n - high + 1) / high)):
            log_pmf = stirling(n) - stirling(end) - stirling(n - end) - n * Decimal(2).ln()
            tails += math.exp(log_pmf) * ratio / (1 - ratio)
    _, tau = binomial.largest_step(n, 0.5, depth)
    assert tails <= tau <= 1.02 * tails


def test_too_few_bits_are_refused():
    with pytest.raises(binomial.TooFewBits, match="too few"):
        binomial.largest_step(100, 0.5, 20.0)
    with pytest.raises(ValueError, match="noise_bits"):
        _ = binomial.BinomialSum(1, 1.0, 1, 8, 10).noise_multiplier


# ------------------------------------------------------------------------- several coordinates


@pytest.mark.parametrize("direction", [(1.0, 0.0), (0.8, 0.6), (0.7, -0.7)])
def test_two_coordinates_by_enumeration(direction):
    """Guarantee of a whole release: the integer shift of largest norm, all pairs of counts."""
    release = binomial.BinomialSum(2, 1.0, 4, levels=20, noise_bits=1000)
    n = release.total_bits
    shift = [round(release.largest_shift * c) for c in direction]
    # the norm may exceed K by rounding: cut the longer one
    while math.hypot(*shift) > release.largest_shift:
        shift[0] -= 1
    laws = [cropped(*shifted(n, 0.5, abs(k))[:: 1 if k >= 0 else -1]) for k in shift]
    a, b = (np.multiply.outer(laws[0][i], laws[1][i]) for i in (0, 1))
    (event, count), (rest, _) = release.composition()
    assert count == 1 and isinstance(event, Gaussian) and isinstance(rest, Approximate)
    for epsilon in (0.0, 0.5, 1.5, 4.0):
        exact = max(hockey_stick(a, b, epsilon), hockey_stick(b, a, epsilon))
        bound = price_delta(release.composition(), epsilon, "replace")
        assert exact <= bound + 1e-15
        if epsilon < 2:
            assert bound <= 1.3 * exact


@pytest.mark.parametrize("x", [1.0, 0.93, 0.013])
def test_one_record_from_vector_to_bits(x):
    """The protocol itself in one dimension, rounding included: the law of the number of ones."""
    release = binomial.BinomialSum(1, 1.0, 1, levels=25, noise_bits=4000)
    laws = []
    for value in (x, -1.0):
        scaled = value / release.unit + release.levels
        low = math.floor(scaled)
        rounded = np.zeros(2 * release.levels + 2)
        rounded[low], rounded[low + 1] = 1 - (scaled - low), scaled - low
        laws.append(np.convolve(rounded, stats.binom.pmf(np.arange(4001), 4000, 0.5)))
    for epsilon in (0.0, 0.5, 2.0):
        exact = max(hockey_stick(*laws, epsilon), hockey_stick(*laws[::-1], epsilon))
        bound = price_delta(release.composition(), epsilon, "replace")
        assert exact <= bound
        if x == 1.0 and epsilon < 1:
            assert bound <= 1.1 * exact


def test_rounding_with_shared_uniforms_moves_by_the_shift_or_one_more():
    """Guarantee 1: |k_j - (x_j - x'_j) / h| < 1, hence the norm of the integer shift."""
    release = binomial.BinomialSum(40, 2.0, 1, levels=30, noise_bits=4000)
    rng = np.random.default_rng(0)
    for _ in range(200):
        x, y = rng.standard_normal((2, 1, 40))
        x, y = 2.0 * x / np.linalg.norm(x), 2.0 * y / np.linalg.norm(y)
        u = rng.random((1, 40))
        k = release.encode(x, u) - release.encode(y, u)
        assert np.abs(k - (x - y) / release.unit).max() < 1
        assert np.linalg.norm(k) <= release.largest_shift


# ------------------------------------------------------------------------- what it computes


def clipped_rows(n, d, clip_norm, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return clip_norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.slow
def test_unbiased_with_the_stated_variance():
    release = binomial.BinomialSum(6, 2.0, 5, levels=10, noise_bits=300)
    sums = clipped_rows(5, 6, 2.0)
    draws = Draws(1)
    got = np.array([release.release(sums, draws) for _ in range(5_000)])
    truth, variance = sums.sum(axis=0), release.variance(sums)
    se = np.sqrt(variance / len(got))
    assert (np.abs(got.mean(axis=0) - truth) < 6 * se).all()
    ratio = got.var(axis=0) / variance
    assert (np.abs(ratio - 1) < 6 * math.sqrt(2 / len(got))).all()
    assert (variance <= release.variance()).all()


def test_variance_by_hand():
    """One contributor at 0.3 of a unit: h^2 (b / 4 + 0.3 * 0.7)."""
    release = binomial.BinomialSum(1, 1.0, 1, levels=10, noise_bits=40)
    assert release.variance(np.array([[0.03]])) == pytest.approx([0.01 * (10 + 0.21)])
    assert release.unit == pytest.approx(0.1)
    assert release.bits_per_contributor == 2 * 10 + 40


# ------------------------------------------------------------------------- quantiles


@pytest.mark.parametrize("p", [0.5, 0.25])
@pytest.mark.parametrize("n", [1, 10, 1000, 10**6, 10**9])
def test_quantiles_are_exact(n, p):
    u = np.concatenate([np.random.default_rng(n).random(400), [0.0, 1e-14, 0.5, 1 - 1e-14]])
    k = binomial.binomial_quantiles(n, p, u)
    u = np.clip(u, 2.0**-54, 1 - 2.0**-54)
    law, upper = stats.binom(n, p), u > 0.5
    assert k.dtype == np.int64 and k.min() >= 0 and k.max() <= n
    assert np.where(upper, law.sf(k) <= 1 - u, law.cdf(k) >= u).all()
    assert np.where(upper, law.sf(k - 1) > 1 - u, law.cdf(k - 1) < u).all()


def tail_mass(k, n):
    """P[Bin(n, 1/2) <= k], k < n / 2 a few deviations off, term by term in long doubles."""
    wide = np.longdouble
    u = wide(k) / (wide(n) / 2) - 1
    log_pmf = -k * np.log1p(u) - (n - k) * np.log1p(-u) + np.log(wide(2) / np.pi / n) / 2
    log_pmf -= np.log1p(-u * u) / 2 + 1 / (wide(4) * n)  # Stirling's next terms vanish
    m = np.arange(k, k - int(3 * math.sqrt(n)), -1, dtype=np.int64).astype(wide)
    ratios = np.cumprod(m / (n - m + 1))
    return np.exp(log_pmf) * (1 + ratios.sum()), np.exp(log_pmf)


@pytest.mark.parametrize("n", [2 * 10**8, 10**12])
def test_quantiles_of_very_many_bits_change_where_the_law_does(n):
    """A number of ones begins and ends within 2e-6 of its probability of where it should."""
    k = n // 2 - int(3 * math.sqrt(n) / 2)
    upto, each = tail_mass(k, n)
    for _ in range(20):
        around = (upto + each * np.array([-2e-6, 2e-6])).astype(float)
        assert binomial.binomial_quantiles(n, 0.5, around).tolist() == [k, k + 1]
        each, k = each * (n - k) / (k + 1), k + 1
        upto += each


@pytest.mark.parametrize("end", [0.0, 1.0 - 2.0**-53])
@pytest.mark.parametrize("n", [1000, 10**6, 10**7])
def test_tails_are_drawn_with_more_digits(n, end):
    """Beyond the last of 2^53 uniforms: all numbers of ones, each where it should be."""
    more = np.linspace(1e-3, 0.999, 200)
    numbers = iter([np.full(200, end), more])

    class Far:
        def random(self, shape):
            return next(numbers)

    k = binomial.binomial_draws(n, 0.5, Far(), 200)
    law = stats.binom(n, 0.5)
    if end == 0.0:
        u, upto, before = more * 2.0**-53, law.cdf(k), law.cdf(k - 1)
    else:
        u, upto, before = (1 - more) * 2.0**-53, law.sf(k - 1), law.sf(k)
    assert (before <= u * (1 + 1e-9)).all() and (u <= upto * (1 + 1e-9)).all()
    assert len(set(k.tolist())) > 4


# ------------------------------------------------------------------------- calibration


@pytest.mark.parametrize("z", [0.12, 0.3, 3.0, 100.0])
@pytest.mark.parametrize(("d", "n"), [(1, 1), (50, 2000), (7850, 25)])
def test_calibration_reaches_the_noise_and_little_more(z, d, n):
    release = binomial.binomial_sum(z, dimension=d, clip_norm=1.5, n_contributors=n)
    assert release.noise_multiplier >= z
    # one bit more for each contributor is all that the search may waste
    floor = math.sqrt(release.total_bits - 1.01 * n) / release.largest_shift
    assert floor <= z * 1.02
    assert math.sqrt(release.variance()) <= 1.5 * z * 1.09 or z < 0.2


BAD = {"dimension": 0, "clip_norm": -1.0, "n_contributors": 0, "levels": 0, "noise_bits": 0,
       "records": 0, "probability": 1.0}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_named(name):
    known = {"dimension": 2, "clip_norm": 1.0, "n_contributors": 3, "levels": 9, "noise_bits": 99}
    with pytest.raises(ValueError, match=name):
        binomial.BinomialSum(**(known | {name: BAD[name]}))


def test_sums_of_several_records_fit_in():
    release = binomial.BinomialSum(3, 1.0, 2, levels=10, noise_bits=300, records=7)
    sums = 7.0 * clipped_rows(2, 3, 1.0)
    encoded = release.encode(sums, np.full((2, 3), 0.5))
    assert encoded.min() >= 0 and encoded.max() <= 2 * 70
    assert release.decode(encoded.sum(axis=0) + release.total_bits // 2) == pytest.approx(
        sums.sum(axis=0), abs=2 * release.unit
    )


def test_calibration_refuses_no_noise():
    with pytest.raises(ValueError, match="noise_multiplier must be a number in"):
        binomial.binomial_sum(0.0, dimension=2, clip_norm=1.0, n_contributors=3)
