"""The picture of an additive model shows what the model adds up."""

import numpy as np
import pandas as pd
import pytest

from skdpfl import ISRLDPRegressor
from skdpfl.inspection import ShapeDisplay
from skdpfl.models import Additive

RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.uniform(0, 9, 2000), "dose": RNG.gamma(2, 1, 2000).clip(0, 9)})
X["flag"] = RNG.random(2000) < 0.3
Y = np.abs(X.age - 5) + X.flag * X.dose + RNG.normal(size=2000)
BOUNDS = {"age": (0, 9), "dose": (0, 9)}


@pytest.fixture(scope="module")
def fitted():
    given = {"feature_bounds": BOUNDS, "target_bounds": (-4, 20), "random_state": 0}
    model = Additive(interactions=[("dose", "flag")])
    return ISRLDPRegressor(8.0, model=model, **given).fit(X, Y)


def test_curves_are_those_of_the_model(fitted):
    shown = ShapeDisplay.from_estimator(fitted)
    names = ["age", "dose", "flag", ("dose", "flag")]
    assert list(shown.axes_)[:4] == names
    line = shown.axes_["age"].lines[0]
    effect = fitted.predict(X.assign(age=3.3)) - fitted.predict(X.assign(age=6.7))
    own = np.interp([3.3, 6.7], *line.get_data())
    np.testing.assert_allclose(own[0] - own[1], effect, atol=1e-9)
    assert "target" in shown.caption_
    assert "seed" in shown.caption_
    assert shown.axes_["flag"].get_xlim() == (-0.5, 1.5)
    ax = shown.axes_[("dose", "flag")]
    drawn = ax.collections[0].get_array()
    assert np.abs(drawn).max() > 0.5
    assert 4 < ax.get_xlim()[1] < 7  # nearly all doses, not those that nobody has


def test_products_have_no_colour_where_nobody_is():
    """Two normal features: corners are grey, and the colours are those of what is seen."""
    edges, at = np.linspace(-10, 10, 41), np.linspace(-10, 10, 81)
    middles = (edges[:-1] + edges[1:]) / 2
    histogram = edges, np.exp(-(middles**2) / 2) / np.exp(-(middles**2) / 2).sum()
    frame = pd.DataFrame({"from": at[:-1], "to": at[1:], "value": at[:-1], "slope": 1.0})
    pairs = pd.MultiIndex.from_tuples([("a", "b")], names=["feature", "by"])
    products = pd.DataFrame({"coefficient": [1.0]}, index=pairs)
    products.attrs["coded"] = {"a": (0.0, 1.0), "b": (0.0, 1.0), "most": 3.0}
    known = {"a": histogram, "b": histogram}
    shown = ShapeDisplay({"a": frame, "b": frame}, products, known).plot()
    drawn = shown.axes_[("a", "b")].collections[0]
    mask = np.ma.getmaskarray(drawn.get_array())
    assert mask[[0, 0, -1, -1], [0, -1, 0, -1]].all() and 0.7 < 1 - mask.mean() < 0.85
    assert drawn.get_clim()[1] < 4  # 9 in the corners


def test_a_model_without_curves_says_so():
    model = ISRLDPRegressor(8.0, feature_bounds=(0, 9), model="linear", random_state=0).fit(X, Y)
    with pytest.raises(AttributeError, match="additive"):
        ShapeDisplay.from_estimator(model)
