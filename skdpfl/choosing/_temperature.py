"""Whether the scale of a classifier's raw predictions is paid for, and where its prior lies.

A fit whose step, noise or budget leaves nothing to choose stays as it is, and so do those without
privacy, of other models than linear ones, within a radius, of whole silos and behind a shuffler.
"""

from __future__ import annotations

import math

import numpy as np

from skdpfl.choosing._committed import Committed
from skdpfl.choosing._method import Method
from skdpfl.choosing._noise_level import budgets
from skdpfl.choosing._request import Request
from skdpfl.scaling import Setting, TemperaturePlan


def plan_temperature(request: Request, method: Method) -> TemperaturePlan | None:
    """Return what will be released to find the temperature, None where it is not looked for."""
    promise = request.guarantee
    chosen = request.calibrates and request.chooses_step and not method.has_own_step
    paid = promise.epsilon is not None and not promise.is_exact
    records = promise.unit == "record" and promise.trust != "shuffler"
    free = request.model.is_linear and request.radius is None
    if not (chosen and paid and records and free and request.loss.link == "logit"):
        return None
    sizes = request.facts.silo_sizes
    mu = np.broadcast_to(budgets(request, 1.0, 1), sizes.shape)
    return TemperaturePlan(Setting(sizes, mu, "record", promise.trust, promise.neighbours))


def walk_of(committed: Committed, noise: float) -> float:
    """Return how far the noise of a fit carries the prediction of a typical row.

    ``noise`` is that of the whole fit on each coordinate of the mean gradient, in clip norms.
    """
    now = committed.settings
    if committed.request.learning_rate is not None or not math.isfinite(now.clip_norm):
        return 0.0  # nothing is looked for
    reach = now.clip_norm * math.sqrt(committed.squared_row) * now.learning_rate * now.server_step
    return noise * sum(now.steps) * reach / (1 - now.momentum)
