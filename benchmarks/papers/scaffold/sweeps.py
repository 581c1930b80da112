"""One thing changed at a time: alpha, beta, the share of the silos, the share of their records.

Alpha alone (beta 0) and beta alone (alpha 0) on the synthetic silos: epsilon 3, 5 of 100 silos a
round, 400 rounds. The share l of the silos at s = 0.2, and the share s of their records at l = 0.1,
on synthetic (5, 5) and EMNIST at epsilon 5, on MNIST at epsilon 3, there the network and the
private components of ``scaffold/network``, which epsilon covers; silos of one class each; as many
rounds as the paper's accounting allows at the noise of its other figures, which hardly matters to
their number. Epsilon is against the server over all of them. All with 10 local steps, DP-FedSGD
with one. The clip norm is 1 (the network's 1/3); the step is tuned on the rounds that are run: the
search goes uphill from one step a method, as far as that takes it. The fits at l = 0.1 and s = 0.2
are in both sweeps, and made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from _common.cells import Cell, Figure, Fit
from _common.emnist import one_class_silos
from _common.problem import Problem
from _common.watch import ACCURACY, course

from scaffold.methods import QUICK_SIZE, STEP, model_of, synthetic
from scaffold.network import CLIP_NORM, budgets, projected
from skdpfl.models import MLP
from skdpfl.papers import noble2022_rounds

#: method -> local steps, where its search starts
METHODS = {"DP-SCAFFOLD": (10, 1.8), "DP-FedAvg": (10, 0.6), "DP-FedSGD": (1, 6.0)}
SPREADS = (1.0, 5.0)
#: the metric of the curves of figures 9 and 10
BY_ROUND = "accuracy by round"
SILO_SHARES, RECORD_SHARES = (0.08, 0.1, 0.12), (0.05, 0.1, 0.2)
#: silos that share a tenth of their images, for the share of the records
ALIKE = "EMNIST, 10 % alike"
#: data -> epsilon, sigma_g, silos, records of each
SWEPT = {
    "EMNIST": (5.0, 30, 40, 2000),
    ALIKE: (5.0, 30, 40, 2000),
    "MNIST": (3.0, 30, 60, 800),
    "synthetic (5, 5)": (5.0, 60, 100, 4000),
}


def problem_of(data: str, quick: bool, seed: int) -> Problem:
    """Return the silos of one data set; those of images are drawn anew for each seed."""
    if data.startswith("EMNIST"):
        return one_class_silos(0.1 if data == ALIKE else 0.0, seed, quick)
    if data == "MNIST":
        return projected(0.0, SWEPT[data][0], seed, quick)[0]
    return synthetic(5.0, quick)


def of_spread(alpha: float, beta: float, quick: bool, seed: int) -> Problem:
    """Return the synthetic silos, the same for all seeds."""
    return synthetic(alpha, quick, beta=beta)


def most_rounds(data: str, local_steps: int, silo_fraction: float, sampling_rate: float) -> int:
    """Return how many rounds the paper's accounting allows."""
    epsilon, sigma, n_silos, n_records = SWEPT[data]
    return noble2022_rounds(
        epsilon=epsilon, sigma_g=sigma, n_silos=n_silos, n_records=n_records,
        silo_rate=silo_fraction, record_rate=sampling_rate, local_steps=local_steps,
    )  # fmt: skip


def accuracy(
    method: str,
    epsilon: float,
    problem: Callable[[int], Problem],
    network: bool,
    seed: int,
    **setting: Any,
) -> Fit:
    """Return the test accuracy of one fit, and that of its rounds; tuning seeds without."""
    data = problem(seed)
    setting["clip_norm"] = CLIP_NORM if network else 1.0
    if network:
        epsilon = budgets(epsilon, data.delta)[1]
        setting["model"] = MLP((200,))
    model = model_of(method, epsilon, seed, data, **setting)
    every = max(1, setting["n_rounds"] // 10)
    return course(model, data, seed, every, {BY_ROUND: ACCURACY["accuracy"]})[1]


def row(
    problem: Callable[[int], Problem],
    epsilon: float,
    rounds: Callable[..., int],
    setting: str,
    x: float,
    network: bool = False,
    like: tuple[str, float] | None = None,
    silo_fraction: float = 0.05,
    sampling_rate: float = 0.2,
) -> Iterator[Cell]:
    """Yield a cell for each method; ``rounds`` gives those of local steps and shares.

    ``like``: setting and place of the cells that have the same fits.
    """
    for method, (steps, start) in METHODS.items():
        rates = {"silo_fraction": silo_fraction, "sampling_rate": sampling_rate}
        how = {"local_steps": steps, "n_rounds": rounds(steps, **rates), **rates}
        fit = partial(accuracy, method, epsilon, problem, network, **how)
        same = like and (like[0], method, epsilon, like[1])
        axes = (STEP._replace(start=start),)
        yield Cell(method, epsilon, fit, axes, setting, x, like=same)


def cells(quick: bool) -> list[Cell]:
    """Return the cells of the four figures."""
    found: list[Cell] = []
    few = QUICK_SIZE[2]

    def fixed(*_: Any, **rates: float) -> int:
        return few if quick else 400

    for data, (epsilon, *_) in list(SWEPT.items())[-1 if quick else 0 :]:
        problem, most = partial(problem_of, data, quick), partial(most_rounds, data)
        how, network = (problem, epsilon, fixed if quick else most), data == "MNIST"
        for share in () if data == ALIKE else SILO_SHARES[:: 2 if quick else 1]:
            found += row(*how, f"{data}, l", share, network, silo_fraction=share)
        for share in RECORD_SHARES[:: 2 if quick else 1]:
            rates = {"silo_fraction": 0.1, "sampling_rate": share}
            like = (f"{data}, l", 0.1) if share == 0.2 and not quick and data != ALIKE else None
            found += row(*how, f"{data}, s", share, network, like=like, **rates)
    for x in (0.0, *SPREADS[: 1 if quick else None]):
        for name, (a, b) in {"alpha, beta=0": (x, 0.0), "beta, alpha=0": (0.0, x)}.items():
            like = ("alpha, beta=0", x) if x == 0 and name.startswith("beta") else None
            found += row(partial(of_spread, a, b, quick), 3.0, fixed, name, x, like=like)
    return found


LABELS = {"alpha, beta=0": "alpha", "beta, alpha=0": "beta"}
LABELS |= {f"{data}, l": "share l of the silos" for data in SWEPT}
LABELS |= {f"{data}, s": "share s of the records" for data in SWEPT}
CURVES = Figure(
    "Shares of silos and of records, over the rounds", BY_ROUND, cells, xlabel="round", logx=False,
    panels=("setting", "at"), leave_out=("accuracy",),
)  # fmt: skip
FIGURE = Figure(
    "One thing changed at a time", "accuracy", cells, logx=False,
    xlabels=LABELS,
    starts=((0,),),
    leave_out=(BY_ROUND,), more={"-rounds": CURVES},
    facts={"K": 10},
)  # fmt: skip
