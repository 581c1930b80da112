"""From settings to the plan that is run and priced."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.algorithms import Algorithm
from skdpfl.estimators._checks import automatic_delta, is_auto, per_silo
from skdpfl.estimators._facts import Facts
from skdpfl.estimators._settle import Settled
from skdpfl.privacy.cohorts import draw_cohorts
from skdpfl.privacy.mechanisms import NoPrivacy
from skdpfl.privacy.plan import PrivacyPlan, mechanism_for
from skdpfl.privacy.random import Streams


def make_plan(
    estimator: Any, facts: Facts, settled: Settled, algorithm: Algorithm, streams: Streams
) -> PrivacyPlan:
    """Return the calibrated plan; no data are needed."""
    unit, trust = getattr(estimator, "unit", "record"), estimator.trust
    settings = settled.settings
    steps = tuple(algorithm.n_gradients(r) for r in range(settings.n_rounds))
    epsilon = _epsilon(estimator.epsilon, facts)
    exact = epsilon is not None and bool(np.all(np.isinf(epsilon)))
    plan = PrivacyPlan(
        silo_ids=facts.silo_ids,
        silo_sizes=facts.silo_sizes,
        steps=steps,
        clip_norm=np.inf if exact else settings.clip_norm,
        noise_multiplier=0.0 if estimator.noise_multiplier is None else estimator.noise_multiplier,
        delta=_delta(estimator.delta, facts),
        unit=unit,
        trust=trust,
        neighbours=_neighbours(estimator.neighbours, unit, trust),
        sampling=settings.sampling,
        weights=_weights(estimator.silo_weights, unit, facts),
        schedule=_schedule(estimator, unit, facts, settings.n_rounds, streams),
        cohort=_cohort(estimator.cohort, unit),
        silo_fraction=float(estimator.silo_fraction),
        noise_schedule=getattr(estimator, "noise_schedule", None),
        setup=() if exact else settled.scaling.setup,
        gradients_only=algorithm.releases_only_gradients,
        mechanism=NoPrivacy() if exact else mechanism_for(unit, trust),
    )
    if exact:
        return plan
    if epsilon is None:
        return plan.with_noise(plan.noise_multiplier)
    return plan.calibrated(epsilon)


def _epsilon(epsilon: Any, facts: Facts) -> float | np.ndarray | None:
    if epsilon is None:
        return None
    if isinstance(epsilon, (Mapping, pd.Series)):
        return per_silo("epsilon", epsilon, facts.silo_ids)
    return float(epsilon)


def _delta(delta: Any, facts: Facts) -> np.ndarray:
    """Return each silo's delta; one that a record's disappearance could reach is warned about."""
    if is_auto(delta):
        return np.full(facts.n_silos, automatic_delta(facts.n_records))
    values = per_silo("delta", delta, facts.silo_ids)
    if values.max() >= 1 / facts.n_records:
        warnings.warn(
            f"delta={values.max():g} is at least 1 / n_records = {1 / facts.n_records:.2g}: giving "
            "out a whole record with probability delta would be allowed. Use a smaller delta.",
            UserWarning,
            stacklevel=4,
        )
    return values


def _neighbours(neighbours: str, unit: str, trust: str) -> str:
    if neighbours != "auto":
        return neighbours
    return "add_remove" if (unit, trust) == ("silo", "server") else "replace"


def _weights(weights: Any, unit: str, facts: Facts) -> np.ndarray:
    """Return the silos' weights, summing to one over all silos."""
    if isinstance(weights, (Mapping, pd.Series)):
        values = per_silo("silo_weights", weights, facts.silo_ids)
    elif weights == "uniform" or (weights == "auto" and unit == "silo"):
        values = np.ones(facts.n_silos)
    else:
        values = facts.silo_sizes.astype(float)
    return values / values.sum()


def _cohort(cohort: str, unit: str) -> str:
    if cohort != "auto":
        return cohort
    return "balanced" if unit == "record" else "poisson"


def _schedule(
    estimator: Any, unit: str, facts: Facts, n_rounds: int, streams: Streams
) -> tuple[np.ndarray, ...] | None:
    """Draw the public schedule of a record-level fit; None: everyone, or secret."""
    if unit == "silo" or estimator.silo_fraction >= 1:
        return None
    stream = streams.stream("cohorts")
    cohort = _cohort(estimator.cohort, unit)
    drawn = draw_cohorts(cohort, estimator.silo_fraction, facts.n_silos, n_rounds, stream)
    return tuple(drawn)
