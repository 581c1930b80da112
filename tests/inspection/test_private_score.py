"""Private scores of anything fitted: right, paid for, and moved by one record as priced."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdpfl import ISRLDPClassifier, SiloAdapted
from skdpfl.exceptions import BudgetExceeded, PrivacyLeakWarning
from skdpfl.inspection import DPConfusionMatrixDisplay, private_score
from skdpfl.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 3))
Y = np.where(X @ [2.0, -1.0, 0.0] + RNG.logistic(size=1500) > 1, "yes", "no")
SILOS = np.array(["a", "b", "c"])[np.arange(1500) % 3]
PLAIN = LogisticRegression().fit(X, Y)
OF_LABELS = ["accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score", "roc_auc",
             "average_precision", "calibration_error"]  # fmt: skip


def large(model, X, y, scoring, **given):
    """Return the value for a budget that adds hardly any noise."""
    return float(private_score(model, X, y, scoring=scoring, epsilon=1e6, **given))


@pytest.mark.parametrize("trust", ["silo", "server", "secagg"])
def test_a_list_of_scores_has_one_cost(trust):
    with PrivacyLedger(2.0, 1e-5) as ledger:
        given = {"epsilon": 1.5, "delta": 1e-5, "trust": trust, "silos": SILOS}
        scores = private_score(PLAIN, X, Y, scoring=OF_LABELS, **given)
        assert [entry.name for entry in ledger.entries] == ["private_score"]
        with pytest.raises(BudgetExceeded):
            private_score(PLAIN, X, Y, scoring="accuracy", **given)
    assert list(scores) == OF_LABELS
    spent = scores["accuracy"].privacy_spent
    assert spent is scores["roc_auc"].privacy_spent
    assert spent.epsilon == pytest.approx(1.5, rel=1e-3) and spent.epsilon <= 1.5 + 1e-9
    assert scores["neg_log_loss"].clip == pytest.approx(np.log(100))
    for score in scores.values():
        assert list(score.per_silo.index) == (["a", "b", "c"] if trust == "silo" else [])
        assert np.isfinite([float(score), score.noise]).all() and score.noise > 0


def test_scores_are_those_of_the_records():
    chances = PLAIN.predict_proba(X)[:, 1]
    assert large(PLAIN, X, Y, "accuracy") == pytest.approx(PLAIN.score(X, Y), abs=1e-3)
    area = roc_auc_score(Y == "yes", chances)
    assert large(PLAIN, X, Y, "roc_auc") == pytest.approx(area, abs=0.03)
    line = LinearRegression().fit(X[:, 1:], X[:, 0] + X[:, 1])
    y = np.clip(X[:, 0] + X[:, 1], -4, 4)
    exact = r2_score(y, line.predict(X[:, 1:]))
    r2 = private_score(line, X[:, 1:], y, scoring="r2", epsilon=1e6, target_bounds=(-4, 4))
    assert float(r2) == pytest.approx(exact, abs=0.01)


def test_survival_reads_types_not_values():
    times = RNG.exponential(np.exp(-X[:, 0]))
    frame = pd.DataFrame({"time": np.minimum(times, 2.0), "died": times < 2})
    array = np.array([*zip(frame.died, frame.time, strict=True)], [("e", bool), ("t", float)])
    risk = LinearRegression().fit(X, X[:, 0])
    both = [large(risk, X, y, "concordance", target_bounds=(0, 2), random_state=0)
            for y in (frame, array)]  # fmt: skip
    assert both[0] == both[1] and 0.65 < both[0] < 0.85
    with pytest.raises(ValueError, match="event"):
        large(risk, X, X[:, 0], "concordance", target_bounds=(0, 2))


@pytest.mark.filterwarnings("error")
def test_one_label_has_no_area():
    scores = private_score(PLAIN, X, np.full(1500, "yes"), scoring=OF_LABELS, epsilon=1.0)
    for name in ("roc_auc", "average_precision", "balanced_accuracy"):
        assert np.isnan(float(scores[name])) and scores[name].noise == np.inf
    assert 0 < float(scores["accuracy"]) < 1


class Moody(ClassifierMixin, BaseEstimator):
    """Fails, warns and turns around after a rare record."""

    def fit(self, X, y):
        self.classes_, self.sign = np.unique(y), 1
        return self

    def predict(self, X):
        if (X[:, 0] > 50).any():
            self.sign = -1
            warnings.warn("a rare record", stacklevel=1)
            raise RuntimeError("a rare record")
        return self.classes_[(self.sign * X[:, 0] > 0).astype(int)]


def words(X):
    return pd.DataFrame({"a": X[:, 0], "w": np.where(X[:, 1] > 0, "up", "down")})


def failing():
    """Models, records, and a record at which the model fails."""
    encoder = ColumnTransformer([("w", OneHotEncoder(), ["w"])], remainder="passthrough")
    pipe = make_pipeline(encoder, LogisticRegression()).fit(words(X), Y)
    unknown = words(X)
    unknown.loc[0, "w"] = "sideways"
    rare = X.copy()
    rare[0, 0] = 99
    gap = X.copy()
    gap[0, 0] = np.nan
    imputed = make_pipeline(IterativeImputer(max_iter=1), LogisticRegression()).fit(X, Y)
    return {
        "unknown level": (pipe, words(X), unknown),
        "state": (Moody().fit(X, Y), X, rare),
        "gap": (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y), X, gap),
        "not row-wise": (imputed, X[:300], gap[:300]),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["unknown level", "state", "gap", "not row-wise"])
def test_one_record_moves_a_score_by_one_record(name):
    """Whatever it does: raise, warn, change the model, or be a gap."""
    model, before, after = failing()[name]
    y = Y[: len(before)]
    moved = len(y) * (large(model, before, y, "accuracy") - large(model, after, y, "accuracy"))
    assert abs(moved) < 1.05


def test_what_is_refused_says_why():
    adapted = SiloAdapted(ISRLDPClassifier(feature_bounds=(-4, 4), n_rounds=2).fit(X, Y))
    three = LogisticRegression().fit(X, np.arange(1500) % 3)
    line = DummyRegressor().fit(X, X[:, 0])
    cases = [
        (PLAIN, {"scoring": make_scorer(accuracy_score)}, "function of all records"),
        (PLAIN, {"scoring": "r2"}, "one of accuracy"),
        (PLAIN, {"scoring": ["accuracy", "accuracy"]}, "different names"),
        (PLAIN, {"scoring": "accuracy", "epsilon": 0.0}, "epsilon"),
        (PLAIN, {"scoring": "accuracy", "trust": "nobody"}, "trust"),
        (PLAIN, {"scoring": "accuracy", "unit": "person"}, "persons"),
        (three, {"scoring": "roc_auc"}, "needs two labels; got 3"),
        (line, {"scoring": "r2"}, "target_bounds"),
        (line, {"scoring": "d2_poisson", "target_bounds": (-1, 1)}, "from 0 on"),
        (adapted.fit_heads(X, Y), {"scoring": "accuracy"}, "may not leave the silo"),
    ]
    for model, given, said in cases:
        with pytest.raises(ValueError, match=said):
            private_score(model, X, Y, **{"epsilon": 1.0, **given})
    with pytest.raises(ValueError, match="lacks columns"):
        private_score(PLAIN.__class__().fit(words(X)[["a"]], Y), words(X)[["w"]], Y,
                      scoring="accuracy", epsilon=1.0)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_the_noise_is_that_of_200_draws(trust, name):
    """Of 5,000 records at epsilon 1: right to 20 %, and the area within .03 + 3 noise."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(5000, 3))
    y = np.where(rows @ [2.0, -1.0, 0.0] + rng.logistic(size=5000) > 1, "yes", "no")
    given = {"epsilon": 1.0, "silos": np.arange(5000) % 3, "trust": trust}
    area = roc_auc_score(y == "yes", PLAIN.decision_function(rows))
    scores = [
        private_score(PLAIN, rows, y, scoring=name, random_state=i, **given) for i in range(200)
    ]
    values = np.array([float(score) for score in scores])
    noise = np.mean([score.noise for score in scores])
    # 20 %, and the error of a deviation of 200 draws: beyond 5 of its own 5 %
    assert 0.8 - 0.25 < values.std() / noise < 1.2 + 0.25
    if name == "roc_auc":
        assert (np.abs(values - area) < 0.03 + 3 * noise).mean() > 0.95


def test_a_person_is_one_record_however_many_rows():
    """Replacing a person's rows by any others, in any number, moves a score by one person."""
    persons = np.repeat(np.arange(300), np.arange(300) % 4 + 1)
    rows, y, silos = X[: len(persons)], Y[: len(persons)], persons % 3
    given = {"scoring": "accuracy", "unit": "person", "random_state": 0}
    score = private_score(PLAIN, rows, y, silos=silos, persons=persons, epsilon=1e6, **given)
    assert score.privacy_spent.unit == "person"
    right = pd.Series(PLAIN.predict(rows) == y).groupby(persons).mean()
    assert float(score) == pytest.approx(right.mean(), abs=1e-3)
    wrong = np.where(PLAIN.predict(rows[:50]) == "yes", "no", "yes")
    other = np.r_[rows, rows[:50]], np.r_[y, wrong], np.r_[silos, np.zeros(50, int)]
    moved = private_score(
        PLAIN, *other[:2], silos=other[2], persons=np.r_[persons, np.zeros(50, int)],
        epsilon=1e6, **given,
    )  # fmt: skip
    assert abs(float(moved) - float(score)) <= 1 / 300 + 1e-4
    with pytest.raises(ValueError, match="rows in 2 silos"):
        private_score(PLAIN, rows, y, silos=np.arange(len(y)) % 2, persons=persons,
                      epsilon=1.0, **given)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", [False, True])
def test_scores_of_records_by_a_model_for_persons_warn(wrapped):
    """A score, a display and a threshold: each row of a person is priced by itself."""
    persons, silos = np.arange(len(Y)) // 3, np.arange(len(Y)) // 3 % 3
    model = ISRLDPClassifier(8.0, unit="person", feature_bounds=(-5, 5), random_state=0)
    model.fit(X, Y, silos=silos, persons=persons)
    model = make_pipeline("passthrough", model) if wrapped else model
    given = {"epsilon": 1.0, "silos": silos}
    with pytest.warns(PrivacyLeakWarning, match="priced for single records"):
        private_score(model, X, Y, scoring="accuracy", **given)
    with pytest.warns(PrivacyLeakWarning, match="priced for single records"):
        DPConfusionMatrixDisplay.from_estimator(model, X, Y, **given)
    person = {"unit": "person", "persons": persons} | given
    private_score(model, X, Y, scoring="accuracy", **person)  # warnings are errors
