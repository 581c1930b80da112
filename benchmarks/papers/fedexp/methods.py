"""The methods of all three figures: whole silos are protected, each silo sends one clipped move.

The paper's hyper-parameters are not known to us. Noise of every silo's own has the standard
deviation 0.7 C on a message, whose price over all rounds is shown; the trusted server's is what
epsilon 3 or 1 asks for.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from _common.cells import Axis

from skdpfl import DPFedAvgClassifier
from skdpfl.algorithms import Algorithm, FedAvg, FedExp, Released, Scaffold

#: noise on a message over its clip norm, where every silo adds its own
LOCAL_NOISE = 0.7
STEP = Axis("learning_rate", 0.3, 3.0, 1e-4, 1e4)
CLIP = Axis("clip_norm", 0.3, 3.0, 1e-4, 1e3)
SERVER = Axis("server_step", 3.0, 3.0, 0.1, 1e3)
METHODS = ("DP-FedAvg", "DP-FedAvg, server step tuned", "DP-FedEXP", "FedEXP, naive", "DP-SCAFFOLD")


@dataclass(frozen=True)
class WatchedFedExp(FedExp):
    """FedEXP that keeps its steps; ``excess`` is added to the numerator.

    The naive rule takes the noised messages' mean squared norm as it is: the true one and
    size * std^2.
    """

    excess: float = 0.0
    steps: list[float] = field(default_factory=list, compare=False)

    def aggregate(self, state: Any, released: Released) -> Any:
        more = released.squared_norm + self.excess
        after = super().aggregate(state, dataclasses.replace(released, squared_norm=more))
        self.steps.append(after.step_sizes[-1])
        return after


def axes(method: str, private: bool) -> tuple[Axis, ...]:
    """Return what is tuned."""
    more = (SERVER,) if "tuned" in method else ()
    return (STEP, *((CLIP,) if private else ()), *more)


def algorithm(
    method: str, size: int, local_steps: int, noise: float, *, learning_rate: float,
    server_step: float = 1.0,
) -> Algorithm:  # fmt: skip
    """Return the algorithm; ``noise`` is the standard deviation on a message."""
    if "EXP" in method:
        excess = size * noise**2 if "naive" in method else 0.0
        return WatchedFedExp(learning_rate, local_steps, excess=excess)
    if "SCAFFOLD" in method:
        return Scaffold(learning_rate, local_steps)
    return FedAvg(learning_rate, local_steps, server_step)


def budget(trust: str, epsilon: float) -> dict[str, Any]:
    """Return the estimator's parameters: a budget, or the noise of every silo's own."""
    if math.isinf(epsilon):
        return {"epsilon": np.inf, "trust": "server"}
    if trust == "silo":
        return {"epsilon": None, "noise_multiplier": LOCAL_NOISE, "trust": "silo"}
    return {"epsilon": epsilon, "trust": "server"}


#: panel -> trust and epsilon; what the noise of silos' own costs depends on the rounds
OWN = "noise of silos' own, 0.7 C"
PANELS = {
    "trusted server, epsilon 3": ("server", 3.0),
    "trusted server, epsilon 1": ("server", 1.0),
    OWN: ("silo", np.nan),
    "no privacy": ("server", np.inf),
}


def local_price(n_silos: int, n_rounds: int) -> float:
    """Return the epsilon of silos' own noise over all rounds, for every silo."""
    model = DPFedAvgClassifier(
        **budget("silo", np.nan), unit="silo", n_rounds=n_rounds, clip_norm=1.0, scaling=None
    )
    plan = model.plan_for(silo_sizes=[10] * n_silos, n_features=1)
    return round(float(plan.spent().epsilon), 1)
