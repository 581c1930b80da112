"""Scores of predictions: without noise those of sklearn.metrics, with noise as far off as said."""

import numpy as np
import pytest
from sklearn import metrics

from skdpfl.federation import (
    OF_CLASSES,
    OF_SURVIVAL,
    OF_TARGETS,
    Closeness,
    Confusion,
    LocalFederation,
    RocAuc,
    SiloBudgets,
    SiloData,
    ask_score,
    measure_of,
    score_plan,
)
from skdpfl.privacy import Guarantee
from skdpfl.privacy.randomness.streams import streams_for

N, K = 900, 3


def asked(measure, predicted, y, mu, *, seed=0, trust="silo", unit="record", neighbours="replace"):
    codes = np.arange(len(y)) % 4
    sizes = np.bincount(codes)
    budgets = SiloBudgets(sizes, np.full(4, mu), Guarantee(unit, trust, neighbours))
    data = SiloData.from_codes(predicted, y, codes, 4)
    plan = score_plan(measure, budgets, mu)
    return ask_score(measure, plan, LocalFederation(data, streams_for(seed)), streams_for(seed))


def labels(share=0.3, n=N, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return y, rng.normal(size=n) + 1.2 * y - 1


def shares(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, N)
    raw = rng.normal(size=(N, K)) + 2 * (y[:, None] == np.arange(K))
    return y, np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(10, 2, N)
    return y, y + rng.normal(0, 1, N)


def classes_of(name, made):
    y, found = made
    measure = measure_of(name, n_classes=K, bound=9.0 if name == "neg_log_loss" else None)
    return measure, (np.log(found) if measure.reads != "codes" else found.argmax(1)[:, None]), y


def exact_and_asked(name, mu, **options):
    """Return the score by sklearn.metrics, and what silos found."""
    if name in ("roc_auc", "average_precision"):
        y, scores = labels()
        exact = (metrics.roc_auc_score if name == "roc_auc" else metrics.average_precision_score)(
            y, scores
        )
        return exact, asked(measure_of(name, n_classes=2), scores[:, None], y, mu, **options)
    if name == "concordance":
        y, scores = survival()
        measure = measure_of(name, n_classes=None, targets=(0, 3.0), survival=True)
        return concordance(y, scores), asked(measure, scores[:, None], y, mu, **options)
    if name in ("r2", "neg_mean_absolute_error", "d2_poisson"):
        y, found = counts() if name == "d2_poisson" else numbers()
        exact = {
            "r2": lambda: metrics.r2_score(y, found),
            "neg_mean_absolute_error": lambda: -metrics.mean_absolute_error(y, found),
            "d2_poisson": lambda: metrics.d2_tweedie_score(y, found, power=1),
        }[name]()
        measure = measure_of(name, n_classes=None, targets=(0.0, 20.0))
        return exact, asked(measure, found[:, None], y, mu, **options)
    y, found = shares()
    exact = {
        "accuracy": lambda: metrics.accuracy_score(y, found.argmax(1)),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(y, found.argmax(1)),
        "neg_log_loss": lambda: -metrics.log_loss(y, found),
        "neg_brier_score": lambda: -metrics.brier_score_loss(y, found),
        "calibration_error": lambda: calibration_error(y == found.argmax(1), found.max(1)),
    }[name]()
    measure, predicted, y = classes_of(name, (y, found))
    return exact, asked(measure, predicted, y, mu, **options)


def counts(seed=0):
    rng = np.random.default_rng(seed)
    means = np.exp(1 + 0.6 * rng.normal(size=N).clip(-2, 2))
    return rng.poisson(means).clip(0, 20) * 1.0, means


def survival(seed=0):
    """Times, censored at 3 or before, with events, and risks."""
    rng = np.random.default_rng(seed)
    risks = rng.normal(size=N)
    times, ends = rng.exponential(np.exp(-risks)), np.minimum(rng.exponential(5.0, N), 3.0)
    return np.stack([np.minimum(times, ends), times < ends], axis=1), risks


def concordance(y, scores):
    times, events = y[:, 0], y[:, 1] > 0
    earlier = (times[:, None] < times) & events[:, None]
    return (earlier & (scores[:, None] > scores)).sum() / earlier.sum()


def calibration_error(hits, chances):
    bins = np.minimum((chances * 10).astype(int), 9)
    return np.abs(np.bincount(bins, hits - chances)).sum() / len(hits)


NAMES = [*OF_CLASSES, *OF_TARGETS, *OF_SURVIVAL]
#: what bins cost
OFF = {"roc_auc": 0.03, "average_precision": 0.03, "concordance": 0.03}
HOW = {
    "silo": {},
    "server": {"trust": "server", "neighbours": "add_remove"},
    "whole silos": {"unit": "silo"},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", NAMES)
def test_with_a_large_budget_scores_are_those_of_the_records(name, how):
    exact, found = exact_and_asked(name, 1e4, **HOW[how])
    assert found.score == pytest.approx(exact, abs=OFF.get(name, 5e-3))
    assert found.error < 5e-3


@pytest.mark.parametrize("seed", range(20))
def test_the_area_of_bins_is_as_close_as_the_proof_says(seed):
    """Within half the chance that a positive and a negative share a bin, whatever the scale."""
    rng = np.random.default_rng(seed)
    y, scores = labels(rng.uniform(0.02, 0.9), int(rng.integers(50, 2000)), seed)
    scores = np.round(scores, int(rng.integers(0, 4))) * 10 ** rng.uniform(-3, 3)
    found = asked(RocAuc(), scores[:, None], y, np.inf)
    negative, positive = found.mean
    bound = (negative / negative.sum()) @ (positive / positive.sum()) / 2
    assert abs(found.score - metrics.roc_auc_score(y, scores)) <= bound + 1e-12
    false, true = found.measure.curve(found.mean)
    assert np.trapezoid(true, false) == pytest.approx(found.score, abs=1e-12)


def test_a_class_that_may_be_none_is_left_out():
    """Rather than a share of a count that is noise."""
    y, found = shares()
    y = np.minimum(y, 1)
    found = found[:, :2].argmax(1)[:, None]
    measure = measure_of("balanced_accuracy", n_classes=K)
    score = asked(measure, found, y, 5.0).score
    assert score == pytest.approx(metrics.balanced_accuracy_score(y, found[:, 0]), abs=0.02)
    for each in (measure, RocAuc(), measure_of("r2", n_classes=None, targets=(0, 1))):
        lost = asked(each, found[:8] * 1.0, y[:8], 1e-3)
        assert np.isnan(lost.score) and lost.error == np.inf


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_counts_as_the_worst():
    y, wild = np.array([0, 1, 1, 0]), np.array([[np.nan], [np.inf], [-np.inf], [0.0]])
    for kind in ("absolute_error", "squared_error"):
        found = asked(Closeness(kind, 1.0, 1.0), wild, y, np.inf)
        assert found.score == pytest.approx(-0.75)
    logs = np.array([[0.0, -np.inf]] * 4)
    assert asked(Closeness("log_loss", 2.0, 2.0), logs, y, np.inf).score == pytest.approx(-1.0)
    assert 0 <= asked(RocAuc(), wild, y, np.inf).score <= 1


def test_labels_that_are_not_known_add_nothing():
    found = asked(Confusion(2), np.array([[0], [1], [1], [0]]), np.array([0, 1, -1, 5]), np.inf)
    assert (found.mean * 4 == [[1, 0], [0, 1]]).all()
