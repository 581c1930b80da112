"""Calibration: on the safe side, close to the budget, quick, or an error that says why not."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.privacy import epsilon_of, n_steps_for, noise_multiplier_for
from skdpfl.privacy.calibration import Search, calibrate
from skdpfl.privacy.events import (
    Approximate,
    Exact,
    FixedSizeGaussian,
    Gaussian,
    PoissonGaussian,
)
from skdpfl.privacy.pricing.price import price_epsilon

few = settings(max_examples=20, derandomize=True)


@pytest.mark.slow
@few
@given(
    st.floats(math.log(1e-2), math.log(50)),
    st.floats(math.log(1e-3), 0),
    st.integers(1, 20_000),
    st.sampled_from([1e-4, 1e-6, 1e-11]),
    st.sampled_from(
        [("poisson", "replace"), ("poisson", "add_remove"), ("without_replacement", "replace")]
    ),
)
def test_the_price_of_calibrated_noise_is_just_within_the_budget(log_e, log_q, steps, delta, how):
    sampling, neighbours = how
    epsilon = math.exp(log_e)
    asked = dict(sampling_rate=math.exp(log_q), n_steps=steps, delta=delta)
    asked |= dict(sampling=sampling, neighbours=neighbours)
    z = noise_multiplier_for(epsilon=epsilon, **asked)
    assert 0.99 * epsilon <= epsilon_of(noise_multiplier=z, **asked) <= epsilon
    assert epsilon_of(noise_multiplier=0.99 * z, **asked) > epsilon


def schedule(z):
    """Sixty-four levels, some of them plain, and a failure that noise does not change."""
    steps = [(PoissonGaussian(z * (1 + k / 32), 0.05), 20) for k in range(64)]
    return (*steps, (Gaussian(8 * z), 2), (Approximate(0.0, 1e-7), 1))


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_schedules(epsilon, neighbours):
    z = calibrate(schedule, epsilon, 1e-5, neighbours)
    assert 0.99 * epsilon <= price_epsilon(schedule(z), 1e-5, neighbours) <= epsilon


@pytest.mark.parametrize("fixed", [0.3, 0.9, 0.99])
def test_part_of_the_budget_may_be_spent_already(fixed):
    def build(z):
        return ((Approximate(fixed), 1), (Gaussian(z), 1))

    z = calibrate(build, 1.0, 1e-5, "replace")
    assert 0.99 <= price_epsilon(build(z), 1e-5, "replace") <= 1.0


@pytest.mark.parametrize(
    "spent, said", [(Approximate(1.5), "1.5"), (Approximate(0.1, 1e-4), "inf"), (Exact(), "inf")]
)
def test_a_budget_no_noise_can_meet(spent, said):
    with pytest.raises(ValueError, match=rf"epsilon=1.0 .* any noise.*cost {said} already"):
        calibrate(lambda z: ((spent, 1), (Gaussian(z), 1)), 1.0, 1e-5, "replace")


def test_prices_that_jump_are_met_just_beyond_the_jump():
    """Half the budget at noise from 3 on, twice the budget below."""
    build = lambda z: ((Approximate(2.0 if z < 3 else 0.5), 1),)  # noqa: E731
    for start in (None, 1e-3, 2.9, 40.0):
        assert 3 <= calibrate(build, 1.0, 1e-5, "replace", Search(start)) <= 3 * (1 + 2e-9)
        assert calibrate(build, 1.0, 1e-5, "replace", Search(start, narrow=0.5)) <= 4.5


def test_nothing_is_left_for_noise_where_the_rest_costs_the_budget_itself():
    spent = ((Gaussian(7.0), 3),)
    epsilon = price_epsilon(spent, 1e-5, "replace")
    with pytest.raises(ValueError, match="do not depend on the noise"):
        calibrate(lambda z: (*spent, (Gaussian(z), 1)), epsilon, 1e-5, "replace")


NO_BUDGETS = [(0, 1e-5, "epsilon"), (-1, 1e-5, "epsilon"), (math.nan, 1e-5, "epsilon")]
NO_BUDGETS += [(1, 0, "delta"), (1, 1, "delta"), (1, math.nan, "delta")]


def test_little_noise_where_delta_alone_covers_the_sampled_records():
    # One step at rate 1e-6: a record is told with a probability below delta, whatever the noise.
    z = noise_multiplier_for(epsilon=1.0, sampling_rate=1e-6, n_steps=1, delta=1e-5)
    assert 0 < z <= 0.01


@pytest.mark.parametrize("composition", [(), ((PoissonGaussian(1.0, 0.1), 0),)])
def test_noise_where_nothing_is_released(composition):
    assert calibrate(lambda z: composition, 1.0, 1e-5, "replace") > 0


@pytest.mark.slow
@pytest.mark.parametrize("rate, epsilon", [(1e-4, 1e-3), (1e-9, 1.0), (0.999, 300.0)])
def test_noise_far_from_the_central_limit(rate, epsilon):
    def build(z):
        return ((PoissonGaussian(z, rate), 3),)

    z = calibrate(build, epsilon, 1e-10, "replace")
    assert price_epsilon(build(z), 1e-10, "replace") <= epsilon


def test_steps_are_the_largest_number_that_fits():
    asked = dict(noise_multiplier=3.0, sampling_rate=0.05, delta=1e-6)
    for sampling in ("poisson", "without_replacement", "disjoint"):
        n = n_steps_for(epsilon=4.0, **asked, sampling=sampling)
        assert epsilon_of(n_steps=n, **asked, sampling=sampling) <= 4.0
        assert epsilon_of(n_steps=n + 1, **asked, sampling=sampling) > 4.0
    assert n_steps_for(epsilon=0.01, noise_multiplier=1, sampling_rate=1, delta=1e-6) == 0


# ---- extremes -------------------------------------------------------------------------------

NOISE = [0.3, 1.0, 30.0, 1e4]
RATES = [1e-5, 1e-3, 0.1, 1.0]
STEPS = [1, 1000, 10**6]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PoissonGaussian, FixedSizeGaussian])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("z", NOISE)
def test_extreme_prices_are_numbers_that_grow_with_the_steps(z, rate, kind):
    for neighbours in ("replace", "add_remove") if kind is PoissonGaussian else ("replace",):
        prices = [price_epsilon(((kind(z, rate), n),), 1e-5, neighbours) for n in STEPS]
        assert all(p >= 0 and p < math.inf for p in prices)
        assert prices == sorted(prices)
        # Without sampling a record pays more.
        assert prices[-1] <= price_epsilon(((Gaussian(z), STEPS[-1]),), 1e-5, neighbours)


@pytest.mark.slow
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0])
def test_extreme_budgets_are_met(epsilon, rate, steps):
    asked = dict(sampling_rate=rate, n_steps=steps, delta=1e-6)
    z = noise_multiplier_for(epsilon=epsilon, **asked)
    assert 0 < z < math.inf
    assert 0.99 * epsilon <= epsilon_of(noise_multiplier=z, **asked) <= epsilon


def test_a_delta_beyond_all_numbers_is_refused_by_its_price():
    assert price_epsilon(((PoissonGaussian(2.0, 0.1), 10),), 1e-305, "replace") == math.inf


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 300.0])
def test_randomisers_that_tell_nearly_all_are_calibrated(epsilon):
    """Their losses hardly vary, so that there is no slope to begin with."""

    def build(z):
        return ((Approximate(1 / z), 1),)

    price = price_epsilon(build(calibrate(build, epsilon, 1e-2, "replace")), 1e-2, "replace")
    assert 0.99 * epsilon <= price <= epsilon
