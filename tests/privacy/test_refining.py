"""Prices of releases that are unlike each other, or rare: close to the truth, and monotone."""

import math
import random

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr

from skdpfl.privacy.events import Approximate, FixedSizeGaussian, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing import price
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 5, 20])
def test_few_steps_far_out_lie_between_one_and_the_union(n):
    one, release = 1e-40, FixedSizeGaussian(2.0, 1e-4)
    ours = price_epsilon(((release, n),), one, "replace")
    assert ours >= epsilon_of_one(FixedSizeGaussian, 2.0, 1e-4, one) * (1 - 1e-9)
    # n steps of a smaller loss each, or one that has it all: the second is the more likely here
    assert ours <= 1.02 * epsilon_of_one(FixedSizeGaussian, 2.0, 1e-4, one / n) + 2e-4 * n


# ---- many distinct releases: merged on the safe side, priced close to the truth, and in time -----


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PoissonGaussian, FixedSizeGaussian])
def test_merged_prices_lie_little_above_the_whole_ones(kind, monkeypatch):
    z = np.linspace(1, 4, 300)
    parts = tuple((kind(float(a), 0.01), 7) for a in z)
    found = price.price_epsilon.__wrapped__(parts, 1e-5, "replace")
    for name, value in (("_MOST_DISTINCT", 1000), ("_ALL_POINTS", 2**22)):
        monkeypatch.setattr(price, name, value)
    whole = price.price_epsilon.__wrapped__(parts, 1e-5, "replace")
    assert whole <= found <= 1.015 * whole


def test_prices_do_not_depend_on_how_many_releases_are_distinct():
    """2,000 releases of z from 1 to 4: as 2,000 distinct ones, or as 50 that lie below or above."""
    z = np.linspace(1, 4, 2000).reshape(50, 40)
    parts = tuple((PoissonGaussian(float(a), 0.01), 1) for a in z.ravel())
    found = price.price_epsilon(parts, 1e-5, "replace")
    below, above = (
        price.price_epsilon(
            tuple((PoissonGaussian(float(a), 0.01), 40) for a in z[:, end]), 1e-5, "replace"
        )
        for end in (-1, 0)
    )
    assert below <= found <= above
    assert above < 1.07 * below
