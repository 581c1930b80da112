"""Whether a model is calibrated privately after training, and the prior of that.

Classifiers get the scale of raw predictions, if the model has an `output_mask`; regressions for
quantiles their level, if it has an `intercept_mask`. Only with an epsilon and an automatic learning
rate: not without privacy, within a radius, with unit="silo", trust="shuffler" or a given
noise_multiplier.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from skdpfl.choosing._committed import Committed
from skdpfl.choosing._method import Method
from skdpfl.choosing._noise_level import budgets
from skdpfl.choosing._request import Request
from skdpfl.scaling import CalibrationPlan, Setting, ShiftPlan, TemperaturePlan


def plan_calibration(request: Request, method: Method) -> CalibrationPlan | None:
    """Return the releases that the calibration follows from, None if there is none."""
    promise, model, loss = request.guarantee, request.model, request.loss
    chosen = request.calibrates and request.chooses_step and not method.has_own_step
    paid = promise.epsilon is not None and not promise.is_exact
    records = promise.unit == "record" and promise.trust != "shuffler"
    if not (chosen and paid and records and request.radius is None):
        return None
    sizes = request.facts.silo_sizes
    mu = np.broadcast_to(budgets(request, 1.0, 1), sizes.shape)
    setting = Setting(sizes, mu, "record", promise.trust, promise.neighbours)
    if loss.link == "logit" and model.output_mask() is not None:
        return TemperaturePlan(setting)
    if loss.quantile_level is not None and model.intercept_mask() is not None:
        return ShiftPlan(setting, loss.quantile_level)
    return None


def with_clipped_quantile(committed: Committed, method: Method) -> Committed:
    """Return it with the quantile that clipped slopes stand for, if the level is calibrated.

    Slopes -q and 1 - q that are cut to kappa balance at q' = a / (a + b), a = min(q, kappa) and
    b = min(1 - q, kappa), whatever q was asked for. The loss at q' is what is left of that at q,
    without a slope that all records share and that clips them all. For linear models: kappa is that
    of a typical row.
    """
    request, clip = committed.request, committed.settings.clip_norm
    q = request.loss.quantile_level
    if q is None or not request.model.is_linear or plan_calibration(request, method) is None:
        return committed
    kappa = clip / math.sqrt(committed.squared_row)
    low, high = min(q, kappa), min(1 - q, kappa)
    loss = request.loss.at_quantile(low / (low + high))
    return replace(committed, request=replace(request, loss=loss))


def walk_of(committed: Committed, noise: float) -> float:
    """Return how far the noise of a fit moves the prediction of a typical row.

    ``noise`` is the noise of the fit on each coordinate of the mean gradient, in clip norms.
    """
    now = committed.settings
    if committed.request.learning_rate is not None or not math.isfinite(now.clip_norm):
        return 0.0  # nothing is calibrated
    reach = now.clip_norm * math.sqrt(committed.squared_row) * now.learning_rate * now.server_step
    return noise * sum(now.steps) * reach / (1 - now.momentum)
