"""What a fit says does not depend on one record: no warning, no error by a wild value."""

import re
import warnings

import numpy as np
import pytest

from skdpfl.preprocessing import DPMinMaxScaler, DPStandardScaler
from tests.estimators.fits import ALL, REGRESSORS, data, make

SCALINGS = {
    "none": {"scaling": None},
    "squashed": {"scaling": "auto", "epsilon": 0.1},
    "bounded": {"feature_bounds": (-1e-3, 1e-3), "target_bounds": (-1e-3, 1e-3)},
    "refined": {"scaling": "private", "feature_bounds": (-1e-3, 1e-3), "target_bounds": (-1, 1)},
    "private": {"scaling": "private"},
}
WILD = {np.float32: [3e38, -3e38, 1e-45], np.float64: [1.7e308, -1.7e308, 5e-324]}
#: where only a target is wild: features are scaled to float32, which targets need not fit
TARGETS = [1.7e308, -1e39, 5e-324]


def said(fit):
    """All that a fit says, whatever NumPy was told to do about errors of arithmetic.

    Without numbers: a warning may quote what was released.
    """
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        fit()
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("ignore")
        fit()
    return [(w.category, re.sub(r"\d+(\.\d+)?", "#", str(w.message))) for w in caught]


def fits(name, dtype, scaling, **kw):
    """A function of one record's features and target that fits and says what it says."""
    X, y, silos = data(name, n=60, dtype=dtype)
    options = {"n_rounds": 2, "random_state": 0, "delta": 1e-4, "epsilon": 1.0}

    def fit(value=None, target=None):
        X2, y2 = X.copy(), y.astype(float) if name in REGRESSORS else y
        X2[7, 2] = X2[7, 2] if value is None else value
        if target is not None:
            y2[3] = target
        model = make(name, **(options | SCALINGS[scaling] | kw))
        return said(lambda: model.fit(X2, y2, silos=silos))

    return fit


@pytest.mark.parametrize("dtype", WILD)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("name", ALL)
def test_wild_records(name, scaling, dtype):
    fit = fits(name, dtype, scaling)
    before = fit()
    for value in WILD[dtype]:
        assert fit(value) == before
    for target in TARGETS if name in REGRESSORS else ():
        assert fit(target=target) == before


@pytest.mark.parametrize("dtype", WILD)
@pytest.mark.parametrize("bounds", [None, (-1e-3, 1e-3)])
@pytest.mark.parametrize("kind", [DPStandardScaler, DPMinMaxScaler])
def test_scalers(kind, bounds, dtype):
    X, _, silos = data("ISRLDPRegressor", n=60, dtype=dtype)

    def fit(value):
        X2 = X.copy()
        X2[7, 2] = value
        scaler = kind(1.0, feature_bounds=bounds, random_state=0)
        return said(lambda: scaler.fit(X2, silos=silos))

    assert len({tuple(fit(value)) for value in [0.5, *WILD[dtype], np.nan, np.inf]}) == 1
