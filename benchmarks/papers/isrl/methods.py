"""The solvers that the figures compare, all tuned alike: step, clip norm, rounds.

The paper draws M of N silos a round (the network does, in its words); here M / N is the share of
the rounds that every silo takes part in, dealt like cards. delta = 1 / n^2 of a silo, as in the
paper. "silos by the network" has the paper's cohorts instead: M of N, uniform, given from outside;
the silo that answers most often pays most. "untuned" is the library as it comes. The paper's
baselines without privacy clip as well: "clipped". "local, one record a step" is the paper's local
SGD: as many steps a round as a batch has records, each on one record in the mean (Poisson, which
needs less noise than exactly one), in the paper's number of rounds. A fit takes thousands of steps,
so its search starts from one place.
"localized" needs all silos in every round, and is compared where the others have some only, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Axis, Cell, known

from skdpfl.papers import lowy2023_sigma
from skdpfl.privacy import epsilon_of

STEP = Axis("learning_rate", 0.3, 3.0, 1e-4, 1e4)
CLIP = Axis("clip_norm", 0.5, 2.0, 1e-2, 1e3)
ROUNDS = Axis("n_rounds", 50, 2.0, 1, whole=True)
ONE_RECORD = "local, one record a step"
LOCALIZED = "localized, all silos"
SHUFFLED = {"trust": "shuffler", "sampling": "without_replacement"}
ONE_PASS = {"solver": "accelerated", "sampling": "disjoint"}
SHUFFLED_ONCE = {**ONE_PASS, "trust": "shuffler"}
#: name -> parameters; whatever is not said is tuned
METHODS: dict[str, dict[str, Any]] = {
    "untuned": {},
    "minibatch": {},
    "accelerated": {"solver": "accelerated"},
    "multistage": {"solver": "multistage", "alpha": 1e-3},
    "one pass, accelerated": ONE_PASS,
    LOCALIZED: {"solver": "localized"},
    "local, 5 steps": {"solver": "local", "local_steps": 5},
    ONE_RECORD: {"solver": "local"},
    "minibatch, shuffled": SHUFFLED,
    "one pass, shuffled": SHUFFLED_ONCE,
    "minibatch, silos by the network": {},
    "minibatch, clipped": {},
    "local, 5 steps, clipped": {"solver": "local", "local_steps": 5},
    f"{ONE_RECORD}, clipped": {"solver": "local"},
}
#: without privacy, and with it
EXACT = ("minibatch", "accelerated", "local, 5 steps", "minibatch, clipped",
         "local, 5 steps, clipped")  # fmt: skip
PRIVATE = tuple(name for name in METHODS if "clipped" not in name)


#: what every panel has; the other solvers are compared at a few epsilons
FEW = ("untuned", "minibatch", "local, 5 steps")


def compared(
    epsilon: float, all_of_them: bool, everyone: bool = False, once: bool = False
) -> list[str]:
    """Return the methods of a panel at an epsilon; where all silos answer nobody chooses them.

    One pass behind a shuffler is compared where ``once`` asks for it, as are phases, which all
    silos have.
    """
    names = PRIVATE if epsilon < np.inf else EXACT
    chosen = names if all_of_them else [name for name in names if name in FEW]
    chosen = [name for name in chosen if once or METHODS[name] is not SHUFFLED_ONCE]
    chosen = [name for name in chosen if once or everyone or name != LOCALIZED]
    chosen = [name for name in chosen if name != ONE_RECORD]
    return [name for name in chosen if not (everyone and "network" in name)]


def cell(method: str, epsilon: float, fit: Callable[..., float], setting: str) -> Cell:
    """Return a cell; what "auto" chooses for the solver is tried as well, where it has a choice."""
    tuned = axes(method, epsilon)
    auto = len(tuned) == len(axes("minibatch", 1.0)) and "network" not in method
    return Cell(method, epsilon, fit, tuned, setting, epsilon, auto=auto)


def one_record(
    fit: Callable[..., float], epsilon: float, silos: int, setting: str, size: tuple[int, int, int]
) -> Cell:
    """Return the cell of the paper's local SGD; ``size``: its records, rounds and batch.

    ``silos``: what ``fit`` takes after method and epsilon. Without privacy it clips.
    """
    n_records, rounds, batch = size
    method = ONE_RECORD if epsilon < math.inf else f"{ONE_RECORD}, clipped"
    more = {"local_steps": batch, "sampling_rate": 1 / n_records, "n_rounds": rounds}
    measure = partial(fit, method, epsilon, silos, **more)
    tuned = (STEP._replace(start=0.03), CLIP._replace(start=1.0))
    return Cell(method, epsilon, measure, tuned, setting, epsilon, starts=((0,), (0,)))


#: the silos' upsilon^2 at the optimum, a row of its own
HETEROGENEITY = "heterogeneity at the optimum"


def apart(found: Callable[[], Any], setting: str) -> Cell:
    """Return the cell of how far silos are apart; ``found`` gives their heterogeneity."""
    return known(
        HETEROGENEITY, np.inf, lambda: found().upsilon_squared, setting=setting,
        metric=HETEROGENEITY,
    )  # fmt: skip


def axes(method: str, epsilon: float) -> tuple[Axis, ...]:
    """Return what is tuned; without noise more rounds are always better, so they are fixed."""
    if method == "untuned":
        return ()
    if math.isinf(epsilon):
        return (STEP, CLIP) if "clipped" in method else (STEP,)
    once = METHODS[method].get("sampling") == "disjoint"
    rounds = ROUNDS._replace(start=10, high=50) if once else ROUNDS
    return (STEP, CLIP, rounds)


def fitted(cls: type, method: str, epsilon: float, problem: Any, **setting: Any) -> Any:
    """Return a fitted model."""
    if math.isinf(epsilon):
        setting.setdefault("n_rounds", 300)
    if method == LOCALIZED:
        setting["silo_fraction"] = 1.0
    if "network" in method:
        share = setting.pop("silo_fraction")
        setting["cohort"] = answers(problem, share, setting["n_rounds"], setting["random_state"])
    model = cls(epsilon=epsilon, **(METHODS[method] | setting))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # delta above 1/n, steps that diverge
        return model.fit(problem.X, problem.y, silos=problem.silos)


def answers(problem: Any, share: float, n_rounds: int, seed: int) -> np.ndarray:
    """Return who answers in which round: always the same number of silos, uniformly drawn."""
    n_silos, rng = len(np.unique(problem.silos)), np.random.default_rng(seed)
    order = rng.random((n_rounds, n_silos)).argsort(axis=1)
    return order < round(share * n_silos)


def sound(epsilon: float, n_records: int, n_rounds: int, batch: int) -> float:
    """Return what the noise of the paper's experiments costs a silo, batches without replacement.

    A proven upper bound for a silo that answers in every round; delta = 1 / n^2.
    """
    delta = 1 / n_records**2
    setting = {"epsilon": epsilon, "delta": delta, "n_records": n_records, "n_rounds": n_rounds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # smaller batches than the formula is for
        sigma = lowy2023_sigma(**setting, batch=batch, lipschitz=1, form="practice")
    return epsilon_of(
        noise_multiplier=sigma * batch, sampling_rate=batch / n_records, n_steps=n_rounds,
        delta=delta, sampling="without_replacement",
    )  # fmt: skip
