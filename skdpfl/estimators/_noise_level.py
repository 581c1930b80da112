"""How noisy a whole fit will be, before it is planned: from budgets, sizes and weights.

::

    mu_i   what silo i may spend, as Gaussian DP (N(0, 1) against N(mu, 1))
    s      noise of the whole fit on each coordinate of the mean gradient, in clip norms

    unit "record"   trust "silo"     s = D sqrt( sum_i (w_i / (n_i mu_i))^2 )
                    else             s = D max_i w_i / (n_i mu)
    unit "silo"                      the same with n_i = 1

D = 2 where a record (silo) is replaced, 1 where its contribution is set to zero. Why one number
says it all: T noisy gradients with noise multiplier z = D sqrt(T) / mu each have noise
z / n = D sqrt(T) / (mu n), and their average has D / (mu n), whatever T is. Sampled batches
(rate q) have z about q D sqrt(T) / mu on sums of q n records: the same again, as long as z is not
far below one.

**Drowned regressions.** A record's gradient is its residual's sign times its row, cut to one clip
norm. Of P scaled, uncorrelated features (rows of norm rho) that explain all of a target the mean is
``sqrt(2 / pi) / rho`` long at most; the noise on it is ``s sqrt(P)`` long. So beyond
``s sqrt(P) rho = 1.5`` there is twice as much noise as anything to learn. Fits of benchmarks/auto
have 0.9 (R2 0.22 instead of 0.72) and less; 1000 records of 400 features at epsilon 3 have 2.4, and
R2 below 0. Labels survive more: a prediction's sign needs no scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdpfl._arguments import is_auto
from skdpfl.estimators._auto import Rows
from skdpfl.estimators._checks import per_silo
from skdpfl.estimators._facts import Facts
from skdpfl.privacy.pricing.automatic_delta import automatic_delta
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.pricing.price import Neighbours

#: (D / z)^2 beyond this is no privacy; the square of mu grows exponentially in it
_MOST = 50.0
#: noise over what a mean gradient can show of a regression, see above
_DROWNED = 1.5


class Level(NamedTuple):
    """The smallest budget of a silo, and the noise it leaves on the mean gradient."""

    mu: float
    noise: float


def noise_level(estimator: Any, facts: Facts, rate: float, n_steps: int) -> Level:
    """Return the level of a fit of ``n_steps`` private gradients of a silo at sampling ``rate``."""
    unit, trust = getattr(estimator, "unit", "record"), estimator.trust
    change = 2.0 if relation(estimator.neighbours, unit, trust) == "replace" else 1.0
    mu = _budgets(estimator, facts, change, rate, n_steps)
    exposed = _weights(estimator.silo_weights, facts) / (
        1.0 if facts.public_sizes is None else facts.public_sizes
    )
    least = float(mu.min())
    if trust == "silo":
        return Level(least, change * float(np.sqrt(np.square(exposed / mu).sum())))
    return Level(least, change * float(exposed.max()) / least)


def drowned(noise: float, rows: Rows) -> str:
    """Return what to say of a regression of records in which there will be little but noise."""
    if rows.is_classifier or noise * math.sqrt(rows.n_parameters) * rows.norm <= _DROWNED:
        return ""
    return (
        f"The noise will drown what {rows.n_records} records can show of {rows.n_parameters} "
        "coefficients, so predictions may be worse than the target's mean. Use fewer features, "
        "more records or a larger epsilon."
    )


def _budgets(estimator: Any, facts: Facts, change: float, rate: float, n_steps: int) -> np.ndarray:
    """Return mu of each silo, or one for all (1,)."""
    if estimator.epsilon is None:
        z = float(estimator.noise_multiplier)
        if rate >= 1:
            return np.array([change * math.sqrt(n_steps) / z])
        growth = math.expm1(min((change / z) ** 2, _MOST))
        hits = rate * n_steps  # how often a record is drawn: hardly ever more often than this
        often = min(n_steps, hits + 4 * math.sqrt(hits) + 3)
        return np.array([min(rate * math.sqrt(n_steps * growth), change * math.sqrt(often) / z)])
    mapped = isinstance(estimator.epsilon, (Mapping, pd.Series))
    epsilon = per_silo("epsilon", estimator.epsilon, facts.silo_ids) if mapped else None
    if is_auto(estimator.delta):
        delta = np.array([automatic_delta(facts.n_protected)])
    elif isinstance(estimator.delta, (Mapping, pd.Series)):
        delta = per_silo("delta", estimator.delta, facts.silo_ids)
    else:
        delta = np.array([float(estimator.delta)])
    epsilon = np.array([float(estimator.epsilon)]) if epsilon is None else epsilon
    pairs, code = np.unique(
        np.column_stack(np.broadcast_arrays(epsilon, delta)), axis=0, return_inverse=True
    )
    return np.array([_mu(float(e), float(d)) for e, d in pairs])[code.ravel()]


@lru_cache(maxsize=4096)
def _mu(epsilon: float, delta: float) -> float:
    return gaussian_mu(epsilon, delta)


def relation(neighbours: Any, unit: str, trust: str) -> Neighbours:
    """Return the relation that the guarantee is about."""
    if neighbours != "auto":
        return neighbours
    return "add_remove" if (unit, trust) == ("silo", "server") else "replace"


def _weights(weights: Any, facts: Facts) -> np.ndarray:
    """Return the silos' weights in the mean."""
    if isinstance(weights, (Mapping, pd.Series)):
        values = per_silo("silo_weights", weights, facts.silo_ids)
    elif weights == "uniform" or facts.public_sizes is None:
        values = np.ones(facts.n_silos)
    else:
        values = facts.public_sizes.astype(float)
    return values / values.sum()
