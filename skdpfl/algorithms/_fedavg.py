"""Federated averaging: each silo makes K local steps, the server averages the results.

    silo      y_0 = x,   v_k = momentum v_{k-1} + g(y_{k-1}),   y_k = y_{k-1} - eta_l v_k
              message = y_K - x
    server    x <- x + eta_g mean(messages)

The velocity v starts at zero in every round. K may differ between rounds.
McMahan et al. (AISTATS 2017); with private gradients DP-FedAvg of Noble et al. (AISTATS 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpfl.algorithms._base import Algorithm, Gradient, Released


def steps_of_round(local_steps: int | Sequence[int], round: int) -> int:
    """Return K for a round: the number itself, or the round's entry of a sequence."""
    return int(local_steps) if isinstance(local_steps, (int, np.integer)) else local_steps[round]


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Federated averaging of ``local_steps`` gradient steps.

    Parameters
    ----------
    learning_rate : float
        eta_l, the silos' step size.
    local_steps : int or tuple of int, default=1
        K, one number or one for each round.
    global_learning_rate : float, default=1.0
        eta_g, the server's step on the mean message.
    momentum : float, default=0.0
        Heavy-ball momentum of the local steps, reset in each round.
    """

    learning_rate: float
    local_steps: int | tuple[int, ...] = 1
    global_learning_rate: float = 1.0
    momentum: float = 0.0

    def n_gradients(self, round: int) -> int:
        return steps_of_round(self.local_steps, round)

    def init(self, params: np.ndarray) -> np.ndarray:
        return params

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        moved: np.ndarray | float = 0.0
        velocity: np.ndarray | float = 0.0
        for _ in range(gradient.n_steps):
            step = gradient(shared + moved)
            velocity = self.momentum * velocity + step if self.momentum else step
            moved = moved - self.learning_rate * velocity
        return np.asarray(moved)

    def aggregate(self, state: np.ndarray, released: Released) -> np.ndarray:
        return state + self.global_learning_rate * released.mean

    def params(self, state: np.ndarray) -> np.ndarray:
        return state
