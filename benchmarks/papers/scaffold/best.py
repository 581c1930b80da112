"""Each method at its own best numbers of local steps and rounds: synthetic (5, 5), epsilon 3.

Local steps, rounds, step and clip norm are tuned together. With one local step DP-FedAvg is
DP-FedSGD, and no control variates are needed.
"""

from __future__ import annotations

from functools import partial

from _common.cells import Axis, Cell, Figure

from scaffold.methods import CLIP, STEP, accuracy


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each method and epsilon."""
    most = 80 if quick else 1600
    tuned = (
        STEP,
        CLIP,
        Axis("local_steps", 5, 2.0, 1, 80, whole=True),
        Axis("n_rounds", most // 4, 2.0, most // 32, most, whole=True),
    )
    return [
        Cell(method, epsilon, partial(accuracy, method, epsilon, 5.0, quick, silo_fraction=0.05),
             tuned, "(5, 5)", epsilon)
        for epsilon in ((3.0,) if quick else (3.0, 1.0))
        for method in ("DP-SCAFFOLD", "DP-FedAvg")
    ]  # fmt: skip


FIGURE = Figure("Synthetic (5, 5): local steps and rounds tuned as well", "accuracy", cells)
