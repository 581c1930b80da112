"""A picture of a figure's table: panels side by side, a line for each method.

A point is the mean over the seeds, its bar the standard error of that mean; a dashed line is a
method that the horizontal axis does not concern. Three panels a row at most, so that the letters
can be read on a page that is 700 pixels wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatter, NullLocator

from _common.cells import Figure
from _common.claims import CLAIM
from _common.style import style_of


class Plain(LogFormatter):
    """Ticks of a logarithmic axis, 0.9 instead of 9e-01."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def draw(figure: Figure, table: pd.DataFrame, path: Path) -> None:
    """Write the picture, if there is anything to see."""
    table = table[~table["metric"].isin((*figure.leave_out, CLAIM))]
    if not len(table):
        return
    if "at" in figure.panels:
        table = table.sort_values("at", kind="stable")
        table = table.assign(at=table["at"].map("{:g}".format))
    others: list[str] = []
    styles: dict[str, dict[str, Any]] = {}
    for names, line in table.groupby(list(figure.lines), sort=False):
        name = label(names)
        once = line["seed"].nunique() == 1 < len(figure.seeds) and line["seconds"].max() > 1
        styles[name] = style_of(name, others) | {"label": name + (" (one seed)" if once else "")}
    panels = in_groups(list(table.groupby(list(figure.panels), sort=False)))
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    canvas = Canvas(figsize=(3.0 * columns, 2.6 * rows + 0.8), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    for ax, (names, part) in zip(axes, panels, strict=False):
        panel(figure, ax, part, styles)
        ax.set_title("\n".join(wrap(label(name for name in names if name), 32)), fontsize=9)
        if figure.xlabels:
            ax.set_xlabel(figure.xlabels[names[0]])
    for ax in axes[len(panels) :]:
        ax.remove()
    handles = {
        label: line
        for ax in axes[: len(panels)]
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(
        handles.values(), handles.keys(), loc="outside lower center", frameon=False, fontsize=9,
        ncols=min(columns, 2 if max(map(len, handles), default=0) > 24 else 3),
    )  # fmt: skip
    canvas.suptitle("\n".join(wrap(figure.title, 30 * columns)), fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=110)


def in_groups(panels: list[Any]) -> list[Any]:
    """Return the panels with those of the same first name side by side."""
    first = {name: at for at, name in enumerate(dict.fromkeys(names[0] for names, _ in panels))}
    return sorted(panels, key=lambda panel: first[panel[0][0]])


def panel(figure: Figure, ax: Axes, part: pd.DataFrame, styles: dict[str, dict[str, Any]]) -> None:
    """Draw one panel; a method without an x of its own is a horizontal line."""
    groups = list(part.groupby(list(figure.lines), sort=False))
    for at, (names, line) in enumerate(groups):
        style = styles[label(names)]
        over = line.dropna(subset=["x"]).groupby("x")["value"].agg(["mean", "sem"])
        over = over[np.isfinite(over.index)]
        if 0 < len(over) < figure.least:
            continue
        if figure.logx and len(over) < 12:  # marks beside each other
            over.index = over.index * np.exp(0.02 * (at - (len(groups) - 1) / 2))
        if len(over) < 2:
            flat(ax, line, over, style)
            continue
        bars = over["sem"] if over["sem"].notna().any() else None
        every = max(1, len(over) // 12)
        ax.errorbar(
            over.index, over["mean"], bars, linewidth=1.1, elinewidth=0.8, errorevery=every,
            markevery=(at % every, every), **style,
        )  # fmt: skip
    if figure.logx and ax.has_data():
        ax.set_xscale("log")
    few(ax.xaxis, part["x"].to_numpy())
    if figure.logy:
        ax.set_yscale("log")
        for formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            formatter(Plain(minor_thresholds=(1.5, 0.4)))
    elif len(set(part["value"])) == 1:
        ax.set_ylim(0, 2 * float(part["value"].iloc[0]) or 1)
    metrics = part["metric"].unique()
    ax.set_ylabel(metrics[0] if len(metrics) == 1 else figure.metric)
    ax.set_xlabel(figure.xlabel)
    ax.spines[["top", "right"]].set_visible(False)


def few(axis: Axis, values: np.ndarray) -> None:
    """Label at most six of the places where there are points, evenly, the last one always."""
    places = np.unique(values[np.isfinite(values)])
    if 0 < len(places) < 20:
        shown = places[:: -math.ceil(len(places) / 6)][::-1]
        axis.set_major_locator(FixedLocator(shown))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def flat(ax: Axes, line: pd.DataFrame, over: pd.DataFrame, style: dict[str, Any]) -> None:
    """Draw what has one value only: a mark where it is, or a line all along."""
    if len(over):
        ax.plot(over.index, over["mean"], **style | {"markersize": 6, "linestyle": "none"})
    else:
        style = {name: style[name] for name in ("color", "label")}
        ax.axhline(line["value"].mean(), linestyle="--", linewidth=1, **style)


def label(names: Iterable[object]) -> str:
    """Return what a line or a panel is called."""
    return ", ".join(told(name) for name in names)


def told(name: object) -> str:
    """Return a line's name; an epsilon without anything else is told as such."""
    if isinstance(name, float):
        return "no privacy" if np.isinf(name) else f"epsilon {name:g}"
    return str(name)
