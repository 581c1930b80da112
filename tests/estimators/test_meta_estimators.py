"""What works with silos inside scikit-learn's meta-estimators: the table of docs/silos.md."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import ensemble, model_selection
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer, DPStandardScaler

X, y = load_breast_cancer(return_X_y=True)
X, y = X[:160, :4] / X[:160, :4].max(axis=0), y[:160]
BOTH = np.c_[y, 1 - y]
SILOS = np.array(["a", "b", "c", "d"])[np.arange(160) % 4]
FRAME = pd.DataFrame(X).add_prefix("x").assign(hospital=SILOS)


def clf(**params):
    return ISRLDPClassifier(epsilon=1.0, scaling=None, n_rounds=2, delta=1e-4, **params)


def reg(**params):
    return ISRLDPRegressor(epsilon=1.0, scaling=None, n_rounds=2, delta=1e-4, **params)


def fit(meta, key="silos", target=y):
    """Return a function (data, silos, column) that fits; silos are passed under ``key``."""

    def call(data, silos, column):
        return meta(column).fit(data, target, **({} if silos is None else {key: silos}))

    return call


def tool(function, **more):
    """The same for a function that fits on splits."""

    def call(data, silos, column):
        params = None if silos is None else {"silos": silos}
        return function(clf(silo_column=column), data, y, cv=2, params=params, **more)

    return call


CLIPS = {"clip_norm": [0.5, 1.0]}
search = fit(lambda column: model_selection.GridSearchCV(clf(silo_column=column), CLIPS, cv=2))


def importance(data, silos, column):
    model = clf(silo_column=column).fit(data, y, **({} if silos is None else {"silos": silos}))
    return permutation_importance(model, data, y, n_repeats=1)


def pipeline(column):
    """Keeps frames, so that the silo column reaches the last step."""
    keep = ColumnTransformer(
        [("unit", Normalizer(), ["x0", "x1", "x2", "x3"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    first = Normalizer() if column is None else keep.set_output(transform="pandas")
    return make_pipeline(first, clf(silo_column=column))


def select(data, silos, column):
    model = SelectFromModel(clf(silo_column=column), max_features=2, threshold=-np.inf)
    return model.fit(data, y, **({} if silos is None else {"silos": silos})).transform(data)


def meta(make, target=y):
    return fit(lambda column: make(clf(silo_column=column)), target=target)


def search_pipeline(make):
    """A search over a step's parameter of the pipeline above."""
    return fit(lambda column: make(pipeline(column), {"isrldpclassifier__clip_norm": [0.5, 1.0]}))


def scaled(column):
    scaler = DPStandardScaler(silo_column=column, feature_bounds=(0, 1))
    return make_pipeline(scaler.set_output(transform="pandas"), clf(silo_column=column))


def encoded(column):
    """Words and numbers, each part with the silos, which the encoder's part does not give out."""
    own = {"silo_column": column, "keep_silo_column": False}
    beside = [] if column is None else [column]
    columns = ColumnTransformer(
        [
            ("num", DPSimpleImputer(50.0, feature_bounds=(0, 1), **own), ["x0", "x1", *beside]),
            ("cat", DPOneHotEncoder(50.0, **own), ["ward", *beside]),
            *([("silo", "passthrough", beside)] if beside else []),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    return make_pipeline(columns, clf(silo_column=column))


def with_words(make):
    """A fit on a frame that has a column of words."""

    def call(data, silos, column):
        frame = pd.DataFrame(data, columns=FRAME.columns[: np.shape(data)[1]])
        return fit(make)(frame.assign(ward=WARDS), silos, column)

    return call


def shared(column):
    return SharedBudget(encoded(column), epsilon=100.0, shares=SHARES)


#: two words, frequent in every silo
WARDS = np.where(np.arange(160) % 8 < 4, "heart", "lung")
SHARES = {"columntransformer__num": 0.3, "columntransformer__cat": 0.3}
OK = None
ROUTING = "enable_metadata_routing=True"
FRAME_LOST = "could not convert string to float|needs a DataFrame"

#: name -> (call, silos= with routing off, silos= with routing on, silo_column); OK or the error
TABLE = {
    "Pipeline": (fit(pipeline), "stepname__parameter", OK, OK),
    "Pipeline, step__silos": (fit(pipeline, "isrldpclassifier__silos"), OK, "unexpected", OK),
    "DPStandardScaler in a Pipeline": (fit(scaled), "stepname__parameter", OK, OK),
    "DPSimpleImputer and DPOneHotEncoder in a ColumnTransformer": (
        with_words(encoded),
        "stepname__parameter",
        OK,
        OK,
    ),
    "SharedBudget of a Pipeline": (with_words(shared), OK, OK, OK),
    "GridSearchCV": (search, OK, OK, OK),
    "GridSearchCV of a Pipeline": (
        search_pipeline(lambda pipe, grid: model_selection.GridSearchCV(pipe, grid, cv=2)),
        "stepname__parameter",
        OK,
        OK,
    ),
    "DPRandomizedSearchCV, also of a Pipeline": (
        search_pipeline(lambda pipe, grid: DPRandomizedSearchCV(pipe, grid, n_iter=2, epsilon=4.0)),
        OK,
        OK,
        OK,
    ),
    "cross_validate": (tool(model_selection.cross_validate), OK, OK, OK),
    "cross_val_predict": (tool(model_selection.cross_val_predict), OK, OK, OK),
    "learning_curve": (tool(model_selection.learning_curve, train_sizes=[0.5, 1]), OK, OK, OK),
    "validation_curve": (
        tool(model_selection.validation_curve, param_name="clip_norm", param_range=[0.5, 1.0]),
        OK,
        OK,
        OK,
    ),
    "permutation_test_score": (
        tool(model_selection.permutation_test_score, n_permutations=2),
        OK,
        OK,
        OK,
    ),
    "permutation_importance": (importance, OK, OK, OK),
    "CalibratedClassifierCV": (meta(lambda m: CalibratedClassifierCV(m, cv=2)), OK, OK, OK),
    "TransformedTargetRegressor": (
        fit(
            lambda column: TransformedTargetRegressor(
                reg(silo_column=column), func=np.log1p, inverse_func=np.expm1
            )
        ),
        OK,
        OK,
        OK,
    ),
    "MultiOutputRegressor": (
        fit(lambda column: MultiOutputRegressor(reg(silo_column=column)), target=np.c_[y, y]),
        OK,
        OK,
        OK,
    ),
    "MultiOutputClassifier": (meta(MultiOutputClassifier, BOTH), OK, OK, OK),
    "FixedThresholdClassifier": (
        meta(lambda m: model_selection.FixedThresholdClassifier(m, threshold=0.4)),
        ROUTING,
        OK,
        OK,
    ),
    "RFE": (meta(lambda m: RFE(m, n_features_to_select=2)), OK, OK, FRAME_LOST),
    "OneVsRestClassifier": (meta(OneVsRestClassifier), ROUTING, OK, OK),
    "OneVsOneClassifier": (meta(OneVsOneClassifier), ROUTING, OK, FRAME_LOST),
    "ClassifierChain": (meta(ClassifierChain, BOTH), ROUTING, OK, FRAME_LOST),
    "SelectFromModel": (select, OK, OK, "feature names should match"),
    "VotingClassifier": (meta(lambda m: ensemble.VotingClassifier([("a", m)])), ROUTING, OK, OK),
    "TunedThresholdClassifierCV": (
        meta(lambda m: model_selection.TunedThresholdClassifierCV(m, cv=2)),
        ROUTING,
        OK,
        OK,
    ),
    "StackingClassifier": (
        meta(lambda m: ensemble.StackingClassifier([("a", m)], cv=2)),
        ROUTING,
        "unexpected keyword argument 'silos'",
        OK,
    ),
    "BaggingClassifier": (
        meta(lambda m: ensemble.BaggingClassifier(m, n_estimators=2)),
        ROUTING,
        OK,
        FRAME_LOST,
    ),
    "SequentialFeatureSelector": (
        meta(lambda m: SequentialFeatureSelector(m, n_features_to_select=2, cv=2)),
        ROUTING,
        OK,
        FRAME_LOST,
    ),
    "AdaBoostClassifier": (
        meta(lambda m: ensemble.AdaBoostClassifier(m, n_estimators=2)),
        "unexpected keyword argument 'silos'",
        "unexpected keyword argument 'silos'",
        FRAME_LOST,
    ),
}
MODES = ("silos, routing off", "silos, routing on", "silo_column")
PAGE = Path(__file__).parents[2] / "docs" / "silos.md"


@pytest.mark.parametrize("mode", range(3), ids=MODES)
@pytest.mark.parametrize("name", TABLE)
def test_the_table(name, mode):
    call, *expected = TABLE[name]
    data = (FRAME, None, "hospital") if mode == 2 else (X, SILOS, None)
    with sklearn.config_context(enable_metadata_routing=mode == 1):
        if expected[mode] is OK:
            call(*data)
        else:
            with pytest.raises((ValueError, TypeError), match=expected[mode]):
                call(*data)


@pytest.mark.parametrize("name", TABLE)
def test_the_page_says_the_same(name):
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |"))
    cells = [cell.strip() for cell in row.split("|")[2:5]]
    assert [cell.startswith("yes") for cell in cells] == [e is OK for e in TABLE[name][1:]]


def test_silos_reach_every_fit_of_a_search():
    grid = search(X, SILOS, None)
    assert grid.best_estimator_.silo_ids_.tolist() == ["a", "b", "c", "d"]


def test_with_routing_on_an_alias_is_honoured():
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(Normalizer(), clf().set_fit_request(silos="hospital"))
        assert model.fit(X, y, hospital=SILOS)[-1].silo_ids_.tolist() == ["a", "b", "c", "d"]
