"""Audits of searches and scalers: canaries that score, and canaries that train."""

import numpy as np
import pytest

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.inspection.audits import black_box
from skdpfl.model_selection import DPRandomizedSearchCV, _randomized
from skdpfl.model_selection._candidates import Candidate
from skdpfl.preprocessing import DPStandardScaler
from skdpfl.privacy import audit_epsilon

KW = {"random_state": 0, "confidence": 0.95}


def search(trust="silo", kind=ISRLDPClassifier, **kw):
    kw = {"calibrate": False} | kw if kind is not ISRLDPRegressor else kw
    rate = {} if "unit" in kw else {"sampling_rate": 1.0}
    inner = kind(scaling=None, n_rounds=1, learning_rate=1.0, trust=trust, **rate, **kw)
    return DPRandomizedSearchCV(inner, {"clip_norm": [0.5, 1.0]}, epsilon=2.0, delta=1e-5, n_iter=2)


def apart(n=120):
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    X = rng.normal(0, 0.1, (n, 2)) + np.where(y, 1, -1)[:, None]
    return {"X": X, "y": y, "silos": np.zeros(n)}


def quiet_scores(patch, share):
    """Scores with a share of the noise that is paid for."""
    divide = _randomized.divide_budget

    def divided(*args):
        budget = divide(*args)
        return budget._replace(score_noise=budget.score_noise / share)

    patch.setattr(_randomized, "divide_budget", divided)


def quiet_fits(patch):
    """Candidates' fits cost more than the search says."""
    fit = Candidate.fit

    def dear(self, data, train, budget, *args, **kw):
        return fit(self, data, train, (40.0, budget[1]), *args, **kw)

    patch.setattr(Candidate, "fit", dear)
    patch.setattr(Candidate, "check", lambda *args: None)


SEARCHES = {
    "silo": search(),
    "server": search("server"),
    "whole silos": search(kind=DPFedAvgClassifier, unit="silo"),
    "regressor": search(kind=ISRLDPRegressor, target_bounds=(-1, 2)),
}


def some_slow(names, fast):
    return [n if n in fast else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.slow
def test_scores_of_searches_have_teeth(monkeypatch):
    kw = KW | apart()
    right = audit_epsilon(SEARCHES["silo"], n_fits=8, **kw)
    assert right.view == "server" and not right.contradicted
    assert right.reported == pytest.approx(2.0, abs=0.02)
    quiet_scores(monkeypatch, 16)
    assert audit_epsilon(SEARCHES["silo"], n_fits=36, **kw).contradicted


@pytest.mark.parametrize("name", some_slow(SEARCHES, {"regressor"}))
def test_scores_without_noise_are_known_exactly(name, monkeypatch):
    """The attack computes what a search publishes; so each guess is right where it can be."""
    laws, judge = [], black_box.judged_numbers

    def judged(seen, law, coins, *args):
        laws.append((np.array(law), np.array(coins)))
        return judge(seen, law, coins, *args)

    monkeypatch.setattr(black_box, "judged_numbers", judged)
    quiet_scores(monkeypatch, 1e6)
    data = apart()
    if name == "whole silos":
        data["silos"] = np.arange(120) // 4
    audit_epsilon(SEARCHES[name], n_fits=12, **KW | data)
    ((law, coins),) = laws
    assert ((law > 0) == coins)[law != 0].all()
    assert np.count_nonzero(np.abs(law) > 1e-6) >= 4


@pytest.mark.slow
def test_best_models_of_searches_have_teeth(monkeypatch):
    kw = KW | apart() | {"n_fits": 60, "view": "model"}
    estimator = search(average=False)
    assert not audit_epsilon(estimator, **kw).contradicted
    quiet_fits(monkeypatch)
    assert audit_epsilon(estimator, **kw).contradicted


def test_scalers_have_teeth(monkeypatch):
    X = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    kw = KW | {"X": X, "silos": np.zeros(20), "n_fits": 120}
    estimator = DPStandardScaler(1.0, delta=1e-5, feature_bounds=(-1, 1))
    right = audit_epsilon(estimator, **kw)
    assert right.view == "model" and not right.contradicted
    loud = DPStandardScaler(30.0, delta=1e-5, feature_bounds=(-1, 1))
    spent = estimator.set_params(random_state=0).fit(X).privacy_spent_
    learn = DPStandardScaler.fit

    def cheap(self, *args, **more):
        learn(self, *args, **more)
        self.privacy_spent_ = spent
        return self

    monkeypatch.setattr(DPStandardScaler, "fit", cheap)
    assert audit_epsilon(loud, **kw).contradicted


def test_what_cannot_be_audited_is_said():
    data = apart(40)
    with pytest.raises(ValueError, match="needs X"):
        audit_epsilon(search())
    with pytest.raises(ValueError, match="view='server'"):
        audit_epsilon(search(), view="silo", **data)
    with pytest.raises(ValueError, match="many fits"):
        audit_epsilon(search(), n_fits=1, **data)
    with pytest.raises(ValueError, match="nothing else"):
        audit_epsilon(DPStandardScaler(), X=data["X"], view="server")
    whole = search("server", DPFedAvgClassifier, unit="silo").set_params(n_iter=1)
    with pytest.raises(ValueError, match="neighbours='replace'"):
        audit_epsilon(whole, n_fits=2, **data | {"silos": np.arange(40) // 4})
