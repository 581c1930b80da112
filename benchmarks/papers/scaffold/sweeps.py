"""One thing changed at a time: alpha, beta, the share of the silos, the share of their records.

Alpha alone (beta 0) and beta alone (alpha 0) on the synthetic silos: epsilon 3, 5 of 100 silos a
round, 400 rounds. The share l of the silos at s = 0.2, and the share s of their records at l = 0.1,
on synthetic (5, 5) and EMNIST at epsilon 5, on MNIST at epsilon 3; silos of one class each. All
with 10 local steps, DP-FedSGD with one. There are as many rounds as the paper's accounting allows
at sigma_g 60 (images: 30), 46 to 873 of them, but the same epsilon is paid against the server. The
clip norm is 1. The step is tuned, for the shares l and s once: in 200 rounds (images: 100) at
l = 0.1 and s = 0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from _common.cells import Cell, Figure, Fit
from _common.emnist import one_class_silos
from _common.problem import Problem

from scaffold.methods import QUICK_SIZE, STEP, model_of, synthetic
from scaffold.network import pixels
from skdpfl.privacy.published import noble2022_rounds

METHODS = {"DP-SCAFFOLD": 10, "DP-FedAvg": 10, "DP-FedSGD": 1}
SPREADS = (1.0, 5.0)
SILO_SHARES, RECORD_SHARES = (0.08, 0.1, 0.12), (0.05, 0.1, 0.2)


class Swept(NamedTuple):
    """What is known of one data set; the steps are those of ``METHODS``."""

    epsilon: float
    sigma_g: float
    n_silos: int
    n_records: int
    steps: tuple[float, float, float]

    def rounds(self, silo_rate: float, record_rate: float, local_steps: int) -> int:
        """Return how many the paper's accounting allows."""
        return noble2022_rounds(
            epsilon=self.epsilon, sigma_g=self.sigma_g, n_silos=self.n_silos,
            n_records=self.n_records, silo_rate=silo_rate, record_rate=record_rate,
            local_steps=local_steps,
        )  # fmt: skip


SWEPT = {
    "synthetic (5, 5)": Swept(5.0, 60, 100, 4000, (0.6, 0.0667, 6.0)),
    "EMNIST": Swept(5.0, 30, 40, 2000, (1.8, 0.0667, 0.667)),
    "MNIST": Swept(3.0, 30, 60, 800, (0.6, 0.2, 2.0)),
}


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


def most_rounds(
    data: str, quick: bool, setting: str, x: float, silo_rate: float, record_rate: float
) -> Iterator[Cell]:
    """Yield a cell for each method, in as many rounds as the paper's accounting allows."""
    swept, problem = SWEPT[data], partial(problem_of, data, quick)
    for (method, steps), learning_rate in zip(METHODS.items(), swept.steps, strict=True):
        rounds = 10 if quick else swept.rounds(silo_rate, record_rate, steps)
        fit = partial(
            accuracy, method, swept.epsilon, problem, local_steps=steps, n_rounds=rounds,
            silo_fraction=silo_rate, sampling_rate=record_rate, learning_rate=learning_rate,
        )  # fmt: skip
        yield Cell(method, swept.epsilon, fit, (), setting, x)


def cells(quick: bool) -> list[Cell]:
    """Return the cells of the four figures."""
    found: list[Cell] = []
    rounds = QUICK_SIZE[2] if quick else 400
    for x in (0.0, *SPREADS[: 1 if quick else None]):
        for name, (a, b) in {"alpha, beta=0": (x, 0.0), "beta, alpha=0": (0.0, x)}.items():
            place = {"setting": name, "x": x}
            problem = partial(of_spread, a, b, quick)
            found += row(problem, place, 3.0, rounds, silo_fraction=0.05)
    for data in list(SWEPT)[: 1 if quick else None]:
        for share in SILO_SHARES[:: 2 if quick else 1]:
            found += most_rounds(data, quick, f"{data}, l", share, share, 0.2)
        for share in RECORD_SHARES[:: 2 if quick else 1]:
            found += most_rounds(data, quick, f"{data}, s", share, 0.1, share)
    return found


FIGURE = Figure(
    "One thing changed at a time", "accuracy", cells, xlabel="alpha, beta, l or s", logx=False
)
