"""Figure 8: the silos' dissimilarity over the rounds, EMNIST, 40 silos of one class each.

The mean squared gradient of the silos less that of all of them, at the current model. 400 rounds of
8 silos, 50 local steps (DP-FedSGD: one), epsilon 11.4 against the server; the fits are those of
``scaffold/emnist_paper``, which chose the steps for the last accuracy. What is measured reads all
training records and is not paid for. ``scaffold/curves`` has the same of the synthetic silos.
"""

from __future__ import annotations

from functools import partial

from _common.cells import Cell, Figure, Fit
from _common.emnist import one_class_silos
from _common.table import chosen
from _common.watch import ACCURACY, scores_by_round

from scaffold.methods import QUICK_SIZE, dissimilarity, model_of

EPSILON, ROUNDS = 11.4, 400
METHODS = {"DP-SCAFFOLD": 50, "DP-FedAvg": 50, "DP-FedSGD": 1}


def curves(method: str, quick: bool, seed: int) -> Fit:
    """Return the last dissimilarity and its course, and that of the test accuracy."""
    problem, rounds = one_class_silos(0.0, seed, quick), QUICK_SIZE[2] if quick else ROUNDS
    tuned = ("0 % alike", method, EPSILON, EPSILON)
    step = {"learning_rate": 1.0} if quick else chosen("scaffold/emnist_paper", tuned)
    model = model_of(
        method, EPSILON, seed, problem, local_steps=METHODS[method], n_rounds=rounds,
        silo_fraction=0.2, clip_norm=1.0, **step,
    )  # fmt: skip
    scores = {"dissimilarity": lambda now, X, y: dissimilarity(problem, now)} | ACCURACY
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
