"""The generators do what their formulas say."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.datasets import make_federated_classification, make_federated_regression

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
