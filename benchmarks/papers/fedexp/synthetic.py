"""Figure 1 and 2: distance to the optimum, and the server's steps, over the rounds.

1000 silos of 10 records, 1000 features, rows of norm 1, one linear model that all silos share:
y = <x, w*>, |w*| = 1; features' means differ from silo to silo. 5 local steps, 50 rounds.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import NamedTuple

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.problem import Problem, unit_rows
from _common.watch import scores_by_round

from fedexp.methods import LOCAL_NOISE, METHODS, OWN, PANELS, algorithm, axes, budget, local_price
from skdpfl import DPFederatedRegressor

LOCAL_STEPS = 5


class Size(NamedTuple):
    """Silos, features, rounds."""

    silos: int
    features: int
    rounds: int


SIZE, QUICK = Size(1000, 1000, 50), Size(200, 50, 10)


@functools.lru_cache(maxsize=4)
def problem(size: Size, seed: int) -> tuple[Problem, np.ndarray]:
    """Return the records and w*."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(size.silos, 1, size.features))
    X = means + rng.normal(size=(size.silos, 10, size.features))
    X = unit_rows(X.reshape(-1, size.features)).astype(np.float32)
    best = rng.normal(size=size.features)
    best /= np.linalg.norm(best)
    y = X @ best.astype(np.float32)
    return Problem(X, y, np.repeat(np.arange(size.silos), 10), X[:10], y[:10]), best


def model_of(
    method: str, panel: str, size: Size, seed: int, **chosen: float
) -> DPFederatedRegressor:
    """Return the unfitted model of a method in a panel."""
    trust, epsilon = PANELS[panel]
    clip_norm = chosen.pop("clip_norm", "auto")
    noise = LOCAL_NOISE * clip_norm if trust == "silo" and clip_norm != "auto" else 0.0
    how = algorithm(method, size.features, LOCAL_STEPS, noise, **chosen)
    return DPFederatedRegressor(
        **budget(trust, epsilon), algorithm=how, unit="silo", n_rounds=size.rounds,
        clip_norm=clip_norm, fit_intercept=False, scaling=None, average=False, random_state=seed,
    )  # fmt: skip


def distance(method: str, panel: str, size: Size, seed: int, **chosen: float) -> Fit:
    """Return the last distance to w* and all of them; the server's steps where it has some."""
    data, best = problem(size, seed)
    model = model_of(method, panel, size, seed, **chosen)
    if seed >= 100:
        model.fit(data.X, data.y, silos=data.silos)
        return Fit(float(np.linalg.norm(model.coef_ - best)))
    scores = {"distance": lambda now, X, y: float(np.linalg.norm(now.coef_ - best))}
    model, points = scores_by_round(model, data, scores, every=1)
    steps = getattr(model.algorithm, "steps", [])
    curve = tuple(("server step", float(at), step) for at, step in enumerate(steps, start=1))
    return Fit(float(np.linalg.norm(model.coef_ - best)), points + curve)


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    size = QUICK if quick else SIZE
    panels = dict(list(PANELS.items())[::2]) if quick else PANELS
    found = []
    for panel, (trust, epsilon) in panels.items():
        if trust == "silo":
            epsilon = local_price(size.silos, size.rounds)
        for method in METHODS:
            if "naive" in method and panel != OWN:
                continue  # there the numerator has no bias to correct
            tuned = axes(method, epsilon < np.inf)
            fit = partial(distance, method, panel, size)
            found.append(Cell(method, epsilon, fit, tuned, panel, metric="last distance"))
    return found


FIGURE = Figure(
    "FedEXP, 1000 silos, 1000 features", "distance", cells, higher_is_better=False, xlabel="round",
    logx=False, logy=True, panels=("metric", "setting"), leave_out=("last distance",),
)  # fmt: skip
