"""The silos' dissimilarity over the rounds: synthetic (0, 0), (1, 1), (5, 5) and EMNIST.

The mean squared gradient of the silos less that of all of them, at the current model, and its
accuracy. 10 local steps (DP-FedSGD: one), clip norm 1, the step is tuned; epsilon 3 against the
server and 5 of 100 silos a round for 200 rounds, on EMNIST 11.4 and 8 of 40 silos of one class each
for 100 rounds. What is measured reads all training records and is not paid for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from _common.cells import Cell, Figure, Fit
from _common.emnist import one_class_silos
from _common.problem import Problem
from _common.watch import scores_by_round

from scaffold.methods import QUICK_SIZE, STEP, model_of, synthetic
from skdpfl.inspection import heterogeneity

METHODS = {"DP-SCAFFOLD": 10, "DP-FedAvg": 10, "DP-FedSGD": 1}
#: data -> epsilon, rounds, share of the silos
DATA = {
    "synthetic (5, 5)": (3.0, 200, 0.05),
    "synthetic (1, 1)": (3.0, 200, 0.05),
    "synthetic (0, 0)": (3.0, 200, 0.05),
    "EMNIST": (11.4, 100, 0.2),
}


def problem_of(data: str, quick: bool, seed: int) -> Problem:
    """Return the silos; those of images are drawn anew for each seed."""
    if data == "EMNIST":
        return one_class_silos(0.0, seed, quick)
    return synthetic(float(data[-2]), quick)


def dissimilarity(problem: Problem, model: Any, *_: Any) -> float:
    """Return that of a model."""
    at = {"coef": model.coef_, "intercept": model.intercept_}
    found = heterogeneity(problem.X, problem.y, silos=problem.silos, loss="log_loss", **at)
    return found.gradient_dissimilarity


def curves(data: str, method: str, quick: bool, seed: int, **chosen: float) -> Fit:
    """Return the last accuracy and the curves; tuning seeds without."""
    problem, (epsilon, rounds, fraction) = problem_of(data, quick, seed), DATA[data]
    rounds = QUICK_SIZE[2] if quick else rounds
    model = model_of(
        method, epsilon, seed, problem, local_steps=METHODS[method], n_rounds=rounds,
        silo_fraction=fraction, clip_norm=1.0, **chosen,
    )  # fmt: skip
    if seed >= 100:
        model.fit(problem.X, problem.y, silos=problem.silos)
        return Fit(model.score(problem.X_test, problem.y_test))
    scores = {
        "accuracy": lambda now, X, y: now.score(X, y),
        "dissimilarity": partial(dissimilarity, problem),
    }
    model, points = scores_by_round(model, problem, scores, every=rounds // 10)
    return Fit(model.score(problem.X_test, problem.y_test), points)


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    found = []
    for data in ("synthetic (5, 5)",) if quick else DATA:
        for method, steps in METHODS.items():
            start = STEP._replace(start=float(f"{2 / steps**0.5:.1g}"))
            fit = partial(curves, data, method, quick)
            epsilon = DATA[data][0]
            found.append(Cell(method, epsilon, fit, (start,), data, metric="last accuracy"))
    return found


FIGURE = Figure(
    "The silos' dissimilarity over the rounds", "accuracy", cells, xlabel="round", logx=False,
    panels=("metric", "setting"), leave_out=("last accuracy",),
)  # fmt: skip
