"""Pictures of records that are paid for: they cost what they say, and show what there is."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import VotingClassifier
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl import ISRLDPClassifier
from skdpfl.exceptions import BudgetExceeded
from skdpfl.inspection import DPCalibrationDisplay, DPConfusionMatrixDisplay, DPRocCurveDisplay
from skdpfl.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (1500, 3))
Y = np.where(X @ [3.0, -2.0, 0.0] + RNG.logistic(size=1500) > 1, "yes", "no")
SILOS = np.arange(1500) % 3
BOTH = [DPRocCurveDisplay, DPConfusionMatrixDisplay, DPCalibrationDisplay]


@pytest.fixture(scope="module")
def model():
    given = {"feature_bounds": (-1, 1), "n_rounds": 100, "random_state": 0}
    return ISRLDPClassifier(4.0, **given).fit(X, Y, silos=SILOS)


def test_a_large_budget_shows_the_curve_of_the_records(model):
    drawn = DPRocCurveDisplay.from_estimator(model, X, Y, epsilon=1e4, silos=SILOS, random_state=0)
    scores = model.decision_function(X)
    assert drawn.roc_auc == pytest.approx(roc_auc_score(Y == "yes", scores), abs=0.02)
    assert drawn.roc_auc_noise < 1e-3
    false, true, _ = roc_curve(Y == "yes", scores)
    step = 1 / (Y == "no").sum()  # where the curve rises: a point may lie anywhere on the rise
    below, above = (np.interp(drawn.fpr + move, false, true) for move in (-step, step))
    assert (below - 0.01 < drawn.tpr).all() and (drawn.tpr < above + 0.01).all()
    assert (np.diff(drawn.fpr) >= 0).all() and (np.diff(drawn.tpr) >= 0).all()
    assert drawn.pos_label == "yes"
    assert drawn.line_.get_label().startswith("ISRLDPClassifier: area 0.")


def test_a_calibration_curve_is_that_of_the_records(model):
    given = {"silos": SILOS, "n_bins": 5, "random_state": 0}
    drawn = DPCalibrationDisplay.from_estimator(model, X, Y, epsilon=1e4, **given)
    chances = model.predict_proba(X)[:, 1]
    bins = (chances * 5).astype(int)
    hits, sums = (np.bincount(bins, values) for values in (Y == "yes", chances))
    np.testing.assert_allclose(drawn.prob_true, hits / np.bincount(bins), atol=0.01)
    np.testing.assert_allclose(drawn.prob_pred, sums / np.bincount(bins), atol=0.01)
    error = np.abs(hits - sums).sum() / len(X)
    assert drawn.calibration_error == pytest.approx(error, abs=5e-3)
    noisy = DPCalibrationDisplay.from_estimator(model, X, Y, epsilon=1.0, **given)
    assert (noisy.noise > 0).all() and noisy.ax_.get_xlim() == (0, 1)


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_counts_are_as_noisy_as_they_say(model, trust):
    exact = confusion_matrix(Y, model.predict(X))
    given = {"epsilon": 1.0, "silos": SILOS, "trust": trust, "ax": plt.subplots()[1]}
    drawn = [
        DPConfusionMatrixDisplay.from_estimator(model, X, Y, random_state=i, **given)
        for i in range(25)
    ]
    off = np.array([each.confusion_matrix - exact for each in drawn]) / drawn[0].noise
    # 100 normal numbers: beyond these with a chance below 1e-6
    assert 0.65 < off.std() < 1.4
    assert drawn[0].display_labels == ["no", "yes"]
    assert drawn[0].text_[0, 0].get_text() == f"{drawn[0].confusion_matrix[0, 0]:.0f}"


@pytest.mark.parametrize("unit", ["person", "silo"])
def test_counts_of_persons_or_silos_do_not_tell_how_many_rows_these_have(model, unit):
    rows = np.append(np.arange(len(X)), [0] * 9)  # one person, in one silo, has nine rows more
    told = {"unit": unit, "epsilon": 1.0, "delta": 1e-3, "random_state": 0}
    own = {"persons": np.arange(len(X))} if unit == "person" else {}
    drawn = [
        DPConfusionMatrixDisplay.from_estimator(
            model, X[which], Y[which], silos=SILOS[which], ax=plt.subplots()[1], **told,
            **{name: ids[which] for name, ids in own.items()},
        )
        for which in (rows[: len(X)], rows)
    ]  # fmt: skip
    assert drawn[0].noise == drawn[1].noise
    if unit == "person":  # equal rows have their mean, which is rounded
        np.testing.assert_allclose(*(each.confusion_matrix for each in drawn), atol=1e-6)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_a_picture_costs_its_epsilon_and_ledgers_know(model, kind, trust):
    given = {"epsilon": 1.5, "delta": 1e-5, "trust": trust, "silos": SILOS}
    with PrivacyLedger(2.0, 1e-5) as ledger:
        spent = kind.from_estimator(model, X, Y, **given).privacy_spent
        assert spent.epsilon == pytest.approx(1.5, rel=1e-3) and spent.epsilon <= 1.5 + 1e-9
        assert [entry.name for entry in ledger.entries] == [kind.__name__]
        with pytest.raises(BudgetExceeded):
            kind.from_estimator(model, X, Y, **given)
    assert (spent.trust, spent.unit, spent.n_releases) == (
        trust,
        "record",
        3 if kind is BOTH[0] else 1,
    )


class Centred(ClassifierMixin, BaseEstimator):
    """Compares a row with the largest of those beside it."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0] - X[:, 0].max() if len(X) > 1 else X[:, 0]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def mixing():
    """Classifiers whose prediction of a row changes with the rows beside it."""
    clf = ISRLDPClassifier(4.0, feature_bounds=(-1, 1), random_state=0)
    centre = FunctionTransformer(lambda rows: rows - rows.max() if len(rows) > 1 else rows)
    pipe = make_pipeline(centre, clf).fit(X, Y)
    voted = VotingClassifier([("own", Centred())]).fit(X, Y)
    return {"pipeline": pipe, "voted": voted}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pipeline", "voted"])
def test_no_record_changes_what_is_predicted_of_others(name):
    """One record would move all counts otherwise, and the price is that of one count."""
    model = mixing()[name]
    alone = np.concatenate([model.predict(row[None]) for row in X])
    assert (alone != model.predict(X)).mean() > 0.1
    drawn = DPConfusionMatrixDisplay.from_estimator(model, X, Y, epsilon=1e6, random_state=0)
    assert np.abs(drawn.confusion_matrix - confusion_matrix(Y, alone)).max() < 0.5
