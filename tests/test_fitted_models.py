"""Fitted attributes give raw predictions; weights to start from are read, copied and scaled."""

from types import SimpleNamespace

import numpy as np
import pytest

from skdpfl.models import MLP, LinearModel, public

COEFS, INTERCEPTS = [np.full((2, 3), 0.5), np.ones((3, 1))], [np.zeros(3), np.array([2.0])]


def test_raw_predictions_of_linear_attributes():
    fitted = {"coef_": np.array([[1.0, 2.0], [3.0, 4.0]]), "intercept_": np.array([5.0, 6.0])}
    X = np.array([[1.0, 1.0], [0.0, 2.0]])
    found = LinearModel(2, 2, True).raw_of_fitted(fitted, X)
    np.testing.assert_array_equal(found, [[8, 13], [9, 14]])
    single = {"coef_": np.array([1.0, 2.0]), "intercept_": 5.0}
    np.testing.assert_array_equal(LinearModel(2, 1, True).raw_of_fitted(single, X), [[8], [9]])


@pytest.mark.parametrize(
    "given", [(COEFS, INTERCEPTS), [COEFS, INTERCEPTS],
              SimpleNamespace(coefs_=COEFS, intercepts_=INTERCEPTS)],
)  # fmt: skip
def test_a_network_starts_from_public_weights(given):
    start = public(given)
    assert repr(start) == "public(2-3-1)" and public(start) is start
    model = MLP((3,), start=start).build(2, 1)
    X = np.array([[1.0, 1.0], [4.0, -6.0]])
    np.testing.assert_array_equal(model.raw(model.init(), X), [[5], [2]])  # relu(1) 3 times, + 2
    COEFS[0][:] = 7  # which are copied
    np.testing.assert_array_equal(start.layers[0][0], np.full((2, 3), 0.5))
    COEFS[0][:] = 0.5
