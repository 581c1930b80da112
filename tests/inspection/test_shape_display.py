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
    drawn = shown.axes_[("dose", "flag")].collections[0].get_array()
    assert np.abs(drawn).max() > 0.5


def test_a_model_without_curves_says_so():
    model = ISRLDPRegressor(8.0, feature_bounds=(0, 9), model="linear", random_state=0).fit(X, Y)
    with pytest.raises(AttributeError, match="additive"):
        ShapeDisplay.from_estimator(model)
