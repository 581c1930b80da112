"""Scores, calibration and cuts: plans are within their budgets, records within their bounds."""

import numpy as np
import pytest

from skdpfl import federation
from skdpfl.model_selection._prefit import DecisionTable, GapTable
from skdpfl.model_selection.held_out import HeldOut
from skdpfl.privacy.events import read_guarantee
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.silos import read_silos

TARGETS = (0.0, 20.0)
MEASURES = {
    **{name: federation.measure_of(name, n_classes=2) for name in federation.OF_CLASSES},
    **{
        name: federation.measure_of(name, n_classes=None, targets=TARGETS)
        for name in federation.OF_TARGETS
    },
    "bins": federation.RocAuc(edges=np.linspace(-3, 3, 15)),
    "top bins": federation.AveragePrecision(edges=np.linspace(-3, 3, 15)),
    "risks": federation.Concordance(horizon=2.0),
    "times and risks": federation.Concordance(horizon=2.0, edges=np.linspace(-3, 3, 7)),
    "cells for a cut": DecisionTable(),
    "bins for a cut": DecisionTable(edges=np.linspace(-3, 3, 7)),
    "temperature": GapTable(),
}
WILD = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, -1e300, np.inf, -np.inf, np.nan, 7.0, 20.0, -3.0]


def records(measure, rng, n):
    """Return predictions and targets, half of them wild."""
    width = 2 if measure.reads == "log_probabilities" else 1
    X = np.where(rng.random((n, width)) < 0.5, rng.normal(0, 3, (n, width)),
                 rng.choice(WILD, (n, width)))  # fmt: skip
    if width == 2 and rng.random() < 0.7:  # proper probabilities
        chance = rng.choice([0.0, 1.0, 1e-12, *rng.random(4)], n)
        with np.errstate(divide="ignore"):
            X = np.log(np.stack([1 - chance, chance], axis=1))
    if isinstance(measure, federation.Concordance):
        return X, np.stack([rng.choice([*WILD, 0.3, 1.9], n), rng.integers(0, 2, n)], axis=1)
    if measure.reads == "targets":
        return X, rng.choice([*WILD, 3.0, 19.0], n)
    return X, rng.integers(-1, 2, n)


@pytest.mark.parametrize("name", MEASURES)
def test_one_record_moves_a_sum_by_no_more_than_is_priced(name):
    measure, rng = MEASURES[name], np.random.default_rng(0)
    for _ in range(40):
        X, y = records(measure, rng, 60)
        with np.errstate(all="ignore"):
            terms = np.asarray(measure.terms(X, y), float).reshape(60, -1)
        norms = np.linalg.norm(terms, axis=1)
        finite = terms[np.isfinite(norms)]
        assert (norms[np.isfinite(norms)] <= measure.radius * (1 + 1e-12)).all()
        apart = np.linalg.norm(finite[:, None] - finite, axis=2)
        assert apart.max() <= measure.diameter * (1 + 1e-12)
        # what is not finite counts as zeros, which lie as close
        assert np.linalg.norm(finite, axis=1).max() <= measure.diameter * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_no_plan_costs_more_than_its_budget(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        n_silos = int(rng.integers(2, 7))
        codes = np.repeat(np.arange(n_silos), rng.integers(5, 400, n_silos))
        silos = read_silos(codes, len(codes))
        unit = rng.choice(["record", "silo"], p=[0.8, 0.2])
        trust = rng.choice(["silo", "server", "secagg"])
        neighbours = rng.choice(["replace", "add_remove"])
        epsilon, delta = float(10 ** rng.uniform(-2, 1.3)), float(10 ** -rng.uniform(3, 9))
        held = HeldOut(
            None, None, silos, None, silos.sizes, read_guarantee(unit, trust, neighbours),
            epsilon, delta, int(rng.integers(0, 2)) if trust == "secagg" else 0, streams_for(0),
        )  # fmt: skip
        names = rng.choice(list(MEASURES), int(rng.integers(1, 5)), replace=False)
        plans = held.plans([MEASURES[name] for name in names])
        spent = held.spent(plans)
        assert spent.epsilon <= epsilon * (1 + 1e-9)
        numbers = [number for plan in plans for number in plan.numbers]
        assert len(set(numbers)) == len(numbers)  # each sum has noise of its own
        assert spent.epsilon >= 0.99 * epsilon
