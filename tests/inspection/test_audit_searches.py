"""Audits of searches and scalers: canaries that score, and canaries that train."""

import numpy as np
import pytest

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.model_selection import DPRandomizedSearchCV
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


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="view must be 'server'"):
        audit_epsilon(search(), view="silo", **data)
    with pytest.raises(ValueError, match="needs n_fits above 1"):
        audit_epsilon(search(), n_fits=1, **data)
    with pytest.raises(ValueError, match="view must be 'model'"):
        audit_epsilon(DPStandardScaler(), X=data["X"], view="server")
    whole = search("server", DPFedAvgClassifier, unit="silo").set_params(n_iter=1)
    with pytest.raises(ValueError, match="neighbours='replace'"):
        audit_epsilon(whole, n_fits=2, **data | {"silos": np.arange(40) // 4})
