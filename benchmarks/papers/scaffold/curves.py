"""Figures 1, 3 to 6: training loss, accuracy and the silos' dissimilarity over the rounds.

Seven algorithms on synthetic (0, 0), (1, 1) and (5, 5), three without privacy, four at the printed
epsilon 13, which is for an outsider; here it is against the server. 20 of 100 silos a round, 50
local steps on a fifth of their records each; FedSGD takes one step on all of them (K s = 1, as in
the paper). Figures 5 and 6, where silos differ in one thing only, (a, 0) and (0, b), are of the
training loss, without warm start. 400 rounds; the warm start learns control variates in 4 / l = 20
more, which come first and are paid for. Objective: mean log loss + 5e-3 / 2 |w|^2, as the paper
says. The curves read all training records and are not paid for.

Not as in the paper: features are as drawn; the clip norm is 9, for ``scaffold/accuracy``'s of 1
lets the penalty weigh too much; the step is tuned in each cell, for the accuracy, on a quarter of
the rounds. K = 100: ``scaffold/curves_100``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Axis, Cell, Figure, Fit
from _common.watch import ACCURACY, Scores, scores_by_round, tested
from scipy.special import log_softmax

from scaffold.methods import QUICK_SIZE, SIZE, STEP, dissimilarity, model_of, synthetic
from skdpfl.inspection import heterogeneity

ALPHA, K, FRACTION, EPSILON, CLIP_NORM = 5e-3, 50, 0.2, 13.0, 9.0
SPREADS = (0.0, 1.0, 5.0)
#: alpha and beta of figures 5 and 6; at (0, 0) they are figure 1
ALONE = ((1.0, 0.0), (5.0, 0.0), (0.0, 1.0), (0.0, 5.0))
EXCESS = "log10 of the excess loss"
#: name -> method, epsilon, warm start
ALGORITHMS = {
    "FedAvg": ("DP-FedAvg", np.inf, False),
    "FedSGD": ("DP-FedSGD", np.inf, False),
    "SCAFFOLD": ("DP-SCAFFOLD", np.inf, False),
    "DP-FedAvg": ("DP-FedAvg", EPSILON, False),
    "DP-FedSGD": ("DP-FedSGD", EPSILON, False),
    "DP-SCAFFOLD": ("DP-SCAFFOLD", EPSILON, False),
    "DP-SCAFFOLD, warm": ("DP-SCAFFOLD", EPSILON, True),
}


class Optimum:
    """The minimum of the objective, and how far models are from it."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        best = heterogeneity(
            problem.X, problem.y, silos=problem.silos, loss="log_loss", alpha=ALPHA
        )
        self.loss = self.objective(best.coef, best.intercept)

    def objective(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Return the mean log loss and the penalty."""
        raw = self.problem.X @ coef.T.astype(np.float32) + intercept
        rows = np.arange(len(raw))
        loss = -log_softmax(raw, axis=1)[rows, self.problem.y].mean(dtype=np.float64)
        return float(loss + ALPHA / 2 * np.square(coef).sum())

    def excess(self, model: Any, *_: Any) -> float:
        """Return log10(F(x) - F*)."""
        return math.log10(self.objective(model.coef_, model.intercept_) - self.loss)


@functools.lru_cache(maxsize=4)
def optimum(spread: float, quick: bool, beta: float | None) -> Optimum:
    """Return the optimum of one data set, found once in a process."""
    return Optimum(synthetic(spread, quick, beta=beta))


def curves(
    name: str, spread: float, local_steps: int, quick: bool, seed: int, *,
    beta: float | None = None, **chosen: float,
) -> Fit:  # fmt: skip
    """Return the last accuracy and all curves; tuning seeds have fewer rounds and no curves.

    With a beta of its own that of the training loss only.
    """
    method, epsilon, warm = ALGORITHMS[name]
    problem, rounds = synthetic(spread, quick, beta=beta), (QUICK_SIZE if quick else SIZE)[2]
    tuning = seed >= 100
    rounds //= 4 if tuning else 1
    setting: dict[str, Any] = {"local_steps": local_steps, "clip_norm": CLIP_NORM}
    setting |= {"n_rounds": rounds, "silo_fraction": FRACTION, "alpha": ALPHA}
    if method == "DP-FedSGD":
        setting["sampling_rate"] = 1.0
    if warm:
        extra = round(4 / FRACTION)
        setting |= {"n_rounds": rounds + extra, "warm_start_rounds": extra}
    model = model_of(method, epsilon, seed, problem, **setting, **chosen)
    if tuning:
        return tested(model, problem)
    best = optimum(spread, quick, beta)
    scores: Scores = {EXCESS: best.excess}
    if beta is None:
        apart = {"dissimilarity": lambda now, X, y: dissimilarity(problem, now, ALPHA)}
        scores = ACCURACY | scores | apart
    model, points = scores_by_round(model, problem, scores, every=rounds // 10)
    apart = [(x, value) for metric, x, value in points if metric == "dissimilarity"]
    points += tuple(("log10 of the dissimilarity", x, math.log10(value)) for x, value in apart)
    return Fit(model.score(problem.X_test, problem.y_test), points)


def step(method: str, epsilon: float) -> Axis:
    """Return the lattice around what was best at ten local steps."""
    start = 0.3 if method == "DP-FedSGD" else 0.01 if method == "DP-SCAFFOLD" else 0.003
    return STEP._replace(start=start)


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each algorithm and data set."""
    chosen = ("SCAFFOLD", "DP-FedAvg", "DP-SCAFFOLD, warm") if quick else ALGORITHMS
    found = [
        Cell(name, ALGORITHMS[name][1], partial(curves, name, spread, 10 if quick else K, quick),
             (step(*ALGORITHMS[name][:2]),), f"({spread:g}, {spread:g})", metric="last accuracy")
        for spread in (SPREADS[-1:] if quick else SPREADS) for name in chosen
    ]  # fmt: skip
    return found if quick else found + alone(K, lambda name, _: step(*ALGORITHMS[name][:2]))


def alone(local_steps: int, axis: Callable[[str, str], Axis]) -> list[Cell]:
    """Return the cells of figures 5 and 6; ``axis`` gives the steps of algorithm and setting."""
    return [
        Cell(name, epsilon, partial(curves, name, a, local_steps, False, beta=b),
             (axis(name, f"({a:g}, {b:g})"),), f"({a:g}, {b:g})", metric="last accuracy")
        for a, b in ALONE for name, (_, epsilon, warm) in ALGORITHMS.items() if not warm
    ]  # fmt: skip


FIGURE = Figure(
    "Synthetic silos, 50 local steps, over the rounds", "accuracy", cells,
    xlabel="round", logx=False, panels=("setting", "metric"),
    leave_out=("last accuracy", "dissimilarity"),
    facts={"data": "synthetic", "K": K, "rounds": 400},
)  # fmt: skip
