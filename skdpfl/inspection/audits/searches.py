r"""Audits of searches: a canary that scores, or one that trains.

The split into records that train and records that score is public, so the canary is put where the
attack wants it. One that scores turns its label, which turns its score under every candidate: the
mean score over n units moves by as much as a record can move it. With s(+), s(-) the exact mean
scores of the best model on the two data sets and R its published score, the likelihood ratio of R
grows with ::

    (R - (s(+) + s(-)) / 2) (s(+) - s(-))

Under ``trust="silo"`` the other candidates' scores are published, too. Their models are not known
here; the same terms with the best model in their place are left to the score that is fitted. One
that trains is seen in the best model's coefficients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skdpfl._pipelines import private_step
from skdpfl.inspection.audits.black_box import (
    FAR,
    along_coefficients,
    fitted_numbers,
    fitted_to,
    judged_numbers,
    neighbours_of,
    replaces,
)
from skdpfl.inspection.audits.result import PrivacyAudit
from skdpfl.inspection.audits.setting import Setting
from skdpfl.inspection.audits.stages import table_of
from skdpfl.model_selection.holdout import Split, split
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.silos import read_silos


def of_search(search: Any, X: Any, y: Any, silos: Any, how: Setting) -> PrivacyAudit:
    """Audit a search by what it publishes (``view="server"``), or by its best model."""
    rng, table = how.coins, table_of(X, y)
    inner = private_step(search.estimator)[1]
    groups, scores = read_silos(silos, len(table), X), how.view == "server"
    seen, law, coins = [], [], []
    for fit in range(how.n_fits):
        coins.append(bool(rng.random() < 0.5))
        # the split follows from the seed, so that there must be one
        seed = how.seed(fit) if how.random_state is not None else int(rng.integers(2**31))
        parts = split(groups, inner.unit, search.holdout, streams_for(seed))
        rows = _canary(parts, groups.codes, inner.unit, scores)
        data, features = neighbours_of(table, y, rows, 0.0 if scores else FAR)
        now = fitted_to(search, seed, data[coins[-1]], silos)
        if scores:
            found = _of_scores(now, inner, parts, data)
            law.append(float(found[0]))
            seen.append(found)
        else:
            law += along_coefficients(now, features)
            seen.append(fitted_numbers(now))
    return judged_numbers(seen, law, coins, replaces(now), how, rng)


def _canary(parts: Split, codes: np.ndarray, unit: str, scores: bool) -> np.ndarray:
    """Return the rows of the first record, or silo, of those that score, or train."""
    rows = parts.test if scores else parts.train
    return rows[codes[rows] == codes[rows[0]]] if unit == "silo" else rows[:1]


def _of_scores(
    search: Any, inner: Any, parts: Split, data: dict[bool, tuple[np.ndarray, Any]]
) -> np.ndarray:
    """Return the logarithm of the likelihood ratio but for a factor, and what else there is."""
    minus, plus = (_score(search, inner, parts, *data[coin]) for coin in (False, True))
    published = np.array([search.best_score_])
    if "candidates_" in vars(search):
        published = search.candidates_["noisy_score"].to_numpy()
    middle, turn = (plus + minus) / 2, plus - minus
    ratio, all_of_them = search.best_score_ - middle, float((published - middle).sum())
    return np.array([ratio * turn, all_of_them * turn, np.sign(turn), search.best_score_])


def _score(search: Any, inner: Any, parts: Split, X: np.ndarray, y: Any) -> float:
    """Return the best model's exact mean score over the units that score."""
    truth, predicted = np.asarray(y)[parts.test], search.predict(X[parts.test])
    if is_classifier(inner):
        records = (predicted == truth).astype(float)
    else:
        low, high = inner.target_bounds
        records = 1 - np.minimum(1.0, np.square((predicted - truth) / ((high - low) / 2)))
    if inner.unit == "record":
        return float(records.mean())
    sizes = np.bincount(parts.codes)
    return float((np.bincount(parts.codes, weights=records) / sizes).mean())
