"""Calibration and cuts learnt on held-out records: good, paid for, and like any estimator."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeClassifier

from skdpfl import (
    DPCalibratedClassifier,
    DPThresholdClassifier,
    ISRLDPClassifier,
    privacy_spent,
)
from skdpfl.exceptions import BudgetExceeded, PrivacyLeakWarning
from skdpfl.privacy import PrivacyLedger

COSTS = {"false_positive": 1, "false_negative": 9}
BOTH = [DPCalibratedClassifier, DPThresholdClassifier]


def made(n, seed, shift=1.0):
    """Records whose log-odds are X @ [2, -1, 0] - shift."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X @ [2.0, -1.0, 0.0] - shift + rng.logistic(size=n) > 0, "yes", "no")


X, Y = made(5000, 0)
TEST, TRUTH = made(20000, 1)
SILOS = np.arange(5000) % 4


def overconfident(labels=2):
    """A fitted model whose log-odds are three times too large."""
    y = Y if labels == 2 else np.where(X[:, 2] > 1, "maybe", Y)
    model = LogisticRegression().fit(X[:500], y[:500])
    model.coef_, model.intercept_ = 3 * model.coef_, 3 * model.intercept_
    return model


def scored(model):
    return log_loss(TRUTH, model.predict_proba(TEST), labels=model.classes_)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "trust"), [(5000, "silo"), (1000, "server"), (700, "server")])
@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
def test_calibration_is_nearly_that_without_noise(method, n, trust):
    """At most .006 above Platt's scaling, at epsilon 1, in the mean of draws; ranks are kept."""
    model, few = overconfident(), slice(n)
    scores = model.decision_function(X[few])[:, None], model.decision_function(TEST)[:, None]
    platt = LogisticRegression(C=1e6).fit(scores[0], Y[few]).predict_proba(scores[1])
    given = {"epsilon": 1.0, "method": method, "trust": trust}
    fitted = [
        DPCalibratedClassifier(model, random_state=i, **given).fit(X[few], Y[few], silos=SILOS[few])
        for i in range(8)
    ]
    worse = [scored(each) - log_loss(TRUTH, platt) for each in fitted]
    assert np.mean(worse) < 0.006 < scored(model) - log_loss(TRUTH, platt)
    order = np.argsort(scores[1][:, 0])
    assert (np.diff(fitted[0].predict_proba(TEST)[order, 1]) >= 0).all()


def test_a_temperature_of_three_labels():
    y = np.where(X[:, 2] > 1, "maybe", Y)
    model = overconfident(3)
    fitted = DPCalibratedClassifier(model, method="temperature", random_state=0).fit(X, y)
    assert 1.5 < fitted.temperature_ < 4.5
    assert (fitted.predict(TEST) == model.predict(TEST)).all()
    with pytest.raises(ValueError, match="needs two labels; got 3"):
        DPCalibratedClassifier(model).fit(X, y)
    fitted.set_params(method="sigmoid", estimator=overconfident(), random_state=1).fit(X, Y)
    assert not hasattr(fitted, "temperature_")


@pytest.mark.parametrize("trust", ["server", "silo"])
@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
def test_calibration_leaves_a_calibrated_model_nearly_as_it_is(method, trust):
    """Means of draws with 1,000 records; slopes at eight temperatures cost .07 and .2 here."""
    model = LogisticRegression().fit(X[:500], Y[:500])
    given = {"epsilon": 1.0, "method": method, "trust": trust}
    held = {"X": X[1000:2000], "y": Y[1000:2000], "silos": SILOS[1000:2000]}
    fitted = [DPCalibratedClassifier(model, random_state=i, **given).fit(**held) for i in range(8)]
    more = [scored(each) - scored(model) for each in fitted]
    assert np.mean(more) < 0.015
    assert max(more) < 0.1


def test_a_temperature_of_probabilities_0_and_1():
    """They become those of the share of labels that are right."""
    tree = DecisionTreeClassifier(random_state=0).fit(X[:500], Y[:500])
    assert set(tree.predict_proba(TEST).ravel()) == {0.0, 1.0}
    held = {"X": X[500:], "y": Y[500:], "silos": SILOS[500:]}
    fitted = DPCalibratedClassifier(tree, method="temperature", random_state=0).fit(**held)
    right = np.mean(tree.predict(TEST) == TRUTH)
    assert fitted.predict_proba(TEST).max() == pytest.approx(right, abs=0.05)
    assert (fitted.predict(TEST) == tree.predict(TEST)).all()


def test_chances_of_one_half_stay_as_they_are():
    """All gaps are 0, so a slope changes nothing."""
    model = DummyClassifier(strategy="uniform").fit(X, Y)
    given = {"method": "temperature", "epsilon": 8.0, "trust": "server", "random_state": 0}
    fitted = DPCalibratedClassifier(model, **given).fit(X, Y)
    assert fitted.temperature_ == 1
    assert (fitted.predict_proba(TEST) == 0.5).all()


def balanced_accuracy(predicted):
    return np.mean([np.mean(predicted[label == TRUTH] == label) for label in ("no", "yes")])


def cost(predicted):
    wrong = [COSTS["false_positive"] * (predicted == "yes") * (TRUTH == "no"),
             COSTS["false_negative"] * (predicted == "no") * (TRUTH == "yes")]  # fmt: skip
    return np.sum(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "trust"), [(5000, "silo"), (1000, "server")])
def test_cuts_are_nearly_the_best(n, trust):
    """At most .004 of balanced accuracy, and 1.04 of the cost, in the mean of draws."""
    few, model, name = slice(n), overconfident(), np.array(["no", "yes"])
    chances = model.predict_proba(TEST)[:, 1]
    cuts = [name[(chances >= c).astype(int)] for c in np.quantile(chances, np.linspace(0, 1, 200))]
    draws = range(8)
    best = max(map(balanced_accuracy, cuts))
    held = {"X": X[few], "y": Y[few], "silos": SILOS[few]}
    fitted = [DPThresholdClassifier(model, trust=trust, random_state=i).fit(**held) for i in draws]
    lost = [best - balanced_accuracy(each.predict(TEST)) for each in fitted]
    assert np.mean(lost) < 0.004
    fitted = [
        DPThresholdClassifier(model, costs=COSTS, trust=trust, random_state=i).fit(**held)
        for i in draws
    ]
    least = min(map(cost, cuts))
    more = [cost(each.predict(TEST)) / least for each in fitted]
    assert np.mean(more) < 1.04
    assert all(0 < each.threshold_ < 0.5 for each in fitted)


@pytest.mark.parametrize("kind", BOTH)
def test_the_cost_adds_to_the_classifiers(kind):
    clf = ISRLDPClassifier(2.0, delta=1e-5, feature_bounds=(-4, 4), n_rounds=10)
    clf.fit(X, Y, silos=SILOS)
    with PrivacyLedger(1.5, 1e-5) as ledger:
        model = kind(FrozenEstimator(clf), epsilon=1.0, delta=1e-5).fit(X, Y, silos=SILOS)
        assert [entry.name for entry in ledger.entries] == [kind.__name__]
        with pytest.raises(BudgetExceeded):
            kind(clf, epsilon=1.0, delta=1e-5).fit(X, Y, silos=SILOS)
    assert model.privacy_spent_.epsilon == pytest.approx(1.0, rel=1e-3)
    both = privacy_spent(model)
    assert both.epsilon == pytest.approx((clf.privacy_spent_ + model.privacy_spent_).epsilon)
    around = DPThresholdClassifier(model, epsilon=1.0, delta=1e-5).fit(X, Y, silos=SILOS)
    assert privacy_spent(around).epsilon > both.epsilon
    plain = kind(LogisticRegression().fit(X, Y), epsilon=1.0).fit(X, Y)
    with pytest.warns(PrivacyLeakWarning, match="LogisticRegression learnt"):
        assert privacy_spent(plain).epsilon == np.inf
    public = privacy_spent(plain, public=["estimator"])
    assert public.epsilon == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("kind", BOTH)
def test_they_are_estimators(kind):
    frozen = FrozenEstimator(overconfident())
    model = kind(frozen, epsilon=2.0, random_state=0)
    assert is_classifier(model) and clone(model).get_params()["epsilon"] == 2.0
    fitted = clone(model).fit(X, Y)
    assert list(fitted.classes_) == ["no", "yes"] and fitted.n_features_in_ == 3
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(fitted.predict(TEST[:50]), again.predict(TEST[:50]))
    assert kind.__name__ in repr(fitted) and kind.__name__ in fitted._repr_html_()
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError, match="FrozenEstimator"):
        kind(LogisticRegression()).fit(X, Y)
    with pytest.raises(ValueError, match="must be a classifier"):
        kind(LinearRegression().fit(X, X[:, 0])).fit(X, Y)
    with pytest.raises(AttributeError, match="no fit_federation"):
        model.fit_federation  # noqa: B018


@pytest.mark.every
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"costs": {"false_positive": 1}}, "both errors"),
        ({"costs": {"false_positive": 0, "false_negative": 0}}, "both errors"),
        ({"costs": {"false_positive": -1, "false_negative": 1}}, "from 0 on"),
        ({"scoring": "roc_auc"}, "scoring"),
        ({"unit": "silo"}, "unit must be"),
        ({"epsilon": -1}, "epsilon"),
    ],
)
def test_what_is_refused_says_why(given, said):
    with pytest.raises(ValueError, match=said):
        DPThresholdClassifier(overconfident(), **given).fit(X, Y)


@pytest.mark.parametrize(
    ("kind", "given"), [*((kind, {}) for kind in BOTH), (BOTH[0], {"method": "temperature"})]
)
def test_noise_alone_leaves_the_classifier_as_it_is(kind, given):
    model = overconfident()
    with pytest.warns(UserWarning, match="Noise leaves"):
        fitted = kind(model, epsilon=0.01, random_state=0, **given).fit(X[:60], Y[:60])
    np.testing.assert_array_equal(fitted.predict(TEST), model.predict(TEST))


@pytest.mark.parametrize("kind", BOTH)
def test_the_same_noise_on_other_records_is_told(kind):
    model = kind(FrozenEstimator(overconfident()), random_state=0).fit(X[1000:3000], Y[1000:3000])
    with pytest.warns(PrivacyLeakWarning, match="random_state=0 before: both fits have the same"):
        model.fit(X[3000:], Y[3000:])
