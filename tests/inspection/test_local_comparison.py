"""A silo asks whether it is better off alone."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.base import clone

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.inspection import local_comparison

mpl.use("Agg")
REGRESSOR = ISRLDPRegressor(
    8.0, feature_bounds=(-4, 4), target_bounds=(-6, 6), n_rounds=20, random_state=0
)
CLASSIFIER = ISRLDPClassifier(8.0, feature_bounds=(-4, 4), n_rounds=20, random_state=0)


def silos_of(n_silos, size, curved, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_silos * size, 4))
    effect = np.cos(3 * X[:, 0]) * 3 if curved else X @ [1.0, -1.0, 0.5, 0.2]
    return X, effect + rng.normal(size=len(X)), np.repeat(np.arange(n_silos), size)


def test_a_small_silo_of_a_large_federation_joins():
    X, y, silos = silos_of(40, 40, curved=False)
    joint = clone(REGRESSOR).set_params(trust="server").fit(X, y, silos=silos)
    own = silos == 3
    frame = local_comparison(joint, X[own], y[own])
    assert frame.loc["joint", "score"] > frame.loc["alone, boosted trees", "score"]
    assert "joining does not pay" not in frame.attrs["advice"]


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_are_scored_by_ranks_or_hits(n_classes):
    X, raw, silos = silos_of(3, 200, curved=False)
    y = np.array(["no", "so", "yes"])[np.digitize(raw, [0.0] if n_classes == 2 else [-1, 1])]
    joint = clone(CLASSIFIER).fit(X, y, silos=silos)
    frame = local_comparison(joint, X[:200], y[:200])
    assert frame.attrs["score"].startswith("area" if n_classes == 2 else "accuracy")
    assert (frame["score"] > 0.5).all()


def test_too_few_records_are_named():
    X, y, silos = silos_of(3, 100, curved=False)
    joint = clone(REGRESSOR).fit(X, y, silos=silos)
    with pytest.raises(ValueError, match="The silo has 3 records; cv=5"):
        local_comparison(joint, X[:3], y[:3])
    labels = clone(CLASSIFIER).fit(X, y > 0, silos=silos)
    with pytest.raises(ValueError, match="only one label"):
        local_comparison(labels, X[:20], np.ones(20, bool))
