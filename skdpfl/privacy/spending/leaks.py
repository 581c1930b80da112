"""What a ledger finds out about a fit: repeated noise, unpaid scores, records that were copied."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.spending.book import Entry
from skdpfl.privacy.spending.spent import PrivacySpent


def warn_of_seeds(past: list[Entry], spent: PrivacySpent, warned: set[int]) -> None:
    """Warn of seeds that an earlier fit had; each is added to ``warned`` and not repeated."""
    seeds = {seed for entry in past for seed in entry.spent.simulation_seeds}
    for seed in sorted((seeds & spent.simulation_seeds) - warned):
        warned.add(seed)
        warn(
            f"random_state={seed} was used by an earlier fit on the same records: both "
            "have the same noise, and together they have no privacy. Use None, or other seeds.",
            PrivacyLeakWarning,
        )


def warn_at_the_end(entries: list[Entry], warned: set[int]) -> None:
    """Warn of exact scores, and of seeds that repeated in other processes."""
    counts = Counter(seed for entry in entries for seed in entry.spent.simulation_seeds)
    for seed, times in counts.items():
        if times > 1 and seed not in warned:
            warn(
                f"{times} fits in this ledger had random_state={seed}: their noise repeats, "
                "and together they have no privacy. Use None, or other seeds.",
                PrivacyLeakWarning,
            )
    n_scored = sum(entry.scored for entry in entries)
    if n_scored:
        warn(
            f"{n_scored} fit(s) in this ledger were scored exactly by a search or a "
            "cross-validation; scores of records, and a choice made by them, are not paid for. "
            "DPRandomizedSearchCV pays for both.",
            PrivacyLeakWarning,
        )


def is_scored_exactly() -> bool:
    """Return whether scikit-learn is fitting for scores (in a search or cross-validation)."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and "sklearn" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


#: where scikit-learn fits copies of one estimator to the same records, or parts of them
_COPYING = (
    "_fit_and_score",
    "_fit_binary",
    "_fit_calibrator",
    "_fit_classifier_calibrator_pair",
    "_fit_estimator",
    "_fit_ovo_binary",
    "_fit_single_estimator",
    "_fit_and_predict",
    "_parallel_build_estimators",
)


def runs_of_copies() -> bool:
    """Return whether scikit-learn is fitting one of several copies of an estimator."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in _COPYING and "sklearn" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def times_drawn() -> int:
    """Return how many copies of a record scikit-learn's bagging gives to the fit, at most.

    Members that take weights are given the number of copies as a weight, which costs nothing.
    """
    times, frame = 1, sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_parallel_build_estimators" and "sklearn" in code.co_filename:
            here = frame.f_locals
            weighted = here.get("consumes_sample_weight", False)
            times *= 1 if weighted else int(np.bincount(here["indices"]).max())
        frame = frame.f_back  # type: ignore[assignment]
    return times
