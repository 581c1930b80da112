"""A picture of a figure's table: panels side by side, a line for each method."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from _common.cells import Figure
from _common.claims import CLAIM


def draw(figure: Figure, table: pd.DataFrame, path: Path) -> None:
    """Write the picture, if there is anything to see."""
    table = table[~table["metric"].isin((*figure.leave_out, CLAIM))]
    if not len(table):
        return
    labels = dict.fromkeys(
        label(names) for names, _ in table.groupby(list(figure.lines), sort=False)
    )
    colours = {name: f"C{at % 10}" for at, name in enumerate(labels)}
    panels = list(table.groupby(list(figure.panels), sort=False))
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    canvas = Canvas(figsize=(4.6 * columns, 3.5 * rows + 0.4), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    for ax, (names, part) in zip(axes, panels, strict=False):
        panel(figure, ax, part, colours)
        ax.set_title(label(name for name in names if name), fontsize=10)
    for ax in axes[len(panels) :]:
        ax.remove()
    handles = {
        label: line
        for ax in axes[: len(panels)]
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False
    )
    canvas.suptitle(figure.title, fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=110)


def panel(figure: Figure, ax: Axes, part: pd.DataFrame, colours: dict[str, str]) -> None:
    """Draw one panel; a method without an x of its own is a horizontal line."""
    for names, line in part.groupby(list(figure.lines), sort=False):
        style = {"color": colours[label(names)], "label": label(names)}
        over = line.dropna(subset=["x"]).groupby("x")["value"].agg(["mean", "min", "max"])
        over = over[np.isfinite(over.index)]
        if len(over) < 2:
            flat(ax, line, over, style)
            continue
        dots = "o" if len(over) < 12 else None
        ax.plot(over.index, over["mean"], marker=dots, markersize=4, linewidth=1.3, **style)
        ax.fill_between(over.index, over["min"], over["max"], color=style["color"], alpha=0.15)
    if figure.logx and ax.has_data():
        ax.set_xscale("log")
    if figure.logy:
        ax.set_yscale("log")
    metrics = part["metric"].unique()
    ax.set_ylabel(metrics[0] if len(metrics) == 1 else figure.metric)
    ax.set_xlabel(figure.xlabel)
    ax.spines[["top", "right"]].set_visible(False)


def flat(ax: Axes, line: pd.DataFrame, over: pd.DataFrame, style: dict[str, str]) -> None:
    """Draw what has one value only: a dot where it is, or a line all along."""
    if len(over):
        ax.plot(over.index, over["mean"], "D", markersize=6, **style)
    else:
        ax.axhline(line["value"].mean(), linestyle="--", linewidth=1, **style)


def label(names: Iterable[object]) -> str:
    """Return what a line or a panel is called."""
    return ", ".join(told(name) for name in names)


def told(name: object) -> str:
    """Return a line's name; an epsilon without anything else is told as such."""
    if isinstance(name, float):
        return "no privacy" if np.isinf(name) else f"epsilon {name:g}"
    return str(name)
