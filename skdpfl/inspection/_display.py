"""Displays: axes, colours, scores; of noisy counts and quantiles; of models and coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from skdpfl._pipelines import private_step
from skdpfl.model_selection import LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold
from skdpfl.privacy.spending.spent import SIMULATION

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
            "Displays need matplotlib; install it with: pip install matplotlib."
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
    (artist,) = ax.plot(x, mean, **line)
    if scores.shape[1] == 1:
        return artist, None
    if len(x) == 1:  # a band has no width there
        return artist, ax.errorbar(x, mean, std, color=line["color"], capsize=4)
    shade = {"color": line["color"], "alpha": 0.15, "linewidth": 0}
    return artist, ax.fill_between(x, mean - std, mean + std, **shade)


def score_label(scoring: str) -> str:
    """Return a score's name as text: "neg_log_loss" is "negative log loss"."""
    known = {"r2": "R²", "roc auc": "ROC AUC", "f1": "F1"}
    words = scoring.removeprefix("neg_").removesuffix("_score").replace("_", " ")
    return ("negative " if scoring.startswith("neg_") else "") + known.get(words, words)


def constant_score(
    y: Any, fold: tuple[np.ndarray, np.ndarray], scoring: str | None, classifies: bool
) -> float:
    """Return the test score, on one fold, of a constant prediction."""
    train, test = (_safe_indexing(np.asarray(y), rows) for rows in fold)
    dummy = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
    dummy.fit(np.zeros((len(train), 1)), train)
    return float(check_scoring(dummy, scoring=scoring)(dummy, np.zeros((len(test), 1)), test))


def name_of_score(scoring: Any, estimator: Any) -> str:
    """Return a score's name as text, of None or a function that of the estimator's own score."""
    if isinstance(scoring, str):
        return score_label(scoring)
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


#: more bars than this have no names
_MOST_NAMED_BARS = 30
#: the quantiles of a box: its whiskers, ends and middle
_BOX = {"whislo": "5%", "q1": "25%", "med": "50%", "q3": "75%", "whishi": "95%"}


@dataclass(eq=False, repr=False, kw_only=True)
class CountsDisplay(Display):
    """Noisy counts as bars, with error bars of two standard deviations of the noise.

    Make one with :meth:`from_counts`.

    Parameters
    ----------
    counts : Series
        The counts, by interval or by value.
    noise_error : float
        The standard deviation of the noise in each count.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    histogram, value_counts : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.inspection import CountsDisplay, histogram
    >>> ages = np.random.default_rng(0).normal(60, 10, 2000)
    >>> counts = histogram(ages, 12, feature_bounds=(0, 120), random_state=0)
    >>> len(CountsDisplay.from_counts(counts).bars_)
    12
    """

    counts: pd.Series
    noise_error: float

    @classmethod
    def from_counts(cls, counts: pd.Series, *, ax: Any = None) -> CountsDisplay:
        """Draw a result of ``histogram`` or ``value_counts``.

        Parameters
        ----------
        counts : Series
            The result; with ``by_silo``, the counts of all silos are drawn.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        CountsDisplay
        """
        shown = counts.loc[counts.index[0][0]] if counts.index.nlevels > 1 else counts
        return cls(counts=shown, noise_error=counts.attrs["noise_error"]).plot(ax)

    def _draw(self, color: str | None) -> None:
        index, color = self.counts.index, color or COLOURS[0]
        error = {"yerr": 2 * self.noise_error, "ecolor": GREY, "capsize": 2, "color": color}
        if isinstance(index, pd.IntervalIndex):
            width = index.length
            self.bars_ = self.ax_.bar(index.left, self.counts, width, align="edge", **error)
        else:
            places = np.arange(len(index))
            self.bars_ = self.ax_.bar(places, self.counts, 0.7, **error)
            if len(places) <= _MOST_NAMED_BARS:
                self.ax_.set_xticks(places, [str(value) for value in index], rotation=30)
        self.ax_.axhline(0, color=GREY, linewidth=0.8)
        name = self.counts.name
        self.ax_.set(xlabel="" if name is None else str(name), ylabel="noisy count")


@dataclass(eq=False, repr=False, kw_only=True)
class QuantilesDisplay(Display):
    """Noisy quantiles of a column as boxes, one for each silo.

    A box contains half of the values, its whiskers nine tenths; the line is the median. Make one
    with
    :meth:`from_description`.

    Parameters
    ----------
    quantiles : DataFrame
        One row for each box; the columns "5%", "25%", "50%", "75%" and "95%".
    name : str
        The name of the values.

    Attributes
    ----------
    boxes_ : dict of matplotlib artists
        The artists of the boxes.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    describe : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpfl.inspection import QuantilesDisplay, describe
    >>> frame = pd.DataFrame({"age": np.random.default_rng(0).normal(60, 10, 4000)})
    >>> table = describe(frame, epsilon=4.0, feature_bounds=(0, 120), silos=["a", "b"] * 2000,
    ...                  by_silo=True, random_state=0)
    >>> len(QuantilesDisplay.from_description(table, "age").boxes_["medians"])
    3
    """

    quantiles: pd.DataFrame
    name: str

    @classmethod
    def from_description(
        cls, table: pd.DataFrame, column: Any, *, ax: Any = None
    ) -> QuantilesDisplay:
        """Draw a column of a result of ``describe``.

        Parameters
        ----------
        table : DataFrame
            The result; with ``by_silo`` there is a box for each silo.
        column : str or int
            The name of a numeric column.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        QuantilesDisplay
        """
        silos = table.index.nlevels > 1
        rows = table.xs(column, level="column") if silos else table.loc[[column]]
        boxes = rows[list(_BOX.values())].astype(float).dropna()
        if boxes.empty:
            raise ValueError(
                f"{column!r} has no quantiles: it is not numeric, or noise dominates it."
            )
        return cls(quantiles=boxes, name=str(column)).plot(ax)

    def _draw(self, color: str | None) -> None:
        # noise may bring quantiles out of their order
        ordered = np.maximum.accumulate(self.quantiles.to_numpy(), axis=1)
        boxes = [dict(zip(_BOX, row, strict=True)) | {"fliers": []} for row in ordered.tolist()]
        line = {"color": color or COLOURS[0], "linewidth": 1.5}
        self.boxes_ = self.ax_.bxp(boxes, showfliers=False, boxprops=line, whiskerprops=line,
                                   capprops=line, medianprops=line)  # fmt: skip
        names = [str(name) for name in self.quantiles.index]
        places = range(1, len(names) + 1)
        self.ax_.set_xticks(places, names, rotation=30 if len(names) > 6 else 0)
        self.ax_.set(ylabel=self.name)


#: panels in a row, their size in inches, and products that are shown unless asked for others
_PER_ROW, _WIDTH, _HEIGHT, _PRODUCTS = 3, 3.6, 2.7, 3
#: points on each side of a heat map; noise errors on each side of a curve that are shaded
_CELLS, _ERRORS = 41, 2.0
#: the share of records whose cells of a heat map are coloured
_SEEN = 0.95


@dataclass
class ShapeDisplay:
    """The curves of a fitted additive model, one panel per feature.

    A curve is the feature's contribution to the decision function: log odds of a label, or units of
    the target. The band is two noise errors wide on each side: the effect of other noise on the
    same records; it does not include the sampling error. Bars below are the private histogram.
    Panels with two names are products: the joint contribution of two features beyond their own
    curves. They are grey where there are few records: outside the fullest cells, which have 95 % of
    the records by the private histograms, if both features are independent.

    Parameters
    ----------
    shapes : mapping
        ``shape_functions_`` of the model, a mapping from feature to frame.
    products : DataFrame
        ``interactions_`` of the model.
    histograms : mapping, default={}
        Feature to (edges, shares) of its private histogram.
    unit : str, default=""
        The quantity to which a curve contributes.
    label : object, default=None
        The class whose curves are drawn, if there are more than two.
    simulation : str, default=""
        A note in the caption if the noise follows from a seed.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : mapping
        The axes of each feature, and of each pair.
    caption_ : str
        An explanation of the figure, in a sentence.

    See Also
    --------
    skdpfl.models.Additive : The model.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.inspection import ShapeDisplay
    >>> X = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
    >>> model = ISRLDPRegressor(
    ...     3.0, model="additive", feature_bounds=(-1, 1), target_bounds=(-1, 2), random_state=0
    ... ).fit(X, np.abs(X[:, 0]) + X[:, 1])
    >>> shown = ShapeDisplay.from_estimator(model)
    >>> list(shown.axes_)
    ['x0', 'x1', ('x0', 'x1')]
    >>> plt.close("all")
    """

    shapes: Mapping[Any, pd.DataFrame]
    products: pd.DataFrame
    histograms: Mapping[Any, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    unit: str = ""
    label: Any = None
    simulation: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        features: Sequence[Any] | None = None,
        label: Any = None,
        n_products: int = _PRODUCTS,
    ) -> ShapeDisplay:
        """Draw the curves of a fitted estimator, or of the last step of a pipeline.

        Parameters
        ----------
        estimator : estimator
            An estimator fitted with ``model="additive"``.
        features : sequence, default=None
            The features that are shown, by default all that have an effect.
        label : object, default=None
            The class, for more than two; by default the last one.
        n_products : int, default=3
            The number of products to show, those with the largest coefficients.

        Returns
        -------
        ShapeDisplay
            The display. It shows released numbers only, so it costs nothing.
        """
        model = private_step(estimator)[1]
        shapes, products = model.shape_functions_, model.interactions_
        classes = model.classes_.tolist() if is_classifier(model) else []
        several = len(classes) > 2
        if label is not None and (not several or label not in classes):
            raise ValueError(
                f"label must be one of the classes {classes}; it is for three or more classes."
            )
        label = classes[-1] if several and label is None else label
        unit = "the target" if not is_classifier(model) else f"the score of {classes[-1]!r}"
        if is_classifier(model) and hasattr(model, "predict_proba"):
            unit = f"the log odds of {classes[-1]!r}" if not several else f"the score of {label!r}"
        elif model._loss().link == "log":
            unit = "the logarithm of the target"
        shown = cls(
            shapes, products, _histograms(model, list(shapes)), unit, label,
            SIMULATION if model.privacy_spent_.simulation else "",
        )  # fmt: skip
        return shown.plot(features=features, n_products=n_products)

    @property
    def caption_(self) -> str:
        """The explanation of the figure."""
        return (
            f"Up: adds to {self.unit}. Band: what other noise would change. Bars: the private "
            f"histogram.{f' {self.simulation}' if self.simulation else ''}"
        )

    def plot(
        self, *, features: Sequence[Any] | None = None, n_products: int = _PRODUCTS
    ) -> ShapeDisplay:
        """Draw the panels in a new figure.

        Parameters
        ----------
        features : sequence, default=None
            The features that are shown, by default all that have an effect.
        n_products : int, default=3
            How many products are shown.

        Returns
        -------
        self : object
        """
        if features is None:
            features = [name for name, f in self.shapes.items() if self._of(f, "value").any()]
        strange = [name for name in features if name not in self.shapes]
        if strange:
            raise ValueError(
                f"features has {strange[0]!r}, which is not one of {list(self.shapes)}."
            )
        sizes = self._of(self.products, "coefficient")
        pairs = [self.products.index[i] for i in np.argsort(-np.abs(sizes))[:n_products]]
        panels = [*features, *pairs]
        rows = max(1, math.ceil(len(panels) / _PER_ROW))
        columns = min(max(1, len(panels)), _PER_ROW)
        self.figure_ = pyplot().figure(
            figsize=(_WIDTH * columns, _HEIGHT * rows + 0.3), layout="constrained"
        )
        grid = self.figure_.subplots(rows, columns, squeeze=False).ravel()
        for ax in grid[len(panels) :]:
            ax.remove()
        self.axes_ = dict(zip(panels, grid, strict=False))
        for name in features:
            self._curve(self.axes_[name], name)
        for pair in pairs:
            self._product(self.axes_[pair], *pair)
        self.figure_.supxlabel(self.caption_, fontsize="small", color=GREY)
        return self

    def _of(self, frame: pd.DataFrame, word: str) -> np.ndarray:
        """Return a column of a frame; with several labels, that of the label."""
        name = word if self.label is None else f"{word} of {self.label}"
        return frame[name].to_numpy(float) if name in frame else np.zeros(0)

    def _curve(self, ax: Any, name: Any) -> None:
        frame = self.shapes[name]
        low, high = frame["from"].to_numpy(), frame["to"].to_numpy()
        value, slope = self._of(frame, "value"), self._of(frame, "slope")
        error = self._of(frame, "noise error")
        half = slope * (high - low) / 2
        if (low == high).all():  # an indicator
            ax.errorbar(
                low, value, _ERRORS * error if error.size else None, fmt="o", color=COLOURS[0]
            )
            ax.set_xticks(low)
            ax.set_xlim(-0.5, 1.5)
        else:
            x = np.column_stack([low, high]).ravel()
            y = np.column_stack([value - half, value + half]).ravel()
            ax.plot(x, y, color=COLOURS[0])
            if error.size:
                band = _ERRORS * np.repeat(error, 2)
                ax.fill_between(x, y - band, y + band, color=COLOURS[0], alpha=0.15, linewidth=0)
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_title(str(name), fontsize="medium")
        tidy(ax)
        if name in self.histograms:
            edges, shares = self.histograms[name]
            below = ax.inset_axes((0, 0, 1, 0.14), sharex=ax)
            ends = np.linspace(edges[0], edges[-1], _CELLS)  # cells are of many widths
            part = np.diff(np.interp(ends, edges, np.append(0.0, np.cumsum(shares))))
            below.bar(
                ends[:-1], part / part.max(), np.diff(ends), align="edge", color=GREY, alpha=0.4
            )
            below.axis("off")

    def _product(self, ax: Any, first: Any, second: Any) -> None:
        coefficient = float(self._of(self.products.loc[[(first, second)]], "coefficient")[0])
        coded = self.products.attrs["coded"]
        x, y, seen = self._cells(first, second)
        u, v = (
            np.clip((values - coded[name][0]) / coded[name][1], -coded["most"], coded["most"])
            for values, name in ((x, first), (y, second))
        )
        table = coefficient * np.outer(v, u)
        most = np.abs(table[seen]).max() or 1.0
        colours = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "shading": "nearest"}
        mesh = ax.pcolormesh(x, y, np.ma.masked_array(table, ~seen), **colours)
        ax.set_facecolor("0.85")
        ax.figure.colorbar(mesh, ax=ax, shrink=0.8)
        ax.set_xticks(x if x.size == 2 else ax.get_xticks()[1:-1])
        ax.set_yticks(y if y.size == 2 else ax.get_yticks()[1:-1])
        ax.set_xlabel(str(first), fontsize="small")
        ax.set_ylabel(str(second), fontsize="small")

    def _cells(self, first: Any, second: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values of a heat map's columns and rows, and which cells (y, x) are coloured.

        The fullest cells that together have most records are coloured; their range is shown.
        """
        x, y = (_values(self.shapes[name]) for name in (first, second))
        full = np.outer(self._density(second, y), self._density(first, x))
        fullest = np.sort(full, axis=None)[::-1]
        upto = np.cumsum(fullest) / fullest.sum()
        least = fullest[np.searchsorted(upto, _SEEN)]
        seen = full >= least
        x, y = _within(x, seen.any(axis=0)), _within(y, seen.any(axis=1))
        return x, y, np.outer(self._density(second, y), self._density(first, x)) >= least

    def _density(self, name: Any, values: np.ndarray) -> np.ndarray:
        """Return the density of records at each value by the histogram; constant without one."""
        edges, shares = self.histograms.get(name, (values, np.zeros(1)))
        if values.size == 2 or not (shares > 0).any():
            return np.ones(values.size)
        step = values[1] - values[0]
        ends = np.append(values, values[-1] + step) - step / 2
        upto = np.append(0.0, np.cumsum(np.maximum(shares, 0.0)))
        return np.diff(np.interp(ends, edges, upto)) / step


def _within(values: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return as many values, evenly spaced within the range of the selected ones."""
    shown = values[some]
    return values if values.size == 2 else np.linspace(shown.min(), shown.max(), values.size)


def _values(frame: pd.DataFrame) -> np.ndarray:
    """Return the values of a feature that a heat map shows: both of an indicator."""
    if len(frame) == 2 and (frame["from"] == frame["to"]).all():
        return frame["from"].to_numpy()
    return np.linspace(frame["from"].min(), frame["to"].max(), _CELLS)


def _histograms(model: Any, names: list[Any]) -> dict[Any, tuple[np.ndarray, np.ndarray]]:
    """Return the edges and shares of each curve's private histogram."""
    curves = getattr(model.scaling_, "curves", None)
    each = () if curves is None else curves.curves
    return {names[curve.column]: (curve.edges, curve.shares) for curve in each}


#: meaning of the exponential of a coefficient, by the link of the loss
_RATIOS = {"logit": "odds ratio", "log": "rate ratio"}
#: height of a row and of the axis in inches, and the width: legible at 700 pixels
_ROW, _AXIS, _FOREST_WIDTH = 0.32, 1.1, 7.0


@dataclass(eq=False, repr=False, kw_only=True)
class CoefficientDisplay(Display):
    """Coefficients of a linear model with their intervals, one row each (a forest plot).

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    table : DataFrame
        A row for each coefficient, with the columns "coefficient", "lower" and "upper"; NaN where
        an interval is refused.
    label : str, default="coefficient"
        The label of the axis.
    ratios : bool, default=False
        Whether to show exponentials of the table's numbers, on a logarithmic axis.
    confidence : float, default=0.95
        The probability with which an interval covers, for the label.

    Attributes
    ----------
    lines_ : ErrorbarContainer
        The estimates and their intervals.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    ShapeDisplay : Curves of additive models.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 500, n_features=3, n_classes=2, random_state=0)
    >>> from skdpfl.inspection import CoefficientDisplay
    >>> clf = ISRLDPClassifier(3.0, feature_bounds=(-8, 8), inference="intervals", random_state=0)
    >>> clf.fit(data.data, data.target, silos=data.silos)
    ISRLDPClassifier(...)
    >>> display = CoefficientDisplay.from_estimator(clf, ratios=True)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['x0', 'x1', 'x2']
    """

    table: pd.DataFrame
    label: str = "coefficient"
    ratios: bool = False
    confidence: float = 0.95

    def plot(self, ax: Any = None, *, color: str | None = None) -> CoefficientDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to plot on; by default those of a new figure, as high as there are rows.
        color : str, default=None
            The colour of estimates and intervals.

        Returns
        -------
        self : object
        """
        super().plot(ax, color=color)
        if ax is None:
            self.figure_.set_size_inches(_FOREST_WIDTH, _AXIS + _ROW * len(self.table))
        self.ax_.grid(visible=False, axis="y")
        return self

    def _draw(self, color: str | None) -> None:
        at, low, high = (
            np.asarray(self.table[name], float) for name in ("coefficient", "lower", "upper")
        )
        if self.ratios:
            at, low, high = np.exp([at, low, high])
            self.ax_.set_xscale("log")
        rows, shown = np.arange(len(at)), np.isfinite(low + high)
        self.lines_ = self.ax_.errorbar(
            at[shown],
            rows[shown],
            xerr=[(at - low)[shown], (high - at)[shown]],
            fmt="o",
            color=color or COLOURS[0],
            capsize=3,
            markersize=5,
        )
        nothing = float(self.ratios)
        self.ax_.axvline(nothing, color=GREY, linestyle="--", linewidth=1)
        for row in rows[~shown]:
            self.ax_.annotate(
                "no interval", (nothing, row), (6, 0), color=GREY,
                textcoords="offset points", va="center", fontsize="small",
            )  # fmt: skip
        self.ax_.set_yticks(rows, [str(name) for name in self.table.index])
        self.ax_.set_ylim(len(at) - 0.5, -0.5)
        self.ax_.set_xlabel(f"{self.label} ({100 * self.confidence:g} % interval)")
        if self.ratios:
            self.ax_.xaxis.set_major_formatter("{x:g}")
            self.ax_.xaxis.set_minor_formatter(_some_ratios)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        features: Sequence[Any] | None = None,
        ratios: bool = False,
        confidence: float = 0.95,
        ax: Any = None,
        color: str | None = None,
    ) -> CoefficientDisplay:
        """Draw the intervals of a fitted estimator; no record is read, and nothing is spent.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fit with ``inference="intervals"``.
        features : sequence, default=None
            The names of the coefficients, in this order; by default all but the intercept.
        ratios : bool, default=False
            Whether to show odds ratios (``loss="log_loss"``), rate ratios ("poisson") or hazard
            ratios (survival).
        confidence : float, default=0.95
            The probability with which an interval covers.
        ax : matplotlib Axes, default=None
            The axes to plot on; by default those of a new figure.
        color : str, default=None
            The colour of estimates and intervals.

        Returns
        -------
        CoefficientDisplay
            The display.
        """
        fitted = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        check_is_fitted(fitted)
        if getattr(fitted, "inference", None) != "intervals":
            raise ValueError(
                'CoefficientDisplay shows the intervals of a fit with inference="intervals"; '
                f"{type(fitted).__name__} has none."
            )
        link = fitted._loss().link
        if ratios and link not in _RATIOS:
            raise ValueError(
                f"ratios=True is for log odds and log means, not for loss={fitted.loss!r}."
            )
        table = fitted.summary(confidence=confidence)
        names = list(
            table.index.drop("intercept", errors="ignore") if features is None else features
        )
        strange = [name for name in names if name not in table.index]
        if strange:
            raise ValueError(f"features: {strange[0]!r} has no coefficient; there are "
                             f"{list(table.index)[:8]!r}.")  # fmt: skip
        label = "coefficient"
        if ratios:
            label = "hazard ratio" if fitted._loss().one_slope else _RATIOS[link]
        made = cls(table=table.loc[names], label=label, ratios=ratios, confidence=confidence)
        return made.plot(ax, color=color)


def _some_ratios(value: float, _: Any) -> str:
    """Return the label of a minor tick: 0.2, 0.5, 2, 5 of each power of ten."""
    digit = value / 10 ** np.floor(np.log10(value))
    return f"{value:g}" if round(digit, 6) in (2, 5) else ""
