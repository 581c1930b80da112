"""What the paper leaves out of epsilon (its J.1) inside: scales of the features, and tuning.

Insurance in ten silos, half of them a round, and obesity in seven. "tuned outside": minibatch SGD
of ``isrl/insurance`` and ``isrl/obesity``, tuned on splits that are not paid for. All else stays
within epsilon: "auto" knows bounds and is not tuned; "auto, scales inside" knows no bounds of the
features (those of the charges are public); "tuned inside": a private search over four candidates,
step, clip norm and rounds, with bounds or without. 20 splits.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell, Figure
from _common.table import chosen
from scipy.stats import loguniform

from isrl import insurance, obesity
from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.model_selection import DPRandomizedSearchCV

TUNED = "tuned outside"
#: name -> whether bounds are known, whether there is a search
INSIDE = {
    "auto": (True, False),
    "auto, scales inside": (False, False),
    "tuned inside": (True, True),
    "tuned and scales inside": (False, True),
}
CANDIDATES = {
    "learning_rate": loguniform(0.03, 3),
    "clip_norm": loguniform(0.1, 2),
    "n_rounds": [12, 25, 50, 100, 200],
}
#: data -> settings of their own figures
EPSILONS = {"insurance": (1.0, 3.0, 5.0), "obesity": (1.0, 3.0, 9.0)}
METRICS = {"insurance": "relative RMSE", "obesity": "error"}


def outside(data: str, epsilon: float, seed: int) -> float:
    """Return the error at what was tuned for nothing."""
    if data == "insurance":
        tuned = chosen("isrl/insurance", ("10 silos", "minibatch", epsilon, epsilon))
        return insurance.relative_rmse("minibatch", epsilon, 10, seed, **tuned)
    tuned = chosen("isrl/obesity", ("7 of 7 silos a round", "minibatch", epsilon, epsilon))
    return obesity.error("minibatch", epsilon, 7, seed, **tuned)


def inside(name: str, data: str, epsilon: float, seed: int) -> float:
    """Return the error of one fit all of which epsilon covers."""
    bounds, search = INSIDE[name]
    regression = data == "insurance"
    problem = insurance.problem(10, seed) if regression else obesity.problem(seed)
    known: dict[str, Any] = {"silo_fraction": 0.5, "target_bounds": insurance.CHARGES}
    known = known if regression else {}
    if bounds:
        bunch = insurance.records(10) if regression else obesity.records()
        known["feature_bounds"] = bunch.feature_bounds
    else:
        known["scaling"] = "private"
    kind = ISRLDPRegressor if regression else ISRLDPClassifier
    budget = {"epsilon": epsilon, "delta": (len(np.unique(problem.silos)) / len(problem.y)) ** 2}
    model: Any = kind(**known)
    if search:
        model = DPRandomizedSearchCV(model, CANDIDATES, n_iter=4)
    model.set_params(**budget, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # delta above 1/n, steps that diverge
        model.fit(problem.X, problem.y, silos=problem.silos)
    assert model.privacy_spent_.epsilon <= epsilon * (1 + 1e-9)
    predicted = model.predict(problem.X_test)
    if not regression:
        return float(np.mean(predicted != problem.y_test))
    error = np.mean(np.square(predicted - problem.y_test))
    return float(np.sqrt(error / np.mean(np.square(problem.y.mean() - problem.y_test))))


def cells(quick: bool) -> list[Cell]:
    """Return the cells; a small figure has nothing that was tuned in another."""
    found = []
    for data, epsilons in EPSILONS.items():
        for epsilon in epsilons[1 : 2 if quick else None] if quick else epsilons:
            fits = {} if quick else {TUNED: partial(outside, data, epsilon)}
            fits |= {name: partial(inside, name, data, epsilon) for name in INSIDE}
            found += [
                Cell(name, epsilon, fit, (), data, epsilon, METRICS[data])
                for name, fit in fits.items()
            ]
    return found


FIGURE = Figure(
    "Scales and tuning inside epsilon", "error", cells, higher_is_better=False,
    seeds=tuple(range(20)),
)  # fmt: skip
