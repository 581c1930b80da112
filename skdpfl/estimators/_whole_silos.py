"""What a fit that protects whole silos does differently, beside where the noise is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pandas as pd

from skdpfl._arguments import is_auto
from skdpfl.algorithms import Algorithm, whole_silo_control_rate
from skdpfl.estimators._facts import Settings
from skdpfl.estimators._theory import Committed
from skdpfl.estimators._warnings import warn
from skdpfl.privacy.mechanisms import LearntClip, Mechanism, NoPrivacy, WholeMessages

#: where a learnt clip norm starts, of the highest it may take
START = 0.3


def first_clip_norm(estimator: Any, settings: Settings) -> float:
    """Return what gradients (unit "silo": the first round's messages) are clipped to."""
    if getattr(estimator, "unit", "record") == "record" or not is_auto(estimator.clip_norm):
        return settings.clip_norm
    return START * settings.clip_norm


def adapted(
    mechanism: Mechanism, estimator: Any, algorithm: Algorithm, settings: Settings
) -> Mechanism:
    """Return the mechanism with what the algorithm reads and the parameters leave open."""
    if isinstance(mechanism, NoPrivacy):
        return dataclasses.replace(mechanism, squared_norms=algorithm.reads_squared_norm)
    if isinstance(mechanism, WholeMessages):
        learnt = is_auto(estimator.clip_norm)
        return dataclasses.replace(
            mechanism,
            squared_norms=algorithm.reads_squared_norm,
            clipping=LearntClip(highest=settings.clip_norm) if learnt else None,
        )
    if algorithm.reads_squared_norm:
        raise ValueError(
            f"{type(algorithm).__name__} reads the squared norms of the messages, which are "
            f'released where whole silos are protected: give unit="silo", not '
            f"{estimator.unit!r}."
        )
    return mechanism


def control_rate(known: Committed) -> float:
    """Return how fast SCAFFOLD's control variates follow: slower under noise on whole messages."""
    plan = known.plan
    if plan.unit == "record" or not plan.private:
        return 1.0
    return whole_silo_control_rate(plan.n_rounds, plan.silo_fraction, relative_noise(known))


def relative_noise(known: Committed) -> float:
    """Return the norm of the noise on a round's mean message, in clip norms."""
    plan = known.plan
    assert isinstance(plan.mechanism, WholeMessages)
    return plan.mechanism.noise_norm(plan, known.n_parameters) / plan.clip_norm


def warn_of_noise(estimator: Any, known: Committed) -> None:
    """Warn where not even the average of all rounds would show anything but noise."""
    plan = known.plan
    if plan.unit == "record" or not plan.private or estimator.epsilon is None:
        return
    noise = relative_noise(known) / plan.n_rounds**0.5
    if noise <= 1:
        return
    needed = plan.n_silos * (noise if plan.trust == "server" else noise**2)
    warn(
        f"Hiding a whole silo among {plan.n_silos} takes noise that leaves nothing of the data: "
        f"averaged over all rounds it is still {noise:.2g} times as long as any silo's message. "
        f"About {needed:.2g} silos would do at this budget"
        + ("" if plan.trust == "server" else ', fewer with trust="server"')
        + '; unit="record" protects single records with far less.'
    )


def check_whole_silos(params: dict[str, Any]) -> None:
    """Raise for parameters that mean nothing, or tell something, where silos are protected."""
    if params["unit"] != "silo":
        return
    if params["trust"] == "shuffler":
        raise ValueError(
            'unit="silo" does not go together with trust="shuffler"; nearest are trust="silo" and '
            'trust="server".'
        )
    if params["silo_weights"] == "size":
        raise ValueError(
            'silo_weights="size" would tell each silo\'s size, which unit="silo" protects; use '
            '"uniform" or a mapping of public weights.'
        )
    for name in ("epsilon", "delta"):
        if isinstance(params[name], (Mapping, pd.Series)):
            raise ValueError(
                f'unit="silo" has one {name} for all silos (who pays is secret); got a mapping. '
                'Give a number, or use unit="record".'
            )
    if params.get("noise_schedule") is not None:
        raise ValueError(
            'noise_schedule is about the noise on records\' gradients; unit="silo" noises whole '
            f"messages, all alike. Got {params['noise_schedule']!r}; leave it None."
        )
    if params.get("sampling", "poisson") == "disjoint":
        raise ValueError(
            'sampling="disjoint" needs to know the silos\' sizes, which unit="silo" protects; use '
            'sampling="poisson".'
        )
