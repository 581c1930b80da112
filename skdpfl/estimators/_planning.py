"""From settings to the plan that is run and priced."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import is_auto
from skdpfl.algorithms import Algorithm, sends_one_gradient
from skdpfl.estimators._checks import per_silo
from skdpfl.estimators._facts import Facts
from skdpfl.estimators._noise_level import relation
from skdpfl.estimators._settle import Settled
from skdpfl.estimators._shuffler import sized, warn_if_useless
from skdpfl.estimators._warnings import warn
from skdpfl.estimators._whole_silos import adapted, first_clip_norm
from skdpfl.privacy.cohorts import draw_cohorts
from skdpfl.privacy.mechanisms import NoPrivacy
from skdpfl.privacy.mechanisms.precision import DOUBLE
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.pricing.automatic_delta import automatic_delta
from skdpfl.privacy.randomness.grid import PrecisionError
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.sampling import Disjoint, Sampling

#: the silos that take part in each round; None: all
Schedule = tuple[np.ndarray, ...] | None


def make_plan(
    estimator: Any, facts: Facts, settled: Settled, algorithm: Algorithm, streams: Streams
) -> PrivacyPlan:
    """Return the calibrated plan; no data are needed."""
    unit: Any = getattr(estimator, "unit", "record")
    trust: Any = estimator.trust
    settings = settled.settings
    _check_server(unit, trust, algorithm)
    steps = tuple(algorithm.n_gradients(r) for r in range(settings.n_rounds))
    schedule = _schedule(estimator, unit, facts, settings.n_rounds, streams)
    sampling = _dealt(settings.sampling, steps, schedule, facts)
    size = (facts.n_features + bool(estimator.fit_intercept)) * facts.n_outputs
    epsilon = _epsilon(estimator.epsilon, facts)
    exact = epsilon is not None and bool(np.all(np.isinf(epsilon)))
    mechanism = NoPrivacy() if exact else estimator._mechanism(unit, trust)
    plan = PrivacyPlan(
        silo_ids=facts.silo_ids,
        silo_sizes=facts.public_sizes,
        steps=steps,
        clip_norm=np.inf if exact else first_clip_norm(estimator, settings),
        noise_multiplier=np.asarray(estimator.noise_multiplier or 0.0, dtype=float),
        delta=_delta(estimator.delta, facts),
        unit=unit,
        trust=trust,
        neighbours=relation(estimator.neighbours, unit, trust),
        sampling=sampling,
        weights=_weights(estimator.silo_weights, unit, trust, facts, sampling),
        schedule=schedule,
        cohort=_cohort(estimator.cohort, unit, trust),
        silo_fraction=float(estimator.silo_fraction),
        noise_schedule=getattr(estimator, "noise_schedule", None),
        setup=() if exact else settled.scaling.setup,
        gradients_only=sends_one_gradient(algorithm),
        mechanism=sized(adapted(mechanism, estimator, algorithm, settings), size),
    )
    return plan if exact else _noised(plan, epsilon, size)


def _noised(plan: PrivacyPlan, epsilon: float | np.ndarray | None, size: int) -> PrivacyPlan:
    """Return the plan with the noise that meets the budget, or with the one given."""
    noised = plan.with_noise(plan.noise_multiplier) if epsilon is None else plan.calibrated(epsilon)
    if plan.trust == "shuffler":
        warn_if_useless(noised, epsilon)
    _check_noise(noised, size)
    return noised


def _check_noise(plan: PrivacyPlan, size: int) -> None:
    """Raise where the noise cannot be added exactly, in any precision there is."""
    if plan.unit == "silo":  # sizes are unknown here; messages are released in double precision
        return
    try:
        plan.mechanism.gradient_terms(plan, size, DOUBLE)
    except PrecisionError as error:
        raise ValueError(
            f"The budget asks for noise of {plan.noise_multiplier.max():.3g} times the clipping "
            f"norm, too {'much' if plan.noise_multiplier.max() > 1 else 'little'} to be added "
            "exactly. Give another epsilon (or delta, or noise_multiplier), or other n_rounds."
        ) from error


def _check_server(unit: str, trust: str, algorithm: Algorithm) -> None:
    """Raise where noise on the sum alone would not protect records."""
    if (unit, trust) == ("record", "server") and not sends_one_gradient(algorithm):
        raise ValueError(
            f'trust="server" with unit="record" takes one local step a round and keeps nothing in '
            f'the silos; {type(algorithm).__name__} does more. Nearest are trust="silo", '
            'unit="silo", ISRLDPClassifier / ISRLDPRegressor, or DPFedAvg with local_steps=1.'
        )


def _dealt(
    sampling: Sampling, steps: tuple[int, ...], schedule: Schedule, facts: Facts
) -> Sampling:
    """Return the sampling; for disjoint batches with as many parts as the busiest silo uses."""
    if not isinstance(sampling, Disjoint):
        return sampling
    used = np.zeros(facts.n_silos, dtype=int)
    for r, k in enumerate(steps):
        used[slice(None) if schedule is None else schedule[r]] += k
    busiest, smallest = int(used.max()), int(facts.silo_sizes.argmin())
    if facts.silo_sizes[smallest] < busiest:
        raise ValueError(
            f'sampling="disjoint" deals each silo\'s records into one batch per step: '
            f"{busiest} steps need at least as many records, but silo "
            f"{facts.silo_ids.tolist()[smallest]!r} has {facts.silo_sizes[smallest]}. Use fewer "
            "rounds."
        )
    return dataclasses.replace(sampling, n_parts=max(1, busiest))


def _epsilon(epsilon: Any, facts: Facts) -> float | np.ndarray | None:
    if epsilon is None:
        return None
    if isinstance(epsilon, (Mapping, pd.Series)):
        return per_silo("epsilon", epsilon, facts.silo_ids)
    return float(epsilon)


def _delta(delta: Any, facts: Facts) -> np.ndarray:
    """Return each silo's delta; one that a record's disappearance could reach is warned about."""
    if is_auto(delta):
        return np.full(facts.n_silos, automatic_delta(facts.n_protected))
    values, n = per_silo("delta", delta, facts.silo_ids), facts.n_protected
    if values.max() >= 1 / n:
        what = "record" if facts.public_sizes is not None else "silo"
        warn(
            f"delta={values.max():g} is at least 1 / n_{what}s = {1 / n:.2g}: giving out a whole "
            f"{what} with probability delta would be allowed. Use a smaller delta."
        )
    return values


def _weights(weights: Any, unit: str, trust: str, facts: Facts, sampling: Sampling) -> np.ndarray:
    """Return the silos' weights, summing to one over all silos."""
    if trust == "shuffler":  # messages have no sender: all count alike
        values = np.array([sampling.expected_size(n) for n in facts.silo_sizes.tolist()])
    elif isinstance(weights, (Mapping, pd.Series)):
        values = per_silo("silo_weights", weights, facts.silo_ids)
    elif weights == "uniform" or (weights == "auto" and unit == "silo"):
        values = np.ones(facts.n_silos)
    else:
        values = facts.silo_sizes.astype(float)
    return values / values.sum()


def _cohort(cohort: str, unit: str, trust: str) -> str:
    """Return how cohorts are drawn; "poisson" only where not being drawn hides a silo."""
    if cohort != "auto":
        return cohort
    return "poisson" if (unit, trust) == ("silo", "server") else "balanced"


def _schedule(estimator: Any, unit: str, facts: Facts, n_rounds: int, streams: Streams) -> Schedule:
    """Draw the public schedule of a record-level fit; None: everyone, or secret."""
    if unit == "silo" or estimator.silo_fraction >= 1:
        return None
    stream = streams.stream("cohorts")
    cohort = _cohort(estimator.cohort, unit, estimator.trust)
    drawn = draw_cohorts(cohort, estimator.silo_fraction, facts.n_silos, n_rounds, stream)
    return tuple(drawn)
