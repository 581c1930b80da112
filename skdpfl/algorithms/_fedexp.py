r"""FedEXP: the server takes longer steps where the silos' updates differ.

    silo      y_k = y_{k-1} - eta_l g(y_{k-1}),  message D_i = y_K - x
    server    eta_g = max(1, s / |m|^2),  m = mean(D_i),  s = mean |D_i|^2
              x <- x + eta_g m

FedExP is by Jhunjhunwala, Wang and Joshi (ICLR 2023), who use s / 2 and report the average of the
last two models. The private versions are by Takakura, Liew and Hasegawa, with new derivations.

Reason for the ratio. In a convex problem where one model w* is optimal in all silos, local steps of
at most 1/L give <D_i, w* - x> >= |D_i|^2 (for a quadratic D_i = B_i (w* - x) with 0 <= B_i <= 1).
Then

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

The noise of the denominator is not corrected: E |m|^2 = |mean D_i|^2 + (noise of m), so where noise
dominates eta_g is 1 and the method is FedAvg; a corrected denominator could be near zero or
negative. The mechanism clips s to [0, C^2], so eta_g is at most C^2 / |m|^2 whatever the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms._base import Released
from skdpfl.algorithms._fedavg import LocalSteps


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
    n_averaged : int, optional
        Number of last models that are averaged (2 as published). By default the second half, which
        averages the noise as well.
    largest_step : float, default=inf
        Upper bound of the server's step size, at least 1. Near an optimum that the silos do not
        share, their updates cancel and the step size is unbounded.
    """

    half: bool = False
    n_averaged: int | None = None
    largest_step: float = float("inf")

    reads_squared_norm = True

    def init(self, params: np.ndarray) -> FedExpState:
        return FedExpState(params, ())

    def aggregate(self, state: FedExpState, released: Released) -> FedExpState:
        step = self._step(released)
        return FedExpState(state.params + step * released.mean, (*state.step_sizes, step))

    def idle(self, state: FedExpState) -> FedExpState:
        return state._replace(step_sizes=(*state.step_sizes, 1.0))

    def params(self, state: FedExpState) -> np.ndarray:
        return state.params

    def output_weight(self, round: int, n_rounds: int) -> float:
        if self.n_averaged is None:
            return super().output_weight(round, n_rounds)
        return float(round >= n_rounds - self.n_averaged)

    def _step(self, released: Released) -> float:
        """Return eta_g, and 1 where the messages are not finite: then the fit has diverged."""
        if not np.isfinite(released.mean).all():
            return 1.0
        if np.isnan(released.squared_norm):
            raise ValueError(
                "FedExp reads the mean squared norm of the messages, which only mechanisms for "
                'unit="silo" release.'
            )
        target = released.squared_norm / 2 if self.half else released.squared_norm
        length = float(np.vdot(released.mean, released.mean))
        return min(max(1.0, target / length), self.largest_step) if length > 0 else 1.0
