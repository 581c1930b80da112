"""split_into_silos: never an empty silo, as even and as mixed as asked, reproducible."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.datasets import (
    make_federated_classification,
    make_federated_regression,
    split_into_silos,
)

RNG = np.random.default_rng(0)
WAYS = {"iid": {}, "sorted": {}, "dirichlet": {"alpha": 0.1}, "similarity": {"similarity": 0.3}}
TARGETS = {
    "classes": RNG.integers(7, size=203),
    "strings": RNG.choice(["a", "b", "c"], size=203),
    "few": np.array([0, 1, 0, 1, 1]),
}
EVEN = ["iid", "sorted", "similarity"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("n_silos", [1, 2, 5])
class TestEveryWay:
    def test_an_int_seed_repeats_and_another_one_differs(self, how, target, n_silos):
        y = TARGETS[target]
        one = [split_into_silos(y, n_silos, how, random_state=s, **WAYS[how]) for s in (3, 3, 4)]
        np.testing.assert_array_equal(one[0], one[1])
        if how != "sorted" and n_silos > 1 and len(y) > 10:
            assert (one[0] != one[2]).any()


@pytest.mark.parametrize("how", EVEN)
@pytest.mark.parametrize("n_silos", [1, 3, 10, 203])
def test_sizes_differ_by_at_most_one(how, n_silos):
    y = TARGETS["classes"]
    sizes = np.bincount(split_into_silos(y, n_silos, how, random_state=0, similarity=0.47))
    assert len(sizes) == n_silos
    assert np.ptp(sizes) <= 1


def test_sorted_cuts_a_continuous_target_in_order_with_stable_ties():
    y = np.array([3.0, 1.0, 2.0, 1.0, 5.0, 1.0])
    np.testing.assert_array_equal(split_into_silos(y, 3, "sorted"), [2, 0, 1, 0, 2, 1])
    y = np.round(RNG.standard_normal(100), 1)
    silos = split_into_silos(y, 7, "sorted")
    order = np.lexsort((np.arange(100), y))
    assert (np.diff(silos[order]) >= 0).all()


def test_dirichlet_concentration():
    y = np.repeat(np.arange(5), 400)

    def largest_share(alpha):
        """Mean over classes of the share of the silo that has most of the class."""
        silos = split_into_silos(y, 10, "dirichlet", alpha=alpha, random_state=0)
        table = np.zeros((5, 10))
        np.add.at(table, (y, silos), 1)
        return (table.max(axis=1) / 400).mean()

    assert largest_share(1e-3) > 0.9
    assert largest_share(1e4) < 0.13
    assert largest_share(1e4) < largest_share(1.0) < largest_share(1e-3)


def test_silos_of_one_class_end_where_their_class_ends():
    y = np.repeat([7, 8, 9], [50, 20, 40])
    silos = split_into_silos(y, 4, "one_class", records_per_silo=30, random_state=0)
    held = [np.bincount(y[silos == i] - 7, minlength=3).tolist() for i in range(4)]
    assert held == [[30, 0, 0], [0, 20, 0], [0, 0, 30], [20, 0, 0]]
    assert (silos == -1).sum() == 10
    mixed = split_into_silos(
        y, 3, "one_class", records_per_silo=30, similarity=0.4, random_state=0
    )  # fmt: skip
    held = np.array([np.bincount(y[mixed == i] - 7, minlength=3) for i in range(3)])
    assert held.sum(axis=1).tolist() == [30, 30, 30]
    assert held[[0, 1, 2], [0, 1, 2]].min() >= 18


def test_pairs_share_out_each_class():
    y = RNG.permutation(np.repeat(np.arange(4), 101))
    silos = split_into_silos(y, 4, "pairs", random_state=0)
    assert (silos >= 0).all()
    for silo, classes in enumerate([(0, 1), (0, 3), (2, 1), (2, 3)]):
        assert set(y[silos == silo]) == set(classes)
    assert np.ptp(np.bincount(silos)) <= 2
    some = split_into_silos(y, 4, "pairs", records_per_silo=31, random_state=0)
    table = np.zeros((4, 4), dtype=int)
    np.add.at(table, (some[some >= 0], y[some >= 0]), 1)
    assert sorted(set(table.ravel())) == [0, 15, 16]
    assert table.sum(axis=1).tolist() == [31] * 4


@pytest.mark.parametrize("how", WAYS)
def test_some_records_of_each_silo(how):
    y = TARGETS["classes"]
    silos = split_into_silos(y, 4, how, records_per_silo=30, random_state=0, **WAYS[how])
    assert (silos == -1).sum() == 203 - 120
    assert set(silos) == {-1, 0, 1, 2, 3}
    if how in EVEN:
        assert (np.bincount(silos[silos >= 0]) == 30).all()


@settings(max_examples=60, derandomize=True)
@given(
    n=st.integers(1, 60),
    share=st.floats(0, 1),
    alpha=st.floats(1e-6, 1e6),
    classes=st.integers(1, 5),
    seed=st.integers(0, 99),
    how=st.sampled_from(sorted(WAYS)),
)
def test_no_silo_is_ever_empty(n, share, alpha, classes, seed, how):
    y = np.random.default_rng(seed).integers(classes, size=n)
    n_silos = 1 + int(share * (n - 1))
    silos = split_into_silos(y, n_silos, how, alpha=alpha, similarity=share, random_state=seed)
    assert (np.bincount(silos, minlength=n_silos) > 0).all()
    assert len(np.bincount(silos)) == n_silos


def test_silos_without_records_are_refused():
    with pytest.raises(ValueError, match="no records are left for silo 2 of 4"):
        split_into_silos([0, 0, 1, 1], 4, "one_class", records_per_silo=2, random_state=0)


# ---- the generators do what their formulas say ---------------------------------------------------

MAKERS = {
    "classification": make_federated_classification,
    "regression": make_federated_regression,
    "fedexp": lambda *args, **kw: make_federated_regression(*args, design="fedexp", **kw),
}
each_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@each_maker
class TestEveryMaker:
    @pytest.mark.parametrize("n_records", [4, [1, 2, 9], np.array([3, 3, 3])])
    def test_shapes_and_silos(self, make, n_records):
        bunch = make(3, n_records, n_features=5, random_state=0)
        sizes = np.broadcast_to(n_records, 3)
        assert bunch.data.shape == (sizes.sum(), 5)
        assert bunch.target.shape == bunch.silos.shape == (sizes.sum(),)
        np.testing.assert_array_equal(bunch.silos, np.repeat([0, 1, 2], sizes))
        assert len(bunch.feature_names) == 5
        assert bunch.frame is None
        assert "3 silos" in bunch.DESCR

    def test_seeds(self, make):
        same = [make(4, 6, n_features=3, random_state=s) for s in (7, 7, 8)]
        np.testing.assert_array_equal(same[0].data, same[1].data)
        np.testing.assert_array_equal(same[0].target, same[1].target)
        assert (same[0].data != same[2].data).all()

    def test_iid_silos_have_the_same_means(self, make):
        # means over silos of 4000 records: sd 1/sqrt(4000) = 0.016 of each; 5 features, 2 silos:
        # |difference| > 0.12 is 5.4 sd: false alarms below 1e-6
        X = make(2, 4000, n_features=5, iid=True, random_state=0).data
        if make is MAKERS["fedexp"]:
            X = X / np.abs(X).std()  # rows of norm one: entries about 1/sqrt(5)
        assert np.abs(X[:4000].mean(axis=0) - X[4000:].mean(axis=0)).max() < 0.12
        far = make(2, 4000, n_features=5, random_state=0, beta=1.0).data
        assert np.abs(far[:4000].mean(axis=0) - far[4000:].mean(axis=0)).max() > 0.3

    def test_frames(self, make):
        bunch = make(3, 4, n_features=2, as_frame=True, silo_column="bank", random_state=0)
        assert list(bunch.data.columns) == ["x0", "x1", "bank"]
        assert bunch.feature_names == ["x0", "x1"]
        assert isinstance(bunch.target, pd.Series)
        assert isinstance(bunch.silos, pd.Series)
        assert list(bunch.frame.columns) == ["x0", "x1", "bank", "target"]
        X, y = make(3, 4, n_features=2, return_X_y=True, random_state=0)
        np.testing.assert_array_equal(X, bunch.data[["x0", "x1"]])
        np.testing.assert_array_equal(y, bunch.target)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_silos": 0}, r"n_silos must be an integer in \[1, 1000000000\]; got 0"),
            ({"n_records": 0}, r"n_records must be an integer in \[1, 1000000000\]; got 0"),
            ({"n_silos": 3, "n_records": [1, 2]}, r"n_records must be .*n_silos=3.*got \[1, 2\]"),
            ({"n_silos": 2, "n_records": [1, 0]}, r"n_records must be .*got \[1, 0\]"),
            ({"n_silos": 2, "n_records": [1.5, 2]}, r"n_records must be .*got \[1.5, 2\]"),
            ({"n_features": 0}, r"n_features must be an integer in \[1, 1000000000\]; got 0"),
            ({"alpha": -1}, "alpha must be a number in"),
            ({"beta": np.nan}, r"beta must be a number in \[0, inf\); got nan"),
            ({"silo_column": "bank"}, "silo_column='bank' needs as_frame=True"),
            ({"silo_column": "x0", "as_frame": True}, "'x0' is already the name of a feature"),
            ({"silo_column": ["x0"], "as_frame": True}, "silo_column must be the name of a col"),
        ],
    )
    def test_bad_arguments(self, make, arguments, message):
        with pytest.raises((ValueError, TypeError), match=message):
            make(**arguments)
