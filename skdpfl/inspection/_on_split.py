"""The cost of the fits of a cross-validation on training sets, whose models are discarded.

Their costs are recomputed from the plan of the fit that was kept. The automatic delta, and so the
noise of a fit, follows from the number of records, so the size of each training set is needed. It
is found without the records: splitters are run on the same number of made-up rows, in the same
silos.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    LeaveOneGroupOut,
    LeavePGroupsOut,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    check_cv,
)

from skdpfl._pipelines import gives_out_width, learns_nothing
from skdpfl.inspection._parts import Unknown, is_priced, parts
from skdpfl.model_selection import LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold
from skdpfl.preprocessing import DPPCA, PayingTransformer, PrivateScaler
from skdpfl.privacy.calibration import delta_of
from skdpfl.privacy.events import Approximate, Composition, Exact, Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.spending.as_fitted import differences, own_digests
from skdpfl.privacy.spending.ledger import Recorded
from skdpfl.privacy.spending.spent import PrivacySpent, chosen_by_outputs

#: splitters that are told the silos
_OF_SILOS = (LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold)
#: splitters whose folds follow the labels
_OF_LABELS = (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
#: splitters that leave each group out, whatever its size
_OF_GROUPS = (LeaveOneGroupOut, LeavePGroupsOut)
#: made-up silos, and records of each, that splits of records are tried on
_TRIED = 50


def follows_labels(cv: Any, *, classifier: bool) -> bool:
    """Whether changing one label can move other records to other folds."""
    by_default = classifier and (cv is None or isinstance(cv, (int, np.integer)))
    return by_default or isinstance(cv, _OF_LABELS) or bool(getattr(cv, "stratify_y", False))


def follows_sizes(cv: Any) -> bool:
    """Whether changing one silo's size can move other silos, or their records, to other folds."""
    if isinstance(cv, SiloKFold):
        return not cv.shuffle
    return not isinstance(cv, (LeaveOneSiloOut, *_OF_GROUPS, list, tuple))


def training_shares(
    cv: Any, fitted: Any, *, any_size: bool, count: int | None = None
) -> list[float]:
    """Return the share of the records (unit "silo": silos) in each training set, or raise Unknown.

    ``fitted`` is a part that was fitted on all records, ``count`` the number of splits, if known.
    If nothing else is known, training sets count as equally large, provided that costs are the same
    at ``any_size`` (the delta was given).
    """
    silos, whole = _silos_of(fitted)
    if whole and not getattr(cv, "_leaves_silos_out", False):
        sizes = [len(silos)] * _number(cv, count)  # all silos are in all sets, or nearly so
    else:
        sizes = _sizes(cv, silos)
    if sizes and count in (None, len(sizes)):
        return [size / len(silos) for size in sizes]
    if count is None or not any_size:
        raise Unknown(type(cv).__name__)
    return [1 - 1 / count] * count


def _number(cv: Any, count: int | None) -> int:
    """Return the number of splits of records whose number is secret; 0 if unknown.

    It is also 0 if splits may have left silos out.
    """
    tried = [len(_sizes(cv, np.repeat(np.arange(_TRIED), n))) for n in (_TRIED, _TRIED + 1)]
    if isinstance(cv, (list, tuple)) or not tried[0]:
        return 0
    return count or (tried[0] if tried[0] == tried[1] else 0)


def _sizes(cv: Any, silos: np.ndarray) -> list[int]:
    """Return the numbers of rows of the training sets; empty if they cannot be found."""
    try:
        return [len(rows) for rows in _training(cv, silos)]
    except (ValueError, TypeError, KeyError, IndexError):  # it needs labels or groups
        return []


def _silos_of(fitted: Any) -> tuple[np.ndarray, bool]:
    """Return the silo of each record, and whether whole silos are protected."""
    plan = getattr(fitted, "plan_", None)
    if plan is None:
        n_silos, n = len(fitted.silo_ids_), getattr(fitted, "n_samples_seen_", None)
        return (np.arange(n_silos), True) if n is None else (np.arange(n) % n_silos, False)
    if plan.silo_sizes is None:
        return np.arange(plan.n_silos), True
    return np.repeat(np.arange(plan.n_silos), plan.silo_sizes), False


def _training(cv: Any, silos: np.ndarray) -> Iterator[Sequence[int]]:
    """Yield the rows of each training set."""
    if not (cv is None or isinstance(cv, (int, np.integer, list, tuple)) or hasattr(cv, "split")):
        raise TypeError("An iterator was used up by the fit.")
    splitter = copy.deepcopy(check_cv(cv))  # a generator of random numbers moves on
    table, labels = np.zeros((len(silos), 1)), np.zeros(len(silos))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not isinstance(splitter, _OF_SILOS):
            found = splitter.split(table, labels)
        elif splitter.silo_column is None:
            found = splitter.split(table, labels, silos=silos)
        else:
            found = splitter.split(pd.DataFrame({splitter.silo_column: silos}), labels)
        yield from (train for train, _ in found)


def budget(fitted: Any) -> float:
    """Return the largest epsilon given for a silo; infinity for given noise."""
    given = fitted.epsilon
    if given is None:
        return math.inf
    return float(max(dict(given).values()) if isinstance(given, Mapping | pd.Series) else given)


def costs_of_candidate(
    candidate: Any, best: Any, cv: Any, n_splits: int, *, chosen: bool
) -> list[PrivacySpent]:
    """Return the costs of a candidate's fits on all splits, or raise Unknown.

    Every private part of the candidate needs a fitted counterpart at the same position in the best
    one, whose sizes determine its price. ``chosen``: the plans depend on an output of an earlier
    step.
    """
    twins = dict(fitted_parts(best, ""))
    given = {"": candidate, **candidate.get_params(deep=True)}
    for name, inner in given.items():
        if isinstance(inner, Recorded) and not learns_nothing(inner):
            _check_place(name, twins, given)
    found, chosen = [], chosen or gives_out_width(best)
    for path, twin in twins.items():
        if path not in given:  # a member of an ensemble, not a parameter
            raise Unknown(path)
        inner = given[path]
        if learns_nothing(inner) or isinstance(inner, FrozenEstimator):
            continue
        found += costs_on_splits(inner, twin, cv, n_splits, chosen=chosen)
    return found


def changed_candidate(candidate: Any, best: Any) -> list[str]:
    """Return the parameters of the best candidate's private parts that changed after its fit."""
    given, found = {"": candidate, **candidate.get_params(deep=True)}, []
    for path, twin in fitted_parts(best, ""):
        before = getattr(twin, "_as_fitted", None)
        if before is not None and hasattr(given.get(path), "get_params"):
            names = differences(before.own, own_digests(given[path]))
            found += [f"{path}__{name}" if path else name for name in names]
    return found


def fitted_parts(obj: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, part) of all fitted private parts, except frozen ones."""
    if isinstance(obj, FrozenEstimator):
        return
    if is_priced(obj):
        yield path, obj
        return
    for name, part in parts(obj) or []:
        yield from fitted_parts(part, f"{path}__{name}" if path else name)


def _is_within(name: str, path: str) -> bool:
    return name != path and (path == "" or name.startswith(f"{path}__"))


def _check_place(name: str, twins: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise Unknown unless a private parameter has a counterpart, is part of one or not fitted."""
    frozen = [n for n, value in given.items() if isinstance(value, FrozenEstimator)]
    if name not in twins and not any(_is_within(name, path) for path in (*twins, *frozen)):
        raise Unknown(name)


def _is_twin(inner: Any, fitted: Any) -> bool:
    """Whether the fitted part has the sizes that determine the other one's price."""
    if isinstance(inner, PayingTransformer):
        return isinstance(fitted, PayingTransformer)
    return hasattr(inner, "plan_for") and hasattr(fitted, "plan_")


def costs_on_splits(
    inner: Any, fitted: Any, cv: Any, n_splits: int | None = None, *, chosen: bool
) -> list[PrivacySpent]:
    """Return the cost of a candidate's fit on each training set, or raise Unknown.

    ``fitted`` is the candidate's counterpart, fitted on all records. ``chosen``: the plan depends
    on an output of an earlier step.
    """
    if not _is_twin(inner, fitted):
        raise Unknown(type(inner).__name__)
    if inner.random_state is not None and not isinstance(inner.random_state, Integral):
        raise Unknown("every fit had a copy of random_state, so that all have the same noise")
    given = not isinstance(inner.delta, str)
    shares = training_shares(cv, fitted, any_size=given, count=n_splits)
    costs = {share: _cost_on_split(inner, fitted, share, cv) for share in set(shares)}
    if chosen:
        costs = {share: chosen_by_outputs(cost, budget(inner)) for share, cost in costs.items()}
    return [costs[share] for share in shares]


def _cost_on_split(inner: Any, fitted: Any, share: float, cv: Any) -> PrivacySpent:
    """Return the cost of a fit on a training set of this share of the records, or silos.

    It is priced for this share of every silo. Splits that do not keep the silos' shares may have
    more or less of a silo. A fit with a given epsilon has met it anyway. The cost of given noise
    may depend on sizes, since batches of a small silo are a larger part of it.
    """
    seed = inner.random_state
    if isinstance(inner, PayingTransformer):
        return _of_transformer(inner, fitted, share, frozenset(_seeds(seed)))
    drawn = str(inner.cohort) in ("uniform", "poisson") and inner.silo_fraction < 1
    if drawn and inner.epsilon is None and not isinstance(seed, Integral):
        raise Unknown("the cost of given noise depends on how often each silo was drawn")
    ids, whole = fitted.plan_.silo_ids, fitted.plan_.silo_sizes
    if whole is None:  # protected sizes
        ids = ids[: max(1, math.floor(share * len(ids) + 1e-9))]
        sizes = np.ones(len(ids), int)
    else:
        sizes = np.maximum(1, np.floor(whole * share + 1e-9)).astype(int)

    def priced(sizes: NDArray) -> PrivacySpent:
        model = clone(inner)
        model._given_ranges = getattr(fitted, "_before", None)
        plan = model.plan_for(
            silo_sizes=dict(zip(ids, sizes.tolist(), strict=True)),
            n_features=fitted.n_features_in_,
            n_classes=len(getattr(fitted, "classes_", (0, 1))),
            feature_names=getattr(fitted, "feature_names_in_", None),
            indicators=getattr(fitted, "_indicators", None),
        )
        return plan.spent(simulation_seed=next(_seeds(seed), None))

    spent = priced(sizes)
    if (
        inner.epsilon is None
        and whole is not None
        and len(ids) > 1
        and not isinstance(cv, _OF_SILOS)
    ):
        found = [cost.composition for cost in spent.costs]
        with warnings.catch_warnings():  # of sizes that no fit had
            warnings.simplefilter("ignore")
            _check_alike(found, priced, whole)
    return spent


def _check_alike(found: list[Composition], priced: Callable[..., PrivacySpent], whole: Any) -> None:
    """Raise Unknown unless releases are the same for silos of one record and for larger ones."""
    try:
        others = [priced(sizes) for sizes in (np.ones_like(whole), whole)]
    except ValueError:  # too few records for such a fit
        others = []
    if not others or any([c.composition for c in spent.costs] != found for spent in others):
        raise Unknown("the cost of given noise depends on how much of each silo was used")


def _of_transformer(
    inner: PayingTransformer, fitted: Any, share: float, seeds: frozenset[int]
) -> PrivacySpent:
    """Return the cost of a private transformer, by its epsilon and delta.

    The releases of scalers and of DPPCA are Gaussian mechanisms whose squared mu sum to at most
    that of the mu for (epsilon, delta), so together they cost at most one mechanism with that mu.
    Others are priced as arbitrary releases with their epsilon and delta. If a candidate has another
    guarantee than the fitted one (a grid over ``unit`` or ``trust``), its cost is infinite.
    """
    spent = fitted.privacy_spent_
    n = len(fitted.silo_ids_) if spent.unit == "silo" else fitted.n_samples_seen_
    delta = delta_of(inner.delta, max(1, math.floor(share * n + 1e-9)))
    change = spent.change
    composition: Composition = ((Exact(), 1),)
    asked, kept = inner.get_params(), fitted.get_params()
    if learns_nothing(inner):
        composition = ()
    elif any(asked.get(name) != kept.get(name) for name in ("unit", "trust", "neighbours")):
        pass
    elif math.isfinite(inner.epsilon) and isinstance(inner, PrivateScaler | DPPCA):
        composition = ((Gaussian(change / gaussian_mu(float(inner.epsilon), delta)), 1),)
    elif math.isfinite(inner.epsilon):
        composition = ((Approximate(float(inner.epsilon), delta), 1),)
    return PrivacySpent.from_compositions(
        spent.guarantee,
        delta=delta,
        compositions=[composition],
        n_releases=len(composition),
        simulation_seeds=seeds,
    )


def _seeds(random_state: Any) -> Iterator[int]:
    """Yield the seed of a fit's noise, if known."""
    if isinstance(random_state, Integral):
        yield int(random_state)
