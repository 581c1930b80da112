"""Steps of the server that differ between rounds, and what "auto" makes of them."""

import numpy as np
import pytest

from skdpfl.algorithms import FedAvg, Released, Scaffold


@pytest.mark.parametrize("kind", [FedAvg, Scaffold])
def test_each_round_takes_its_own_step(kind):
    algorithm = kind(0.1, 2, global_learning_rate=(3.0, 1.0, 0.5))
    state = algorithm.init(np.zeros(2))
    for step in (3.0, 1.0, 0.5):
        before, message = algorithm.params(state), np.array([1.0, -2.0])
        state = algorithm.aggregate(state, Released(message))
        np.testing.assert_allclose(algorithm.params(state) - before, step * message)
