"""DPSplineTransformer: bounded columns from one histogram that is paid for."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.preprocessing import DPSplineTransformer

RNG = np.random.default_rng(0)
N = 3000
X = pd.DataFrame({"a": RNG.uniform(0, 9, N), "b": RNG.gamma(1, 1, N).clip(0, 9)})
X["flag"] = RNG.random(N) < 0.3
BOUNDS = {"a": (0, 9), "b": (0, 9)}
SILOS = np.arange(N) % 3


def spline(**options):
    return DPSplineTransformer(feature_bounds=BOUNDS, **{"random_state": 0} | options)


def test_its_columns_are_bounded_and_named():
    fitted = spline(knots=4).fit(X, silos=SILOS)
    wild = pd.DataFrame({"a": [-1e9, 4.5, 1e300], "b": [0.0, 9.0, 5.0], "flag": [1, 0, 1]})
    found = fitted.set_output(transform="pandas").transform(wild)
    assert found.to_numpy().min() >= -1
    assert found.to_numpy().max() <= 1
    assert list(found.columns[:5]) == ["a", "b", "flag", "a: rank", "a: bin 0"]
    assert found["a"].tolist() == [-1, 0, 1]
    assert found["flag"].tolist() == [1, 0, 1]
    assert found.shape == (3, 3 + 2 * (1 + 2))
    ranks = fitted.transform(X)["a: rank"]
    assert np.all(np.diff(ranks.to_numpy()[np.argsort(X.a)]) >= 0)
    assert abs(ranks.mean()) < 0.1  # quantiles: half of the records below 0


def test_the_whole_budget_is_one_release():
    fitted = spline(epsilon=2.0).fit(X, silos=SILOS)
    spent = fitted.privacy_spent_
    assert spent.epsilon <= 2.0
    assert spent.epsilon == pytest.approx(2.0, rel=0.01)
    assert spent.n_releases == 1
    flags = DPSplineTransformer().fit(X[["flag"]])
    assert flags.privacy_spent_.epsilon == 0
    assert np.array_equal(flags.transform(X[["flag"]]), X[["flag"]].to_numpy(float))


def test_gaps_pass_and_a_silo_column_too():
    frame = X.assign(silo=SILOS)
    frame.loc[0, "a"] = np.nan
    fitted = spline(silo_column="silo").fit(frame)
    found = fitted.transform(frame)
    assert found["silo"].tolist() == SILOS.tolist()
    assert found.loc[0, ["a", "a: rank"]].isna().all()
    assert found.iloc[1:].notna().to_numpy().all()
    assert list(found.columns) == fitted.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"feature_bounds": None}, "feature_bounds"),
        ({"knots": 1}, "knots"),
        ({"knots": 100}, "at most 64"),
        ({"feature_bounds": {"a": (0, 9)}}, "no entry for 'b'"),
    ],
)
def test_what_it_refuses(options, words):
    with pytest.raises(ValueError, match=words):
        spline().set_params(**options).fit(X)
