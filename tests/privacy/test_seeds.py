"""A seed is said: in what a fit cost, in its picture, and where the same noise is drawn again."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.fixes import parse_version

import skdpfl
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPSimpleImputer, DPStandardScaler

rng = np.random.default_rng(0)
X = rng.uniform(size=(200, 3))
y = (3 * X[:, 0]).astype(int)
SAID = "simulation (seeded)"


def clf(random_state=0, **params):
    params = {"feature_bounds": (0, 1), "n_rounds": 2} | params
    return skdpfl.ISRLDPClassifier(random_state=random_state, **params)


SEEDS = [0, np.random.RandomState(0), np.random.default_rng(0)]


@pytest.mark.parametrize("seed", [*SEEDS, None], ids=str)
def test_a_seed_is_said_in_each_account_of_a_fit(seed):
    seeded = seed is not None
    fitted = clf(seed).fit(X, y)
    assert repr(fitted.privacy_spent_).endswith(f"neighbours='replace', {SAID})") == seeded
    assert (SAID in fitted.summary().to_string()) == seeded
    assert fitted.summary().attrs.get("simulation", "") == (SAID if seeded else "")
    if parse_version(sklearn.__version__) >= parse_version("1.9"):
        assert (SAID in fitted._repr_html_()) == seeded
    again = pickle.loads(pickle.dumps(fitted)).privacy_spent_
    report = skdpfl.privacy.PrivacySpent.from_dict(again.to_dict())
    for spent in (again, report, again + clf(None).fit(X, y).privacy_spent_, again.group(2)):
        assert (SAID in repr(spent)) == seeded


def test_the_seed_of_every_kind_is_said():
    models = [
        DPStandardScaler(random_state=0, feature_bounds=(0, 1)),
        DPSimpleImputer(random_state=0, feature_bounds=(0, 1)),
        SharedBudget(make_pipeline(Normalizer(), clf(None)), random_state=0),
        DPRandomizedSearchCV(clf(None), {"alpha": [0, 1]}, n_iter=2, random_state=0),
    ]
    for model in models:
        spent = model.fit(X, y).privacy_spent_
        assert SAID in repr(spent)
        assert SAID not in repr(model.set_params(random_state=None).fit(X, y).privacy_spent_)
    pipe = make_pipeline(Normalizer(), clf()).fit(X, y)
    assert SAID in repr(skdpfl.privacy_spent(pipe))


AGAIN = {
    "refit": lambda model: model.fit(X, y).fit(X[1:], y[1:]),
    "one label": lambda model: model.fit(X, y).fit(X, np.r_[(y[0] + 1) % 3, y[1:]]),
    "in a pipeline": lambda model: make_pipeline(Normalizer(), model).fit(X, y).fit(X[1:], y[1:]),
    "cross_validate": lambda model: cross_validate(model, X, y, cv=KFold(2)),
    "cross_val_predict": lambda model: cross_val_predict(model, X, y, cv=KFold(2)),
    "of a pipeline": lambda model: cross_validate(
        make_pipeline(Normalizer(), model), X, y, cv=KFold(2)
    ),
    "search": lambda model: GridSearchCV(model, {"alpha": [0]}, cv=KFold(2)).fit(X, y),
    "one against the rest": lambda model: OneVsRestClassifier(model).fit(X, y),
    "several targets": lambda model: MultiOutputClassifier(model).fit(X, np.c_[y, y == 1]),
    "calibration": lambda model: CalibratedClassifierCV(model, cv=KFold(2)).fit(X, y),
    "stack": lambda model: StackingClassifier([("a", model)], clf(1), cv=KFold(2)).fit(X, y),
    "threads": lambda model: OneVsRestClassifier(model, n_jobs=2).fit(X, y),
}


@pytest.mark.parametrize("name", AGAIN)
@pytest.mark.parametrize("seed", [7, None, "generator"], ids=str)
def test_the_same_noise_on_other_records_is_warned_of_once(name, seed):
    given = np.random.default_rng(0) if seed == "generator" else seed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyLeakWarning)
        with sklearn.config_context():
            import joblib

            with joblib.parallel_config("threading"):
                AGAIN[name](clf(given))
    said = [w for w in caught if "with random_state=7 before" in str(w.message)]
    assert len(said) == (seed == 7)
    assert not said or said[0].filename == __file__ or name == "threads"


def test_what_tells_records_apart_says_nothing_of_them():
    """A fitted model keeps it, so it holds no number of the records; and no pickle has it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    model = skdpfl.ISRLDPClassifier(3.0, random_state=0).fit(X, y)
    kept = str({name: value for name, value in vars(model).items() if "marks" in name})
    assert kept != "{}"
    assert str(abs(X.sum()))[:8] not in kept and "(60, 3)" not in kept
    assert not any("marks" in name for name in vars(pickle.loads(pickle.dumps(model))))
