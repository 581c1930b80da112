"""Local steps: each silo takes K of them, and the server averages the results.

K may differ between rounds. Each of a round's K private gradients is charged. If each gets its own
noise (``unit="record"``), K > 1 requires ``trust="silo"``: a message then depends on K noisy
gradients, which other silos' noise does not hide.

**Federated averaging** (McMahan et al., AISTATS 2017; with private gradients DP-FedAvg of Noble et
al., AISTATS 2022), v starts at zero in every round::

    silo      y_0 = x,   v_k = momentum v_{k-1} + g(y_{k-1}),   y_k = y_{k-1} - eta_l v_k
              message = y_K - x
    server    x <- x + eta_g mean(messages)

**Local SGD**, the baseline of Lowy and Razaviyayn (2023)::

    silo      y_0 = x,   y_k = Proj(y_{k-1} - eta g(y_{k-1})),   message = y_K - x
    server    x <- Proj(x + mean(messages))

**SCAFFOLD**, steps corrected by control variates (Karimireddy et al.; Noble et al., Alg. 1)::

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
initial value. :func:`whole_silo_control_rate` balances the two.

**FedExP**, longer steps of the server where the silos' updates differ::

    silo      y_k = y_{k-1} - eta_l g(y_{k-1}),  message D_i = y_K - x
    server    eta_g = max(1, s / |m|^2),  m = mean(D_i),  s = mean |D_i|^2
              x <- x + eta_g m

It is by Jhunjhunwala, Wang and Joshi (ICLR 2023), who use s / 2 and report the average of the last
two models. The private versions are by Takakura, Liew and Hasegawa, with new derivations.

Reason for the ratio. In a convex problem in which one model w* is optimal for all silos, local
steps of at most 1/L give <D_i, w* - x> >= |D_i|^2 (for a quadratic D_i = B_i (w* - x) with 0 <= B_i
<= 1). Then

    |x + t m - w*|^2 <= |x - w*|^2 - 2 t s + t^2 |m|^2,

which is smallest at t = s / |m|^2: the extrapolation of parallel projection methods. It is 1 if all
messages are equal and M if they are orthogonal.

With privacy the server never sees a message: m and s are released, s by the mechanism
(:mod:`skdpfl.privacy.mechanisms`), at no extra privacy cost, in each of the three cases:

    Gaussian, each silo   m = mean(c_i), c_i = D_i + noise of std sigma;  s = mean |c_i|^2 - size
                          sigma^2.  Without the correction s would be size sigma^2 and the step
                          mean |c_i|^2 / |m|^2, about M, whatever the data.
    PrivUnit, each silo   s from the private levels of the norms. |c_i|^2 is too large by a factor
                          that depends on the level, so no constant would correct it.
    trusted server        s is noised inside the same release as m.

The noise of the denominator is not corrected: E |m|^2 = |mean D_i|^2 + (noise of m), so if noise
dominates, eta_g is 1 and the method is FedAvg; a corrected denominator could be near zero or
negative. The mechanism clips s to [0, C^2], so eta_g is at most C^2 / |m|^2 whatever the noise.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skdpfl._arguments import check_number
from skdpfl.algorithms import _base


@dataclass(frozen=True)
class LocalSteps(_base.Algorithm):
    """Base class of algorithms with K gradient steps in each silo; the state is the model."""

    learning_rate: float
    local_steps: int | tuple[int, ...] = 1

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, open_low=True, open_high=True)

    def n_gradients(self, round: int) -> int:
        return _base.steps_in(self.local_steps, round)

    def init(self, params: np.ndarray) -> Any:
        return params

    def local(self, shared: Any, memory: np.ndarray, gradient: _base.Gradient) -> np.ndarray:
        return gradient.descent(shared, self.learning_rate)

    def params(self, state: Any) -> np.ndarray:
        return np.asarray(getattr(state, "params", state))


class FedAvgState(NamedTuple):
    """The model and the number of completed rounds."""

    params: np.ndarray
    round: int


def server_step_in(rates: float | tuple[float, ...], round: int) -> float:
    """Return the server's step of a round: one number, or one for each round."""
    return rates[round] if isinstance(rates, tuple) else rates


@dataclass(frozen=True)
class FedAvg(LocalSteps):
    """Federated averaging of ``local_steps`` gradient steps.

    Parameters
    ----------
    learning_rate : float
        eta_l, the silos' step size.
    local_steps : int or tuple of int, default=1
        K, one number or one for each round.
    global_learning_rate : float or tuple of float, default=1.0
        eta_g, the server's step on the mean message, one number or one for each round.
    momentum : float, default=0.0
        Heavy-ball momentum of the local steps, reset in each round.
    """

    global_learning_rate: float | tuple[float, ...] = 1.0
    momentum: float = 0.0

    def init(self, params: np.ndarray) -> FedAvgState:
        return FedAvgState(params, 0)

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: _base.Gradient) -> np.ndarray:
        return gradient.descent(shared, self.learning_rate, momentum=self.momentum)

    def aggregate(self, state: FedAvgState, released: _base.Released) -> FedAvgState:
        step = server_step_in(self.global_learning_rate, state.round)
        return FedAvgState(state.params + step * released.mean, state.round + 1)

    def idle(self, state: FedAvgState) -> FedAvgState:
        return state._replace(round=state.round + 1)


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

    projection: _base.Projection = field(default_factory=_base.Ball)

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: _base.Gradient) -> np.ndarray:
        at = shared
        for _ in range(gradient.n_steps):
            at = self.projection(at - self.learning_rate * gradient(at))
        return at - shared

    def aggregate(self, state: np.ndarray, released: _base.Released) -> np.ndarray:
        return self.projection(state + released.mean)


class ScaffoldState(NamedTuple):
    """The model, the server's control variate and the number of completed rounds."""

    params: np.ndarray
    control: np.ndarray
    round: int


class ScaffoldBroadcast(NamedTuple):
    """The server's broadcast; ``n_steps`` is K and ``warm`` freezes the model."""

    params: np.ndarray
    control: np.ndarray
    n_steps: int
    warm: bool


def whole_silo_control_rate(n_rounds: int, fraction: float, noise: float) -> float:
    """Return the control rate for whole silos.

    In T rounds, each with a share f of the silos and noise of norm v on the mean message (over the
    clip norm), the random walk ends about a f sqrt(T) v clip norms away. We allow 0.03 clip norms,
    or 6 / sqrt(T) of one round's noise, which is about what remains of it in an average of late
    models; but at most 0.3 clip norms::

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
    global_learning_rate : float or tuple of float, default=1.0
        eta_g, the server's step on the mean message, one number or one for each round.
    warm_start_rounds : int, default=0
        Number of first rounds that update the control variates only.
    control_rate : float, default=1.0
        a in (0, 1], the share of their update by which control variates change. 1 is the published
        algorithm; below 1 for whole silos.
    """

    global_learning_rate: float | tuple[float, ...] = 1.0
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
        return _base.is_vector(shared.params, size) and _base.is_vector(shared.control, size)

    def local(
        self, shared: ScaffoldBroadcast, memory: np.ndarray, gradient: _base.Gradient
    ) -> np.ndarray:
        correction = shared.control - memory
        if not shared.warm:
            return gradient.descent(shared.params, self.learning_rate, correction=correction)
        moved: np.ndarray | float = 0.0
        for _ in range(gradient.n_steps):
            moved = moved - self.learning_rate * (gradient(shared.params) + correction)
        return np.asarray(moved)

    def remember(
        self, shared: ScaffoldBroadcast, memory: np.ndarray, kept: np.ndarray
    ) -> np.ndarray:
        return memory + self._control_change(shared.control, kept, shared.n_steps)

    def aggregate(self, state: ScaffoldState, released: _base.Released) -> ScaffoldState:
        total = released.sampled * released.mean
        n_steps = self.n_gradients(state.round)
        control = state.control + self._control_change(
            released.fraction * state.control, total, n_steps
        )
        if state.round < self.warm_start_rounds:
            return ScaffoldState(state.params, control, state.round + 1)
        step = server_step_in(self.global_learning_rate, state.round)
        params = state.params + step * released.mean
        return ScaffoldState(params, control, state.round + 1)

    def idle(self, state: ScaffoldState) -> ScaffoldState:
        return state._replace(round=state.round + 1)

    def moves(self, round: int) -> bool:
        return round >= self.warm_start_rounds

    def output_weight(self, round: int, n_rounds: int) -> float:
        late = (self.warm_start_rounds + n_rounds) // 2
        return float(round >= min(late, n_rounds - 1))

    def _control_change(self, control: np.ndarray, moved: np.ndarray, n_steps: int) -> np.ndarray:
        return self.control_rate * (-control - moved / (n_steps * self.learning_rate))


class FedExpState(NamedTuple):
    """The model and the server's previous step sizes."""

    params: np.ndarray
    step_sizes: tuple[float, ...]


@dataclass(frozen=True)
class FedExp(LocalSteps):
    """Federated averaging with extrapolated server steps.

    Parameters
    ----------
    learning_rate : float
        eta_l, the silos' step size.
    local_steps : int or tuple of int, default=1
        K, one number or one for each round.
    half : bool, default=False
        Use s / 2, as in the published FedExP; the private versions use s.
    largest_step : float, default=inf
        Upper bound of the server's step size, at least 1. Near an optimum that the silos do not
        share, their updates cancel and the step size is unbounded.
    squared_row : float, default=inf
        The largest mean squared norm of a silo's rows for which ``learning_rate`` is short enough.
        Where whole silos are protected, those with longer rows divide their gradients by the
        excess.
    """

    half: bool = False
    largest_step: float = float("inf")
    squared_row: float = float("inf")

    reads_squared_norm = True

    def init(self, params: np.ndarray) -> FedExpState:
        return FedExpState(params, ())

    def aggregate(self, state: FedExpState, released: _base.Released) -> FedExpState:
        step = self._step(released)
        return FedExpState(state.params + step * released.mean, (*state.step_sizes, step))

    def idle(self, state: FedExpState) -> FedExpState:
        return state._replace(step_sizes=(*state.step_sizes, 1.0))

    def _step(self, released: _base.Released) -> float:
        """Return eta_g; 1 if the messages are not finite, which means that the fit has diverged."""
        if not np.isfinite(released.mean).all():
            return 1.0
        if np.isnan(released.squared_norm):
            raise ValueError(
                "FedExp needs the mean squared norm of the messages, which only mechanisms for "
                'unit="silo" release.'
            )
        target = released.squared_norm / 2 if self.half else released.squared_norm
        length = float(np.vdot(released.mean, released.mean))
        return min(max(1.0, target / length), self.largest_step) if length > 0 else 1.0
