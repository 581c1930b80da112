"""A person is the unit of statistics, scales and levels: 20,000 rows move what one row moves."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from benchmarks.replay import OF_PERSONS, cases, data_of, judged
from skdpfl import inspection, preprocessing
from skdpfl.federation import SiloData, SumPlan, _sums
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.scaling import _value_counts
from tests.made_sums import budgets_of

CASES = {case.name: case for case in cases()}
NUMBERS, WORDS = ["age", "dose"], ["ward"]
BOUNDS = {"age": (0, 100), "dose": (0, 1)}
KNOWN = {"unit": "person", "random_state": 0}
OF_FIT = KNOWN | {"person_column": "id"}


@cache
def visits(n_rows, seed=0):
    """2,000 persons with 1 to 5 visits each, and one with so many, which say the same."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(1, 2001), rng.integers(1, 6, 2000))
    rows = {
        "id": ids,
        "age": rng.normal(50, 12, len(ids)),
        "dose": rng.beta(2, 5, len(ids)),
        "ward": rng.choice(["heart", "lung"], len(ids)),
    }
    far = {"id": 0, "age": 1e6, "dose": 1.0, "ward": "own"}
    more = pd.DataFrame({name: [value] * n_rows for name, value in far.items()})
    return pd.concat([pd.DataFrame(rows), more], ignore_index=True)


def fitted(transformer, columns, attribute):
    """Return a function that fits it, and returns what it learnt."""

    def fit(table):
        model = transformer.set_params(**OF_FIT).fit(table[["id", *columns]])
        assert model.n_samples_seen_ == 2001
        return np.ravel(getattr(model, attribute))

    return fit


def asked(ask, columns, **how):
    """Return a function that asks, and returns the numbers of the answer."""

    def answer(table):
        found = ask(table[["id", *columns]], **OF_FIT, **how)
        assert found.attrs["privacy_spent"].unit == "person"
        numbers = pd.DataFrame(found).select_dtypes("number").to_numpy()
        words = [list(d.items()) for d in getattr(found, "shares", []) if isinstance(d, dict)]
        return np.append(numbers.ravel(), [share for each in words for _, share in each])

    return answer


LEARNT = {
    "describe": asked(inspection.describe, NUMBERS + WORDS, feature_bounds=BOUNDS),
    "quantile": asked(inspection.quantile, NUMBERS, feature_bounds=BOUNDS),
    "histogram": asked(inspection.histogram, ["dose"], feature_bounds={"dose": (0, 1)}),
    "correlation": asked(inspection.correlation, NUMBERS, feature_bounds=BOUNDS, epsilon=4.0),
    "levels": asked(inspection.value_counts, WORDS),
    "standard": fitted(preprocessing.DPStandardScaler(), NUMBERS, "mean_"),
    "means": fitted(preprocessing.DPSimpleImputer(feature_bounds=(0, 100)), NUMBERS, "statistics_"),
    "medians": fitted(preprocessing.DPSimpleImputer(strategy="median"), NUMBERS, "statistics_"),
    "spline": fitted(
        preprocessing.DPSplineTransformer(feature_bounds=(0, 1)), ["dose"], "privacy_spent_"
    ),
    "components": fitted(preprocessing.DPPCA(row_norm=50.0), NUMBERS, "components_"),
}


@pytest.mark.parametrize("name", LEARNT)
def test_20000_rows_of_a_person_are_one(name):
    """The same noise: all that is left is the person's contribution, which is one row's."""
    ask = LEARNT[name]
    one, many = ask(visits(1)), ask(visits(20_000))
    if one.dtype == object:
        assert one.tolist() == many.tolist()
    else:
        assert np.allclose(one, many, rtol=1e-5, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("name", [f"{name}, persons" for name in (*OF_PERSONS, "levels")])
def test_a_person_tells_what_was_priced(name):
    for seed in (0, 1):
        assert judged(CASES[name], data_of(CASES[name], seed)) == []


@pytest.mark.parametrize("name", ["DPStandardScaler", "describe bounds", "DPOneHotEncoder"])
def test_rows_that_count_one_by_one_are_found(name, monkeypatch):
    """A planted fault: each row of a person is a term."""

    def by_rows(what, data, work):
        totals = np.zeros((len(data.people.counts), *what.shape))
        for silos, sums in what.sums(data, work):
            totals[silos] = sums
        return totals

    monkeypatch.setattr(_sums.BoundedSum, "of_persons", by_rows)
    monkeypatch.setattr(_sums.CellCounts, "of_persons", by_rows)
    monkeypatch.setattr(_value_counts, "_one_row_each", lambda data, *_: data)
    case = CASES[f"{name}, persons"]
    found = [fault for seed in range(4) for fault in judged(case, data_of(case, seed))]
    assert any("moved" in words or "those of several" in words for words in found), found


@pytest.mark.parametrize(("trust", "ratio"), [("silo", 2**0.5), ("server", 2.0), ("secagg", 2.0)])
def test_a_person_in_two_silos_pays_for_both(trust, ratio):
    """Noise is sqrt(2) or 2 times as large, and the price stays the budget."""
    table = visits(1)
    silos = np.arange(len(table)) % 2
    known = OF_FIT | {"trust": trust, "delta": 1e-5}
    noise = []
    for k in (1, 2):
        where = silos if k == 2 else table.id % 2
        found = inspection.histogram(
            table[["id", "dose"]], silos=where, silos_per_person=k, feature_bounds=(0, 1), **known
        )
        spent = found.attrs["privacy_spent"]
        assert 0.99 < spent.epsilon <= 1.0
        noise.append(found.attrs["noise_error"])
        words = preprocessing.DPOneHotEncoder(silos_per_person=k, **known).fit(
            table[["id", "ward"]], silos=where
        )
        assert 0.99 < words.privacy_spent_.epsilon <= 1.0
    assert noise[1] / noise[0] == pytest.approx(ratio, rel=1e-3)
    with pytest.raises(ValueError, match="rows in 2 silos, more than silos_per_person=1"):
        inspection.histogram(table[["id", "dose"]], silos=silos, **known)


class Told(Streams):
    """Streams that tell which ones were read."""

    def __init__(self):
        super().__init__(streams_for(0)._source)
        self.read = []

    def stream(self, *address):
        self.read.append(address)
        return super().stream(*address)

    def units_block(self, purpose, silos, number, *options):
        self.read.append((purpose, *silos, number))
        return super().units_block(purpose, silos, number, *options)


@pytest.mark.parametrize("purpose", ["vocabulary", "rows of persons", "rows of persons: x"])
def test_rows_of_persons_are_drawn_apart_from_the_noise(purpose):
    """Servers choose purposes, which name streams: noise that a draw gives away is none."""
    budgets = budgets_of([4], unit="person")
    plan = SumPlan(budgets, purpose, (np.ones(1),), failure=1e-3)
    question = plan.question(0, _value_counts.ValueCounts(np.ones(1, bool), 4, ("number",)))
    X, codes, owners = np.ones((8, 1)), np.zeros(8, int), np.arange(8) // 2
    data, streams = SiloData.from_codes(X, X[:, 0], codes, 1, of_row=owners), Told()
    list(question.answers(data, streams))
    assert len(streams.read) == len(set(streams.read)) == 2
