"""Fits that noise makes no better than a constant are warned of, others are not."""

import warnings

import numpy as np
import pytest

import skdpfl
from skdpfl import DPScaffoldClassifier, ISRLDPClassifier, ISRLDPRegressor


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
    words = "The noise will drown", "Estimates within the budget show"
    told_of_it = any(str(each.message).startswith(words) for each in said)
    return told_of_it, model.score(X, y) - constant


KNOWN = {"feature_bounds": (-5, 5)}
DROWNED = {
    "charges, no bounds": (ISRLDPRegressor, charges, 0.125, {}),
    "schools, no bounds": (ISRLDPRegressor, schools, 0.25, {}),
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


@pytest.mark.parametrize("case", DROWNED)
def test_a_fit_that_drowns_is_said(case):
    """Nothing is gained in the mean; a single fit may be lucky."""
    fit, data, epsilon, kw = DROWNED[case]
    said, gains = zip(*(told(fit, data, seed, epsilon, **kw) for seed in range(2)), strict=True)
    assert all(said)
    assert np.mean(gains) < 0.05


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", FINE)
def test_a_good_fit_is_not(case, seed):
    fit, data, epsilon, kw = FINE[case]
    said, gain = told(fit, data, seed, epsilon, **kw)
    assert not said
    assert gain > 0.1


@pytest.mark.parametrize("kind", ["ISRLDP", "DPFedAvg", "DPScaffold"])
def test_bounds_far_wider_than_the_target_are_said(kind):
    """The fit's noise is a part of the bounds, a hundred times what the target varies by."""
    fit, given = getattr(skdpfl, f"{kind}Regressor"), KNOWN | {"delta": 1e-5}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, silos = rng.normal(size=(600, 4)), np.arange(600) % 8
        y = X @ [1, -1, 0.5, 0.5] + rng.normal(size=600)
        for width in (8, 800):
            model = fit(1.0, target_bounds=(-width, width), random_state=seed, **given)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model.fit(X, y, silos=silos)
            assert ["by far less than" in str(each.message) for each in said] == [True] * (
                width == 800
            )
            assert (model.score(X, y) > 0.4) == (width == 8)


@pytest.mark.parametrize(
    "kw", [{"learning_rate": 0.1}, {"epsilon": None, "noise_multiplier": 50.0}, {"epsilon": np.inf}]
)
def test_what_the_caller_chose_is_not_advised_on(kw):
    kw = {"epsilon": 0.1} | kw
    assert not told(ISRLDPClassifier, rare_events, 0, **kw)[0]
    assert not told(ISRLDPRegressor, schools, 0, **kw | KNOWN)[0]


def test_noise_that_no_number_can_hold_is_refused_in_words():
    X, y, silos = logistic(1)
    model = DPScaffoldClassifier(1.0, n_rounds=20, noise_schedule=("round", 1e-3, 1), **KNOWN)
    with pytest.raises(ValueError, match=r"the part of the budget .* decay too steeply"):
        model.fit(X, y, silos=silos)


# ---- what the warning says to do -----------------------------------------------------------------


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
