"""People with several rows: the cut, and the budget of a person."""

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.preprocessing import limit_rows
from skdpfl.privacy import epsilon_per_record

RNG = np.random.default_rng(0)


def test_nobody_has_more_rows_than_the_limit_and_only_ids_decide():
    people = RNG.integers(0, 50, 400)
    for most in (1, 3, 1000):
        kept = limit_rows(people, most)
        counts, full = np.bincount(people[kept]), np.bincount(people)
        np.testing.assert_array_equal(counts, np.minimum(full, most))
    first = np.unique(people, return_index=True)[1]
    np.testing.assert_array_equal(np.flatnonzero(limit_rows(people, 1)), np.sort(first))
    names = [f"p{i}" for i in people]
    np.testing.assert_array_equal(limit_rows(names, 3), limit_rows(people, 3))


def test_another_persons_rows_do_not_change_what_is_kept_of_mine():
    people = RNG.integers(0, 20, 200)
    mine = people == 7
    others = np.where(mine, 7, RNG.permutation(people + 100))
    np.testing.assert_array_equal(limit_rows(people, 4)[mine], limit_rows(others, 4)[mine])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_persons_budget_is_met_and_used(k):
    X, y = RNG.uniform(size=(900, 3)), np.arange(900) % 2
    epsilon = epsilon_per_record(3.0, k=k, delta=1e-5)
    clf = ISRLDPClassifier(epsilon, delta=1e-5, feature_bounds=(0, 1), sampling_rate=1.0)
    group = clf.fit(X, y).privacy_spent_.group(k)
    assert 0.985 * 3 <= group.epsilon <= 3 and group.delta == 1e-5


def test_bad_input():
    with pytest.raises(ValueError, match="missing value"):
        limit_rows(["a", None], 1)
    with pytest.raises(ValueError, match="most must be an integer"):
        limit_rows(["a"], 0)
    with pytest.raises(ValueError, match="must be an integer"):
        epsilon_per_record(1.0, k=0, delta=1e-5)
    assert epsilon_per_record(np.inf, k=3, delta=1e-5) == np.inf
