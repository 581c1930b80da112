"""Each method at its own best numbers of local steps and rounds: synthetic (5, 5), epsilon 3.

Local steps (1, 5, 20), rounds (200, 400, 800) and the step are tuned together; the clip norm is 1,
which is best for both methods at 5 local steps and 400 rounds (``scaffold/accuracy``). With one
local step DP-FedAvg is DP-FedSGD, and no control variates are needed.
"""

from __future__ import annotations

from functools import partial

from _common.cells import Axis, Cell, Figure

from scaffold.methods import STEP, accuracy


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each method and epsilon."""
    rounds = 20 if quick else 400
    tuned = (
        STEP,
        Axis("local_steps", 5, 4.0, 1, 20, whole=True),
        Axis("n_rounds", rounds, 2.0, rounds // 2, 2 * rounds, whole=True),
    )
    fixed = {"clip_norm": 1.0, "silo_fraction": 0.05}
    return [
        Cell(method, epsilon, partial(accuracy, method, epsilon, 5.0, quick, **fixed),
             tuned, "(5, 5)", epsilon)
        for epsilon in ((3.0,) if quick else (3.0, 1.0))
        for method in ("DP-SCAFFOLD", "DP-FedAvg")
    ]  # fmt: skip


FIGURE = Figure("Synthetic (5, 5): local steps and rounds tuned as well", "accuracy", cells)
