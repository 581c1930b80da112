"""More of tests/estimators/test_networks.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.federation import _local
from skdpfl.models import MLP
from tests.estimators.fits import data
from tests.estimators.test_networks import make


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_no_bit(monkeypatch, dtype):
    monkeypatch.setattr(_local, "WORTH_THREADS", 0)
    X, y, silos = data("ISRLDPClassifier", n=4000, dtype=dtype)
    fits = [
        make("ISRLDPClassifier", MLP((60,)), n_jobs=n).fit(X, y, silos=silos).coefs_
        for n in (None, 3)
    ]
    assert fits[0][0].dtype == dtype
    for one, other in zip(*fits, strict=True):
        np.testing.assert_array_equal(one, other)
