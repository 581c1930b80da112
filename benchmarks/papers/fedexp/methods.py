"""The methods of all three figures: whole silos are protected, each silo sends one clipped move.

The paper's hyper-parameters are not known to us. Noise of every silo's own has the standard
deviation 0.7 C on a message, whose price over all rounds is shown; PrivUnit's messages are
(6, 0)-private each; the trusted server's noise is what epsilon 3 or 1 asks for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common.cells import Axis, Cell, known
from _common.claims import CLAIM

from skdpfl import DPFedAvgClassifier, DPFederatedClassifier, DPFederatedRegressor, algorithms
from skdpfl.papers import takakura2025
from skdpfl.privacy.mechanisms import PrivUnitMessages

#: noise on a message over its clip norm, where every silo adds its own
LOCAL_NOISE = 0.7
#: what a message by PrivUnit costs, without a delta
MESSAGE = 6.0
STEP = Axis("learning_rate", 0.3, 3.0, 1e-4, 1e4)
CLIP = Axis("clip_norm", 0.3, 3.0, 1e-4, 1e3)
SERVER = Axis("server_step", 3.0, 3.0, 0.1, 1e3)
METHODS = ("DP-FedAvg", "DP-FedAvg, server step tuned", "DP-FedEXP", "FedEXP, naive", "DP-SCAFFOLD")


@dataclass(frozen=True)
class PlusFedExp(algorithms.FedExp):
    """FedEXP; ``excess`` is added to the numerator.

    The naive rule takes the noised messages' mean squared norm as it is: the true one and
    size * std^2.
    """

    excess: float = 0.0

    def aggregate(self, state: Any, released: algorithms.Released) -> Any:
        more = released.squared_norm + self.excess
        return super().aggregate(state, dataclasses.replace(released, squared_norm=more))


class _Watched:
    """What keeps the server's steps of a fit."""

    def _unpack_outcome(self, outcome: Any) -> None:
        super()._unpack_outcome(outcome)  # type: ignore[misc]
        self.global_step_sizes_ = getattr(outcome.state, "step_sizes", ())


class WatchedRegressor(_Watched, DPFederatedRegressor):
    """DPFederatedRegressor with the server's steps."""


class WatchedClassifier(_Watched, DPFederatedClassifier):
    """DPFederatedClassifier with the server's steps."""


def model_of(
    kind: type, method: str, setting: str, epsilon: float, seed: int, *, n_silos: int, size: int,
    n_rounds: int, local_steps: int, clip_norm: float | str = "auto", fit_intercept: bool = True,
    **chosen: float,
) -> Any:  # fmt: skip
    """Return the unfitted model of a method."""
    noise = LOCAL_NOISE * clip_norm if setting == OWN else 0.0
    rate = scaffold_rate(setting, epsilon, n_silos, n_rounds, size)
    return kind(
        **budget(setting, epsilon), unit="silo", n_rounds=n_rounds, clip_norm=clip_norm,
        algorithm=algorithm(method, size, local_steps, noise, control_rate=rate, **chosen),
        fit_intercept=fit_intercept, scaling=None, average=False, random_state=seed,
    )  # fmt: skip


def steps_of(model: Any) -> tuple[tuple[str, float, float], ...]:
    """Return the points (metric, round, step) of FedEXP's steps; none of other methods."""
    steps = getattr(model, "global_step_sizes_", ())
    return tuple(("server step", float(at), step) for at, step in enumerate(steps, start=1))


def axes(method: str, private: bool) -> tuple[Axis, ...]:
    """Return what is tuned."""
    more = (SERVER,) if "tuned" in method else ()
    return (STEP, *((CLIP,) if private else ()), *more)


def algorithm(
    method: str, size: int, local_steps: int, noise: float, *, learning_rate: float,
    server_step: float = 1.0, control_rate: float = 1.0,
) -> algorithms.Algorithm:  # fmt: skip
    """Return the algorithm; ``noise`` is the standard deviation on a message."""
    if "EXP" in method:
        excess = size * noise**2 if "naive" in method else 0.0
        return PlusFedExp(learning_rate, local_steps, excess=excess)
    if "SCAFFOLD" in method:
        return algorithms.Scaffold(learning_rate, local_steps, control_rate=control_rate)
    return algorithms.FedAvg(learning_rate, local_steps, server_step)


def budget(setting: str, epsilon: float) -> dict[str, Any]:
    """Return the estimator's parameters: a budget, or the noise of every silo's own."""
    if math.isinf(epsilon):
        return {"epsilon": np.inf, "trust": "server"}
    if setting == OWN:
        return {"epsilon": None, "noise_multiplier": LOCAL_NOISE, "trust": "silo"}
    if setting == PRIVUNIT:
        return {"epsilon": epsilon, "trust": "silo", "mechanism": PrivUnitMessages()}
    return {"epsilon": epsilon, "trust": "server"}


@functools.cache
def scaffold_rate(setting: str, epsilon: float, n_silos: int, n_rounds: int, size: int) -> float:
    """Return the rate of control variates that ``DPScaffold`` takes under this noise.

    The server's control variate sums up the noise of all rounds: at the published rate of 1 it is a
    random walk, see :class:`skdpfl.algorithms.Scaffold`.
    """
    if math.isinf(epsilon):
        return 1.0
    model = DPFederatedRegressor(
        **budget(setting, epsilon), algorithm=algorithms.FedAvg(1.0), unit="silo",
        n_rounds=n_rounds, clip_norm=1.0, scaling=None, fit_intercept=False,
    )  # fmt: skip
    plan = model.plan_for(silo_sizes=[10] * n_silos, n_features=size)
    return algorithms.whole_silo_control_rate(n_rounds, 1.0, plan.mechanism.noise_norm(plan, size))


#: where the noise is -> epsilons; what that of silos' own costs depends on the rounds
TRUSTED, OWN = "trusted server", "noise of silos' own, 0.7 C"
PRIVUNIT = "PrivUnit, 6 a message"
PANELS = {TRUSTED: (3.0, 1.0, np.inf), OWN: (np.nan,), PRIVUNIT: (np.nan,)}


def panels(n_silos: int, n_rounds: int) -> Iterator[tuple[str, str, float]]:
    """Yield (setting, method, epsilon).

    Without a bias in the numerator none is corrected.
    """
    paid = {OWN: priced(n_silos, n_rounds)[0], PRIVUNIT: MESSAGE * n_rounds}
    for setting, epsilons in PANELS.items():
        for epsilon in epsilons:
            for method in METHODS:
                if "naive" not in method or setting == OWN:
                    yield setting, method, paid.get(setting, epsilon)


def claims(n_silos: int, n_rounds: int, setting: str) -> list[Cell]:
    """Return what the paper's proposition says that silos' own noise costs, and what it costs."""
    sound, delta = priced(n_silos, n_rounds)
    by_formula = takakura2025(noise_multiplier=LOCAL_NOISE, n_rounds=n_rounds, delta=delta)
    place = {"setting": setting, "metric": CLAIM}
    return [
        known("proposition 4.1", sound, by_formula, **place),
        known(CLAIM, sound, sound, **place),
    ]


@functools.cache
def priced(n_silos: int, n_rounds: int) -> tuple[float, float]:
    """Return the epsilon of silos' own noise over all rounds, for every silo, and its delta."""
    model = DPFedAvgClassifier(
        **budget(OWN, np.nan), unit="silo", n_rounds=n_rounds, clip_norm=1.0, scaling=None
    )
    spent = model.plan_for(silo_sizes=[10] * n_silos, n_features=1).spent()
    return round(float(spent.epsilon), 1), float(spent.delta)
