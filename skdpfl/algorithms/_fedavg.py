"""Averages of local steps: each silo makes K of them, the server averages the results.

Federated averaging (McMahan et al., AISTATS 2017; with private gradients DP-FedAvg of Noble et al.,
AISTATS 2022)::

    silo      y_0 = x,   v_k = momentum v_{k-1} + g(y_{k-1}),   y_k = y_{k-1} - eta_l v_k
              message = y_K - x
    server    x <- x + eta_g mean(messages)

Local SGD, the baseline of Lowy and Razaviyayn (2023)::

    silo      y_0 = x,   y_k = Proj(y_{k-1} - eta g(y_{k-1})),   message = y_K - x
    server    x <- Proj(x + mean(messages))

The velocity v starts at zero in every round. K may differ between rounds. Each of a round's K
private gradients is paid for. Where they are noised one by one (``unit="record"``), K > 1 requires
``trust="silo"``: a message then depends on K noisy gradients, which other silos' noise does not
hide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdpfl.algorithms._base import Algorithm, Ball, Gradient, Projection, Released


@dataclass(frozen=True)
class LocalSteps(Algorithm):
    """Base class of algorithms with K gradient steps in each silo; the state is the model."""

    learning_rate: float
    local_steps: int | tuple[int, ...] = 1

    def n_gradients(self, round: int) -> int:
        steps = self.local_steps
        return int(steps) if isinstance(steps, (int, np.integer)) else steps[round]

    def init(self, params: np.ndarray) -> Any:
        return params

    def local(self, shared: Any, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        moved: np.ndarray | float = 0.0
        for _ in range(gradient.n_steps):
            moved = moved - self.learning_rate * gradient(shared + moved)
        return np.asarray(moved)

    def params(self, state: Any) -> np.ndarray:
        return np.asarray(state)


@dataclass(frozen=True)
class FedAvg(LocalSteps):
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

    global_learning_rate: float = 1.0
    momentum: float = 0.0

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        if not self.momentum:
            return super().local(shared, memory, gradient)
        moved: np.ndarray | float = 0.0
        velocity: np.ndarray | float = 0.0
        for _ in range(gradient.n_steps):
            velocity = self.momentum * velocity + gradient(shared + moved)
            moved = moved - self.learning_rate * velocity
        return np.asarray(moved)

    def aggregate(self, state: np.ndarray, released: Released) -> np.ndarray:
        return state + self.global_learning_rate * released.mean


@dataclass(frozen=True)
class LocalSGD(LocalSteps):
    """Local SGD of ``local_steps`` projected gradient steps (a number, or one per round).

    Parameters
    ----------
    learning_rate : float
        eta, the silos' step size.
    local_steps : int or tuple of int, default=1
        K, one number or one for each round.
    projection : callable, default=Ball()
        Projection onto the feasible set, after every step.
    """

    projection: Projection = field(default_factory=Ball)

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        at = shared
        for _ in range(gradient.n_steps):
            at = self.projection(at - self.learning_rate * gradient(at))
        return at - shared

    def aggregate(self, state: np.ndarray, released: Released) -> np.ndarray:
        return self.projection(state + released.mean)
