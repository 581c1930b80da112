"""Intervals of fits: coverage, refusals before a record is read, prices, expected widths."""

import random

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from benchmarks.intervals import CELLS, studies, truth_of
from skdpfl import ISRLDPClassifier, ISRLDPRegressor, ISRLDPSurvival
from skdpfl.inference import NewtonStep, expected_width
from skdpfl.inspection import CoefficientDisplay
from skdpfl.models import MLP
from skdpfl.privacy import PrivacyLedger


def problem(n=900, seed=0, kind="labels"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    eta = X @ [1.0, -0.5, 0.0]
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int) if kind == "labels" else eta
    return X, y, np.arange(n) % 3


FIT = {"epsilon": 8.0, "feature_bounds": (-4, 4), "inference": "intervals", "random_state": 0}


def test_a_fit_states_its_intervals():
    X, y, silos = problem()
    model = ISRLDPClassifier(**FIT).fit(X, y, silos=silos)
    frame = model.summary(confidence=0.9)
    assert list(frame.columns) == ["coefficient", "standard error", "lower", "upper", "p"]
    assert frame.index.tolist() == ["x0", "x1", "x2", "intercept"]
    assert frame.attrs["refused"] == {} and frame.attrs["epsilon"] <= 8.0
    assert np.array_equal(frame["coefficient"][:3], model.coef_estimate_[0])
    np.testing.assert_allclose(frame["standard error"][:3] ** 2, np.diag(model.coef_covariance_))
    assert (model.summary(0.99)["upper"] > frame["upper"]).all()
    assert (frame["p"] < 0.1).tolist() == ((frame["lower"] > 0) | (frame["upper"] < 0)).tolist()
    alone, pair = model.contrast({"x0": 1}, 0.9), model.contrast([1, -1, 0])
    np.testing.assert_allclose(alone, frame.loc["x0"])
    assert pair["coefficient"] == pytest.approx(
        frame["coefficient"]["x0"] - frame["coefficient"]["x1"]
    )
    with pytest.raises(ValueError, match="'x9' is no coefficient"):
        model.contrast({"x9": 1})
    with pytest.raises(ValueError, match="confidence"):
        model.summary(confidence=95)
    plain = ISRLDPClassifier(**FIT | {"inference": None}).fit(X, y, silos=silos)
    with pytest.raises(AttributeError, match='inference="intervals"'):
        plain.contrast([1, 0, 0])
    assert "noise error" in plain.summary()


def test_columns_that_are_ignored_have_none():
    X, y, silos = problem()
    bounds = ([-4, 0, -4], [4, 0, 4])
    frame = ISRLDPClassifier(**FIT | {"feature_bounds": bounds}).fit(X, y, silos=silos).summary()
    assert frame.loc["x1"].isna().all() and "ignored" in frame.attrs["refused"]["x1"]
    assert frame.drop(index="x1").notna().all(axis=None)


def test_large_budgets_give_the_intervals_of_least_squares():
    """Without noise to speak of; the weights of long rows and clipped residuals cost 6 %."""
    rng = np.random.default_rng(0)
    X, _, silos = problem(3000)
    y = 3 + 10 * (X @ [1.0, -0.5, 0.0] + rng.normal(size=3000))
    known = FIT | {"epsilon": 1e4, "target_bounds": (-60, 60)}
    with pytest.warns(UserWarning, match="epsilon"):
        model = ISRLDPRegressor(**known).fit(X, y, silos=silos)
    Z = np.column_stack([X, np.ones(3000)])
    exact = np.linalg.lstsq(Z, y, rcond=None)[0]
    errors = 10 * np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)))
    frame = model.summary()
    assert (np.abs(frame["coefficient"] - exact) < 0.4 * errors).all()
    np.testing.assert_allclose(frame["standard error"], errors, rtol=0.06)


@pytest.mark.parametrize("covariance", ["model", "robust", "silos"])
@pytest.mark.parametrize("trust", ["silo", "secagg", "server"])
@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_the_price_is_the_budget(kind, covariance, trust):
    make = ISRLDPClassifier if kind == "labels" else ISRLDPRegressor
    model = make(3.0, feature_bounds=(-4, 4), inference="intervals", covariance=covariance,
                 trust=trust)  # fmt: skip
    shape = {"silo_sizes": [500] * 12, "n_features": 3}
    if covariance == "silos" and trust != "silo":
        with pytest.raises(ValueError, match='trust="silo"'):
            model.plan_for(**shape)
        return
    spent = model.plan_for(**shape).spent()
    assert 2.97 <= spent.epsilon <= 3.0


MADE = [
    (ISRLDPClassifier, {}),
    (ISRLDPRegressor, {}),
    (ISRLDPRegressor, {"loss": "poisson"}),
    (ISRLDPSurvival, {"target_bounds": (0, 9), "breaks": 3}),
]


@pytest.mark.slow
def test_random_plans_with_intervals_keep_to_their_budgets():
    """150 of them, with budgets of silos' own."""
    r, drawn = random.Random(0), 0
    while drawn < 150:
        make, known = r.choice(MADE)
        m, unit = r.choice([1, 2, 5, 12]), r.choice(["record", "person"])
        epsilon = 10 ** r.uniform(-1, 1.2)
        own = {i: epsilon * r.uniform(1, 3) for i in range(m)}
        model = make(
            r.choice([epsilon, own]),
            delta=10 ** r.uniform(-9, -6),
            inference="intervals",
            covariance=r.choice(["model", "robust", "silos"]),
            trust=r.choice(["silo", "secagg", "server"]),
            feature_bounds=r.choice([None, (-4, 4)]),
            sampling_rate=r.choice(["auto", 0.1]),
            fit_intercept=r.choice([True, False]),
            neighbours=r.choice(["replace", "add_remove"]),
            unit=unit,
            silos_per_person=r.choice([1, m]) if unit == "person" else 1,
            **known,
        )
        how = {"exposure": r.random() < 0.5} if "loss" in known else {}
        sizes = {i: r.choice([300, 3000, 30000]) for i in range(m)}
        try:
            shape = {"silo_sizes": sizes, "n_features": r.choice([1, 4, 10])}
            spent = model.plan_for(**shape, **how).spent()
        except ValueError as error:
            words = ["too few", "covariance", "scales", "secagg", "trust", "cannot be met"]
            words += ["_per_", "baseline hazard"]
            assert any(word in str(error) for word in words), error
            continue
        drawn += 1
        budgets = (
            model.epsilon if isinstance(model.epsilon, dict) else dict.fromkeys(sizes, epsilon)
        )
        assert all(spent.per_silo[i] <= budgets[i] for i in sizes), model


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "additive"}, "linear models"),
        ({"model": MLP((3,))}, "linear models"),
        ({"loss": "hinge"}, "losses"),
        ({"epsilon": None, "noise_multiplier": 3.0}, "give epsilon"),
        ({"trust": "shuffler"}, "shuffler"),
        ({"class_weight": {1: 2.0}}, "class_weight"),
        ({"covariance": "sandwich"}, "covariance"),
        ({"inference": "bootstrap"}, "inference"),
        ({"covariance": "silos"}, "at least 10"),
        (
            {"epsilon": 0.1},
            r"900 records are too few .* About [\d,]+ records would do, or an epsilon",
        ),
    ],
)
def test_what_has_no_intervals_is_refused_before_anything_is_spent(options, words):
    X, y, silos = problem()
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match=words):
        ISRLDPClassifier(**FIT | options).fit(X, y, silos=silos)
    assert ledger.spent is None or ledger.spent.epsilon == 0


def test_levels_of_text_have_none_and_warn_of_the_budget():
    """Levels and gaps of a column add up to 1, as does the intercept: one is to be left out."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 90, 4000), "ward": rng.choice(["a", "b"], 4000)})
    ill = (frame["age"] + rng.logistic(0, 15, 4000) > 55).astype(int)
    bounds = {"age": (20, 90), "ward": ["a", "b"]}
    model = ISRLDPClassifier(**FIT | {"feature_bounds": bounds})
    with pytest.warns(UserWarning, match="the budget is spent.* with one left out"):
        model.fit(frame, ill, silos=np.arange(4000) % 3)
    table = model.summary()
    assert table.isna().all(axis=None) and "determine" in table.attrs["refused"]["age"]
    coded = pd.get_dummies(frame, drop_first=True, dtype=float)
    model.set_params(feature_bounds={"age": (20, 90), "ward_b": (0, 1)})
    table = model.fit(coded, ill, silos=np.arange(4000) % 3).summary()
    assert table.notna().all(axis=None)


def test_a_fit_says_if_noise_leaves_no_interval_an_end():
    rng = np.random.default_rng(23)
    X, y = rng.uniform(-1, 1, (60, 1)), (rng.random(60) < 0.5).astype(int)
    plan = {"epsilon": 0.7, "fit_intercept": False, "trust": "server", "random_state": 23}
    model = ISRLDPClassifier(**FIT | {"feature_bounds": (-1, 1)} | plan)
    with pytest.warns(UserWarning, match="No coefficient has an interval.* unbounded"):
        model.fit(X, y)
    assert not model._intervals.step.refused and model.summary().isna().all(axis=None)


@pytest.mark.parametrize("covariance", ["model", "robust"])
def test_columns_of_zeros_alone_have_no_interval_without_noise(covariance):
    model = ISRLDPRegressor(
        np.inf, fit_intercept=False, covariance=covariance, inference="intervals",
        feature_bounds=(-1, 1), target_bounds=(-1, 1), random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="No coefficient has an interval.* determine"):
        model.fit(np.zeros((300, 2)), np.linspace(-1, 1, 300))
    assert model.summary().isna().all(axis=None)


def test_three_classes_and_weights_are_refused():
    X, y, silos = problem()
    with pytest.raises(ValueError, match="two classes"):
        ISRLDPClassifier(**FIT).fit(X, y + (X[:, 0] > 1), silos=silos)
    with pytest.raises(ValueError, match="unweighted"):
        ISRLDPClassifier(**FIT).fit(X, y, silos=silos, sample_weight=np.ones(len(y)))


def test_expected_widths_are_those_of_studies():
    """By a fifth, for small effects: the widths of three cells, and what makes them narrower."""
    shape = {"silo_sizes": {"a": 1000, "b": 1000, "c": 1000}, "n_features": 5}
    widths = [expected_width(epsilon=e, **shape) for e in (1.0, 3.0, np.inf)]
    assert widths[0] > widths[1] > widths[2] == pytest.approx(4 * 1.96 / np.sqrt(3000), rel=1e-3)
    assert expected_width(epsilon=3, trust="secagg", **shape) < widths[1]
    assert expected_width(epsilon=0.05, **shape) == np.inf
    stated = ISRLDPClassifier(**FIT | {"epsilon": 3.0}).plan_for(**shape)
    assert stated.expected_width == pytest.approx(widths[1])
    for kind, loss in (("labels", "log_loss"), ("numbers", "squared_error")):
        seen = []
        rng = np.random.default_rng(0)
        for _ in range(4):
            X = rng.normal(size=(3000, 5))
            y = rng.normal(size=3000)
            y = (y > 0).astype(int) if kind == "labels" else y
            known = {"target_bounds": (-4, 4)} if kind == "numbers" else {}
            make = ISRLDPClassifier if kind == "labels" else ISRLDPRegressor
            model = make(
                3.0, feature_bounds=(-4, 4), inference="intervals", random_state=0, **known
            )
            frame = model.fit(X, y, silos=np.arange(3000) % 3).summary()
            seen.append((frame["upper"] - frame["lower"])[:5].mean())
        assert np.mean(seen) == pytest.approx(
            expected_width(epsilon=3.0, loss=loss, **shape), rel=0.2
        )


@pytest.mark.parametrize("breaks", [4, [1, 2, 3, 4, 4.99]])
def test_hazard_ratios_have_intervals(breaks):
    """Each of two coefficients within 5 of its standard errors of the truth.

    The last of six intervals has three events or so: noise hides its hazard, but no slope.
    """
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(3000, 2)), np.array([0.7, -0.4])
    time, left = rng.exponential(3 * np.exp(-X @ truth)), rng.uniform(1, 8, 3000)
    y = pd.DataFrame({"event": time <= left, "time": np.minimum(time, left)})
    model = ISRLDPSurvival(**FIT | {"epsilon": 3.0}, target_bounds=(0, 5), breaks=breaks)
    frame = model.fit(X, y, silos=np.arange(3000) % 3).summary()
    assert frame.index.tolist() == ["x0", "x1"] and frame.attrs["refused"] == {}
    assert (np.abs(frame["coefficient"] - truth) < 5 * frame["standard error"]).all()
    assert (frame["upper"] - frame["lower"] < 0.4).all()
    assert model.coef_covariance_.shape == (2, 2) and model.privacy_spent_.epsilon <= 3.0
    assert model.contrast({"x0": 1, "x1": 1})["lower"] < 0.3
    pytest.importorskip("matplotlib").use("agg")
    shown = CoefficientDisplay.from_estimator(model, ratios=True)
    assert shown.ax_.get_xlabel() == "hazard ratio (95 % interval)"
    with pytest.raises(ValueError, match="too few"):
        model.set_params(epsilon=0.1).fit(X, y, silos=np.arange(3000) % 3)


def few_events(seed, share=0.03, n=20_000, **more):
    """Return a fit whose log hazard ratios are 1 and 0, where about this share has an event."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    time = rng.exponential(-1 / (np.log(1 - share) * np.exp(X[:, 0])))
    y = pd.DataFrame({"event": time < 1, "time": np.minimum(time, 1)})
    known = {"target_bounds": (0, 1), "feature_bounds": (-1, 1), "inference": "intervals"}
    model = ISRLDPSurvival(2.0, **known | {"random_state": seed} | more)
    return model.fit(X, y, silos=np.arange(n) % 5)


@pytest.mark.parametrize("more", [{}, {"trust": "server"}, {"covariance": "robust"}], ids=str)
def test_a_fit_far_from_the_events_has_right_intervals(more):
    """Short steps from one event a record: the hazard is three times too large, slopes are near 0.

    Newton's step there is short: 20 to 40 of its standard errors from the truth.
    """
    far = {"learning_rate": 0.05, "n_rounds": 20, "breaks": 1} | more
    model = few_events(0, 0.16, **far)
    assert abs(model.coef_[0]) < 0.3 and model.intercept_ > np.log(-np.log(0.84)) + 1
    frame = model.summary()
    assert frame.index.tolist() == ["x0", "x1"] and frame.attrs["refused"] == {}
    assert (np.abs(frame["coefficient"] - [1.0, 0.0]) < 4 * frame["standard error"]).all()
    assert (frame["upper"] - frame["lower"] < 1.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.03, 0.16])
def test_intervals_cover_where_few_have_an_event(share):
    """20 fits, a coefficient of 1 and one of 0; with coverage .90, once in 100,000 below the limit.

    They covered 0 of 6 and 1 of 6 where rounds began at one event a record.
    """
    truth, covered = np.array([1.0, 0.0]), []
    for seed in range(20):
        frame = few_events(seed, share).summary()
        assert frame.attrs["refused"] == {}
        covered.append((frame["lower"] < truth) & (truth < frame["upper"]))
    assert np.mean(covered, axis=0).min() >= binom.ppf(1e-5 / 2, 20, 0.9) / 20


@pytest.mark.filterwarnings("ignore:Estimates within the budget")
def test_a_fit_far_from_the_counts_has_no_intervals():
    """Bounds of a thousand times the mean: rates stay too large, and intervals missed them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    falls = rng.poisson(np.exp(X @ [0.4, -0.3, 0.0] - 2.3))
    known, silos = FIT | {"epsilon": 3.0, "loss": "poisson", "trust": "secagg"}, np.arange(5000) % 5
    with pytest.warns(UserWarning) as caught:
        far = ISRLDPRegressor(**known, target_bounds=(0, 100)).fit(X, falls, silos=silos)
    assert any("closer target_bounds" in str(each.message) for each in caught)
    assert far.summary()["lower"].isna().all()
    near = ISRLDPRegressor(**known, target_bounds=(0, 5)).fit(X, falls, silos=silos)
    frame = near.summary()
    truth = np.array([0.4, -0.3, 0.0, -2.3])
    assert (np.abs(frame["coefficient"] - truth) < 4 * frame["standard error"]).all()


def test_a_curvature_that_noise_makes_negative_is_refused():
    """It is a sum of squares: a negative direction is noise, however large."""
    step = NewtonStep(np.zeros(2), np.ones(2), np.diag([100.0, -20.0]), 1.0, 1.0)
    assert "hides the curvature" in step.refused


@pytest.mark.slow
def test_intervals_cover_rare_flags():
    """20 fits; with coverage .90, once in 100,000 below the limit.

    The rounds clipped ones of a flag with 3 % to .4, and the pilot's coefficient was 2.3 for 1.
    """
    n, pilots, covered = 20_000, [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.random(n) < 0.03, rng.normal(size=(n, 2))]).astype(float)
        y = X @ [1.0, 0.0, -0.5] - 1 + rng.logistic(size=n) > 0
        known = FIT | {"epsilon": 3.0, "trust": "server", "random_state": seed}
        known["feature_bounds"] = ([0, -5, -5], [1, 5, 5])
        model = ISRLDPClassifier(**known).fit(X, y, silos=np.arange(n) % 3)
        frame = model.summary()
        pilots.append(model.coef_[0, 0])
        covered.append((frame["lower"] < [1, 0, -0.5, -1]) & (frame["upper"] > [1, 0, -0.5, -1]))
    assert abs(np.mean(pilots) - 1) < 0.2
    assert np.mean(covered, axis=0).min() >= binom.ppf(1e-5 / 2, 20, 0.9) / 20


@pytest.mark.parametrize("kind", ["labels", "numbers", "times"])
def test_persons_have_intervals_of_clustered_records(kind):
    """Four equal rows a person tell as much as one: errors are those of persons, not of rows."""
    X, y, silos = problem(1500, kind=kind)
    rng = np.random.default_rng(1)
    make, bounds = ISRLDPClassifier, {}
    if kind == "numbers":
        make, bounds = ISRLDPRegressor, {"target_bounds": (-8, 8)}
        y = y + rng.normal(size=1500)
    if kind == "times":
        make, bounds = ISRLDPSurvival, {"target_bounds": (0, 2), "breaks": 4}
        y = np.rec.fromarrays([np.ones(1500, bool), rng.exponential(np.exp(-y))])
    model = make(**FIT | bounds)
    one = model.fit(X, y, silos=silos).summary()["standard error"]
    many = (np.repeat(part, 4, axis=0) for part in (X, y, silos, np.arange(1500)))
    X4, y4, silos4, persons = many
    fitted = make(**FIT | bounds, unit="person").fit(X4, y4, silos=silos4, persons=persons)
    four = fitted.summary()["standard error"]
    assert fitted.privacy_spent_.unit == "person" and fitted.privacy_spent_.epsilon <= 8.0
    np.testing.assert_allclose(four, one, rtol=0.25)


@pytest.mark.slow
def test_bounds_of_a_data_sheet_refuse_nothing():
    """Ranges of +- 100 deviations: where a column's scale is missed, noise hides the table."""
    covered, widths, *_ = studies(CELLS["labels d5 wide bounds"], 12, seed=1)
    assert not np.isnan(covered).any() and np.median(widths) < 1.6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels d5", "numbers d5", "counts d5", "labels secagg"])
def test_fits_cover(name):
    """60 studies: with coverage .92 or more, the mean is below its limit once in a million.

    Coefficients of a study are correlated, so a mean over six counts as one over two.
    """
    covered, widths, *_ = studies(CELLS[name], 60, seed=1, name=name)
    assert np.isnan(covered).mean() < 0.05
    assert np.nanmean(covered) > binom.ppf(1e-6, 120, 0.93) / 120
    assert np.nanmedian(widths) < 2.2 and covered.shape[1] == len(truth_of(CELLS[name]))
