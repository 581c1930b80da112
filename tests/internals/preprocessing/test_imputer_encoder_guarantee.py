"""The imputer's and the encoder's guarantees: sensitivities, noise, and the threshold's delta."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, chi2

from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer, _vocabulary
from skdpfl.preprocessing._centres import Centres
from skdpfl.preprocessing._sums import Held
from skdpfl.preprocessing._vocabulary import Vocabulary
from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling import read_feature_bounds

RELATIONS = ["replace", "add_remove"]


def held(sizes=(40,), relation="replace", at_server=False, seed=0):
    sizes = np.array(sizes)
    codes = np.repeat(np.arange(sizes.size), sizes)
    return Held(codes, sizes, at_server, relation, streams_for(seed))


def exact_sums(centres, X, monkeypatch, last):
    """Return the exact sums of one release, with the sensitivity that its noise is made for."""
    seen = []

    def released(self, exact, mu, *, change, norm, number):
        seen.append((exact.copy(), change, norm))
        noiseless = exact.sum(axis=0)
        return noiseless, 1e-9

    with monkeypatch.context() as patch:
        patch.setattr(Held, "released", released)
        centres.found(X)
    return seen[-1 if last else 0]


VALUES = [np.nan, -np.inf, np.inf, -1.0, 0.0, 0.37, 1.0, 1e300, 1e-300]


@pytest.mark.parametrize("value", VALUES)
def test_a_width_whose_half_underflows_makes_no_sum_nan(value, monkeypatch):
    """A sum that is no number would tell of the value, whatever the noise."""
    bounds = read_feature_bounds(([-1.0, 0.0], [1.0, 5e-324]), 2)
    centres = Centres(held(), 1.0, bounds, "mean")
    exact, *_ = exact_sums(centres, np.full((40, 2), value), monkeypatch, last=True)
    assert np.isfinite(exact).all()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("strategy", ["mean", "median"])
@pytest.mark.parametrize("bounded", [True, False], ids=["bounds", "none"])
def test_no_record_moves_a_sum_further_than_its_noise_is_made_for(
    strategy, bounded, relation, monkeypatch
):
    """All pairs of values of a record, in every column alike; the bound is attained."""
    d = 3
    bounds = read_feature_bounds((-1, 1), d) if bounded else d
    centres = Centres(held(relation=relation), 1.0, bounds, strategy)
    X = np.random.default_rng(0).uniform(-1, 1, (40, d))

    def sums(value):
        X[0] = value
        return exact_sums(centres, X, monkeypatch, last=bounded)

    each = {str(v): sums(v) for v in VALUES}
    change, norm = each["0.0"][1:]
    # where a contribution is set to zero it is that of a record without values
    pairs = (
        itertools.combinations(each, 2)
        if relation == "replace"
        else ((name, "nan") for name in each)
    )
    moved = [np.linalg.norm(each[a][0] - each[b][0]) for a, b in pairs]
    assert 0.999 * change <= max(moved) <= change * (1 + 1e-12)
    own = [np.linalg.norm(exact - each["nan"][0]) for exact, _, _ in each.values()]
    assert max(own) <= norm * (1 + 1e-12)


@pytest.mark.parametrize("at_server", [False, True])
def test_noise_is_what_the_sensitivity_needs(at_server):
    """A chi-square test of the noise's variance; false alarms below 1e-7."""
    records, size, mu = held((30, 50, 20), at_server=at_server), 400, 0.5
    exact = np.zeros((records.groups.size, size))
    noisy, std = records.released(exact, mu, change=2.0, norm=1.0, number=0)
    low, high = chi2.ppf([5e-8, 1 - 5e-8], size)
    assert low < (noisy**2).sum() / std**2 < high
    alone = std / math.sqrt(1 if at_server else 3)
    assert alone == pytest.approx(2.0 / mu, rel=1e-3) and alone > 2.0 / mu


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("d", [1, 4])
def test_the_gaussian_part_pays_for_two_counts_of_each_column(d, relation):
    """Counts of values that both neighbours have move by sqrt(2 d), or sqrt(d) if zeroed."""
    release = Vocabulary.planned(held((500,), relation), d, 1.0, 1e-5)
    column = np.repeat(["a", "b"], [200, 300]).astype(object)
    changed = column.copy()
    changed[0] = "b" if relation == "replace" else None
    counts = [np.array([(c == v).sum() for v in "ab"]) for c in (column, changed)]
    moved = math.sqrt(d) * np.linalg.norm(counts[0] - counts[1])
    (gaussian, times), _ = release.composition
    assert times == 1
    mu = (2 if relation == "replace" else 1) / gaussian.noise_multiplier
    assert 0.999 * mu <= moved / release.std <= mu
    many = Vocabulary.planned(held((60_000,), relation), d, 1.0, 1e-5)
    found = many.found(np.repeat(np.arange(300), 200), held((60_000,), relation), 0)
    low, high = chi2.ppf([5e-8, 1 - 5e-8], 300)
    assert low < ((found - 200) ** 2).sum() / many.std**2 < high


@pytest.mark.parametrize("d", [1, 3])
def test_single_records_values_are_given_out_as_rarely_as_paid_for(d):
    """How many of 20,000 such values are given out, at a probability that can be counted.

    Fails if the threshold is a fifth of a deviation too low, or forgets one of d columns; false
    alarms below 1e-6 at either end.
    """
    delta, times = 0.04, 20_000
    noise = Vocabulary.planned(held((times,)), d, 0.5, 1e-5).std
    release = Vocabulary(1.0, 1.0, noise, _vocabulary.threshold(noise, d, delta), ())
    given = len(release.found(np.arange(times), held((times,), seed=d), 0))
    q = 1 - (1 - delta) ** (1 / d)  # in none of d columns: 1 - delta
    low, high = binom.ppf([1e-6, 1 - 1e-6], times, q)
    assert low <= given <= high


def test_the_price_is_that_of_both_parts():
    release = Vocabulary.planned(held((500,)), 2, 1.0, 1e-5)
    assert release.composition[1] == (Approximate(0.0, pytest.approx(1e-7)), 1)
    price = price_epsilon(release.composition, 1e-5, "replace")
    assert 0.99 <= price <= 1.0
    # without the threshold's part the noise would be less
    alone = price_epsilon(release.composition[:1], 1e-5, "replace")
    assert isinstance(release.composition[0][0], Gaussian) and alone < price


def test_values_that_no_record_has_are_never_given_out_and_silos_count_apart():
    release = Vocabulary.planned(held((300, 300)), 1, 50.0, 1e-5)
    column = np.repeat(np.array(["a", "b"], dtype=object), [300, 300])
    found = release.found(column, held((300, 300)), 0)
    assert set(found.index) == {"a", "b"} and (abs(found - 300) < 20).all()


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_no_record_decides_which_of_equal_values_is_given_out(first):
    """With -0.0 in the first row it was -0.0 that came out: seen with certainty."""
    X = np.zeros((500, 1))
    X[0] = first
    for table in (X, X.astype(object)):
        (found,) = DPOneHotEncoder(5.0, random_state=0).fit(table).categories_
        assert [math.copysign(1.0, zero) for zero in found] == [1.0]
        filled = DPSimpleImputer(5.0, strategy="most_frequent", random_state=0).fit(table)
        assert math.copysign(1.0, filled.statistics_[0]) == 1.0


@pytest.mark.parametrize("first", [True, 1.0, np.int64(1), np.float32(1), np.bool_(True), "1"])
def test_equal_values_of_several_kinds_are_an_error(first):
    X = np.full((500, 1), 1, dtype=object)
    X[0, 0], X[1, 0] = first, None
    encoder = DPOneHotEncoder(5.0, random_state=0)
    if first == 1 and not isinstance(first, np.integer):
        with pytest.raises(ValueError, match="equal values of several kinds"):
            encoder.fit(X)
        return
    (found,) = encoder.fit(X).categories_
    assert found.tolist() == [1] and type(found[0]) is int


def test_texts_are_given_out_as_pythons_own():
    X = np.array([[np.str_("a")]] + 499 * [["a"]], dtype=object)
    (found,) = DPOneHotEncoder(5.0, random_state=0).fit(X).categories_
    assert type(found[0]) is str
