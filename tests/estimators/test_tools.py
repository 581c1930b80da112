"""What other tools hand in or write out: pyarrow tables, skops files, scikit-learn's own names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdpfl
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.events import Approximate
from tests.estimators.fits import ALL, REGRESSORS, data, make

rng = np.random.default_rng(0)
X = rng.normal(size=(240, 3))
y = (X[:, 0] + rng.normal(size=240) > 0).astype(int)
HOSPITAL = np.array(["north", "south", "west"])[np.arange(240) % 3]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(hospital=HOSPITAL)
OPTIONS = {"epsilon": 5.0, "scaling": None, "n_rounds": 2, "delta": 1e-3, "random_state": 0}


def clf(**more):
    return skdpfl.ISRLDPClassifier(**OPTIONS | more)


# ---- pyarrow ------------------------------------------------------------------------------------


@pytest.fixture
def table():
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.Table.from_pandas(FRAME, preserve_index=False)


def test_a_pyarrow_table_is_as_good_as_a_frame(table):
    frame, arrow = (clf(silo_column="hospital").fit(d, y) for d in (FRAME, table))
    assert np.array_equal(frame.coef_, arrow.coef_)
    assert arrow.feature_names_in_.tolist() == ["a", "b", "c"]
    assert arrow.silo_ids_.tolist() == ["north", "south", "west"]
    assert np.array_equal(frame.predict(FRAME), arrow.predict(table))
    plain = table.drop_columns("hospital")
    assert np.array_equal(arrow.predict(plain), frame.predict(FRAME))
    by_argument = clf().fit(plain, y, silos=table["hospital"])
    assert np.array_equal(by_argument.coef_, frame.coef_)


# ---- scikit-learn's words -----------------------------------------------------------------------

INSTEAD = {
    "C": "alpha",
    "penalty": "alpha",
    "l1_ratio": "alpha",
    "max_iter": "n_rounds",
    "tol": "n_rounds",
    "warm_start": "privacy_spent_",
    "n_epochs": "n_rounds",
    "lr": "learning_rate",
    "bounds": "feature_bounds",
    "data_norm": "feature_bounds",
    "max_grad_norm": "clip_norm",
    "sigma": "noise_multiplier",
    "client_rate": "silo_fraction",
    "target_epsilon": "epsilon",
    "silos": r"fit\(X, y, silos=",
    "clients": r"fit\(X, y, silos=",
    "seed": "random_state",
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("given", INSTEAD)
def test_other_names_get_an_answer(name, given):
    cls = getattr(skdpfl, name)
    words = rf"{name} has no {given} \(got 1\): .*{INSTEAD[given]}"
    with pytest.raises(TypeError, match=words):
        cls(**{given: 1})
    with pytest.raises(ValueError, match=words):
        cls().set_params(**{given: 1})
    with pytest.raises(ValueError, match="Invalid parameter 'bogus'"):
        cls().set_params(bogus=1)
    with pytest.raises(TypeError, match="bogus"):
        cls(bogus=1)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("given", "meant"),
    [("epsilom", "epsilon"), ("n_round", "n_rounds"), ("feature_bound", "feature_bounds")],
)
def test_wrong_spellings_get_the_right_one(name, given, meant):
    cls = getattr(skdpfl, name)
    for call, error in ((cls, TypeError), (cls().set_params, ValueError)):
        with pytest.raises(error, match=f"{name} has no {given}; did you mean {meant}[?]$"):
            call(**{given: 1})


def test_a_unit_is_found_where_it_is():
    with pytest.raises(TypeError, match="the other estimators have a unit"):
        skdpfl.DPFedEXPClassifier(unit="silo")
    with pytest.raises(ValueError, match="unit must be one of 'record', 'person'"):
        clf(unit="silo").fit(X, y)


@pytest.mark.parametrize("epsilon", [51.0, {0: 1.0, 1: 300}])
def test_a_large_epsilon_is_asked_about(epsilon):
    silos = np.arange(len(y)) % 2
    with pytest.warns(UserWarning, match="promises next to nothing. Is it intended"):
        clf(epsilon=epsilon).fit(X, y, silos=silos)
    for fine in (50.0, np.inf, {0: 1.0, 1: np.inf}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "epsilon=.* promises next to nothing")
            clf(epsilon=fine).fit(X, y, silos=silos)


@pytest.mark.parametrize("name", ALL)
def test_there_is_no_partial_fit_and_it_says_why(name):
    estimator = getattr(skdpfl, name)()
    assert not hasattr(estimator, "partial_fit") and not hasattr(type(estimator), "partial_fit")
    with pytest.raises(AttributeError, match=r"no partial_fit.*Fit anew"):
        estimator.partial_fit(X, y)


@pytest.mark.parametrize("name", ALL)
def test_score_points_to_scores_by_silo(name):
    X, y, silos = data(name)
    model = make(name, n_rounds=2, scaling=None).fit(X, y, silos=silos)
    with pytest.raises(TypeError, match=r"silo_scores\(estimator, X, y, silos=\.\.\.\)"):
        model.score(X, y, silos=silos)
    with pytest.raises(TypeError, match="got weights"):
        model.score(X, y, weights=silos)
    first = np.arange(240) < 100
    weighted = model.score(X, y, sample_weight=first)
    assert weighted == pytest.approx(model.score(X[first], y[first]))
    asked = {"sample_weight": None} | ({"exposure": None} if name in REGRESSORS else {})
    assert model.get_metadata_routing().score.requests == asked


def test_a_score_is_the_share_of_labels_that_are_right():
    X, y = np.random.default_rng(0).normal(size=(90, 2)), np.arange(90) % 3
    model = clf(n_rounds=2, scaling=None).fit(X, y)
    right = accuracy_score(y, model.predict(X))
    assert [model.score(X, each) for each in (y, y.tolist(), y.astype(float))] == [right] * 3
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.score(X, y[:80])


def test_sparse_data_are_told_what_they_would_take():
    wide = sparse.csr_array((20_000, 10_000))
    with pytest.raises(TypeError, match=r"1\.6 GB here"):
        clf().fit(wide, np.arange(20_000) % 2)


def test_a_selector_that_takes_the_silo_column_is_told():
    encode = OneHotEncoder(categories=[["north", "south", "west"]], sparse_output=False)
    words = make_column_selector(dtype_exclude=float)
    kept = make_column_selector(pattern=r"^(?!hospital$)", dtype_exclude=float)
    for selector, names in ((words, True), (words, False)):
        step = make_column_transformer(
            (encode, selector), remainder="passthrough", verbose_feature_names_out=names
        ).set_output(transform="pandas")
        with pytest.raises(ValueError, match=r"pattern=r'\^\(\?!hospital\$\)'"):
            make_pipeline(step, clf(silo_column="hospital")).fit(FRAME, y)
    sex = FRAME.assign(sex=np.where(X[:, 1] > 0, "f", "m"))
    encode = OneHotEncoder(categories=[["f", "m"]], sparse_output=False)
    step = make_column_transformer(
        (encode, kept), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    model = make_pipeline(step, clf(silo_column="hospital")).fit(sex, y)
    assert len(model[-1].silo_ids_) == 3 and model[-1].n_features_in_ == 5


# ---- a selection by a private model -------------------------------------------------------------


def test_a_selection_by_a_private_model_costs_what_the_model_did():
    select = SelectFromModel(clf(random_state=1), threshold=-np.inf, max_features=2)
    pipe = make_pipeline(select, clf()).fit(X, y)
    both = pipe[0].estimator_.privacy_spent_ + pipe[1].privacy_spent_
    assert skdpfl.privacy_spent(pipe) == both
    assert 5.0 < both.epsilon < 10.0
    # how many features a threshold keeps follows from the model, and the next plan from that
    pipe.set_params(selectfrommodel__threshold="mean", selectfrommodel__max_features=None)
    cost = skdpfl.privacy_spent(pipe.fit(X, y))
    assert any(isinstance(event, Approximate) for event, _ in cost.costs[0].composition)
    assert cost.epsilon > 5.0


@pytest.mark.parametrize(
    "leak",
    [
        SelectFromModel(LogisticRegression()),
        SelectFromModel(clf(), threshold=-np.inf, max_features=lambda Z: int(Z[0, 0] > 0) + 1),
        SelectFromModel(clf(), importance_getter=lambda model: np.abs(X.mean(axis=0))),
    ],
)
def test_other_selections_are_leaks(leak):
    pipe = make_pipeline(leak, clf(random_state=2)).fit(X, y)
    with pytest.warns(PrivacyLeakWarning):
        assert skdpfl.privacy_spent(pipe).epsilon == np.inf
