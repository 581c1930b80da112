"""More of tests/test_models.py: what only private names show."""

import numpy as np
import pytest

from skdpfl import _adapted
from skdpfl.losses import LogLoss
from skdpfl.models import MLP, LinearModel, _products, public
from skdpfl.models._clipping import clip_slopes, row_norms
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling import AffineScaling, Scales
from skdpfl.scaling._maps import AffineTarget
from tests.test_fitted_models import COEFS, INTERCEPTS
from tests.test_models import DTYPES, problem


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 7, 100, 8192, 8193, 20_000])
def test_norms_of_a_row_have_the_same_bits_alone(n_features, dtype):
    """How many records a batch has is secret."""
    X = np.random.default_rng(0).standard_normal((9, n_features)).astype(dtype)
    alone = [row_norms(X[[i]], 1.0)[0] for i in range(9)]
    for n in 2, 3, 9:
        np.testing.assert_array_equal(row_norms(X[:n], 1.0), alone[:n])


@pytest.mark.parametrize("intercept", [True, False])
def test_spare_columns_change_nothing(intercept, monkeypatch):
    loss = LogLoss()
    model, w, X, y = problem(loss, 47, n=64, d=400, dtype=np.float32, intercept=intercept)
    assert _products._left_over(47) == 1
    monkeypatch.setattr(_products, "compiled", None)
    wide = model.clipped_gradient_sum(w, X, y, loss, clip_norm=1.0)
    monkeypatch.setattr(_products, "_left_over", lambda n_outputs: 0)
    plain = model.clipped_gradient_sum(w, X, y, loss, clip_norm=1.0)
    np.testing.assert_allclose(wide, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_underflow_does_not_hide_a_slope(k, dtype):
    """|slope|^2 is 0 in floating point, |x| |slope| is ten times the clip norm."""
    far = dtype(1e19 if dtype == np.float32 else 1e150)
    slopes = np.zeros((1, k), dtype)
    slopes[0, 0] = 1e-5 / far
    clip_slopes(slopes, np.array([far]) ** 2, 1e-6)
    assert slopes.max() * far <= 1e-6


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_of_few_digits_do_not_raise_the_norm(k, dtype):
    """The factor that scales 1e18 to 1e-23 is a subnormal number, some per cent off."""
    big = dtype(1e18 if dtype == np.float32 else 1e152)
    size = big * np.linspace(1, 5, 400).astype(dtype)
    slopes = np.zeros((400, k), dtype)
    slopes[:, -1] = size
    # k = 1: the threshold C / |x| itself; k > 1: the threshold over the slope
    clip = float(np.finfo(dtype).tiny) * float(big) ** min(k, 2) * 1e-3
    clip_slopes(slopes, size**2, clip)
    assert np.max(slopes[:, -1].astype(np.longdouble) * size) <= clip


def test_a_start_is_scaled_and_chance_is_not():
    """A network that has not begun predicts what it did, once data are scaled."""
    model = MLP((3,), start=public((COEFS, INTERCEPTS))).build(2, 1)
    scales = Scales(AffineScaling(np.array([1.0, -2.0]), np.array([2.0, 0.5])),
                    AffineTarget(3.0, 0.25))  # fmt: skip
    X = np.array([[1.0, 1.0], [4.0, -6.0]])
    begun = model.started(scales)
    raw = begun.raw(begun.init(), scales.features.transform(X))
    np.testing.assert_allclose(scales.target.inverse(raw), model.raw(model.init(), X))
    chance = MLP((3,)).build(2, 1)
    assert LinearModel(2, 1, True).is_linear and not chance.is_linear
    assert chance.started(scales) is chance
    with pytest.raises(ValueError, match="give a stream"):
        chance.init()
    assert chance.init(streams_for(0).stream("init")).any()


def test_trees_are_tried_on_top_of_ridges_of_the_other_folds(monkeypatch):
    """The whole silo's ridge has read the records on which the trees are tried."""
    trees, of, rng = _adapted._trees, [], np.random.default_rng(0)

    def spied(records, ridge, n_rounds):
        of.append(len(records.y))
        beside = np.hstack([records.raw, records.columns])
        np.testing.assert_array_equal(ridge.center, beside.mean(axis=0))
        return trees(records, ridge, n_rounds)

    monkeypatch.setattr(_adapted, "_trees", spied)
    columns = rng.normal(size=(200, 2))
    _adapted.own_part("trees", _adapted.OwnRecords(columns[:, :1], columns, columns[:, 1], False))
    assert of == [150] * 4 + [200]
