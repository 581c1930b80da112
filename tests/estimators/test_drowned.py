"""Fits that noise makes no better than a constant are warned of, others are not."""

import re
import warnings

import numpy as np
import pytest

import skdpfl
from skdpfl import DPScaffoldClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.choosing._noise_level import cost_of_decay
from skdpfl.estimators import _base
from skdpfl.privacy.public_numbers import noise_factors


def charges(seed):
    """Skewed charges of 936 people in three silos, as the insurance data have them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(18, 64, 936), rng.normal(30, 6, 936), rng.random(936) < 0.2])
    y = 250 * X[:, 0] + 300 * X[:, 1] + 20_000 * X[:, 2] + rng.lognormal(8, 1, 936)
    return X, y, np.arange(936) % 3


def schools(seed):
    """131 silos of 15 to 30 rows of 10 columns."""
    rng = np.random.default_rng(seed)
    silos = np.repeat(np.arange(131), rng.integers(15, 31, 131))
    X = rng.normal(size=(len(silos), 10))
    y = 20 + 5 * X @ rng.normal(size=10) / 3 + 4 * rng.normal(size=len(silos))
    return X, y, silos


def rare_events(seed):
    """870 patients of six centres, 39 columns, an event in one of seven."""
    rng = np.random.default_rng(seed)
    X = (rng.random((870, 39)) < rng.uniform(0.05, 0.5, 39)).astype(float)
    X[:, 0] = rng.normal(size=870)
    raw = (X - X.mean(axis=0)) @ rng.normal(size=39) / 3 + rng.logistic(size=870)
    return X, (raw > np.quantile(raw, 0.865)).astype(int), np.arange(870) % 6


def logistic(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 5))
    y = X @ [1.0, -0.8, 0.5, 0.3, 0.0] + rng.logistic(size=2000) > 0
    return X, y.astype(int), rng.integers(0, 5, 2000)


def told(fit, data, seed, epsilon, **kw):
    """Whether the fit is said to drown, and its score without the constant's."""
    X, y, silos = data(seed)
    model = fit(epsilon, delta=1e-5, random_state=seed, **kw)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y, silos=silos)
    constant = 0.0 if fit is ISRLDPRegressor else np.bincount(y).max() / len(y)
    words = "The noise will drown", "What was found within the budget shows"
    told_of_it = any(str(each.message).startswith(words) for each in said)
    return told_of_it, model.score(X, y) - constant


KNOWN = {"feature_bounds": (-5, 5)}
DROWNED = {
    "charges, no bounds": (ISRLDPRegressor, charges, 0.125, {}),
    "schools, no bounds": (ISRLDPRegressor, schools, 0.5, {}),
    "schools": (ISRLDPRegressor, schools, 0.125, KNOWN | {"target_bounds": (-20, 60)}),
    "rare events": (ISRLDPClassifier, rare_events, 1.0, KNOWN),
    "rare events, no bounds": (ISRLDPClassifier, rare_events, 0.5, {}),
}
BOUNDS = {"feature_bounds": ([0, 10, 0], [100, 60, 1]), "target_bounds": (0, 70_000)}
FINE = {
    "charges": (ISRLDPRegressor, charges, 1.0, BOUNDS),
    "charges, no bounds": (ISRLDPRegressor, charges, 3.0, {}),
    "schools": (ISRLDPRegressor, schools, 3.0, KNOWN | {"target_bounds": (-20, 60)}),
    "logistic": (ISRLDPClassifier, logistic, 1.0, KNOWN),
    "logistic, no bounds": (ISRLDPClassifier, logistic, 3.0, {}),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", DROWNED)
def test_a_fit_that_drowns_is_said(case, seed):
    fit, data, epsilon, kw = DROWNED[case]
    said, gain = told(fit, data, seed, epsilon, **kw)
    assert said
    assert gain < 0.05


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", FINE)
def test_a_good_fit_is_not(case, seed):
    fit, data, epsilon, kw = FINE[case]
    said, gain = told(fit, data, seed, epsilon, **kw)
    assert not said
    assert gain > 0.1


@pytest.mark.parametrize(
    "kw", [{"learning_rate": 0.1}, {"epsilon": None, "noise_multiplier": 50.0}, {"epsilon": np.inf}]
)
def test_what_the_caller_chose_is_not_advised_on(kw):
    kw = {"epsilon": 0.1} | kw
    assert not told(ISRLDPClassifier, rare_events, 0, **kw)[0]
    assert not told(ISRLDPRegressor, schools, 0, **kw | KNOWN)[0]


def test_clip_norms_far_above_the_rows_are_said():
    """Nothing is clipped by them, and the noise grows with them: worse than a coin."""
    X, y, silos = logistic(0)
    model = ISRLDPClassifier(1.0, clip_norm=100.0, random_state=0, **KNOWN)
    with pytest.warns(UserWarning, match=r"drown .* What helps: a clip_norm of 2\.\d .* or less"):
        assert model.fit(X, y, silos=silos).score(X, y) < 0.65
    assert model.set_params(clip_norm=2.0).fit(X, y, silos=silos).score(X, y) > 0.65
    model.set_params(clip_norm=500.0, scaling=None, feature_bounds=None)  # rows may be as long
    model.fit(100 * X, y, silos=silos)


def test_noise_that_decays_steeply_is_said():
    """The first rounds' noise is paid for by the last ones': worse than a coin."""
    X, y, silos = logistic(1)
    model = DPScaffoldClassifier(1.0, n_rounds=100, random_state=1, **KNOWN)
    model.set_params(noise_schedule=("round", 0.98, 0)).fit(X, y, silos=silos)
    assert model.score(X, y) > 0.65
    for beta, words in ((0.87, "costs 76 times the noise"), (0.7, "costs over a hundred times")):
        model.set_params(noise_schedule=("round", beta, 0))
        with pytest.warns(UserWarning, match=rf"drown .* helps: noise that decays less .*{words}"):
            assert model.fit(X, y, silos=silos).score(X, y) < 0.65


@pytest.mark.parametrize("schedule", [("round", 0.9, 2), ("step", 0.97, 0), ("round", 0.7, 10)])
def test_what_decay_costs_is_what_plans_pay_for_it(schedule):
    """The mean of the steps' noise variances, at one budget, with and without decay."""
    steps, rms = (2,) * 15, []
    for each in (None, schedule):
        model = DPScaffoldClassifier(
            1.0, n_rounds=15, local_steps=2, sampling_rate=1.0, noise_schedule=each, scaling=None
        )
        plan = model.plan_for(silo_sizes=[400] * 5, n_features=5)
        noise = plan.noise_multiplier.max() * np.concatenate(noise_factors(each, steps))
        rms.append(float(np.sqrt(np.square(noise).mean())))
    assert cost_of_decay(schedule, steps) == pytest.approx(rms[1] / rms[0], rel=0.02)


def test_the_warning_reads_no_records(monkeypatch):
    """The classifiers' comes before any record is read; the regressors' with the scales."""
    monkeypatch.setattr(_base.FederatedEstimator, "_run", None)
    X, y, silos = rare_events(0)
    with pytest.warns(UserWarning, match="drown what 870 records"), pytest.raises(TypeError):
        ISRLDPClassifier(0.5, scaling=None, random_state=0).fit(X, y, silos=silos)


# ---- what the warning says to do -----------------------------------------------------------------


def advice(epsilon, n=870, d=39, n_silos=6, kind=ISRLDPClassifier, **kw):
    """What a fit of this shape is told before any record is read; "" if nothing."""
    X = np.random.default_rng(0).normal(size=(n, d))
    y = X[:, 0] > 0 if kind is ISRLDPClassifier else X[:, 0]
    with warnings.catch_warnings(record=True) as said, pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(kind, "_run", None)
        with pytest.raises(TypeError):
            kind(epsilon, delta=1e-5, **kw).fit(X, y, silos=np.arange(n) % n_silos)
    return "".join(str(each.message) for each in said if "will drown" in str(each.message))


def number(pattern, text):
    return float(re.search(pattern, text)[1].replace(",", ""))


@pytest.mark.parametrize("kind", [ISRLDPClassifier, ISRLDPRegressor])
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_who_follows_the_advice_is_warned_no_more(kind, epsilon):
    kw = {"kind": kind, "scaling": None}
    said = advice(epsilon, **kw)
    needed = number(r"an epsilon of about ([\d.,]+)", said)
    assert not advice(needed, **kw)
    assert advice(0.9 * needed, **kw)
    records = number(r"about ([\d,]+) records", said)
    assert not advice(epsilon, n=int(records), **kw)
    assert advice(epsilon, n=int(0.9 * records), **kw)


def test_the_advice_names_what_the_fit_can_do():
    said = advice(0.5)
    assert number(r"\(([\d.]+) times less noise\)", said) == pytest.approx(np.sqrt(6), rel=0.05)
    assert "score_federation" in said
    assert "feature_bounds" in said
    assert "target_bounds" not in said
    for kw in ({"feature_bounds": (-5, 5)}, {"scaling": None}):
        said = advice(0.5, **kw)
        assert said
        assert "feature_bounds" not in said
    budgets = dict.fromkeys(range(6), 0.5)
    assert "larger budgets" in advice(budgets)
    for epsilon, kw in [(0.2, {"trust": "server"}), (0.5, {"solver": "local"}), (budgets, {})]:
        said = advice(epsilon, **kw)
        assert said
        assert 'trust="server"' not in said


def test_the_advice_on_a_target_says_the_same():
    X, y, silos = schools(0)
    model = ISRLDPRegressor(0.125, delta=1e-5, random_state=0, **KNOWN, target_bounds=(-20, 60))
    with pytest.warns(UserWarning, match="drown the target.*an epsilon of about.*score_federation"):
        model.fit(X, y, silos=silos)


@pytest.mark.parametrize("n_silos, trust, said", [(42, "silo", True), (300, "server", False)])
@pytest.mark.parametrize("kind", ["DPFedAvg", "DPFedEXP"])
def test_too_few_whole_silos_are_told_of(kind, n_silos, trust, said):
    rng = np.random.default_rng(0)
    X, silos = rng.normal(size=(30 * n_silos, 8)), np.repeat(np.arange(n_silos), 30)
    whole = {"unit": "silo"} if kind == "DPFedAvg" else {}
    model = getattr(skdpfl, f"{kind}Regressor")(
        8.0,
        trust=trust,
        feature_bounds=(-5, 5),
        target_bounds=(-9, 9),
        n_rounds=20,
        random_state=0,
        **whole,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, X.sum(axis=1), silos=silos)
    assert said == any("Hiding a whole silo" in str(each.message) for each in caught)
