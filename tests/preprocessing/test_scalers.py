"""The scalers in scikit-learn's world."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpfl.preprocessing import DPMinMaxScaler, DPSplineTransformer, DPStandardScaler

SCALERS = [
    DPStandardScaler(),
    DPStandardScaler(feature_bounds=(-10, 10)),
    DPMinMaxScaler(),
    DPMinMaxScaler(feature_bounds=(-10, 10)),
    DPSplineTransformer(feature_bounds=(-10, 10)),
]


@pytest.mark.filterwarnings("ignore:The scales of:UserWarning", "ignore:The values of:UserWarning")
@parametrize_with_checks(SCALERS)
def test_scikit_learn(estimator, check):
    check(estimator)


N = 3000
RNG = np.random.default_rng(0)
X = RNG.normal([40, -3, 0.02], [12, 1, 0.004], (N, 3))
SILOS = RNG.choice(["east", "north", "west"], N)
BOUNDS = ([0, -10, 0], [100, 10, 0.1])
NAMES = ["age", "score", "dose"]
BOTH = [DPStandardScaler, DPMinMaxScaler]


def frame(kind="pandas"):
    columns = {"age": X[:, 0], "hospital": SILOS, "score": X[:, 1], "dose": X[:, 2]}
    return (
        pd.DataFrame(columns, index=np.arange(N) + 7) if kind == "pandas" else pl.DataFrame(columns)
    )


@pytest.mark.parametrize("bounds", [None, BOUNDS], ids=["without", "with"])
@pytest.mark.parametrize("silos", [None, SILOS], ids=["one", "three"])
def test_standardised_features_have_unit_scale(bounds, silos):
    scaler = DPStandardScaler(feature_bounds=bounds, random_state=0).fit(X, silos=silos)
    Z = scaler.transform(X)
    assert np.abs(Z.mean(axis=0)).max() < 0.5
    assert Z.std(axis=0).min() > 0.5 and Z.std(axis=0).max() < 2
    np.testing.assert_allclose(scaler.inverse_transform(Z), X)
    np.testing.assert_allclose(scaler.var_, scaler.scale_**2)


def test_values_are_found_wherever_in_an_octave_they_lie():
    """Counts tell the octave only: of 1024 to 2048 years are the end, and days 16384 to 32768."""
    low, high = np.array([[1970, 16_440, 130, -1100], [2020, 18_440, 150, -1030]], float)
    data = np.random.default_rng(0).uniform(low, high, (20_000, 4))
    scaler = DPStandardScaler(8.0, random_state=0).fit(data)
    assert np.abs(scaler.transform(data).mean(axis=0)).max() < 0.1
    np.testing.assert_allclose(scaler.scale_, data.std(axis=0), rtol=0.1)


def test_declared_ranges_cost_nothing_and_do_not_depend_on_the_data():
    one, two = (DPMinMaxScaler(feature_bounds=BOUNDS).fit(data) for data in (X, X[:20] * 1e6))
    np.testing.assert_array_equal(one.data_min_, two.data_min_)
    np.testing.assert_array_equal(one.data_max_, BOUNDS[1])
    assert one.privacy_spent_.epsilon == 0 == one.privacy_spent_.n_releases


@pytest.mark.parametrize("scaler", BOTH)
@pytest.mark.parametrize("epsilon", [0.1, 1, 10.0])
def test_the_budget_is_spent_and_not_overspent(scaler, epsilon):
    spent = scaler(epsilon, delta=1e-6, random_state=0).fit(X, silos=SILOS).privacy_spent_
    assert 0.99 * epsilon <= spent.epsilon <= epsilon
    assert (spent.delta, spent.unit, spent.trust, spent.neighbours) == (
        1e-6,
        "record",
        "silo",
        "replace",
    )
    assert list(spent.per_silo.index) == ["east", "north", "west"]
    assert spent.simulation_seeds == {0}


def test_without_privacy_they_are_scikit_learns():
    free = DPStandardScaler(np.inf).fit(X, silos=SILOS)
    np.testing.assert_allclose(free.transform(X), StandardScaler().fit_transform(X), atol=1e-9)
    assert free.privacy_spent_.epsilon == np.inf
    np.testing.assert_allclose(
        DPMinMaxScaler(np.inf).fit_transform(X), MinMaxScaler().fit_transform(X), atol=1e-9
    )


@pytest.mark.filterwarnings("ignore:The values of feature:UserWarning")
@pytest.mark.parametrize("scaler", BOTH)
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_value_does_not_make_others_infinite_or_the_fit_fail(scaler, epsilon, dtype):
    extreme = X.astype(dtype)
    extreme[0, 0] = np.finfo(dtype).max
    for many in (extreme, np.where([True, False, False], extreme[0, 0], extreme)):
        mapped = scaler(epsilon, random_state=0).fit(many, silos=SILOS).transform(many)
        assert np.isfinite(mapped).all() and mapped.dtype == dtype


def test_missing_values_pass_through():
    bad = X.copy()
    bad[5, 0], bad[6, 1] = np.nan, np.inf
    Z = DPStandardScaler(random_state=0).fit_transform(bad)
    assert np.isnan(Z[5, 0]) and np.isinf(Z[6, 1]) and np.isfinite(Z).sum() == Z.size - 2


@pytest.mark.parametrize("scaler", BOTH)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_silo_column_passes_untouched_in_its_place(scaler, kind):
    data = frame(kind)
    fitted = scaler(silo_column="hospital", random_state=0).fit(data)
    out = fitted.transform(data)
    assert type(out) is type(data) and list(out.columns) == list(data.columns)
    assert list(fitted.get_feature_names_out()) == list(data.columns)
    assert list(out["hospital"]) == list(SILOS)
    assert fitted.n_features_in_ == 3 and list(fitted.feature_names_in_) == NAMES
    same = scaler(random_state=0).fit(X, silos=SILOS).transform(X)
    np.testing.assert_allclose(np.asarray(out[NAMES]), same)
    np.testing.assert_allclose(np.asarray(fitted.inverse_transform(out)[NAMES]), X)
    new = data.drop(columns="hospital") if kind == "pandas" else data.drop("hospital")
    np.testing.assert_allclose(fitted.transform(new), same)  # patients of no known hospital


def test_bounds_by_name_and_ignored_columns():
    bounds = {"age": (0, 100), "score": (0, 0), "dose": (0, 0.1)}
    scaler = DPStandardScaler(feature_bounds=bounds, silo_column="hospital").fit(frame())
    out = scaler.transform(frame())
    assert (out["score"] == 0).all() and np.isinf(scaler.scale_[1])
    assert (scaler.inverse_transform(out)["score"] == 0).all()


@pytest.mark.parametrize("scaler", BOTH)
def test_features_whose_scales_cannot_be_found_are_warned_of(scaler):
    """Nanoseconds since 1970 came out in millions, and values below 1e-6 as zeros."""
    Z = np.random.default_rng(0).normal(size=(2000, 3))
    times = Z * [1, 3e16, 1] + [0, 1.7e18, 0]
    with pytest.warns(UserWarning, match="The values of feature 'seen' are beyond 5e11"):
        scaler(3.0, random_state=0).fit(pd.DataFrame(times, columns=["a", "seen", "b"]))
    with pytest.warns(UserWarning, match="all features are 0 in nearly all records"):
        scaler(3.0, random_state=0).fit(Z * 1e-9)
    known = {"feature_bounds": ([-5, 1.5e18, -5], [5, 1.9e18, 5]), "random_state": 0}
    for X, more in ((times, known), (times, {"epsilon": np.inf}), (Z, {"random_state": 0})):
        assert abs(scaler(**{"epsilon": 3.0} | more).fit_transform(X)).max() < 10


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"delta": "small"}, "delta"),
        ({"feature_bounds": (1, 0)}, "feature_bounds"),
        ({"feature_bounds": {0: (0, 1)}}, "feature_bounds has no entry for 1"),
        ({"silo_column": "hospital"}, "silo_column"),
    ],
    ids=str,
)
@pytest.mark.parametrize("scaler", BOTH)
def test_bad_parameters_are_named_and_leave_nothing_behind(scaler, parameters, message):
    made = scaler(**parameters)
    with pytest.raises(ValueError, match=message):
        made.fit(X)
    assert not [name for name in vars(made) if name.endswith("_") or name.startswith("_")]


@pytest.mark.parametrize("scaler", BOTH)
@pytest.mark.parametrize("library", [pd, pl])
def test_columns_without_numbers_are_named(scaler, library):
    frame = library.DataFrame({"age": X[:, 0], "sex": ["f", "m"] * (N // 2), "clinic": SILOS})
    with pytest.raises(ValueError, match=r"column\(s\) \['sex'\] that hold no numbers"):
        scaler(silo_column="clinic").fit(frame)
