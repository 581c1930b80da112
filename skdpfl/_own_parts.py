"""What a silo fits for itself on top of joint raw predictions, from its own records alone.

::

    trees       raw + sum over t <= T of 0.1 f_t(raw, x)      Newton boosting, see below
    intercept   raw + B       B = argmin mean_j loss(y_j, raw_j + z_j B) + (l / 2) |B|^2, z = 1
    ridge       raw + z B     z = 1, and the joint scores and columns, standardised within the silo

``l`` is chosen by 5-fold cross-validation among the silo's records, infinity (B = 0) included; T by
4-fold cross-validation from 0 to 80. With g and h the derivatives of a record's loss, tree f_t of 6
leaves is fitted to -g / h with weights h, so that a leaf's value is the Newton step -sum g / sum h;
times sum h / (1 + sum h), as if one more record without error was in it. Labels have log loss,
numbers squared error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn import config_context
from sklearn.tree import DecisionTreeRegressor

#: penalties that a silo tries, the strongest first: that of no own part
PENALTIES = (np.inf, 10.0, 1.0, 0.1, 0.01, 0.001)
#: parts of a silo's own records in its cross-validation; smaller silos have no own part
FOLDS = 5
#: the same of trees: leaves, most rounds and their rate, folds, and fewest records
LEAVES, MOST_ROUNDS, RATE, TREE_FOLDS, ENOUGH = 6, 80, 0.1, 4, 200
#: records of a leaf: as in scikit-learn's histogram boosting
_OF_LEAF = 20
#: the least curvature of a log loss: those of certain records are 0
_FLATTEST = 1e-6
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


class Tree(NamedTuple):
    """A tree and the values of its nodes."""

    tree: DecisionTreeRegressor
    values: np.ndarray

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        found: np.ndarray = RATE * self.values[self.tree.tree_.apply(columns)]
        return found


class BoostedPart(NamedTuple):
    """Boosted trees: those of each round, one for each output."""

    rounds: tuple[tuple[Tree, ...], ...]

    def added(self, raw: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return raw predictions (n, k) with the silo's own part added."""
        *_, last = self.staged(raw, columns)
        return last

    def staged(self, raw: np.ndarray, columns: np.ndarray) -> Iterator[np.ndarray]:
        """Yield raw predictions (n, k) after each number of rounds, 0 first."""
        beside, now = _single(raw, columns), raw
        yield now
        for trees in self.rounds:
            now = now + np.column_stack([tree(beside) for tree in trees])
            yield now


class SiloHeads(Mapping[Any, LinearPart | BoostedPart]):
    """Silos' own parts by silo id. The repr shows no values; it cannot be pickled."""

    def __init__(self, heads: dict[Any, LinearPart | BoostedPart]) -> None:
        self._heads = heads

    def __getitem__(self, silo: Any) -> LinearPart | BoostedPart:
        return self._heads[silo]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._heads)

    def __len__(self) -> int:
        return len(self._heads)

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
    """Return boosted trees, as many as the cross-validation prefers."""
    losses = np.zeros(MOST_ROUNDS + 1)
    for here, out in _folds(len(records.y), TREE_FOLDS):
        fitted, tried = _trees(records.at(here), MOST_ROUNDS), records.at(out)
        stages = fitted.staged(tried.raw, tried.columns)
        losses += [float(tried.losses(raw).sum()) for raw in stages]
    return _trees(records, int(losses.argmin()))


def _trees(records: OwnRecords, n_rounds: int) -> BoostedPart:
    """Return so many rounds of boosted trees."""
    beside, now = _single(records.raw, records.columns), records.raw
    rounds = []
    for _ in range(n_rounds):
        steps = zip(*(part.T for part in _derivatives(records, now)), strict=True)
        trees = tuple(_tree(beside, slope, bend) for slope, bend in steps)
        now = now + np.column_stack([tree(beside) for tree in trees])
        rounds.append(trees)
    return BoostedPart(tuple(rounds))


def _single(raw: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return joint scores and columns (n, k + d), as trees read them."""
    largest = np.finfo(np.float32).max
    return np.clip(np.hstack([raw, columns]), -largest, largest).astype(np.float32)


def _tree(columns: np.ndarray, slope: np.ndarray, bend: np.ndarray) -> Tree:
    """Return the tree of Newton steps for the derivatives of losses."""
    tree = DecisionTreeRegressor(max_leaf_nodes=LEAVES, min_samples_leaf=_OF_LEAF, random_state=0)
    with config_context(skip_parameter_validation=True):  # as long as the fit of a small silo
        tree.fit(columns, -slope / bend, sample_weight=bend, check_input=False)
    weight = tree.tree_.weighted_n_node_samples
    return Tree(tree, tree.tree_.value[:, 0, 0] * weight / (1 + weight))


def _derivatives(records: OwnRecords, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and second derivatives (n, k) of losses in raw predictions."""
    if not records.labels:
        return raw - records.y[:, None], np.ones_like(raw)
    likely = _likely(raw)
    return likely - _hits(records.y, raw), np.maximum(likely * (1 - likely), _FLATTEST)


def _likely(raw: np.ndarray) -> np.ndarray:
    """Return the labels' probabilities (n, k), without the first of two."""
    return np.asarray(softmax(raw, axis=1) if raw.shape[1] > 1 else expit(raw))


def _hits(y: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Return 1 for a record's label, else 0 (n, k)."""
    k = raw.shape[1]
    return np.asarray((y[:, None] == (np.arange(k) if k > 1 else 1)).astype(float))


# ---- intercepts and ridges -------------------------------------------------------------------


def _line(records: OwnRecords, ridge: bool) -> LinearPart:
    """Return an intercept or a ridge with the penalty that the cross-validation prefers."""
    losses = np.zeros(len(PENALTIES))
    for here, out in _folds(len(records.y), FOLDS):
        tried = records.at(out)
        for at, penalty in enumerate(PENALTIES):
            line = _with(penalty, records.at(here), ridge)
            losses[at] += tried.losses(line.added(tried.raw, tried.columns)).sum()
    return _with(PENALTIES[int(losses.argmin())], records, ridge)


def _with(penalty: float, records: OwnRecords, ridge: bool) -> LinearPart:
    """Return the own part of a given penalty."""
    raw, columns = records.raw, records.columns
    beside = np.hstack([raw, columns]) if ridge else columns[:, :0]
    center, scale = beside.mean(axis=0), beside.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
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
