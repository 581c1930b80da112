"""More of tests/privacy/test_accounting.py: what only private names show."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import binom, norm

from skdpfl.privacy.events import Approximate, FixedSizeGaussian, Gaussian, PoissonGaussian, Profile
from skdpfl.privacy.pricing import loss_pairs
from skdpfl.privacy.pricing.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.loss_sum import LossSum
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from skdpfl.privacy.pricing.releases import approximate_pair, profile_pair, undominated
from skdpfl.privacy.pricing.renyi import renyi
from tests.privacy import _reference as reference
from tests.privacy._reference import exact_gaussian_delta


def test_a_dominated_composition_costs_less_at_every_delta():
    dear = ((PoissonGaussian(3.0, 0.1), 50), (Gaussian(9.0), 2))
    cheaper = [
        ((PoissonGaussian(3.5, 0.1), 50), (Gaussian(9.0), 2)),
        ((PoissonGaussian(3.0, 0.09), 50), (Gaussian(9.0), 2)),
        ((PoissonGaussian(3.0, 0.1), 49), (Gaussian(9.0), 2)),
        ((PoissonGaussian(3.0, 0.1), 50), (Gaussian(9.5), 2)),
    ]
    unlike = [((FixedSizeGaussian(3.0, 0.1), 50), (Gaussian(9.0), 2)), dear[:1], dear[::-1]]
    for cheap in cheaper:
        assert undominated([dear, cheap]) == [0] and undominated([cheap, dear]) == [1]
        for delta in (1e-2, 1e-5, 1e-9):
            assert price_epsilon(cheap, delta, "replace") < price_epsilon(dear, delta, "replace")
    assert undominated([dear, *unlike]) == [0, 1, 2, 3]
    assert undominated([dear, dear]) == [0]
    assert undominated([cheaper[0], cheaper[1]]) == [0, 1]


def test_budgets_next_to_a_delta_of_one():
    for epsilon in (0.0, 1e-6, 1e-3, 1.0, 1e3):
        for delta in (0.999, 1 - 1e-12, 1 - 2**-52, 1 - 2**-53):
            assert 0.0 < gaussian_delta(gaussian_mu(epsilon, delta), epsilon) <= delta * (1 + 1e-11)


@pytest.mark.parametrize("z", [1e-8, 1e-30, 1e-70, 1e-150, 1e-155, 1e-200, 5e-324])
def test_next_to_no_noise_costs_next_to_infinity(z):
    for distance, neighbours in ((2, "replace"), (1, "add_remove")):
        priced = price_epsilon(((Gaussian(z), 3),), 1e-5, neighbours)
        mu = math.sqrt(3) * distance / z
        assert priced >= mu * (mu / 2)  # the loss's mean alone
        assert priced <= 1.001 * mu * (mu / 2)
        assert price_delta(((Gaussian(z), 3),), 0.99 * mu * (mu / 2), neighbours) == 1.0
        for order in (2.0, 30.0):
            least = order * 2 * distance / z
            assert renyi(((Gaussian(z), 1),), order, neighbours)[0] >= least
        assert price_epsilon(((PoissonGaussian(z, 0.5), 1),), 1e-5, neighbours) >= 1 / z
        assert renyi(((PoissonGaussian(z, 0.5), 1),), 2.0, neighbours)[0] >= 1 / z
    assert price_epsilon(((FixedSizeGaussian(z, 0.5), 1),), 1e-5, "replace") >= 1 / z


@pytest.mark.parametrize("mu", [0.99e4, 1.01e4, 3e5])
@pytest.mark.parametrize("x", [-3.0, 0.0, 2.0, 20.0])
def test_large_gaussian_deltas_are_those_of_one_tail(mu, x):
    """epsilon = mu^2 / 2 + x mu; the other tail is phi(x) / mu, next to nothing."""
    epsilon = mu * mu / 2 + x * mu
    found = gaussian_delta(mu, epsilon)
    tail = norm.sf(x)
    assert tail - 1.01 * norm.pdf(x) / mu <= found <= tail * (1 + 1e-6)
    back = gaussian_epsilon(mu, found) if found < 1 else epsilon
    assert epsilon * (1 - 1e-9) <= back <= epsilon * (1 + 3e-3 / mu)


@pytest.mark.parametrize("mu", [1e-200, 1e-20, 1e-16, 2.5e-16, 1e-15, 1e-14])
def test_hardly_any_distance_is_priced(mu):
    for times in (0.0, 1.0, 4.0):
        delta = Decimal(gaussian_delta(mu, times * mu))
        true = exact_gaussian_delta(mu, times * mu) if mu > 1e-50 else Decimal(0)
        assert true <= delta <= Decimal(mu)
        assert delta > 0
    assert mu / 3 < gaussian_delta(mu, -mu / 1000) < 2 * mu
    delta = 0.2 * mu
    assert mu / 4 < gaussian_mu(mu / 10, delta) < mu  # 0.2 = 0.37 of 0.54, and 0.4 at epsilon 0


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-10, 1e-30])
@pytest.mark.parametrize("mu", [1e-7, 1e-5, 1e-3, 0.02, 1.0, 5.0])
def test_gaussian_numbers_are_never_below_the_truth(mu, delta):
    """Also where the difference of the two tails loses its digits: compared with 40 digits."""
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon > 0:
        exact = exact_gaussian_delta(mu, epsilon)
        assert exact <= Decimal(delta)
        assert exact <= Decimal(gaussian_delta(mu, epsilon))
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-4)
    largest = gaussian_mu(0.5, delta)
    assert exact_gaussian_delta(largest, 0.5) <= Decimal(delta)


# ---- losses on grids and their sums: dominance, and exact sums by other means --------------------

PAIRS = [
    loss_pairs.ReplacePair(0.1, 1.0),
    loss_pairs.ReplacePair(1e-3, 2.0),
    loss_pairs.ReplacePair(0.9, 0.05),
    loss_pairs.ReplacePair(0.2, 1 / 60),
    loss_pairs.ZeroOutPair(0.1, 1.0),
    loss_pairs.ZeroOutPair(0.5, 0.1),
    loss_pairs.FixedSizePair(0.1, 2.0),
    loss_pairs.FixedSizePair(0.7, 0.04),
    loss_pairs.gaussian_pair(1.5),
    approximate_pair(0.7, 1e-3),
    profile_pair((0.1, 0.5, 1.0, 2.0), (0.2, 0.1, 0.02, 1e-3)),
]


def delta_on(loss, epsilon):
    """Hockey-stick divergence of a loss on a grid."""
    return loss.infinite + float(np.maximum(0, -np.expm1(epsilon - loss.losses)) @ loss.probs)


def true_delta(pair, epsilon, direction):
    """The divergence of the pair itself."""
    if isinstance(pair, loss_pairs.FixedSizePair):
        return float(reference.fixed_size_delta(2 / pair.shift, pair.rate, epsilon))
    make = (
        reference.poisson_replace
        if isinstance(pair, loss_pairs.ReplacePair)
        else reference.poisson_zero_out
    )
    p, q = make(1 / pair.shift, pair.rate)
    return reference.hockey_stick((p, q) if direction == 0 else (q, p), epsilon)


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("pair", PAIRS[:9], ids=repr)
def test_the_grid_dominates_and_is_exact_on_its_points(pair, direction):
    h = math.sqrt(pair.variance()) / 8
    loss = pair.grids(loss_pairs.Grid(h, 1e-12, 1e-12, 10**6))[direction]
    for k in (0, 1, 3, 9, 20):
        on, between = k * h, (k + 0.4) * h
        truth = true_delta(pair, on, direction)
        assert delta_on(loss, on) == pytest.approx(truth, rel=1e-6, abs=1e-10)
        assert delta_on(loss, between) >= true_delta(pair, between, direction) - 1e-10


def test_a_grid_with_too_many_points_is_not_built():
    with pytest.raises(loss_pairs.TooFine) as error:
        loss_pairs.ReplacePair(0.1, 1.0).grids(loss_pairs.Grid(1e-9, 1e-12, 1e-12, 10**6))
    assert error.value.ratio > 100
    loss = loss_pairs.ReplacePair(0.1, 1.0).grids(loss_pairs.Grid(0.02, 1e-12, 1e-12, 10**6))[0]
    with pytest.raises(loss_pairs.TooFine) as error:
        LossSum(((loss, 50),), 64).epsilon(1e-5)
    assert error.value.of_sum and error.value.ratio > 1


# ---- sums -----------------------------------------------------------------------------------


def binomial_delta(epsilon0, n, epsilon):
    """Delta of n randomised responses, from the binomial law."""
    up = 1 / (1 + math.exp(-epsilon0))
    k = np.arange(n + 1)
    losses = (2 * k - n) * epsilon0
    weight = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - losses)))
    return float((binom.pmf(k, n, up) * weight).sum())


@pytest.mark.parametrize(
    "epsilon0, n, deviations",
    [(0.5, 10, k) for k in (0, 1)]
    + [(0.1, 1000, k) for k in (0, 1, 4, 10, 20)]
    + [(0.001, 10**6, k) for k in (0, 1, 4, 10, 20)],
)
def test_sums_of_randomised_responses(epsilon0, n, deviations):
    epsilon = n * epsilon0 * math.tanh(epsilon0 / 2) + deviations * math.sqrt(n) * epsilon0
    loss = approximate_pair(epsilon0, 0.0).grids(loss_pairs.Grid(epsilon0 / 4, 0, 0, 10**6))[0]
    total = LossSum(((loss, n),), 2**21)
    truth = binomial_delta(epsilon0, n, epsilon)
    ours = total.finite_delta(epsilon, truth).value
    assert truth * (1 - 1e-8) <= ours <= 1.001 * truth  # down to 1e-100
    back = total.epsilon(ours).value
    assert back == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("centre", [0.0, 0.37])
def test_probabilities_of_intervals_are_within_their_error_bounds(centre):
    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([-rng.uniform(0, 12, 60), rng.uniform(0, 3, 15)]))
    mass, error = loss_pairs.normal_masses(x, centre)
    tails = [Decimal(b) - Decimal(centre) for b in x.tolist()]
    below = [reference.exact_tail(-t) if t <= 0 else 1 - reference.exact_tail(t) for t in tails]
    for i in range(len(x) - 1):
        assert abs(Decimal(float(mass[i])) - (below[i + 1] - below[i])) <= Decimal(float(error[i]))
        ends = x[i : i + 2] - centre
        tail = reference.exact_tail(Decimal(float(max(ends[0], -ends[1]))))
        # logarithms of tails are about x^2 / 2
        assert Decimal(float(error[i])) <= Decimal(4e-15 * (1 + np.abs(ends).max() ** 2)) * tail


def test_a_profile_that_a_release_has_is_met_at_every_point():
    """And points above the curve between the others change nothing."""
    epsilons = (0.0, 0.3, 0.8, 1.5, 2.5)
    deltas = tuple(gaussian_delta(1.2, e) for e in epsilons)
    pair = profile_pair(epsilons, deltas)
    for i in range(1, 5):
        (low, high), (first, last) = np.exp(epsilons[i - 1 : i + 1]), deltas[i - 1 : i + 1]
        for share, lift in ((0.5, 1.0001), (0.6, 1.1)):  # above the chord in e^epsilon
            chord = (1 - share) * first + share * last
            between = math.log((1 - share) * low + share * high), lift * chord
            more = sorted([*zip(epsilons, deltas, strict=True), between])
            assert profile_pair(*zip(*more, strict=True)) == pair
    losses, masses = np.array(pair.losses), np.array(pair.masses)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        for sign in (1, -1):  # both directions: delta(-e) = 1 - e^-e (1 - delta(e))
            met = pair.infinite + np.maximum(0.0, -np.expm1(sign * epsilon - losses)) @ masses
            wanted = delta if sign > 0 else 1 - math.exp(-epsilon) * (1 - delta)
            assert met == pytest.approx(wanted, rel=1e-12)
    assert pair.infinite == deltas[-1]
    assert pair.infinite + masses.sum() == pytest.approx(1.0)


def test_profiles_that_say_nothing():
    nothing = Profile((0.0, 1.0), (1.0, 1.0))
    for n in (1, 3):
        assert price_delta(((nothing, n), (Approximate(0.1), 2)), 0.5, "replace") == 1.0
    assert profile_pair((0.0, 1.0), (1.0, 1.0)).infinite == 1.0
    assert profile_pair((700.0,), (0.1,)).infinite == 1.0  # such an epsilon is not used
    assert profile_pair((2.0,), (0.1,)).infinite == 0.1


@pytest.mark.parametrize("seed", range(60))
def test_sums_on_a_grid_are_never_below_their_convolution(seed):
    """Unlike losses on a coarse grid, at any delta."""
    random = np.random.default_rng(seed)
    q, m, e = 10 ** random.uniform([-5, -2, -1.5], [0, 0.7, 1])
    pairs = [
        [loss_pairs.ReplacePair, loss_pairs.ZeroOutPair, loss_pairs.FixedSizePair][seed % 3](q, m),
        approximate_pair(e, 0.0),
    ]
    counts = random.integers(1, 5, 2).tolist()
    h = math.sqrt(sum(pair.variance() for pair in pairs)) / random.choice([2, 4, 8])
    delta = 10 ** random.uniform(-25, -0.3)
    parts = tuple(
        (pair.grids(loss_pairs.Grid(h, 1e-9, 1e-6 * delta, 5000))[seed % 2], n)
        for pair, n in zip(pairs, counts, strict=True)
    )
    probs, low = np.ones(1), 0
    for loss, n in parts:
        for _ in range(n):
            probs, low = np.convolve(probs, loss.probs), low + loss.low
    losses = h * np.arange(low, low + probs.size)
    total = LossSum(parts, 2**18)
    epsilon = total.epsilon(delta).value
    for at, stated in (
        (epsilon, delta - total.infinite),
        (epsilon / 2, total.finite_delta(epsilon / 2, delta).value),
    ):
        above = losses > at
        exact = float((probs[above] * -np.expm1(at - losses[above])).sum())
        assert exact <= stated * (1 + 1e-9)
