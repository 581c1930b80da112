"""Which decay is best at equal sound budget, the paper's open question: EMNIST, sorted silos.

``drift/schemes``'s federation, DP-SCAFFOLD in 30 rounds of 5 steps, at epsilon 1 and 3. The noise
decays by rounds, from the first one, a third or two thirds of the rounds on, to a share of its
first variance (x; 1 is constant noise), with the factor beta that this takes; its level is what the
budget allows. The step is tuned for constant noise at the same epsilon: in ``drift/schemes`` every
schedule has that one. Scored by the mean accuracy of rounds 24, 27 and 30, for a single round's
swings.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.emnist import sorted_silos
from _common.table import chosen
from _common.watch import ACCURACY, scores_by_round
from scaffold.methods import model_of

from drift.schemes import STEP

ROUNDS, LAST, EPSILONS = 30, (0.45, 0.1), (1.0, 3.0)
#: name -> the round after which noise decays, of 30
STARTS = {"from the first round on": 0, "after 10 rounds": 10, "after 20 rounds": 20}


def late(
    start: int, last: float, epsilon: float, quick: bool, seed: int,
    learning_rate: float | None = None,
) -> Fit:  # fmt: skip
    """Return the mean accuracy of late rounds; without a step at that of constant noise."""
    if learning_rate is None:
        constant = (f"epsilon {epsilon:g}", "constant", epsilon, 1.0)
        learning_rate = chosen("drift/best", constant)["learning_rate"]
    problem = sorted_silos(0.0, seed, quick)
    beta = last ** (1 / (ROUNDS - start))
    model = model_of(
        "DP-SCAFFOLD", epsilon, seed, problem, clip_norm=1.0, silo_fraction=0.2, n_rounds=ROUNDS,
        local_steps=3 if quick else 5, learning_rate=learning_rate,
        noise_schedule=None if last == 1 else ("round", beta, start),
    )  # fmt: skip
    _, points = scores_by_round(model, problem, ACCURACY, every=3, after=22)
    return Fit(float(np.mean([value for _, _, value in points])))


def cells(quick: bool) -> list[Cell]:
    """Return constant noise and each decay at each budget."""
    found = []
    for epsilon in EPSILONS[:: 2 if quick else 1]:
        setting = f"epsilon {epsilon:g}"
        axis = STEP._replace(start=9.0)
        fit = partial(late, 0, 1.0, epsilon, quick)
        found.append(Cell("constant", epsilon, fit, (axis,), setting, 1.0))
        for name, start in list(STARTS.items())[: 1 if quick else None]:
            for last in LAST[: 1 if quick else None]:
                fit = partial(late, start, last, epsilon, quick)
                found.append(Cell(name, epsilon, fit, (axis,) if quick else (), setting, last))
    return found


FIGURE = Figure(
    "EMNIST, sorted: noise that decays, equal budgets", "accuracy of late rounds", cells,
    xlabel="last variance, of the first", starts=((0,),),
    facts={"data": "EMNIST by-merge", "K": 5, "rounds": ROUNDS},
)  # fmt: skip
