"""The solvers that the figures compare, all tuned alike: step, clip norm, rounds.

The paper draws M of N silos a round (the network does, in its words); here M / N is the share of
the rounds that every silo takes part in, dealt like cards. delta = 1 / n^2 of a silo, as in the
paper.
"untuned" is the library as it comes. The paper's baseline without privacy clips as well; here
nothing is clipped where there is no noise.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from _common.cells import Axis

STEP = Axis("learning_rate", 0.3, 3.0, 1e-4, 1e4)
CLIP = Axis("clip_norm", 0.5, 2.0, 1e-2, 1e3)
ROUNDS = Axis("n_rounds", 50, 2.0, 1, 400, whole=True)
SHUFFLED = {"trust": "shuffler", "sampling": "without_replacement"}
ONE_PASS = {"solver": "accelerated", "sampling": "disjoint"}
#: name -> parameters; whatever is not said is tuned
METHODS: dict[str, dict[str, Any]] = {
    "untuned": {},
    "minibatch": {},
    "accelerated": {"solver": "accelerated"},
    "multistage": {"solver": "multistage", "alpha": 1e-3},
    "one pass, accelerated": ONE_PASS,
    "local, 5 steps": {"solver": "local", "local_steps": 5},
    "minibatch, shuffled": SHUFFLED,
}
#: without privacy
EXACT = ("minibatch", "accelerated", "local, 5 steps")


def axes(method: str, epsilon: float) -> tuple[Axis, ...]:
    """Return what is tuned; without noise more rounds are always better, so they are fixed."""
    if method == "untuned":
        return ()
    if math.isinf(epsilon):
        return (STEP,)
    rounds = ROUNDS._replace(start=10, high=50) if METHODS[method] is ONE_PASS else ROUNDS
    return (STEP, CLIP, rounds)


def fitted(cls: type, method: str, epsilon: float, problem: Any, **setting: Any) -> Any:
    """Return a fitted model."""
    if math.isinf(epsilon):
        setting["n_rounds"] = 300
    model = cls(epsilon=epsilon, **(METHODS[method] | setting))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # delta above 1/n, steps that diverge
        return model.fit(problem.X, problem.y, silos=problem.silos)
