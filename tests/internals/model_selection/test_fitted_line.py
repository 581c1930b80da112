"""Platt's line and cuts from noisy counts: right without noise, and the classifier's own in it."""

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from skdpfl.federation import ReleasedScore
from skdpfl.model_selection._prefit import GapTable, ScoreTable, best_cut, fitted_line

CENTRES = np.linspace(-3, 3, 8)
COSTS = {"false_positive": 1, "false_negative": 9}


def counted(slope, intercept, noise=0.0, added=0.0):
    """Counts of records that are equally many in all bins, of which positives follow a line."""
    positives = expit(slope * CENTRES + intercept) / 8
    counts = np.stack([1 / 8 - positives, positives])
    return ReleasedScore(ScoreTable(edges=CENTRES), counts + added, noise, counts, np.zeros(1))


@pytest.mark.parametrize("line", [(1.0, 0.0), (0.3, 0.5), (2.0, -1.0)])
def test_without_noise_it_is_the_line_of_the_counts(line):
    assert fitted_line(counted(*line)) == pytest.approx(line, abs=2e-3)
    assert fitted_line(counted(*line, added=0.01)) == pytest.approx(line, abs=2e-3)  # they sum to 1


def test_noise_draws_it_to_the_classifiers_own_line():
    """All the way where the difference is no larger than noise makes it."""
    away = [fitted_line(counted(0.3, 0.5, noise))[0] for noise in (0.0, 0.01, 0.03, 0.3)]
    assert away == sorted(away) and away[0] == pytest.approx(0.3, abs=1e-2)
    assert fitted_line(counted(0.3, 0.5, 0.3)) == (1.0, 0.0)


def test_noise_as_large_as_counts_gives_no_steep_line():
    """While positives of a bin could be negative, some slopes were at their bound."""
    noise = np.random.default_rng(0).normal(0.0, 0.04, (200, 2, 8))
    slopes = np.array([fitted_line(counted(1.0, 0.0, 0.04, each))[0] for each in noise])
    assert 0.5 < np.median(slopes) < 2 and slopes.max() < 20


def test_a_line_that_is_far_from_the_classifiers_own_is_found_in_noise():
    """The classifier is sure of "no" where half are "yes"; half-way to its own line is worse."""
    centres = np.array([-16.8, -15.4, -14.2, -13.2, -12.2, -8.9, 9.2, 34.0])
    totals = np.array([0.12, 0.26, 0.18, 0.09, 0.12, 0.04, 0.01, 0.18])
    rates = expit(1.3 * centres + 18)
    losses = []
    for seed in range(100):
        noise = np.random.default_rng(seed).normal(0.0, 0.0113, (2, 8))
        counts = totals * np.stack([1 - rates, rates]) + noise
        found = ReleasedScore(ScoreTable(edges=centres), counts, 0.0113, counts, np.zeros(1))
        slope, intercept = fitted_line(found)
        raw = slope * centres + intercept
        losses.append(totals @ (np.logaddexp(0.0, raw) - rates * raw))
    raw = 1.3 * centres + 18
    assert np.mean(losses) < totals @ (np.logaddexp(0.0, raw) - rates * raw) + 0.1
    assert max(losses) < 0.8  # ln 2 is chance's, 3.8 the classifier's own


def test_gaps_are_of_the_first_two_labels():
    """A record of a third label is not counted; a gap of no probability is finite."""
    chances = np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.0, 0.0, 1.0]])
    with np.errstate(divide="ignore"):
        logs = np.log(np.vstack([chances, np.full(3, np.nan)]))
    table = GapTable(edges=np.linspace(1.0, 7.0, 7))
    counted = table.terms(logs, np.array([0, 1, 2, 2, 0]))
    assert counted.sum(axis=(1, 2)).tolist() == [1, 1, 0, 1, 0]
    log_of_3_5 = [0.75, 0.25]  # 1.2528, in steps of 1/256
    np.testing.assert_allclose(counted[0, 1, :2], log_of_3_5, atol=1 / 256)
    np.testing.assert_array_equal(counted[1, 0], counted[0, 1])
    assert counted[3, 1, 6] == 1


def test_a_record_counts_at_the_two_knots_that_its_score_is_between():
    """Its counts are one in sum, of a norm of at most 1, and float64 adds them up exactly."""
    knots = np.array([-3.0, -1.0, 0.0, 0.0, 2.0, 7.0])
    scores = np.array([-np.inf, -9.0, -2.0, -1.0, 0.5, 7.0, 9.0, np.inf, np.nan])
    scores = np.concatenate([scores, np.random.default_rng(0).uniform(-4, 8, 2000)])
    y = np.arange(len(scores)) % 2
    table = ScoreTable(zoomed=True, edges=knots)
    terms = table.terms(scores[:, None], y)
    assert terms.shape == (len(scores), *table.shape) == (len(scores), 2, 6)
    assert (terms >= 0).all() and (terms[np.arange(len(y)), y].sum(axis=1) == 1).all()
    assert np.linalg.norm(terms, axis=(1, 2)).max() <= table.radius
    assert (terms * 256 % 1 == 0).all()
    own = terms[np.arange(len(y)), y]
    assert own[:2].tolist() == [[1, 0, 0, 0, 0, 0]] * 2
    assert own[2:4].tolist() == [[0.5, 0.5, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]]
    assert own[4].tolist() == [0, 0, 0, 0.75, 0.25, 0]
    assert own[5:8].tolist() == [[0, 0, 0, 0, 0, 1]] * 3
    one_by_one = [table.terms(scores[i : i + 1, None], y[i : i + 1])[0] for i in range(50)]
    np.testing.assert_array_equal(one_by_one, terms[:50])


def test_without_noise_a_slope_is_that_of_the_gaps():
    gaps = np.linspace(0.5, 6, 8)
    rates = 0.7 * expit(0.4 * gaps) / 8  # three in ten are of other labels
    counts = np.stack([0.7 / 8 - rates, rates])
    found = ReleasedScore(GapTable(edges=gaps), counts, 1e-6, counts, np.zeros(1))
    assert fitted_line(found) == (pytest.approx(0.4, abs=1e-3), 0.0)


@pytest.mark.every
@pytest.mark.parametrize(
    ("scoring", "costs", "rate"),
    [
        ("accuracy", None, 0.5),
        ("balanced_accuracy", None, float(expit(CENTRES - 0.5).mean())),
        ("accuracy", COSTS, 0.1),
        ("accuracy", {"false_positive": 0, "false_negative": 1}, 0.0),
        ("accuracy", {"false_positive": 1, "false_negative": 0}, 1.0),
    ],
)
def test_cuts_are_where_a_positive_is_as_likely_as_it_has_to_be(scoring, costs, rate):
    cut = best_cut(counted(1.0, -0.5), scoring, costs)
    assert cut == (pytest.approx(logit(rate) + 0.5, abs=0.02) if 0 < rate < 1 else logit(rate))


def test_the_cut_of_f1_has_the_largest():
    wide = np.linspace(-3.4, 3.4, 2001)
    positive = expit(wide - 0.5)
    hits = np.cumsum(positive[::-1])[::-1]
    f1 = 2 * hits / (np.arange(len(wide), 0, -1) + positive.sum())
    cut = best_cut(counted(1.0, -0.5), "f1", None)
    assert np.interp(cut, wide, f1) > f1.max() - 0.002
    assert not math.isclose(cut, 0.5, abs_tol=0.1)  # that of accuracy


def test_cuts_follow_counts_that_are_no_line():
    """Unless noise could be all that makes them differ from it; a share that falls is noise."""
    rates = np.array([0.01, 0.12, 0.02, 0.03, 0.9, 0.95, 0.95, 0.96])
    counts = np.stack([1 - rates, rates]) / 8
    for noise, limits in ((1e-4, (CENTRES[3], 0.0)), (0.2, (-2.3, -2.1))):
        found = ReleasedScore(ScoreTable(edges=CENTRES), counts, noise, counts, np.zeros(1))
        assert limits[0] < best_cut(found, "accuracy", COSTS) < limits[1]


def test_cuts_lie_among_knots_where_counts_cross_the_rate_and_the_line_does_not():
    """Naive Bayes: far scores make the line flat, so all its chances at knots are above .1."""
    centres = np.array([-6.74, -5.31, -4.64, -4.12, -3.45, 9.21])
    totals = np.array([0.138, 0.17, 0.172, 0.226, 0.192, 0.102])
    rates = np.array([0.016, 0.055, 0.129, 0.273, 0.437, 0.691])
    counts = totals * np.stack([1 - rates, rates])
    found = ReleasedScore(ScoreTable(edges=centres), counts, 1e-4, counts, np.zeros(1))
    slope, intercept = fitted_line(found)
    assert expit(slope * centres[0] + intercept) > 0.11
    assert centres[1] < best_cut(found, "accuracy", COSTS) < centres[2]


def test_a_record_without_probabilities_is_not_counted():
    logs = np.log([[0.2, 0.8], [np.nan, 0.8], [0.2, np.nan], [np.nan, np.nan]])
    terms = GapTable(zoomed=True, edges=(CENTRES[1:] + 3) / 2).terms(logs, np.ones(4, int))
    assert terms.any(axis=(1, 2)).tolist() == [True, False, False, False]
