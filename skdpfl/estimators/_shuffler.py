"""Where a shuffler does not help: a warning that says so, from the plan's public numbers."""

from __future__ import annotations

import dataclasses

import numpy as np

from skdpfl.estimators._warnings import warn
from skdpfl.privacy.mechanisms import Mechanism, SiloGradients
from skdpfl.privacy.mechanisms.shuffler import ShuffledSums
from skdpfl.privacy.plan import PrivacyPlan


def sized(mechanism: Mechanism, size: int) -> Mechanism:
    """Return the mechanism for messages of ``size`` numbers."""
    if isinstance(mechanism, ShuffledSums):
        return dataclasses.replace(mechanism, dimension=size)
    return mechanism


def warn_if_useless(plan: PrivacyPlan, epsilon: float | np.ndarray | None) -> None:
    """Compare the plan with silos that noise their own sums, at the same budget and batches."""
    if epsilon is None:  # noise was given
        per_silo = plan.spent().per_silo
        assert per_silo is not None  # records are protected here, not whole silos
        epsilon = per_silo.to_numpy()
    alone = dataclasses.replace(plan, trust="silo", mechanism=SiloGradients())
    alone = alone.calibrated(epsilon)
    ratio = alone.mechanism.noise_on_mean(alone) / plan.mechanism.noise_on_mean(plan)
    if ratio <= 1:
        batches = plan.expected_sizes
        warn(
            f'trust="shuffler" gains nothing here: with about {batches.mean():.0f} records of '
            f"each of {plan.n_silos * plan.silo_fraction:.0f} silos a round, the mean gradient "
            f'has {1 / ratio:.2g} times the noise of trust="silo", which needs no shuffler. '
            "Shuffling helps where many silos send a few records each."
        )
