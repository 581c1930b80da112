"""Figure 3: accuracy on MNIST over the rounds, 1000 silos of 60 images of one or two digits.

A linear model on images of norm 1, 5 local steps, 50 rounds.
"""

from __future__ import annotations

import functools
from functools import partial

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.problem import Problem, unit_rows
from _common.watch import scores_by_round

from fedexp.methods import LOCAL_NOISE, METHODS, OWN, PANELS, algorithm, axes, budget, local_price
from skdpfl import DPFederatedClassifier
from skdpfl.datasets import fetch_mnist

LOCAL_STEPS = 5


@functools.lru_cache(maxsize=2)
def problem(seed: int, quick: bool) -> Problem:
    """Return the silos, sorted by digit and cut; test images."""
    train = fetch_mnist(subset="train", n_silos=1000, split="sorted", random_state=seed)
    test = fetch_mnist(subset="test", n_silos=1)
    keep = train.silos % 10 == 0 if quick else np.full(len(train.silos), True)
    X, X_test = (unit_rows(part.astype(np.float32)) for part in (train.data[keep], test.data))
    return Problem(X, train.target[keep], train.silos[keep], X_test, test.target)


def accuracy(method: str, panel: str, quick: bool, seed: int, **chosen: float) -> Fit:
    """Return the last accuracy and that of every second round."""
    data, (trust, epsilon) = problem(seed, quick), PANELS[panel]
    clip_norm = chosen.pop("clip_norm", "auto")
    noise = LOCAL_NOISE * clip_norm if trust == "silo" and clip_norm != "auto" else 0.0
    model = DPFederatedClassifier(
        **budget(trust, epsilon), algorithm=algorithm(method, 7850, LOCAL_STEPS, noise, **chosen),
        unit="silo", n_rounds=5 if quick else 50, clip_norm=clip_norm, scaling=None, average=False,
        random_state=seed,
    )  # fmt: skip
    if seed >= 100:
        model.fit(data.X, data.y, silos=data.silos)
        return Fit(model.score(data.X_test, data.y_test))
    scores = {"accuracy": lambda now, X, y: now.score(X, y)}
    model, points = scores_by_round(model, data, scores, every=2)
    return Fit(model.score(data.X_test, data.y_test), points)


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    found = []
    for panel, (trust, epsilon) in list(PANELS.items())[3 if quick else 0 :]:
        if trust == "silo":
            epsilon = local_price(1000, 50)
        for method in METHODS:
            if "naive" in method and panel != OWN:
                continue
            tuned = axes(method, epsilon < np.inf)
            fit = partial(accuracy, method, panel, quick)
            found.append(Cell(method, epsilon, fit, tuned, panel, metric="last accuracy"))
    return found


FIGURE = Figure(
    "MNIST, 1000 silos of one or two digits", "accuracy", cells, xlabel="round", logx=False,
    leave_out=("last accuracy",),
)  # fmt: skip
