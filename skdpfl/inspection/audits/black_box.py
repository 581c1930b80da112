"""Attacks on the fitted attributes of scalers, estimators or searches, over many fits.

Two data sets differ in a record, or a silo. The attack guesses from the fitted attributes which of
them was used.

A search's split into training and scoring records is public, so the canary can be placed in either.
A scoring canary flips its label, which flips its score under every candidate: the mean score over n
units changes by as much as one record can change it. With s(+), s(-) the exact mean scores of the
best model on the two data sets and R its published score, the likelihood ratio of R grows with ::

    (R - (s(+) + s(-)) / 2) (s(+) - s(-))

With ``trust="silo"`` the other candidates' scores are published, too. Their models are unknown
here; the fitted score uses the same terms with the best model instead. A training canary shows in
the best model's coefficients.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpfl._compat import as_frame
from skdpfl._pipelines import private_step
from skdpfl.inspection.audits.canaries import like, table_of
from skdpfl.inspection.audits.judging import AuditSetting, PrivacyAudit, Trials, judged
from skdpfl.model_selection.scoring import NoisyScore, Split, protection_of, split
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.silos import read_persons, read_silos, split_column
from skdpfl.table import Owners

#: numbers of an attribute that are looked at
MANY = 40
#: how long a canary with a target is, in units of the largest feature, or 1
FAR = 1e3


def of_fitted(
    estimator: Any, X: Any, y: Any, silos: Any, persons: Any, how: AuditSetting
) -> PrivacyAudit:
    """Audit by the fitted attributes alone; the first record (or person) is the canary."""
    rng, owners, rows = how.coins, {}, np.array([0])
    params = estimator.get_params(deep=False)
    for what, ids in (("silo", silos), ("person", persons)):
        X, ids = split_column(as_frame(X), ids, params.get(f"{what}_column"), what)
        if params.get(f"{what}_column") is not None:
            estimator = clone(estimator).set_params(**{f"{what}_column": None})
        if ids is not None:
            owners[f"{what}s"] = ids
    if (read := read_persons(owners.get("persons"), len(X), X)) is not None:
        rows = np.flatnonzero(read.codes == read.codes[0])
    neighbours, direction = neighbours_of(table_of(X, y), y, rows)
    neighbours = {coin: (like(X, table), target) for coin, (table, target) in neighbours.items()}
    seen, moved, coins = [], [], []
    for fit in range(how.n_fits):
        coins.append(bool(rng.random() < 0.5))
        now = fitted_to(estimator, how.seed(fit), neighbours[coins[-1]], owners)
        seen.append(fitted_numbers(now))
        moved += along_coefficients(now, direction)
    return judged_numbers(seen, moved, coins, replaces(now), how, rng)


def fitted_to(
    estimator: Any, seed: int | None, data: tuple[Any, Any], owners: Mapping[str, Any]
) -> Any:
    """Return a fitted copy; ``owners`` has silos and persons, if any."""
    now = clone(estimator).set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noisy or diverged models
        return now.fit(*data, **owners)


def replaces(fitted: Any) -> PrivacySpent:
    """Return the reported cost; raise if replacing a record does not make neighbouring data."""
    spent: PrivacySpent = fitted.privacy_spent_
    if spent.neighbours != "replace":
        raise ValueError(
            f"{type(fitted).__name__} reports epsilon for neighbours='add_remove', but these "
            "audits replace a record: audit it with neighbours='replace'."
        )
    return spent


def judged_numbers(
    seen: list[np.ndarray],
    law: list[float],
    coins: list[bool],
    reported: PrivacySpent,
    how: AuditSetting,
    rng: np.random.Generator,
) -> PrivacyAudit:
    """Judge fits by their fitted numbers, and by a score fixed beforehand, if there is one."""
    none = np.zeros((len(coins), 0))
    trials = Trials(none, none, none, np.stack(seen), np.array(coins))
    fixed = np.array(law) if law else None
    return judged(trials, fixed, reported, how, rng)


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
    """Return the projection of the coefficients on a canary's features; empty without coefficients.

    Descent moves the coefficients of the last class, or of the only output, towards the features if
    the target is the largest, and away from them if it is the smallest.
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

    Without targets, the rows are at opposite ends of the range of the others. With targets, only
    the targets are at opposite ends, and the features are equal, with a large norm for ``far > 0``,
    so that gradients are opposite and long.
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


def of_search(
    search: Any, X: Any, y: Any, silos: Any, persons: Any, how: AuditSetting
) -> PrivacyAudit:
    """Audit a search by what it publishes (``view="server"``), or by its best model."""
    rng, table = how.coins, table_of(X, y)
    inner = private_step(search.estimator)[1]
    if persons is not None or inner.unit == "person":
        raise ValueError('Searches with unit="person" are not audited; audit their estimator.')
    groups, scores = read_silos(silos, len(table), X), how.view == "server"
    seen, law, coins = [], [], []
    for fit in range(how.n_fits):
        coins.append(bool(rng.random() < 0.5))
        # the split follows from the seed, so that there must be one
        seed = how.seed(fit) if how.random_state is not None else int(rng.integers(2**31))
        parts = split(
            Owners(groups, None, groups.sizes), inner.unit, search.holdout, streams_for(seed)
        )
        rows = _canary(parts, groups.codes, inner.unit, scores)
        data, features = neighbours_of(table, y, rows, 0.0 if scores else FAR)
        now = fitted_to(search, seed, data[coins[-1]], {} if silos is None else {"silos": silos})
        if scores:
            found = _of_scores(now, inner, parts, data)
            law.append(float(found[0]))
            seen.append(found)
        else:
            law += along_coefficients(now, features)
            seen.append(fitted_numbers(now))
    return judged_numbers(seen, law, coins, replaces(now), how, rng)


def _canary(parts: Split, codes: np.ndarray, unit: str, scores: bool) -> np.ndarray:
    """Return the rows of the first scoring, or training, record or silo."""
    rows = parts.test if scores else parts.train
    return rows[codes[rows] == codes[rows[0]]] if unit == "silo" else rows[:1]


def _of_scores(
    search: Any, inner: Any, parts: Split, data: dict[bool, tuple[np.ndarray, Any]]
) -> np.ndarray:
    """Return the log likelihood ratio up to a factor, and other features."""
    minus, plus = (_score(search, inner, parts, *data[coin]) for coin in (False, True))
    published = np.array([search.best_score_])
    if "candidates_" in vars(search):
        published = search.candidates_["noisy_score"].to_numpy()
    middle, turn = (plus + minus) / 2, plus - minus
    ratio, all_of_them = search.best_score_ - middle, float((published - middle).sum())
    return np.array([ratio * turn, all_of_them * turn, np.sign(turn), search.best_score_])


def _score(search: Any, inner: Any, parts: Split, X: np.ndarray, y: Any) -> float:
    """Return the best model's exact score over the scoring units."""
    scores = NoisyScore(inner, protection_of(inner), parts, search.scoring)
    return float(scores.of([search.best_estimator_], X, y, 0.0, streams_for(0))[0])
