"""How many records each training set of a cross-validation had, found without the records.

The automatic delta, and with it the noise of a fit, follows from the number of records. Splitters
are asked for row numbers of made-up rows: as many as there were, in the same silos.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import (
    LeaveOneGroupOut,
    LeavePGroupsOut,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    check_cv,
)

from skdpfl.model_selection import LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold

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


class Unknown(Exception):
    """The cost of fits that were discarded cannot be derived from what is left."""


def follows_labels(cv: Any, *, classifier: bool) -> bool:
    """Whether one changed label moves other records from fold to fold, too."""
    by_default = classifier and (cv is None or isinstance(cv, (int, np.integer)))
    return by_default or isinstance(cv, _OF_LABELS) or bool(getattr(cv, "stratify_y", False))


def follows_sizes(cv: Any) -> bool:
    """Whether another size of one silo moves other silos, or their records, from fold to fold."""
    if isinstance(cv, SiloKFold):
        return not cv.shuffle
    return not isinstance(cv, (LeaveOneSiloOut, *_OF_GROUPS, list, tuple))


def keeps_silos(cv: Any) -> bool:
    """Whether a training set holds all of a silo, none of it, or the same share as of others."""
    return isinstance(cv, _OF_SILOS)


def training_shares(
    cv: Any, fitted: Any, *, any_size: bool, count: int | None = None
) -> list[float]:
    """Return the share of the records (unit "silo": silos) in each training set, or raise Unknown.

    ``fitted`` is a part that was fitted on all records, ``count`` the number of splits, if it is
    known. Where that is all that can be found, training sets count as equally large, if costs are
    alike at ``any_size`` (the delta was given).
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
    """Return how many splits there were of records whose number is a secret; 0: not known.

    Also 0 where splits may have left silos out.
    """
    tried = [len(_sizes(cv, np.repeat(np.arange(_TRIED), n))) for n in (_TRIED, _TRIED + 1)]
    if isinstance(cv, (list, tuple)) or not tried[0]:
        return 0
    return count or (tried[0] if tried[0] == tried[1] else 0)


def _sizes(cv: Any, silos: np.ndarray) -> list[int]:
    """Return the numbers of rows of the training sets; none where they are not to be found."""
    try:
        return [len(rows) for rows in _training(cv, silos)]
    except (ValueError, TypeError, KeyError, IndexError):  # it needs labels or groups
        return []


def _silos_of(fitted: Any) -> tuple[np.ndarray, bool]:
    """Return the silo of each record, and whether whole silos are protected (one row for each)."""
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
