"""Scores, calibration, shared budgets and searches for persons: one unit in all parts."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from skdpfl import (
    DPCalibratedClassifier,
    DPThresholdClassifier,
    ISRLDPClassifier,
    from_dict,
    privacy_spent,
    to_dict,
)
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import DPCalibrationDisplay, private_score
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


def test_one_person_moves_a_searchs_score_by_one_term(monkeypatch):
    """500 rows that turn from right to wrong: the same noise, one of 180 scored persons."""
    table, y = visits()
    search = DPRandomizedSearchCV(
        classifier(feature_bounds=BOUNDS | {"ward": {"heart", "lung"}}),
        {"alpha": [0.0]}, n_iter=1, epsilon=50.0, random_state=0,
    )  # fmt: skip
    seen, original = [], randomized.split
    monkeypatch.setattr(randomized, "split", lambda *a: seen.append(original(*a)) or seen[-1])
    search.fit(table, y)
    row = int(seen[0].test[0])
    more = np.append(np.arange(len(y)), np.full(500, row))
    own = table.id.to_numpy()[more] == table.id.iloc[row]
    scores = [
        search.fit(
            table.iloc[more].reset_index(drop=True), np.where(own, label, y[more])
        ).best_score_
        for label in (0, 1)
    ]
    assert abs(scores[0] - scores[1]) == pytest.approx(1 / 180, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("make", [DPCalibratedClassifier, DPThresholdClassifier])
def test_a_step_on_held_out_persons(make):
    """Its cost adds to the classifier's, for persons; records are another unit."""
    table, y = visits()
    here = (table.id % 2 == 0).to_numpy()
    clf = classifier(feature_bounds=BOUNDS | {"ward": {"heart", "lung"}}).fit(table[here], y[here])
    step = make(FrozenEstimator(clf), epsilon=1.0, unit="person", random_state=1)
    step.fit(table[~here], y[~here])
    assert step.privacy_spent_.unit == privacy_spent(step).unit == "person"
    own = table[~here].drop(columns="id")
    with config_context(enable_metadata_routing=True):
        again = make(clf, epsilon=1.0, unit="person", random_state=1)
        again.fit(own, y[~here], persons=table.id[~here])
    names = ("slope_", "intercept_", "threshold_")
    assert [getattr(step, n, 0) for n in names] == [getattr(again, n, 0) for n in names]
    with pytest.raises(ValueError, match="needs the person of each row"):
        again.fit(own, y[~here])


def test_scores_read_the_models_column():
    table, y = visits()
    clf = classifier(feature_bounds=BOUNDS | {"ward": {"heart", "lung"}}).fit(table, y)
    asked = {"unit": "person", "epsilon": 2.0, "random_state": 0}
    score = private_score(clf, table, y, scoring="accuracy", **asked)
    given = private_score(
        clf, table.drop(columns="id"), y, scoring="accuracy", persons=table.id, **asked
    )
    assert float(score) == float(given)
    shown = DPCalibrationDisplay.from_estimator(clf, table, y, **asked)
    assert shown.privacy_spent.unit == "person"
    with pytest.raises(ValueError, match="persons and person_column='id' were given"):
        private_score(clf, table, y, scoring="accuracy", persons=table.id, **asked)


def test_what_is_read_from_a_file_still_knows_whose_rows_are():
    """Its table may have the column of persons, and a score of records warns."""
    table, y = visits()
    numbers = table[["id", "hospital", "age", "dose"]]
    scaler = DPStandardScaler(feature_bounds=(0, 100), **KNOWN).set_output(transform="pandas")
    model = make_pipeline(scaler, classifier(feature_bounds=(-5, 5))).fit(numbers, y)
    alone = classifier(feature_bounds=(0, 100)).fit(numbers, y)
    for fitted in (model, alone):
        again = from_dict(json.loads(json.dumps(to_dict(fitted))))
        assert (again.predict(numbers) == fitted.predict(numbers)).all()
        with pytest.warns(PrivacyLeakWarning, match="The model protects persons"):
            private_score(again, numbers, y, scoring="accuracy", epsilon=1.0)


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
