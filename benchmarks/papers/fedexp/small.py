"""``fedexp/synthetic`` at a fifth of its size: 200 silos, 200 features, 20 rounds.

Beside them the estimator untuned, and with a step of 2.7 and its learnt clip norm.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell

from fedexp import methods, synthetic
from skdpfl import DPFedEXPRegressor

SIZE = synthetic.Size(200, 200, 20)
UNTUNED: dict[str, dict[str, Any]] = {
    "untuned": {},
    "untuned, scaling=None": {"scaling": None},
    "step 2.7, learnt clip norm": {
        "scaling": None, "learning_rate": 2.7, "n_rounds": SIZE.rounds,
        "local_steps": synthetic.LOCAL_STEPS, "average": False,
    },
}  # fmt: skip


def distance(setting: dict[str, Any], seed: int) -> float:
    """Return the distance to w* of a fit by the estimator."""
    data, best = synthetic.problem(SIZE, seed)
    known: dict[str, Any] = {"trust": "server", "fit_intercept": False, "random_state": seed}
    model = DPFedEXPRegressor(3.0, **known, **setting)
    return float(np.linalg.norm(model.fit(data.X, data.y, silos=data.silos).coef_ - best))


def cells(quick: bool) -> list[Cell]:
    """Return the cells; quick ones are synthetic's, of which the first will do."""
    found = synthetic.cells(quick, SIZE)
    if quick:
        return found[:3]
    place: dict[str, Any] = {"setting": methods.TRUSTED, "metric": "last distance"}
    untuned = (
        Cell(f"DP-FedEXP, {name}", 3.0, partial(distance, setting), **place)
        for name, setting in UNTUNED.items()
    )
    seeds = tuple(range(10))
    return [
        dataclasses.replace(cell, seeds=seeds) if "DP-FedEXP" in cell.method else cell
        for cell in (*found, *untuned)
    ]


FIGURE = dataclasses.replace(synthetic.FIGURE, title="FedEXP, 200 silos, 200 features", cells=cells)
