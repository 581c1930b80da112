"""A silo's own part on top of a joint model, fitted on its own records without noise.

::

    joint     raw(x), by any estimator of this library, paid for
    silo i    raw(x) + f_i(raw(x), x),   f_i from its own records, see below

**Formal guarantee.** A silo's own part (its head) has none, and needs none as long as it stays at
the silo: f_i is a function of silo i's records and of the joint model, and is given to nobody. So
only the joint model leaves, at its own price. A prediction by silo i's head, or a score of such
predictions, depends on its records without noise, so it must not leave either.

Own parts::

    intercept   raw + B       B = argmin mean_j loss(y_j, raw_j + z_j B) + (l / 2) |B|^2, z = 1
    ridge       raw + z B     z = 1, and the joint scores and columns, standardised within the silo
    trees       raw + z B + sum over t <= T of 0.1 f_t(raw, x)      a ridge, then Newton boosting

``l`` is chosen by 5-fold cross-validation among the silo's records, infinity (B = 0) included; T by
4-fold cross-validation from 0 to 80, whose folds fit ridges of their own with the chosen l. With g
and h the derivatives of a record's loss, tree f_t of 6 leaves is fitted to -g / h with weights h,
so that a leaf's value is the Newton step -sum g / sum h; times sum h / (1 + sum h), as if one more
record without error was in it. Labels have log loss, numbers squared error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpfl._arguments import check_choice, codes_of
from skdpfl._compat import as_frame
from skdpfl._pipelines import learns_nothing, private_step, silos_argument
from skdpfl._survival_times import refuse_survival
from skdpfl._warnings import warn
from skdpfl.encoding import canonical, column_values
from skdpfl.silos import read_silos, without_column

#: penalties that a silo tries, the strongest first: that of no own part
PENALTIES = (np.inf, 10.0, 1.0, 0.1, 0.01, 0.001)
#: parts of a silo's own records in its cross-validation; smaller silos have no own part
FOLDS = 5
#: the same of trees: leaves, most rounds and their rate, folds, and fewest records
LEAVES, MOST_ROUNDS, RATE, TREE_FOLDS, ENOUGH = 6, 80, 0.1, 4, 200
#: records of a leaf: as in scikit-learn's histogram boosting
_OF_LEAF = 20
#: the least curvature of a log loss: those of certain records are 0
_LEAST_CURVATURE = 1e-6
Head = Literal["trees", "intercept", "ridge"]
HEADS: tuple[Head, ...] = ("trees", "intercept", "ridge")


class LinearPart(NamedTuple):
    """An intercept or a ridge: the coefficients B (p, k), the centre and scale of its columns."""

    weights: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    penalty: float

    def added(self, raw: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return raw predictions (n, k) with the silo's own part added."""
        return (
            raw + _design(raw, columns, self.center, self.scale, len(self.weights)) @ self.weights
        )


#: a tree, and the values of its nodes
Tree = tuple[DecisionTreeRegressor, np.ndarray]


class BoostedPart(NamedTuple):
    """A ridge and boosted trees on top of it: those of each round, one for each output."""

    ridge: LinearPart
    rounds: tuple[tuple[Tree, ...], ...]

    def added(self, raw: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return raw predictions (n, k) with the silo's own part added."""
        *_, last = self.staged(raw, columns)
        return last

    def staged(self, raw: np.ndarray, columns: np.ndarray) -> Iterator[np.ndarray]:
        """Yield raw predictions (n, k) after each number of rounds, 0 first."""
        beside, now = _single(raw, columns), self.ridge.added(raw, columns)
        yield now
        for trees in self.rounds:
            now = now + _step(trees, beside)
            yield now


class SiloHeads(dict[Any, LinearPart | BoostedPart]):
    """Silos' own parts by silo id. The repr shows no values; it cannot be pickled.

    ``places``: those of the columns that the parts take.
    """

    places: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<own parts of {len(self)} silos>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "The silos' own parts were fitted without noise, so they cannot be pickled. Pickle the "
            "SiloAdapted itself: the pickle then holds the joint model alone."
        )


class OwnRecords(NamedTuple):
    """A silo's records: joint raw predictions (n, k), columns (n, d), and targets (n,).

    ``labels``: whether targets are codes of labels.
    """

    raw: np.ndarray
    columns: np.ndarray
    y: np.ndarray
    labels: bool

    def at(self, rows: np.ndarray) -> OwnRecords:
        """Return some of the records."""
        return OwnRecords(self.raw[rows], self.columns[rows], self.y[rows], self.labels)

    def losses(self, raw: np.ndarray) -> np.ndarray:
        """Return each record's loss of raw predictions."""
        return _log_losses(self.y, raw) if self.labels else (self.y - raw[:, 0]) ** 2


def own_part(head: Head, records: OwnRecords) -> LinearPart | BoostedPart | None:
    """Return a silo's own part; None for fewer than ten records."""
    n = len(records.y)
    if n < 2 * FOLDS:
        return None
    if head == "trees" and n >= ENOUGH:
        return _boosted(records)
    return _line(records, ridge=head == "ridge")


def _folds(n: int, number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows that a part of the cross-validation fits, and those it is tried on."""
    fold = np.random.default_rng(0).permutation(n) % number
    for part in range(number):
        yield np.flatnonzero(fold != part), np.flatnonzero(fold == part)


def _boosted(records: OwnRecords) -> BoostedPart:
    """Return a ridge and as many boosted trees as the cross-validation prefers."""
    ridge, losses = _line(records, ridge=True), np.zeros(MOST_ROUNDS + 1)
    for here, out in _folds(len(records.y), TREE_FOLDS):
        fit, tried = records.at(here), records.at(out)
        fitted = _trees(fit, _with(ridge.penalty, fit, ridge=True), MOST_ROUNDS)
        stages = fitted.staged(tried.raw, tried.columns)
        losses += [float(tried.losses(raw).sum()) for raw in stages]
    return _trees(records, ridge, _place_of_least(losses))


def _trees(records: OwnRecords, ridge: LinearPart, n_rounds: int) -> BoostedPart:
    """Return a ridge and so many rounds of boosted trees."""
    beside = _single(records.raw, records.columns)
    now, rounds = ridge.added(records.raw, records.columns), []
    for _ in range(n_rounds):
        steps = zip(*(part.T for part in _derivatives(records, now)), strict=True)
        trees = tuple(_tree(beside, slope, bend) for slope, bend in steps)
        now = now + _step(trees, beside)
        rounds.append(trees)
    return BoostedPart(ridge, tuple(rounds))


def _step(trees: tuple[Tree, ...], columns: np.ndarray) -> np.ndarray:
    """Return the step (n, k) of a round's trees, one for each output."""
    return np.column_stack([values[tree.tree_.apply(columns)] for tree, values in trees])


def _single(raw: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return joint scores and columns (n, k + d), as trees read them."""
    return _within_single(np.hstack([raw, columns])).astype(np.float32)


def _numbers(frame: pd.DataFrame, places: Sequence[int]) -> np.ndarray:
    """Return columns of a frame (n, d) as numbers, 0 for gaps, which may make objects of them.

    Infinity is a gap, as it is for joint models of frames; others refuse it.
    """
    columns = np.zeros((len(frame), len(places)))
    for j, place in enumerate(places):
        columns[:, j] = canonical(column_values(frame.iloc[:, place]), "number")
    return _within_single(np.where(np.isfinite(columns), columns, 0.0))


def _within_single(values: np.ndarray) -> np.ndarray:
    """Return values, the largest of them as large as numbers of 32 bits are."""
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest)


def _tree(columns: np.ndarray, slope: np.ndarray, bend: np.ndarray) -> Tree:
    """Return the tree of Newton steps for the derivatives of losses."""
    tree = DecisionTreeRegressor(max_leaf_nodes=LEAVES, min_samples_leaf=_OF_LEAF, random_state=0)
    with config_context(skip_parameter_validation=True):  # as long as the fit of a small silo
        tree.fit(columns, -slope / bend, sample_weight=bend, check_input=False)
    weight = tree.tree_.weighted_n_node_samples
    return tree, RATE * (tree.tree_.value[:, 0, 0] * weight / (1 + weight))


def _derivatives(records: OwnRecords, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and second derivatives (n, k) of losses in raw predictions."""
    if not records.labels:
        return raw - records.y[:, None], np.ones_like(raw)
    likely = _likely(raw)
    return likely - _hits(records.y, raw), np.maximum(likely * (1 - likely), _LEAST_CURVATURE)


def _likely(raw: np.ndarray) -> np.ndarray:
    """Return the labels' probabilities (n, k), without the first of two."""
    return np.asarray(softmax(raw, axis=1) if raw.shape[1] > 1 else expit(raw))


def _hits(y: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Return 1 for a record's label, else 0 (n, k)."""
    k = raw.shape[1]
    return np.asarray((y[:, None] == (np.arange(k) if k > 1 else 1)).astype(float))


# ---- intercepts and ridges -------------------------------------------------------------------


def _place_of_least(losses: np.ndarray) -> int:
    """Return the place of the least loss; numbers that overflowed are none."""
    return int(np.nan_to_num(losses, nan=np.inf, posinf=np.inf).argmin())


def _line(records: OwnRecords, ridge: bool) -> LinearPart:
    """Return an intercept or a ridge with the penalty that the cross-validation prefers."""
    losses = np.zeros(len(PENALTIES))
    for here, out in _folds(len(records.y), FOLDS):
        tried = records.at(out)
        for at, penalty in enumerate(PENALTIES):
            line = _with(penalty, records.at(here), ridge)
            losses[at] += tried.losses(line.added(tried.raw, tried.columns)).sum()
    return _with(PENALTIES[_place_of_least(losses)], records, ridge)


def _with(penalty: float, records: OwnRecords, ridge: bool) -> LinearPart:
    """Return the own part of a given penalty."""
    raw, columns = records.raw, records.columns
    beside = np.hstack([raw, columns]) if ridge else columns[:, :0]
    center, scale = beside.mean(axis=0), beside.std(axis=0)
    # a column of one value: its mean is rounded, so its deviation may not be 0
    scale = np.where((scale > 0) & (np.ptp(beside, axis=0) > 0), scale, np.inf)
    design = _design(raw, columns, center, scale, 1 + len(center))
    weights = np.zeros((design.shape[1], raw.shape[1]))
    if np.isfinite(penalty):
        solve = _by_log_loss if records.labels else _by_squares
        weights = solve(design, raw, records.y, penalty)
    return LinearPart(weights, center, scale, penalty)


def _design(
    raw: np.ndarray, columns: np.ndarray, center: np.ndarray, scale: np.ndarray, width: int
) -> np.ndarray:
    """Return z(x) (n, p): ones, and for a ridge standardised scores and columns."""
    ones = np.ones((len(raw), 1))
    if width == 1:
        return ones
    return np.hstack([ones, (np.hstack([raw, columns]) - center) / scale])


def _by_squares(design: np.ndarray, raw: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """Return the minimiser of mean squared error / 2 and penalty / 2 |B|^2."""
    n, p = design.shape
    normal = design.T @ design / n + penalty * np.eye(p)
    return np.linalg.solve(normal, design.T @ (y - raw[:, 0]) / n)[:, None]


def _by_log_loss(design: np.ndarray, raw: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """Return the minimiser of mean log loss and penalty / 2 |B|^2."""
    shape = design.shape[1], raw.shape[1]
    hits = _hits(y, raw)

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        now = raw + design @ weights
        loss = _log_losses(y, now).mean() + penalty / 2 * (weights**2).sum()
        slope = design.T @ (_likely(now) - hits) / len(y)
        return float(loss), (slope + penalty * weights).ravel()

    minimum = minimize(value, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B")
    return np.asarray(minimum.x).reshape(shape)


def _log_losses(y: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Return each record's log loss, of labels as numbers."""
    if raw.shape[1] > 1:
        return -np.asarray(log_softmax(raw, axis=1))[np.arange(len(y)), y]
    signed = np.where(y == 1, raw[:, 0], -raw[:, 0])
    return np.asarray(logsumexp(np.stack([np.zeros(len(y)), -signed]), axis=0))


def _has(method: str) -> Any:
    """Return whether the joint estimator has a method, for ``available_if``."""

    def check(adapted: SiloAdapted) -> bool:
        getattr(getattr(adapted, "estimator_", adapted.estimator), method)
        return True

    return check


class SiloAdapted(MetaEstimatorMixin, BaseEstimator):
    """A joint model with each silo's own part, which costs nothing because it never leaves.

    After the joint fit each silo fits, on its own records, without noise, an own intercept, a ridge
    on the joint score and the features, or such a ridge and boosted trees on top of it. Its own
    cross-validation decides how strong a penalty, and how many trees; the joint model alone is
    always one of the choices. In one process this is a simulation of all silos. Over a federation
    fit the joint model by ``fit_federation``, then let each silo call :meth:`fit_heads` for itself.

    Parameters
    ----------
    estimator : estimator
        An estimator of this library, or a pipeline that ends in one: the joint model.
    head : {"trees", "intercept", "ridge"} or None, default="trees"
        What each silo fits for itself; None: nothing. Trees, which start from the silo's ridge,
        find what a linear model cannot; a silo of fewer than 200 records gets an intercept instead.
        Intercepts help where silos differ in level and have at least ten records; silos with fewer
        have the joint model. A ridge needs some hundred records, and helps most where the joint
        model is mostly noise.

    Attributes
    ----------
    estimator_ : estimator
        The fitted joint model.
    silo_heads_ : mapping
        Each silo's own part. It is for that silo alone: it is not pickled, and shows no values.
    privacy_spent_ : PrivacySpent
        What the joint model cost. Nothing is added for own parts, as long as they stay where they
        are, predictions with them included.
    classes_ : ndarray
        The labels (classifiers only).
    n_features_in_ : int
        The number of features, as the joint model has it.
    feature_names_in_ : ndarray
        Their names, where the joint model has them.

    See Also
    --------
    skdpfl.ISRLDPClassifier : A joint model.

    Notes
    -----
    A single record may change a silo's predictions with its own part, and any score of them, by any
    amount. So private searches, ``score_federation`` and displays refuse this estimator: search for
    the joint model, and adapt it afterwards.

    Examples
    --------
    >>> from skdpfl import ISRLDPRegressor, SiloAdapted
    >>> from skdpfl.datasets import make_federated_regression
    >>> data = make_federated_regression(5, 100, n_features=5, random_state=0)
    >>> joint = ISRLDPRegressor(3.0, feature_bounds=(-6, 6), target_bounds=(-9, 9), random_state=0)
    >>> level = data.silos - 2.0
    >>> model = SiloAdapted(joint).fit(data.data, data.target + level, silos=data.silos)
    >>> own = model.score(data.data, data.target + level, silos=data.silos)
    >>> own > model.score(data.data, data.target + level)
    True
    >>> model.silo_heads_
    <own parts of 5 silos>
    """

    __metadata_request__fit = {"silos": True}  # noqa: RUF012
    __metadata_request__predict = {"silos": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"silos": True}  # noqa: RUF012
    __metadata_request__decision_function = {"silos": True}  # noqa: RUF012
    __metadata_request__score = {"silos": True}  # noqa: RUF012

    #: what private searches, displays and scores elsewhere refuse
    stays_at_silos = True
    holds = "estimator_"

    def __init__(self, estimator: Any, head: Head | None = "trees") -> None:
        self.estimator = estimator
        self.head = head

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        return tags

    def fit(self, X: Any, y: Any, *, silos: Any = None) -> SiloAdapted:
        """Fit the joint model, then each silo's own part.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the joint estimator has a ``silo_column``.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._check()
        passed = silos_argument(self.estimator, silos)
        self.estimator_ = clone(self.estimator).fit(X, y, **passed)
        return self.fit_heads(X, y, silos=silos)

    def fit_heads(self, X: Any, y: Any, *, silos: Any = None) -> SiloAdapted:
        """Fit the silos' own parts on top of a joint model that is already fitted.

        This is what a silo does for itself: ``estimator`` is then the fitted joint model.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of the silos whose parts are fitted; at a silo, its own.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the joint estimator has a ``silo_column``. Without both all
            records are those of one silo, named 0.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._check()
        if not hasattr(self, "estimator_"):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        raw, frame, heads = self._raw(X), self._features(X), SiloHeads()
        if self.head in ("ridge", "trees"):
            numeric = map(is_numeric_dtype, frame.dtypes)
            heads.places = tuple(np.flatnonzero(list(numeric)).tolist())
        columns, targets = _numbers(frame, heads.places), np.asarray(y)
        if is_classifier(self):
            targets = codes_of(targets, self.classes_)
        where = self._silos(X, silos, len(raw))
        for number, silo in enumerate(where.ids.tolist()):
            own = np.flatnonzero(where.codes == number)
            if self.head is None:
                continue
            records = OwnRecords(raw[own], columns[own], targets[own], is_classifier(self))
            with np.errstate(all="ignore"):  # what overflows would warn of a record
                if (part := own_part(self.head, records)) is not None:
                    heads[silo] = part
        self.silo_heads_ = heads
        return self

    def predict(self, X: Any, *, silos: Any = None) -> np.ndarray:
        """Predict with each silo's own part; records of other silos get the joint model.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless X has the joint estimator's ``silo_column``. Without both the
            joint model predicts.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels or targets.
        """
        raw = self._adapted(X, silos)
        if not is_classifier(self):
            return raw[:, 0]
        codes = raw.argmax(axis=1) if raw.shape[1] > 1 else (raw[:, 0] > 0).astype(int)
        return np.asarray(self.classes_[codes])

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any, *, silos: Any = None) -> np.ndarray:
        """Return the joint raw predictions with each silo's own part.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.
        silos : array-like of shape (n_samples,), default=None
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Raw predictions.
        """
        raw = self._adapted(X, silos)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any, *, silos: Any = None) -> np.ndarray:
        """Return probabilities of the labels with each silo's own part.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.
        silos : array-like of shape (n_samples,), default=None
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        raw = self._adapted(X, silos)
        if raw.shape[1] > 1:
            return np.asarray(softmax(raw, axis=1))
        return np.column_stack([expit(-raw[:, 0]), expit(raw[:, 0])])

    def score(self, X: Any, y: Any, *, silos: Any = None) -> float:
        """Return the accuracy, or R squared, of predictions with each silo's own part.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            As in :meth:`predict`.

        Returns
        -------
        float
            The score. It is not private: show it only to the silos whose records are in X.
        """
        measure = accuracy_score if is_classifier(self) else r2_score
        return float(measure(y, self.predict(X, silos=silos)))

    @property
    def privacy_spent_(self) -> Any:
        """The cost of the joint model; of a pipeline only if its other steps learn nothing."""
        check_is_fitted(self)
        steps = getattr(self.estimator_, "steps", ())[:-1]
        if not all(learns_nothing(step) for _, step in steps):
            raise AttributeError(
                "Other steps of the joint model may have read the records, too: "
                "skdpfl.privacy_spent(...) of this object has the whole cost."
            )
        return private_step(self.estimator_)[1].privacy_spent_

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.pop("silo_heads_", None) is not None:
            state["_heads_stayed"] = True
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def _check(self) -> None:
        if self.head is not None:
            check_choice("head", self.head, HEADS)
        inner = private_step(self.estimator)[1]
        refuse_survival(inner, "SiloAdapted")
        if is_classifier(inner) and inner._loss().one_slope:
            raise ValueError(
                f"SiloAdapted does not take loss={inner.loss!r}, of ordered labels, yet."
            )

    def _silo_column(self) -> Any:
        return private_step(self.estimator)[1].silo_column

    def _silos(self, X: Any, silos: Any, n_rows: int) -> Any:
        """Return each row's silo, from the argument or the joint estimator's column."""
        column, frame = self._silo_column(), as_frame(X)
        if silos is None and column is not None and column in getattr(frame, "columns", ()):
            silos = frame[column]
        return read_silos(silos, n_rows, frame)

    def _raw(self, X: Any) -> np.ndarray:
        """Return the joint model's raw predictions (n, k)."""
        joint = self.estimator_
        raw = joint.decision_function(X) if is_classifier(self) else joint.predict(X)
        return np.asarray(raw, dtype=float).reshape(len(raw), -1)

    def _features(self, X: Any) -> pd.DataFrame:
        """Return the features as a frame of pandas."""
        return pd.DataFrame(without_column(as_frame(X), self._silo_column()))

    def _adapted(self, X: Any, silos: Any) -> np.ndarray:
        """Return raw predictions (n, k) with each silo's own part."""
        check_is_fitted(self)
        raw, frame = self._raw(X), as_frame(X)
        named = silos is not None or self._silo_column() in list(getattr(frame, "columns", ()))
        heads = getattr(self, "silo_heads_", None)
        if heads is None:
            if named and getattr(self, "_heads_stayed", False):
                warn(
                    "This model was unpickled, and a pickle leaves out the silos' own parts, so "
                    "the joint model predicts. At a silo, fit_heads(X, y) fits its own part again."
                )
            return raw
        if not named or not heads:
            return raw
        where, columns = self._silos(X, silos, len(raw)), _numbers(self._features(X), heads.places)
        for number, silo in enumerate(where.ids.tolist()):
            if silo in heads:
                own = np.flatnonzero(where.codes == number)
                raw[own] = heads[silo].added(raw[own], columns[own])
        return raw
