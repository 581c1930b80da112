"""Scores of silos, one by one or as one number, and a score relative to a constant.

    s_i = score of the estimator on the records of silo i,  score = aggregate(s_1, ..., s_N)

All scores here are exact, and no privacy budget covers them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import _num_samples

from skdpfl._arguments import naming_no_values
from skdpfl._compat import as_frame
from skdpfl._warnings import new_silos_expected
from skdpfl.silos import read_silos, split_silo_column


def silo_scores(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    silos: Any = None,
    scoring: Any = None,
    silo_column: str | None = None,
) -> pd.Series:
    """Score a fitted estimator on the records of each silo.

    An average over all records can hide a small silo with a bad score. The scores are exact and not
    covered by a privacy budget: use public records, or keep them secret.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator, or any object that `scoring` accepts.
    X : array-like of shape (n_records, n_features)
        The data.
    y : array-like of shape (n_records,)
        The target.
    silos : array-like of shape (n_records,), default=None
        The silo of each record.
    scoring : str, callable or None, default=None
        A scorer as in scikit-learn; None: the estimator's `score`.
    silo_column : str or None, default=None
        The column of the DataFrame X with the silos, which is passed to the estimator. By default
        the estimator's own `silo_column`, also inside a pipeline, if X has such a column.

    Returns
    -------
    scores : Series of shape (n_silos,)
        One score for each silo; the index are the silo ids.

    See Also
    --------
    make_silo_scorer : The same as one number, for cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skdpfl.model_selection import silo_scores
    >>> X, y = np.zeros((6, 1)), np.array([0, 0, 0, 0, 1, 1])
    >>> model = DummyClassifier().fit(X, y)
    >>> silo_scores(model, X, y, silos=["a", "a", "a", "b", "b", "b"])
    a    1.000000
    b    0.333333
    Name: score, dtype: float64
    """
    X = as_frame(X)
    scorer = check_scoring(estimator, scoring)
    if silos is None and silo_column is None:
        silo_column = _own_column(estimator, X)
    _, silo_ids = split_silo_column(X, silos, silo_column)
    if silo_ids is None:
        raise ValueError("Scores by silo need silos=..., or silo_column=... and a DataFrame.")
    codes, ids = read_silos(silo_ids, _num_samples(X), X)[:2]
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    with new_silos_expected(), naming_no_values(y, "y"):
        scores = [scorer(estimator, _safe_indexing(X, r), _safe_indexing(y, r)) for r in rows]
    return pd.Series(scores, index=pd.Index(ids.tolist()), name="score", dtype=float)


def _own_column(estimator: Any, X: Any) -> str | None:
    """Return the ``silo_column`` of the estimator, or of one inside it, if X has it."""
    columns = list(getattr(X, "columns", ()))
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    named = {v for k, v in params.items() if k.split("__")[-1] == "silo_column" and v in columns}
    return named.pop() if len(named) == 1 else None


Aggregate = str | Callable[[np.ndarray], float]
_AGGREGATES: dict[object, Callable[[np.ndarray], float]] = {"min": np.min, "mean": np.mean}


class SiloScorer:
    """A scorer that aggregates the scores of all silos; see :func:`make_silo_scorer`.

    Parameters
    ----------
    scoring : str, callable or None
        The scorer for one silo.
    aggregate : {"min", "mean", "each"} or callable
        How scores are aggregated.
    silo_column : str or None
        The column of X with the silo ids.
    """

    def __init__(self, scoring: Any, aggregate: Aggregate, silo_column: str | None) -> None:
        self.scoring = scoring
        self.aggregate = aggregate
        self.silo_column = silo_column
        self._request: bool | str | None = silo_column is None

    def __call__(self, estimator: Any, X: Any, y: Any, *, silos: Any = None) -> Any:
        """Score the estimator on each silo's records, and aggregate.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator.
        X : array-like of shape (n_records, n_features)
            The data.
        y : array-like of shape (n_records,)
            The target.
        silos : array-like of shape (n_records,), default=None
            The silo of each record.

        Returns
        -------
        score : float, or dict of float for ``aggregate="each"``
            Greater is better.
        """
        scores = silo_scores(
            estimator, X, y, silos=silos, scoring=self.scoring, silo_column=self.silo_column
        )
        if self.aggregate == "each":
            return {f"silo_{silo}": float(score) for silo, score in scores.items()}
        aggregate = self.aggregate if callable(self.aggregate) else _AGGREGATES[self.aggregate]
        return float(aggregate(scores.to_numpy()))

    def set_score_request(self, *, silos: bool | str | None) -> SiloScorer:
        """Set the name under which metadata routing passes the silos.

        Parameters
        ----------
        silos : bool, str or None
            True: as `silos` (the default without `silo_column`); False: never; a string: under this
            name.

        Returns
        -------
        self : SiloScorer
            The scorer itself.
        """
        self._request = silos
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata request.

        Returns
        -------
        routing : MetadataRequest
            The request for silos.
        """
        request = MetadataRequest(owner=self)
        request.score.add_request(param="silos", alias=self._request)
        return request

    def __repr__(self) -> str:
        name = getattr(self.aggregate, "__name__", self.aggregate)
        return f"SiloScorer({self.scoring!r}, aggregate={name!r})"


def make_silo_scorer(
    scoring: Any = None, *, aggregate: Aggregate = "min", silo_column: str | None = None
) -> SiloScorer:
    """Make a scorer that aggregates the scores of each silo.

    It can be used as `scoring` in scikit-learn. With metadata routing enabled the silos are
    requested by default; without it use `silo_column`. Test sets should have records of all silos,
    as those of :class:`SiloStratifiedKFold` do.

    Parameters
    ----------
    scoring : str, callable or None, default=None
        The scorer for one silo, as in scikit-learn; None: the estimator's `score`.
    aggregate : {"min", "mean", "each"} or callable, default="min"
        ``"min"``: the score of the worst silo. ``"mean"``: the unweighted mean. A callable maps the
        array of scores to a number. ``"each"``: a dict ``silo_<id>`` -> score, which
        :func:`~sklearn.model_selection.cross_validate` turns into columns. If a score is undefined
        (NaN), so is the result.
    silo_column : str or None, default=None
        The column of the DataFrame X with the silos; by default the estimator's `silo_column`.

    Returns
    -------
    scorer : SiloScorer
        A callable ``scorer(estimator, X, y, silos=...)``; greater is better.

    See Also
    --------
    silo_scores : The scores of a fitted estimator as a Series.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skdpfl.model_selection import make_silo_scorer
    >>> X, y = np.zeros((6, 1)), np.array([0, 0, 0, 0, 1, 1])
    >>> scorer = make_silo_scorer("accuracy", aggregate="mean")
    >>> model = DummyClassifier().fit(X, y)
    >>> round(scorer(model, X, y, silos=["a", "a", "a", "b", "b", "b"]), 3)
    0.667
    """
    if not callable(aggregate) and aggregate not in (*_AGGREGATES, "each"):
        raise ValueError(
            f"aggregate must be 'min', 'mean', 'each' or a callable, got {aggregate!r}"
        )
    return SiloScorer(scoring, aggregate, silo_column)
