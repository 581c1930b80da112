"""More of tests/privacy/test_random_plans.py: what only private names show."""

import math

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.inspection.audits.judging import Rates, epsilon_from_rates
from skdpfl.privacy import plan as noise
from skdpfl.privacy.calibration import (
    check_budget,
    check_budget_parameters,
    delta_of,
    epsilon_of,
    n_steps_for,
    noise_multiplier_for,
)
from skdpfl.privacy.events import Approximate, FixedSizeGaussian, Gaussian, compose
from skdpfl.privacy.mechanisms.binomial import BinomialSum, binomial_sum
from skdpfl.privacy.mechanisms.privunit import ScalarDP, privunit
from skdpfl.privacy.mechanisms.whole_silos import LearntClip
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from skdpfl.privacy.public_numbers import check_schedule
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import grid_for
from skdpfl.privacy.shuffling import shuffled_profile
from skdpfl.privacy.spending.filters import renyi_budget
from skdpfl.privacy.spending.spent import group_size

UP, DOWN = 1 + 1e-9, 1 - 1e-9


TINY = 5e-324


def bits(**changed):
    known = {"dimension": 2, "clip_norm": 1.0, "n_contributors": 3, "levels": 9, "noise_bits": 99}
    return BinomialSum(**(known | changed))


def priced(**changed):
    known = {"noise_multiplier": 2.0, "sampling_rate": 0.5, "n_steps": 3, "delta": 1e-5}
    return epsilon_of(**(known | changed))


def shuffled(**changed):
    known = {"noise_multiplier": 4.0, "n_reports": 1, "sampling_rate": 0.5, "slack": 1e-6}
    return shuffled_profile(**(known | changed))


def cost(event, delta=0.1):
    return price_epsilon(((event, 1),), delta, "replace")


def loss(epsilon):
    return price_delta(((Gaussian(3.0), 1),), epsilon, "replace")


#: what is called, numbers that are taken, numbers that are not
LIMITS = {
    "epsilon of a direction": (lambda e: privunit(e, 3), [1e-6, 20.0], [0.0, 20 * UP]),
    "dimension of a direction": (lambda d: privunit(1.0, d), [1, 2, 10**7], [0, 10**7 + 1]),
    "epsilon of a norm": (lambda e: ScalarDP(e, 1.0), [1e-6, 20.0], [0.0, 20 * UP]),
    "bound of a norm": (lambda c: ScalarDP(1.0, c), [1e-300, 1e300], [0.0, math.inf]),
    "levels of a norm": (lambda k: ScalarDP(1.0, 1.0, k), [0, 1, 2], [-1]),
    "quantile": (lambda q: LearntClip(1.0, q), [1e-9, DOWN], [0.0, 1.0]),
    "noise of bits": (
        lambda z: binomial_sum(z, dimension=2, clip_norm=1.0, n_contributors=9),
        [0.12, 10.0],
        [0.12 * DOWN, math.inf],
    ),
    "bits' dimension": (lambda d: bits(dimension=d), [1], [0]),
    "bits' clip norm": (lambda c: bits(clip_norm=c), [1e-300, 1e300], [0.0, math.inf]),
    "bits' probability": (lambda p: bits(probability=p), [1e-9, DOWN], [0.0, 1.0]),
    "shuffled noise": (lambda z: shuffled(noise_multiplier=z), [0.5, math.inf], [0.0, -1.0]),
    "shuffled rate": (lambda q: shuffled(sampling_rate=q), [1e-6, 1.0], [0.0, UP]),
    "shuffled slack": (lambda s: shuffled(slack=s), [1e-9, DOWN], [0.0, 1.0]),
    "delta": (lambda d: check_budget(1.0, d), [TINY, DOWN], [0.0, 1.0, True, "1"]),
    "epsilon": (lambda e: check_budget(e, 0.5), [TINY, math.inf], [0.0, -1.0, True, math.nan]),
    "delta or auto": (lambda d: check_budget_parameters(1.0, d), [DOWN, "auto"], [0.0, 1.0, "all"]),
    "epsilon or inf": (lambda e: check_budget_parameters(e, "auto"), [1e-9, math.inf], [0.0, -1.0]),
    "price at delta": (lambda d: cost(Gaussian(3.0), d), [0.0, DOWN], [-TINY, 1.0]),
    "price at epsilon": (loss, [0.0, math.inf], [-TINY, math.nan]),
    "rate": (lambda q: priced(sampling_rate=q), [1e-9, 1.0], [0.0, UP, True]),
    "steps": (lambda n: priced(n_steps=n), [1, 10**9], [0, 10**9 + 1, True, 1.5]),
    "noise": (lambda z: priced(noise_multiplier=z), [0.0, math.inf], [-TINY, True, math.nan]),
    "an event's rate": (lambda q: cost(FixedSizeGaussian(3.0, q)), [0, TINY, DOWN, 1], [-TINY, UP]),
    "a known delta": (lambda d: cost(Approximate(1.0, d)), [0.0, DOWN, 1.0], [-TINY, UP]),
    "a known epsilon": (lambda e: cost(Approximate(e, 0.0)), [0.0, 600.0], [-TINY]),
    "times": (lambda n: compose([(Gaussian(1.0), n)]), [0, 1], [-1]),
    "group": (group_size, [1, 2.0], [0, 1.5, True]),
    "beta": (lambda b: check_schedule(("round", b, 0)), [1e-9, 1.0], [0.0, UP]),
    "start": (lambda s: check_schedule(("step", 0.5, s)), [0, 7.0], [-1, 0.5]),
    "parts": (check_schedule, [("step", 0.5, 1)], [("step", 0.5), "step", ("epoch", 0.5, 1)]),
    "silo": (lambda s: streams_for(0).uniform_block("x", [s], 0, 1), [0, 2**32 - 1], [-1, 2**32]),
    "round": (lambda r: streams_for(0).uniform_block("x", [0], r, 1), [0, 2**32 - 1], [-1, 2**32]),
    "seed": (streams_for, [0, np.int64(3), None], [-1, 0.0, "0"]),
}


CASES = [(name, i) for name, case in LIMITS.items() for i in (1, 2)]


@pytest.mark.parametrize(("name", "side"), CASES)
def test_limits(name, side):
    call, *sides = LIMITS[name]
    for number in sides[side - 1]:
        if side == 1:
            call(number)
        else:
            with pytest.raises(ValueError, match=r"\S"):
                call(number)


def test_a_million_million_steps_are_too_many_and_budgets_without_bounds():
    with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, inf\)"):
        n_steps_for(epsilon=math.inf, noise_multiplier=1.0, sampling_rate=0.5, delta=1e-5)
    assert noise_multiplier_for(epsilon=math.inf, sampling_rate=0.5, n_steps=2, delta=1e-5) == 0.0


def test_rates_at_delta_itself_show_nothing():
    assert epsilon_from_rates(Rates(0.1, 0.3), 0.3) == 0.0
    assert epsilon_from_rates(Rates(0.1, 0.3), 0.2) == 0.0


def test_delta_is_the_given_one_or_that_of_the_number():
    assert delta_of(0.2, 99) == 0.2
    assert [delta_of("auto", n) for n in (1, 99, 100, 101)] == [0.1, 1e-3, 1e-3, 1e-4]


@pytest.mark.parametrize(("scale", "bound"), [(0.0, 1.0), (math.inf, 1.0), (1.0, -TINY)])
def test_grids_of_numbers_that_are_no_scale_or_bound_are_refused_as_such(scale, bound):
    with pytest.raises(ValueError, match=r"must be (positive and )?finite") as caught:
        grid_for(scale, bound)
    assert type(caught.value) is ValueError
    assert grid_for(1.0, 0.0) == 2.0**-36


def test_no_delta_leaves_no_renyi_budget():
    assert renyi_budget(3.0, 0.0, 2.0) == -math.inf


def test_noise_that_some_group_could_not_afford_is_raised(monkeypatch):
    """If a price were not monotone, the silos that were not looked at would still be priced."""
    plan = ISRLDPClassifier(
        1.0,
        n_rounds=6,
        silo_fraction=0.5,
        cohort="uniform",
        random_state=0,
        scaling=None,
        calibrate=False,
    ).plan_for(silo_sizes=[100] * 5, n_features=4)
    (least, *_), counts = plan.noise_multiplier, plan.levels[1].sum(axis=1)
    assert counts.min() < counts.max()

    def odd(composition, delta, neighbours):
        released = sum(n for _, n in composition)
        return price_epsilon(composition, delta, neighbours) * (2 if released < counts.max() else 1)

    monkeypatch.setattr(noise, "price_epsilon", odd)
    raised = plan.calibrated(1.0)
    assert raised.noise_multiplier[0] > 1.01 * least
    for composition in raised.groups().compositions:
        assert odd(composition, plan.delta[0], plan.neighbours) <= 1.0
