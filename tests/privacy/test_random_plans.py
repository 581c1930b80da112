"""Random plans: whatever is asked for, no plan costs more than its budget, and more costs more."""

import random

import numpy as np
import pytest

from skdpfl import DPFedAvgClassifier, DPFedEXPClassifier, DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.models import Additive

KINDS = [ISRLDPClassifier, DPScaffoldClassifier, DPFedAvgClassifier, DPFedEXPClassifier]

#: A chunk's plans, and the chunks: 600 plans with the slow ones. `python benchmarks/prices.py` runs
#: 200 chunks, 2,000 plans; benchmarks/random_plans.csv has the results.
PER_CHUNK, CHUNKS = 10, 60


def draw(r):
    """An estimator, its plan, and the budgets of the silos."""
    kind, n_silos = r.choice(KINDS), r.choice([2, 3, 6])
    budgets = 10 ** r.uniform(-1.5, 1.3)
    settings = dict(
        n_rounds=r.choice([1, 2, 5, 20, 100]),
        silo_fraction=r.choice([1.0, 0.5, 0.3]),
        cohort=r.choice(["balanced", "uniform"]),
        delta=10 ** r.uniform(-9, -3),
        scaling=r.choice(["auto", None]),
        random_state=r.randrange(100),
    )
    if kind is not DPFedEXPClassifier:
        settings["sampling_rate"] = 10 ** r.uniform(-10, 0)
        settings["sampling"] = r.choice(["poisson", "poisson", "without_replacement", "disjoint"])
    if kind in (DPScaffoldClassifier, DPFedAvgClassifier):
        settings["local_steps"] = r.choice([1, 3, 20])
    estimator = kind(budgets, **settings)
    sizes = [r.choice([50, 100, 300, 1000]) for _ in range(n_silos)]
    return estimator, estimator.plan_for(silo_sizes=sizes, n_features=4)


def draw_curves(r):
    """The same with curves, whose histogram is paid for as well."""
    estimator, _ = draw(r)
    trust = "server" if isinstance(estimator, ISRLDPClassifier) else "silo"
    model = Additive(r.choice([2, 8]), r.choice([True, False]))
    estimator.set_params(model=model, feature_bounds=(0, 1), trust=r.choice([trust, "silo"]))
    plan = estimator.plan_for(silo_sizes=[r.choice([60, 900])] * 3, n_features=4)
    assert sum(times for event, times in plan.setup[0]) >= 1
    return estimator, plan


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:delta=:UserWarning")
@pytest.mark.parametrize("drawing", [draw, draw_curves])
@pytest.mark.parametrize(
    "chunk", [0, *(pytest.param(c, marks=pytest.mark.wide) for c in range(1, CHUNKS))]
)
def test_no_plan_costs_more_than_its_budget(chunk, drawing):
    r, drawn = random.Random(chunk), 0
    while drawn < PER_CHUNK:
        try:
            estimator, plan = drawing(r)
        except ValueError as error:  # scales alone cost more, or a sampling that does not go here
            assert any(word in str(error) for word in ("cannot be met", "sampling", "silo")), error
            continue
        drawn += 1
        spent = plan.spent()
        assert spent.epsilon <= estimator.epsilon, (estimator, plan.known_sizes)
        if spent.per_silo is not None:
            assert (spent.per_silo <= estimator.epsilon).all()


@pytest.mark.slow
def test_silos_that_release_less_keep_to_the_budget():
    """Steps that hardly ever sample: a silo with two of them cost less than one with one, once."""
    estimator = ISRLDPClassifier(
        0.057, n_rounds=5, silo_fraction=0.5, cohort="uniform", delta=3.2e-8, sampling_rate=3e-9,
        random_state=4,
    )  # fmt: skip
    plan = estimator.plan_for(silo_sizes=[100, 1000, 1000, 300, 1000, 300, 50], n_features=4)
    assert len(plan.groups().first) > 1
    assert (plan.spent().per_silo <= 0.057).all()


@pytest.mark.slow
def test_each_silo_keeps_to_its_own_budget():
    r, kept = random.Random(0), 0
    while kept < 1:
        try:
            estimator, plan = draw(r)
        except ValueError:
            continue
        if plan.unit == "silo" or estimator.sampling == "disjoint":
            continue
        kept += 1
        budgets = estimator.epsilon * np.exp(np.linspace(0, 1, plan.n_silos))
        spent = plan.calibrated(budgets).spent()
        assert (spent.per_silo.to_numpy() <= budgets).all()
