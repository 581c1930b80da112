"""Figure 2: the server's first step over the number of silos, where every silo adds its own noise.

The problem of ``fedexp/synthetic`` with 100 features and one round. The target is the ratio of
clipped messages without noise; the naive step takes the noised messages' squared norms as they are,
so it is too long by about size * std^2 / |m|^2, however many silos there are.
"""

from __future__ import annotations

import math
from functools import partial

from _common.cells import Cell, Figure

from fedexp.methods import LOCAL_NOISE, OWN, WatchedRegressor, algorithm, budget, priced
from fedexp.synthetic import LOCAL_STEPS, Size, problem

FEATURES, STEP, CLIP = 100, 2.7, 0.1
SILOS, QUICK_SILOS = (10, 30, 100, 300, 1000, 3000, 10_000), (10, 100)
TARGET, CORRECTED, NAIVE = "without noise", "DP-FedEXP", "FedEXP, naive"


def first_step(method: str, n_silos: int, seed: int) -> float:
    """Return the server's step of a fit of one round."""
    data, _ = problem(Size(n_silos, FEATURES, 1), seed)
    noise = 0.0 if method == TARGET else LOCAL_NOISE * CLIP
    name = NAIVE if method == NAIVE else CORRECTED
    how = algorithm(name, FEATURES, LOCAL_STEPS, noise, learning_rate=STEP)
    paid = budget(OWN, math.nan) if noise else budget(OWN, math.inf)
    model = WatchedRegressor(
        **paid, algorithm=how, unit="silo", n_rounds=1, clip_norm=CLIP, fit_intercept=False,
        scaling=None, average=False, random_state=seed,
    )  # fmt: skip
    model.fit(data.X, data.y, silos=data.silos)
    return float(model.global_step_sizes_[-1])


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each method and number of silos; nothing is tuned."""
    found = []
    for n_silos in QUICK_SILOS if quick else SILOS:
        for method in (TARGET, CORRECTED, NAIVE):
            epsilon = math.inf if method == TARGET else priced(n_silos, 1)[0]
            fit = partial(first_step, method, n_silos)
            found.append(Cell(method, epsilon, fit, (), x=float(n_silos)))
    return found


FIGURE = Figure(
    "The server's first step", "server step", cells, xlabel="silos", logy=True,
)  # fmt: skip
