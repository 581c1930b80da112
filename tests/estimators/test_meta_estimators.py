"""What works with silos inside scikit-learn's meta-estimators: the table of docs/silos.md."""

from functools import partial
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


def meta(make, target=y, kind=clf):
    return fit(lambda column: make(kind(silo_column=column)), target=target)


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
ROUTING = "enable_metadata_routing=True"
LOST = "could not convert string to float|needs a DataFrame"
UNEXPECTED = "unexpected keyword argument 'silos'"

TABLE = {
    "Pipeline": fit(pipeline),
    "Pipeline, step__silos": fit(pipeline, "isrldpclassifier__silos"),
    "DPStandardScaler in a Pipeline": fit(scaled),
    "DPSimpleImputer and DPOneHotEncoder in a ColumnTransformer": with_words(encoded),
    "SharedBudget of a Pipeline": with_words(shared),
    "GridSearchCV": search,
    "GridSearchCV of a Pipeline": search_pipeline(partial(model_selection.GridSearchCV, cv=2)),
    "DPRandomizedSearchCV, also of a Pipeline": search_pipeline(
        partial(DPRandomizedSearchCV, n_iter=2, epsilon=4.0)
    ),
    "cross_validate": tool(model_selection.cross_validate),
    "cross_val_predict": tool(model_selection.cross_val_predict),
    "learning_curve": tool(model_selection.learning_curve, train_sizes=[0.5, 1]),
    "validation_curve": tool(
        model_selection.validation_curve, param_name="clip_norm", param_range=[0.5, 1.0]
    ),
    "permutation_test_score": tool(model_selection.permutation_test_score, n_permutations=2),
    "permutation_importance": importance,
    "CalibratedClassifierCV": meta(lambda m: CalibratedClassifierCV(m, cv=2)),
    "TransformedTargetRegressor": meta(
        lambda m: TransformedTargetRegressor(m, func=np.log1p, inverse_func=np.expm1), kind=reg
    ),
    "MultiOutputRegressor": meta(MultiOutputRegressor, np.c_[y, y], reg),
    "MultiOutputClassifier": meta(MultiOutputClassifier, BOTH),
    "FixedThresholdClassifier": meta(
        lambda m: model_selection.FixedThresholdClassifier(m, threshold=0.4)
    ),
    "RFE": meta(lambda m: RFE(m, n_features_to_select=2)),
    "OneVsRestClassifier": meta(OneVsRestClassifier),
    "OneVsOneClassifier": meta(OneVsOneClassifier),
    "ClassifierChain": meta(ClassifierChain, BOTH),
    "SelectFromModel": select,
    "VotingClassifier": meta(lambda m: ensemble.VotingClassifier([("a", m)])),
    "TunedThresholdClassifierCV": meta(
        lambda m: model_selection.TunedThresholdClassifierCV(m, cv=2)
    ),
    "StackingClassifier": meta(lambda m: ensemble.StackingClassifier([("a", m)], cv=2)),
    "BaggingClassifier": meta(lambda m: ensemble.BaggingClassifier(m, n_estimators=2)),
    "SequentialFeatureSelector": meta(
        lambda m: SequentialFeatureSelector(m, n_features_to_select=2, cv=2)
    ),
    "AdaBoostClassifier": meta(lambda m: ensemble.AdaBoostClassifier(m, n_estimators=2)),
}
#: the error of each mode in which one does not work: all others do
REFUSED = {
    "Pipeline": {0: "stepname__parameter"},
    "Pipeline, step__silos": {1: "unexpected"},
    "DPStandardScaler in a Pipeline": {0: "stepname__parameter"},
    "DPSimpleImputer and DPOneHotEncoder in a ColumnTransformer": {0: "stepname__parameter"},
    "GridSearchCV of a Pipeline": {0: "stepname__parameter"},
    "FixedThresholdClassifier": {0: ROUTING},
    "RFE": {2: LOST},
    "OneVsRestClassifier": {0: ROUTING},
    "OneVsOneClassifier": {0: ROUTING, 2: LOST},
    "ClassifierChain": {0: ROUTING, 2: LOST},
    "SelectFromModel": {2: "feature names should match"},
    "VotingClassifier": {0: ROUTING},
    "TunedThresholdClassifierCV": {0: ROUTING},
    "StackingClassifier": {0: ROUTING, 1: UNEXPECTED},
    "BaggingClassifier": {0: ROUTING, 2: LOST},
    "SequentialFeatureSelector": {0: ROUTING, 2: LOST},
    "AdaBoostClassifier": {0: UNEXPECTED, 1: UNEXPECTED, 2: LOST},
}
MODES = ("silos, routing off", "silos, routing on", "silo_column")
PAGE = Path(__file__).parents[2] / "docs" / "silos.md"


@pytest.mark.parametrize("mode", range(3), ids=MODES)
@pytest.mark.parametrize("name", TABLE)
def test_the_table(name, mode):
    call, error = TABLE[name], REFUSED.get(name, {}).get(mode)
    data = (FRAME, None, "hospital") if mode == 2 else (X, SILOS, None)
    with sklearn.config_context(enable_metadata_routing=mode == 1):
        if error is None:
            call(*data)
        else:
            with pytest.raises((ValueError, TypeError), match=error):
                call(*data)


@pytest.mark.parametrize("name", TABLE)
def test_the_page_says_the_same(name):
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |"))
    cells = [cell.strip() for cell in row.split("|")[2:5]]
    assert [cell.startswith("yes") for cell in cells] == [
        mode not in REFUSED.get(name, {}) for mode in range(3)
    ]


def test_silos_reach_every_fit_of_a_search():
    grid = search(X, SILOS, None)
    assert grid.best_estimator_.silo_ids_.tolist() == ["a", "b", "c", "d"]


def test_with_routing_on_an_alias_is_honoured():
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(Normalizer(), clf().set_fit_request(silos="hospital"))
        assert model.fit(X, y, hospital=SILOS)[-1].silo_ids_.tolist() == ["a", "b", "c", "d"]
