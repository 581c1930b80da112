"""Does more budget ever hurt?

Eight tables of 1,500 to 5,000 training records in six silos of unlike sizes, with 3 to 15 %
positives: indicators of which 1 to 5 % are ones, lognormal columns in units of their own, normal
ones; labels follow their logarithms. Every family with 1, 5 and 20 local steps (DPFedEXP, which
protects whole silos, with 200 of one size), bounds given, epsilon 0.5 to 30, paired seeds: records
are drawn anew in each, for all epsilons. Area under the ROC curve of 4,000 other records, and log
loss less that of the training records' share.

A fall is a mean at a larger epsilon that is lower by more than 0.01 and two standard errors of the
paired difference (log loss: higher); with one seed none is judged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.auto import problems
from benchmarks.auto.fits import fitted, loss_over_constant, score
from benchmarks.tables import markdown

SEEDS = 8
#: silos that are protected as a whole
WHOLE = 200
EPSILONS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0)
METHODS: dict[str, dict[str, Any]] = {
    "ISRLDP": {},
    "ISRLDP, not clipped": {"clip_features": False},
    "ISRLDP, server": {"trust": "server"},
    "DPFedAvg 1": {},
    "DPFedAvg 1, server": {"trust": "server"},
    "DPFedAvg 5": {"local_steps": 5},
    "DPFedAvg 20": {"local_steps": 20},
    "DPScaffold 1": {},
    "DPScaffold 5": {"local_steps": 5},
    "DPScaffold 20": {"local_steps": 20},
    "DPFedEXP": {},
}
CASES = [f"{table} {method}" for table in problems.LAWS for method in METHODS]
WHAT = {"area": "Area under the ROC curve", "loss": "Log loss less a constant's"}
of_law = lru_cache(maxsize=8)(problems.of_law)


def rows(case: str, seeds: int) -> Iterator[dict[str, object]]:
    """Yield how good each fit is."""
    table, method = case.split(" ", 1)
    family = method.replace(",", "").split()[0]
    for seed, epsilon in itertools.product(range(seeds), EPSILONS):
        data = of_law(table, seed)
        if family == "DPFedEXP":
            data = data._replace(silos=np.arange(len(data.y)) % WHOLE)
        model = fitted(data, epsilon, seed, family, **METHODS[method])
        goods = {"area": score(data, model), "loss": loss_over_constant(data, model)}
        yield {"table": table, "method": method, "seed": seed, "epsilon": epsilon} | goods


def falls(found: pd.DataFrame, what: str, sign: int) -> list[list[str]]:
    """Return the largest fall of each table and method."""
    worst: dict[tuple[str, str], tuple[float, list[str]]] = {}
    wide = found.pivot_table(index=["table", "method", "seed"], columns="epsilon", values=what)
    for (table, method), each in wide.groupby(level=[0, 1]):
        for a, b in itertools.combinations(wide.columns, 2):
            lost = (sign * (each[a] - each[b])).dropna()
            error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else np.inf
            if lost.mean() > max(0.01 + 2 * error, worst.get((table, method), (0.0,))[0]):
                by = f"{lost.mean():.3f} ({error:.3f})"
                line = [what, table, method, f"{a:g} to {b:g}", by]
                worst[table, method] = lost.mean(), line
    return [line for _, line in worst.values()]


def page(found: pd.DataFrame) -> str:
    """Return means of all tables, and all falls."""
    parts = []
    for what, head in WHAT.items():
        means = found.pivot_table(index="method", columns="epsilon", values=what)
        lines = [[m, *(f"{v:.3f}" for v in means.loc[m])] for m in METHODS if m in means.index]
        heads = ["method, local steps", *(f"{epsilon:g}" for epsilon in EPSILONS)]
        parts.append(f"### {head}, means of all tables\n\n{markdown(heads, lines)}")
    every = falls(found, "area", 1) + falls(found, "loss", -1)
    n_rows = 2 * found.groupby(["table", "method"]).ngroups
    parts.append(f"### Falls\n\n{len(every)} in {n_rows} rows.")
    if every:
        parts.append(markdown(["what", "table", "method", "epsilon", "by"], every))
    return "\n\n".join(parts)
