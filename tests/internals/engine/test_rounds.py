"""More of tests/engine/test_rounds.py: what only private names show."""

import pytest

from skdpfl.federation import _batches, _local
from tests.engine.settings import federation_of, problem
from tests.engine.test_rounds import compare, setting


@pytest.mark.parametrize("who", ["everyone", "poisson-records", "few-records"])
@pytest.mark.parametrize("algorithm", ["minibatch", "fedavg", "scaffold"])
def test_large_silos_agree_with_the_reference(monkeypatch, algorithm, who):
    """The threaded back end, and sums in several chunks."""
    monkeypatch.setattr(_batches, "GROUP", 500)
    monkeypatch.setattr(_local, "WORTH_THREADS", 0)
    s, decay = setting(algorithm, "noised", who)
    p = problem()
    compare(algorithm, p, s, decay, federation=federation_of(p, n_jobs=2))
