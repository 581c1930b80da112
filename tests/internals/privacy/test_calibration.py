"""Calibration: on the safe side, close to the budget, quick, or an error that says why not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.privacy import epsilon_of, noise_multiplier_for
from skdpfl.privacy.calibration import Search, calibrate
from skdpfl.privacy.events import Approximate, Exact, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.public_numbers import MAX_LEVELS, noise_factors

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


# ---- extremes -------------------------------------------------------------------------------


def test_a_delta_beyond_all_numbers_is_refused_by_its_price():
    assert price_epsilon(((PoissonGaussian(2.0, 0.1), 10),), 1e-305, "replace") == math.inf


# ---- noise that decays: factors beside the formula, and their rounding to few levels -------------


def test_decay_by_rounds():
    factors = noise_factors(("round", 0.25, 1), (2, 1, 3))
    expected = [[1.0, 1.0], [0.5], [0.25] * 3]
    assert [f.tolist() for f in factors] == [pytest.approx(e) for e in expected]


def test_decay_by_steps_starts_after_round_start_and_goes_on_over_rounds():
    factors = noise_factors(("step", 0.25, 1), (2, 2, 3, 1))
    expected = [[1.0, 1.0], [1.0, 0.5], [0.25, 0.125, 1 / 16], [1 / 32]]
    assert [f.tolist() for f in factors] == [pytest.approx(e) for e in expected]


@pytest.mark.parametrize("schedule", [("round", 0.9, 1), ("step", 0.9, 0)])
def test_few_levels_below_the_schedule(schedule):
    exact = 0.9 ** (0.5 * np.arange(200))
    rounded = np.concatenate(noise_factors(schedule, (1,) * 200))
    spacing = exact[-1] ** (1 / (MAX_LEVELS - 1))
    assert len(np.unique(rounded)) == MAX_LEVELS == 64
    assert (rounded <= exact * (1 + 1e-9)).all()
    assert (rounded > exact * spacing * (1 - 1e-9)).all()
    assert rounded[0] == 1.0
    assert rounded[-1] == pytest.approx(exact[-1])
