"""A hospital that lacks a column: refused by name before anybody pays, or declared neutral."""

import numpy as np
import pytest

from skdpfl.federation import Schema
from skdpfl.inspection import describe
from skdpfl.remote import RemoteFederation, SiloRecords, SilosMissing
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem

COLUMNS = ["age", "chol", "pulse", "dose"]
BOUNDS = {"age": (-4, 4), "chol": (-2, 6), "pulse": (-4, 4), "dose": (-4, 4)}


class Lacking(Here):
    """The silo "south" never measured ``chol``; ``neutral`` is what its operator declares."""

    neutral, raw = None, False

    def records(self, name):
        X, y, silos = self.problem
        mine, kept = silos == NAMES.index(name), [0, 1, 2, 3]
        more = {"raw": self.raw}
        if name == "south":
            kept, more = [0, 2, 3], more | {"neutral": self.neutral}
        names = [COLUMNS[j] for j in kept]
        targets = {} if self.raw else {"y": y[mine], "classes": [0, 1]}
        return SiloRecords(name, X[mine][:, kept], feature_names=names, **targets, **more)


def facts_of(data, **changes):
    sizes = dict(zip(NAMES, np.bincount(data[2]).tolist(), strict=True))
    return Schema(sizes, **{"n_features": 4, "feature_names": COLUMNS} | changes)


def test_it_is_refused_by_name_and_nobody_pays(tmp_path):
    courier = Lacking(tmp_path, data := problem())
    words = r"south: This silo has no column 'chol': leave it out.*neutral=\{'chol': \.\.\.\}"
    with pytest.raises(SilosMissing, match=words):
        fit_elsewhere(estimator(feature_bounds=BOUNDS), courier, facts_of(data))
    assert not any(courier.entries(name) for name in NAMES)


@pytest.mark.slow
def test_a_neutral_column_is_that_number_in_every_record(tmp_path):
    """The same bits as with the number in the table; 2 is the middle of the column's bounds."""
    X, y, silos = data = problem()
    courier = Lacking(tmp_path, data)
    courier.neutral = {"chol": 2.0}
    model = estimator(feature_bounds=BOUNDS)
    there = fit_elsewhere(model, courier, facts_of(data)).coef_
    filled = X.copy()
    filled[silos == NAMES.index("south"), 1] = 2.0
    arrays = ([-4, -2, -4, -4], [4, 6, 4, 4])
    here = fit_here(estimator(feature_bounds=arrays), (filled, y, silos)).coef_
    np.testing.assert_array_equal(there, here)
    assert all(len(courier.entries(name)) == 1 for name in NAMES)


def test_the_middle_of_the_bounds_teaches_nothing_of_the_column(tmp_path):
    """If all lack it, its coefficient is noise: that of a fit whose column is all the same."""
    X, y, silos = problem()
    X = X.copy()
    X[:, 1] = 2.0
    bounds = tuple(zip(*BOUNDS.values(), strict=True))
    model = estimator(epsilon=1e6, n_rounds=20, feature_bounds=bounds, model="linear")
    with pytest.warns(UserWarning, match="epsilon"):
        found = fit_here(model, (X, y, silos)).coef_[0]
    assert 10 * abs(found[1]) < np.abs(found[[0, 2, 3]]).max()


def test_raw_tables_may_lack_a_column_as_a_gap(tmp_path):
    X, _, silos = data = problem()
    X = X.astype(object)
    courier = Lacking(tmp_path, (X, data[1], silos))
    courier.raw, courier.neutral = True, {"chol": None}
    facts = facts_of(data, dtype="object")
    found = describe(RemoteFederation(courier, facts), facts=facts, epsilon=50.0, delta=1e-4,
                     feature_bounds=BOUNDS, by_silo=True, random_state=0)  # fmt: skip
    missing = found["missing"].astype(float)
    assert missing[("south", "chol")] > 0.9 > 0.1 > missing[("east", "chol")]


@pytest.mark.parametrize("given, words", [({"chol": np.nan}, "must be a finite number"),
                                          ({"chol": "low"}, "must be a finite number"),
                                          ({"age": 1.0}, "both in neutral and in X")])  # fmt: skip
def test_what_stands_for_a_column_is_a_number_of_a_column_that_is_not_there(given, words):
    with pytest.raises(ValueError, match=words):
        SiloRecords("a", [[1.0]], [0], classes=[0, 1], feature_names=["age"], neutral=given)
    with pytest.raises(ValueError, match="give feature_names, or X as a frame"):
        SiloRecords("a", [[1.0]], [0], classes=[0, 1], neutral={"chol": 1.0})


@pytest.mark.parametrize("changes, words", [
    ({"feature_names": ["age", "pulse", "dose", "more"]}, "no column 'more'"),
    ({"feature_names": ["age", "chol", "dose"], "n_features": 3}, "that the fit does not have"),
    ({"feature_names": ["chol", "age", "dose", "pulse"]}, "in another order"),
    ({"feature_names": None}, "neutral columns cannot be matched"),
])  # fmt: skip
def test_other_columns_are_named(tmp_path, changes, words):
    courier = Lacking(tmp_path, data := problem())
    courier.neutral = {"chol": 2.0}
    with pytest.raises(SilosMissing, match=words):
        fit_elsewhere(estimator(scaling=None), courier, facts_of(data, **changes))
    assert not any(courier.entries(name) for name in NAMES)
