"""More of tests/engine/test_delivery.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.engine import run
from skdpfl.federation import _budgets
from skdpfl.privacy.randomness.streams import streams_for
from tests.engine.reference import Setting
from tests.engine.settings import federation_of, problem, work_of
from tests.engine.test_delivery import Delivering

SIZES = (5, 90, 2, 6, 33, 7, 400, 12, 1, 64, 9)


N = len(SIZES)


RNG = np.random.default_rng(0)


#: how n messages are delivered: lists of places
DELIVERIES = {
    "one by one, reversed": lambda n: [[i] for i in range(n - 1, -1, -1)],
    "one by one, shuffled": lambda n: [[i] for i in RNG.permutation(n)],
    "in threes, shuffled": lambda n: np.array_split(RNG.permutation(n), -(-n // 3)),
    "the last first": lambda n: [list(range(n // 2, n)), list(range(n // 2))],
}


def model(deliver, dtype, cohorts):
    p = problem(sizes=SIZES, k=3)
    weights = np.array(SIZES) / sum(SIZES)
    s = Setting(5, [2] * 5, 0.4, 0.8, [0.5] * N, weights, cohorts=cohorts)
    federation = federation_of(p, dtype)
    if deliver is not None:
        federation = Delivering(federation, deliver)
    return run(work_of("scaffold", p, s, dtype), federation, streams_for(0)).params


@pytest.mark.parametrize("at_once", [2**16, 50])
@pytest.mark.parametrize("cohorts", [None, [[0, 3, 4, 9], [1], [2, 3, 6, 7, 10], [], [5, 8]]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("deliver", DELIVERIES.values(), ids=list(DELIVERIES))
def test_the_order_of_delivery_changes_no_bit(monkeypatch, deliver, dtype, cohorts, at_once):
    """In one piece, and in pieces of four silos (of 12 numbers each)."""
    monkeypatch.setattr(_budgets, "AT_ONCE", at_once)
    assert np.array_equal(model(deliver, dtype, cohorts), model(None, dtype, cohorts))
