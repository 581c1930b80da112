"""A search that protects whole silos: whole ones are held out, and one score of each is noised."""

import numpy as np
import pytest

import skdpfl
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.pricing.price import price_epsilon

N_SILOS = 60
rng = np.random.default_rng(0)
SILOS = np.repeat(np.arange(N_SILOS), rng.integers(1, 9, N_SILOS))
X = rng.uniform(-1, 1, size=(len(SILOS), 3))
y = np.where(X[:, 0] + 0.3 * rng.normal(size=len(SILOS)) > 0, "ill", "well")
STEPS = {"local_steps": [1, 2, 3, 4]}

pytestmark = pytest.mark.filterwarnings("ignore:Hiding a whole silo:UserWarning")


def fedavg(**params):
    params = {"unit": "silo", "n_rounds": 4, "feature_bounds": (-1, 1)} | params
    return skdpfl.DPFedAvgClassifier(**params)


def search(estimator=None, **params):
    params = {"n_iter": 3, "epsilon": 6.0, "delta": 1e-4, "random_state": 0} | params
    return DPRandomizedSearchCV(fedavg() if estimator is None else estimator, STEPS, **params)


KINDS = {
    "FedAvg": fedavg,
    "FedAvg, fixed norm, few": lambda **p: fedavg(clip_norm=1.0, silo_fraction=0.3, **p),
    "FedEXP": lambda **p: skdpfl.DPFedEXPClassifier(n_rounds=4, feature_bounds=(-1, 1), **p),
    "SCAFFOLD": lambda **p: skdpfl.DPScaffoldClassifier(
        unit="silo", n_rounds=4, feature_bounds=(-1, 1), **p
    ),
}


@pytest.mark.parametrize("trust", ["silo", pytest.param("server", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_search_costs_its_budget(kind, trust):
    fitted = search(KINDS[kind](trust=trust)).fit(X, y, silos=SILOS)
    spent = fitted.privacy_spent_
    assert 0.97 * 6 <= spent.epsilon <= 6
    assert (spent.unit, spent.trust, spent.delta) == ("silo", trust, 1e-4)
    assert spent.neighbours == {"silo": "replace", "server": "add_remove"}[trust]
    assert spent.per_silo is None
    assert skdpfl.privacy_spent(fitted) == spent
    assert hasattr(fitted, "candidates_") == (trust == "silo")
    assert fitted.best_estimator_.privacy_spent_.epsilon <= fitted.fit_epsilon_ < 6


@pytest.mark.filterwarnings("ignore:2 local steps of each silo:UserWarning")
def test_privunit_composes_too():
    model = skdpfl.DPFedEXPClassifier(mechanism="privunit", n_rounds=2, feature_bounds=(-1, 1))
    spent = search(model, epsilon=20.0).fit(X, y, silos=SILOS).privacy_spent_
    assert 0.97 * 20 <= spent.epsilon <= 20


def test_delta_auto_counts_silos():
    fitted = search(delta="auto").fit(X, y, silos=SILOS)
    assert fitted.privacy_spent_.delta == 1e-3  # 1 / (10 * 60), rounded down


def test_silos_train_or_score_whatever_they_hold():
    """Scoring silos with other records, and other numbers of them, leave models bit by bit."""
    fitted = search(n_iter=1).fit(X, y, silos=SILOS)
    scoring = np.setdiff1d(np.arange(N_SILOS), fitted.best_estimator_.silo_ids_)
    assert len(scoring) == 12  # a fifth
    theirs = np.isin(SILOS, scoring)
    assert 0 < theirs.sum() < len(theirs)
    rows = np.concatenate([np.flatnonzero(~theirs), np.repeat(np.flatnonzero(theirs), 5)])
    wild = np.where(theirs[:, None], 1e6, X)[rows]
    other = search(n_iter=1).fit(wild, np.where(theirs, "well", y)[rows], silos=SILOS[rows])
    assert other.best_estimator_.silo_ids_.tolist() == fitted.best_estimator_.silo_ids_.tolist()
    assert np.array_equal(other.best_estimator_.coef_, fitted.best_estimator_.coef_)
    assert other.privacy_spent_ == fitted.privacy_spent_


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_the_audited_search_keeps_its_epsilon(trust):
    """What two whole searches differ in, against the noise that their cost says was added."""
    first = search(fedavg(trust=trust), n_iter=1).fit(X, y, silos=SILOS)
    scoring = np.setdiff1d(np.arange(N_SILOS), first.best_estimator_.silo_ids_)
    right = np.asarray(first.predict(X))
    found = []
    for labels in (right, np.where(right == "ill", "well", "ill")):
        given = np.where(scoring[0] == SILOS, labels, y)
        found.append(search(fedavg(trust=trust), n_iter=1).fit(X, given, silos=SILOS).best_score_)
    z = first.privacy_spent_.costs[-1].composition[0][0].noise_multiplier
    mu = abs(found[0] - found[1]) * len(scoring) / (z / 2)
    assert mu <= 2 / z * (1 + 1e-9)
    neighbours = first.privacy_spent_.neighbours
    assert price_epsilon(((Gaussian(z), 1),), 1e-4, neighbours) <= 6
    assert mu > 2 / z * 0.99  # all wrong against all right is the worst there is


def test_what_cannot_be_sound_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"2 silo\(s\) are too few.*unit=\"record\""):
        search(holdout=0.9).fit(X, y, silos=np.arange(len(y)) % 2)
    with pytest.raises(ValueError, match=r"trust=\"shuffler\".*trust=\"silo\""):
        search(skdpfl.ISRLDPClassifier(trust="shuffler")).fit(X, y, silos=SILOS)
