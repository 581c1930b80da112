"""All estimators and small data in silos, for tables of tests."""

import numpy as np

import skdpfl

ESTIMATORS = [n for n in skdpfl.__all__ if n.endswith(("Classifier", "Regressor"))]
ESTIMATORS = [n for n in ESTIMATORS if hasattr(getattr(skdpfl, n), "plan_for")]
#: those that can protect records
RECORD = [n for n in ESTIMATORS if getattr(getattr(skdpfl, n), "unit", "record") != "silo"]
CLASSIFIERS = sorted(name for name in RECORD if name.endswith("Classifier"))
REGRESSORS = sorted(name for name in RECORD if name.endswith("Regressor"))
ALL = CLASSIFIERS + REGRESSORS


def make(name, **kw):
    """An estimator by name; parameters that it does not have are left out."""
    cls = getattr(skdpfl, name)
    known = cls._get_param_names()
    if "local_steps" in kw and "solver" in known:  # one solver has them, and refuses trust="server"
        kw = kw | (
            {"solver": "local"} if kw.get("trust", "silo") == "silo" else {"local_steps": "auto"}
        )
    return cls(**{key: value for key, value in kw.items() if key in known})


def plain(name, **kw):
    """An estimator whose arithmetic is easy to follow: one step of 1 on unscaled data."""
    options = {
        "n_rounds": 1,
        "learning_rate": 1.0,
        "clip_norm": 1.0,
        "sampling_rate": 1.0,
        "scaling": None,
        "average": False,
        "random_state": 0,
    }
    return make(name, **(options | kw))


def data(name, n=240, d=3, n_silos=4, seed=0, dtype=np.float64, n_classes=2):
    """X, y and silos whose distributions differ, with a signal."""
    rng = np.random.default_rng(seed)
    silos = rng.integers(0, n_silos, n)
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_silos, d))[silos]
    raw = X @ rng.normal(size=(d, max(1, n_classes - 1))) + 0.3 * rng.normal(size=(n, 1))
    if name in REGRESSORS:
        y = raw[:, 0].astype(dtype)
    else:
        y = np.argmax(np.column_stack([np.zeros(n), raw]), axis=1)
    return X.astype(dtype), y, silos
