"""Noise errors are right over fits with the same private scales, and too small over others."""

import numpy as np
import pytest
from scipy.stats import norm

from skdpfl.estimators import _training
from tests.estimators.fits import make
from tests.estimators.test_noise_error import BOUNDS, table


@pytest.mark.slow
@pytest.mark.parametrize("loss", BOUNDS)
def test_errors_of_exponential_columns_are_right_given_the_scales(loss, monkeypatch):
    """60 fits with one fit's scales, then 60 with their own, which move limits by far more.

    Logarithms of ratios have a standard error of .09.
    """
    X, y, silos = table(loss, 0.3, 20_000)
    X = -np.log(norm.sf(X))
    name = "ISRLDPClassifier" if loss == "log_loss" else "ISRLDPRegressor"
    given = {"feature_bounds": (0, 8), "model": "linear", "loss": loss, "epsilon": 8.0}

    def fits():
        models = (make(name, random_state=k, **given | BOUNDS[loss]) for k in range(60))
        return np.array([model.fit(X, y, silos=silos).summary().to_numpy() for model in models])

    own = fits()
    one = make(name, random_state=60, **given | BOUNDS[loss]).fit(X, y, silos=silos)
    monkeypatch.setattr(_training, "find_scales", lambda *_: one._noise_error.scales)
    same = fits()
    stated, true = np.median(same[:, :, 1], axis=0), same[:, :, 0].std(axis=0)
    ratios = np.log(stated / true)
    assert abs(ratios.mean()) < np.log(1.25), np.exp(ratios)
    assert abs(ratios).max() < np.log(1.7), np.exp(ratios)
    assert np.median(own[:, :, 0].std(axis=0) / true) > 1.5
