"""What the displays share: colours that colour-blind people can tell apart, and axes."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Okabe and Ito's palette, the dark ones first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "0.35"


def axes_of(ax: Any) -> tuple[Any, Any]:
    """Return (figure, axes), new ones if none were given."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib; install it with: pip install 'skdpfl[plot]'."
        ) from error
    if ax is not None:
        return ax.figure, ax
    figure, ax = plt.subplots(layout="constrained")
    return figure, ax


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


def tidy(ax: Any) -> None:
    """Keep what carries information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
