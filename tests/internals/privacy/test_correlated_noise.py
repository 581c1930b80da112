"""More of tests/privacy/test_correlated_noise.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.algorithms import MinibatchSGD
from skdpfl.federation import Work, _batches
from skdpfl.federation._batches import NoiseMaker
from skdpfl.losses import AbsoluteError
from skdpfl.models import LinearModel
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import Everyone
from tests.privacy.test_correlated_noise import plan_of, released


@pytest.mark.parametrize("together", [True, False])
def test_sums_up_to_a_step_have_the_noise_of_its_nodes(together, monkeypatch):
    """As many normals as t has binary ones. False alarms: below 2e-7 for 6 % of 4000 numbers."""
    if not together:
        monkeypatch.setattr(_batches, "GROUP", 1)
    plan = plan_of([4, 4, 4], 8, Everyone())
    X = np.zeros((12, 4000))
    units = released(plan, X, np.ones(12), np.arange(12) % 3)
    sums = np.cumsum(units, axis=0) / 2.0**36
    for t in range(1, 9):
        expected = np.sqrt(t.bit_count())
        np.testing.assert_allclose(sums[t - 1].std(axis=1), expected, rtol=0.06)
    correlations = np.corrcoef(sums[-1]) - np.eye(3)  # silos have trees of their own
    assert np.abs(correlations).max() < 6 / np.sqrt(4000)


def maker(plan, seed, size=5):
    model = LinearModel(size, 1, fit_intercept=False)
    work = Work(model, AbsoluteError(), MinibatchSGD(1.0), plan, np.dtype(float))
    terms = plan.mechanism.gradient_terms(plan, size, np.dtype(float))
    return NoiseMaker(work, terms, streams_for(seed))


def test_a_restored_silo_goes_on_with_its_own_tree():
    """After three steps two nodes are open; with streams under another secret step 4 closes them.

    Without them their noise would stay in all sums, and a tree begun anew would repeat its noise.
    """
    plan, silos = plan_of([2, 2], 8, Everyone()), np.array([1])
    first = maker(plan, seed=0)
    units = [first.of_silos(silos, r, r + 1)(0).units[0] for r in range(3)]
    state = first.state(1)
    assert {k: np.shape(v) for k, v in state.items()} == {"nodes": (2,), "noise": (2, 5)}
    second = maker(plan, seed=1)
    second.restore(1, state)
    units.append(second.of_silos(silos, 3, 4)(0).units[0])
    node = streams_for(1).stream("tree", 1, 4).units(5, np.float64)
    np.testing.assert_array_equal(sum(units), node)
    assert first.state(0)["nodes"].size == 0
