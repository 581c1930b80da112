"""What tables 1 and 4 share: noise scales sigma_g by local steps K at the published epsilon 3.

Of each cell: the rounds T that the paper's own accounting allows (printed and recomputed), what
that mechanism costs against the server by sound accounting, and the accuracy of DP-SCAFFOLD with
exactly that noise, where the noise of every silo is its own. A second row has the accuracy with the
same K and T at epsilon 3 against the server. The step is tuned in each cell.

"by the paper's protocol" has the paper's noise, too, but standardised columns, rows of norm 1, the
penalty 5e-3, the median of gradients' norms as clip norm, one eta_0 for all cells (what
``scaffold/protocol`` chose in five folds, at 10 steps and epsilon 3), and its score is the mean
over the last tenth of the rounds.
"""

from __future__ import annotations

import math
from functools import partial

from _common.cells import Cell, Figure, Fit, known
from _common.watch import tested

from scaffold.methods import QUICK_SIZE, STEP, accuracy, model_of, sound, synthetic
from scaffold.protocol import ALPHA, last_of, median_norm
from skdpfl.papers import noble2022_local_step, noble2022_rounds

LOCAL_STEPS = (1, 5, 10, 20, 40)
#: T as printed, for sigma_g of 10, 20, 40, 80, 160
ROUNDS = {
    10: (542, 488, 428, 324, 72),
    20: (545, 502, 451, 352, 83),
    40: (546, 505, 457, 360, 86),
    80: (546, 506, 458, 362, 87),
    160: (546, 506, 458, 362, 87),
}
#: eta_0 of DP-SCAFFOLD, see the table of scaffold/protocol
ETA = 0.97
N_SILOS, N_RECORDS, SILO_RATE, RECORD_RATE, EPSILON = 100, 4000, 0.05, 0.2, 3.0


def recomputed(sigma: float, local_steps: int) -> float:
    """Return T by the paper's accounting."""
    return noble2022_rounds(
        epsilon=EPSILON, sigma_g=sigma, n_silos=N_SILOS, n_records=N_RECORDS,
        silo_rate=SILO_RATE, record_rate=RECORD_RATE, local_steps=local_steps,
    )  # fmt: skip


def same_noise(spread: float, sigma: float, quick: bool, seed: int, **setting: float) -> Fit:
    """Return the accuracy of DP-SCAFFOLD with the paper's noise multiplier."""
    problem = synthetic(spread, quick)
    model = model_of("DP-SCAFFOLD", EPSILON, seed, problem, clip_norm=1.0, **setting)
    return tested(model.set_params(epsilon=None, noise_multiplier=2.0 * sigma), problem)


def by_protocol(spread: float, sigma: float, quick: bool, seed: int, **setting: float) -> Fit:
    """Return the mean accuracy over the last tenth of the rounds, all as in the paper."""
    problem = synthetic(spread, quick, scaled=True)
    step = noble2022_local_step(step=ETA, record_rate=0.2, local_steps=setting["local_steps"])
    model = model_of(
        "DP-SCAFFOLD", EPSILON, seed, problem, clip_norm=median_norm(problem), alpha=ALPHA,
        learning_rate=step, **setting,
    )  # fmt: skip
    model.set_params(epsilon=None, noise_multiplier=2.0 * sigma)
    return Fit(last_of(model, problem)[0])


def row(
    spread: float, sigma: int, at: int, printed: tuple[float, float], quick: bool
) -> list[Cell]:
    """Return all of one sigma and one K; ``printed``: the mean of three runs, its deviation."""
    steps, rounds = LOCAL_STEPS[at], ROUNDS[sigma][at]
    place = {"setting": f"sigma_g={sigma}", "x": float(steps)}
    runs = QUICK_SIZE[2] if quick else rounds
    setting = {"local_steps": steps, "n_rounds": runs, "silo_fraction": SILO_RATE}
    start = float(f"{2 / steps**0.5 * min(1, 40 / sigma):.1g}")
    axes = (STEP._replace(start=start),)
    same = partial(same_noise, spread, sigma, quick, **setting)
    protocol = partial(by_protocol, spread, sigma, quick, **setting)
    n_steps = math.ceil(SILO_RATE * rounds) * steps
    true_price = partial(sound, sigma, N_SILOS * N_RECORDS, n_steps)
    formula = partial(recomputed, sigma, steps)
    found = [
        known("T, printed", EPSILON, rounds, metric="rounds", **place),
        known("T, recomputed", EPSILON, formula, metric="rounds", **place),
        known("sound epsilon", EPSILON, true_price, metric="epsilon", **place),
        known("published", EPSILON, printed[0] / 100, **place),
        known("published, deviation", EPSILON, printed[1] / 100, metric="deviation", **place),
        Cell("ours, the paper's noise", EPSILON, same, axes, **place),
        Cell("ours, by the paper's protocol", EPSILON, protocol, **place),
    ]
    if sigma == min(ROUNDS):
        honest = partial(accuracy, "DP-SCAFFOLD", EPSILON, spread, quick, clip_norm=1.0, **setting)
        found.append(Cell("ours, epsilon 3 in truth", EPSILON, honest, axes, **place))
    return found


def figure_of(
    title: str,
    spread: float,
    printed: dict[int, tuple[float, ...]],
    deviations: dict[int, tuple[float, ...]],
) -> Figure:
    """Return one of the two tables."""

    def cells(quick: bool) -> list[Cell]:
        sigmas, places = ((10, 160), (0, 1)) if quick else (list(printed), range(5))
        return [
            cell
            for sigma in sigmas
            for at in places
            for cell in row(spread, sigma, at, (printed[sigma][at], deviations[sigma][at]), quick)
        ]

    return Figure(
        title,
        "accuracy",
        cells,
        xlabel="local steps K",
        leave_out=("rounds", "epsilon", "deviation"),
    )
