"""Prices of releases that are unlike each other, or rare: close to the truth, and monotone."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr

from skdpfl.privacy.events import Approximate, FixedSizeGaussian, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing import price, refining
from skdpfl.privacy.pricing.loss_pairs import (
    FixedSizePair,
    Grid,
    GridLoss,
    ReplacePair,
    ZeroOutPair,
)
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from skdpfl.privacy.pricing.refining import LossProduct
from skdpfl.privacy.pricing.releases import approximate_pair, profile_pair
from tests.privacy import _reference as reference

# ---- the truth ------------------------------------------------------------------------------


def log_delta_of_one(kind, z, q, epsilon):
    """Log of delta(epsilon) of a single sampled release under "replace", also where it is tiny."""
    if kind is FixedSizeGaussian:  # g H_{1 + (e^eps - 1)/g} of two Gaussians
        mu, inner = 2 / z, math.log1p(math.expm1(epsilon) / q)
        above, below = log_ndtr(mu / 2 - inner / mu), inner + log_ndtr(-mu / 2 - inner / mu)
        return math.log(q) + above + math.log(-math.expm1(below - above))
    m = 1 / z
    # the x with loss epsilon
    inside = math.sinh(epsilon / 2) * math.exp(m * m / 2) * (1 - q) / q
    x = (epsilon / 2 + math.asinh(inside)) / m
    still, up, down = (log_ndtr(c - x) for c in (0.0, m, -m))
    p = np.logaddexp(math.log1p(-q) + still, math.log(q) + up)
    other = epsilon + np.logaddexp(math.log1p(-q) + still, math.log(q) + down)
    return p + math.log(-math.expm1(other - p))


def epsilon_of_one(kind, z, q, delta):
    """The exact epsilon of a single sampled release."""
    target = math.log(delta)
    return brentq(lambda e: log_delta_of_one(kind, z, q, e) - target, 1e-12, 300, xtol=1e-15)


def delta_with_gaussians(mu, z, q, neighbours, epsilon):
    """Delta of Gaussians (mu in all) and one Poisson step: E delta_mu(epsilon - L), summed up."""
    make = {"replace": reference.poisson_replace, "add_remove": reference.poisson_zero_out}
    pair, deltas = make[neighbours](z, q), []
    means = [mean for side in pair for _, mean in side]
    x = np.linspace(min(means) - 9, max(means) + 9, 100_001)
    for p, other in (pair, pair[::-1]):
        density = reference.log_density(p, x)
        rest = epsilon - (density - reference.log_density(other, x))
        above, below = log_ndtr(mu / 2 - rest / mu), log_ndtr(-mu / 2 - rest / mu)
        delta = -np.exp(above) * np.expm1(np.minimum(0.0, rest + below - above))
        deltas.append(float(np.exp(density) @ delta) * (x[1] - x[0]))
    return max(deltas)


# ---- unlike losses --------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("z, q", [(0.5, 1e-9), (0.5, 1e-6), (0.1, 4e-6), (2.0, 1e-3)])
@pytest.mark.parametrize("noise", [20.0, 300.0])
def test_gaussians_beside_one_rare_step(neighbours, z, q, noise):
    composition = ((Gaussian(noise), 2), (PoissonGaussian(z, q), 1))
    ours = price_epsilon(composition, 1e-5, neighbours)
    mu = math.sqrt(2) * (2 if neighbours == "replace" else 1) / noise
    assert delta_with_gaussians(mu, z, q, neighbours, ours) <= 1e-5 * (1 + 1e-6)
    assert delta_with_gaussians(mu, z, q, neighbours, ours / 1.001) > 1e-5


def test_steps_that_hardly_ever_sample_add_next_to_nothing():
    gaussians = ((Gaussian(22.0), 2),)
    alone = price_epsilon(gaussians, 1e-5, "replace")
    before = alone
    for n in (1, 2, 10, 100):
        after = price_epsilon((*gaussians, (PoissonGaussian(0.003, 1e-9), n)), 1e-5, "replace")
        # a record is drawn with a probability of n 1e-9, which is all that the steps can tell
        less = price_epsilon(gaussians, 1e-5 - n * 1e-9, "replace")
        assert before <= after * (1 + 1e-3)
        assert after <= less * (1 + 1e-3)
        before = after


SEEDS = range(1, 20)


def draw_event(r, neighbours):
    """Any release: noise over five powers of ten, rates over ten."""
    kinds = [PoissonGaussian] * 3 + [Gaussian, Approximate]
    kind = r.choice([*kinds, FixedSizeGaussian] if neighbours == "replace" else kinds)
    if kind is Approximate:
        return Approximate(10 ** r.uniform(-3, 1), r.choice([0.0, 1e-9])), r.randint(1, 3)
    n = int(10 ** r.uniform(0, r.choice([0.5, 1, 2, 4])))
    if kind is Gaussian:
        return Gaussian(10 ** r.uniform(-0.5, 2.5)), n
    return kind(10 ** r.uniform(-3, 2.5), 10 ** r.uniform(-10, 0)), n


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 20))]
)
def test_more_releases_never_cost_less(seed):
    """To a thousandth, below epsilon 100 (beyond, to a hundredth): 40 random compositions."""
    r = random.Random(seed)
    for _ in range(40):
        neighbours, delta = r.choice(["replace", "add_remove"]), 10 ** r.uniform(-12, -2)
        few = [draw_event(r, neighbours) for _ in range(r.choice([1, 1, 2, 3]))]
        more = list(few)
        if r.random() < 0.5:
            more.append(draw_event(r, neighbours))
        else:
            j = r.randrange(len(few))
            more[j] = (few[j][0], few[j][1] + r.choice([1, few[j][1]]))
        low, high = (price_epsilon(tuple(c), delta, neighbours) for c in (few, more))
        slack = 1e-3 if low < 100 else 1e-2
        assert high >= low * (1 - slack) - 1e-5 or low == high, (few, more, delta, neighbours)


def test_a_release_that_tells_all_hides_no_other():
    """A rare loss of 3,000 among small ones: far more than a double's exponents reach."""
    rare = PoissonGaussian(0.0135, 4e-8), 1
    alone = price_epsilon((rare,), 1.4e-11, "add_remove")
    assert alone > 2900
    for q in (1e-4, 1e-2):
        both = price_epsilon((rare, (PoissonGaussian(190.0, q), 2)), 1.4e-11, "add_remove")
        assert alone * (1 - 1e-4) <= both <= 1.001 * alone


# ---- far tails ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PoissonGaussian, FixedSizeGaussian])
@pytest.mark.parametrize(
    "z, q, delta",
    [
        (3.35, 0.003, 1e-20),
        (3.35, 1e-6, 1e-100),
        (1.0, 1e-6, 1e-100),
        (0.5, 0.1, 1e-30),
        (1.0, 0.01, 1e-9),
    ],
)
def test_single_steps_far_out(kind, z, q, delta):
    truth = epsilon_of_one(kind, z, q, delta)
    ours = price_epsilon(((kind(z, q), 1),), delta, "replace")
    assert truth * (1 - 1e-9) <= ours <= 1.001 * truth + 1e-6
    if truth > 1e-2:
        assert delta <= price_delta(((kind(z, q), 1),), truth * (1 - 1e-9), "replace") * (1 + 1e-6)
        assert price_delta(((kind(z, q), 1),), truth, "replace") <= 1.02 * delta


@pytest.mark.parametrize("n", [2, 5, 20])
def test_few_steps_far_out_lie_between_one_and_the_union(n):
    one, release = 1e-40, FixedSizeGaussian(2.0, 1e-4)
    ours = price_epsilon(((release, n),), one, "replace")
    assert ours >= epsilon_of_one(FixedSizeGaussian, 2.0, 1e-4, one) * (1 - 1e-9)
    # n steps of a smaller loss each, or one that has it all: the second is the more likely here
    assert ours <= 1.02 * epsilon_of_one(FixedSizeGaussian, 2.0, 1e-4, one / n) + 2e-4 * n


# ---- parts ----------------------------------------------------------------------------------

PAIRS = [
    ReplacePair(1e-3, 1.5),
    ZeroOutPair(0.1, 1.0),
    FixedSizePair(0.1, 2.0),
    ReplacePair(1.0, 0.7),
]
PAIRS += [approximate_pair(0.7, 1e-3), profile_pair((0.1, 0.5, 1.0), (0.2, 0.1, 1e-3))]


def delta_on(loss, epsilon):
    """Hockey-stick divergence of a loss on a grid."""
    return loss.infinite + float(np.maximum(0, -np.expm1(epsilon - loss.losses)) @ loss.probs)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("direction", [0, 1])
def test_a_grid_that_is_cut_off_keeps_both_probabilities(pair, direction):
    h = 0.05
    whole = pair.grids(Grid(h, 1e-14, 1e-14, 10**6))[direction]
    cut = pair.grids(Grid(h, 1e-14, 1e-300, 10**6, 0.4))[direction]
    assert abs(cut.losses).max() <= 0.4 + h
    assert cut.probs.min() >= 0
    assert cut.probs.sum() + cut.infinite == pytest.approx(1.0, abs=1e-12)
    end = cut.losses[-1]
    for epsilon in (0.0, 0.1, 0.3, end):  # the same below the end, more beyond it
        assert delta_on(cut, epsilon) == pytest.approx(delta_on(whole, epsilon), abs=1e-8)
    for epsilon in (end + 0.05, 1.0, 2.0):
        assert delta_on(cut, epsilon) >= delta_on(whole, epsilon) - 1e-13


def exact_delta(parts, epsilon):
    """Delta of sums of grid losses in fractions; nothing is cut off."""
    total = {0: Fraction(1)}
    infinite = Fraction(0)
    for loss, n in parts:
        for _ in range(n):
            law = {loss.low + k: Fraction(p) for k, p in enumerate(loss.probs.tolist()) if p}
            infinite += (1 - infinite) * Fraction(loss.infinite)
            after = {}
            for a, p in total.items():
                for b, q in law.items():
                    after[a + b] = after.get(a + b, Fraction(0)) + p * q
            total = after
    h = parts[0][0].h
    finite = sum(float(p) * -math.expm1(min(0.0, epsilon - h * k)) for k, p in total.items())
    return float(infinite) + finite


@pytest.mark.parametrize("room", [0, 16])
@pytest.mark.parametrize("seed", range(5))
def test_products_bound_exact_sums(seed, room):
    """Sums of five losses within 4 steps: without room, sums beyond 4 steps are cut off."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in (3, 2):
        probs = np.pad(10.0 ** rng.uniform(-40, 0, 9), room)
        probs *= (1 - 1e-30) / probs.sum()
        parts.append((GridLoss(0.25, -4 - room, probs, 1e-30), n))
    ours = LossProduct(tuple(parts), 10**6)
    for epsilon in (0.3, 1.0, 2.7):
        exact = exact_delta(parts, epsilon)
        bound = ours.infinite + ours.finite_delta(epsilon, exact).value
        assert exact * (1 - 1e-12) <= bound
        if room:
            assert bound <= exact * (1 + 1e-6)
            assert ours.epsilon(bound * (1 + 1e-9)).value <= epsilon * 1.01


def test_every_price_on_the_way_is_a_bound(monkeypatch):
    """No price that the refinement meets, however coarse its grid, lies below the truth."""
    truth = epsilon_of_one(FixedSizeGaussian, 3.35, 0.003, 1e-20)
    for points in (2**4, 2**6, 2**8):
        monkeypatch.setattr(refining, "_FIRST", points)
        pairs = price.releases(((FixedSizeGaussian(3.35, 0.003), 1),), "replace").pairs
        prices = list(refining.refined(pairs, 1e-20, 5.0, lambda s: s.epsilon(1e-20), True))
        assert len(prices) >= 2
        assert min(prices) >= truth * (1 - 1e-9)


@pytest.mark.parametrize("q", [0.003, 0.2])
def test_without_a_first_answer_the_search_begins_at_guesses(q):
    truth = epsilon_of_one(FixedSizeGaussian, 3.35, q, 1e-20)
    pairs = price.releases(((FixedSizeGaussian(3.35, q), 1),), "replace").pairs
    prices = list(refining.refined(pairs, 1e-20, math.inf, lambda s: s.epsilon(1e-20), True))
    assert truth * (1 - 1e-9) <= min(prices) <= 1.001 * truth


def test_products_whose_every_rounding_is_the_worst(monkeypatch):
    """Each convolution loses its N + 2 roundings; 2^18 releases lose 5e-9 in all."""
    probs = np.zeros(81)
    probs[[39, 40, 41]] = 1e-6, 1 - 2.1e-6, 1.1e-6
    loss = GridLoss(0.01, -40, probs, 1e-12)
    convolve, n = np.convolve, 2**18

    def bound():
        total = LossProduct(((loss, n),), 10**6)
        return np.array([total.infinite, total.finite_delta(0.03, 1e-9).value])

    stated = bound()
    with monkeypatch.context() as patch:
        patch.setattr(LossProduct, "_rounding", property(lambda self: 0.0))
        exact = bound()
    monkeypatch.setattr(np, "convolve", lambda a, b: convolve(a, b) * (1 - (a.size + 2) * 2.0**-52))
    assert (stated > exact * (1 + 4e-9)).all() and (stated < exact * (1 + 1e-6)).all()
    assert bound()[1] >= exact[1]
