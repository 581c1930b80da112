"""A fitted linear model as JSON: the same predictions, no code, and damaged files are errors."""

import json

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl import DPFedAvgRegressor, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.exceptions import UnseenSiloWarning
from skdpfl.losses import Quantile
from skdpfl.models import MLP, Additive

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
SILOS = np.repeat(["north", "south", "west"], 40)
LINE = X @ [1.0, -1.0, 0.5]
BOUNDS = {"feature_bounds": (-3, 3)}
CURVED = {"model": Additive(knots=8, interactions=True), "epsilon": 30.0}
MODELS = {
    "two labels": (ISRLDPClassifier(3.0, random_state=0, **BOUNDS), np.where(LINE > 0, "b", "a")),
    "three labels": (ISRLDPClassifier(3.0, random_state=0), np.digitize(LINE, [-0.5, 0.5])),
    "hinge": (ISRLDPClassifier(3.0, loss="hinge", random_state=0, **BOUNDS), LINE > 0),
    "clipped": (ISRLDPClassifier(3.0, clip_features=True, random_state=0, **BOUNDS), LINE > 0),
    "one ignored": (
        ISRLDPClassifier(3.0, random_state=0, feature_bounds={0: (3, 3), 1: (-3, 3), 2: (-3, 3)}),
        LINE > 0,
    ),
    "squashed": (ISRLDPClassifier(0.1, random_state=0), LINE > 0),
    "unscaled": (ISRLDPClassifier(3.0, scaling=None, random_state=0), LINE > 0),
    "no intercept": (ISRLDPClassifier(3.0, fit_intercept=False, random_state=0), LINE > 0),
    "numbers": (ISRLDPRegressor(3.0, target_bounds=(-9, 9), random_state=0, **BOUNDS), LINE),
    "counts": (
        ISRLDPRegressor(3.0, loss="poisson", target_bounds=(0, 9), random_state=0, **BOUNDS),
        np.rint(np.abs(LINE)),
    ),
    "quantile": (
        DPFedAvgRegressor(
            3.0, loss=Quantile(0.9), target_bounds=(-9, 9), clip_features=True,
            random_state=0, **BOUNDS,
        ),
        LINE,
    ),
    "curves": (ISRLDPClassifier(random_state=0, **CURVED, **BOUNDS), LINE > 0),
    "curves of classes, clipped": (
        ISRLDPClassifier(random_state=0, clip_features=True, **CURVED, **BOUNDS),
        np.digitize(LINE, [-0.5, 0.5]),
    ),
    "curves of numbers": (
        ISRLDPRegressor(target_bounds=(-9, 9), random_state=0, **CURVED, **BOUNDS), LINE
    ),
}  # fmt: skip


def fitted(name, dtype=float):
    model, y = MODELS[name]
    return model.fit(X.astype(dtype), y, silos=SILOS)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_price_are_the_same_bit_for_bit(name, dtype):
    model = fitted(name, dtype)
    text = json.dumps(model.to_dict(), allow_nan=False)
    again = type(model).from_dict(json.loads(text))
    rows = (4 * X).astype(dtype)
    for method in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, method):
            ours, theirs = getattr(model, method)(rows), getattr(again, method)(rows)
            assert ours.dtype == theirs.dtype and (ours == theirs).all()
    assert again.privacy_spent_.epsilon == model.privacy_spent_.epsilon
    assert again.silo_ids_.tolist() == ["north", "south", "west"]
    assert skdpfl.privacy_spent(again).epsilon == model.privacy_spent_.epsilon


@pytest.mark.parametrize("ids", [[2**64, 2**65], [("a", 1), ("b", 1)], [1, True]])
def test_ids_of_any_kind_come_back(ids):
    frame = pd.DataFrame(X, columns=list("abc")).assign(silo=pd.Series(ids * 60, dtype=object))
    model = ISRLDPClassifier(3.0, silo_column="silo", random_state=0, **BOUNDS)
    plain = json.loads(json.dumps(model.fit(frame, X[:, 0] > 0).to_dict()))
    again = ISRLDPClassifier.from_dict(plain)
    assert again.silo_ids_.tolist() == model.silo_ids_.tolist()
    again.predict(frame)
    with pytest.warns(UnseenSiloWarning, match="elsewhere"):
        again.predict(frame.assign(silo="elsewhere"))


WRONG = {"pilot": [1.0], "curvature": "x", "offsets": [0.0], "each": [1], "dispersion": 10**400}


@pytest.mark.parametrize("covariance", ["model", "robust", "silos"])
def test_intervals_come_along(covariance):
    rows = np.random.default_rng(1).normal(size=(6000, 3))
    y, silos = rows @ [1.0, -1.0, 0.0] > 0, np.arange(6000) % 30
    own = {"inference": "intervals", "covariance": covariance, **BOUNDS}
    model = ISRLDPClassifier(20.0, random_state=0, **own).fit(rows, y, silos=silos)
    plain = json.loads(json.dumps(model.to_dict(), allow_nan=False))
    again = ISRLDPClassifier.from_dict(plain)
    pd.testing.assert_frame_equal(again.summary(0.9), model.summary(0.9))
    assert np.isfinite(again.summary()["lower"]).any() and again.inference == "intervals"
    weights = {"x0": 1, "x1": -1}
    pd.testing.assert_series_equal(again.contrast(weights), model.contrast(weights))
    assert (again.coef_covariance_ == model.coef_covariance_).all()
    for name, value in WRONG.items():
        wrong = plain | {"intervals": plain["intervals"] | {name: value}}
        with pytest.raises(ValueError, match=r"intervals|offsets|each"):
            ISRLDPClassifier.from_dict(wrong)


def test_the_formula_of_the_page_needs_no_library():
    model = fitted("clipped")
    plain = json.loads(json.dumps(model.to_dict()))
    rows = 4 * X
    z = np.clip(rows, *plain["limits"])
    raw = z @ np.array(plain["coef"]).T + plain["intercept"]
    labels = np.array(plain["classes"])[(raw[:, 0] > 0).astype(int)]
    assert plain["map"] == "limits"
    assert (labels == model.predict(rows)).all()


def curve_columns(plain, rows):
    """The columns of an additive model, as the page says."""
    c = plain["curves"]
    values, more = rows.copy(), []
    for curve in c["each"]:
        j, edges = curve["feature"], np.array(curve["edges"])
        values[:, j] = x = np.clip(rows[:, j], c["low"][j], c["high"][j])
        inner = edges[(edges < edges[-1]).nonzero()][1:]  # cells at the upper end may have no width
        cell = (np.float32(x)[:, None] >= np.float32(inner)).sum(axis=1)
        middle = ((edges[:-1] + edges[1:]) / 2)[cell]
        place = (middle[:, None] >= np.array(curve["cuts"])).sum(axis=1)
        more.append(np.interp(middle, curve["knots"], curve["heights"]))
        more += [np.array(curve["bins"])[place] == k for k in range(c["n_bins"])]
    u = np.clip((rows - c["center"]) / c["scale"], -3, 3)
    more += [u[:, a] * u[:, b] for a, b in c["pairs"]]
    return np.column_stack([values, *more])


def test_the_formula_of_the_page_gives_curves_as_well():
    model = fitted("curves")
    plain = json.loads(json.dumps(model.to_dict()))
    assert np.any(np.array(plain["coef"])[:, X.shape[1] :])  # or columns could be anything
    z = curve_columns(plain, 4 * X) - plain["curves"]["means"]
    raw = z @ np.array(plain["coef"]).T + plain["intercept"]
    np.testing.assert_allclose(raw[:, 0], model.decision_function(4 * X), rtol=1e-12)
    assert plain["schema"] == "skdpfl.AdditiveModel"
    again = ISRLDPClassifier.from_dict(plain)
    ours, theirs = model.shape_functions_["x0"], again.shape_functions_["x0"]
    assert np.array_equal(ours[["from", "to", "value"]], theirs[["from", "to", "value"]])
    assert np.array_equal(model.interactions_["coefficient"], again.interactions_["coefficient"])
    assert list(again.summary()["coefficient"]) == list(model.summary()["coefficient"])


@pytest.mark.every
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "model.version must be 1"),
        ({"estimator": "ISRLDPRegressor"}, "model.estimator must be 'ISRLDPClassifier'"),
        ({"coef": [[1.0, 2.0]]}, "coef is not a list of 3 finite numbers"),
        ({"coef": [[1.0, "2", 3.0]]}, "coef is not a list of 3 finite numbers"),
        ({"coef": [[1.0, 2.0, 10**400]]}, "coef is not a list of 3 finite numbers"),
        ({"intercept": [float("nan")]}, "intercept is not a list"),
        ({"classes": ["a"]}, "classes must be two labels"),
        ({"classes": ["a", ["b"]]}, "classes must be two labels"),
        ({"parameters": None}, "saved model is damaged"),
        ({"silo_ids": [{}]}, "silo_ids are no ids"),
        ({"feature_names": ["a"]}, "feature_names are 1, not 3"),
        ({"map": "cube"}, "model.map must be one of"),
        ({"limits": None}, "limits must be a pair for map 'limits'"),
        ({"loss": "mine"}, "model.loss must be one of"),
        ({"more": 1}, "lacks, or should not have, more"),
    ],
)
def test_damaged_data_are_errors_that_name_the_field(change, words):
    plain = fitted("two labels").to_dict() | change
    with pytest.raises(ValueError, match=words):
        ISRLDPClassifier.from_dict(plain)


def test_what_is_not_linear_says_so():
    y = MODELS["two labels"][1]
    network = ISRLDPClassifier(3.0, model=MLP((4,)), random_state=0, **BOUNDS)
    with pytest.raises(ValueError, match="Only linear models can be written"):
        network.fit(X, y, silos=SILOS).to_dict()
