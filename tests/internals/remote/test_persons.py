"""Persons at silos elsewhere: numbers of persons are told, numbers of their rows never."""

import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdpfl import remote
from skdpfl.federation import SiloBudgets, SumPlan
from skdpfl.inspection import describe
from skdpfl.models import MLP, Additive
from skdpfl.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdpfl.privacy import SecureAggregation
from skdpfl.privacy.events import Guarantee
from skdpfl.remote._letters import Agreement, Offer
from skdpfl.remote._row import Row
from tests.internals.persons.test_guarantee import survival_times
from tests.remote.silos_here import NAMES, Here, estimator, exposures, fit_elsewhere, schema

KEYS = {name: remote.new_silo_key() for name in NAMES}


def visits(kind="Classifier", n=360, more=0, seed=0):
    """Rows of persons, who are in one silo each, in mixed order; ``more`` of the first person."""
    rng = np.random.default_rng(seed)
    persons = rng.permutation(np.repeat(np.arange(n // 3), 3))
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + rng.normal(size=n)
    rows = np.append(np.arange(n), np.full(more, np.flatnonzero(persons == 5)[0]))
    X, y, persons = X[rows], y[rows], persons[rows]
    if kind != "Regressor":
        y = (y > 0).astype(int) if kind == "Classifier" else survival_times(y)
    return (X, y, persons % 4), persons


def in_two_silos(data, persons):
    """Every fourth person has half of the rows in another silo."""
    X, y, silos = data
    rng = np.random.default_rng(3)
    away = (persons % 16 == 5) & (rng.random(len(y)) < 0.5)
    return (X, y, np.where(away, 2, silos))


def facts_of(data, persons, **changes):
    """Return the public facts: sizes are numbers of persons."""
    silos = data[2]
    sizes = {n: len(np.unique(persons[silos == i])) for i, n in enumerate(NAMES)}
    return schema(data, silo_sizes=sizes, **changes)


BOUNDS = {"feature_bounds": (-4, 4), "unit": "person", "model": "linear"}
FITS = {
    "sums, sampled": ("Classifier", {"contribution": "sum", "sampling_rate": 0.3}),
    "additive": ("Classifier", {"model": Additive(4, True)}),
    "private scales": ("Regressor", {"scaling": "private", "epsilon": 8.0, "feature_bounds": None}),
    "times, sums, masks": (
        "Survival",
        {"contribution": "sum", "trust": "secagg", "target_bounds": (0, 1), "breaks": 2},
    ),
    "rates, weighted": ("Regressor", {"loss": "poisson", "target_bounds": (0, 9)}),
    "two silos, sampled": ("Classifier", {"silos_per_person": 2, "sampling_rate": 0.3}),
    "shared noise, two silos": (
        "Classifier",
        {"trust": SecureAggregation(spare_rounds=1), "silos_per_person": 2},
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_the_model_is_that_of_one_process(tmp_path, name):
    """Bit for bit, at the same price, which each silo computes for itself."""
    kind, options = FITS[name]
    data, persons = visits(kind)
    if "two silos" in name:
        data = in_two_silos(data, persons)
    own, facts = {}, facts_of(data, persons)
    if name == "rates, weighted":
        data = (data[0], np.abs(np.round(data[1])), data[2])
        weights = np.random.default_rng(1).uniform(0.2, 1, len(persons))
        own = {"exposure": exposures(len(persons)), "sample_weight": weights}
        facts = facts_of(data, persons, exposure=True)
    keys = KEYS if "shared" in name or "masks" in name else None
    given = {"exposure": own.get("exposure"), "weights": own.get("sample_weight"), "keys": keys}
    terms = remote.Terms(unit="person")
    here = Here(tmp_path, data, persons=persons, terms=terms, budget=(500.0, 1e-3), **given)
    one = estimator(f"ISRLDP{kind}", **BOUNDS | options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        there = fit_elsewhere(clone(one), here, facts)
        X, y, silos = data
        one.fit(X, y, silos=np.array(NAMES)[silos], persons=persons, **own)
    for each in ("coef_", "intercept_", "coef_covariance_"):
        assert np.array_equal(getattr(one, each, 0), getattr(there, each, 0)), each
    spent, own = one.privacy_spent_, there.privacy_spent_
    assert (own.epsilon, own.guarantee) == (spent.epsilon, spent.guarantee)
    charged = [entry.spent for silo in NAMES for entry in here.entries(silo)]
    assert len(charged) == len(NAMES)
    for each in charged:
        assert each.guarantee == spent.guarantee
        assert each.epsilon <= spent.epsilon + 1e-9
    assert max(each.epsilon for each in charged) == pytest.approx(spent.epsilon, rel=1e-9)


def test_rows_of_a_person_change_nothing_that_is_told(tmp_path):
    """40 rows more of one person: the same offers, agreements, prices and refusals."""
    told = []
    for more in (0, 40):
        data, persons = visits(more=more)
        folder = tmp_path / str(more)
        folder.mkdir()
        here = Here(folder, data, persons=persons, terms=remote.Terms(unit="person"))
        model = fit_elsewhere(estimator(**BOUNDS), here, facts_of(data, persons))
        letters = [remote.unpack(letter) for _, letter in here.letters]
        offers = [remote.pack(replace(each, fit="")) for each in letters if isinstance(each, Offer)]
        answers = [remote.unpack(answer) for _, answer in here.answers]
        agreed = [
            remote.pack(replace(each, fit="")) for each in answers if isinstance(each, Agreement)
        ]
        wrong = schema(data)
        with pytest.raises(remote.SilosMissing) as refused:
            fit_elsewhere(estimator(**BOUNDS | {"unit": "record"}), here, wrong)
        lengths = [len(answer) for _, answer in here.answers]
        told.append((offers, agreed, lengths, model.privacy_spent_.to_dict(), str(refused.value)))
    assert told[0] == told[1]
    assert len(told[0][0]) == len(told[0][1]) == 4


def test_tables_and_scores_see_what_one_process_sees(tmp_path):
    """Transformers, a look and a score, in which a person counts by the mean over their rows."""
    data, persons = visits()
    X, y, silos = data
    facts, names = facts_of(data, persons), np.array(NAMES)[silos]
    here = Here(tmp_path, data, persons=persons, budget=(1e6, 1e-2))
    federation = remote.RemoteFederation(here, facts, classes=[0, 1], estimator="a fit")
    how = {"unit": "person", "random_state": 0}
    for transformer in (
        DPStandardScaler(3.0, feature_bounds=(-4, 4), **how),
        DPMinMaxScaler(3.0, **how),
    ):
        one = clone(transformer).fit(X, silos=names, persons=persons)
        there = transformer.fit_federation(federation, facts)
        assert np.array_equal(one.transform(X), there.transform(X))
        assert one.privacy_spent_.epsilon == there.privacy_spent_.epsilon
        assert one.n_samples_seen_ == there.n_samples_seen_ == 120
    how |= {"epsilon": 4.0, "delta": 1e-4, "feature_bounds": (-4, 4)}
    pd.testing.assert_frame_equal(
        describe(X, silos=names, persons=persons, **how),
        describe(federation, facts=facts, **how),
        check_exact=True,
    )
    model = estimator(**BOUNDS).fit(X, y, silos=names, persons=persons)
    found = remote.score_federation(model, federation, epsilon=1e4, unit="person", random_state=0)
    right = pd.Series(model.predict(X) == y).groupby(persons).mean().mean()
    assert found.overall == pytest.approx(right, abs=1e-3)


def refusal_of(tmp_path, *, terms=None, known=True, facts=None, **how):
    data, persons = visits()
    options = {} if terms is None else {"terms": terms}
    here = Here(tmp_path, data, persons=persons if known else None, **options)
    with pytest.raises((ValueError, remote.SilosMissing)) as refused:
        fit_elsewhere(estimator(**BOUNDS | how), here, facts or facts_of(data, persons))
    assert not any(map(here.entries, NAMES))
    return str(refused.value)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"known": False}, "declared different persons"),
        ({"facts": schema(visits()[0])}, "declared different numbers of persons"),
        ({"terms": remote.Terms(unit="person"), "unit": "record"}, "agreed to unit='person'"),
        ({"terms": remote.Terms(unit="silo")}, "agreed to unit='silo'"),
        ({"terms": remote.Terms(silos_per_person=2)}, "may have records in 2 silos"),
        ({"silos_per_person": 5}, "more than the 4 silos"),
        ({"model": MLP((3,))}, "linear and additive models"),
    ],
)
def test_refusals_are_in_words(tmp_path, how, message):
    assert message in refusal_of(tmp_path, **how)


@pytest.mark.parametrize("every", [1, 2])
def test_a_plan_reads_all_records_of_persons(every):
    """Bounds of rounding count half of the persons if every second record is said to be read."""
    budgets = SiloBudgets(np.array([9]), np.ones(1), Guarantee(unit="person"), every=every)
    sums = (SumPlan(budgets, "a look", (np.ones(1),)),)
    with nullcontext() if every == 1 else pytest.raises(ValueError, match="are inconsistent"):
        Row("a", ("a",), None, None, sums, 1e-5)


def test_a_server_cannot_have_a_price_take_long(tmp_path, monkeypatch):
    """All silos of a person are priced: 3 rounds in 4 silos are 12 steps."""
    monkeypatch.setattr(remote._letters, "LIMITS", remote._letters.LIMITS._replace(steps=11))
    assert "in all silos of a person" in refusal_of(tmp_path, silos_per_person=4)
