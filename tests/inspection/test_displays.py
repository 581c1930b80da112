"""The displays: what they draw is what was computed, and they say what they cost."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.datasets import split_into_silos
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import ConvergenceDisplay, PrivacySpentDisplay, PrivacyUtilityDisplay
from skdpfl.model_selection import SiloStratifiedKFold
from skdpfl.privacy import PrivacyLedger

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)
SILOS = split_into_silos(y, 4, random_state=0)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def clf(**params):
    params = {"scaling": None, "n_rounds": 10, "learning_rate": 0.5, "random_state": 0} | params
    return ISRLDPClassifier(**params)


def test_utility_from_estimator_draws_means_band_and_baseline():
    cv = SiloStratifiedKFold(3)
    with pytest.warns(PrivacyLeakWarning, match="exact scores"):
        shown = PrivacyUtilityDisplay.from_estimator(
            clf(), X, y, silos=SILOS, epsilons=[4, 0.5], cv=cv
        )
    assert shown.line_.get_xdata().tolist() == [0.5, 4.0]
    assert np.allclose(shown.line_.get_ydata(), np.mean(shown.scores, axis=1))
    assert np.shape(shown.scores) == (2, 3)
    train, test = next(iter(cv.split(X, y, SILOS)))
    by_hand = clf(epsilon=0.5).fit(X[train], y[train], silos=SILOS[train])
    assert shown.scores[0][0] == by_hand.score(X[test], y[test])
    assert np.mean(shown.baseline) > 0.95
    assert "ε" in shown.ax_.get_xlabel()
    assert shown.ax_.get_ylabel().startswith("accuracy")


def test_utility_of_a_regressor_on_given_axes():
    data, target = load_diabetes(return_X_y=True)
    _, ax = plt.subplots()
    model = ISRLDPRegressor(scaling=None, n_rounds=5, learning_rate=0.1)
    with pytest.warns(PrivacyLeakWarning):
        shown = PrivacyUtilityDisplay.from_estimator(
            model, data, (target - 150) / 80, epsilons=[1.0], cv=2, ax=ax
        )
    assert shown.ax_ is ax
    assert shown.ax_.get_ylabel().startswith("R²")


def test_utility_goes_through_the_ledger():
    with pytest.warns(PrivacyLeakWarning), PrivacyLedger() as ledger:
        PrivacyUtilityDisplay.from_estimator(clf(), X, y, epsilons=[1, 2], cv=2)
    assert len(ledger.entries) == 6
    assert np.isinf(ledger.spent.epsilon)  # the fits without privacy


def test_utility_from_predictions():
    wrong = np.where(np.arange(len(y)) < 57, 1 - y, y)
    shown = PrivacyUtilityDisplay.from_predictions(y, {3.0: y, 1.0: wrong, np.inf: y})
    assert np.allclose(shown.line_.get_ydata(), [1 - 57 / len(y), 1.0])
    assert shown.baseline == [1.0]


def test_utility_from_cv_results():
    grid = GridSearchCV(clf(), {"epsilon": [1.0, 3.0, np.inf], "clip_norm": [0.3, 1.0]}, cv=2)
    grid.fit(X, y, silos=SILOS)
    shown = PrivacyUtilityDisplay.from_cv_results(grid)
    table = grid.cv_results_
    best = max(table["mean_test_score"][np.asarray(table["param_epsilon"], float) == 1.0])
    assert shown.line_.get_ydata()[0] == pytest.approx(best)
    assert shown.baseline_ is not None
    with pytest.raises(ValueError, match=r"'alpha' was not searched.*clip_norm"):
        PrivacyUtilityDisplay.from_cv_results(grid, param="alpha")


def test_convergence_scores_held_out_records_of_every_round():
    split = train_test_split(X, y, SILOS, random_state=0)
    X_train, X_test, y_train, y_test, silos, _ = split
    shown = ConvergenceDisplay.from_estimator(
        clf(average=False), X_train, y_train, X_test=X_test, y_test=y_test, silos=silos
    )
    assert len(shown.scores) == 10
    assert shown.scores[-1] == shown.estimator_.score(X_test, y_test)
    assert not hasattr(shown.estimator_, "_watch")
    few = clf(average=False, n_rounds=10).fit(X_train, y_train, silos=silos)
    assert shown.scores[-1] == few.score(X_test, y_test)
    assert "held-out" in shown.ax_.get_ylabel()


def test_spent_per_silo_and_over_rounds():
    budgets = {0: 0.5, 1: 1.0, 2: 2.0, 3: 2.0}
    fitted = clf(epsilon=budgets, delta=1e-5).fit(X, y, silos=SILOS)
    bars = PrivacySpentDisplay.from_estimator(fitted)
    heights = [bar.get_height() for bar in bars.artists_]
    assert np.allclose(heights, fitted.privacy_spent_.per_silo)
    curve = PrivacySpentDisplay.from_estimator(fitted, kind="rounds")
    assert curve.epsilons[-1] == pytest.approx(fitted.privacy_spent_.epsilon)
    assert np.all(np.diff(curve.epsilons) > 0)
    assert "δ = 1e-05" in curve.ax_.get_ylabel()


def test_spent_refuses_what_has_no_cost():
    whole = DPFedAvgClassifier(unit="silo", scaling=None, n_rounds=2, clip_norm=1.0)
    with pytest.warns(UserWarning, match="Hiding a whole silo among 4"):
        whole.fit(X, y, silos=SILOS)
    with pytest.raises(ValueError, match="one cost for all silos"):
        PrivacySpentDisplay.from_estimator(whole)
    with pytest.raises(ValueError, match="not private"):
        PrivacySpentDisplay.from_estimator(clf(epsilon=np.inf).fit(X, y))
    with pytest.raises(ValueError, match="kind must be"):
        PrivacySpentDisplay.from_estimator(clf().fit(X, y), kind="bars")
