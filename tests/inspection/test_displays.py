"""The displays: what they draw is what was computed, and they say what they cost."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier
from skdpfl.datasets import split_into_silos
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import ConvergenceDisplay, PrivacySpentDisplay, PrivacyUtilityDisplay
from skdpfl.model_selection import SiloStratifiedKFold
from skdpfl.preprocessing import DPStandardScaler

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)
SILOS = split_into_silos(y, 4, random_state=0)


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
    folds = list(cv.split(X, y, SILOS))
    train, test = folds[0]
    by_hand = clf(epsilon=0.5).fit(X[train], y[train], silos=SILOS[train])
    assert shown.scores[0][0] == by_hand.score(X[test], y[test])
    assert np.mean(shown.baseline) > 0.95
    common = [max(np.mean(y[test] == label) for label in np.unique(y)) for _, test in folds]
    assert np.allclose(shown.constant, common, atol=0.02)  # of the training rows
    assert np.allclose(shown.constant_.get_ydata(), np.mean(shown.constant))
    assert [t.get_text() for t in shown.ax_.get_legend().get_texts()][-1] == "constant prediction"
    assert "ε" in shown.ax_.get_xlabel()
    assert shown.ax_.get_ylabel().startswith("accuracy")


@pytest.mark.filterwarnings("ignore::skdpfl.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("cv", ["folds", b"x", (1,), [], [(1, 2, 3)]])
def test_what_is_no_splitter_is_refused_in_words(cv):
    with pytest.raises(TypeError, match="cv must be a number of folds, a splitter, or pairs"):
        PrivacyUtilityDisplay.from_estimator(clf(), X, y, epsilons=[1], cv=cv)


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


@pytest.mark.parametrize("test", [X, X.copy(), X[:50]], ids=["the same", "equal", "a slice"])
def test_convergence_on_training_records_says_so(test):
    with pytest.warns(PrivacyLeakWarning, match="training records"):
        shown = ConvergenceDisplay.from_estimator(
            clf(), X, y, X_test=test, y_test=y[: len(test)], silos=SILOS
        )
    assert shown.ax_.get_ylabel() == "accuracy on training records"
    half = len(X) // 2
    apart = ConvergenceDisplay.from_estimator(
        clf(), X[:half], y[:half], X_test=X[half:], y_test=y[half:], silos=SILOS[:half]
    )
    assert apart.ax_.get_ylabel() == "accuracy on held-out records"


def test_spent_per_silo():
    budgets = {0: 0.5, 1: 1.0, 2: 2.0, 3: 2.0}
    fitted = clf(epsilon=budgets, delta=1e-5).fit(X, y, silos=SILOS)
    bars = PrivacySpentDisplay.from_estimator(fitted)
    heights = [bar.get_height() for bar in bars.artists_]
    assert np.allclose(heights, fitted.privacy_spent_.per_silo)
    assert "δ = 1e-05" in bars.ax_.get_ylabel()


def test_spent_refuses_what_has_no_cost():
    whole = DPFedAvgClassifier(unit="silo", scaling=None, n_rounds=2, clip_norm=1.0)
    with pytest.warns(UserWarning, match="Hiding a whole silo among 4"):
        whole.fit(X, y, silos=SILOS)
    with pytest.raises(ValueError, match="one cost for all silos"):
        PrivacySpentDisplay.from_estimator(whole)
    with pytest.raises(ValueError, match="not private"):
        PrivacySpentDisplay.from_estimator(clf(epsilon=np.inf).fit(X, y))


def test_other_steps_of_a_pipeline_are_not_in_the_budget_of_the_axis():
    """A private scaler's epsilon comes on top, at every point and in the baseline."""
    pipe = make_pipeline(DPStandardScaler(epsilon=1.0, random_state=0), clf(average=False))
    with pytest.warns(PrivacyLeakWarning, match="exact scores"):
        shown = PrivacyUtilityDisplay.from_estimator(pipe, X, y, epsilons=[1], cv=2)
    assert "ε of isrldpclassifier, other steps apart" in shown.ax_.get_xlabel()
