"""A person is the unit: however many rows of whatever size, one contribution, clipped once."""

import numpy as np
import pytest
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.replay import cases, data_of, judged
from skdpfl import (
    DPFedAvgClassifier,
    DPFedEXPClassifier,
    DPScaffoldClassifier,
    ISRLDPClassifier,
    ISRLDPRegressor,
    ISRLDPSurvival,
)
from skdpfl.federation._batches import Batch, PrivateGradient
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.models import MLP
from skdpfl.preprocessing import DPStandardScaler
from skdpfl.privacy import audit_epsilon

CASES = {case.name: case for case in cases() if "persons" in case.name}


def visits(n=240, per_person=3, n_silos=3, d=4, seed=0):
    """Rows of persons, who are in one silo each, in mixed order."""
    rng = np.random.default_rng(seed)
    persons = rng.permutation(np.repeat(np.arange(n // per_person), per_person))
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + rng.normal(size=n), persons % n_silos, persons


def survival_times(y):
    """Events and times up to a horizon of 1, of rows with these targets."""
    found = zip(y > -0.5, np.minimum(np.abs(y), 1), strict=True)
    return np.array(list(found), [("died", bool), ("time", float)])


@pytest.mark.parametrize("name", [name for name in CASES if "ISRLDP" in name or "survival" in name])
def test_a_person_tells_what_was_priced(name):
    """All sums, histograms and scales included, with 1 or 200 hostile rows in a person's place."""
    for seed in (0, 1):
        assert judged(CASES[name], data_of(CASES[name], seed)) == []


@pytest.mark.parametrize("contribution", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["squared_error", "log_loss", "three classes", "times"])
@pytest.mark.parametrize("n_rows", [1, 200])
def test_a_person_moves_the_model_by_one_contribution(kind, n_rows, contribution):
    """From a fit of zeros: at most 2 C over the number of persons, and nearly that."""
    X, y, silos, persons = visits()
    own, rng = persons == 0, np.random.default_rng(1)
    far = 1000 * np.sign(rng.normal(size=4)) * np.ones((n_rows, 4))
    if kind == "times":
        y = survival_times(y)
    elif kind != "squared_error":
        y = np.digitize(y, [0.0] if kind == "log_loss" else [-0.5, 0.5])
    given = {"scaling": None, "n_rounds": 1, "learning_rate": 1.0, "clip_norm": 0.5}
    model, extra, labels = {
        "squared_error": (ISRLDPRegressor, {}, (1e6, -1e6)),
        "times": (ISRLDPSurvival, {"target_bounds": (0, 1)}, ((True, 0.0), (False, 1.0))),
    }.get(kind, (ISRLDPClassifier, {"calibrate": False}, (0, 1)))
    shape = {"unit": "person", "contribution": contribution, "average": False} | given | extra
    clf = model(4.0, random_state=0, **shape)

    def fitted(rows, label):
        X2 = np.concatenate([X[~own], rows])
        y2 = np.concatenate([y[~own], np.array([label] * len(rows), y.dtype)])
        s2 = np.append(silos[~own], np.full(len(rows), silos[own][0]))
        p2 = np.append(persons[~own], np.zeros(len(rows), int))
        clf.fit(X2, y2, silos=s2, persons=p2)
        return np.append(clf.coef_, clf.intercept_)

    move = np.linalg.norm(fitted(far, labels[0]) - fitted(far, labels[1]))
    share = clf.plan_.record_shares[silos[own][0]]
    assert 0.5 < move / (2 * 0.5 * share) < 1.001


def test_rows_of_a_person_change_no_public_number():
    """40 rows more of one person: the same plan, price and report, beside the model itself."""
    X, y, silos, persons = visits(900)
    y = (y > 0).astype(int)
    more = np.append(np.arange(len(y)), np.full(40, np.flatnonzero(persons == 5)[0]))
    for est in (
        ISRLDPClassifier(2.0, unit="person"),
        ISRLDPClassifier(2.0, unit="person", trust="server", sampling_rate=0.2),
        DPFedAvgClassifier(2.0, unit="person", local_epochs=1, sampling="disjoint"),
    ):
        est.set_params(scaling=None, random_state=0)  # scales found with noise set the step
        told = []
        for rows in (np.arange(len(y)), more):
            est.fit(X[rows], y[rows], silos=silos[rows], persons=persons[rows])
            plan, spent = est.plan_, est.privacy_spent_
            steps = est.learning_rate_, est.clip_norm_, est.sampling_rate_, est.n_rounds_
            lists = plan.silo_sizes, plan.delta, plan.expected_sizes, plan.noise_multiplier
            told.append((spent.to_dict(), plan.steps, steps, [each.tolist() for each in lists]))
        assert told[0] == told[1]
        assert told[0][3][0] == [100, 100, 100]
        assert spent.unit == "person"


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "times"])
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_one_row_a_person_is_a_record(loss, trust):
    """Bit for bit, where sampling is full."""
    X, y, silos, _ = visits(420)
    ids = np.random.default_rng(1).permutation(420)
    params = {"feature_bounds": (-5, 5), "trust": trust, "random_state": 0}
    if loss == "times":
        make, y = ISRLDPSurvival, survival_times(y)
        params |= {"target_bounds": (0, 1), "epsilon": 8.0, "inference": "intervals"}
    else:
        make, y = ISRLDPClassifier, (y > 0).astype(int)
        params |= {"loss": loss, "epsilon": 2.0}
    one = make(**params).fit(X, y, silos=silos)
    other = make(**params, unit="person").fit(X, y, silos=silos, persons=ids)
    assert np.array_equal(one.coef_, other.coef_)
    assert np.array_equal(one.intercept_, other.intercept_)
    assert one.privacy_spent_.epsilon == other.privacy_spent_.epsilon


def by_rows(self, params, batch, chunk):
    """A planted fault: each row of a person is clipped by itself."""
    return self._part(params, Batch(batch.records, batch.y, batch.squared_norms))


def test_clipping_row_by_row_is_found(monkeypatch):
    monkeypatch.setattr(PrivateGradient, "_of_several", by_rows)
    case = CASES["ISRLDP regression persons"]
    found = [judged(case, data_of(case, seed)) for seed in range(3)]
    assert any(any("moved" in words for words in each) for each in found), found


@pytest.mark.parametrize(
    ("est", "persons", "message"),
    [
        (ISRLDPRegressor(unit="person"), None, "needs the person of each row"),
        (ISRLDPRegressor(), [0, 1], "does not protect persons: set unit"),
        (DPFedEXPClassifier(), [0, 1], "protects whole silos, with all persons"),
        (ISRLDPRegressor(unit="person", model=MLP((3,))), [0], "for linear and additive models"),
        (ISRLDPRegressor(unit="person", trust="shuffler"), [0], "messages of single records"),
        (ISRLDPRegressor(silos_per_person=2), None, 'needs unit="person"'),
        (ISRLDPRegressor({0: 1.0}, unit="person", silos_per_person=2), [0], "one epsilon for all"),
        (ISRLDPRegressor(unit="person", contribution="max"), [0], "contribution must be"),
        (ISRLDPRegressor(unit="person"), "apart", "rows in 3 silos, more than silos_per_person=1"),
        (
            make_pipeline(DPStandardScaler(), ISRLDPRegressor(unit="person")),
            [0],
            "protect the same",
        ),
    ],
)
def test_errors(est, persons, message):
    X, y, silos, _ = visits()
    y = (y > 0).astype(int) if isinstance(est, DPFedEXPClassifier) else y
    if isinstance(persons, str):
        persons = np.zeros(len(y)) if persons == "apart" else silos
    if isinstance(est, Pipeline):
        est = SharedBudget(est, epsilon=1.0)
    given = {} if persons is None else {"persons": persons}
    with pytest.raises(ValueError, match=message):
        est.fit(X, y, silos=silos, **given)


def test_what_does_not_know_persons_refuses():
    X, y, silos, _ = visits()
    person = ISRLDPRegressor(unit="person", target_bounds=(-9, 9), silos_per_person=2)
    search = DPRandomizedSearchCV(person, {"alpha": [0, 1]}, epsilon=1.0)
    with pytest.raises(ValueError, match="takes silos_per_person=1"):
        search.fit(X, y, silos=silos, persons=silos)
    with pytest.raises(ValueError, match="are not audited; audit their estimator"):
        audit_epsilon(search, X=X, y=y, silos=silos, persons=silos)
    with pytest.raises(TypeError, match="DPFedEXP protects whole silos"):
        DPFedEXPClassifier(unit="person")
    one = DPScaffoldClassifier(2.0, scaling=None).plan_for(silo_sizes=[99] * 4, n_features=3)
    two = DPScaffoldClassifier(2.0, scaling=None, unit="person")
    with pytest.raises(ValueError, match="different unit cannot be added"):
        one.spent() + two.plan_for(silo_sizes=[99] * 4, n_features=3).spent()
