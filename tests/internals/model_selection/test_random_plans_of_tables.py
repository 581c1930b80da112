"""1,000 random plans of frames, private scores, calibrations and searches: none above its budget.

A plan is priced as it would run, with public numbers only; scores and calibrations, whose plans are
one sum or a few, run on some made-up rows.
"""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skdpfl
from skdpfl import model_selection
from skdpfl.inspection import private_score
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.spending.cost import Repetition

#: plans in a chunk, and chunks; all but the first are for `-m wide`
PER_CHUNK, CHUNKS = 10, 100
FAMILIES = "ISRLDP", "DPFedAvg", "DPScaffold"
#: words of budgets, and of parameters, that do not go together
NOT_PLANNED = ("cannot be met", "can be found", "too small", "too few", "Too few", "algorithm")


def sizes(r):
    return {i: r.choice([60, 300, 1000, 4000]) for i in range(r.choice([1, 2, 3, 6]))}


def frame(r):
    """A fit of a frame, some of whose columns are declared: its budget and its price."""
    kinds = {
        f"c{i}": r.choice(["number", "category", "flag", "date"]) for i in range(r.randint(1, 8))
    }
    known = {"number": (0, 9), "category": ["a", "b", "c"], "date": ("2020-01-01", "2021-01-01")}
    bounds = {
        name: known[kind] if kind in known and r.random() < 0.4 else kind
        for name, kind in kinds.items()
    }
    unit = r.choice(["record", "record", "person"])
    options = {
        "epsilon": 10 ** r.uniform(-0.5, 1.3), "delta": 10 ** r.uniform(-8, -3), "unit": unit,
        "trust": r.choice(["silo", "server", "secagg"]), "max_categories": r.choice([2, 5, 20]),
        "model": r.choice(["auto", "linear", "additive"]), "n_rounds": r.choice([1, 5, 50]),
        "scaling": r.choice(["auto", "auto", None]), "feature_bounds": bounds,
    }  # fmt: skip
    if unit == "person":
        options["silos_per_person"] = r.choice([1, 2, 3])
    kind = r.choice(FAMILIES) + r.choice(["Classifier", "Regressor"])
    if kind.endswith("Regressor"):
        options["target_bounds"] = r.choice([None, (0, 1)])
    if kind.startswith("ISRLDP") and r.random() < 0.3:
        options |= {"inference": "intervals", "model": "linear"}
    plan = getattr(skdpfl, kind)(**options).plan_for(silo_sizes=sizes(r), columns=kinds)
    return options["epsilon"], plan.spent()


ROWS = np.random.default_rng(0).normal(size=(90, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)
FITTED = LogisticRegression().fit(ROWS, LABELS)


def held_out(r):
    """How held-out records are protected, and whose they are."""
    options = {"epsilon": 10 ** r.uniform(-1.5, 1), "delta": 10 ** r.uniform(-8, -3)}
    options |= {"trust": r.choice(["silo", "server"]), "unit": r.choice(["record", "person"])}
    options["neighbours"] = r.choice(["replace", "add_remove"])
    owners = {"silos": np.arange(90) % r.choice([1, 3, 5])}
    if options["unit"] == "person":
        owners["persons"] = np.arange(90) // 15 * 90 + owners["silos"]
    return options, owners


def score(r):
    names = ["accuracy", "balanced_accuracy", "roc_auc", "average_precision", "neg_log_loss"]
    names += ["neg_brier_score", "calibration_error"]
    options, owners = held_out(r)
    asked = r.sample(names, r.randint(1, 4))
    found = private_score(FITTED, ROWS, LABELS, scoring=asked, **options, **owners)
    return options["epsilon"], found[asked[0]].privacy_spent


def calibration(r):
    options, owners = held_out(r)
    made = [
        lambda: model_selection.DPCalibratedClassifier(FITTED, method="sigmoid", **options),
        lambda: model_selection.DPCalibratedClassifier(FITTED, method="temperature", **options),
        lambda: model_selection.DPThresholdClassifier(FITTED, **options),
    ]
    return options["epsilon"], r.choice(made)().fit(ROWS, LABELS, **owners).privacy_spent_


FEW = pd.DataFrame({"age": [1.0, 2.0, None] * 4, "ward": ["a", "b", None] * 4})
TARGETS = np.arange(12) % 2


def pipeline(r, trust):
    numbers = r.choice([DPSimpleImputer, DPStandardScaler])(feature_bounds=(0, 9), trust=trust)
    codes = DPOneHotEncoder(max_categories=r.choice([2, 5, 20]), trust=trust)
    parts = [("num", numbers, ["age"]), ("cat", codes, ["ward"])]
    steps = [ColumnTransformer(parts[: r.randint(1, 2)])]
    last = skdpfl.ISRLDPClassifier(feature_bounds=(0, 9), n_rounds=r.choice([1, 5, 50]))
    return make_pipeline(*steps, last.set_params(trust=trust))


def shared(r):
    """A shared budget, divided as `fit` does: its steps, and the largest last one."""
    model, of_silo = pipeline(r, r.choice(["silo", "server"])), sizes(r)
    epsilon, delta = 10 ** r.uniform(0, 1.3), 10 ** r.uniform(-7, -3)
    silos = np.arange(12) % len(of_silo)
    tried = model_selection._wrapped.TriedSteps.of(model, (FEW, silos, None), len(of_silo))
    share = {path: r.uniform(0.01, 0.3) for path in tried.paying}
    last = model_selection._wrapped.last_step(model)[1]
    model_selection._wrapped.divide(last, tried.paying, share, epsilon, delta)
    before = list(tried.costs(of_silo).values())

    def together(own):
        plan = last.set_params(epsilon=own, delta=delta)
        plan = plan.plan_for(silo_sizes=of_silo, n_classes=2, **tried.columns)
        return model_selection._shared_budget._together(before, False, delta, plan.spent())

    return epsilon, together(
        model_selection._shared_budget.largest(lambda e: together(e).epsilon, epsilon)
    )


def search(r):
    """A search over pipelines: all runs and their scores, or the best of a secret number."""
    best = r.random() < 0.4
    model, of_silo = pipeline(r, "server" if best else "silo"), sizes(r)
    if r.random() < 0.5:
        model = model_selection.SharedBudget(model)
    few = FEW, np.arange(12) % len(of_silo), None
    epsilon, delta = 10 ** r.uniform(0.3, 1.3), 10 ** r.uniform(-6, -3)
    runs = [
        model_selection._candidates.Candidate(
            model, {}, of_silo, few, TARGETS, streams_for(i)
        ).price
        for i in range(r.randint(1, 4))
    ]
    law = Repetition(float(len(runs))) if best else None
    budget = model_selection._candidates.divide_budget("replace", runs, epsilon, delta, law)
    return epsilon, max(price_epsilon(part, delta, "replace") for part in budget.cost[:-1])


KINDS = [frame, frame, frame, frame, frame, score, score, calibration, shared, search]


def prices(chunk):
    """Yield budget and price of a chunk's plans."""
    r = random.Random(chunk)
    for kind in KINDS[:PER_CHUNK]:
        while True:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield kind.__name__, *kind(r)
                break
            except ValueError as error:
                assert any(word in str(error) for word in NOT_PLANNED), error


@pytest.mark.slow
@pytest.mark.parametrize(
    "chunk", [0, *(pytest.param(c, marks=pytest.mark.wide) for c in range(1, CHUNKS))]
)
def test_no_plan_costs_more_than_its_budget(chunk):
    for kind, budget, spent in prices(chunk):
        epsilons = [spent]
        if hasattr(spent, "epsilon"):
            silos = () if spent.per_silo is None else spent.per_silo.tolist()
            epsilons = [spent.epsilon, *silos]
        assert 0 < max(epsilons) <= budget, (kind, budget, spent)
