"""The paid level of quantiles: what is released for it is bounded, noised, priced, and worth it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl.federation import SiloData, Work
from skdpfl.losses import Quantile
from skdpfl.models import MLP, LinearModel
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.remote._letters import Facts
from skdpfl.remote._row import validated_question
from skdpfl.scaling import Below, ShiftPlan, Slopes
from tests.made_sums import Sending, budgets_of, exact_sums

BOUNDS = {"feature_bounds": (-5, 5), "target_bounds": (-15, 25)}


def skewed(n, seed=0):
    """Records of a linear model with gamma errors, and their silos."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X @ [2.0, -1.0, 0.5, 0.0] + 2 * rng.gamma(1.0, 1.0, n), rng.integers(0, 4, n)


def plan_of(
    trust="silo", neighbours="replace", mu=(0.3, 0.5, 1.0), sizes=(100, 300, 50), quantile=0.5
):
    return ShiftPlan(budgets_of(sizes, mu, trust=trust, neighbours=neighbours), quantile)


def work_of(quantile=0.2, size=4):
    return Work(LinearModel(size, 1), Quantile(quantile), None, None, np.dtype(float))


# ---- what is released ----------------------------------------------------------------------------


def test_sums_count_the_targets_below():
    X, y, silos = skewed(400)
    params = np.array([2.0, -1.0, 0.5, 0.0, 0.3])
    data = SiloData.from_codes(X, y, silos, 4, weights=np.linspace(0, 3, 400))
    found = exact_sums(Below(params, 0.7), data, work=work_of())
    below = y <= X @ params[:4] + 1.0
    assert found.tolist() == [below[silos == i].sum() - (silos == i).sum() / 2 for i in range(4)]


WILD = [0.0, -3.0, 1e6, 1e300, -1e300, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("value", WILD)
@pytest.mark.parametrize("shift", [0.0, 1e300, np.nan])
def test_one_record_moves_its_silos_sum_by_one_at_most(value, shift):
    """**Formal guarantee**: any other record, target and weight in place of one; exactly so."""
    X, y, silos = skewed(200)
    params = np.random.default_rng(1).normal(size=5)

    def sums(X, y, weights):
        with np.errstate(all="ignore"):
            data = SiloData.from_codes(X, y, silos, 4, weights=weights)
            return exact_sums(Below(params, shift), data, work=work_of())

    ones = np.ones(200)
    before = sums(X, y, ones)
    for target in WILD:
        for weight in (0.0, 1e30, np.inf):
            changed, targets, weights = X.copy(), y.copy(), ones.copy()
            changed[17], targets[17], weights[17] = value, target, weight
            moved = sums(changed, targets, weights) - before
            assert abs(moved[silos[17]]) in (0.0, 1.0)
            assert not np.delete(moved, silos[17]).any()


@pytest.mark.slow
@pytest.mark.parametrize(("trust", "neighbours"), [("silo", "replace"), ("server", "add_remove")])
def test_the_noise_is_what_is_priced(trust, neighbours):
    """Each release's standard deviation, from 8,000 draws: 6 standard errors are 5 %."""
    plan, streams, n = plan_of(trust, neighbours), streams_for(3), 8000
    what, zeros = plan.asks(np.zeros(0), 0.0), Sending(np.zeros(3), streams)
    often = dataclasses.replace(plan.sums, mus=plan.sums.mus[:1] * n)
    drawn = np.array([often.question(i, what).mean(zeros, streams) for i in range(n)])
    std = 0.5 * np.array([plan.sums.composition(i)[0][0].noise_multiplier for i in range(3)])
    if trust == "server":
        expected = std[0] / 450
    else:
        expected = np.sqrt(((plan.budgets.weights / plan.budgets.units * std) ** 2).sum())
    assert drawn.std() == pytest.approx(expected, rel=0.05)
    assert abs(drawn.mean()) < 6 * expected / np.sqrt(n)
    made = plan.sums.noised(0, what).std
    assert (std < made).all() and (made < 1.01 * std).all()
    assert plan.noise == pytest.approx(expected, rel=0.01)


def test_only_questions_of_the_plan_are_answered():
    plan, work, params = plan_of().sums.of_silo(0), work_of(), np.zeros(5)
    facts = Facts(4, None, None, "float64", 100)
    assert validated_question(plan, 5, Below(params, 0.1), facts, work).purpose == "shift"
    for number, asked in (
        (6, Below(params, 0.1)),
        (-1, Below(params, 0.1)),
        (0, Below(np.zeros(4), 0.1)),
        (0, Below(params, np.inf)),
        (0, Slopes(params, 1.0, 9.0)),
        (0, None),
    ):
        with pytest.raises(
            ValueError, match=r"no sum number|needs a model|must be a finite number|clip value"
        ):
            validated_question(plan, number, asked, facts, work)


# ---- what is priced ------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_it_is_in_the_plan_the_price_and_the_budget(trust):
    model = skdpfl.ISRLDPRegressor(1.0, trust=trust, scaling=None, loss=Quantile(0.1))
    plan = model.plan_for(silo_sizes=[500, 400], n_features=5)
    (((event, count),),) = plan.setup
    assert (type(event), count) == (Gaussian, 6)
    for composition in plan.groups().compositions:
        assert dict(composition)[event] == 6
    assert 0.99 <= plan.spent().epsilon <= 1
    off = model.set_params(calibrate=False).plan_for(silo_sizes=[500, 400], n_features=5)
    assert not off.setup
    assert 6 * (2 / event.noise_multiplier) ** 2 == pytest.approx(
        0.04 * len(off.steps) * (2 / off.noise_multiplier[0]) ** 2, rel=0.01
    )


def test_each_silo_pays_its_own_counts():
    sizes, epsilon = pd.Series({"a": 300, "b": 300}), {"a": 0.5, "b": 2.0}
    model = skdpfl.DPScaffoldRegressor(epsilon, scaling=None, loss="quantile")
    plan = model.plan_for(silo_sizes=sizes, n_features=5)
    strict, loose = (setup[0][0].noise_multiplier for setup in plan.setup)
    assert strict > loose
    spent = plan.spent().per_silo
    assert (spent <= pd.Series(epsilon)).all()
    assert (spent >= 0.99 * pd.Series(epsilon)).all()


def test_a_fit_asks_as_often_as_it_pays(monkeypatch):
    X, y, silos = skewed(800)
    asked, original = [], Below.sums

    def sums(self, data, work):
        for here, exact in original(self, data, work):
            asked.append(here.tolist())
            assert (abs(exact) <= 0.5 * data.sizes).all()
            yield here, exact

    monkeypatch.setattr(Below, "sums", sums)
    model = skdpfl.ISRLDPRegressor(2.0, loss=Quantile(0.2), random_state=0, **BOUNDS)
    model.fit(X, y, silos=silos)
    assert asked == 6 * [[0, 1, 2, 3]]
    assert max(count for _, count in model.plan_.setup[0]) == 6


@pytest.mark.parametrize(("kappa", "trained"), [(0.1, 0.5), (0.4, 0.2), (0.9, 0.1), (9.0, 0.1)])
def test_what_is_trained_is_the_quantile_that_clipped_slopes_stand_for(kappa, trained):
    """Unscaled rows of four columns count as standardised: with the intercept, norm sqrt(5)."""
    X, y, silos = skewed(300)
    model = skdpfl.ISRLDPRegressor(
        5.0, clip_norm=kappa * np.sqrt(5), loss=Quantile(0.1), scaling=None
    )
    seen, original = [], ShiftPlan.find

    def find(self, mean, q):
        seen.append((self.quantile, q))
        return original(self, mean, q)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShiftPlan, "find", find)
        model.set_params(n_rounds=2, random_state=0).fit(X, y, silos=silos)
    assert seen == [(0.1, pytest.approx(trained))]


# ---- when there is none --------------------------------------------------------------------------

OFF = [
    {"calibrate": False},
    {"learning_rate": 0.1},
    {"epsilon": None, "noise_multiplier": 20.0},
    {"epsilon": np.inf},
    {"loss": "absolute_error"},
    {"loss": "squared_error"},
    {"fit_intercept": False},
    {"unit": "silo", "epsilon": 50.0},
]


@pytest.mark.filterwarnings("ignore:Hiding a whole silo")
@pytest.mark.parametrize("options", OFF, ids=str)
def test_other_fits_have_none(options):
    X, y, silos = skewed(200)
    options = {"scaling": None, "random_state": 0, "loss": "quantile"} | options
    model = skdpfl.DPFedAvgRegressor(**options).fit(X, y, silos=silos)
    assert model.shift_ == 0
    assert not model.plan_.setup


# ---- and it works --------------------------------------------------------------------------------


def test_counts_that_drown_move_little():
    """With a noise of one half on each share, what remains is the prior: t of scale 0.25."""
    plan = plan_of(mu=[0.05] * 3)
    assert plan.noise > 0.5
    noises = plan.noise * np.random.default_rng(0).normal(size=(30, 6))
    found = [plan.find(lambda _, number, own=own: own[number], 0.5) for own in noises]
    assert np.std([level.shift for level in found]) < 0.25
    assert np.mean([level.error for level in found]) == pytest.approx(0.35, abs=0.1)


@pytest.mark.parametrize("model", ["linear", MLP((4,), "tanh")], ids=str)
def test_predictions_are_shifted(model):
    """By the same number everywhere, in the units of the target."""
    X, y, silos = skewed(600)
    fit = skdpfl.ISRLDPRegressor(3.0, model=model, loss=Quantile(0.9), random_state=0, **BOUNDS)
    fit.fit(X, y, silos=silos)
    assert 0 < abs(fit.shift_) < 10
    intercept = fit.intercept_ if model == "linear" else fit.intercepts_[-1][0]
    moved = fit.predict(X)
    if model == "linear":
        fit.intercept_ = intercept - fit.shift_
    else:
        fit.intercepts_[-1][0] = intercept - fit.shift_
    np.testing.assert_allclose(moved - fit.predict(X), fit.shift_, rtol=1e-6)
