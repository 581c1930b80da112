"""Contexts of joblib that distribute: only this computer's cores count, and scores are the same."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.model_selection import cross_val_score

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import make_federated_classification


@pytest.mark.slow
def test_a_cross_validation_is_distributed_by_dask():
    """Folds are fitted by the cluster's processes; the scores are those of this one."""
    distributed = pytest.importorskip("distributed")
    data = make_federated_classification(4, 100, n_classes=2, n_features=5, random_state=0)
    model = ISRLDPClassifier(3.0, feature_bounds=(-9, 9), n_rounds=5, random_state=0)
    given = {"params": {"silos": data.silos}, "cv": 4}
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with config_context(enable_metadata_routing=True):
        here = cross_val_score(model, data.data, data.target, **given)
        with distributed.Client(distributed.LocalCluster(**options)), parallel_config("dask"):
            there = cross_val_score(model, data.data, data.target, **given)
    assert np.array_equal(here, there)
