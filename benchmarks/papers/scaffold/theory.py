"""Steps by the theorem against tuned ones: synthetic (5, 5), standardised, rows of norm 1.

Rows of norm 1 and an intercept make the log loss 1-smooth (curvature at most 1/2), so the theorems'
steps follow from public numbers: K = 10, 5 of 100 silos a round, 400 rounds, penalty 5e-3. The
strongly convex one averages the models by the theorem's weights; that of DP-FedAvg takes B = 1, the
least that its theorem allows and so its longest step. With privacy the clip norm is 1. On rows of
norm 1 the penalty is a heavy one: it, not noise or drift, limits the accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.watch import tested

from scaffold.curves import ALPHA
from scaffold.methods import QUICK_SIZE, SIZE, axes, model_of, synthetic
from skdpfl import DPFederatedClassifier
from skdpfl.algorithms import Algorithm, FedAvg, Scaffold
from skdpfl.papers import (
    noble2022_fedavg_steps,
    noble2022_scaffold_steps,
    noble2022_weights,
)

K, FRACTION = 10, 0.05


@dataclass(frozen=True)
class AveragedScaffold(Scaffold):
    """SCAFFOLD whose output is a weighted mean of the models before each round."""

    weights: tuple[float, ...] = ()

    def output_weight(self, round: int, n_rounds: int) -> float:
        """The model after a round is the one before the next; the last one has no weight."""
        return self.weights[round + 1] if round + 1 < n_rounds else 0.0

    def start_weight(self, n_rounds: int) -> float:
        return self.weights[0]


def algorithm(method: str, n_silos: int, n_rounds: int) -> Algorithm:
    """Return the algorithm with the theorem's steps."""
    known: dict[str, Any] = {"smoothness": 1 + ALPHA, "n_silos": n_silos}
    known |= {"silo_rate": FRACTION, "local_steps": K}
    if "FedAvg" in method:
        steps = noble2022_fedavg_steps(**known, dissimilarity=1.0)
        return FedAvg(steps.local_step, K, steps.global_step)
    if "strongly" not in method:
        steps = noble2022_scaffold_steps(**known)
        return Scaffold(steps.local_step, K, steps.global_step)
    steps = noble2022_scaffold_steps(**known, strong_convexity=ALPHA)
    weights = noble2022_weights(steps, strong_convexity=ALPHA, local_steps=K, n_rounds=n_rounds)
    return AveragedScaffold(steps.local_step, K, steps.global_step, weights=tuple(weights.tolist()))


def accuracy(method: str, epsilon: float, quick: bool, seed: int, **chosen: float) -> Fit:
    """Return the test accuracy of one fit."""
    problem, n_rounds = synthetic(5.0, quick, scaled=True), (QUICK_SIZE if quick else SIZE)[2]
    setting: dict[str, Any] = {"n_rounds": n_rounds, "silo_fraction": FRACTION, "alpha": ALPHA}
    setting["clip_norm"] = 1.0 if epsilon < np.inf else "auto"
    if "tuned" in method:
        name = method.partition(",")[0]
        model = model_of(name, epsilon, seed, problem, local_steps=K, **setting, **chosen)
    else:
        n_silos = (QUICK_SIZE if quick else SIZE)[0]
        model = DPFederatedClassifier(
            epsilon, delta=problem.delta, algorithm=algorithm(method, n_silos, n_rounds),
            sampling_rate=0.2, scaling=None, average="strongly" in method, random_state=seed,
            **setting,
        )  # fmt: skip
    return tested(model, problem)


METHODS = (
    "DP-SCAFFOLD, tuned", "DP-SCAFFOLD, theorem (convex)", "DP-SCAFFOLD, theorem (strongly convex)",
    "DP-FedAvg, tuned", "DP-FedAvg, theorem",
)  # fmt: skip


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    return [
        Cell(method, epsilon, partial(accuracy, method, epsilon, quick),
             axes(epsilon, K)[:1] if "tuned" in method else (), "(5, 5), rows of norm 1", epsilon)
        for epsilon in ((3.0,) if quick else (3.0, 1.0, np.inf))
        for method in METHODS
    ]  # fmt: skip


FIGURE = Figure("Synthetic (5, 5): steps by the theorem", "accuracy", cells)
