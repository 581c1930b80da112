"""Check all parameters, separately and together, before any data are read."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import (
    check_average,
    check_choice,
    check_count,
    check_not_negative,
    check_number,
    check_positive,
    check_rate,
    check_share,
    is_auto,
)
from skdpfl._surface import Missing
from skdpfl._warnings import warn
from skdpfl.choosing import ACCELERATED, MOST_ROUNDS, check_cohort, spends_budget
from skdpfl.estimators._data import check_class_weight
from skdpfl.losses import NAMED, Loss, Weighted
from skdpfl.models import Additive, Architecture
from skdpfl.privacy.calibration import check_epsilon_says_something
from skdpfl.privacy.public_numbers import CONTRIBUTIONS, MOST_STEPS, check_schedule
from skdpfl.scaling import read_target_bounds

#: how far from 1 shares that were rounded may sum to
_ROUNDED = 0.02

#: A budget above this one is probably a mistake.
_MUCH = 50.0

#: The largest target bound whose squares, and sums of them, are finite.
_LARGEST_TARGET = 1e150

#: parameter -> its valid values, if they are strings
CHOICES: dict[str, tuple[Any, ...]] = {
    "unit": ("record", "person", "silo"),
    "neighbours": ("auto", "replace", "add_remove"),
    "sampling": ("poisson", "without_replacement", "with_replacement", "disjoint"),
    "scaling": ("auto", "private", None),
}


def check_parameters(name: str, params: dict[str, Any], words: dict[str, tuple[str, ...]]) -> None:
    """Raise a ValueError that names the first invalid parameter.

    ``words`` has the strings that are allowed for some parameters of this estimator.
    """
    if spends_budget(params):
        _check_until_spent(params)
    else:
        _check_budget(params["epsilon"], params["noise_multiplier"])
    _check_delta(params["delta"])
    for parameter, choices in CHOICES.items():
        if parameter in params:
            check_choice(parameter, params[parameter], choices)
    _check_trust(params["trust"], name, words["trust"])
    _check_loss(params.get("loss", words["loss"][0]), words["loss"])
    check_class_weight(params.get("class_weight"))
    class_shares(params.get("classes"))
    _check_numbers(params, words["learning_rate"])
    _check_running(params)
    _check_verbose(params["verbose"])
    check_count("max_categories", params["max_categories"], high=_MOST_CATEGORIES)
    _check_steps(params)
    _check_model(params)
    _check_weights(params["silo_weights"])
    if params.get("noise_schedule") is not None:
        check_schedule(params["noise_schedule"])
    check_cohort(params)
    _check_whole_silos(params)
    _check_persons(params)
    _check_together(params)


#: columns of one category, at most
_MOST_CATEGORIES = 10_000


def _check_trust(trust: Any, name: str, trusts: tuple[str, ...]) -> None:
    """Raise unless trust is one of these strings; objects have become "secagg" before."""
    if isinstance(trust, str) and trust == "shuffler" and trust not in trusts:
        raise ValueError(
            'trust="shuffler" is for ISRLDPClassifier and ISRLDPRegressor, which send messages of '
            f"single records; {name} supports trust={' or '.join(map(repr, trusts))}."
        )
    check_choice("trust", trust, trusts)


def class_shares(classes: Any) -> tuple[float, ...] | None:
    """Return the public shares in a parameter ``classes``, in the order of the sorted labels."""
    if not isinstance(classes, Mapping):
        return None
    for label, value in classes.items():
        check_share(f"classes[{label!r}]", value)
    total = sum(classes.values())
    if abs(total - 1) > _ROUNDED:
        raise ValueError(
            f"The shares in classes must sum to 1; those of {classes!r} sum to {total:.4g}."
        )
    order = np.argsort(np.asarray(list(classes)), kind="stable")
    return tuple((np.array(list(classes.values()), float)[order] / total).tolist())


def _check_loss(loss: Any, losses: tuple[str, ...]) -> None:
    """Raise unless loss is a name, or an object for the same kind of targets."""
    kind = NAMED[losses[0]]
    if isinstance(loss, Weighted):
        raise ValueError(
            f"loss={loss!r} must not have weights: give them to fit(..., sample_weight=...)."
        )
    fits = isinstance(loss, Loss) and loss.is_classifier == kind.is_classifier
    fits = fits and (loss.is_classifier or loss.one_slope == kind.one_slope)
    if not (fits or (isinstance(loss, str) and loss in losses)):
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, losses))}, or a loss object such as "
            f"skdpfl.losses.{kind.__name__}(); got {loss!r}."
        )


def _check_numbers(params: dict[str, Any], learning_rates: tuple[str, ...]) -> None:
    check_not_negative("alpha", params["alpha"])
    check_rate("silo_fraction", params["silo_fraction"])
    if not (is_auto(params["n_rounds"]) or spends_budget(params)):
        check_count("n_rounds", params["n_rounds"], words=' (or "auto" or "budget")')
        _check_bound("n_rounds", params["n_rounds"], MOST_ROUNDS)
    step = params["learning_rate"]
    if not (isinstance(step, str) and step in learning_rates):
        known = " or ".join(f'"{word}"' for word in learning_rates)
        check_positive("learning_rate", step, words=f" (or {known})")
    if not is_auto(params["clip_norm"]):  # squares of norms are sent, and must not overflow
        check_number("clip_norm", params["clip_norm"], low=1e-100, high=1e100, words=' (or "auto")')
    below_one = partial(check_number, low=0, high=1, open_high=True)
    own: dict[str, Any] = {"sampling_rate": check_rate, "momentum": below_one}
    for name, check in (own | {"global_learning_rate": check_positive}).items():
        if not is_auto(params.get(name, "auto")):
            check(name, params[name], words=' (or "auto")')
    if "warm_start_rounds" in params:
        check_count("warm_start_rounds", params["warm_start_rounds"], low=0)
    if params.get("radius") is not None:
        check_positive("radius", params["radius"])


def targets_of(loss: Loss, name: Any) -> str:
    """Return text about the targets that a regressor's loss takes."""
    low, high = loss.target_range
    span = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
    span = "above 0" if 0 < low < np.finfo(float).tiny else span
    return f"loss={name!r} takes targets {span}"


def check_named_bounds(bounds: Any, names: Any) -> None:
    """Raise for bounds by column name if columns have no names: their order may differ."""
    if isinstance(bounds, Mapping) and names is None and 0 not in bounds:
        raise ValueError(
            f"feature_bounds has column names, {list(bounds)[:3]!r} ..., but the columns of X have "
            "none. Give X as a frame (earlier steps of a pipeline keep frames after "
            'set_output(transform="pandas")), feature_names in the facts of remote silos, or '
            "the bounds as a pair (lows, highs)."
        )


def check_target_bounds(bounds: Any, loss: Loss, name: Any) -> None:
    """Raise for bounds outside the range of targets of the loss."""
    if bounds is None:
        return
    low, high = loss.target_range
    ends = read_target_bounds(bounds)
    if ends.low[0] < (0.0 if low > 0 else low) or ends.high[0] > high:
        raise ValueError(f"target_bounds={bounds!r}: {targets_of(loss, name)}.")
    if max(abs(ends.low[0]), abs(ends.high[0])) > _LARGEST_TARGET:
        raise ValueError(
            f"target_bounds={bounds!r} must be within -{_LARGEST_TARGET:g} and "
            f"{_LARGEST_TARGET:g}, since errors are squared: use a larger unit for the target."
        )


def _check_running(params: dict[str, Any]) -> None:
    for name in ("fit_intercept", "calibrate"):
        if not isinstance(params.get(name, True), (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False; got {params[name]!r}.")
    clips = params["clip_features"]
    if not is_auto(clips) and not isinstance(clips, (bool, np.bool_)):
        raise ValueError(f'clip_features must be "auto", True or False; got {clips!r}.')
    check_average(params["average"])
    jobs = params["n_jobs"]
    if jobs is not None and (not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(
            f"n_jobs must be None, a positive number of threads, or -1 for all; got {jobs!r}."
        )


def _check_model(params: dict[str, Any]) -> None:
    """Raise for an invalid model, and for parameters that need a linear model."""
    model = params["model"]
    if isinstance(model, str) and model in ("linear", "additive", "auto"):
        return
    if isinstance(model, Additive):
        model.check()
        return
    if not isinstance(model, Architecture):
        raise ValueError(
            'model must be "linear", "additive", "auto" or an object such as '
            f"skdpfl.models.MLP((100,)); got {model!r}."
        )
    name = type(model).__name__
    solver, rate = params.get("solver"), params["learning_rate"]
    if isinstance(solver, str) and solver in ACCELERATED:
        raise ValueError(
            f"solver={solver!r} needs a convex objective, and that of {name} is not "
            'convex; use solver="minibatch" or "local".'
        )
    if isinstance(rate, str) and rate == "optimal":
        raise ValueError(
            'learning_rate="optimal" is the published step size for convex objectives; with '
            f'model={name} use "auto" or a number.'
        )
    if params.get("radius") is not None:
        raise ValueError(
            f"radius={params['radius']!r} is for convex objectives; with model={name} use alpha to "
            "keep weights small."
        )
    if not params["fit_intercept"]:
        raise ValueError(
            f"fit_intercept=False is for linear models; {name} has intercepts in every layer."
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
        for value in _listed("local_epochs", epochs):
            check_positive("local_epochs", value)
            _check_bound("local_epochs", value, MOST_STEPS)
    elif steps is not None and not is_auto(steps):
        for value in _listed("local_steps", steps):
            check_count("local_steps", value, words=', a sequence of such, or "auto"')
            _check_bound("local_steps", value, MOST_STEPS)


def _listed(name: str, labels: Any) -> np.ndarray:
    """Return one value, or each of a sequence, which has one for each silo."""
    values = np.atleast_1d(np.asarray(labels, dtype=object))
    if not len(values):
        raise ValueError(f"{name} is empty: give one number, or one for each silo.")
    return values


def _check_bound(name: str, value: float, most: int) -> None:
    if value > most:
        raise ValueError(
            f"{name}={value!r} is too large: it must be at most {most:,}, since a "
            "plan lists them all."
        )


def _check_weights(weights: Any) -> None:
    if isinstance(weights, (Mapping, pd.Series)):
        for silo, value in weights.items():
            check_positive(f"silo_weights[{silo!r}]", value)
        return
    check_choice("silo_weights", weights, ("auto", "size", "uniform"))


def _check_together(params: dict[str, Any]) -> None:
    """Raise for parameters that exclude each other."""
    clips = params["clip_features"] and not is_auto(params["clip_features"])
    if clips and params["feature_bounds"] is None and params["scaling"] is None:
        raise ValueError(
            "clip_features=True clips to feature_bounds or to ranges found by scaling; give "
            "feature_bounds, or do not set scaling=None."
        )
    if params.get("sampling") == "disjoint" and not is_auto(params["sampling_rate"]):
        raise ValueError(
            'sampling="disjoint" splits the records into one batch per step, so sampling_rate must '
            f'be "auto"; got {params["sampling_rate"]!r}.'
        )
    fixed = params.get("sampling") in ("without_replacement", "with_replacement")
    if fixed and params["neighbours"] == "add_remove":
        raise ValueError(
            f'sampling="{params["sampling"]}" is priced under neighbours="replace" only; '
            'use sampling="poisson" with neighbours="add_remove".'
        )


def _check_whole_silos(params: dict[str, Any]) -> None:
    """Raise for parameters that are meaningless, or reveal sizes, with unit="silo"."""
    if params["unit"] != "silo":
        return
    if isinstance(params["silo_weights"], str) and params["silo_weights"] == "size":
        raise ValueError(
            'silo_weights="size" would reveal each silo\'s size, which unit="silo" protects; '
            'use "uniform" or a mapping of public weights.'
        )
    for name in ("epsilon", "delta"):
        if isinstance(params[name], (Mapping, pd.Series)):
            raise ValueError(
                f'unit="silo" has one {name} for all silos, since which silos take part is secret; '
                'got a mapping. Give a number, or use unit="record".'
            )
    if params.get("sampling", "poisson") == "disjoint":
        raise ValueError(
            'sampling="disjoint" needs to know the silos\' sizes, which unit="silo" protects; use '
            'sampling="poisson".'
        )


def _check_until_spent(params: dict[str, Any]) -> None:
    """Raise for parameters that do not go with n_rounds="budget"."""
    epsilon, noise = params["epsilon"], params["noise_multiplier"]
    if noise is None or not isinstance(epsilon, Real):
        raise ValueError(
            'n_rounds="budget" runs rounds of given noise until a budget is spent: give both '
            f"noise_multiplier and epsilon, one number; got {noise!r} and {epsilon!r}."
        )
    check_positive("epsilon", epsilon)
    check_positive("noise_multiplier", noise)
    each = [name for name in ("local_steps", "local_epochs") if np.ndim(params.get(name, 0))]
    for name in (*each, *(["cohort"] if not isinstance(params["cohort"], str) else [])):
        raise ValueError(f'n_rounds="budget" does not go with {name} of each round; give one.')
    if params.get("sampling") == "disjoint":
        raise ValueError(
            'n_rounds="budget" does not go with sampling="disjoint", whose rounds cost as much as '
            "one: give n_rounds."
        )


def _check_budget(epsilon: Any, noise_multiplier: Any) -> None:
    """Raise unless exactly one of epsilon and noise_multiplier is given and valid."""
    if (epsilon is None) == (noise_multiplier is None):
        raise ValueError(
            "Give either epsilon (a budget) or noise_multiplier with epsilon=None; got "
            f"epsilon={epsilon!r} and noise_multiplier={noise_multiplier!r}."
        )
    if epsilon is None:
        check_positive("noise_multiplier", noise_multiplier, " (no noise at all is epsilon=inf)")
        return
    for value in _each(epsilon):
        words = f" (inf for no privacy){_by_silo(value)}"
        check_number("epsilon", value, low=0, open_low=True, words=words)
        check_epsilon_says_something(value)
    if large := [value for value in _each(epsilon) if _MUCH < value < math.inf]:
        warn(
            f"epsilon={max(large):g} promises next to nothing. Is it intended? Usual budgets are "
            "between 0.1 and 10; epsilon=inf fits without noise."
        )


def _check_delta(delta: Any) -> None:
    """Raise unless delta is "auto", a number in (0, 1), or a mapping to such numbers."""
    if is_auto(delta):
        return
    for value in _each(delta):
        words = f' (or "auto"){_by_silo(value)}'
        check_share("delta", value, words=words)


def _each(budget: Any) -> list[Any]:
    """Return each silo's number, or the one for all."""
    if isinstance(budget, pd.Series):
        return budget.tolist()
    return list(budget.values()) if isinstance(budget, Mapping) else [budget]


def _by_silo(value: Any) -> str:
    """Return a hint at mappings if ``value`` is a list."""
    listed = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)
    return " or a mapping from silo to such numbers" if listed else ""


#: the largest number of features times classes of a plan
_MOST_COEFFICIENTS = 2 * 10**8


def check_shape(silo_sizes: Any, n_features: Any, n_classes: Any) -> tuple[pd.Series, int, int]:
    """Return the silos' sizes and the numbers of features and classes; raise for invalid ones."""
    sizes = pd.Series(silo_sizes, dtype=object)
    if sizes.empty:
        raise ValueError(f"silo_sizes must name at least one silo; got {silo_sizes!r}.")
    for silo, size in sizes.items():
        check_count(f"silo_sizes[{silo!r}]", size, high=10**12)
    features = check_count("n_features", n_features, high=_MOST_COEFFICIENTS // 2)
    classes = check_count("n_classes", n_classes, low=2)
    check_count("n_features * n_classes", features * classes, high=_MOST_COEFFICIENTS)
    return sizes.astype(np.int64), features, classes


def refuse_arguments(name: str, unnamed: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    """Raise for arguments that ``fit`` does not have."""
    if unnamed:
        raise TypeError(
            f"{name}.fit takes silos, persons and weights by name only: fit(X, y, silos=...), one "
            "id per row."
        )
    if arguments:
        names = ", ".join(map(repr, arguments))
        raise TypeError(
            f"{name}.fit takes X, y, silos, persons, sample_weight and exposure; got {names}."
        )


def _check_persons(params: Mapping[str, Any]) -> None:
    """Raise for parameters that do not go with unit="person", or need it."""
    if "person_column" not in params:
        return
    check_choice("contribution", params["contribution"], CONTRIBUTIONS)
    several = check_count("silos_per_person", params["silos_per_person"])
    if params["unit"] != "person":
        if several > 1:
            raise ValueError(
                f'silos_per_person={several} needs unit="person"; got unit={params["unit"]!r}.'
            )
        return
    model = params["model"]
    if not isinstance(model, str | Additive):
        raise ValueError(
            'unit="person" is for linear and additive models; got model='
            f'{type(model).__name__}. Use model="additive", or unit="record" with '
            "skdpfl.preprocessing.limit_rows."
        )
    if params["trust"] == "shuffler":
        raise ValueError(
            'trust="shuffler" sends messages of single records: with unit="person" use '
            'trust="silo", "secagg" or "server".'
        )
    for name in ("epsilon", "delta"):
        if several > 1 and isinstance(params[name], (Mapping, pd.Series)):
            raise ValueError(
                f"silos_per_person={several} needs one {name} for all silos, which a person's "
                "silos share; got a mapping."
            )


NO_PARTIAL_FIT = Missing(
    "there is no partial_fit: the cost of all rounds is fixed before the first. Fit anew with "
    "fit(X, y, silos=...); a PrivacyLedger keeps several fits on the same records to one budget."
)
