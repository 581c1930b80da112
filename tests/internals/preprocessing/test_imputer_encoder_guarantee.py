"""The imputer's and the encoder's guarantees: sensitivities, noise, and the threshold's delta."""

import dataclasses
import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import binom, chi2

from skdpfl.federation import LocalFederation, SiloData
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer
from skdpfl.preprocessing._encoder import Vocabulary, beside_threshold
from skdpfl.preprocessing._imputer import Centres
from skdpfl.preprocessing._paying import SiloSource
from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling import read_feature_bounds
from skdpfl.scaling._value_counts import CodedColumn
from tests.made_sums import budgets_of

RELATIONS = ["replace", "add_remove"]


def source_of(X, sizes, seed=0):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    data = SiloData.from_codes(X, np.zeros(len(X)), codes, len(sizes))
    streams = streams_for(seed)
    return SiloSource(LocalFederation(data, streams), streams, X.dtype)


def vocabulary(d=1, sizes=(500,), relation="replace", epsilon=1.0, kind="category"):
    budgets = budgets_of(sizes, neighbours=relation)
    spent = beside_threshold(budgets, epsilon, 1e-5)
    return Vocabulary(budgets, np.ones(d, bool), (kind,) * d, *spent)


VALUES = [np.nan, -np.inf, np.inf, -1.0, 0.0, 0.37, 1.0, 1e300, 1e-300]


@pytest.mark.parametrize("value", VALUES)
def test_a_width_whose_half_underflows_makes_no_sum_nan(value):
    """A sum that is no number would tell of the value, whatever the noise."""
    bounds = read_feature_bounds(([-1.0, 0.0], [1.0, 5e-324]), 2)
    centres = Centres(budgets_of([40], 1.0), 1.0, bounds, "mean")
    found, _ = centres.find(source_of(np.full((40, 2), value), [40]))
    assert np.isfinite(found).all() and found[1] == 0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("d", [1, 4])
def test_the_gaussian_part_pays_for_two_counts_of_each_column(d, relation):
    """Counts of values that both neighbours have move by sqrt(2 d), or sqrt(d) if zeroed."""
    release = vocabulary(d, relation=relation)
    column = np.repeat(["a", "b"], [200, 300]).astype(object)
    changed = column.copy()
    changed[0] = "b" if relation == "replace" else None
    counts = [np.array([(c == v).sum() for v in "ab"]) for c in (column, changed)]
    moved = math.sqrt(d) * np.linalg.norm(counts[0] - counts[1])
    (gaussian, times), _ = release.plan.composition()
    assert times == 1
    mu = (2 if relation == "replace" else 1) / gaussian.noise_multiplier
    assert 0.999 * mu <= moved / release.std <= mu
    many = vocabulary(d, (60_000,), relation, kind="number")
    table = np.repeat(np.arange(300), 200)[:, None] * np.ones(d, int)
    found = many.find(source_of(table, [60_000]))[0]
    low, high = chi2.ppf([5e-8, 1 - 5e-8], 300)
    assert low < ((found - 200) ** 2).sum() / many.std**2 < high


def test_a_gap_does_not_tell_two_texts_apart():
    """pandas takes half of a character for its escaped form, unless a value is missing."""
    words = np.array(["'\\ud800'"] * 3 + ["\ud800"] * 4 + ["a"], dtype=object)
    gap = words.copy()
    gap[-1] = None
    names, counts = CodedColumn(words, "category").counts(slice(None))
    assert (names, counts.tolist()) == (("'\\ud800'", "a"), [3, 1])
    names, counts = CodedColumn(gap, "category").counts(slice(None))
    assert (names, counts.tolist()) == (("'\\ud800'",), [3])


@pytest.mark.parametrize("d", [1, 3])
def test_single_records_values_are_given_out_as_rarely_as_paid_for(d):
    """How many of 20,000 such values are given out, at a probability that can be counted.

    Fails if the threshold is a fifth of a deviation too low, or forgets one of d columns; false
    alarms below 1e-6 at either end.
    """
    delta, times = 0.04, 20_000
    release = vocabulary(d, (times,), epsilon=0.5)
    plan = dataclasses.replace(release.plan, failure=delta)
    counts = CodedColumn(np.arange(times), "number").counts(slice(None))
    question = plan.question(0, release.what)
    given = len(release.what.giver(question, streams_for(d))(0, counts, 0).counts)
    q = 1 - (1 - delta) ** (1 / d)  # in none of d columns: 1 - delta
    low, high = binom.ppf([1e-6, 1 - 1e-6], times, q)
    assert low <= given <= high


def test_the_price_is_that_of_both_parts():
    release = vocabulary(2)
    composition = release.plan.composition()
    assert composition[1] == (Approximate(0.0, pytest.approx(1e-7)), 1)
    price = price_epsilon(composition, 1e-5, "replace")
    assert 0.99 <= price <= 1.0
    # without the threshold's part the noise would be less
    alone = price_epsilon(composition[:1], 1e-5, "replace")
    assert isinstance(composition[0][0], Gaussian) and alone < price


HUGE = 10**5000
#: a value of the first record, a column of its kind, and what the column gives out
FIRST = [
    (-0.0, np.zeros(500), 0),
    (1.0, np.full(500, 1, dtype=object), "1"),
    (Decimal("1.00"), np.full(500, Decimal("1.0"), dtype=object), "1"),
    (HUGE, np.full(500, 1, dtype=object), "1"),
    (("a",), np.full(500, "a", dtype=object), "a"),
]


@pytest.mark.filterwarnings("ignore:(No category was found|Too few values)")
@pytest.mark.parametrize("first, column, label", FIRST, ids=range(len(FIRST)))
def test_no_record_decides_which_of_equal_values_is_given_out(first, column, label):
    """The first record's own object, or its kind of 1, came out: seen with certainty."""
    X = column[:, None].copy()
    X[0, 0] = first
    found = DPOneHotEncoder(5.0, random_state=0).fit(X).categories_[0].tolist()
    assert repr(found) == repr([label])
    filled = DPSimpleImputer(5.0, strategy="most_frequent", random_state=0).fit(X).statistics_
    assert filled[0] == label
    assert not np.signbit(filled[0]) if column.dtype == float else type(filled[0]) is str


def test_names_of_whole_silos_are_refused():
    """One may be the only silo with a value: noise and threshold are for one record's."""
    release = vocabulary()
    budgets = budgets_of([500], unit="silo")
    with pytest.raises(ValueError, match="only one with a value"):
        dataclasses.replace(release.plan, budgets=budgets).noised(0, release.what)


def test_a_server_cannot_lower_the_threshold():
    """A silo computes it from the plan that it agreed to; a question has no say in it."""
    release = vocabulary(1, (300,), epsilon=1.0)
    table = np.array(299 * ["a"] + ["b"], dtype=object)[:, None]
    low = dataclasses.replace(release.what, largest=1)
    question = release.plan.question(0, low)
    data = SiloData.from_codes(table, np.zeros(300), np.zeros(300, int), 1)
    for seed in range(50):
        ((_, (sent,)),) = question.answers(data, streams_for(seed))
        assert sent.names == (("a",),)
