"""The paper's problems and methods, in the paper's terms.

M silos of R records, a fraction l of the silos a round, a fraction s of their records a local step,
K local steps, T rounds, delta = 1 / (M R). What is fitted is this library's: every silo takes part
in exactly l T rounds (dealt like cards), and whoever sees all that a silo sends learns no more than
(epsilon, delta) allows; the paper's epsilons are for an outsider who sees the models only.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from _common.cells import Axis, Cell, Fit
from _common.claims import claim
from _common.problem import Problem
from _common.watch import tested

from skdpfl import DPFedAvgClassifier, DPScaffoldClassifier
from skdpfl.datasets import make_federated_classification
from skdpfl.inspection import heterogeneity
from skdpfl.papers import noble2022_local_step
from skdpfl.privacy import epsilon_of

METHODS = {
    "DP-SCAFFOLD": DPScaffoldClassifier,
    "DP-FedAvg": DPFedAvgClassifier,
    "DP-FedSGD": DPFedAvgClassifier,
}
#: silos, training records of each, rounds: the paper's, and small ones
SIZE, QUICK_SIZE = (100, 4000, 400), (20, 500, 40)
#: the model moves by the product, the ratio decides what is clipped
STEP = Axis("learning_rate", 0.3, 3.0, low=1e-5, high=1e4)
CLIP = Axis("clip_norm", 1.0, 3.0, low=1e-3, high=1e3)


@functools.lru_cache(maxsize=4)
def synthetic(
    spread: float, quick: bool, scaled: bool = False, beta: float | None = None
) -> Problem:
    """Return the synthetic (spread, beta) silos: 40 features, 10 classes, a fifth for the test.

    Without beta both are the spread.

    One data set for all runs, as in the paper: runs differ by cohorts, batches and noise. Scaled:
    standardised columns, then rows of norm 1, as in the paper.
    """
    n_silos, n_train, _ = QUICK_SIZE if quick else SIZE
    n_records = n_train * 5 // 4
    bunch = make_federated_classification(
        n_silos, n_records, n_features=40, n_classes=10, alpha=spread,
        beta=spread if beta is None else beta,
        standardize=scaled, unit_norm=scaled, random_state=0,
    )  # fmt: skip
    X, y = bunch.data.astype(np.float32), bunch.target
    train = np.tile(np.arange(n_records) < n_train, n_silos)
    return Problem(X[train], y[train], bunch.silos[train], X[~train], y[~train])


def model_of(method: str, epsilon: float, seed: int, problem: Problem, **setting: Any) -> Any:
    """Return an unfitted model; without privacy there is nothing to clip."""
    known = {
        "delta": problem.delta,
        "sampling_rate": 0.2,
        "scaling": None,
        "average": False,
        "cohort": "balanced",
        "random_state": seed,
    }
    if method == "DP-FedSGD":
        setting["local_steps"] = 1
    if math.isinf(epsilon):
        setting.pop("clip_norm", None)
    return METHODS[method](epsilon=epsilon, **(known | setting))


def accuracy(
    method: str,
    epsilon: float,
    spread: float,
    quick: bool,
    seed: int,
    *,
    scaled: bool = False,
    **setting: Any,
) -> Fit:
    """Return the test accuracy of one fit on the synthetic silos."""
    problem = synthetic(spread, quick, scaled)
    return tested(model_of(method, epsilon, seed, problem, **setting), problem)


def dissimilarity(problem: Problem, model: Any, alpha: float = 0.0) -> float:
    """Return the mean squared gradient of the silos less that of all of them, at a model."""
    at = {"coef": model.coef_, "intercept": model.intercept_}
    found = heterogeneity(
        problem.X, problem.y, silos=problem.silos, loss="log_loss", alpha=alpha, **at
    )
    return found.upsilon_squared


def axes(epsilon: float, local_steps: int) -> tuple[Axis, ...]:
    """Return what is tuned: the step, and the clip norm where anything is clipped."""
    first = 0.03 if math.isinf(epsilon) else 0.3
    longest = noble2022_local_step(step=first, record_rate=0.2, local_steps=local_steps)
    step = STEP._replace(start=float(f"{min(first, longest):.1g}"))
    return (step,) if math.isinf(epsilon) else (step, CLIP)


def sound(sigma: float, n_records: int, n_steps: int) -> float:
    """Return epsilon against the server of a silo that takes this many steps.

    ``sigma`` is the paper's noise scale, ``n_records`` are those of all silos (1 / delta).
    """
    return epsilon_of(
        noise_multiplier=2 * sigma, sampling_rate=0.2, delta=1 / n_records, n_steps=n_steps,
        sampling="without_replacement",
    )  # fmt: skip


def claimed(epsilon: float, sigma: float, n_records: int, n_steps: int, setting: str) -> Cell:
    """Return the cell of what the noise behind a published epsilon costs."""
    return claim(epsilon, functools.partial(sound, sigma, n_records, n_steps), setting)
