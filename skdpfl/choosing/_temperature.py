"""Whether a classifier's raw predictions are rescaled privately, and the prior of that scale.

Only classifiers with an epsilon and an automatic learning rate are, whose model has an
`output_mask`: not fits without privacy, within a radius, with unit="silo", trust="shuffler" or a
given noise_multiplier.
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
    """Return the releases that estimate the temperature, None if it is not estimated."""
    promise = request.guarantee
    chosen = request.calibrates and request.chooses_step and not method.has_own_step
    paid = promise.epsilon is not None and not promise.is_exact
    records = promise.unit == "record" and promise.trust != "shuffler"
    free = request.model.output_mask() is not None and request.radius is None
    if not (chosen and paid and records and free and request.loss.link == "logit"):
        return None
    sizes = request.facts.silo_sizes
    mu = np.broadcast_to(budgets(request, 1.0, 1), sizes.shape)
    return TemperaturePlan(Setting(sizes, mu, "record", promise.trust, promise.neighbours))


def walk_of(committed: Committed, noise: float) -> float:
    """Return how far the noise of a fit moves the prediction of a typical row.

    ``noise`` is the noise of the fit on each coordinate of the mean gradient, in clip norms.
    """
    now = committed.settings
    if committed.request.learning_rate is not None or not math.isfinite(now.clip_norm):
        return 0.0  # the temperature is not estimated
    reach = now.clip_norm * math.sqrt(committed.squared_row) * now.learning_rate * now.server_step
    return noise * sum(now.steps) * reach / (1 - now.momentum)
