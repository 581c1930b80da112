"""The paid level of quantiles: what is released for it is bounded, noised, priced, and worth it."""

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl.federation import SiloData, Work
from skdpfl.losses import Quantile
from skdpfl.models import MLP, LinearModel
from skdpfl.privacy.events import Gaussian
from skdpfl.scaling import Below, ShiftPlan
from tests.made_sums import budgets_of, exact_sums

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
