"""Over the rounds: accuracy, excess loss, the silos' dissimilarity, distance to the optimum.

Seven algorithms on synthetic (5, 5): three without privacy, four at epsilon 3 against the server;
10 local steps, 5 of 100 silos a round, 400 rounds (the warm start learns control variates in 4 / l
rounds more, which are paid for). Step and clip norm are tuned. Objective: mean log loss
+ 5e-3 / 2 |w|^2, as the paper says. The curves read all training records and are not paid for.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.watch import scores_by_round
from scipy.special import log_softmax

from scaffold.methods import QUICK_SIZE, SIZE, axes, model_of, synthetic
from skdpfl.inspection import heterogeneity

ALPHA, K, FRACTION = 5e-3, 10, 0.05
#: name -> method, local steps, epsilon, warm start
ALGORITHMS = {
    "FedAvg": ("DP-FedAvg", K, np.inf, False),
    "FedSGD": ("DP-FedSGD", 1, np.inf, False),
    "SCAFFOLD": ("DP-SCAFFOLD", K, np.inf, False),
    "DP-FedAvg": ("DP-FedAvg", K, 3.0, False),
    "DP-FedSGD": ("DP-FedSGD", 1, 3.0, False),
    "DP-SCAFFOLD": ("DP-SCAFFOLD", K, 3.0, False),
    "DP-SCAFFOLD, warm": ("DP-SCAFFOLD", K, 3.0, True),
}


class Optimum:
    """The minimiser of the objective, and how far models are from it."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        best = heterogeneity(
            problem.X, problem.y, silos=problem.silos, loss="log_loss", alpha=ALPHA
        )
        self.coef, self.intercept = best.coef, best.intercept - best.intercept.mean()
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

    def distance(self, model: Any, *_: Any) -> float:
        """Return |x - x*|; shifting all intercepts changes nothing, so their mean is taken off."""
        intercept = model.intercept_ - model.intercept_.mean() - self.intercept
        return float(np.hypot(np.linalg.norm(model.coef_ - self.coef), np.linalg.norm(intercept)))

    def dissimilarity(self, model: Any, *_: Any) -> float:
        """Return the mean squared gradient of the silos less that of all of them."""
        X, y, silos, _, _ = self.problem
        at = {"coef": model.coef_, "intercept": model.intercept_}
        found = heterogeneity(X, y, silos=silos, loss="log_loss", alpha=ALPHA, **at)
        return found.gradient_dissimilarity


@functools.lru_cache(maxsize=4)
def optimum(quick: bool) -> Optimum:
    """Return the optimum of one data set, found once in a process."""
    return Optimum(synthetic(5.0, quick))


def curves(name: str, quick: bool, seed: int, **chosen: float) -> Fit:
    """Return the last accuracy and all curves; without the curves for tuning seeds."""
    method, steps, epsilon, warm = ALGORITHMS[name]
    problem, rounds = synthetic(5.0, quick), (QUICK_SIZE if quick else SIZE)[2]
    setting = {"local_steps": steps, "n_rounds": rounds, "silo_fraction": FRACTION, "alpha": ALPHA}
    if warm:
        extra = round(4 / FRACTION) if not quick else 8
        setting |= {"n_rounds": rounds + extra, "warm_start_rounds": extra}
    model = model_of(method, epsilon, seed, problem, **setting, **chosen)
    if seed >= 100:  # tuning: no curves
        model.fit(problem.X, problem.y, silos=problem.silos)
        return Fit(model.score(problem.X_test, problem.y_test))
    best = optimum(quick)
    scores = {
        "accuracy": lambda now, X, y: now.score(X, y),
        "excess loss": best.excess,
        "dissimilarity": best.dissimilarity,
        "distance to the optimum": best.distance,
    }
    model, points = scores_by_round(model, problem, scores, every=rounds // 10)
    return Fit(model.score(problem.X_test, problem.y_test), points)


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each algorithm."""
    chosen = ("SCAFFOLD", "DP-FedAvg", "DP-SCAFFOLD, warm") if quick else ALGORITHMS
    return [
        Cell(name, ALGORITHMS[name][2], partial(curves, name, quick),
             axes(ALGORITHMS[name][2], ALGORITHMS[name][1]), metric="last accuracy")
        for name in chosen
    ]  # fmt: skip


FIGURE = Figure(
    "Synthetic (5, 5), 10 local steps, over the rounds", "accuracy", cells, seeds=(0,),
    xlabel="round", logx=False, panels=("metric",), leave_out=("last accuracy",),
)  # fmt: skip
