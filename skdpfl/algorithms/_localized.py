"""Localized minibatch SGD: phases on disjoint batches, each close to the end of the one before.

C. Gao, A. Lowy, X. Zhou and S. Wright, "Private Heterogeneous Federated Learning Without a Trusted
Server Revisited" (2024), as we read it; orders of magnitude are theirs, constants ours. Phase
i = 1, ..., t with a new batch of every silo, half as large as the one before, from w = w_(i-1)::

    F_i(x) = mean loss of the batches at x + alpha / 2 |x|^2 + lam_i / 2 |x - w|^2
    w_i    = multi-stage AC-SA on F_i with mu = lam_i + alpha, within |x - w| <= D_i

Penalties lam_i grow and radii D_i = 2 L / lam_i shrink geometrically, so late phases, with few
records and much noise, move the model little. The gradient of the penalty is public: it is added
after the noise and is not clipped.

Messages are divided by the size of the first batch, so the mean of phase i is 2^(i-1) times what is
released of the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms._base import Ball, Projection, Released
from skdpfl.algorithms._gradient_methods import ACSA, Coefficients
from skdpfl.algorithms.theory import Phase, Stage


class LocalizedState(NamedTuple):
    """AC-SA's two sequences, the number of gradients used, and the center w_(i-1)."""

    prox: np.ndarray
    aggregated: np.ndarray
    n_done: int
    center: np.ndarray


class Place(NamedTuple):
    """Where a gradient stands: its phase, its stage, and how many of the stage came before."""

    phase: int
    stage: Stage
    done: int
    begins_phase: bool


@dataclass(frozen=True)
class LocalizedSGD(ACSA):
    """AC-SA in phases; runs with :class:`skdpfl.privacy.sampling.Halving`.

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
