"""More of tests/test_fitted_models.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.models import MLP, LinearModel, public
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling import AffineScaling, Scales
from skdpfl.scaling._maps import AffineTarget
from tests.test_fitted_models import COEFS, INTERCEPTS


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
