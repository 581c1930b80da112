"""Bounds as people have them: far wider than the data."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier

N, D = 4000, 10


def money(seed=0):
    """Columns of a few thousand in bounds of a million, and labels that depend on logarithms."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(2 * N, D))
    y = (2 * z[:, 0] - z[:, 1] + rng.logistic(size=2 * N) > 0).astype(int)
    return 1e3 * np.exp(z), y, np.arange(N) % 5


@pytest.mark.parametrize("trust", ["silo", "server", "secagg"])
@pytest.mark.parametrize("kind", [ISRLDPClassifier, DPFedAvgClassifier])
def test_bounds_far_too_wide_are_as_good_as_none(kind, trust):
    X, y, silos = money()
    areas = []
    for bounds in (None, (0, 1e6)):
        clf = kind(3.0, feature_bounds=bounds, trust=trust, random_state=0)
        clf.fit(X[:N], y[:N], silos=silos)
        areas.append(roc_auc_score(y[N:], clf.decision_function(X[N:])))
        assert clf.privacy_spent_.epsilon <= 3.0
    without, within = areas
    assert within > without - 0.01 > 0.75


@pytest.mark.parametrize("bounds", [(1e5, 2e5), (1e6, 2e6), (-10, -5)])
def test_bounds_that_miss_the_data_are_told_of(bounds):
    X, y, silos = money()
    clf = ISRLDPClassifier(8.0, feature_bounds=bounds, random_state=0)
    with pytest.warns(UserWarning, match="feature_bounds"):
        clf.fit(X[:N], y[:N], silos=silos)
