"""The cost of the fits of a cross-validation on training sets, whose models are discarded.

Their costs are recomputed from the plan of the fit that was kept. The automatic delta, and so the
noise of a fit, follows from the number of records, so the size of each training set is needed. It
is found without the records: splitters are run on the same number of made-up rows, in the same
silos.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn import model_selection as splitters
from sklearn.base import clone

from skdpfl._pipelines import is_as_released, learns_nothing
from skdpfl._warnings import warnings_off
from skdpfl.model_selection import LeaveOneSiloOut, SiloGroupKFold, SiloKFold
from skdpfl.preprocessing import PayingTransformer
from skdpfl.privacy.calibration import delta_of
from skdpfl.privacy.events import Approximate, Composition, Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.spending.as_fitted import differences, own_digests
from skdpfl.privacy.spending.spent import PrivacySpent

#: training and test sets themselves
_LISTS = (list, tuple, np.ndarray)
#: splitters whose folds follow the labels
_OF_LABELS = (
    splitters.RepeatedStratifiedKFold,
    splitters.StratifiedGroupKFold,
    splitters.StratifiedKFold,
    splitters.StratifiedShuffleSplit,
)
#: splitters that leave each group out, whatever its size
_OF_GROUPS = (LeaveOneSiloOut, splitters.LeaveOneGroupOut, splitters.LeavePGroupsOut)
#: made-up silos, and records of each, that splits of records are tried on
_TRIED = 50
#: parameters of a guarantee, which all fits share
_GUARANTEE = ("unit", "trust", "neighbours")


class Unknown(Exception):
    """The cost of discarded fits cannot be recovered."""


def follows_labels(cv: Any, *, classifier: bool) -> bool:
    """Whether changing one label can move other records to other folds."""
    by_default = classifier and (cv is None or isinstance(cv, Integral))
    return by_default or isinstance(cv, _OF_LABELS) or bool(getattr(cv, "stratify_y", False))


def follows_sizes(cv: Any) -> bool:
    """Whether changing one silo's size can move other silos, or their records, to other folds."""
    by_ids = isinstance(cv, (*_OF_GROUPS, *_LISTS))
    return not (cv.shuffle if isinstance(cv, SiloKFold) else by_ids)


def draws_once(cv: Any) -> bool:
    """Whether training sets contain each row at most once; a repeated row costs as two records.

    Splitters of scikit-learn and this package qualify, and lists that were checked.
    """
    known = is_as_released(cv)
    listed = getattr(cv, "cv", cv) if known else cv  # check_cv wraps lists
    if isinstance(listed, _LISTS):
        return all(_are_distinct(np.asarray(train)) for train, _ in listed)
    return cv is None or isinstance(cv, Integral | str) or known


def _are_distinct(rows: np.ndarray) -> bool:
    """Whether indices, or a mask, name each row once."""
    if rows.dtype == bool or not rows.size:
        return True
    return bool(rows.min() >= 0 and len(np.unique(rows)) == rows.size)


def budget(fitted: Any) -> float:
    """Return the largest epsilon given for a silo; infinity for given noise."""
    given = fitted.epsilon
    if isinstance(given, Mapping | pd.Series):
        given = max(dict(given).values())
    return math.inf if given is None else float(given)


def costs_on_splits(inner: Any, fitted: Any, cv: Any, count: int | None) -> list[PrivacySpent]:
    """Return the cost of a fit on each of ``count`` training sets (None: unknown), or raise.

    ``fitted`` has the same place in what was fitted on all records; its sizes determine the price.
    """
    asked, kept = ([getattr(each, n, None) for n in _GUARANTEE] for each in (inner, fitted))
    if type(inner) is not type(fitted) or asked != kept:
        raise Unknown("the best candidate has no such fit")
    if hasattr(type(inner), "holds"):
        raise Unknown("each has several")
    if not isinstance(inner.random_state, Integral | None):
        raise Unknown("each had a copy of random_state, so all have the same noise")
    if not math.isfinite(budget(inner)):
        raise Unknown("that of given noise depends on how much of each silo was used")
    priced = _of_transformer if isinstance(inner, PayingTransformer) else _of_model
    shares = _training_shares(cv, fitted, inner, count)
    costs = {share: priced(inner, fitted, share) for share in set(shares)}
    seeds = frozenset(() if inner.random_state is None else (int(inner.random_state),))
    return [replace(costs[share], simulation_seeds=seeds) for share in shares]


def _training_shares(cv: Any, fitted: Any, inner: Any, count: int | None) -> list[float]:
    """Return the share of the records (persons, or silos) in each training set.

    If nothing else is known, training sets count as equally large, provided that costs are the same
    at any size (the delta was given).
    """
    silos, whole = _silos_of(fitted)
    persons = fitted.unit == "person"
    sizes = _sizes(cv, silos, persons)
    if whole and not getattr(cv, "_leaves_silos_out", False):
        # splits of records, whose number is secret: all silos are in all sets, or nearly so
        tried = _sizes(cv, np.repeat(np.arange(_TRIED), _TRIED))
        sizes = [] if isinstance(cv, _LISTS) or not tried else [len(silos)] * (count or 0)
    if sizes and count in (None, len(sizes)):
        return [size / len(silos) for size in sizes]
    if count is None or isinstance(inner.delta, str):
        raise Unknown(f"sizes of training sets of {type(cv).__name__}")
    return [1 - 1 / count] * count


def _silos_of(fitted: Any) -> tuple[np.ndarray, bool]:
    """Return the silo of each record, and whether whole silos are protected."""
    sizes = getattr(getattr(fitted, "plan_", None), "silo_sizes", None)
    if sizes is not None:
        return np.repeat(np.arange(len(sizes)), sizes), False
    n, n_silos = getattr(fitted, "n_samples_seen_", None), len(fitted.silo_ids_)
    return np.arange(n_silos if n is None else n) % n_silos, n is None


def _sizes(cv: Any, silos: np.ndarray, persons: bool = False) -> list[int]:
    """Return the numbers of rows (or persons) of the training sets; empty if unknown."""
    if not (cv is None or isinstance(cv, (Integral, *_LISTS)) or hasattr(cv, "split")):
        return []  # an iterator, which the fit used up
    splitter = copy.deepcopy(splitters.check_cv(cv))  # a generator of random numbers moves on
    of_persons = isinstance(splitter, SiloGroupKFold)
    if of_persons != persons and not getattr(splitter, "_leaves_silos_out", False):
        return []  # secret: the number of records in folds of persons, of persons in folds of rows
    owners = {}
    if hasattr(splitter, "silo_column"):
        splitter.silo_column = splitter.person_column = None
        owners = {"silos": silos, "persons": np.arange(len(silos))}
    rows = np.zeros((len(silos), 1))
    with warnings_off():
        try:
            found = splitter.split(rows, rows[:, 0], **owners)
            return [len(train) for train, _ in found]
        except (ValueError, TypeError, KeyError, IndexError):  # it needs labels or groups
            return []


def _of_model(inner: Any, fitted: Any, share: float) -> PrivacySpent:
    """Return the cost of a fit on a training set with this share of every silo, or of the silos.

    Splits that do not keep the silos' shares may have more or less of a silo. A fit with a given
    epsilon has met it anyway.
    """
    ids, sizes = fitted.plan_.silo_ids, fitted.plan_.silo_sizes
    if sizes is None:  # protected
        ids = ids[: max(1, math.floor(share * len(ids) + 1e-9))]
        sizes, share = np.ones(len(ids)), 1.0
    found = np.maximum(1, np.floor(sizes * share + 1e-9)).astype(int)
    plan = clone(inner).plan_for(
        silo_sizes=dict(zip(ids, found.tolist(), strict=True)),
        n_features=fitted.n_features_in_,
        n_classes=len(getattr(fitted, "classes_", (0, 1))),
        feature_names=getattr(fitted, "feature_names_in_", None),
        indicators=getattr(fitted, "_indicators", None),
        columns=getattr(fitted, "schema_", None),
    )
    return plan.spent()


def _of_transformer(inner: PayingTransformer, fitted: Any, share: float) -> PrivacySpent:
    """Return the cost of a private transformer, by its epsilon and delta.

    If all releases of the kept fit are Gaussian mechanisms, so are those of fits with other budgets
    only. Their squared mu sum to at most that of the mu for (epsilon, delta), so together they cost
    at most one mechanism with that mu. Others are priced as arbitrary releases with their epsilon
    and delta.
    """
    spent = fitted.privacy_spent_
    n = len(fitted.silo_ids_) if spent.unit == "silo" else fitted.n_samples_seen_
    delta = delta_of(inner.delta, max(1, math.floor(share * n + 1e-9)))
    composition: Composition = ((Approximate(float(inner.epsilon), delta), 1),)
    other = set(differences(own_digests(inner), own_digests(fitted)))
    if spent.accountant == "gdp" and other <= {"epsilon", "delta", "random_state"}:
        multiplier = spent.change / gaussian_mu(float(inner.epsilon), delta)
        composition = ((Gaussian(multiplier), 1),)
    compositions = [() if learns_nothing(inner) else composition]
    return PrivacySpent.from_compositions(spent.guarantee, delta=delta, compositions=compositions)
