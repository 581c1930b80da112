"""Local SGD: each silo makes K projected local steps, the server averages the results.

    silo      y_0 = x,   y_k = Proj(y_{k-1} - eta g(y_{k-1})),   message = y_K - x
    server    x <- Proj(x + mean(messages))

The baseline of Lowy and Razaviyayn (2023). Each of a round's K private gradients is paid for.
Requires ``trust="silo"``: a message depends on K noisy gradients, which other silos' noise does not
hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skdpfl.algorithms._base import Algorithm, Ball, Gradient, Projection, Released
from skdpfl.algorithms._fedavg import steps_of_round


@dataclass(frozen=True)
class LocalSGD(Algorithm):
    """Local SGD of ``local_steps`` projected gradient steps (a number, or one per round).

    Parameters
    ----------
    learning_rate : float
        eta, the silos' step size.
    local_steps : int or sequence of int, default=1
        K, one number or one for each round.
    projection : callable, default=Ball()
        Projection onto the feasible set, after every step.
    """

    learning_rate: float
    local_steps: int | Sequence[int] = 1
    projection: Projection = field(default_factory=Ball)

    def n_gradients(self, round: int) -> int:
        return steps_of_round(self.local_steps, round)

    def init(self, params: np.ndarray) -> np.ndarray:
        return params

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        at = shared
        for _ in range(gradient.n_steps):
            at = self.projection(at - self.learning_rate * gradient(at))
        return at - shared

    def aggregate(self, state: np.ndarray, released: Released) -> np.ndarray:
        return self.projection(state + released.mean)

    def params(self, state: np.ndarray) -> np.ndarray:
        return state
