"""Every parameter, checked on its own and together with the others, before any data are read."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_share,
    is_auto,
)
from skdpfl.estimators._checks import check_budget, check_delta
from skdpfl.estimators._whole_silos import check_whole_silos
from skdpfl.privacy.schedules import check_schedule

#: name -> the values it may have, where a parameter is a word
CHOICES: dict[str, tuple[Any, ...]] = {
    "unit": ("record", "silo"),
    "neighbours": ("auto", "replace", "add_remove"),
    "sampling": ("poisson", "without_replacement", "disjoint"),
    "cohort": ("auto", "balanced", "uniform", "poisson"),
    "scaling": ("auto", "private", None),
}


def check_parameters(estimator: Any) -> None:
    """Raise a ValueError that names the first parameter that cannot be right."""
    params = estimator.get_params(deep=False)
    params.setdefault("unit", getattr(estimator, "unit", "record"))
    check_budget(params["epsilon"], params["noise_multiplier"])
    check_delta(params["delta"])
    for name, choices in CHOICES.items():
        if name in params:
            check_choice(name, params[name], choices)
    _check_trust(params["trust"], estimator)
    check_choice("loss", params.get("loss", estimator._losses[0]), estimator._losses)
    _check_numbers(params, estimator._learning_rates)
    _check_running(params)
    _check_verbose(params["verbose"])
    _check_steps(params)
    _check_weights(params["silo_weights"])
    if params.get("noise_schedule") is not None:
        check_schedule(params["noise_schedule"])
    check_whole_silos(params)
    _check_together(params)
    estimator._check_own()


def _check_trust(trust: Any, estimator: Any) -> None:
    if trust == "shuffler" and trust not in estimator._trusts:
        raise ValueError(
            'trust="shuffler" shuffles messages of single records, as ISRLDPClassifier and '
            f"ISRLDPRegressor send them; nearest for {type(estimator).__name__} are "
            f"{' and '.join(f'trust={known!r}' for known in estimator._trusts)}."
        )
    check_choice("trust", trust, estimator._trusts)


def _check_numbers(params: dict[str, Any], learning_rates: tuple[str, ...]) -> None:
    check_number("alpha", params["alpha"], low=0, open_high=True)
    check_number("silo_fraction", params["silo_fraction"], low=0, high=1, open_low=True)
    if not is_auto(params["n_rounds"]):
        check_count("n_rounds", params["n_rounds"], words=' (or "auto")')
    for name, words in (("learning_rate", learning_rates), ("clip_norm", ("auto",))):
        if not (isinstance(params[name], str) and params[name] in words):
            known = " or ".join(f'"{word}"' for word in words)
            check_positive(name, params[name], words=f" (or {known})")
    if not is_auto(params["sampling_rate"]):
        rate = params["sampling_rate"]
        check_number("sampling_rate", rate, low=0, high=1, open_low=True, words=' (or "auto")')
    if "momentum" in params:
        check_number("momentum", params["momentum"], low=0, high=1, open_high=True)
    if "global_learning_rate" in params:
        check_positive("global_learning_rate", params["global_learning_rate"])
    if "warm_start_rounds" in params:
        check_count("warm_start_rounds", params["warm_start_rounds"], low=0)
    if params.get("radius") is not None:
        check_positive("radius", params["radius"])
    if "huber_delta" in params:
        check_positive("huber_delta", params["huber_delta"])
    if "quantile" in params:
        check_share("quantile", params["quantile"])


def _check_running(params: dict[str, Any]) -> None:
    for name in ("average", "fit_intercept"):
        if not isinstance(params[name], (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False; got {params[name]!r}.")
    jobs = params["n_jobs"]
    if jobs is not None and (not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(
            f"n_jobs must be None, a positive number of threads, or -1 for all; got {jobs!r}."
        )


def _check_verbose(verbose: Any) -> None:
    if not isinstance(verbose, (Integral, np.bool_)) or verbose < 0:
        raise ValueError(f"verbose must be True, False or an integer >= 0; got {verbose!r}.")


def _check_steps(params: dict[str, Any]) -> None:
    steps, epochs = params.get("local_steps"), params.get("local_epochs")
    if epochs is not None:
        if not is_auto(steps):
            raise ValueError(
                f"Give local_steps or local_epochs, not both; got {steps!r} and {epochs!r}."
            )
        for value in np.atleast_1d(np.asarray(epochs, dtype=object)):
            check_positive("local_epochs", value)
    elif steps is not None and not is_auto(steps):
        for value in np.atleast_1d(np.asarray(steps, dtype=object)):
            check_count("local_steps", value, words=', a sequence of such, or "auto"')


def _check_weights(weights: Any) -> None:
    if isinstance(weights, (Mapping, pd.Series)):
        for silo, value in weights.items():
            check_positive(f"silo_weights[{silo!r}]", value)
        return
    check_choice("silo_weights", weights, ("auto", "size", "uniform"))


def _check_together(params: dict[str, Any]) -> None:
    """Check pairs of parameters that exclude each other."""
    if params.get("sampling") == "disjoint" and not is_auto(params["sampling_rate"]):
        raise ValueError(
            'sampling="disjoint" deals the records into as many batches as there are steps; got '
            f'sampling_rate={params["sampling_rate"]!r} besides. Leave it "auto".'
        )
    if params.get("sampling") == "without_replacement" and params["neighbours"] == "add_remove":
        raise ValueError(
            'sampling="without_replacement" is priced under neighbours="replace" only; '
            'use sampling="poisson" with neighbours="add_remove".'
        )
