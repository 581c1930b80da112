"""More of tests/torch/test_estimators.py: what only private names show."""

import numpy as np
import pytest

pytest.importorskip("torch")

from skdpfl import DPScaffoldClassifier
from skdpfl.torch import TorchModel
from tests.torch.test_estimators import BOUNDS, SILOS, X, Y, small

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("together", [True, False])
def test_threads_change_nothing(together, monkeypatch):
    from skdpfl.federation import _batches

    if not together:
        monkeypatch.setattr(_batches, "GROUP", 1)
    fits = [
        DPScaffoldClassifier(5.0, model=TorchModel(small), n_rounds=3, n_jobs=jobs, **BOUNDS)
        .fit(X, Y, silos=SILOS)
        .predict_proba(X)
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(*fits)
