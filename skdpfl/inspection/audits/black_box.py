"""Audits by what a fitted object shows: its numbers, and two data sets that differ in a record."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpfl.inspection.audits.result import PrivacyAudit, judged
from skdpfl.inspection.audits.scores import Trials
from skdpfl.inspection.audits.setting import Setting
from skdpfl.inspection.audits.stages import like, table_of
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.silos import split_silo_column

#: numbers of an attribute that are looked at
MANY = 40
#: how long a canary with a target is, in units of the largest feature, or 1
FAR = 1e3


def of_fitted(estimator: Any, X: Any, y: Any, silos: Any, how: Setting) -> PrivacyAudit:
    """Audit by the fitted attributes alone; the first record is the canary."""
    rng, column = how.coins, estimator.get_params(deep=False).get("silo_column")
    if column is not None:
        X, silos = split_silo_column(X, silos, column)
        estimator = clone(estimator).set_params(silo_column=None)
    neighbours, direction = neighbours_of(table_of(X, y), y, np.array([0]))
    neighbours = {coin: (like(X, table), target) for coin, (table, target) in neighbours.items()}
    seen, moved, coins = [], [], []
    for fit in range(how.n_fits):
        coins.append(bool(rng.random() < 0.5))
        now = fitted_to(estimator, how.seed(fit), neighbours[coins[-1]], silos)
        seen.append(fitted_numbers(now))
        moved += along_coefficients(now, direction)
    return judged_numbers(seen, moved, coins, replaces(now), how, rng)


def fitted_to(estimator: Any, seed: int | None, data: tuple[Any, Any], silos: Any) -> Any:
    """Return a fitted copy."""
    arguments = {} if silos is None else {"silos": silos}
    now = clone(estimator).set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noisy or diverged models
        return now.fit(*data, **arguments)


def replaces(fitted: Any) -> PrivacySpent:
    """Return what is reported, if replacing a record makes neighbouring data."""
    spent: PrivacySpent = fitted.privacy_spent_
    if spent.neighbours != "replace":
        raise ValueError(
            f"{type(fitted).__name__} reports epsilon for records that are removed, and these "
            "audits replace one: audit it with neighbours='replace'."
        )
    return spent


def judged_numbers(
    seen: list[np.ndarray],
    law: list[float],
    coins: list[bool],
    reported: PrivacySpent,
    how: Setting,
    rng: np.random.Generator,
) -> PrivacyAudit:
    """Judge fits by numbers that they show, and by a score fixed beforehand, if there is one."""
    none = np.zeros((len(coins), 0))
    trials = Trials(none, none, none, np.stack(seen), np.array(coins))
    fixed = np.array(law) if law else None
    return judged(trials, fixed, reported, how.confidence, how.view, how.n_fits, rng)


def fitted_numbers(fitted: Any) -> np.ndarray:
    """Return the numbers of fitted attributes in the order of their names, (k,)."""
    found = []
    for name, value in sorted(vars(fitted).items()):
        if name.endswith("_") and not name.startswith("_"):
            if isinstance(value, int | float | np.floating | np.integer):
                found.append(np.array([float(value)]))
            elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
                found.append(value.astype(float).ravel()[:MANY])
            elif name in ("best_estimator_", "scaling_"):
                found.append(fitted_numbers(value))
    return np.nan_to_num(np.concatenate([np.zeros(0), *found]))


def along_coefficients(fitted: Any, direction: np.ndarray) -> list[float]:
    """Return how far the coefficients lie along a canary's features; nothing without any.

    Descent moves those of the last class, or of the one output, towards the features where the
    target is the largest, and away from them where it is the smallest.
    """
    inner = vars(fitted).get("best_estimator_", fitted)
    rows = np.atleast_2d(np.asarray(vars(inner).get("coef_", ()), float))
    if not rows.size:
        return []
    return [float((rows[-1] - (rows[0] if len(rows) > 1 else 0.0)) @ direction)]


def neighbours_of(
    X: np.ndarray, y: Any, rows: np.ndarray, far: float = FAR
) -> tuple[dict[bool, tuple[np.ndarray, Any]], np.ndarray]:
    """Return two data sets that differ in these rows, and the rows' features.

    Without targets the rows are at opposite ends of what the others are. With targets only these
    are, and the features are the same, those of long records for ``far > 0``: so gradients are
    opposite and long.
    """
    others = np.delete(X, rows, axis=0)
    low, high = others.min(axis=0), others.max(axis=0)
    tables: dict[bool, tuple[np.ndarray, Any]] = {}
    if y is None:
        for coin in (False, True):
            table = X.copy()
            table[rows] = high if coin else low
            tables[coin] = table, None
        return tables, high - low
    ends = np.sort(np.delete(np.asarray(y), rows))[[0, -1]]
    table, features = X.copy(), high
    if far:  # where the others' records, and so their gradients, are the smallest
        axis = np.linalg.eigh(others.T @ others)[1][:, 0]
        features = axis * far * max(1.0, float(np.abs(others).max()))
    table[rows] = features
    for coin in (False, True):
        target = np.array(y)
        target[rows] = ends[int(coin)]
        tables[coin] = table, target
    return tables, features
