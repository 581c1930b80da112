"""model="additive": curves within the budget, what they sum to, and where there are none."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import skdpfl
from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.models import Additive
from tests.estimators.fits import ESTIMATORS, REGRESSORS, make

N = 1500
BOUNDS = {"a": (-1, 1), "b": (-2, 2), "zero": (5, 5)}


def table(n=N, seed=0):
    """Two columns, of which one bends, an indicator, and one to be ignored."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.normal(size=n).clip(-2, 2)})
    X["flag"], X["zero"] = rng.random(n) < 0.3, 1.0
    y = 2 * np.abs(X.a) - X.b / 2 + X.flag * (0.5 + X.a) + rng.normal(size=n) / 5
    return X, y.to_numpy(), np.arange(n) % 3


def problem(name, n=N, n_classes=2):
    X, y, silos = table(n)
    if name not in REGRESSORS:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    return X, y, silos


def options(name, **more):
    target = {"target_bounds": (-4, 6)} if name in REGRESSORS else {}
    return {"epsilon": 8.0, "feature_bounds": BOUNDS, "random_state": 0} | target | more


def columns(frame, word):
    return frame[[c for c in frame if c.split(" of ")[0] == word]].to_numpy()


def total(model, X):
    """intercept_, all curves and all products, (n, k), as the pages say that they add up."""
    sums = np.zeros((len(X), np.atleast_2d(model.coef_).shape[0])) + model.intercept_
    for name, frame in model.shape_functions_.items():
        x = np.clip(X[name].to_numpy(float), frame["from"].min(), frame["to"].max())
        at = frame.iloc[np.searchsorted(frame["from"], x, side="right") - 1]
        middle = (at["from"] / 2 + at["to"] / 2).to_numpy()
        sums += columns(at, "value") + columns(at, "slope") * (x - middle)[:, None]

    coding = model.interactions_.attrs["coded"]

    def coded(name):
        center, scale = coding[name]
        return np.clip((X[name].to_numpy(float) - center) / scale, -coding["most"], coding["most"])

    for (a, b), row in model.interactions_.iterrows():
        row = row.to_frame().T
        sums += (coded(a) * coded(b))[:, None] * columns(row, "coefficient").astype(float)
    return sums


def raw(model, X):
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X)).reshape(len(X), -1)
    found = model.predict(X)[:, None]
    return np.log(found) if model.loss == "poisson" else found


FITS = {
    "labels": ("ISRLDPClassifier", {}),
    "numbers": ("ISRLDPRegressor", {}),
    "no intercept": ("ISRLDPRegressor", {"fit_intercept": False}),
    "at the server": ("ISRLDPClassifier", {"trust": "server"}),
    "shared noise": ("ISRLDPClassifier", {"trust": "secagg"}),
    "clipped": ("ISRLDPRegressor", {"clip_features": True}),
    "unscaled": (
        "ISRLDPClassifier",
        {"scaling": None, "feature_bounds": BOUNDS | {"zero": (0, 9)}},
    ),
    "quantile": ("ISRLDPRegressor", {"loss": "quantile", "quantile": 0.8}),
    "knots that are given": ("ISRLDPClassifier", {"model": Additive(5, [("a", "b")])}),
    "no privacy": ("ISRLDPRegressor", {"epsilon": np.inf}),
}


@pytest.mark.parametrize("name", FITS)
def test_curves_sum_to_the_decision_function(name):
    kind, more = FITS[name]
    X, y, silos = problem(kind)
    model = make(kind, **options(kind, model="additive") | more).fit(X, y, silos=silos)
    assert len(model.shape_functions_["a"]) > 4
    beyond = X.assign(a=X.a * 3)  # a curve stays at its ends
    for rows in (X, beyond):
        np.testing.assert_allclose(total(model, rows), raw(model, rows), atol=1e-9)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_it_fits_with_every_estimator(name, trust):
    X, y, silos = problem(name)
    more = {"noise_multiplier": 0.02, "epsilon": None} if "EXP" in name else {"epsilon": 40.0}
    more |= {"algorithm": skdpfl.algorithms.MinibatchSGD(0.5), "n_rounds": 3}
    model = make(name, **options(name, model=Additive(4), trust=trust) | more)
    if name.startswith("DPScaffold") and trust == "server":
        pytest.skip("control variates are not for a trusted server")
    silos = np.arange(N) % 40 if model.unit == "silo" else silos
    model.fit(X, y, silos=silos)
    np.testing.assert_allclose(total(model, X), raw(model, X), atol=1e-8)
    spent = model.privacy_spent_
    assert model.epsilon is None or spent.epsilon <= model.epsilon


@pytest.mark.slow
def test_curves_find_what_bends():
    X, y, silos = table(6000)
    given = options("ISRLDPRegressor", epsilon=3.0)
    linear = ISRLDPRegressor(**given, model="linear").fit(X, y, silos=silos)
    for word in ("additive", "auto", Additive()):
        model = clone(linear).set_params(model=word).fit(X, y, silos=silos)
        assert model.score(X, y) > linear.score(X, y) + 0.25
        assert model.privacy_spent_.epsilon <= 3.0
        frame = model.shape_functions_["a"]
        ends, middle = frame["value"].iloc[[0, -1]].min(), frame["value"].min()
        assert ends > middle + 0.6  # .69 to .79 over seeds
        assert frame["noise error"].between(0.01, 0.1).all()  # true: .014 to .036 away from jumps


@pytest.mark.parametrize(("alike", "limit"), [(0.95, 0.003), (1.0, 0.001)])
def test_curves_converge_where_columns_are_nearly_alike(alike, limit):
    """Log loss above the fit without noise; .011 with steps that any rows of this norm allow."""
    rng, n = np.random.default_rng(0), 40_000
    own = np.sqrt(1 - alike) * rng.normal(size=(n, 8))
    X = np.sqrt(alike) * rng.normal(size=(n, 1)) + own
    raw = X @ np.tile([1, -1], 4) if alike < 1 else X.sum(axis=1)
    y = rng.random(n) < expit(2 * raw / raw.std())
    train, test = slice(n // 2), slice(n // 2, n)
    exact = LogisticRegression(C=1e6).fit(X[train], y[train])
    given = {"feature_bounds": (-5, 5), "trust": "secagg", "random_state": 0}
    model = ISRLDPClassifier(8.0, **given).fit(X[train], y[train], silos=np.arange(n // 2) % 4)
    assert model.coef_.shape[1] > 8
    found = [log_loss(y[test], each.predict_proba(X[test])) for each in (model, exact)]
    assert found[0] - found[1] < limit


def test_below_its_thresholds_it_is_the_linear_model_bit_for_bit():
    X, y, silos = problem("ISRLDPClassifier", 300)
    linear = make("ISRLDPClassifier", **options("", epsilon=0.5)).fit(X, y, silos=silos)
    for word in ("additive", "auto"):
        model = clone(linear).set_params(model=word).fit(X, y, silos=silos)
        assert np.array_equal(model.coef_, linear.coef_)
        assert np.array_equal(model.intercept_, linear.intercept_)
        assert repr(model.privacy_spent_) == repr(linear.privacy_spent_)
        assert model.plan_.setup == linear.plan_.setup
        assert [len(frame) for frame in model.shape_functions_.values()] == [1] * 4
        np.testing.assert_allclose(total(model, X), raw(model, X), atol=1e-9)


def test_the_histogram_is_a_tenth_of_the_budget_and_priced_with_the_rest():
    given = options("", epsilon=2.0, delta=1e-5, feature_bounds=(-1, 1), scaling=None)
    linear = ISRLDPClassifier(**given, calibrate=False, n_rounds=100)
    sizes = {"silo_sizes": [3000, 3000], "n_features": 3}
    plain = linear.plan_for(**sizes)
    curved = clone(linear).set_params(model=Additive(interactions=False)).plan_for(**sizes)
    ((event, times),) = curved.setup[0]
    mu = 2 / event.noise_multiplier  # a record is replaced
    whole = mu / np.sqrt(0.1)
    assert times == 1
    assert not plain.setup
    assert curved.spent().epsilon <= 2.0
    assert curved.spent().epsilon == pytest.approx(2.0, rel=0.01)
    ratio = curved.noise_multiplier / plain.noise_multiplier
    assert ratio == pytest.approx(1 / np.sqrt(0.9), rel=0.01)
    from scipy.stats import norm

    delta = norm.cdf(whole / 2 - 2 / whole) - np.exp(2) * norm.cdf(-whole / 2 - 2 / whole)
    assert delta == pytest.approx(1e-5, rel=0.05)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("curved", '"additive", "auto"'),
        (Additive(1), "knots must"),
        (Additive(1000), "at most 64"),
        (Additive(interactions="some"), "interactions must"),
        (Additive(interactions=[("a", "a")]), "interactions must"),
        (Additive(interactions=[("a", "c")]), "interactions names 'c'"),
        (Additive(interactions=[("a", "zero")]), "must be two features that are not ignored"),
    ],
)
def test_what_is_no_additive_model(model, words):
    X, y, silos = problem("ISRLDPClassifier")
    with pytest.raises(ValueError, match=words):
        make("ISRLDPClassifier", **options("", model=model)).fit(X, y, silos=silos)


def test_without_bounds():
    X, y, silos = problem("ISRLDPClassifier")
    given = options("", feature_bounds=None)
    with pytest.raises(ValueError, match="feature_bounds"):
        make("ISRLDPClassifier", **given, model="additive").fit(X, y, silos=silos)
    linear = make("ISRLDPClassifier", **given, model="linear").fit(X, y, silos=silos)
    assert not hasattr(linear, "shape_functions_")
    assert not hasattr(linear, "interactions_")
    auto = make("ISRLDPClassifier", **given).fit(X, y, silos=silos)
    with pytest.raises(AttributeError, match='feature_bounds, so model="auto" has become linear'):
        auto.shape_functions_["a"]


@pytest.mark.parametrize(
    ("given", "became"),
    [
        ({}, "additive"),
        ({"trust": "secagg", "fit_intercept": False}, "additive"),
        ({"epsilon": 0.1}, "linear"),
        ({"epsilon": np.inf}, "linear"),
        ({"epsilon": None, "noise_multiplier": 1.0}, "linear"),
        ({"feature_bounds": None}, "linear"),
        ({"scaling": None}, "linear"),
        ({"inference": "intervals"}, "linear"),
        ({"loss": "ordinal", "classes": [0, 1]}, "linear"),
        ({"loss": "squared_hinge"}, "linear"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # the least budget
def test_auto_is_the_default_and_says_what_it_became(given, became):
    X, y, silos = problem("ISRLDPClassifier", 6000)
    given = options("", n_rounds=3) | given
    model = ISRLDPClassifier(**given).fit(X, y, silos=silos)
    assert model.model == "auto"
    assert model.summary().attrs["model"] == became
    names = model.get_feature_names_out()
    assert list(names) == list(model.summary().index[: len(names)])
    assert len(names) == np.atleast_2d(model.coef_).shape[1]
    known = ISRLDPClassifier(**given, model=became).fit(X, y, silos=silos)
    assert np.array_equal(model.coef_, known.coef_)
    assert model.privacy_spent_.epsilon == known.privacy_spent_.epsilon


@pytest.mark.parametrize(
    ("epsilon", "classes", "curves"),
    [
        (0.5, None, False),
        (0.5, {0: 0.5, 1: 0.5}, True),
        (1.0, None, True),
        (1.0, {0: 0.9, 1: 0.1}, False),
        (1.0, {0: 0.1, 1: 0.9}, False),
        (1000.0, None, True),
    ],
)
def test_shares_of_labels_decide_if_they_are_public_and_labels_have_no_products(
    epsilon, classes, curves
):
    """Planned from public numbers: unknown shares count as 15 % and 85 %."""
    given = options("", classes=classes) | {"epsilon": epsilon}
    plan = ISRLDPClassifier(**given).plan_for(silo_sizes=[2_000] * 3, n_features=4, n_classes=2)
    assert plan.size == (15 if curves else 5)  # a rank and four bins of two numbers each


def numbers_and_wards(n, n_levels):
    """A frame with gaps: three numbers, a category, and a target to which lines do justice."""
    rng = np.random.default_rng(n_levels)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["a", "b", "c"])
    y = X.sum(axis=1).to_numpy() + rng.normal(size=n)
    X["ward"] = rng.integers(0, n_levels, n).astype(str).astype(object)
    declared = dict.fromkeys("abc", (-1, 1)) | {"ward": [str(k) for k in range(n_levels)]}
    return X.mask(rng.random(X.shape) < 0.1), y, declared


def products_of(n_levels, interactions="auto"):
    X, y, declared = numbers_and_wards(4_000, n_levels)
    model = ISRLDPRegressor(8.0, model=Additive(interactions=interactions), trust="server")
    model.set_params(feature_bounds=declared, target_bounds=(-8, 8), random_state=0)
    model.fit(X, y, silos=np.arange(len(y)) % 4)
    assert len(model.shape_functions_["a"]) > 2  # there are curves
    return set(model.interactions_.index)


def test_products_count_as_columns_and_gaps_have_none():
    of_numbers = {("a", "b"), ("a", "c"), ("b", "c")}
    few = of_numbers | {(name, f"ward_{k}") for name in "abc" for k in range(3)}
    assert products_of(3) == few  # 2 / s of 6,600, 300 (3 + 3) and 50 (3 + 9)
    assert products_of(50) == of_numbers  # 50 (3 + 150)
    assert products_of(8, True) >= few
    assert not [pair for pair in products_of(8, True) if "missing" in str(pair)]


@pytest.mark.parametrize("how", ["bool", "flag", "levels"])
def test_what_is_known_to_be_0_or_1_is_no_curve_and_counts_as_none(how):
    """Thirty flags: as numbers in (0, 1) they leave no budget for curves."""
    X, y, _ = table(6000)
    flags = {f"f{k}": np.arange(6000) % (k + 2) == 0 for k in range(30)}
    X, bounds = pd.concat([X, pd.DataFrame(flags).astype(int)], axis=1), dict(BOUNDS)
    if how == "bool":
        X = X.astype(dict.fromkeys(flags, bool))
    else:
        bounds |= dict.fromkeys(flags, "flag" if how == "flag" else {0, 1})
    given = {"feature_bounds": bounds, "target_bounds": (-4, 6), "trust": "server", "n_rounds": 3}
    model = ISRLDPRegressor(3.0, random_state=0, **given).fit(X, y)
    curves = {name.split(":")[0] for name in model.get_feature_names_out() if ": rank" in name}
    assert curves == {"a", "b"}
    given["feature_bounds"] = BOUNDS | dict.fromkeys(flags, (0, 1))
    for seed, dtype in ((1, float), (2, int)):  # one record's 0.5 makes floats of integers
        numbers = X.astype(dict.fromkeys(flags, dtype))
        model = ISRLDPRegressor(3.0, random_state=seed, **given).fit(numbers, y)
        assert model.summary().attrs["model"] == "linear"


def test_curves_with_other_cells_are_refused():
    """Such as those of an earlier version."""
    X, y, silos = problem("ISRLDPRegressor")
    given = options("ISRLDPRegressor", model="additive", n_rounds=2)
    written = ISRLDPRegressor(**given).fit(X, y, silos=silos).to_dict()
    other = json.loads(json.dumps(written), object_hook=without_last_share)
    with pytest.raises(ValueError, match="of another version: fit again"):
        ISRLDPRegressor.from_dict(other)


def without_last_share(part):
    """Return a part of a file with one cell fewer in curves."""
    return part | {"shares": part["shares"][:-1]} if {"shares", "knots"} <= set(part) else part
