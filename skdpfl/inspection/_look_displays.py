"""Displays of noisy counts, quantiles and correlations; they read no records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.inspection._display import COLOURS, GREY, Display

#: more bars than this have no names
_MANY = 30
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
        drawn = counts.loc[counts.index[0][0]] if counts.index.nlevels > 1 else counts
        return cls(counts=drawn, noise_error=counts.attrs["noise_error"]).plot(ax)

    def _draw(self, color: str | None) -> None:
        index, color = self.counts.index, color or COLOURS[0]
        error = {"yerr": 2 * self.noise_error, "ecolor": GREY, "capsize": 2, "color": color}
        if isinstance(index, pd.IntervalIndex):
            width = index.length
            self.bars_ = self.ax_.bar(index.left, self.counts, width, align="edge", **error)
        else:
            places = np.arange(len(index))
            self.bars_ = self.ax_.bar(places, self.counts, 0.7, **error)
            if len(places) <= _MANY:
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


@dataclass(eq=False, repr=False, kw_only=True)
class CorrelationDisplay(Display):
    """Noisy correlations as an image; values within two errors of 0 are grey.

    Make one with :meth:`from_correlation`.

    Parameters
    ----------
    correlation : DataFrame
        The correlations.
    noise_error : DataFrame
        The error of each.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The image.
    texts_ : list of matplotlib Text
        The numbers, row by row.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    skdpfl.inspection.correlation : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.inspection import CorrelationDisplay, correlation
    >>> found = correlation(
    ...     np.random.default_rng(0).normal(size=(4000, 3)), feature_bounds=(-4, 4), random_state=0
    ... )
    >>> len(CorrelationDisplay.from_correlation(found).texts_)
    9
    """

    correlation: pd.DataFrame
    noise_error: pd.DataFrame

    @classmethod
    def from_correlation(cls, correlation: pd.DataFrame, *, ax: Any = None) -> CorrelationDisplay:
        """Draw a result of ``correlation``.

        Parameters
        ----------
        correlation : DataFrame
            The result, with its errors in ``attrs``.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        CorrelationDisplay
        """
        errors = pd.DataFrame(correlation.attrs["noise_error"])
        return cls(correlation=correlation, noise_error=errors).plot(ax)

    def _draw(self, color: str | None) -> None:
        values, errors = self.correlation.to_numpy(), self.noise_error.to_numpy()
        self.image_ = self.ax_.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
        self.texts_ = []
        for (i, j), value in np.ndenumerate(values):
            clear = abs(value) > 2 * errors[i, j]
            ink = ("white" if abs(value) > 0.6 else "black") if clear else "0.6"
            text = "" if np.isnan(value) else f"{value:.2f}"
            self.texts_.append(self.ax_.text(j, i, text, ha="center", va="center", color=ink))
        names = [str(name) for name in self.correlation]
        self.ax_.set_xticks(range(len(names)), names, rotation=30, ha="right")
        self.ax_.set_yticks(range(len(names)), names)

    def plot(self, ax: Any = None, *, color: str | None = None) -> CorrelationDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to plot on; by default those of a new figure.
        color : None
            Not used: colours show the size of correlations.

        Returns
        -------
        self : object
        """
        super().plot(ax, color=color)
        self.ax_.grid(visible=False)
        return self
