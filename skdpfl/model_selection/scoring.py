"""Scores of several models on held-out records or silos, with noise.

A score is a noised sum of bounded terms over units (:mod:`skdpfl.federation`): records, or silos by
the mean over their records. Under ``trust="silo"`` the sums of k models together cost z, as one
release of ``Gaussian(z)`` does: each has 1/k of the mu^2, since the mu of Gaussian releases add in
squares.

Under ``trust="server"`` the number of runs is a secret, so noise must not follow from it: each
model's score is then a release of its own, of the whole z, as random repetition takes every run to
be the same mechanism (:mod:`skdpfl.privacy.spending.cost`).

The split of a search into training and scoring is drawn from public numbers, before data are read.
``unit="record"``: a share of each silo's records is for scoring, ``unit="person"``: of its persons,
with all their records. ``unit="silo"``: a share of the silos is, with all their records. A silo
used for both would pay for both, and whether it can be split would reveal its protected size.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import parallel_config
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from skdpfl import federation
from skdpfl._apart import anew, rows_apart
from skdpfl._pipelines import keeps_rows_apart
from skdpfl.model_selection._shared_budget import model_of
from skdpfl.model_selection._wrapped import last_step, protection_of, target_range
from skdpfl.privacy.events import Guarantee
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.silos import Silos
from skdpfl.table import Owners

__all__ = ["NoisyScore", "Split", "default_measure", "predictions", "protection_of", "split"]


#: rows of each unit that are read beside those of all others
_TOGETHER = 8


class Split(NamedTuple):
    """Training rows, the training silos' sizes, scoring rows, and each scoring row's silo.

    ``of_row`` is each scoring row's contribution, where persons are protected.
    """

    train: np.ndarray
    sizes: dict[Any, int]
    test: np.ndarray
    codes: np.ndarray
    of_row: np.ndarray | None = None


def split(owners: Owners, unit: str, holdout: float, streams: Streams) -> Split:
    """Return the split; it does not depend on the records.

    Formal guarantee
    ----------------
    For records the split is a function of the silo of each row and of ``streams``; for persons, of
    their numbers in each silo; for silos, of the number of silos and of ``streams``. So
    neighbouring data have the same split. Persons are numbered in the order of ids, and draws are
    exchangeable.
    """
    silos, units = owners.silos, owners.units
    chosen = (_of_silos if unit == "silo" else _of_records)(units, holdout, streams)
    scores = chosen if owners.of_row is None else chosen[owners.of_row]
    train, test = np.flatnonzero(~scores), np.flatnonzero(scores)
    sizes = np.bincount(units.codes[~chosen], minlength=len(silos.ids))
    if unit == "silo":  # sizes are protected
        sizes = np.minimum(sizes, 1)
    present = {silo: n for silo, n in zip(silos.ids.tolist(), sizes.tolist(), strict=True) if n}
    used, codes = np.unique(silos.codes[test], return_inverse=True)
    of_row = owners.of_row
    if of_row is not None:
        _, of_row = np.unique(of_row[test], return_inverse=True)
    return Split(train, present, test, codes if unit == "silo" else used[codes], of_row)


def _of_records(silos: Silos, holdout: float, streams: Streams) -> np.ndarray:
    """Return a mask of scoring rows: a share of each silo's."""
    order = streams.stream("holdout").permutation(len(silos.codes))
    rank = np.empty(len(order), dtype=np.int64)
    by_silo = order[np.argsort(silos.codes[order], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(silos.sizes)[:-1]])
    rank[by_silo] = np.arange(len(order)) - np.repeat(starts, silos.sizes)
    scored = np.maximum(1, np.round(holdout * silos.sizes)).astype(int)
    if (scored >= silos.sizes).any():
        silo = silos.ids.tolist()[int(np.argmax(scored >= silos.sizes))]
        size = silos.sizes[int(np.argmax(scored >= silos.sizes))]
        raise ValueError(
            f"Silo {silo!r} has too few records for holdout={holdout:g} (n_samples={size})."
        )
    return rank < scored[silos.codes]


def _of_silos(silos: Silos, holdout: float, streams: Streams) -> np.ndarray:
    """Return a mask of scoring rows: those of a share of the silos."""
    n = len(silos.ids)
    n_scoring = max(1, round(holdout * n))
    if n_scoring >= n:
        raise ValueError(
            f'A search with unit="silo" holds out whole silos, and {n} silo(s) are too few for '
            f'holdout={holdout:g}. Use more silos, or unit="record".'
        )
    scores = np.zeros(n, dtype=bool)
    scores[streams.stream("holdout").subset(n, n_scoring)] = True
    return scores[silos.codes]


def predictions(
    model: Any,
    X: Any,
    reads: str,
    classes: np.ndarray,
    *,
    together: bool | None = None,
    units: np.ndarray | None = None,
) -> np.ndarray:
    """Return the predictions that a measure reads, one row per record; NaN where there is none.

    Formal guarantee
    ----------------
    A prediction depends on its own record only, as do warnings and errors, of which there are none:
    otherwise one record could change all terms of a sum. Models that are known to treat rows by
    themselves get all records at once (``together``), and records that they refuse are replaced by
    another one in a table of the same shape: so even the last bits of the others' predictions are
    those of a table without refused records. Refused are, whether or not anything raises, records
    with a gap or an infinity in a column where the model refuses a made-up row with one; if the
    rest raises, also those that raise by themselves, found by halving. (Halving alone would take
    time in proportion to the gaps.) Any
    other model gets one record at a time, each with a fresh copy. Last bits follow from the number
    of rows, too. Where that is secret, ``units`` has the person or silo of each row, and known
    models get the k-th rows of all units in a table with a place for each (the first row, where
    there are fewer), and rows beyond the first few one unit at a time.
    """
    width = len(classes) if reads == "log_probabilities" else 1
    every, fixed = np.arange(_num_samples(X)), np.full(width, np.nan)
    last = model.steps[-1][1] if hasattr(model, "steps") else model

    def read(own: Any, table: Any) -> np.ndarray:
        # threads would add up the trees of a forest in an order of their own
        with parallel_config(backend="sequential"):
            return _predictions(own, table, reads, classes)

    def of_table(table: Any) -> np.ndarray | None:
        unread = np.full((_num_samples(table), width), np.nan)
        predictions, (done,) = rows_apart(lambda: model, lambda own, _: read(own, table), 1, unread)
        return predictions[0] if done else None

    def at_once(rows: np.ndarray) -> np.ndarray | None:
        return of_table(_safe_indexing(X, rows))

    def one_by_one(rows: np.ndarray) -> np.ndarray:
        def call(own: Any, i: int) -> np.ndarray:
            return read(own, _safe_indexing(X, rows[i : i + 1]))[0]

        return rows_apart(anew(model, vars(last)), call, len(rows), fixed)[0]

    def of_others(rows: np.ndarray, failing: np.ndarray) -> np.ndarray | None:
        if failing.all():
            return np.full((len(rows), width), np.nan)
        predictions = at_once(np.where(failing, rows[np.argmin(failing)], rows))
        return None if predictions is None else np.where(failing[:, None], np.nan, predictions)

    def of_known(rows: np.ndarray) -> np.ndarray:
        failing = refused[rows]
        if (predictions := of_others(rows, failing)) is not None:
            return predictions
        failing = failing | np.isin(rows, _failing(at_once, rows[~failing]))
        predictions = of_others(rows, failing)
        return one_by_one(rows) if predictions is None else predictions

    if not (keeps_rows_apart(model) if together is None else together):
        return one_by_one(every)
    refused = _refused(of_table, X)
    if units is None:
        return of_known(every)
    out = np.full((len(every), width), np.nan)
    for rows in _by_unit(units):
        out[rows] = of_known(rows)
    return out


def _by_unit(units: np.ndarray) -> Iterator[np.ndarray]:
    """Yield rows to read at once; no table's length, or a row's place, tells of another unit."""
    order = np.argsort(units, kind="stable")
    first = np.flatnonzero(np.diff(units[order], prepend=-1))
    sizes = np.diff(first, append=len(order))
    for k in range(min(_TOGETHER, int(sizes.max(initial=0)))):
        yield order[first + np.where(sizes > k, k, 0)]
    for start, size in zip(first[sizes > _TOGETHER], sizes[sizes > _TOGETHER], strict=True):
        yield order[start + _TOGETHER : start + size]


def _refused(of_table: Callable[[Any], Any], X: Any) -> np.ndarray:
    """Return which rows have a gap or an infinity in a column where a model refuses made-up ones.

    The result for a row follows from this row, the columns' types and the model. Columns without
    floats have none.
    """
    out = np.zeros(_num_samples(X), bool)
    if not isinstance(X, pd.DataFrame | np.ndarray) or X.ndim != 2:
        return out
    table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, copy=False)
    numbers = [(j, _floats(table.iloc[:, j])) for j in np.flatnonzero(_hold_floats(table))]
    if all(np.isfinite(values).all() for _, values in numbers):
        return out
    row = _made_up(X) if table is X else np.zeros_like(X[:1])
    cells = getattr(row, "iloc", row)

    def fails() -> bool:
        return of_table(row) is None

    if fails():
        return out
    for kind, has in ((np.nan, np.isnan), (np.inf, np.isposinf), (-np.inf, np.isneginf)):
        for j, values in numbers:
            if (own := has(values)).any():
                cells[0, j] = kind
                out |= own & fails()
                cells[0, j] = 0.0
    return out


def _hold_floats(table: pd.DataFrame) -> list[bool]:
    dense = [not isinstance(kind, pd.SparseDtype) for kind in table.dtypes]
    return [d and pd.api.types.is_float_dtype(k) for d, k in zip(dense, table.dtypes, strict=True)]


def _floats(column: pd.Series) -> np.ndarray:
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan))


def _made_up(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row with the types of a table: 0, an empty text, or a gap."""
    row = []
    for kind in table.dtypes:
        number = pd.api.types.is_numeric_dtype(kind)
        text = pd.api.types.is_string_dtype(kind) or pd.api.types.is_object_dtype(kind)
        row.append(pd.Series([0 if number else "" if text else None], dtype=kind))
    return pd.concat(row, axis=1).set_axis(table.columns, axis=1).copy()  # an array for each type


def _failing(at_once: Callable[[np.ndarray], Any], rows: np.ndarray) -> list[int]:
    """Return the rows at which a model fails that treats rows by themselves."""
    if at_once(rows) is not None:
        return []
    if len(rows) == 1:
        return rows.tolist()
    half = len(rows) // 2
    return _failing(at_once, rows[:half]) + _failing(at_once, rows[half:])


def _predictions(model: Any, X: Any, reads: str, classes: np.ndarray) -> np.ndarray:
    if reads == "targets" or not len(classes):
        return np.asarray(model.predict(X), float).reshape(-1, 1)
    if reads == "codes":
        return codes_of(model.predict(X), classes)[:, None].astype(float)
    odds = reads == "log_odds" and hasattr(model, "predict_proba")
    if reads != "log_probabilities" and not odds and hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), float).reshape(-1, 1)
    shares = np.zeros((_num_samples(X), len(classes)))
    shares[:, codes_of(model.classes_, classes)] = model.predict_proba(X)
    if reads in ("decisions", "log_odds"):
        return log_odds(shares[:, 1:])
    return shares[:, 1:] if reads == "scores" else np.log(shares)


def log_odds(chances: np.ndarray) -> np.ndarray:
    """Return log-odds of probabilities, finite also for 0 and 1."""
    chances = np.clip(chances, 1e-15, 1 - 1e-15)
    return np.log(chances / (1 - chances))


def codes_of(labels: Any, classes: np.ndarray) -> np.ndarray:
    """Return the places of labels among classes, each by itself; -1 for others."""
    labels = np.asarray(labels)
    if labels.dtype != object:
        with suppress(TypeError):  # of types that do not compare
            order = np.argsort(classes)
            at = np.searchsorted(classes, labels, sorter=order)
            places = order[np.minimum(at, len(classes) - 1)]
            return np.where(classes[places] == labels, places, -1)
    known = {label: place for place, label in enumerate(classes.tolist())}

    def code(label: Any) -> int:
        try:
            return known.get(label, -1)
        except TypeError:  # a list, say
            return -1

    return np.array([code(label) for label in labels.tolist()], dtype=np.int64)


def default_measure(targets: tuple[float, float]) -> federation.Measure:
    """Return the default score of regressors in a search, by public bounds of the targets."""
    low, high = targets
    return federation.Closeness("squared_error", (high - low) / 2, 1.0, shift=1.0)


def _greater_is_better(released: federation.ReleasedScore) -> float:
    """Return a score to maximise; an undefined one counts as chance."""
    score, measure = released.score, released.measure
    return float(measure.sign * (measure.chance if np.isnan(score) else score))


class NoisyScore:
    """Noisy scores over the held-out units: records, or silos by one mean each.

    Formal guarantee
    ----------------
    Each unit enters one sum per model, with a term in a bounded set; a silo's mean is in its convex
    hull for any number of records. Each silo's sum (``trust="silo"``) or the sum of all
    (``"secagg"``, ``"server"``) is released as priced by its plan. The number of units of a mean is
    public, and so are the labels.
    """

    def __init__(
        self, model: Any, guarantee: Guarantee, split: Split, scoring: str | None = None
    ) -> None:
        self._inner, self._range = last_step(model)[1], target_range(model)
        self._guarantee, self._split, self._scoring = guarantee, split, scoring

    def measure(self, labels: np.ndarray) -> federation.Measure:
        """Return the measure for these labels (None for a regressor)."""
        default = None if is_classifier(self._inner) else default_measure(self._range)
        if self._scoring is None and default is not None:
            return default
        known = is_classifier(self._inner)
        chosen = federation.measure_of(
            "accuracy" if self._scoring is None else self._scoring,
            n_classes=len(labels) if known else None,
            targets=None if known else self._range,
        )
        if chosen.reads == "log_probabilities" and not hasattr(self._inner, "predict_proba"):
            raise ValueError(
                f'loss={self._inner.loss!r} has no probabilities: use scoring="accuracy".'
            )
        return chosen

    def labels(self, y: Any) -> np.ndarray:
        """Return the labels, which are public; None for a regressor."""
        return np.unique(np.asarray(y)) if is_classifier(self._inner) else np.zeros(0)

    def of(
        self, models: list[Any], X: Any, y: Any, noise_multiplier: float, streams: Streams
    ) -> np.ndarray:
        """Return the models' noisy scores (k,)."""
        rows = self._split.test
        features, truth = _safe_indexing(X, rows), np.asarray(_safe_indexing(y, rows))
        shared = 1 if self._guarantee.trust == "server" else len(models)
        mu = self._guarantee.change / noise_multiplier if noise_multiplier else np.inf
        mu, codes, of_row = mu / np.sqrt(shared), self._split.codes, self._split.of_row
        units = codes if self._guarantee.unit == "silo" else of_row
        labels, known = self.labels(y), is_classifier(self._inner)

        def release(number: int, model: Any) -> federation.ReleasedScore:
            classes = np.union1d(labels, getattr(model, "classes_", labels))
            if known:
                own = np.asarray(model.classes_)  # levels are in their order
                classes = own if len(own) == len(classes) else classes
            targets = codes_of(truth, classes) if known else truth
            measure = self.measure(classes)
            whole = model_of(model)  # earlier steps: see unpaid_steps
            together = keeps_rows_apart(whole.steps[-1][1] if hasattr(whole, "steps") else whole)
            predicted = predictions(
                model, features, measure.reads, classes, together=together, units=units
            )
            n_silos = int(codes.max()) + 1
            data = federation.SiloData.from_codes(predicted, targets, codes, n_silos, of_row=of_row)
            budgets = federation.SiloBudgets.of(self._guarantee, data.units, mu)
            plan = federation.score_plan(measure, budgets, mu, first=number * len(measure.parts))
            local = federation.LocalFederation(data, streams)
            return federation.ask_score(measure, plan, local, streams)

        return np.array([_greater_is_better(release(*each)) for each in enumerate(models)])
