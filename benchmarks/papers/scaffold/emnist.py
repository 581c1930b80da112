"""Rounds for accuracy: EMNIST, 40 silos of one class each and 0, 10 or 100 % of all.

8 silos a round, a fifth of their records a step; each number of rounds is a fit of its own whose
noise is for its rounds. Which method needs fewest rounds for the same accuracy at one epsilon?
The published epsilon is 11.4, for an outsider; here it is against the server. Clip norm 1 (rows
have norm 1), the step is tuned.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.emnist import one_class_silos
from _common.watch import tested

from scaffold.methods import STEP, model_of

#: method -> local steps and the numbers of rounds
METHODS = {
    "DP-FedSGD": (1, (10, 30, 100, 300)),
    "DP-SCAFFOLD": (10, (10, 30, 100)),
    "DP-FedAvg": (10, (10, 30, 100)),
}


def accuracy(
    method: str, epsilon: float, share: float, quick: bool, seed: int, **setting: float
) -> Fit:
    """Return the test accuracy of one fit."""
    problem = one_class_silos(share, seed, quick)
    model = model_of(method, epsilon, seed, problem, clip_norm=1.0, silo_fraction=0.2, **setting)
    return tested(model, problem)


def cells(quick: bool) -> list[Cell]:
    """Return the cells, the most different silos first."""
    shares, epsilons = ((0.0,), (11.4,)) if quick else ((0.0, 0.1, 1.0), (11.4, 1.0, np.inf))
    found = []
    for share in shares:
        for epsilon in epsilons:
            for method, (steps, numbers) in METHODS.items():
                start = STEP._replace(start=10.0 if steps == 1 else 3.0)
                for rounds in numbers[: 2 if quick else None]:
                    fixed = {"local_steps": steps, "n_rounds": rounds}
                    fit = partial(accuracy, method, epsilon, share, quick, **fixed)
                    setting = f"{100 * share:g} % alike"
                    name = f"{method} K={steps}"
                    found.append(Cell(name, epsilon, fit, (start,), setting, float(rounds)))
    return found


FIGURE = Figure(
    "EMNIST, 8 of 40 silos a round", "accuracy", cells, seeds=(0, 1, 2), xlabel="rounds",
    panels=("setting", "epsilon"),
    facts={"data": "EMNIST by-merge", "K": 10},
)  # fmt: skip
