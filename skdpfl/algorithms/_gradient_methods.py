"""Algorithms with one gradient per silo and round: minibatch SGD and its accelerated versions.

**Minibatch SGD** (Lowy and Razaviyayn 2023, Algorithm 2)::

    g = mean of the silos' gradients at x,   v <- momentum v + g,   x <- Proj(x - eta_r v)

It is FedAvg with one local step (DP-FedSGD).

**AC-SA**, with acceleration (Ghadimi and Lan 2012; with private gradients Lowy and Razaviyayn,
Algorithm 1), mu the modulus of strong convexity (0: convex), scale v >= 2 beta, r = 1, 2, ...::

    a = 2 / (r + 1),   e = 4 v / (r (r + 1))
    x_md = [(1 - a) (mu + e) x_ag + a ((1 - a) mu + e) x] / (e + (1 - a^2) mu)
    g    = mean of the silos' gradients at x_md
    x    <- Proj( [a mu x_md + ((1 - a) mu + e) x - a g] / (mu + e) )
    x_ag <- a x + (1 - a) x_ag

With mu = 0 the step on g is r / (2 v), and x_ag is the mean of x_1, ..., x_R with weights
1, ..., R. A gradient changes x_ag by about 1 / v times itself, so the learning rate is 1 / v.

**Multi-stage AC-SA**, with restarts, for strongly convex objectives (Ghadimi and Lan 2013)::

    q_0 = x_0;   q_k = AC-SA from q_{k-1} with R_k rounds and scale v_k;   stages k = 1, 2, ...

Lengths and scales are public constants, fixed before the fit (for instance by
:func:`skdpfl.algorithms.theory.multistage`, which makes each stage halve the excess loss): the end
of a stage does not depend on the data. The last stage takes all remaining rounds.

**Localized SGD** (C. Gao, A. Lowy, X. Zhou and S. Wright, "Private Heterogeneous Federated Learning
Without a Trusted Server Revisited", 2024, as we read it; orders of magnitude are theirs, constants
ours): phases of multi-stage AC-SA on disjoint batches, see :class:`LocalizedSGD`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms._base import Ball, GradientMethod, Projection, Released
from skdpfl.algorithms.theory import Phase, Stage


class MinibatchState(NamedTuple):
    """The model, the velocity and the number of completed rounds."""

    params: np.ndarray
    velocity: np.ndarray
    round: int


@dataclass(frozen=True)
class MinibatchSGD(GradientMethod):
    """Minibatch SGD with optional heavy-ball momentum at the server and projection.

    Parameters
    ----------
    learning_rate : float or tuple of float
        The learning rate eta, one number or one for each round.
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


class AcceleratedState(NamedTuple):
    """The prox sequence x, the aggregated sequence x_ag, and the number of gradients used."""

    prox: np.ndarray
    aggregated: np.ndarray
    n_done: int


class LocalizedState(NamedTuple):
    """AC-SA's two sequences, the number of gradients used, and the center w_(i-1)."""

    prox: np.ndarray
    aggregated: np.ndarray
    n_done: int
    center: np.ndarray


#: a state with AC-SA's sequences x and x_ag, and the number of gradients used
Sequences = AcceleratedState | LocalizedState


class Coefficients(NamedTuple):
    """The coefficients a, e and mu of an iteration."""

    a: float
    e: float
    mu: float

    @classmethod
    def at(cls, r: int, scale: float, mu: float) -> Coefficients:
        """Return the coefficients of iteration r = 1, 2, ..."""
        return cls(2 / (r + 1), 4 * scale / (r * (r + 1)), mu)

    def middle(self, state: Sequences) -> np.ndarray:
        """Return x_md, where the gradient is taken."""
        a, e, mu = self
        whole = e + (1 - a * a) * mu
        aggregated, prox = (1 - a) * (mu + e) / whole, a * ((1 - a) * mu + e) / whole
        return aggregated * state.aggregated + prox * state.prox

    def step(
        self, state: Sequences, gradient: np.ndarray, projection: Projection
    ) -> AcceleratedState:
        """Return the state after one gradient at :meth:`middle`."""
        a, e, mu = self
        moved = ((1 - a) * mu + e) * state.prox - a * gradient
        if mu:
            moved = moved + a * mu * self.middle(state)
        prox = projection(moved / (mu + e))
        aggregated = a * prox + (1 - a) * state.aggregated
        return AcceleratedState(prox, aggregated, state.n_done + 1)


class ACSA(GradientMethod):
    """Base class of AC-SA with coefficients that follow from the number of gradients used."""

    projection: Projection
    aggregated: bool

    def init(self, params: np.ndarray) -> AcceleratedState:
        return AcceleratedState(params, params, 0)

    def broadcast(self, state: AcceleratedState) -> np.ndarray:
        state = self.entered(state)
        return self.coefficients(state.n_done).middle(state)

    def aggregate(self, state: AcceleratedState, released: Released) -> AcceleratedState:
        state = self.entered(state)
        return self.coefficients(state.n_done).step(state, released.mean, self.projection)

    def params(self, state: AcceleratedState) -> np.ndarray:
        return state.aggregated if self.aggregated else state.prox

    def output_weight(self, round: int, n_rounds: int) -> float:
        return 0.0  # x_ag is an average already

    def coefficients(self, n_done: int) -> Coefficients:
        """Return the coefficients of the next iteration."""
        raise NotImplementedError

    def entered(self, state: AcceleratedState) -> AcceleratedState:
        """Return the state at the beginning of an iteration."""
        return state


@dataclass(frozen=True)
class AcceleratedSGD(ACSA):
    """AC-SA of scale ``scale``; rounds without any silo do not count as iterations.

    Parameters
    ----------
    scale : float
        v: at least twice the smoothness of the objective, larger where noise dominates.
    strong_convexity : float, default=0.0
        mu.
    projection : callable, default=Ball()
        Projection onto the feasible set.
    aggregated : bool, default=True
        Whether the result is x_ag, as in the theory, or the last x.
    """

    scale: float
    strong_convexity: float = 0.0
    projection: Projection = field(default_factory=Ball)
    aggregated: bool = True

    def coefficients(self, n_done: int) -> Coefficients:
        return Coefficients.at(n_done + 1, self.scale, self.strong_convexity)


@dataclass(frozen=True)
class MultistageSGD(ACSA):
    """AC-SA in stages; rounds without any silo do not count as iterations.

    Parameters
    ----------
    stages : tuple of Stage
        The stages' lengths and scales.
    strong_convexity : float
        mu > 0.
    projection : callable, default=Ball()
        Projection onto the feasible set.
    aggregated : bool, default=True
        Whether the result is x_ag, as in the theory, or the last x.
    """

    stages: tuple[Stage, ...]
    strong_convexity: float
    projection: Projection = field(default_factory=Ball)
    aggregated: bool = True

    def _place(self, n_done: int) -> tuple[Stage, int]:
        """Return the stage of the next iteration, and its number of completed iterations."""
        for stage in self.stages[:-1]:
            if n_done < stage.n_rounds:
                return stage, n_done
            n_done -= stage.n_rounds
        return self.stages[-1], n_done

    def entered(self, state: AcceleratedState) -> AcceleratedState:
        """Return the state, restarted at the beginning of a stage."""
        starts = self._place(state.n_done)[1] == 0
        return state._replace(prox=state.aggregated) if starts else state

    def coefficients(self, n_done: int) -> Coefficients:
        stage, done = self._place(n_done)
        return Coefficients.at(done + 1, stage.scale, self.strong_convexity)


class Place(NamedTuple):
    """Where a gradient stands: its phase, its stage, and how many of the stage came before."""

    phase: int
    stage: Stage
    done: int
    begins_phase: bool


@dataclass(frozen=True)
class LocalizedSGD(ACSA):
    """Localized SGD: AC-SA in phases; runs with :class:`skdpfl.privacy.sampling.Halving`.

    Each phase has a new batch of every silo, half as large as the one before, and stays close to
    the end w of the phase before::

        F_i(x) = mean loss of the batches at x + alpha / 2 |x|^2 + lam_i / 2 |x - w|^2
        w_i    = multi-stage AC-SA on F_i with mu = lam_i + alpha, within |x - w| <= D_i

    Penalties lam_i grow and radii D_i = 2 L / lam_i shrink geometrically, so late phases, with few
    records and much noise, move the model little. The gradient of the penalty is public: it is
    added after the noise and is not clipped. Messages are divided by the size of the first batch,
    so the mean of phase i is 2^(i-1) times what is released of the records.

    Parameters
    ----------
    phases : tuple of Phase
        The phases' stages, penalties and radii.
    alpha : float, default=0.0
        The penalty of the objective, which messages contain.
    n_free : int, default=0
        The number of last coordinates that ``alpha`` does not penalise (the intercepts).
    projection : callable, default=Ball()
        Projection onto the feasible set; iterates are in the phase's ball, then in this set.
    aggregated : bool, default=True
        Whether the result is x_ag, as in the theory, or the last x.
    """

    phases: tuple[Phase, ...]
    alpha: float = 0.0
    n_free: int = 0
    projection: Projection = field(default_factory=Ball)
    aggregated: bool = True

    def init(self, params: np.ndarray) -> LocalizedState:  # type: ignore[override]
        return LocalizedState(params, params, 0, params)

    def entered(self, state: LocalizedState) -> LocalizedState:  # type: ignore[override]
        """Return the state, restarted at the beginning of a phase or stage."""
        place = self._place(state.n_done)
        if place.done:
            return state
        center = state.aggregated if place.begins_phase else state.center
        return state._replace(prox=state.aggregated, center=center)

    def aggregate(  # type: ignore[override]
        self, state: LocalizedState, released: Released
    ) -> LocalizedState:
        state, number = self.entered(state), self._place(state.n_done).phase
        phase, at = self.phases[number], self.coefficients(state.n_done)
        center, middle = state.center, at.middle(state)
        own = self.alpha * middle
        own[len(own) - self.n_free :] = 0.0
        gradient = 2**number * (released.mean - own) + own + phase.penalty * (middle - center)
        ball = Ball(phase.radius)

        def near(x: np.ndarray) -> np.ndarray:
            return self.projection(center + ball(x - center))

        return LocalizedState(*at.step(state, gradient, near), center)

    def coefficients(self, n_done: int) -> Coefficients:
        place = self._place(n_done)
        mu = self.phases[place.phase].penalty + self.alpha
        return Coefficients.at(place.done + 1, place.stage.scale, mu)

    def _place(self, n_done: int) -> Place:
        """Return the place of the next gradient; last phases and stages take what remains."""
        number, done = 0, n_done
        while number < len(self.phases) - 1 and done >= self.phases[number].n_rounds:
            done -= self.phases[number].n_rounds
            number += 1
        begins, stages = done == 0, self.phases[number].stages
        for stage in stages[:-1]:
            if done < stage.n_rounds:
                return Place(number, stage, done, begins)
            done -= stage.n_rounds
        return Place(number, stages[-1], done, begins)
