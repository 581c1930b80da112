"""What "auto" chooses: rules of a few public numbers, and of what was paid for.

::

    rho     root mean square norm of a scaled row, the intercept's 1 counted
    s       noise of the whole fit on each coordinate of the mean gradient, in clip norms
    h       largest curvature of the loss in the raw prediction
    S       private gradients of a silo over all rounds, m the momentum of the steps

    C   = kappa rho               a typical row's slope is cut at kappa
    eta = (1 - m) c / (s S rho C)                      no more than what the curvature h rho^2 bears

Read: C rho eta / (1 - m) is how far one step moves the prediction of a typical row, at most, and
S times that is the ``path`` of a fit. Noise of s per step of it carries the prediction away by
s path in the end, so ``path = c / s`` lets it carry a margin c = 4 (labels: their predictions need
no scale), or a target's standard deviation by about a half. Neither kappa nor the number of rounds
matters much (benchmarks/auto): clipping far below the gradients' size costs nothing, as their
noise shrinks with it, and averages forget how many steps they were made of.

Where a parameter is given, the others adapt to it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

#: without noise the steps are limited by curvature alone
_MOMENTUM, _EXACT_MOMENTUM = 0.8, 0.95
#: gradients of a silo in a fit, as far as one round is cheap
_STEPS, _EXACT_STEPS = 100, 400
#: multiplications of a round and of a fit beyond which fewer records are read, fewer rounds run,
#: and what a silo of no records would count for
_ROUND_WORK, _FIT_WORK, _SILO_WORK = 2e8, 2e10, 3e4
#: records of a silo that a step reads where silos are large; up to twice as many are read whole
_BATCH = 2_000


class Rows(NamedTuple):
    """The problem as the rules see it: h, rho^2, numbers of parameters, records, silos, kind."""

    curvature: float
    squared_row: float
    n_parameters: int
    n_records: int
    n_silos: int
    is_classifier: bool

    @property
    def norm(self) -> float:
        """rho."""
        return math.sqrt(self.squared_row)


def sampling_rate(typical: float, mu: float, rows: Rows) -> float:
    """Return the share of its records that a silo's step reads: all while a round is cheap.

    Sampling costs nothing (less noise is needed) until noise multipliers fall below about one,
    which happens at rates below mu / (2 sqrt(steps)).
    """
    work = rows.n_records * rows.n_parameters
    rate = min(_ROUND_WORK / work, 1.0 if typical <= 2 * _BATCH else _BATCH / typical)
    if math.isfinite(mu):
        rate = max(rate, mu / (2 * math.sqrt(_STEPS)))
    return rate if rate < 0.5 else 1.0


def n_rounds(local_steps: int, rate: float, rows: Rows, *, exact: bool, plain: bool) -> int:
    """Return the number of rounds of ``local_steps`` gradients each; plain steps lack momentum."""
    steps = _EXACT_STEPS * (3 if plain else 1) if exact else _STEPS
    work = rate * rows.n_records * rows.n_parameters + _SILO_WORK * rows.n_silos
    affordable = max(30.0, _FIT_WORK / work)
    return max(1, math.ceil(min(steps, affordable) / local_steps))


def momentum(n_steps: int, noise: float) -> float:
    """Return the heavy-ball momentum of the server's steps: none where it could not unfold."""
    most = _MOMENTUM if noise > 0 else _EXACT_MOMENTUM
    return min(most, max(0.0, 1 - 5 / n_steps))


def clip_norm(noise: float, rows: Rows, alpha: float = 0.0) -> float:
    """Return C: the less noise there is, the fewer gradients are clipped, and none hides a bias.

    A penalty is balanced by clipped gradients, so clipping makes it stronger; and it shrinks the
    noise along with the model, by about h / (h + alpha): C may be larger by as much.
    """
    if noise <= 0:
        return math.inf
    if rows.is_classifier:
        kappa = min(0.8, max(0.2, 0.2 * math.sqrt(0.005 / noise)))
    else:
        kappa = min(1.0, max(0.1, 0.012 / (noise * rows.norm)))
    most = 1.0 if rows.is_classifier else 2.0  # beyond that little is clipped
    return min(kappa * (1 + alpha / rows.curvature), most) * rows.norm


def learning_rate(clip: float, n_steps: int, momentum: float, noise: float, rows: Rows) -> float:
    """Return eta, the step on the mean clipped gradient.

    Without noise ``rows.squared_row`` is the largest eigenvalue of the mean of a a^T.
    """
    bearable = 1 / (rows.curvature * rows.squared_row)
    if noise <= 0:
        return 1.8 * (1 + momentum) * bearable
    kappa, carried = clip / rows.norm, _carried(noise, rows)
    if rows.is_classifier:
        bearable *= (1 - momentum) * max(7.0, 18 / kappa)
        carried *= math.sqrt(min(1.0, 0.3 / kappa))
    else:
        bearable *= (1 + momentum) * max(3.0, 0.3 / kappa)
    return min((1 - momentum) * carried / (noise * n_steps * rows.norm * clip), bearable)


def borne_by(eta: float, alpha: float, server: float, momentum: float) -> float:
    """Return a step that the penalty's curvature alpha bears: its pull is not clipped.

    A round moves the model by ``server eta alpha`` times itself: at most 2 (1 + m), or it diverges.
    """
    return eta / (1 + 1.1 * eta * server * alpha / (1 + momentum))


def message_clip_norm(steps: tuple[int, ...], noise: float, rows: Rows) -> float:
    """Return the norm that messages are clipped to (unit "silo"): noise walks c in all rounds."""
    if noise <= 0:
        return math.inf
    return _carried(noise, rows) / (noise * len(steps) * rows.norm)


def silo_learning_rate(steps: tuple[int, ...], noise: float, rows: Rows) -> float:
    """Return the local step (unit "silo"): gradients of slope 1/3 make messages of that norm."""
    bearable = 1 / (rows.curvature * rows.squared_row)
    if noise <= 0:
        return bearable
    message = message_clip_norm(steps, noise, rows)
    most = bearable * min(4.0, max(1.0, 10 / max(steps)))  # few steps of a message that is clipped
    return min(most, 3 * message / (max(steps) * rows.norm))


def _carried(noise: float, rows: Rows) -> float:
    """Return c, how far the noise of a fit may carry a prediction."""
    if rows.is_classifier:
        return 3.0
    return min(1.0, max(0.5, 0.5 * (0.03 / (noise * rows.norm)) ** 0.4))
