"""What releases cost: golden numbers, relations between prices, refusals."""

import itertools
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdpfl.privacy import epsilon_of, n_steps_for, noise_multiplier_for
from skdpfl.privacy.events import (
    Approximate,
    Event,
    Exact,
    FixedSizeGaussian,
    Gaussian,
    PoissonGaussian,
    Profile,
    compose,
)
from skdpfl.privacy.pricing.price import price_delta, price_epsilon

few = settings(max_examples=12, derandomize=True)

# z, rate, steps, sampling, neighbours, epsilon at delta = 1e-5 to four digits. How each is known
# otherwise: test_accounting_independent.
GOLDEN = [
    (1, 1.0, 1, "poisson", "replace", 9.997),
    (1, 1.0, 1, "poisson", "add_remove", 4.377),
    (60, 0.2, 4_000, "poisson", "replace", 1.649),
    (60, 0.2, 20_000, "poisson", "replace", 4.089),
    (1, 0.01, 1_000, "poisson", "replace", 2.843),
    (4, 0.1, 200, "without_replacement", "replace", 3.721),
    (4, 0.5, 200, "without_replacement", "replace", 23.51),
    (1, 0.01, 1_000, "without_replacement", "replace", 14.82),
    (60, 0.2, 4_000, "without_replacement", "replace", 1.668),
]


@pytest.mark.parametrize("z, rate, steps, sampling, neighbours, epsilon", GOLDEN)
def test_golden_values(z, rate, steps, sampling, neighbours, epsilon):
    kwargs = dict(sampling_rate=rate, delta=1e-5, sampling=sampling, neighbours=neighbours)
    priced = epsilon_of(noise_multiplier=z, n_steps=steps, **kwargs)
    # the digits that are printed, and an upper bound's margin: 0.01 % with many steps
    assert priced == pytest.approx(epsilon, abs=(6e-4 if epsilon < 10 else 6e-3) + 1e-4 * epsilon)
    needed = noise_multiplier_for(epsilon=priced, n_steps=steps, **kwargs)
    assert needed == pytest.approx(z, rel=2e-3)
    # The steps that fit are the steps that were priced; a budget a hair smaller has one less.
    assert n_steps_for(epsilon=priced, noise_multiplier=z, **kwargs) == steps
    assert n_steps_for(epsilon=priced * (1 - 1e-6), noise_multiplier=z, **kwargs) < steps


# ---- relations ------------------------------------------------------------------------------

settings_drawn = st.tuples(
    st.floats(0.6, 50),
    st.floats(1e-3, 1),
    st.integers(1, 3000),
    st.sampled_from([1e-4, 1e-6, 1e-12]),
    st.sampled_from(["poisson", "without_replacement"]),
)


def price(z, rate, steps, delta, sampling="poisson"):
    return epsilon_of(
        noise_multiplier=z, sampling_rate=rate, n_steps=steps, delta=delta, sampling=sampling
    )


@few
@given(settings_drawn)
def test_epsilon_falls_in_noise_and_delta_and_grows_in_steps_and_rate(drawn):
    z, rate, steps, delta, sampling = drawn
    here = price(z, rate, steps, delta, sampling)
    assert here >= 0
    slack = 1 + 1e-4
    assert price(1.05 * z, rate, steps, delta, sampling) <= here * slack
    assert price(z, rate, steps, 2 * delta, sampling) <= here * slack
    assert price(z, rate, steps + 1 + steps // 10, delta, sampling) >= here / slack
    assert price(z, min(1.0, 1.05 * rate), steps, delta, sampling) >= here / slack


@few
@given(settings_drawn)
@example((0.625, 0.5, 1562, 1e-6, "without_replacement"))
def test_epsilon_and_delta_are_inverse(drawn):
    z, rate, steps, delta, sampling = drawn
    event = PoissonGaussian(z, rate) if sampling == "poisson" else FixedSizeGaussian(z, rate)
    epsilon = price_epsilon(((event, steps),), delta, "replace")
    if epsilon > 0:  # to 1 % of delta or, where that is less, to .1 % of epsilon (thousands)
        assert price_delta(((event, steps),), epsilon, "replace") <= 1.01 * delta
        assert price_delta(((event, steps),), 0.999 * epsilon, "replace") >= 0.99 * delta


@few
@given(
    st.floats(0.6, 50), st.integers(1, 3000), st.sampled_from([PoissonGaussian, FixedSizeGaussian])
)
def test_sampling_everything_is_plain(z, steps, kind):
    plain = price_epsilon(((Gaussian(z), steps),), 1e-6, "replace")
    assert price_epsilon(((kind(z, 1.0), steps),), 1e-6, "replace") == plain
    # and approached from below
    nearly = price_epsilon(((kind(z, 1 - 1e-9), steps),), 1e-6, "replace")
    assert nearly == pytest.approx(plain, rel=2e-3)


# ---- single events --------------------------------------------------------------------------


def test_what_costs_nothing_and_what_costs_all():
    free = (
        (PoissonGaussian(1.0, 0.0), 9),
        (Gaussian(math.inf), 3),
        (FixedSizeGaussian(1.0, 0.0), 1),
    )
    for composition in ((), free):
        assert price_epsilon(composition, 1e-5, "replace") == 0
        assert price_delta(composition, 0.0, "replace") == 0
    for telling in (Exact(), Gaussian(0.0), PoissonGaussian(0.0, 0.1), Approximate(math.inf)):
        composition = ((PoissonGaussian(1.0, 0.1), 5), (telling, 1))
        assert price_epsilon(composition, 1e-5, "replace") == math.inf
        assert price_delta(composition, 3.0, "replace") == 1


def test_a_profile_is_priced_like_the_release_it_belongs_to():
    release = ((Gaussian(3.0), 1),)
    epsilons = tuple(np.linspace(0, 6, 400).tolist())
    deltas = tuple(price_delta(release, e, "replace") for e in epsilons)
    told = ((Profile(epsilons, deltas), 1),)
    for n in (1, 10):
        by_profile = price_epsilon(tuple((e, n) for e, _ in told), 1e-5, "replace")
        exact = price_epsilon(((Gaussian(3.0), n),), 1e-5, "replace")
        assert exact * (1 - 1e-9) <= by_profile <= exact * 1.01
    # A profile of one point is that (epsilon, delta) promise.
    one = price_epsilon(((Profile((0.5,), (1e-7,)), 10),), 1e-5, "replace")
    assert one == pytest.approx(price_epsilon(((Approximate(0.5, 1e-7), 10),), 1e-5, "replace"))


def test_unknown_events_are_refused():
    class Invented(Gaussian):
        """A subclass may mean anything."""

    for event in (Event(), Invented(1.0)):
        with pytest.raises(TypeError, match="refused"):
            price_epsilon(((event, 1),), 1e-5, "replace")


# ---- input ----------------------------------------------------------------------------------

GOOD = dict(noise_multiplier=4.0, sampling_rate=0.1, n_steps=10, delta=1e-5)
BAD = {
    "n_steps": (0, 1.5, True, None, 10**9 + 1),
    "delta": (0, 1, math.nan, "auto"),
    "sampling_rate": (0, 1.01, math.nan, [1.0]),
    "noise_multiplier": (-1, math.nan, 1j, True),
    "sampling": ("shuffled",),
    "neighbours": ("swap",),
    "epsilon": (0, math.nan, "1", {"a": 1.0}),
}


@pytest.mark.every
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    functions = {
        epsilon_of: GOOD,
        noise_multiplier_for: GOOD | {"epsilon": 1.0},
        n_steps_for: GOOD | {"epsilon": 1.0},
    }
    del functions[noise_multiplier_for]["noise_multiplier"], functions[n_steps_for]["n_steps"]
    asked = [f for f in functions if name in functions[f] or name in ("sampling", "neighbours")]
    assert asked
    for function, value in itertools.product(asked, BAD[name]):
        with pytest.raises(ValueError, match=rf"{name}(=| must be .*got ){re.escape(repr(value))}"):
            function(**functions[function] | {name: value})


def test_fixed_size_batches_are_refused_under_add_remove():
    with pytest.raises(ValueError, match="neighbours='add_remove'"):
        epsilon_of(**GOOD, sampling="without_replacement", neighbours="add_remove")


@pytest.mark.parametrize(
    "event, name",
    [
        (Gaussian(-1.0), "noise_multiplier"),
        (PoissonGaussian(1.0, 1.5), "sampling_rate"),
        (FixedSizeGaussian(math.nan, 0.5), "noise_multiplier"),
        (Approximate(-0.1), "epsilon"),
        (Approximate(0.1, 2.0), "delta"),
        (Profile((1.0, 1.0), (0.1, 0.0)), "epsilons"),
        (Profile((1.0,), (-0.1,)), "deltas"),
    ],
)
def test_events_with_impossible_numbers_are_refused(event, name):
    with pytest.raises(ValueError, match=name):
        price_epsilon(((event, 1),), 1e-5, "replace")


@pytest.mark.every
@pytest.mark.parametrize(
    ("rate", "n_steps", "passes"),
    [(0.1, 10, 1), (0.1, 11, 2), (0.4, 10, 5), (0.3, 10, 4), (0.6, 3, 3)],
)
def test_disjoint_batches_cost_as_many_releases_as_one_record_may_be_in(rate, n_steps, passes):
    """Two batches of 40 % in turn: each record of theirs is in five of ten."""
    alone = epsilon_of(noise_multiplier=4, sampling_rate=1, n_steps=passes, delta=1e-5)
    setting = {"noise_multiplier": 4, "sampling_rate": rate, "n_steps": n_steps, "delta": 1e-5}
    assert epsilon_of(**setting, sampling="disjoint") == alone


@pytest.mark.parametrize("count", [1.5, -1, math.nan])
def test_releases_are_counted_in_whole_numbers(count):
    for event in (Gaussian(1.0), PoissonGaussian(1.0, 0.5)):
        with pytest.raises(ValueError, match="times"):
            price_epsilon(((Gaussian(2.0), 3), (event, count)), 1e-5, "replace")
        with pytest.raises(ValueError, match="times"):
            compose([(event, count)])


@pytest.mark.parametrize(("n_steps", "over"), [(10**7, 3e-3), (10**8, 0.03), (10**9, 0.25)])
def test_many_millions_of_steps_cost_too_much_rather_than_too_little(n_steps, over):
    """A rate next to 1, which is priced as a sampling, against the closed form at 1."""
    setting = {"noise_multiplier": 4 * math.sqrt(n_steps), "n_steps": n_steps, "delta": 1e-5}
    exact = epsilon_of(sampling_rate=1, **setting)
    assert exact <= epsilon_of(sampling_rate=1 - 2**-53, **setting) <= (1 + over) * exact


def test_without_a_budget_there_is_no_noise():
    calibrated = noise_multiplier_for(epsilon=math.inf, sampling_rate=0.1, n_steps=10, delta=1e-5)
    assert calibrated == 0
    assert epsilon_of(**GOOD | {"noise_multiplier": 0}) == math.inf


@pytest.mark.slow
def test_more_steps_than_anyone_takes_is_an_error():
    with pytest.raises(ValueError, match="noise_multiplier=10000"):
        n_steps_for(epsilon=100, noise_multiplier=10000.0, sampling_rate=1e-4, delta=1e-5)


# ---- limits ---------------------------------------------------------------------------------

#: releases at the very delta that they may fail with, and what is left: pure privacy
AT_THEIR_OWN_DELTA = [
    ((Approximate(1.0, 1e-5), 1), 1e-5, 1.0),
    ((Approximate(0.0, 1e-5), 1), 1e-5, 0.0),
    ((Profile((0.0,), (0.1,)), 1), 0.1, 0.0),
    ((Profile((0.0, 1.0), (0.1, 0.01)), 1), 0.01, 1.0),
    ((Approximate(1.0, 1e-6), 10), -math.expm1(10 * math.log1p(-1e-6)), 10.0),
]


@pytest.mark.parametrize(("release", "delta", "epsilon"), AT_THEIR_OWN_DELTA)
def test_a_release_at_its_own_delta_costs_its_own_epsilon(release, delta, epsilon):
    assert price_epsilon((release,), delta, "replace") == epsilon
    assert price_epsilon((release,), 0.999 * delta, "replace") == math.inf
    assert price_epsilon((release,), 1.01 * delta, "replace") <= epsilon
    assert price_delta((release,), epsilon, "replace") == delta


@pytest.mark.slow
def test_pricing_imports_no_other_accountant():
    code = (
        "import sys, skdpfl.privacy as p\n"
        "p.epsilon_of(noise_multiplier=60, sampling_rate=0.2, n_steps=4000, delta=1e-5)\n"
        "assert not {'dp_accounting', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
