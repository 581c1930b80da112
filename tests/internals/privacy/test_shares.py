"""Noise that silos share: what runs leaves the priced noise to whoever is honest, and no price
counts more than that. Six standard errors: false alarms are below 1e-6 in all."""

import math

import numpy as np
import pytest

from skdpfl.federation import BoundedSum, LocalFederation, SiloBudgets, SiloData, SumPlan
from skdpfl.privacy import Guarantee
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.mechanisms import Aggregate, LearntClip, Senders, SharedMessages
from skdpfl.privacy.plan import composition_of
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import PrecisionError, shared_noise
from tests.guaranteed import plan_of
from tests.privacy.test_secure_aggregation import SHARES, law_of_sum

MANY = 100_000
#: relative error of a standard deviation
OFF = 6 / math.sqrt(2 * MANY)
KEYS = streams_for(0)
SIZES = np.array([20, 30, 50, 25, 80])


def plan(unit="record", **kw):
    options = {
        "silo_sizes": SIZES if unit == "record" else None, "silo_ids": tuple("abcde"),
        "steps": (1, 1), "clip_norm": 0.7, "noise_multiplier": 3.0, "delta": 1e-5, "unit": unit,
        "trust": "secagg", "colluding": 1, "weights": SIZES / SIZES.sum(), "size": MANY,
    }  # fmt: skip
    return plan_of(**(options | kw)).with_noise(3.0)


def letters_of(plan, cohort, round=0):
    """What silos hide in a round's sum, if their messages are zero."""
    by = Senders(np.asarray(cohort), round, KEYS, plan.clip_norm, len(cohort))
    return plan.mechanism.send(plan, np.zeros((len(cohort), MANY)), by)


def released(plan, letters, round=0):
    aggregate = Aggregate(letters.sum(axis=0), 1.0, plan.clip_norm, len(letters))
    return plan.mechanism.release(plan, aggregate, round, KEYS)


@pytest.mark.parametrize("colluding", [0, 1, 3])
@pytest.mark.parametrize("cohort", [[0, 1, 2, 3, 4], [0, 2, 3, 4]])
@pytest.mark.parametrize("unit", ["record", "silo"])
def test_honest_noise_is_what_is_priced(unit, cohort, colluding):
    """Whoever colludes takes the own shares off the sum: what is left has the priced multiplier for
    every silo that is in the round. Smaller shares, or a price of the whole noise, fail here."""
    mine = plan(unit, colluding=colluding, schedule=(np.array(cohort),) * 2, silo_fraction=0.8)
    letters = letters_of(mine, cohort)
    assert letters.dtype == np.int64
    whole = released(mine, letters)
    step = whole[0] / letters[:, 0].sum()
    moves = mine.record_shares if unit == "record" else np.full(5, mine.weights.max())
    for silo in cohort:
        z = float(mine.noise_multiplier[silo])
        (((event, count)),) = composition_of(mine, mine.mechanism, silo, z)
        assert (type(event), count) == (Gaussian, 2)
        priced = event.noise_multiplier * moves[silo] * mine.clip_norm
        colluders = [i for i in range(len(cohort)) if cohort[i] != silo][:colluding]
        left = np.delete(letters, colluders, axis=0).sum(axis=0) * step
        assert left.std() == pytest.approx(priced, rel=OFF)
        assert left.mean() == pytest.approx(0, abs=6 * priced / math.sqrt(MANY))
        honest = len(cohort) - colluding
        assert whole.std() == pytest.approx(priced * math.sqrt(len(cohort) / honest), rel=OFF)


def test_silos_draw_their_own_noise():
    """No two silos, and no two rounds, have any noise in common; a silo's is that of its stream."""
    mine = plan()
    first, second = letters_of(mine, [0, 1, 2, 3, 4]), letters_of(mine, [0, 1, 2, 3, 4], round=1)
    related = np.corrcoef(np.vstack([first, second]))
    assert np.abs(related - np.eye(10)).max() < 6 / math.sqrt(MANY)
    alone = KEYS.of_silo(3).stream("share", 0, 1).units(MANY, np.float64)
    np.testing.assert_array_equal(second[3], alone)


def test_sums_are_exact_modulo_the_masks():
    """Masks that cancel leave the sum as it is, and the sum of integers is the released one."""
    mine, rng = plan(), np.random.default_rng(0)
    by = Senders(np.arange(5), 0, KEYS, 0.7, 5)
    kept = 0.02 * rng.normal(size=(5, MANY))
    letters = mine.mechanism.send(mine, kept, by)
    masks = rng.integers(-(2**63), 2**63 - 1, size=(5, MANY))
    masks[4] = -masks[:4].sum(axis=0)
    np.testing.assert_array_equal((letters + masks).sum(axis=0), letters.sum(axis=0))
    exact = mine.weights @ kept
    noise = mine.mechanism.noise_in(mine, 0, 5)
    apart = released(mine, letters) - released(mine, letters_of(mine, range(5))) - exact
    assert np.abs(apart).max() <= 5 * noise.grid


def test_one_record_moves_one_silos_integers_only():
    """Others' integers stay what they are, bit for bit, whatever the record is."""
    mine, rng = plan(), np.random.default_rng(1)
    kept = rng.normal(size=(5, MANY))
    moved = kept.copy()
    moved[2] += rng.normal(size=MANY)
    by = Senders(np.arange(5), 0, KEYS, 0.7, 5)
    before, after = (mine.mechanism.send(mine, k, by) for k in (kept, moved))
    np.testing.assert_array_equal(np.delete(before, 2, 0), np.delete(after, 2, 0))
    assert (before[2] != after[2]).all()


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("squared_norms", [False, True])
def test_whole_silos_hide_their_statistics_in_the_same_sum(squared_norms, learns):
    """Mean squared norm and clipping bit are part of the vector whose norm is bounded by R."""
    mechanism = SharedMessages(squared_norms, LearntClip(1.0) if learns else None)
    mine = plan("silo", mechanism=mechanism, neighbours="add_remove", weights=np.full(5, 0.2))
    rng = np.random.default_rng(2)
    kept = mechanism.keep(mine, rng.normal(size=(5, MANY)), mine.clip_norm)
    by = Senders(np.arange(5), 0, KEYS, mine.clip_norm, 5)
    letters = mechanism.send(mine, kept, by)
    assert letters.shape == (5, MANY + squared_norms + learns)
    noise = mechanism.noise_in(mine, mine.clip_norm, 5)
    units = KEYS.units_block("share", range(5), 0, letters.shape[1:], np.float64)
    radius = mine.clip_norm * math.sqrt(1 + 0.02 * learns)
    assert np.linalg.norm((letters - units) * noise.grid, axis=1).max() <= radius
    assert noise.std * math.sqrt(4) == pytest.approx(3.0 * radius)


@pytest.mark.every
@pytest.mark.parametrize(
    ("std", "n_silos", "colluding", "bound", "error"),
    [
        (1.0, 3, 3, 1.0, ValueError),
        (1.0, 3, 4, 1.0, ValueError),
        (1.0, 2**20 + 1, 1, 1.0, PrecisionError),
        (1.0, 10, 1, 2.0**40, PrecisionError),
        (1.0, 2**20, 0, 2.0**17 - 2.0**13, PrecisionError),  # a number fits, all shares do not
        (1e-310, 10, 1, 0.0, PrecisionError),
    ],
)
def test_shares_that_are_not_covered_are_refused(std, n_silos, colluding, bound, error):
    with pytest.raises(error):
        shared_noise(std, n_silos, colluding, bound)


@pytest.mark.parametrize("unit", ["record", "silo"])
@pytest.mark.parametrize("kw", [{"colluding": 5}, {"schedule": (np.array([0]), np.arange(5))}])
def test_too_few_silos_are_refused_with_the_plan(kw, unit):
    with pytest.raises(ValueError, match="colluding"):
        plan(unit, **kw)


@pytest.mark.parametrize(
    ("kw", "words"),
    [({"silo_fraction": 0.5, "schedule": None}, "needs a schedule"), ({"size": 10**12}, "draws")],
)
def test_plans_that_prices_do_not_cover_are_refused(kw, words):
    with pytest.raises(ValueError, match=words):
        plan("silo", **kw)


def test_spare_rounds_are_priced_as_rounds_of_the_least_noise():
    rounds = {"steps": (1,) * 4, "noise_schedule": ("round", 0.5, 1)}
    plans = plan(**rounds), plan(**rounds, spare_rounds=3)
    without, spare = (
        {event.noise_multiplier: n for event, n in each.groups().compositions[0]} for each in plans
    )
    least = min(without)
    assert least == pytest.approx(min(plans[0].noise_multiplier * plans[0].factor_range[0]))
    assert spare == without | {least: without[least] + 3}


class Ones(BoundedSum):
    shape, radius, stackable = (MANY,), 1.0, True

    def terms(self, X, y):
        return np.zeros((len(X), MANY))


@pytest.mark.parametrize("colluding", [0, 1, 3])
def test_sums_beside_the_rounds_have_the_priced_noise_left(colluding):
    budgets = SiloBudgets(SIZES, np.full(5, 0.5), Guarantee(trust="secagg", colluding=colluding))
    sums = SumPlan(budgets, "ones", (np.full(5, 0.25),))
    data = SiloData.from_codes(
        np.zeros((SIZES.sum(), 1)), np.zeros(SIZES.sum()), np.repeat(range(5), SIZES), 5
    )
    question = sums.question(0, Ones())
    sent = dict(
        (int(silo), letter)
        for silos, letters in LocalFederation(data, streams_for(5)).ask(question)
        for silo, letter in zip(silos, letters, strict=True)
    )
    letters = np.array([sent[i] for i in range(5)])
    assert letters.dtype == np.int64
    (((event, _)),) = sums.composition()
    priced = event.noise_multiplier * 1.0  # of terms of norm 1
    left = letters[colluding:].sum(axis=0) * question.shared.grid
    assert left.std() == pytest.approx(priced, rel=OFF)
    whole = question.each(LocalFederation(data, streams_for(5)), streams_for(6))
    assert whole.std() == pytest.approx(priced * math.sqrt(5 / (5 - colluding)), rel=OFF)
    assert sums.noise(0, Ones()) * SIZES.sum() == pytest.approx(whole.std(), rel=OFF)


EPSILONS = [0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0]


def delta_of(law, shift, epsilon):
    """The hockey-stick divergence of the sum and itself moved by ``shift`` steps."""
    still, moved = np.append(law, np.zeros(shift)), np.append(np.zeros(shift), law)
    return math.fsum(np.maximum(still - math.exp(epsilon) * moved, 0.0).tolist())


def excess(shares, factors=(0.3, 1.0, 2.0, 4.0)):
    """By how much the sum's curve is above that of a normal of the same variance, at most."""
    law, deviation = law_of_sum(shares), math.sqrt(sum(s * s for s in shares))
    shifts = sorted({1, 2, *(max(1, round(f * deviation)) for f in factors)})
    return max(
        delta_of(law, shift, e) - gaussian_delta(shift / deviation, e)
        for shift in shifts
        for e in EPSILONS
    )


@pytest.mark.parametrize("h", range(1, 21))
@pytest.mark.parametrize("s", SHARES)
def test_a_sum_of_rounded_normals_costs_at_most_what_the_normal_does(s, h):
    assert excess([s] * h) <= 1e-15


def test_a_tiny_share_beside_a_large_one_breaks_the_claim():
    """Shares of 2, .2 and .2 steps: the small ones round to 0 and hide nothing, yet are counted."""
    assert 3e-3 < excess([2.0, 0.2, 0.2]) < 6e-3
    assert excess([2.0]) <= 1e-15  # the large one alone is worth what it is
    assert excess([1.0, 0.2, 0.2]) > 1e-3
