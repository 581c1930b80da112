"""Scores, calibration, shared budgets and searches for persons: one unit in all parts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdpfl import ISRLDPClassifier, privacy_spent
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.model_selection import _randomized as randomized
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpfl.table import Owners

BOUNDS = {"age": (0, 100), "dose": (0, 1)}
KNOWN = {"unit": "person", "person_column": "id", "silo_column": "hospital"}


def visits(more=0, seed=0):
    """900 persons of three hospitals with 1 to 4 visits; the first has some more."""
    rng = np.random.default_rng(seed)
    ids = np.append(np.repeat(np.arange(900), rng.integers(1, 5, 900)), np.zeros(more, int))
    age, dose = rng.uniform(0, 100, 900)[ids], rng.uniform(0, 1, 900)[ids]
    ward = rng.choice(["heart", "lung"], 900)[ids]
    table = pd.DataFrame({"id": ids, "hospital": ids % 3, "age": age, "dose": dose, "ward": ward})
    return table, ((age + 20 * rng.logistic(size=900)[ids] / 4) > 50).astype(int)


def classifier(**how):
    return ISRLDPClassifier(3.0, **(KNOWN | {"random_state": 0, "n_rounds": 4} | how))


def with_steps():
    """Return a pipeline whose steps have costs for persons, too."""
    parts = [
        ("age", DPSimpleImputer(feature_bounds=(0, 100), keep_silo_column=False, **KNOWN),
         ["age", "dose", "id", "hospital"]),
        ("ward", DPOneHotEncoder(max_categories=3, **KNOWN), ["ward", "id", "hospital"]),
    ]  # fmt: skip
    columns = ColumnTransformer(parts, sparse_threshold=0, verbose_feature_names_out=False)
    columns.set_output(transform="pandas")
    return make_pipeline(columns, classifier(feature_bounds=(0, 100)))


def test_a_budget_is_shared_by_steps_for_persons():
    """Its parts count persons, in one unit; 500 rows more of one person change no epsilon."""
    model, told = with_steps(), []
    for more in (0, 500):
        table, y = visits(more)
        shared = SharedBudget(model, epsilon=9.0, random_state=0).fit(table, y)
        spent = shared.privacy_spent_
        assert spent.unit == "person"
        assert 8.7 < spent.epsilon <= 9.0
        told.append((spent.to_dict(), shared.epsilons_))
    assert told[0] == told[1]
    model[0].set_params(ward__unit="record", ward__person_column=None)
    with pytest.raises(ValueError, match="All steps of a budget protect the same"):
        SharedBudget(model, epsilon=3.0).fit(table, y)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [False, True])
def test_a_search_keeps_a_persons_rows_together(steps, monkeypatch):
    """In training or in scoring; sizes, plan and price count persons."""
    model = classifier(feature_bounds=BOUNDS | {"ward": {"heart", "lung"}})
    if steps:
        known = {"columntransformer__ward__categories": [["heart", "lung"]]}
        model = with_steps().set_params(**known)
    seen, original, told = [], randomized.split, []
    monkeypatch.setattr(randomized, "split", lambda *a: seen.append(original(*a)) or seen[-1])
    for more in (0, 500):
        table, y = visits(more)
        space = {f"{'isrldpclassifier__' * steps}alpha": [0.0, 0.1]}
        search = DPRandomizedSearchCV(model, space, n_iter=2, epsilon=4.0, random_state=0)
        search.fit(table, y)
        spent = search.privacy_spent_
        assert spent.unit == "person"
        assert 3.5 < spent.epsilon <= 4.0
        split = seen[-1]
        train, test = (set(table.id.iloc[rows]) for rows in (split.train, split.test))
        assert not train & test
        assert (len(train), len(test)) == (720, 180)
        assert split.sizes == {0: 240, 1: 240, 2: 240}
        told.append((spent.to_dict(), train, search.fit_epsilon_))
        assert search.score(table, y) > 0.5
    assert told[0] == told[1]


def test_pipelines_share_the_unit_or_are_refused():
    table, y = visits()
    numbers = table[["id", "hospital", "age", "dose"]]
    scaler = DPStandardScaler(feature_bounds=(0, 100), silo_column="hospital")
    model = make_pipeline(scaler, classifier(feature_bounds=None)).fit(numbers, y)
    with pytest.raises(ValueError, match="Costs with different unit cannot be added"):
        privacy_spent(model)
    scaler.set_params(unit="person", person_column="id")
    spent = privacy_spent(make_pipeline(scaler, classifier()).fit(numbers, y))
    assert spent.unit == "person"
    owners = Owners.read(numbers, None, None, classifier())
    assert owners.sizes.tolist() == [300, 300, 300]
