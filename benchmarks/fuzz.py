"""Random calls of everything public, with random tables: an answer, or an error in words.

::

    python benchmarks/fuzz.py                     # 40,000 calls, an hour and a half
    python benchmarks/fuzz.py --calls 500 --first 7000
    python benchmarks/fuzz.py --seed 7012         # one call again, with its traceback

A call is a seed: it chooses what is called, with which parameters, on which table, labels and
silos. Most are sound; one in some is not (words among numbers, no rows, a silo too many, NaN, huge
numbers, an option of another method). Where PyTorch is installed, half of the estimators have a
network, so seeds mean other calls. Each runs in a process of its own, and is at fault if

- an error is raised that is none of ValueError, TypeError and those of ``skdpfl.exceptions``; or
  one of these that no ``raise`` of this package or of scikit-learn's checks wrote (errors of a
  network's own code have a note instead);
- it takes more than 20 seconds of the processor, or a minute;
- a model, a prediction or a cost is no number, though all that went in was finite.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import argparse
import copy
import importlib.util
import linecache
import math
import multiprocessing
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.pipeline import make_pipeline

import skdpfl
from skdpfl import algorithms, datasets, inspection, losses, models, papers, preprocessing, privacy
from skdpfl import model_selection as selection
from skdpfl.exceptions import LedgerError
from skdpfl.remote import pack, unpack

#: seconds of the processor that a call may take, and seconds
LIMIT, PATIENCE = 20, 60
#: errors in words; LedgerError is a RuntimeError
WORDS = (ValueError, TypeError, LedgerError)

Rng = np.random.Generator

# ---- what is given -------------------------------------------------------------------------------

#: values that few parameters take
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 10**30, 0.0, 1e-320, 0.5, 1e308, math.inf, -math.inf, math.nan,
    "", "auto", "é", b"x", (), (1,), [], {}, {0: 1.0}, {0: math.nan, 1: 1}, 1j, np.float32(0.5),
    np.int8(3), np.array(0.5), np.array([0.5, 1]), Fraction(1, 3), object(), abs, float, pd.NA,
    pd.Series([1.0]), range(3), ("round", 0.1, 1), np.datetime64("2020-01-01"), -5, 1e-9,
]  # fmt: skip

#: values that a parameter takes, by its name
VALUES: dict[str, list[Any]] = {
    "epsilon": [0.1, 0.5, 1, 3.0, 8, 30.0, 1e-6, 1e6, math.inf, {0: 1.0, 1: 2.0, 2: 0.5}],
    "delta": ["auto", 1e-5, 1e-3, 1e-12, 0.3, {0: 1e-5, 1: 1e-4, 2: 1e-5}],
    "noise_multiplier": [None, 0.5, 5.0, 1e-3, 0],
    "feature_bounds": [
        None, (-4, 4), (0, 1), (0, 0), (4, -4), (-1e300, 1e300), ([-3] * 4, [3] * 4), {0: (0, 1)},
        {"c0": (-4, 4), "c1": (0, 9)}, (-4.0, 1e-9), (3, 3),
    ],
    "target_bounds": [None, (-10, 10), (0, 1), (1, 1), (-1e300, 1e300), (5, -5)],
    "classes": [None, [0, 1], [0, 1, 2], ["a", "b"], [1], [0, 0], {0: 0.99, 1: 0.01},
        {0: 1.0}, {0: 2, 1: 3}],
    "class_weight": [None, {0: 1, 1: 10}, {0: 0, 1: 1}, "balanced", {7: 1.0}],
    "loss": [
        "log_loss", "hinge", "squared_hinge", "squared_error", "huber", "absolute_error",
        "quantile", "poisson", losses.Huber(2.0), losses.Quantile(0.999), losses.LogLoss(),
    ],
    "alpha": [0.0, 1e-3, 1.0, 1e6, 1e-300], "fit_intercept": [True, False],
    "model": [
        "linear", "additive", "auto", models.MLP((3,)), models.MLP((2, 2), activation="tanh"),
        models.MLP(()), models.MLP((2,), activation=models.TemperedSigmoid()),
    ],
    "solver": ["minibatch", "accelerated", "multistage", "local"],
    "n_rounds": [1, 2, 5, 12, "auto", 40], "local_steps": [1, 2, 5, "auto", (1, 2), (3,) * 5],
    "local_epochs": [None, 1, 2, (1, 1)], "learning_rate": ["auto", 0.1, 1e-12, 1e3, (0.5, 0.1)],
    "global_learning_rate": ["auto", 1.0, 0.3, 100.0], "momentum": [0.0, 0.5, 0.99, 1.0],
    "clip_norm": ["auto", 1.0, 1e-9, 1e9], "sampling_rate": ["auto", 1.0, 0.3, 0.01, 1e-9],
    "sampling": ["poisson", "without_replacement", "disjoint"],
    "average": [True, False, 0.3, 3, 1.0], "silo_fraction": [1.0, 0.5, 0.34, 1e-3],
    "cohort": ["auto", "balanced", "uniform", "poisson", [[0, 1], [1, 2]]],
    "silo_weights": ["auto", "size", "uniform", {0: 1.0, 1: 2.0, 2: 0.0}, {0: 1, 1: 1, 2: 1}],
    "clip_features": [True, False, "auto"], "calibrate": [True, False],
    "scaling": ["auto", "private", None], "unit": ["record", "silo"],
    "trust": ["silo", "shuffler", "server", "secagg"], "radius": [None, 1.0, 1e-6, 1e6],
    "neighbours": ["auto", "replace", "add_remove"], "warm_start_rounds": [0, 1, 3],
    "noise_schedule": [None, ("round", 0.9, 2), ("step", 0.5, 1), ("round", 1.0, 0)],
    "mechanism": ["gaussian", "privunit"], "silo_column": [None, "hospital", "hospital", "c0", 0],
    "algorithm": [None, algorithms.FedAvg(0.1), algorithms.Scaffold(0.1), algorithms.FedExp(0.1),
                  algorithms.MinibatchSGD(0.3)],
    "random_state": [0, 1, 2, 3, None, 2**32 - 1], "verbose": [0], "n_jobs": [None, 1, 2],
    "strategy": ["mean", "median", "most_frequent", "constant"], "n_components": [None, 1, 2, 9],
    "categories": ["auto", [[0, 1]], [["a", "b"]] * 4], "max_categories": [None, 1, 5],
    "row_norm": [1.0, 1e-3, 1e3], "center": [True, False, 0.0],
    "keep_silo_column": [True, False], "head": ["intercept", "ridge", None],
    "n_iter": [1, 2, 3], "holdout": [0.2, 0.5, 0.01, 0.99], "shares": ["auto", [1, 1], {"a": 1}],
    "n_splits": [2, 3, 5], "shuffle": [True, False], "stratify_y": [True, False],
    "sigma_g": [1.0, 0.1, 60.0], "n_silos": [1, 2, 10, 100], "n_records": [1, 10, 500, [5, 9]],
    "silo_rate": [1.0, 0.2, 0.01], "record_rate": [1.0, 0.2, 0.001], "view": ["outsider", "server"],
    "scheme": [1, 2, 3], "sigma0_squared": [1.0, 0.01, 100.0], "beta": [1.0, 0.9, 0.5],
    "start": [0, 1, 10], "batch": [1, 16, 1000], "lipschitz": [1.0, 0.1], "n_steps": [1, 7, 1000],
    "method": ["theorem", "generic", "renyi", "gaussian"],
    "form": ["theory", "practice", "theorem"], "constant_rounds": [10.0, 1000.0],
    "n_epochs": [1, 100], "after": [0, 1, 50], "k": [1, 2, 50],
    "epochs": [1, 5], "step": [0.1, 1.0], "plain_step": [0.1], "plain_clip_norm": [1.0],
    "n_parameters": [1, 10], "excess": [0.1, 0.0], "deviation": [0.1, 5.0], "distance": [1.0],
    "drift": [0.0, 1.0], "gradient_variance": [1.0], "global_step": [1.0],
    "smoothness": [None, 1.0], "silos_per_round": [1, 5], "n_features": [1, 3, 10, 40],
    "n_classes": [2, 3, 10],
    "label_noise": [0.0, 0.5], "iid": [True, False], "standardize": [True, False],
    "unit_norm": [True, False], "as_frame": [True, False], "return_X_y": [True, False],
    "design": ["general", "well_specified", "orthogonal"], "noise": [0.0, 1.0],
    "how": ["iid", "label", "dirichlet", "similarity", "quantity"], "similarity": [0.0, 0.5, 1.0],
    "records_per_silo": [None, 2, 30], "cv": [2, 3, selection.SiloKFold(2)], "most": [1, 2, 5],
    "scoring": [None, "accuracy", "balanced_accuracy", "roc_auc", "neg_log_loss", "r2"],
    "epsilons": [(0.5, 2.0), (1.0,), ()], "delta_": [1e-5], "aggregate": ["min", "mean", "median"],
    "reference": [None, 1.0, 0.0], "n_fits": [4, 20], "confidence": [0.999, 0.5],
    "hidden_layer_sizes": [(3,), (), (2, 2)], "activation": ["relu", "tanh", "logistic"],
    "silo_sizes": [{0: 40, 1: 30}, {0: 40, 1: 30, 2: 20}, {0: 0}, {}, {"a": 10**6}, {0: 1}, [9, 9]],
    "scale": [2.0], "inverse_temperature": [2.0], "offset": [1.0],
}  # fmt: skip


def pick(rng: Rng, values: list[Any]) -> Any:
    """Return one of some values, as it is."""
    return values[int(rng.integers(len(values)))]


def value_of(rng: Rng, name: str) -> Any:
    """Return a value for a parameter: a sound one, mostly."""
    odd = name not in VALUES or rng.random() < 0.03
    values = ODD if odd else VALUES[name]
    if name == "scoring":  # a function of the caller's raises errors of its own
        values = [value for value in values if not callable(value)]
    return pick(rng, values)


def made(rng: Rng, kind: Callable[..., Any], names: list[str], **fixed: Any) -> Any:
    """Return an object or a result, with up to four of its parameters set."""
    chosen = rng.permutation(names)[: rng.integers(0, min(5, len(names) + 1))]
    given = fixed | {str(name): value_of(rng, str(name)) for name in chosen}
    if given.get("noise_multiplier") is not None and rng.random() < 0.9:
        given["epsilon"] = None
    return kind(**given)


@dataclass
class Table:
    """Features, labels, silos; ``finite``: all numbers are, and none is beyond 1e100."""

    X: Any
    y: Any
    silos: Any
    finite: bool


COLUMNS: list[Callable[[Rng, int], np.ndarray]] = [
    lambda rng, n: rng.normal(size=n),
    lambda rng, n: np.exp(2 * rng.normal(size=n)) * 1e4,
    lambda rng, n: (rng.random(n) < 0.05).astype(float),
    lambda rng, n: rng.integers(-3, 9, n).astype(float),
    lambda rng, n: np.full(n, 3.0),
    lambda rng, n: np.where(rng.random(n) < 0.7, 0.0, rng.normal(size=n) * 50),
    lambda rng, n: rng.normal(size=n) * 1e-300,
]
SPOILT: list[float] = [math.nan, math.inf, -math.inf, 1e300, -1e308]


def table(rng: Rng, regression: bool) -> Table:
    """Return a table with its labels and silos."""
    n = int(
        rng.choice([60, 40, 120, 25, 8, 3, 1, 0], p=[0.5, 0.2, 0.1, 0.1, 0.04, 0.02, 0.02, 0.02])
    )
    d = int(pick(rng, [4, 4, 3, 2, 1, 6]))
    X = np.column_stack([pick(rng, COLUMNS)(rng, n) for _ in range(d)])
    finite = True
    if rng.random() < 0.06 and X.size:
        X[rng.integers(n), rng.integers(d)] = pick(rng, SPOILT)
        finite = False
    y: Any = X[:, 0] * 2 + rng.normal(size=n) if regression else (rng.random(n) < 0.4) * 1
    if rng.random() < 0.15:
        y, harmless = labels(rng, n)
        finite &= harmless
    return Table(as_given(rng, X), y, silos_of(rng, n), finite)


def as_given(rng: Rng, X: np.ndarray) -> Any:
    """Return a table in one of the forms that people give."""
    names = [f"c{k}" for k in range(X.shape[1])]
    form = int(rng.integers(9, 16)) if rng.random() < 0.07 else int(rng.integers(9))
    if form < 5:
        return X
    if form < 9:
        frame = pd.DataFrame(X, columns=names)
        if rng.random() < 0.3:
            frame["hospital"] = np.arange(len(X)) % 3
        if rng.random() < 0.1:
            frame["word"] = np.array(["a", "b", "é"])[np.arange(len(X)) % 3]
        if rng.random() < 0.1:
            frame["on"] = np.arange(len(X)) % 2 == 0
        return frame
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = [
            lambda: X.astype("f4"), lambda: X.astype(">f8"), lambda: X.astype(object),
            lambda: X.tolist(), lambda: sparse.csr_matrix(X), lambda: X[:, 0], lambda: X[None],
        ]  # fmt: skip
        return kinds[form - 9]()


def labels(rng: Rng, n: int) -> tuple[Any, bool]:
    """Return labels or targets of another kind, and whether they are finite."""
    with np.errstate(all="ignore"):
        return pick(rng, [
            (np.array(["yes", "no"])[rng.integers(2, size=n)], True),
            (rng.integers(3, size=n), True), (rng.integers(2, size=n).astype(bool), True),
            (np.zeros(n, int), True), (rng.normal(size=n), True), (rng.poisson(2.0, n), True),
            (rng.normal(size=n) * 1e300, False), (np.full(n, np.nan), False), (None, True),
            (np.zeros(n + 1), True), (np.zeros((n, 2)), True), (rng.integers(40, size=n), True),
            (pd.Series(rng.integers(2, size=n), dtype="category"), True), (0, True),
            (np.full(n, 7.0), True), (rng.integers(2, size=n).tolist(), True),
        ])  # fmt: skip


def silos_of(rng: Rng, n: int) -> Any:
    """Return an id for each record, or something else."""
    thirds = np.arange(n) % 3
    if rng.random() < 0.85:
        return thirds
    return pick(rng, [
        None, np.array(["north", "south"])[rng.integers(2, size=n)], np.arange(n),
        np.where(rng.random(n) < 0.9, 0, 1), thirds.astype(float), thirds.tolist(), "hospital",
        np.zeros(n), np.where(thirds == 1, np.nan, thirds), thirds[:-1], pd.Series(thirds),
        pd.Categorical(thirds, categories=[0, 1, 2, 3]), thirds[:, None], [(0, 1)] * n,
    ])  # fmt: skip


# ---- what is called ------------------------------------------------------------------------------

FAMILIES = ["ISRLDP", "DPScaffold", "DPFedAvg", "DPFedEXP", "DPFederated"]
TRANSFORMERS = ["DPStandardScaler", "DPMinMaxScaler", "DPSimpleImputer", "DPOneHotEncoder", "DPPCA"]
PUBLISHED = [name for name in papers.__all__ if "20" in name]
PRICES = [privacy.epsilon_of, privacy.noise_multiplier_for, privacy.n_steps_for]


def finite(what: str, values: Any) -> None:
    """Raise unless all numbers are finite."""
    numbers = np.asarray(values)
    if numbers.dtype.kind in "fc" and not np.all(np.isfinite(numbers)):
        raise FloatingPointError(f"{what} has NaN or infinite numbers")


def estimator(rng: Rng) -> Any:
    """Return an estimator that is not fitted."""
    kind = getattr(skdpfl, pick(rng, FAMILIES) + pick(rng, ["Classifier", "Regressor"]))
    given: dict[str, Any] = {"random_state": int(rng.integers(9))}
    names = sorted(kind().get_params(deep=False))
    if importlib.util.find_spec("torch") and rng.random() < 0.5:
        given["model"] = network(rng)
        names.remove("model")
    return made(rng, kind, names, **given)


def network(rng: Rng) -> Any:
    """Return a network of PyTorch; those that mix records or have no parameters are refused."""
    from torch import nn

    from skdpfl.torch import TorchModel

    behind = partial(with_head, body=pick(rng, [
        nn.Identity(), nn.Linear(4, 4), nn.Sequential(nn.LazyLinear(3), nn.ReLU()), nn.Tanh(),
        nn.LayerNorm(4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.GroupNorm(1, 1), nn.Softmax(dim=0),
        nn.Sequential(nn.Unflatten(1, (1, -1)), nn.Conv1d(1, 2, 2), nn.ReLU(), nn.Flatten()),
        nn.Sequential(nn.Unflatten(1, (2, 2)), nn.MaxPool1d(2), nn.Flatten(), nn.GELU()),
        nn.Linear(4, 4).double(), nn.Linear(4, 4).requires_grad_(False), nn.PReLU(), nn.Flatten(0),
    ]))  # fmt: skip
    return TorchModel(pick(rng, [behind, behind, behind, nn.Linear, nn.ReLU, nn.Identity, float]))


def with_head(d: int, k: int, *, body: Any) -> Any:
    """Return a module that ends with a linear layer, which may not fit to what is before it."""
    from torch import nn, zeros

    found = copy.deepcopy(body)
    try:
        d = found.eval()(zeros(2, d)).shape[-1]
    except RuntimeError:
        print("the body does not take so many features")
    return nn.Sequential(found.train(), nn.Linear(d, k))


def fit(rng: Rng) -> Any:
    """Fit an estimator, and ask it for all that it says."""
    model = estimator(rng)
    data = table(rng, "Regressor" in type(model).__name__)
    if model.silo_column is not None and rng.random() < 0.8:
        data.silos = None
    more = {} if rng.random() < 0.9 else {"sample_weight": value_of(rng, "alpha")}
    if more and rng.random() < 0.7:
        more["sample_weight"] = rng.random(np.shape(data.y))
    model.fit(data.X, data.y, silos=data.silos, **more)
    ask(model, data, data.finite)
    return model


def ask(model: Any, data: Table, sound: bool) -> None:
    """Use a fitted model in every way."""
    repr(model), model._repr_html_(), clone(model)
    spent = model.privacy_spent_
    repr(spent), spent.to_dict(), spent.group(2)
    if math.isnan(spent.epsilon) or math.isnan(spent.delta):
        raise FloatingPointError("privacy_spent_ is no number")
    predicted = model.predict(data.X)
    pickle.loads(pickle.dumps(model))
    answers = {"predict": predicted}
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name):
            answers[name] = getattr(model, name)(data.X)
    for name in ("coef_", "intercept_"):
        answers[name] = getattr(model, name, 0.0)
    if hasattr(model, "coef_"):
        model.summary()
        plain = model.to_dict()
        try:
            again = type(model).from_dict(plain)
        except WORDS as error:
            if not np.all(np.isfinite(model.coef_)):  # it diverged
                raise
            raise AssertionError(f"its own plain data are refused: {error}") from error
        if not np.array_equal(again.predict(data.X), predicted):
            raise AssertionError("a model that was read from plain data predicts otherwise")
    score = model.score(data.X, data.y)
    if sound:
        for name, values in answers.items():
            finite(name, values)
        far = [answers["coef_"], predicted if is_regressor(model) else 0.0]
        if len(data.y) > 1 and not any(np.any(np.abs(np.asarray(each)) > 1e100) for each in far):
            finite("score", score)


def plan(rng: Rng) -> Any:
    """Plan a fit before there are data."""
    more = {"n_classes": value_of(rng, "n_classes")} if rng.random() < 0.1 else {}
    return repr(estimator(rng).plan_for(
        silo_sizes=value_of(rng, "silo_sizes"), n_features=value_of(rng, "n_features"), **more
    ))  # fmt: skip


def transform(rng: Rng) -> Any:
    """Fit a transformer, alone or before an estimator."""
    kind = getattr(preprocessing, pick(rng, TRANSFORMERS))
    step = made(rng, kind, sorted(kind().get_params(deep=False)), random_state=1)
    data = table(rng, False)
    if rng.random() < 0.3:
        model = make_pipeline(step, skdpfl.ISRLDPClassifier(8.0, n_rounds=2, random_state=0))
        model.fit(data.X, data.y)
        return skdpfl.privacy_spent(model)
    out = step.fit(data.X, data.y, silos=data.silos).transform(data.X)
    repr(step), repr(step.privacy_spent_), step.get_feature_names_out()
    if data.finite:
        finite("transform", out.toarray() if sparse.issparse(out) else out)
    return out


def search(rng: Rng) -> Any:
    """Search, or share a budget between steps."""
    data = table(rng, False)
    inner = skdpfl.ISRLDPClassifier(n_rounds=2, scaling=pick(rng, [None, "auto"]))
    if rng.random() < 0.6:
        names = ["n_iter", "epsilon", "delta", "holdout", "random_state", "scoring"]
        grid = pick(rng, [{"alpha": [0, 1.0]}, {"n_rounds": [1, 2]}, {}, {"nothing": [1]}, ODD[0]])
        model = made(rng, selection.DPRandomizedSearchCV, names, estimator=inner,
                     param_distributions=grid, n_iter=2)  # fmt: skip
    else:
        names = ["epsilon", "delta", "shares", "random_state"]
        steps = make_pipeline(preprocessing.DPStandardScaler(random_state=0), inner)
        model = made(rng, selection.SharedBudget, names, estimator=steps)
    model.fit(data.X, data.y, silos=data.silos)
    return repr(model), repr(skdpfl.privacy_spent(model)), model.predict(data.X)


def splits(rng: Rng) -> Any:
    """Split by silos, score by silos."""
    data = table(rng, False)
    if rng.random() < 0.3:
        model = skdpfl.ISRLDPClassifier(8.0, n_rounds=2, random_state=0)
        model.fit(data.X, data.y, silos=data.silos)
        asked = {"scoring": value_of(rng, "scoring")} if rng.random() < 0.5 else {}
        return selection.silo_scores(model, data.X, data.y, silos=data.silos, **asked)
    if rng.random() < 0.2:
        return preprocessing.limit_rows(data.silos, value_of(rng, "most"))
    kind = pick(rng, [selection.SiloKFold, selection.SiloStratifiedKFold])
    folds = made(rng, kind, ["n_splits", "shuffle", "random_state", "silo_column"])
    if rng.random() < 0.3:
        folds = made(rng, selection.LeaveOneSiloOut, ["silo_column"])
    return list(folds.split(data.X, data.y, data.silos))


def display(rng: Rng) -> Any:
    """Draw one of the pictures, or ask what is said before a fit."""
    data = table(rng, False)
    model = skdpfl.DPFedAvgClassifier(5.0, n_rounds=2, random_state=0)
    which = int(rng.integers(6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import matplotlib.pyplot as plt

    try:
        if which == 0:
            return made(rng, inspection.PrivacyUtilityDisplay.from_estimator,
                        ["epsilons", "cv", "scoring", "silos"], estimator=model, X=data.X, y=data.y,
                        epsilons=(1.0, 4.0), cv=2, silos=data.silos)  # fmt: skip
        if which == 1:
            return inspection.ConvergenceDisplay.from_estimator(
                model, data.X, data.y, X_test=data.X, y_test=data.y, silos=data.silos
            )
        if which == 2:
            return inspection.heterogeneity(
                data.X, data.y, silos=data.silos, loss=value_of(rng, "loss"),
                alpha=value_of(rng, "alpha"),
            )  # fmt: skip
        if which == 3:
            return inspection.affordable_features(
                estimator(rng), silo_sizes=value_of(rng, "silo_sizes")
            )
        model.fit(data.X, data.y, silos=data.silos)
        if which == 4:
            return inspection.PrivacySpentDisplay.from_estimator(model)
        adapted = made(rng, skdpfl.SiloAdapted, ["head"], estimator=model)
        adapted.fit(data.X, data.y, silos=data.silos)
        finite("predict", adapted.predict(data.X, silos=data.silos))
        return inspection.local_comparison(model, data.X, data.y)
    finally:
        plt.close("all")


def look(rng: Rng) -> Any:
    """Look at a table before a fit, or at private scores after one."""
    data = table(rng, False)
    names = ["epsilon", "feature_bounds", "silo_column", "delta", "random_state", "trust",
             "neighbours", "silos"]  # fmt: skip
    which = int(rng.integers(7))
    if which < 3:
        kind = [inspection.describe, inspection.quantile, inspection.correlation][which]
        return made(rng, kind, names, frame=data.X, silos=data.silos)
    if which < 5:
        X = data.X
        column = X.iloc[:, 0] if isinstance(X, pd.DataFrame) else np.asarray(X, dtype=object)
        column = column[:, 0] if np.ndim(column) == 2 else column
        kind = [inspection.histogram, inspection.value_counts][which - 3]
        return made(rng, kind, names, values=column, silos=data.silos)
    model = skdpfl.ISRLDPClassifier(8.0, n_rounds=2, random_state=0)
    model.fit(data.X, data.y, silos=data.silos)
    kind = [inspection.DPRocCurveDisplay, inspection.DPConfusionMatrixDisplay][which - 5]
    names = ["epsilon", "delta", "trust", "neighbours", "random_state", "silos"]
    return made(rng, kind.from_estimator, names, estimator=model, X=data.X, y=data.y, epsilon=1.0,
                silos=data.silos)  # fmt: skip


def price(rng: Rng) -> Any:
    """Ask the accountant, or the papers' formulas."""
    if rng.random() < 0.4:
        function = getattr(papers, pick(rng, PUBLISHED))
        names = [name for name in function.__annotations__ if name != "return"]
        given = {name: value_of(rng, name) for name in names}
        if "variances" in given:
            given["variances"] = rng.random(3)
        return function(**given)
    if rng.random() < 0.2:
        return privacy.epsilon_per_record(
            value_of(rng, "epsilon"), k=value_of(rng, "k"), delta=value_of(rng, "delta")
        )
    function = pick(rng, PRICES)
    names = [name for name in function.__annotations__ if name != "return"]
    given = {name: value_of(rng, name) for name in names}
    found = function(**given)
    if math.isnan(found):
        raise FloatingPointError("a price is no number")
    return found


def ledger(rng: Rng) -> Any:
    """Fit under a ledger, and read it again."""
    data = table(rng, False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        if rng.random() < 0.2:
            path.write_bytes(bytes(rng.integers(0, 256, rng.integers(0, 300), dtype=np.uint8)))
        names = ["epsilon", "delta", "method", "neighbours"]
        with made(rng, privacy.PrivacyLedger, names, path=path) as book:
            for _ in range(2):
                clone(skdpfl.ISRLDPClassifier(0.5, n_rounds=2, scaling=None)).fit(
                    data.X, data.y, silos=data.silos
                )
        again = privacy.PrivacyLedger(path=path)
        return repr(book), repr(again), again.table(), again.remaining


def made_data(rng: Rng) -> Any:
    """Make silos, or split into silos."""
    if rng.random() < 0.4:
        data = table(rng, False)
        names = ["alpha", "similarity", "records_per_silo", "random_state"]
        return made(rng, datasets.split_into_silos, names, y=data.y,
                    n_silos=value_of(rng, "n_silos"), how=value_of(rng, "how"))  # fmt: skip
    if rng.random() < 0.5:
        names = ["n_silos", "n_records", "n_features", "n_classes", "alpha", "beta", "label_noise",
                 "iid", "standardize", "unit_norm", "silo_column", "as_frame",
                 "random_state"]  # fmt: skip
        return made(rng, datasets.make_federated_classification, names)
    names = ["n_silos", "n_records", "n_features", "design", "alpha", "beta", "noise", "iid",
             "silo_column", "as_frame", "random_state"]  # fmt: skip
    return made(rng, datasets.make_federated_regression, names)


def part(rng: Rng) -> Any:
    """Make parts of models, and read letters that nobody wrote."""
    if rng.random() < 0.5:
        letter = bytearray(pack({"a": np.arange(5.0), "b": [1, "x", None]}))
        for _ in range(int(rng.integers(0, 4))):
            letter[rng.integers(len(letter))] = rng.integers(256)
        return unpack(bytes(letter[: rng.integers(1, len(letter) + 1)]))
    kind = pick(rng, [losses.Huber, losses.Quantile, losses.Hinge, losses.Poisson, models.MLP,
                      models.TemperedSigmoid, algorithms.Ball, algorithms.FedAvg])  # fmt: skip
    value = pick(rng, ODD)
    return repr(kind(value)) if rng.random() < 0.5 else privacy.check_independent(kind(value))


#: how often each is called
CALLS: dict[Callable[[Rng], Any], float] = {
    fit: 0.5, plan: 0.05, transform: 0.13, search: 0.05, splits: 0.04, display: 0.04, price: 0.05,
    ledger: 0.03, made_data: 0.03, part: 0.03, look: 0.05,
}  # fmt: skip


def call(seed: int) -> str:
    """Run one call and return how it ended: "answered", "refused", or what is wrong."""
    rng = np.random.default_rng(seed)
    function = rng.choice(np.array(list(CALLS)), p=list(CALLS.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(rng)
        except WORDS as error:
            fault = "" if in_words(error) else f"no words: {described(error)}"
            return f"{function.__name__}: {fault}" if fault else "refused"
        except Exception as error:
            if hasattr(error, "__notes__"):  # a module of the user's failed
                return "refused"
            return f"{function.__name__}: {described(error)}"
    return "answered"


def in_words(error: BaseException) -> bool:
    """Return whether a ``raise`` of this package, or one of scikit-learn's checks, wrote it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = f"{os.sep}skdpfl{os.sep}" in frame.filename
    checks = f"{os.sep}sklearn{os.sep}" in frame.filename
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    written = line.startswith("raise") and (ours or checks)
    python = frame.filename == __file__ and "argument" in str(error)  # a parameter it has not
    noted = hasattr(error, "__notes__")  # a module of the user's failed
    return (written or python or noted) and len(str(error)) > 15


def described(error: BaseException) -> str:
    """Return the kind of an error, its first words and its place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__} at {place}: {str(error)[:100]!r}"


# ---- workers -------------------------------------------------------------------------------------


def work(pipe: Any) -> None:
    """Run the seeds that arrive; the system ends a call of too many seconds."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    while (seed := pipe.recv()) is not None:
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        pipe.send(call(seed))


class Worker:
    """A process that runs calls, and another one after it was ended."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.start()

    def start(self) -> None:
        """Start it."""
        self.pipe, other = self.context.Pipe()
        self.process = self.context.Process(target=work, args=(other,), daemon=False)
        self.process.start()
        other.close()

    def run(self, seed: int) -> str:
        """Return how a call ended."""
        self.pipe.send(seed)
        try:
            if self.pipe.poll(PATIENCE):
                return str(self.pipe.recv())
            self.process.kill()
        except EOFError:
            pass
        self.process.join()
        self.start()
        return f"hangs, or ended its process: more than {LIMIT} s"

    def end(self) -> None:
        """End it."""
        self.pipe.send(None)
        self.process.join()


def faults(seeds: range) -> Iterator[tuple[int, str]]:
    """Yield each seed with how its call ended."""
    worker = Worker()
    for seed in seeds:
        yield seed, worker.run(seed)
    worker.end()


def main() -> None:
    """Run calls, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=40_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one call, with its traceback")
    options = parser.parse_args()
    if options.seed is not None:
        rng = np.random.default_rng(options.seed)
        function = rng.choice(np.array(list(CALLS)), p=list(CALLS.values()))
        print(function.__name__, str(function(rng))[:2000])
        return
    ends: Counter[str] = Counter()
    start = time.monotonic()
    for seed, end in faults(range(options.first, options.first + options.calls)):
        ends[end if end in ("answered", "refused") else "at fault"] += 1
        if end not in ("answered", "refused"):
            print(f"seed {seed}: {end}", flush=True)
        if (seed + 1) % 1000 == 0:
            print(f"{seed + 1}: {dict(ends)}, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{sum(ends.values())} calls: {dict(ends)}")
    sys.exit(ends["at fault"] > 0)


if __name__ == "__main__":
    main()
