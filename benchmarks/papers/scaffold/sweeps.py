"""One thing changed at a time: alpha, beta, the share of the silos, the share of their records.

Alpha alone (beta 0) and beta alone (alpha 0) on the synthetic silos: epsilon 3, 5 of 100 silos a
round, 400 rounds. The share l of the silos at s = 0.2, and the share s of their records at l = 0.1,
on synthetic (5, 5) and EMNIST at epsilon 5, on MNIST at epsilon 3; silos of one class each; 200
rounds (synthetic) and 100. All with 10 local steps, DP-FedSGD with one. The paper runs as many
rounds as its accounting allows; here the number is fixed and epsilon is against the server. The
clip norm is 1, the step is tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from _common.cells import Cell, Figure, Fit
from _common.emnist import one_class_silos
from _common.problem import Problem

from scaffold.methods import QUICK_SIZE, STEP, model_of, synthetic
from scaffold.network import pixels

METHODS = {"DP-SCAFFOLD": 10, "DP-FedAvg": 10, "DP-FedSGD": 1}
SPREADS = (1.0, 5.0)
SILO_SHARES, RECORD_SHARES = (0.08, 0.1, 0.12), (0.05, 0.1, 0.2)
#: data -> epsilon, rounds
SWEPT = {"synthetic (5, 5)": (5.0, 200), "EMNIST": (5.0, 100), "MNIST": (3.0, 100)}


def problem_of(data: str, quick: bool, seed: int) -> Problem:
    """Return the silos of one data set; those of images are drawn anew for each seed."""
    if data == "EMNIST":
        return one_class_silos(0.0, seed, quick)
    return pixels(0.0, seed, quick) if data == "MNIST" else synthetic(5.0, quick)


def of_spread(alpha: float, beta: float, quick: bool, seed: int) -> Problem:
    """Return the synthetic silos, the same for all seeds."""
    return synthetic(alpha, quick, beta=beta)


def accuracy(
    method: str, epsilon: float, problem: Callable[[int], Problem], seed: int, **setting: float
) -> Fit:
    """Return the test accuracy of one fit."""
    data = problem(seed)
    model = model_of(method, epsilon, seed, data, clip_norm=1.0, **setting)
    model.fit(data.X, data.y, silos=data.silos)
    return Fit(model.score(data.X_test, data.y_test))


def row(
    problem: Callable[[int], Problem], place: dict, epsilon: float, rounds: int, **rates: float
) -> Iterator[Cell]:
    """Yield a cell for each method."""
    for method, steps in METHODS.items():
        setting = {"local_steps": steps, "n_rounds": rounds, **rates}
        fit = partial(accuracy, method, epsilon, problem, **setting)
        start = STEP._replace(start=float(f"{2 / steps**0.5:.1g}"))
        yield Cell(method, epsilon, fit, (start,), **place)


def cells(quick: bool) -> list[Cell]:
    """Return the cells of the four figures."""
    found: list[Cell] = []
    rounds = QUICK_SIZE[2] if quick else 400
    for x in (0.0, *SPREADS[: 1 if quick else None]):
        for name, (a, b) in {"alpha, beta=0": (x, 0.0), "beta, alpha=0": (0.0, x)}.items():
            place = {"setting": name, "x": x}
            problem = partial(of_spread, a, b, quick)
            found += row(problem, place, 3.0, rounds, silo_fraction=0.05)
    for data, (epsilon, rounds) in list(SWEPT.items())[: 1 if quick else None]:
        problem = partial(problem_of, data, quick)
        for share in SILO_SHARES[:: 2 if quick else 1]:
            place = {"setting": f"{data}, l", "x": share}
            found += row(problem, place, epsilon, 10 if quick else rounds, silo_fraction=share)
        for share in RECORD_SHARES[:: 2 if quick else 1]:
            place = {"setting": f"{data}, s", "x": share}
            rates = {"silo_fraction": 0.1, "sampling_rate": share}
            found += row(problem, place, epsilon, 10 if quick else rounds, **rates)
    return found


FIGURE = Figure(
    "One thing changed at a time", "accuracy", cells, xlabel="alpha, beta, l or s", logx=False
)
