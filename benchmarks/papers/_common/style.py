"""One style for all pictures: a method has the same colour and marker on every page.

Colours tell families apart, dashes their variants; published numbers are hollow marks.
"""

from __future__ import annotations

import re
from typing import Any

from _common.claims import PRINTED

#: what a method's name matches -> its colour, marker and line; the first that matches counts
STYLES = (
    (r"naive", "#999999", "x", ":"),
    (r"server step tuned", "#E69F00", "D", "-"),
    (r"SCAFFOLD, warm", "#56B4E9", "v", "--"),
    (r"^DP-SCAFFOLD|^constant", "#0072B2", "o", "-"),
    (r"^SCAFFOLD", "#0072B2", "o", ":"),
    (r"^DP-FedAvg|^decay each round", "#D55E00", "s", "-"),
    (r"^FedAvg", "#D55E00", "s", ":"),
    (r"^DP-FedSGD|^decay each step", "#009E73", "^", "-"),
    (r"^FedSGD", "#009E73", "^", ":"),
    (r"FedEXP|FedExP", "#CC79A7", "P", "--"),
    (r"^one pass, shuffled", "#882255", "X", "-."),
    (r"^one pass", "#AA4499", "X", "-"),
    (r"^minibatch, shuffled", "#332288", "v", "-."),
    (r"^minibatch, silos", "#88CCEE", "<", "--"),
    (r"^minibatch, clipped", "#6699CC", "o", ":"),
    (r"^minibatch, Stich", "#117733", "d", "-"),
    (r"^minibatch", "#0072B2", "o", "-"),
    (r"^accelerated", "#E69F00", "D", "-"),
    (r"^multistage", "#44AA99", "d", "-"),
    (r"^localized", "#CC79A7", "P", "-"),
    (r"^local, one record.*clipped", "#999933", "<", ":"),
    (r"^local, .*clipped", "#CC6677", "s", ":"),
    (r"^local, one record", "#999933", ">", "--"),
    (r"^local", "#D55E00", "s", "-"),
    (r"^untuned|^auto$", "#000000", "*", ":"),
    (r"^order, noise by record", "#BBBBBB", "1", "--"),
    (r"^order, noise by silo", "#888888", "2", "--"),
    (r"^order, noise by server", "#555555", "3", "--"),
    (r"^lower bound", "#000000", "4", ":"),
    (r"^CNN, ReLU", "#D55E00", "s", "-"),
    (r"^CNN, tempered", "#E69F00", "D", "-"),
    (r"^scattering, linear", "#0072B2", "o", "-"),
    (r"^scattering, CNN", "#009E73", "^", "-"),
    (r"^pixels", "#888888", "d", "-"),
    (r"^ours, the paper's noise", "#0072B2", "o", "-"),
    (r"^ours, by the paper", "#661100", "X", "-"),
    (r"^ours, epsilon", "#999933", "*", "-"),
)
#: for names that none of them matches, in their order
OTHERS = ("#332288", "#88CCEE", "#117733", "#DDCC77", "#882255")
MARKS = ("o", "s", "^", "D", "v")


def style_of(method: str, others: list[str]) -> dict[str, Any]:
    """Return how a method is drawn; ``others`` collects the names that have no style."""
    name, printed = method.removeprefix(PRINTED), method.startswith("published")
    found = [look for pattern, *look in STYLES if re.search(pattern, name)]
    if not found and name not in others:
        others.append(name)
    at = others.index(name) if not found else 0
    fallback = [OTHERS[at % len(OTHERS)], MARKS[at % len(MARKS)], "-"]
    colour, marker, line = (found or [fallback])[0]
    style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
    return style | {"markerfacecolor": "none", "linestyle": "--"} if printed else style
