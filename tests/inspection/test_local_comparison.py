"""A silo asks whether it is better off alone."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_score

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
@pytest.mark.parametrize("shallow_wins", [True, False])
def test_trees_alone_are_the_better_of_two(shallow_wins):
    X, noisy, silos = silos_of(3, 60 if shallow_wins else 300, curved=False)
    y = noisy if shallow_wins else 3 * np.cos(3 * X[:, 0]) + 2 * X[:, 1]
    own, folds = silos == 0, KFold(5, shuffle=True, random_state=0)
    found = local_comparison(clone(REGRESSOR).fit(X, y, silos=silos), X[own], y[own])
    kinds = {}, {"max_leaf_nodes": 6, "learning_rate": 0.03}
    made = [HistGradientBoostingRegressor(random_state=0, **kind) for kind in kinds]
    default, shallow = (cross_val_score(each, X[own], y[own], cv=folds).mean() for each in made)
    assert (shallow > default) == shallow_wins
    assert found.loc["alone, boosted trees", "score"] == pytest.approx(max(default, shallow))


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
