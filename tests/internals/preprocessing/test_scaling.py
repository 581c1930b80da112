"""The maps: what they compute, that they undo themselves, what they refuse."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.scaling import _maps

SCALINGS = [
    _maps.IdentityScaling(),
    _maps.AffineScaling(np.array([1.0, -2.0, 1985.0]), np.array([2.0, np.inf, 20.0])),
    _maps.SquashScaling(),
]
X = np.random.default_rng(0).normal([0, 5, 2000], [1, 3, 30], (50, 3))


@pytest.mark.parametrize("scaling", SCALINGS, ids=repr)
class TestEveryScaling:
    def test_dtype_is_kept(self, scaling):
        assert scaling.transform(X).dtype == np.float64
        assert scaling.transform(X.astype(np.float32)).dtype == np.float32
        assert scaling.transform(X.astype(int)).dtype == np.float64


def test_squashed_values_lie_in_the_unit_box_in_their_order():
    one = _maps.SquashScaling().transform(np.array([[-1e6], [-2.0], [0.0], [3.0], [1e9], [1e300]]))
    assert (np.abs(one) < 1).all() and (np.diff(one[:, 0]) > 0).all() and one[2, 0] == 0


def test_bounds_map_to_the_unit_box_and_values_beyond_are_not_clipped():
    scaling = _maps.affine_from_bounds(_maps.read_feature_bounds(([0, -1], [100, 1]), 2))
    np.testing.assert_allclose(
        scaling.transform(np.array([[0, -1], [100, 1], [200, 0]])), [[-1, -1], [1, 1], [3, 0]]
    )
    assert scaling.radius == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": (0, 1)}, "no entry for 'b'"),
        ({"a": ([0, 1], 1), "b": ([0, 1], 1)}, "two numbers for each column; got 2 pairs"),
        ((1, 0), "low <= high"),
        ([[0, 120], [0, 1]], r"low <= high; got \(120.0, 1.0\) for 'b'.*each a number or"),
        ([(0, 10), (0, 11)], r"can be read as \(lows, highs\) or as one pair.*a mapping"),
        ((0, np.inf), "must be finite"),
        (([0, 0, 0], 1), r"shape \(2,\)"),
        ("ab", "pair"),
        ({"a": (0, 1), "b": (1, np.nan)}, "those of 'b' are not"),
        ((0, pd.Series({"a": 1, "c": 2})), "no entry for 'b': a Series is matched by its labels"),
    ],
)
def test_bad_feature_bounds_are_named(given, message):
    with pytest.raises(ValueError, match=f"feature_bounds.*{message}"):
        _maps.read_feature_bounds(given, 2, ["a", "b"])


@pytest.mark.parametrize("given", [(1, 1), (2, 1), (0, np.nan), 5, ([0, 1], 2)])
def test_bad_target_bounds_are_named(given):
    with pytest.raises(ValueError, match="target_bounds"):
        _maps.read_target_bounds(given)


@pytest.mark.parametrize(
    ("center", "scale"), [([0.0], [0.0]), ([np.nan], [1.0]), ([0.0], [np.nan]), ([0.0, 1.0], [1.0])]
)
def test_impossible_maps_are_refused(center, scale):
    with pytest.raises(ValueError, match=r"center|scale"):
        _maps.AffineScaling(np.array(center), np.array(scale))
