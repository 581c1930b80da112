"""Fits on splits are priced by a fit like them, and by nothing where it is unlike."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from skdpfl import ISRLDPClassifier
from skdpfl.inspection._cost import Unknown, costs_on_splits
from skdpfl.preprocessing import DPOneHotEncoder, DPStandardScaler

X = np.random.default_rng(0).normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)
SCALER = DPStandardScaler(1.0, delta=1e-5, feature_bounds=(-3, 3))
ENCODER = DPOneHotEncoder(1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("kept", "changed", "accountant"),
    [
        (SCALER, {"epsilon": 0.5}, "gdp"),
        (SCALER, {"epsilon": 0.5, "feature_bounds": (-5, 5)}, "pld"),
        (ENCODER, {"epsilon": 0.5}, "pld"),
    ],
)
@pytest.mark.filterwarnings("ignore:Only categories with")
def test_only_gaussian_releases_of_equal_transformers_are_priced_as_such(kept, changed, accountant):
    """Others may release anything that has this epsilon and delta."""
    table = X if kept is SCALER else np.array(["a", "b"])[Y][:, None]
    fitted = kept.__sklearn_clone__().fit(table)
    inner = kept.__sklearn_clone__().set_params(**changed)
    for cost in costs_on_splits(inner, fitted, KFold(2), 2):
        assert cost.accountant == accountant
        assert cost.epsilon == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("changed", [{"trust": "server"}, {"unit": "silo", "trust": "server"}])
def test_a_fit_with_another_guarantee_tells_nothing(changed):
    given = {"delta": 1e-5, "scaling": None, "calibrate": False, "n_rounds": 2}
    fitted = ISRLDPClassifier(8.0, **given).fit(X, Y, silos=np.arange(200) % 4)
    inner = ISRLDPClassifier(8.0, **given)
    assert costs_on_splits(inner, fitted, KFold(2), 2)
    with pytest.raises(Unknown, match="no such fit"):
        costs_on_splits(inner.set_params(**changed), fitted, KFold(2), 2)
