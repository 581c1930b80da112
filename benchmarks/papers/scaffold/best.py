"""Each method at its own best numbers of local steps and rounds: synthetic (5, 5), epsilon 3 and 1.

At 1, 5 and 20 local steps the rounds (200, 400, 800) and the step are tuned together; the clip norm
is 1, which is best for all methods at epsilon 3 and 400 rounds (``scaffold/accuracy``; at epsilon 1
it is 3 for both at 5 local steps). With one local step DP-FedAvg is
DP-FedSGD, and no control variates are needed.
"""

from __future__ import annotations

from functools import partial

from _common.cells import Axis, Cell, Figure

from scaffold.methods import accuracy, axes


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each epsilon, number of local steps and method."""
    most, found = 80 if quick else 800, []
    rounds = Axis("n_rounds", most // 2, 2.0, most // 4, most, whole=True)
    for epsilon in (3.0,) if quick else (3.0, 1.0):
        for steps in (1, 5) if quick else (1, 5, 20):
            for method in ("DP-SCAFFOLD", "DP-FedAvg"):
                fixed = {"clip_norm": 1.0, "silo_fraction": 0.05, "local_steps": steps}
                fit = partial(accuracy, method, epsilon, 5.0, quick, **fixed)
                tuned = (*axes(epsilon, steps)[:1], rounds)
                found.append(Cell(method, epsilon, fit, tuned, "(5, 5)", float(steps)))
    return found


FIGURE = Figure(
    "Synthetic (5, 5): local steps and rounds tuned as well", "accuracy", cells,
    xlabel="local steps", panels=("epsilon",),
)  # fmt: skip
