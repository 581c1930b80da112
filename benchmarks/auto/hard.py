"""Cases of the study of "auto" where it once failed: probabilities, unlike silos, mixed budgets,
few rounds of local steps."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from problems import PROBLEMS, Problem, outward
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import skdpfl
from skdpfl.datasets import make_federated_classification

#: data and budgets of fits whose log loss is looked at
PROBABILITIES = [
    ("logistic model, 2000 x 5", 1.0),
    ("logistic model, 2000 x 5", 3.0),
    ("logistic model, 2000 x 5", 10.0),
    ("logistic model, 20000 x 5", 1.0),
    ("obesity, 7 silos by class", 1.0),
    ("obesity, 7 silos by class", 3.0),
    ("obesity, 7 silos by class", 9.0),
    ("breast cancer, 5 silos", 1.0),
    ("heart disease, 4 hospitals", 1.0),
    ("heart disease, 4 hospitals", 3.0),
    ("digits, 6 silos", 3.0),
    ("wine, 2 silos", 1.0),
]
#: estimator and parameters on the synthetic benchmark (5, 5) of DP-SCAFFOLD
UNLIKE: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("ISRLDP", "DPFedAvg", "DPScaffold")),
    *((name, {"silo_fraction": 0.2}) for name in ("ISRLDP", "DPFedAvg", "DPScaffold")),
    *((name, {"local_steps": 5}) for name in ("DPFedAvg", "DPScaffold")),
    ("DPScaffold", {"local_steps": 5, "silo_fraction": 0.2}),
]
#: problem, its number of random silos (None: its own), of which the first has a budget of 0.3
MIXED = [
    ("breast cancer, 5 silos", None),
    ("diabetes, 3 silos", None),
    ("obesity, 7 silos by class", 7),
    ("insurance, 5 silos by charges", None),
]
#: problem and budget of fits of five rounds of 20 local steps, and of 20 of five
LOCAL_STEPS = [
    *(("insurance, 5 silos by charges", epsilon) for epsilon in (1.0, 3.0, 9.0)),
    *(("diabetes, 3 silos", epsilon) for epsilon in (1.0, 9.0)),
    *(("nearly collinear, 2000 x 4", epsilon) for epsilon in (1.0, 9.0)),
    ("obesity, 7 silos by class", 9.0),
    ("digits, 6 silos", 9.0),
]


class Split(NamedTuple):
    """Records to train and to test on, with public bounds."""

    train: Problem
    test: Problem
    bounds: dict[str, Any]


def logistic(n: int, seed: int) -> Problem:
    """An exactly logistic model of five standard normal features, in five silos."""
    rng = np.random.default_rng(100 + seed)
    X = rng.normal(size=(n, 5))
    p = 1 / (1 + np.exp(-X @ [1.0, -0.8, 0.5, 0.3, 0.0]))
    return Problem(X, (rng.random(n) < p).astype(int), rng.integers(0, 5, n))


def collinear(n: int, seed: int) -> Problem:
    """Four columns that are mixtures of four, in five silos by target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4))
    y = X @ [1, 2, -1, 0.5] + rng.normal(size=n)
    return Problem(X, y, np.argsort(np.argsort(y)) * 5 // n, True)


def split(name: str, seed: int) -> Split:
    """Return a random split of a data set, or a fresh one of the logistic model."""
    if name.startswith("logistic"):
        n = int(name.split(",")[1].split("x")[0])
        return Split(logistic(n, seed), logistic(20_000, seed + 1000), {"feature_bounds": (-5, 5)})
    data = collinear(2000, seed) if name.startswith("nearly") else PROBLEMS[name]()
    bounds: dict[str, Any] = {"feature_bounds": outward(data.X.min(axis=0), data.X.max(axis=0))}
    if data.regression:
        bounds["target_bounds"] = tuple(map(float, outward(data.y.min(), data.y.max())))
    rows = train_test_split(np.arange(len(data.y)), test_size=0.2, random_state=seed)
    train, test = (Problem(data.X[r], data.y[r], data.silos[r], data.regression) for r in rows)
    return Split(train, test, bounds)


def fit(name: str, data: Problem, seed: int, **kw: Any) -> Any:
    """Fit one of the estimators."""
    kind = "Regressor" if data.regression else "Classifier"
    model = getattr(skdpfl, name + kind)(delta=1e-5, random_state=seed, **kw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data.X, data.y, silos=data.silos)


def probabilities(name: str, epsilon: float, seed: int) -> dict[str, float]:
    """Return log losses with and without the temperature, and of a constant."""
    train, test, bounds = split(name, seed)
    model, off = (
        fit("ISRLDP", train, seed, epsilon=epsilon, calibrate=c, **bounds) for c in (True, False)
    )
    shares = np.array([(train.y == label).mean() for label in model.classes_])

    def loss(p: np.ndarray) -> float:
        return log_loss(test.y, p, labels=model.classes_)

    return {
        "log loss": loss(model.predict_proba(test.X)),
        "constant": loss(np.tile(shares, (len(test.y), 1))),
        "uncalibrated": loss(off.predict_proba(test.X)),
        "accuracy": model.score(test.X, test.y),
        "first coefficient": float(model.coef_[0, 0]),
    }


def unlike(name: str, options: dict[str, Any], n_records: int, seed: int) -> dict[str, float]:
    """Return the accuracy on the synthetic benchmark (5, 5) of 100 silos at epsilon 3."""
    bunch = make_federated_classification(
        100, n_records * 5 // 4, alpha=5.0, beta=5.0, random_state=seed
    )
    test = np.random.default_rng(seed).random(len(bunch.target)) < 0.2
    train = Problem(bunch.data[~test], bunch.target[~test], bunch.silos[~test])
    model = fit(name, train, seed, epsilon=3.0, feature_bounds=(-20, 20), **options)
    return {"accuracy": model.score(bunch.data[test], bunch.target[test])}


def mixed(name: str, n_silos: int | None, seed: int) -> dict[str, float]:
    """Return scores where one silo has a tenth of the others' budget: with it, and without it."""
    train, test, bounds = split(name, seed)
    if n_silos is not None:
        silos = np.random.default_rng(seed).integers(0, n_silos, len(train.y))
        train = train._replace(silos=silos)
    budgets = {silo: 3.0 for silo in np.unique(train.silos).tolist()} | {0: 0.3}
    rest = train.silos != 0
    without = Problem(train.X[rest], train.y[rest], train.silos[rest], train.regression)
    parts = {"with": (train, budgets), "without": (without, 3.0), "all at 3": (train, 3.0)}
    return {
        word: fit("ISRLDP", data, seed, epsilon=epsilon, **bounds).score(test.X, test.y)
        for word, (data, epsilon) in parts.items()
    }


def local_steps(name: str, epsilon: float, seed: int) -> dict[str, float]:
    """Return scores of 100 private gradients in few rounds, and in 100."""
    train, test, bounds = split(name, seed)
    found = {}
    for steps in (20, 5, 1):
        kw = {"epsilon": epsilon, "local_steps": steps, "n_rounds": 100 // steps}
        model = fit("DPFedAvg", train, seed, **kw, **bounds)
        found[f"{100 // steps} x {steps}"] = model.score(test.X, test.y)
    return found
