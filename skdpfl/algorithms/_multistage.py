"""Multi-stage accelerated SGD for strongly convex objectives: AC-SA with restarts.

    q_0 = x_0;   q_k = AC-SA from q_{k-1} with R_k rounds and scale v_k;   stages k = 1, 2, ...

Lengths and scales are public constants, fixed before the fit (for instance by
:func:`skdpfl.algorithms.theory.multistage`, which makes each stage halve the excess loss): the end
of a stage does not depend on the data. The last stage takes all remaining rounds.
Ghadimi and Lan (2013); with private gradients Lowy and Razaviyayn (2023).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from skdpfl.algorithms._accelerated import ACSA, AcceleratedState, Coefficients
from skdpfl.algorithms._base import Ball, Projection
from skdpfl.algorithms.theory import Stage


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
