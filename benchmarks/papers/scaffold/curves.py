"""Figures 1, 3 and 4: excess loss, accuracy and the silos' dissimilarity over the rounds.

Synthetic (0, 0), (1, 1) and (5, 5), six algorithms: three without privacy, three at epsilon 4.2
against the server. 50 local steps, 5 of 100 silos a round, 400 rounds. Objective: mean log loss
+ 5e-3 / 2 |w|^2, as the paper says. The steps are tuned ones: with privacy those of
``scaffold/local_steps`` (clip norm 1), else those of ``scaffold/accuracy`` at other numbers of
local steps, by the paper's rule eta_0 / (s K). The curves read all training records and are not
paid for.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.table import chosen
from _common.watch import scores_by_round
from scipy.special import log_softmax

from scaffold.methods import QUICK_SIZE, SIZE, model_of, synthetic
from skdpfl.inspection import heterogeneity

ALPHA, K, FRACTION, EPSILON = 5e-3, 50, 0.05, 4.2
#: name -> method, local steps, epsilon
ALGORITHMS = {
    "FedAvg": ("DP-FedAvg", K, np.inf),
    "FedSGD": ("DP-FedSGD", 1, np.inf),
    "SCAFFOLD": ("DP-SCAFFOLD", K, np.inf),
    "DP-FedAvg": ("DP-FedAvg", K, EPSILON),
    "DP-FedSGD": ("DP-FedSGD", 1, EPSILON),
    "DP-SCAFFOLD": ("DP-SCAFFOLD", K, EPSILON),
}
SPREADS = (5.0, 1.0, 0.0)


def tuned(method: str, local_steps: int, epsilon: float, spread: float) -> dict[str, float]:
    """Return the step and the clip norm."""
    data = f"({spread:g}, {spread:g})"
    if local_steps == K and epsilon < np.inf:
        kept = f"{data}, l={FRACTION:g}, K={K}", method, epsilon, epsilon
        return chosen("scaffold/local_steps", kept) | {"clip_norm": 1.0}
    there, paid = min(local_steps, 5), min(epsilon, 3.0) if epsilon < np.inf else epsilon
    found = chosen("scaffold/accuracy", (data, f"{method} K={there}", paid, paid))
    return found | {"learning_rate": found["learning_rate"] * there / local_steps}


class Optimum:
    """The minimiser of the objective, and how far models are from it."""

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
        """Return F(x) - F*."""
        return self.objective(model.coef_, model.intercept_) - self.loss

    def dissimilarity(self, model: Any, *_: Any) -> float:
        """Return the mean squared gradient of the silos less that of all of them."""
        X, y, silos, _, _ = self.problem
        at = {"coef": model.coef_, "intercept": model.intercept_}
        found = heterogeneity(X, y, silos=silos, loss="log_loss", alpha=ALPHA, **at)
        return found.gradient_dissimilarity


@functools.lru_cache(maxsize=4)
def optimum(spread: float, quick: bool) -> Optimum:
    """Return the optimum of one data set, found once in a process."""
    return Optimum(synthetic(spread, quick))


def curves(name: str, spread: float, quick: bool, seed: int) -> Fit:
    """Return the last accuracy and all curves."""
    method, steps, epsilon = ALGORITHMS[name]
    problem, rounds = synthetic(spread, quick), (QUICK_SIZE if quick else SIZE)[2]
    setting = {"local_steps": steps, "n_rounds": rounds, "silo_fraction": FRACTION, "alpha": ALPHA}
    setting |= tuned(method, steps, epsilon, spread)
    model, best = model_of(method, epsilon, seed, problem, **setting), optimum(spread, quick)
    scores = {
        "accuracy": lambda now, X, y: now.score(X, y),
        "excess loss": best.excess,
        "dissimilarity": best.dissimilarity,
    }
    model, points = scores_by_round(model, problem, scores, every=rounds // 10)
    return Fit(model.score(problem.X_test, problem.y_test), points)


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each algorithm."""
    names = ("SCAFFOLD", "DP-FedAvg", "DP-SCAFFOLD") if quick else ALGORITHMS
    return [
        Cell(name, ALGORITHMS[name][2], partial(curves, name, spread, quick), (),
             f"({spread:g}, {spread:g})", metric="last accuracy")
        for spread in SPREADS[: 1 if quick else None] for name in names
    ]  # fmt: skip


FIGURE = Figure(
    "Synthetic silos, 50 local steps, over the rounds", "accuracy", cells, xlabel="round",
    logx=False, panels=("metric", "setting"), leave_out=("last accuracy",),
)  # fmt: skip
