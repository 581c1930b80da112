"""Messages may come in any order and in any pieces: the model is the same, bit for bit."""

import numpy as np
import pytest

from skdpfl.engine import run
from skdpfl.federation import CohortSum, Federation, GridSum
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import Everyone, PoissonSampling
from tests.engine.reference import Setting
from tests.engine.settings import federation_of, problem, work_of


class Delivering(Federation):
    """Another federation's messages, delivered otherwise."""

    def __init__(self, inner, deliver):
        self.inner, self.deliver = inner, deliver

    @property
    def n_silos(self):
        return self.inner.n_silos

    def start(self, work):
        self.inner.start(work)

    def round(self, round, shared, cohort, clip_norm):
        parts = list(self.inner.round(round, shared, cohort, clip_norm))
        silos = np.concatenate([who for who, _ in parts])
        messages = np.concatenate([sent for _, sent in parts])[np.argsort(silos)]
        for places in self.deliver(len(cohort)):
            yield cohort[places], messages[places]


@pytest.mark.parametrize("n", [1, 5])
def test_a_message_too_many_or_too_few_is_an_error(n):
    cohort, messages = np.arange(10, 10 + n), np.ones((n, 2))

    def total():
        return CohortSum(cohort, np.ones(n), 2)

    with pytest.raises(ValueError, match=f"^{n} of the cohort's silos sent no message"):
        total().result()
    for stranger in (3, 10 + n):
        with pytest.raises(ValueError, match="outside the cohort"):
            total().add(np.array([stranger]), messages[:1])
    for first in (cohort, cohort[:1]):
        twice = total()
        twice.add(first, messages[: len(first)])
        with pytest.raises(ValueError, match="two messages"):
            twice.add(cohort[:1], messages[:1])
    with pytest.raises(ValueError, match="two messages"):
        total().add(cohort[[0, 0]], np.ones((2, 2)))
    with pytest.raises(TypeError, match="must be int64"):
        GridSum(cohort, 2).add(cohort, messages.astype(np.int32))


def test_an_empty_cohort_adds_up_to_nothing():
    assert CohortSum(np.zeros(0, int), np.zeros(0), 3).result().tolist() == [0.0] * 3


def test_all_messages_at_once_are_the_same_as_one_by_one():
    rng = np.random.default_rng(0)
    cohort, weights, messages = np.arange(7), rng.random(7), rng.normal(size=(7, 2**15))
    whole, apart = (CohortSum(cohort, weights, 2**15) for _ in range(2))  # pieces of two
    whole.add(cohort, messages)
    for i in cohort[::-1]:
        apart.add(cohort[i : i + 1], messages[i : i + 1])
    np.testing.assert_array_equal(whole.result(), apart.result())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_rounds_of_gradients_are_those_of_messages(rate, dtype):
    p, sampling = problem(alpha=0.1), PoissonSampling(rate) if rate < 1 else Everyone()
    weights, z = np.array([0.1, 0.2, 0.3, 0.4]), np.full(4, 2.0)
    setting = Setting(6, [1] * 6, 0.3, 1.0, z, weights, sampling, momentum=0.5)
    work = work_of("minibatch", p, setting, dtype)
    own, sent = federation_of(p, dtype), Delivering(federation_of(p, dtype), lambda n: [range(n)])
    found = [run(work, silos, streams_for(0)) for silos in (own, sent)]
    assert own.gradients() is not None and sent.gradients() is None
    np.testing.assert_array_equal(found[0].params, found[1].params)
    np.testing.assert_array_equal(found[0].mean, found[1].mean)
