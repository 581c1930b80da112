"""Prices against independent computations: from above, from below, and by dp-accounting."""

import functools
import math

import numpy as np
import pytest

from skdpfl.privacy import epsilon_of
from skdpfl.privacy.events import Approximate, FixedSizeGaussian, Gaussian, PoissonGaussian, compose
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from tests.privacy import _reference as reference

DELTA = 1e-5
SLOW = pytest.mark.slow

# z, q, steps, and the step to which all losses are rounded, down and up
POISSON = [(60, 0.2, 4_000, 4e-6), (1, 0.01, 1_000, 1e-5), (4, 0.1, 200, 1e-4), (0.7, 0.3, 3, 1e-3)]
FIXED = [(4, 0.1, 200, 1e-4), (4, 0.5, 200, 4e-4), (1, 0.01, 1_000, 1e-4), (60, 0.2, 4_000, 5e-6)]


@pytest.mark.slow
@pytest.mark.parametrize("z, q, steps, h", [*POISSON, (60, 0.2, 20_000, 3e-6)])
def test_poisson_lies_between_losses_rounded_down_and_up(z, q, steps, h):
    below, above = reference.rounded_epsilons(reference.poisson_replace(z, q), steps, DELTA, h)
    ours = epsilon_of(noise_multiplier=z, sampling_rate=q, n_steps=steps, delta=DELTA)
    assert below <= ours <= above
    assert above < 1.02 * below  # or the test would say little


@pytest.mark.slow
@pytest.mark.parametrize("z, g, steps, h", FIXED)
def test_fixed_size_lies_between_losses_rounded_down_and_up(z, g, steps, h):
    below, above = reference.fixed_size_rounded_epsilons(z, g, steps, DELTA, h)
    ours = price_epsilon(((FixedSizeGaussian(z, g), steps),), DELTA, "replace")
    assert below <= ours <= above
    assert above < 1.02 * below


@pytest.mark.parametrize("z, g, steps, epsilon", [(1.0, 0.1, 3, 0.5), (0.8, 0.3, 1, 1.0)])
def test_fixed_size_covers_an_attack_on_real_batches(z, g, steps, epsilon):
    # All other records pull to one side: b - 1 or b of them in the batch. The release is then
    # g N(2, z^2) + (1 - g) N(0, z^2) against N(0, z^2), up to a known shift: sampled, not computed.
    pair = reference.poisson_zero_out(z / 2, g)
    estimate, error = reference.monte_carlo_delta(pair, steps, epsilon, 200_000, seed=0)
    ours = price_delta(((FixedSizeGaussian(z, g), steps),), epsilon, "replace")
    assert estimate - 6 * error < ours
    assert estimate > 20 * error


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("z, q", [(1.0, 0.1), (0.4, 0.02), (5.0, 0.7)])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_one_release_by_numerical_integration(neighbours, z, q, epsilon):
    if neighbours == "replace":
        truth = reference.hockey_stick(reference.poisson_replace(z, q), epsilon)
    else:
        p, r = reference.poisson_zero_out(z, q)
        truth = max(
            reference.hockey_stick((p, r), epsilon), reference.hockey_stick((r, p), epsilon)
        )
    ours = price_delta(((PoissonGaussian(z, q), 1),), epsilon, neighbours)
    assert truth - 1e-12 <= ours <= 1.01 * truth + 1e-11


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("z, g", [(1.0, 0.1), (0.4, 0.02), (5.0, 0.7)])
def test_one_fixed_size_release_has_its_profile(z, g, epsilon):
    truth = reference.fixed_size_delta(z, g, epsilon)
    ours = price_delta(((FixedSizeGaussian(z, g), 1),), epsilon, "replace")
    assert truth - 1e-12 <= ours <= 1.01 * truth + 1e-11


# z, q, steps: dp-accounting's distributions on a grid of a sixteenth of a step's deviation
LIBRARY = [(42, 0.04, 20_000), (60, 0.2, 4_000), (1, 0.01, 500), (3, 0.5, 100), (0.6, 0.2, 10)]


@pytest.mark.parametrize("z, q, steps", LIBRARY)
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_dp_accounting_agrees(neighbours, z, q, steps):
    from dp_accounting.pld import privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    relation = {
        "replace": NeighboringRelation.REPLACE_ONE,
        "add_remove": NeighboringRelation.REPLACE_SPECIAL,
    }[neighbours]
    one = privacy_loss_distribution.from_gaussian_mechanism(
        z, sampling_prob=q, value_discretization_interval=q / z / 8, neighboring_relation=relation
    )
    theirs = one.self_compose(steps).get_epsilon_for_delta(DELTA)
    ours = price_epsilon(((PoissonGaussian(z, q), steps),), DELTA, neighbours)
    assert ours == pytest.approx(theirs, rel=3e-3)


@pytest.mark.parametrize("mu, delta", [(0.01, 1e-5), (1.0, 1e-5), (2.0, 1e-12), (10.0, 1e-3)])
def test_gaussian_closed_form_by_numerical_integration(mu, delta):
    z = 2 / mu
    epsilon = price_epsilon(((Gaussian(z), 1),), delta, "replace")
    pair = reference.poisson_replace(z, 1.0)
    truth = reference.hockey_stick(pair, epsilon)
    assert truth == pytest.approx(delta, rel=1e-3, abs=1e-13)
    assert price_delta(((Gaussian(z), 1),), epsilon, "replace") == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize("delta", [1e-5, 1e-40, 1e-150])
def test_many_plain_releases_through_the_convolution(delta):
    # Poisson at a rate next to 1 goes through grid and transform; the answer is in closed form.
    z, steps = 50.0, 1000
    exact = price_epsilon(((Gaussian(z), steps),), delta, "replace")
    gridded = price_epsilon(((PoissonGaussian(z, 1 - 1e-12), steps),), delta, "replace")
    assert exact * (1 - 1e-9) <= gridded <= 1.001 * exact


def lower_distribution(event, count, neighbours, h):
    """dp-accounting's distribution of a release's loss, rounded down to multiples of h."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    if isinstance(event, Approximate):
        up = (1 - event.delta) / (1 + math.exp(-event.epsilon))
        low, high = math.floor(-event.epsilon / h), math.floor(event.epsilon / h)
        masses = {high: up, low: 1 - event.delta - up}
        pmf = pld_pmf.create_pmf(masses, h, event.delta, pessimistic_estimate=False)
        one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
    else:
        relations = {
            "replace": NeighboringRelation.REPLACE_ONE,
            "add_remove": NeighboringRelation.REPLACE_SPECIAL,
        }
        one = privacy_loss_distribution.from_gaussian_mechanism(
            event.noise_multiplier,
            pessimistic_estimate=False,
            value_discretization_interval=h,
            sampling_prob=getattr(event, "sampling_rate", 1.0),
            neighboring_relation=relations[neighbours],
            log_mass_truncation_bound=-60,
            use_connect_dots=False,
        )
    return one.self_compose(count) if count > 1 else one


def random_composition(rng):
    """Up to three unlike releases: plain, sampled (rarely, too), pure or with failures."""
    parts = []
    for _ in range(rng.integers(1, 4)):
        kind, z = rng.random(), math.exp(rng.uniform(math.log(0.4), math.log(30)))
        if kind < 0.3:
            parts.append((Gaussian(z), int(math.exp(rng.uniform(0, 4)))))
        elif kind < 0.8:
            rate = math.exp(rng.uniform(math.log(1e-5), 0))
            parts.append((PoissonGaussian(z / 3, rate), int(math.exp(rng.uniform(0, 6)))))
        else:
            pure = Approximate(math.exp(rng.uniform(-4, 1)), rng.choice([0.0, 1e-9, 1e-7]))
            parts.append((pure, int(rng.integers(1, 4))))
    return compose(parts)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(s, marks=SLOW) for s in range(3, 40))])
def test_no_mixture_is_priced_below_losses_rounded_down(seed):
    rng = np.random.default_rng(seed)
    ours = math.inf
    while not 0.01 < ours < 40:  # or a grid of a few thousand points does not fit
        composition, delta = random_composition(rng), 10 ** rng.uniform(-9, -3)
        neighbours = str(rng.choice(["replace", "add_remove"]))
        ours = price_epsilon(composition, delta, neighbours)
    h = max(ours / 3000, 2e-5)
    parts = [lower_distribution(e, n, neighbours, h) for e, n in composition]
    below = functools.reduce(lambda a, b: a.compose(b), parts).get_epsilon_for_delta(delta)
    assert below * (1 - 1e-9) <= ours
