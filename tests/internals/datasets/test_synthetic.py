"""More of tests/datasets/test_split.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.datasets import _synthetic as synthetic
from skdpfl.datasets import make_federated_classification


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("sizes", [[4, 4, 4], [1, 5, 2]])
def test_labels_follow_the_silo_s_own_model(sizes, n_models):
    sizes = np.array(sizes)
    rng = np.random.default_rng(0)
    means, weights, intercepts = synthetic._models(rng, n_models, 6, 4, 1.0, 1.0)
    X, y = synthetic._labelled(rng, sizes, means, weights, intercepts)
    for row, (x, silo) in enumerate(zip(X, np.repeat(np.arange(3), sizes), strict=True)):
        model = min(silo, n_models - 1)
        assert y[row] == np.argmax(x @ weights[model] + intercepts[model, 0])


def test_blocks_join_up(monkeypatch):
    sizes = np.arange(1, 12)
    monkeypatch.setattr(synthetic, "BLOCK", 4)
    bunch = make_federated_classification(
        11, sizes, n_features=2, n_classes=3, label_noise=0, random_state=0
    )
    np.testing.assert_array_equal(np.bincount(bunch.silos), sizes)
    assert np.isfinite(bunch.data).all()
    assert set(bunch.target) <= {0, 1, 2}
    # each silo has its own mean: rows of different silos are not shifted against each other
    spread = [bunch.data[bunch.silos == i].mean(axis=0) for i in range(11)]
    assert len(np.unique(np.round(spread, 6), axis=0)) == 11
