"""Distributed minibatch SGD: one gradient per silo and round (Lowy and Razaviyayn, Alg. 2).

    g = mean of the silos' gradients at x,   v <- momentum v + g,   x <- Proj(x - eta_r v)

With one local step this is FedAvg (DP-FedSGD). ``learning_rate`` is a number, or one per round;
``output_weights`` overrides the average of the second half.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms._base import Ball, GradientMethod, Projection, Released


class MinibatchState(NamedTuple):
    """The model, the velocity and how many rounds are done."""

    params: np.ndarray
    velocity: np.ndarray
    round: int


@dataclass(frozen=True)
class MinibatchSGD(GradientMethod):
    """Minibatch SGD with optional heavy-ball momentum at the server and projection.

    Parameters
    ----------
    learning_rate : float or tuple of float
        eta, one number or one for each round.
    momentum : float, default=0.0
        Heavy-ball momentum at the server.
    projection : callable, default=Ball()
        Projection onto the feasible set.
    output_weights : tuple of float, default=None
        The weights in the average of the model before the first round and after each one,
        n_rounds + 1 numbers; None averages the second half.
    """

    learning_rate: float | tuple[float, ...]
    momentum: float = 0.0
    projection: Projection = field(default_factory=Ball)
    output_weights: tuple[float, ...] | None = None

    def init(self, params: np.ndarray) -> MinibatchState:
        return MinibatchState(params, np.zeros_like(params), 0)

    def aggregate(self, state: MinibatchState, released: Released) -> MinibatchState:
        rate = self.learning_rate
        step = rate[state.round] if isinstance(rate, tuple) else rate
        velocity = self.momentum * state.velocity + released.mean
        moved = self.projection(state.params - step * velocity)
        return MinibatchState(moved, velocity, state.round + 1)

    def heavy_ball(self) -> tuple[float, float] | None:
        free = self.projection == Ball() and self.output_weights is None
        if isinstance(self.learning_rate, tuple) or not free:
            return None
        return self.learning_rate, self.momentum

    def idle(self, state: MinibatchState) -> MinibatchState:
        return state._replace(round=state.round + 1)

    def params(self, state: MinibatchState) -> np.ndarray:
        return state.params

    def start_weight(self, n_rounds: int) -> float:
        return 0.0 if self.output_weights is None else self.output_weights[0]

    def output_weight(self, round: int, n_rounds: int) -> float:
        if self.output_weights is not None:
            return self.output_weights[round + 1]
        return super().output_weight(round, n_rounds)
