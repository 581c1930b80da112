"""Steps of the server that differ between rounds, and what "auto" makes of them."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import skdpfl
from skdpfl.algorithms import FedAvg, Released, Scaffold


@pytest.mark.parametrize("kind", [FedAvg, Scaffold])
def test_each_round_takes_its_own_step(kind):
    algorithm = kind(0.1, 2, global_learning_rate=(3.0, 1.0, 0.5))
    state = algorithm.init(np.zeros(2))
    for step in (3.0, 1.0, 0.5):
        before, message = algorithm.params(state), np.array([1.0, -2.0])
        state = algorithm.aggregate(state, Released(message))
        np.testing.assert_allclose(algorithm.params(state) - before, step * message)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DPFedAvgClassifier", "DPScaffoldClassifier"])
def test_more_budget_does_not_hurt_rare_labels_and_heavy_tails(name):
    """benchmarks/auto/budgets.py in small: area under the curve, three paired tables."""

    rare, areas = np.arange(24) < 14, []
    for seed in range(3):
        rng, n = np.random.default_rng(seed), 8000
        Z = rng.normal(size=(n, 24))
        X = np.where(rare, Z > 1.9, np.exp(1.5 * Z))
        y = (0.35 * Z[:, 8:].sum(axis=1) - 3.4 + rng.logistic(size=n) > 0).astype(int)
        kw = {"local_steps": 20, "feature_bounds": (0.0, np.where(rare, 1.0, 100.0))}
        fits = [getattr(skdpfl, name)(e, random_state=seed, **kw) for e in (3.0, 8.0, 30.0, 60.0)]
        for model in fits:
            model.fit(X[:4000], y[:4000], silos=np.arange(4000) % 6)
        areas.append([roc_auc_score(y[4000:], m.decision_function(X[4000:])) for m in fits])
    assert (np.diff(np.mean(areas, axis=0)) > -0.005).all()
