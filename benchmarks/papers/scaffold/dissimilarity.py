"""Figure 8: the silos' dissimilarity over the rounds, EMNIST, 40 silos of one class each.

The mean squared gradient of the silos less that of all of them, at the current model. 400 rounds of
8 silos, 50 local steps (DP-FedSGD: one), epsilon 11.4 against the server; the fits are those of
``scaffold/emnist_paper``, which chose the steps for the last accuracy. What is measured reads all
training records and is not paid for. ``scaffold/curves`` has the same of the synthetic silos.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from _common.cells import Cell, Figure, Fit
from _common.emnist import one_class_silos
from _common.problem import Problem
from _common.table import chosen
from _common.watch import ACCURACY, scores_by_round

from scaffold.methods import QUICK_SIZE, model_of
from skdpfl.inspection import heterogeneity

EPSILON, ROUNDS = 11.4, 400
METHODS = {"DP-SCAFFOLD": 50, "DP-FedAvg": 50, "DP-FedSGD": 1}


def dissimilarity(problem: Problem, model: Any, *_: Any) -> float:
    """Return that of a model."""
    at = {"coef": model.coef_, "intercept": model.intercept_}
    found = heterogeneity(problem.X, problem.y, silos=problem.silos, loss="log_loss", **at)
    return found.gradient_dissimilarity


def curves(method: str, quick: bool, seed: int) -> Fit:
    """Return the last dissimilarity and its course, and that of the test accuracy."""
    problem, rounds = one_class_silos(0.0, seed, quick), QUICK_SIZE[2] if quick else ROUNDS
    tuned = ("0 % alike", method, EPSILON, EPSILON)
    step = {"learning_rate": 1.0} if quick else chosen("scaffold/emnist_paper", tuned)
    model = model_of(
        method, EPSILON, seed, problem, local_steps=METHODS[method], n_rounds=rounds,
        silo_fraction=0.2, clip_norm=1.0, **step,
    )  # fmt: skip
    scores = {"dissimilarity": partial(dissimilarity, problem)} | ACCURACY
    _, points = scores_by_round(model, problem, scores, every=rounds // 10)
    return Fit(points[-2][2], points)


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    return [
        Cell(method, EPSILON, partial(curves, method, quick), metric="last dissimilarity")
        for method in list(METHODS)[: 2 if quick else None]
    ]


FIGURE = Figure(
    "EMNIST: the silos' dissimilarity over the rounds", "dissimilarity", cells, xlabel="round",
    logx=False, panels=("metric",), leave_out=("last dissimilarity",),
    facts={"data": "EMNIST by-merge", "K": 50},
)  # fmt: skip
