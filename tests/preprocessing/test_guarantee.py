"""The noise of messages is what the plan charges for: its size, its law, its independence."""

import numpy as np
import pytest
from scipy.stats import chi2, norm

from skdpfl.privacy.events import Exact, Gaussian
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import NORMALS
from skdpfl.scaling._bounds import read_feature_bounds
from skdpfl.scaling._choice import EVERYTHING, plan_scaling
from skdpfl.scaling._contributions import CountsOn, MomentsIn, RowsIn
from skdpfl.scaling._messages import Look
from skdpfl.scaling._moments import Boxes
from tests.preprocessing import held

D = 300
SIZES = np.array([5, 20, 40])
CODES = np.repeat(np.arange(3), SIZES)
SETTINGS = [
    ("record", "silo", "replace"),
    ("record", "shuffler", "replace"),
    ("record", "server", "replace"),
    ("record", "silo", "add_remove"),
    ("silo", "silo", "replace"),
    ("silo", "server", "add_remove"),
]
BUDGETS = [30.0, [20.0, 50.0, 30.0]]


def plan_of(unit="record", trust="silo", neighbours="replace", mu=30.0, d=D, bounded=True):
    return plan_scaling(
        silo_sizes=SIZES,
        n_features=d,
        mu=mu,
        scaling="private",
        feature_bounds=read_feature_bounds((-1, 1), d) if bounded else None,
        unit=unit,
        trust=trust,
        neighbours=neighbours,
    )


def messages_of(plan, seed=0, X=None):
    X = np.zeros((len(CODES), plan.n_features)) if X is None else X
    return held.messages_of(plan, X, None, CODES, streams_for(seed))


def unit_boxes(d):
    return Boxes(np.zeros(d), np.ones(d))


@pytest.mark.parametrize("mu", BUDGETS, ids=["equal", "unequal"])
@pytest.mark.parametrize("setting", SETTINGS, ids="-".join)
@pytest.mark.parametrize("kind", ["moments", "rows", "counts"])
def test_noise_of_the_mean_is_as_planned(setting, mu, kind):
    """A two-sided chi-square test of the variance, false alarms below 1e-7 each."""
    plan = plan_of(*setting, mu=mu, bounded=kind != "counts")
    if kind == "counts":
        release = plan.counts
        of = CountsOn(release.grid)
    elif kind == "rows":
        release = plan.moments[1]
        of = RowsIn(unit_boxes(D), release.ball)
    else:
        release, of = plan.moments[0], MomentsIn(unit_boxes(D))
    exact = of(np.zeros((1, D)), np.zeros(1, int), 1)[0]
    noise = (messages_of(plan).mean(release, of, 0) - exact) / plan.noise(release)[:, None]
    total, low, high = (noise**2).sum(), *chi2.ppf([5e-8, 1 - 5e-8], noise.size)
    assert low < total < high


@pytest.mark.parametrize("mu", BUDGETS, ids=["equal", "unequal"])
@pytest.mark.parametrize("setting", SETTINGS, ids="-".join)
@pytest.mark.parametrize("bounded", [True, False], ids=["moments", "counts"])
def test_composition_charges_the_noise_that_is_added(setting, mu, bounded):
    """Multiplier of the event = noise on a silo's message over its sensitivity, in the relation."""
    plan = plan_of(*setting, mu=mu, bounded=bounded)
    difference = 2.0 if setting[2] == "replace" else 1.0
    for silo in range(3):
        spent = sum(c * (difference / e.noise_multiplier) ** 2 for e, c in plan.composition(silo))
        assert np.sqrt(spent) == pytest.approx(plan.share * plan.setting.spends[silo])
        for release in plan.releases:
            mechanism = plan.sensitivity(release) / plan.noise_scale(release)[silo]
            assert mechanism <= release.share * plan.setting.spends[silo]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moments", "counts"])
def test_neighbours_are_as_hard_to_tell_apart_as_charged(kind):
    """The best test between the two worst neighbours errs as often as mu-Gaussian DP says.

    The log likelihood ratio of a Gaussian mechanism is normal with mean +-mu^2/2 and variance
    mu^2: checked on 1,500 fits of each data set with false alarms below 1e-7 (5.4 deviations). Half
    the noise, or a sensitivity priced at half, moves the mean by hundreds of deviations.
    """
    plan = plan_of(mu=1.0, d=1, bounded=kind == "moments")
    release = plan.moments[0] if kind == "moments" else plan.counts
    X = np.zeros((len(CODES), 1))
    ends = []
    for value in (-1.0, 1.0):
        X = X.copy()
        X[-1] = value
        of = MomentsIn(unit_boxes(1)) if kind == "moments" else CountsOn(release.grid)
        ends.append((X, of))
    factor = plan.setting.weights[2] / SIZES[2]
    noise = plan.noise_scale(release)[2] * factor
    exact = [
        np.add.reduce([of(X[i == CODES], np.zeros(n, int), 1)[0] * plan.setting.weights[i] / n
                       for i, n in enumerate(SIZES)]) for X, of in ends
    ]  # fmt: skip
    direction = (exact[1] - exact[0]) / noise
    mu = np.linalg.norm(direction)
    assert mu == pytest.approx(release.share * (1 - NORMALS), rel=1e-6)
    statistic = np.empty((2, 1500))
    for which, (X, of) in enumerate(ends):
        for seed in range(1500):
            mean = messages_of(plan, 2 * seed + which, X).mean(release, of, 0)
            statistic[which, seed] = (direction * (mean - exact[0])).sum() / noise
    # all three silos' noises are in the mean; only the third silo's is in the guarantee
    spread = mu * np.sqrt(3)
    error = spread / np.sqrt(1500)
    assert abs(statistic[0].mean()) < norm.isf(5e-8) * error
    assert abs(statistic[1].mean() - mu**2) < norm.isf(5e-8) * error
    low, high = chi2.ppf([5e-8, 1 - 5e-8], 1499) / 1499 * spread**2
    assert low < statistic[0].var(ddof=1) < high


def test_noises_of_silos_and_rounds_are_independent():
    plan = plan_of()
    release = plan.moments[0]
    messages = messages_of(plan)
    noise = [
        messages.streams.units_block("scales", [silo], round, (D, 2), np.float64).ravel()
        for silo in range(3)
        for round in range(2)
    ]
    correlation = np.corrcoef(noise) - np.eye(6)
    assert np.abs(correlation).max() < 6 / np.sqrt(2 * D)  # false alarms below 1e-7
    first = messages.mean(release, MomentsIn(unit_boxes(D)), 1)
    assert not np.isclose(first, messages.mean(release, MomentsIn(unit_boxes(D)), 2)).any()


def test_messages_lie_on_the_grid_of_their_noise():
    """No digit of the exact sum is left in them."""
    plan = plan_of(mu=1.0, d=2)
    release = plan.moments[0]
    scale = plan.noise_scale(release)[0]
    messages = messages_of(plan, X=np.random.default_rng(0).normal(size=(len(CODES), 2)))
    look = Look(plan, release, MomentsIn(unit_boxes(2)), 0)
    ((_, answers),) = messages.federation.ask(look)
    out = answers[0] / (scale * 2.0**-36)
    np.testing.assert_allclose(out, np.rint(out), atol=0.01)


def test_price_of_a_plan_that_spends_everything_is_the_budget():
    for mu in (0.1, 1.0, 4.0):
        plan = plan_scaling(silo_sizes=[50], n_features=4, mu=mu, scaling="private",
                            shares=EVERYTHING)  # fmt: skip
        z = 2 / mu
        whole = price_epsilon(((Gaussian(z), 1),), 1e-5, "replace")
        assert price_epsilon(plan.composition(), 1e-5, "replace") == pytest.approx(whole, rel=1e-9)


def test_infinite_budgets_are_exact_and_say_so():
    plan = plan_of(mu=[np.inf, 3.0, 3.0], d=3)
    assert all(isinstance(event, Exact) for event, _ in plan.composition(0))
    assert all(isinstance(event, Gaussian) for event, _ in plan.composition(1))
    assert plan.noise_scale(plan.moments[0])[0] == 0
    assert plan.setting.weights.sum() == pytest.approx(1)
