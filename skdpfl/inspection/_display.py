"""Shared code of the displays: axes, colours and scores."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import copy
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import type_of_target

from skdpfl._pipelines import private_step, silos_argument
from skdpfl._warnings import LeftOut, new_silos_expected
from skdpfl.model_selection import LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold

#: the colour-blind safe palette of Okabe and Ito, dark colours first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "0.35"

_SILO_FOLDS = (LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold)


def pyplot() -> Any:
    """Return matplotlib's pyplot; if it is missing, the error says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib; install it with: pip install 'skdpfl[plot]'."
        ) from error
    return plt


def axes_of(ax: Any) -> tuple[Any, Any]:
    """Return (figure, axes), new ones if none are given."""
    plt = pyplot()
    if ax is not None:
        return ax.figure, ax
    figure, ax = plt.subplots(layout="constrained")
    return figure, ax


def tidy(ax: Any) -> None:
    """Hide the upper and right spines, and draw a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    if not ax.images:
        ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


class Display:
    """Base class of displays: axes, drawing, ``ax_`` and ``figure_``."""

    figure_: Any
    ax_: Any

    def plot(self, ax: Any = None, *, color: str | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to plot on; by default those of a new figure.
        color : str, default=None
            The bars' or the line's colour.

        Returns
        -------
        self : object
        """
        self.figure_, self.ax_ = axes_of(ax)
        self._draw(color)
        tidy(self.ax_)
        return self

    def _draw(self, color: str | None) -> None:
        """Draw on ``ax_``, and set the artists' attributes."""
        raise NotImplementedError


def next_colour(ax: Any) -> str:
    """Return the colour of the next line; dashed ones are baselines and do not count."""
    lines = [line for line in ax.lines if line.get_linestyle() == "-"]
    return COLOURS[len(lines) % len(COLOURS)]


def logarithmic(ax: Any, values: np.ndarray, label: str) -> None:
    """Make x logarithmic with a tick at each value, at most seven of them."""
    ax.set_xscale("log")
    some = values[np.unique(np.linspace(0, len(values) - 1, min(7, len(values))).astype(int))]
    ax.set_xticks(some, [f"{v:g}" for v in some])
    ax.minorticks_off()
    ax.set_xlabel(label)


def draw_scores(ax: Any, x: Any, scores: Any, **line: Any) -> tuple[Any, Any]:
    """Draw the means of scores (n, n_repeats) and a band of one standard deviation."""
    scores = np.asarray(scores, dtype=float).reshape(len(x), -1)
    mean, std = scores.mean(axis=1), scores.std(axis=1)
    line["color"] = line["color"] or next_colour(ax)
    (drawn,) = ax.plot(x, mean, **line)
    if scores.shape[1] == 1:
        return drawn, None
    if len(x) == 1:  # a band has no width there
        return drawn, ax.errorbar(x, mean, std, color=line["color"], capsize=4)
    shade = {"color": line["color"], "alpha": 0.15, "linewidth": 0}
    return drawn, ax.fill_between(x, mean - std, mean + std, **shade)


def score_label(scoring: str) -> str:
    """Return a score's name as text: "neg_log_loss" is "negative log loss"."""
    known = {"r2": "R²", "roc auc": "ROC AUC", "f1": "F1"}
    words = scoring.removeprefix("neg_").removesuffix("_score").replace("_", " ")
    return ("negative " if scoring.startswith("neg_") else "") + known.get(words, words)


def predicted_scores(
    y_true: Any, y_pred: Mapping[Any, Any], metric: Callable[..., float] | None
) -> tuple[dict[float, float], str]:
    """Return the score of each model's predictions, and its name."""
    if metric is None:
        fractions = any(type_of_target(p).startswith("continuous") for p in y_pred.values())
        numbers = fractions or np.asarray(y_true).dtype.kind == "f"
        metric = r2_score if numbers else accuracy_score
    name = getattr(metric, "__name__", "score")
    score = {float(value): float(metric(y_true, p)) for value, p in y_pred.items()}
    return score, score_label(name)


def constant_score(
    y: Any, fold: tuple[np.ndarray, np.ndarray], scoring: str | None, classifies: bool
) -> float:
    """Return the test score, on one fold, of a constant prediction."""
    train, test = (_safe_indexing(np.asarray(y), rows) for rows in fold)
    dummy = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
    dummy.fit(np.zeros((len(train), 1)), train)
    return float(check_scoring(dummy, scoring=scoring)(dummy, np.zeros((len(test), 1)), test))


def default_score(estimator: Any) -> str:
    """Return the name of an estimator's own score."""
    return "accuracy" if is_classifier(estimator) else "R²"


def folds_of(
    cv: Any, X: Any, y: np.ndarray, codes: np.ndarray | None, classifies: bool
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows; by default with every silo in each fold."""
    if isinstance(cv, Iterable):
        cv = list(cv) if np.iterable(cv) and not isinstance(cv, (str, bytes)) else []
        if not cv or not all(isinstance(fold, (tuple, list)) and len(fold) == 2 for fold in cv):
            raise TypeError("cv must be a number of folds, a splitter, or pairs of rows.")
    if codes is not None and isinstance(cv, Integral):
        cv = SiloStratifiedKFold(int(cv))
    folds = check_cv(cv, y, classifier=classifies)
    if isinstance(folds, _SILO_FOLDS) and folds.silo_column is not None:
        if codes is None:
            return folds.split(X, y)
        folds = copy(folds)
        folds.silo_column = None  # the silos are known already
    wants_silos = isinstance(folds, (GroupsConsumerMixin, *_SILO_FOLDS))
    return folds.split(np.zeros(len(y)), y, codes if wants_silos else None)


def score_at(
    estimator: Any,
    epsilon: float,
    X: Any,
    y: Any,
    silos: Any,
    fold: tuple[np.ndarray, np.ndarray],
    scoring: Any,
) -> float:
    """Return the test score of one fit on one fold."""
    train, test = fold
    prefix, _ = private_step(estimator)
    budget = {f"{prefix}epsilon": epsilon, f"{prefix}noise_multiplier": None}
    model = clone(estimator).set_params(**budget)
    params = silos_argument(model, None if silos is None else _safe_indexing(silos, train))
    model.fit(_safe_indexing(X, train), _safe_indexing(y, train), **params)
    score = check_scoring(model, scoring=scoring)
    with new_silos_expected() if isinstance(test, LeftOut) else nullcontext():
        return float(score(model, _safe_indexing(X, test), _safe_indexing(y, test)))
