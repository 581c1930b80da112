"""A whole pipeline, or a shared budget, is one JSON that predicts again."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import skdpfl
from skdpfl import ISRLDPClassifier
from skdpfl.model_selection import SharedBudget
from skdpfl.preprocessing import DPMinMaxScaler, DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from tests.model_selection.test_shared_budget import BOUNDS, FRAME, SILOS, Y

NUMBERS = ["age", "dose"]
WORDS = pd.DataFrame({"region": FRAME.region, "plan": np.where(FRAME.dose > 5, 3, 7)})
KEPT = {"silo_column": "hospital", "keep_silo_column": False}


def parts(*numbers, **how):
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(*numbers), NUMBERS),
            ("words", DPOneHotEncoder(3.0), ["region"]),
        ],
        **how,
    )


IMPUTER = DPSimpleImputer(feature_bounds=BOUNDS)
LAST = ISRLDPClassifier(feature_bounds=(-100, 100), n_rounds=3)
MODELS = {
    "scaled": (make_pipeline(DPStandardScaler(), LAST), FRAME[NUMBERS].fillna(50)),
    "columns": (make_pipeline(parts(IMPUTER, DPMinMaxScaler()), LAST), FRAME),
    "prefixed": (
        make_pipeline(parts(IMPUTER, verbose_feature_names_out=False), LAST).set_output(
            transform="pandas"
        ),
        FRAME,
    ),
    "words": (
        make_pipeline(DPSimpleImputer(strategy="most_frequent"), DPOneHotEncoder(3.0), LAST),
        WORDS,
    ),
    "silos": (
        make_pipeline(
            ColumnTransformer(
                [
                    ("words", DPOneHotEncoder(3.0, **KEPT), ["region", "hospital"]),
                    ("silo", "passthrough", ["hospital"]),
                ],
                verbose_feature_names_out=False,
            ).set_output(transform="pandas"),
            ISRLDPClassifier(silo_column="hospital", n_rounds=3, feature_bounds=(0, 1)),
        ),
        FRAME[["region"]].assign(hospital=SILOS),
    ),
    "raw": (ISRLDPClassifier(feature_bounds=BOUNDS, n_rounds=3), FRAME),
}


WIDE = {
    "kind": "ColumnTransformer", "prefixed": True, "output": None, "n_features": 2 * 10**6,
    "feature_names": None, "parts": [["one", "passthrough", [0]]],
}  # fmt: skip


def saved(model):
    return skdpfl.from_dict(json.loads(json.dumps(skdpfl.to_dict(model), allow_nan=False)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shared", [False, True])
def test_it_predicts_again(name, shared):
    model, X = MODELS[name]
    if shared and name == "raw":
        pytest.skip("a shared budget is for pipelines")
    model = SharedBudget(model, epsilon=8.0) if shared else model
    model.fit(X, Y)
    again = saved(model)
    new = X.sample(200, random_state=0)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
    assert skdpfl.to_dict(again) == skdpfl.to_dict(model)
    if shared or name == "raw":
        assert again.privacy_spent_.to_dict() == model.privacy_spent_.to_dict()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_not_known_is_refused_by_name():
    squared = make_pipeline(PolynomialFeatures(), LAST).fit(FRAME[NUMBERS].fillna(0), Y)
    with pytest.raises(ValueError, match="polynomialfeatures: a PolynomialFeatures cannot be"):
        skdpfl.to_dict(squared)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_files_raise_errors():
    plain = skdpfl.to_dict(MODELS["columns"][0].fit(FRAME, Y))
    words = plain["steps"][0][1]["parts"][1][1]
    for field, value in [
        ("kind", "PolynomialFeatures"), ("categories", [["a", "a"]]), ("categories", [[[1]]]),
        ("found", [[float("nan")]]), ("n_features", 0), ("kinds", ["word"]), ("kinds", [["flag"]]),
        ("passed", [1]), ("output", "paper"), ("privacy_spent", {}),
    ]:  # fmt: skip
        kept, words[field] = words[field], value
        with pytest.raises(ValueError):
            skdpfl.from_dict(plain)
        words[field] = kept
    for part in (None, {"kind": "Pipeline", "steps": []}):
        plain["steps"][0][1]["parts"][1][1] = part
        with pytest.raises(ValueError, match="step"):
            skdpfl.from_dict(plain)
    plain["steps"][0][1]["parts"][1][1] = words
    skdpfl.from_dict(plain)
    with pytest.raises(ValueError, match="n_features is above"):
        skdpfl.from_dict(plain | {"steps": [["columns", WIDE]]})
    with pytest.raises(ValueError, match="step is unknown"):
        skdpfl.from_dict(plain | {"steps": [["columns", "drop"]]})
    with pytest.raises(ValueError, match="names no estimator"):
        skdpfl.from_dict({})
