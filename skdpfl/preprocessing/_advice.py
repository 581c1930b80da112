"""What to give where a plan's budget does not reach to find scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skdpfl.preprocessing._plan import ScalingPlan

#: counts noisier than this find no scales
HOPELESS = 0.25


def advised(plan: ScalingPlan, target: str = "") -> ScalingPlan:
    """Say what to give where the budget does not reach; ``target``: what became of it."""
    advice = []
    if plan.features in ("squash", "refined squash"):
        advice.append(
            f"The budget does not reach to find the scales of {plan.n_features} features privately "
            f"in {_silos(plan)}, so features are squashed into (-1, 1) whatever their scale, which "
            "costs accuracy. Give feature_bounds=(low, high), a range per feature that is public "
            "knowledge, or scale them beforehand by public numbers and set scaling=None."
        )
    elif plan.features == "private" and counts_noise(plan) > HOPELESS:
        advice.append(
            f"The scales of {plan.n_features} features found privately in {_silos(plan)} will be "
            "mostly noise. Give feature_bounds=(low, high)."
        )
    if target or target_is_hopeless(plan):
        found = f"cannot be found privately in {_silos(plan)}, so it is {target}"
        if not target:
            found = f"found privately in {_silos(plan)} will be mostly noise"
        advice.append(
            f"The target's scale {found}. Give target_bounds=(low, high), a range that is public "
            "knowledge."
        )
    return replace(plan, advice=" ".join(advice))


def _silos(plan: ScalingPlan) -> str:
    """How much data there is, in public numbers: a protected silo's size is none."""
    if plan.setting.unit == "silo":
        return f"{plan.setting.n_silos} protected silos"
    n_silos, n = plan.setting.n_silos, int(np.sum(plan.setting.silo_sizes))
    return f"{n} records of one silo" if n_silos == 1 else f"{n} records of {n_silos} silos"


def target_is_hopeless(plan: ScalingPlan) -> bool:
    """Whether what would be found as the target's scale is noise, and nothing to predict by."""
    alone = plan.target == "private" and plan.features != "private"
    return alone and counts_noise(plan) > HOPELESS


def counts_noise(plan: ScalingPlan) -> float:
    """The counts' noise, in shares of all records."""
    return float(plan.noise(plan.counts).max()) if plan.counts is not None else 0.0
