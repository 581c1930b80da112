"""SCAFFOLD: local steps corrected by control variates (Karimireddy et al.; Noble et al., Alg. 1).

    silo      y_k = y_{k-1} - eta_l ( g(y_{k-1}) - c_i + c ),   message = y_K - x
              c_i <- c_i - c - message / (K eta_l)              ( = the mean of its K gradients )
    server    x <- x + eta_g mean(messages)
              c <- c - f c - m mean(messages) / (K eta_l),  f the cohort's share of the weight,
              m of the silos: m mean(messages) is the cohort's weighted sum

A silo's change of control variate, c_i' - c_i = -c - message / (K eta_l), is an affine function of
its message and of c, which the server knows. So a silo sends one vector instead of two, which is
clipped as a whole under unit="silo". Invariant: c is the (weighted) mean of the c_i.

In the first ``warm_start_rounds`` rounds x does not change and only the control variates are
learnt; these rounds are charged like all others.

Whole silos (unit="silo"). Noise is added to the message when it is sent. c_i, which never leaves
its silo, is computed from the clipped message without noise. (Otherwise the noise, many clip norms
long, would be part of the next message, and clipping would leave little of the gradient.) So c
accumulates the noise of all rounds and c_i does not: c - mean(c_i) is a random walk, and x
converges to a point where the gradient is minus that. With ``control_rate`` a < 1 both change by
the share a of their update: after T rounds with a share f of the silos the walk is a f sqrt(T)
times the noise of one round's mean gradient, and control variates keep (1 - a)^(f T) of their
initial value.
:func:`whole_silo_control_rate` balances the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpfl.algorithms._base import Gradient, Released, is_vector
from skdpfl.algorithms._fedavg import LocalSteps


class ScaffoldState(NamedTuple):
    """The model, the server's control variate and how many rounds are done."""

    params: np.ndarray
    control: np.ndarray
    round: int


class ScaffoldBroadcast(NamedTuple):
    """What the server sends to silos; ``n_steps`` is K and ``warm`` freezes the model."""

    params: np.ndarray
    control: np.ndarray
    n_steps: int
    warm: bool


def whole_silo_control_rate(n_rounds: int, fraction: float, noise: float) -> float:
    """Return the control rate for whole silos.

    In T rounds, each with a share f of the silos and noise of norm v on the mean message (over the
    clip norm), the random walk ends about a f sqrt(T) v clip norms away. We allow 0.03 clip norms,
    or 6 / sqrt(T) of one round's noise, about what remains of it in an average of late models; but
    never more than 0.3 clip norms::

        a = min(1, 0.3 / (f sqrt(T) v), max(6 / (f T), 0.03 / (f sqrt(T) v)))

    Without noise it is 1, the published algorithm. The constants are from a small study of
    quadratic problems, with few or many silos, homogeneous or heterogeneous.
    """
    if noise <= 0:
        return 1.0
    walk = fraction * n_rounds**0.5 * noise
    return min(1.0, 0.3 / walk, max(6 / (fraction * n_rounds), 0.03 / walk))


@dataclass(frozen=True)
class Scaffold(LocalSteps):
    """SCAFFOLD with ``local_steps`` gradient steps and an optional, charged, warm start.

    Parameters
    ----------
    learning_rate : float
        eta_l, the silos' step size.
    local_steps : int or tuple of int
        K, one number or one for each round.
    global_learning_rate : float, default=1.0
        eta_g, the server's step on the mean message.
    warm_start_rounds : int, default=0
        Number of first rounds that update the control variates only.
    control_rate : float, default=1.0
        a in (0, 1], the share of their update by which control variates change. 1 is the published
        algorithm; below 1 for whole silos.
    """

    global_learning_rate: float = 1.0
    warm_start_rounds: int = 0
    control_rate: float = 1.0

    def memory_size(self, size: int) -> int:
        return size

    def init(self, params: np.ndarray) -> ScaffoldState:
        return ScaffoldState(params, np.zeros_like(params), 0)

    def broadcast(self, state: ScaffoldState) -> ScaffoldBroadcast:
        n_steps, warm = self.n_gradients(state.round), state.round < self.warm_start_rounds
        return ScaffoldBroadcast(state.params, state.control, n_steps, warm)

    def accepts(self, shared: Any, size: int) -> bool:
        if not isinstance(shared, ScaffoldBroadcast) or shared.n_steps < 1:
            return False
        return is_vector(shared.params, size) and is_vector(shared.control, size)

    def local(
        self, shared: ScaffoldBroadcast, memory: np.ndarray, gradient: Gradient
    ) -> np.ndarray:
        correction = shared.control - memory
        moved: np.ndarray | float = 0.0
        for _ in range(gradient.n_steps):
            at = shared.params if shared.warm else shared.params + moved
            step = gradient(at)
            step += correction
            step *= -self.learning_rate
            step += moved
            moved = step
        return np.asarray(moved)

    def remember(
        self, shared: ScaffoldBroadcast, memory: np.ndarray, kept: np.ndarray
    ) -> np.ndarray:
        return memory + self._control_change(shared.control, kept, shared.n_steps)

    def aggregate(self, state: ScaffoldState, released: Released) -> ScaffoldState:
        total = released.sampled * released.mean
        n_steps = self.n_gradients(state.round)
        control = state.control + self._control_change(
            released.fraction * state.control, total, n_steps
        )
        if state.round < self.warm_start_rounds:
            return ScaffoldState(state.params, control, state.round + 1)
        params = state.params + self.global_learning_rate * released.mean
        return ScaffoldState(params, control, state.round + 1)

    def idle(self, state: ScaffoldState) -> ScaffoldState:
        return state._replace(round=state.round + 1)

    def params(self, state: ScaffoldState) -> np.ndarray:
        return state.params

    def moves(self, round: int) -> bool:
        return round >= self.warm_start_rounds

    def output_weight(self, round: int, n_rounds: int) -> float:
        late = (self.warm_start_rounds + n_rounds) // 2
        return float(round >= min(late, n_rounds - 1))

    def _control_change(self, control: np.ndarray, moved: np.ndarray, n_steps: int) -> np.ndarray:
        return self.control_rate * (-control - moved / (n_steps * self.learning_rate))
