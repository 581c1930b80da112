"""Messages may come in any order and in any pieces: the model is the same, bit for bit."""

import numpy as np
import pytest

from skdpfl.federation import CohortSum, Federation, GridSum


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
