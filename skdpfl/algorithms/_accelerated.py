"""Accelerated noisy minibatch SGD: AC-SA with one gradient per silo and round.

With mu the modulus of strong convexity (0: convex) and scale v >= 2 beta, for r = 1, 2, ...::

    a = 2 / (r + 1),   e = 4 v / (r (r + 1))
    x_md = [(1 - a) (mu + e) x_ag + a ((1 - a) mu + e) x] / (e + (1 - a^2) mu)
    g    = mean of the silos' gradients at x_md
    x    <- Proj( [a mu x_md + ((1 - a) mu + e) x - a g] / (mu + e) )
    x_ag <- a x + (1 - a) x_ag

With mu = 0 the step on g is r / (2 v), and x_ag is the mean of x_1, ..., x_R with weights
1, ..., R. A gradient changes x_ag by about 1 / v times itself, so the learning rate is 1 / v.
Ghadimi and Lan (2012); with private gradients Lowy and Razaviyayn (2023), Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms._base import Ball, GradientMethod, Projection, Released


class AcceleratedState(NamedTuple):
    """The prox sequence x, the aggregated one x_ag, and how many gradients were used."""

    prox: np.ndarray
    aggregated: np.ndarray
    n_done: int


class Coefficients(NamedTuple):
    """One iteration's a, e and mu."""

    a: float
    e: float
    mu: float

    @classmethod
    def at(cls, r: int, scale: float, mu: float) -> Coefficients:
        """Return those of iteration r = 1, 2, ..."""
        return cls(2 / (r + 1), 4 * scale / (r * (r + 1)), mu)

    def middle(self, state: AcceleratedState) -> np.ndarray:
        """Return x_md, where the gradient is taken."""
        a, e, mu = self
        whole = e + (1 - a * a) * mu
        aggregated, prox = (1 - a) * (mu + e) / whole, a * ((1 - a) * mu + e) / whole
        return aggregated * state.aggregated + prox * state.prox

    def step(
        self, state: AcceleratedState, gradient: np.ndarray, projection: Projection
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
        """Return those of the next iteration."""
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
