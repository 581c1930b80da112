"""More of tests/estimators/test_silent_arithmetic.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.federation import _data, _local
from tests.estimators.test_silent_arithmetic import fits


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_large_silos_on_threads_transformed_batch_by_batch(trust, monkeypatch):
    monkeypatch.setattr(_local, "WORTH_THREADS", 0)
    monkeypatch.setattr(_data, "LARGE", 0)
    monkeypatch.setattr(_local, "LARGE", 0)
    fit = fits("ISRLDPRegressor", np.float64, "bounded", trust=trust, n_jobs=2)
    assert fit(1.7e308, 1.7e308) == fit()
