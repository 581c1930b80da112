"""The page of the study of "auto", made of its rows."""

from __future__ import annotations

import datetime
import os
import platform

import numpy as np
import pandas as pd
import sklearn
from cases import TABLE

import skdpfl


def made(script: str) -> str:
    """Return what made a page, when, and with what."""
    versions = f"skdpfl {skdpfl.__version__}, scikit-learn {sklearn.__version__}, NumPy"
    return (
        f"`python benchmarks/auto/{script}` on {datetime.date.today()}: {versions} "
        f"{np.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores."
    )


def report(rows: pd.DataFrame) -> str:
    """Return the results as a page."""
    lines = [
        '# How good "auto" is',
        "",
        f"{made('study.py')} "
        "What is run: the docstring of study.py. Means; standard errors in brackets.",
    ]
    for part, titles in (
        ("table", "The table"),
        ("wide", "Many data sets"),
        ("shapes", "Many shapes"),
        ("probabilities", "Probabilities"),
        ("unlike", "Unlike silos"),
        ("mixed", "One silo at epsilon 0.3, the others at 3"),
        ("local steps", "Rounds x local steps of DP-FedAvg"),
    ):
        some = rows[rows.part == part]
        if len(some):
            lines += ["", f"## {titles}", "", *PARTS[part](some)]
    return "\n".join(lines) + "\n"


def table_lines(rows: pd.DataFrame) -> list[str]:
    """Return the table with its floors and goals."""
    lines = [
        "| case | epsilon | auto | floor | tuned, standardised | floor | without privacy |",
        "|---|---|---|---|---|---|---|",
    ]
    for case, (label, _, estimator, epsilon, _, floor, goal) in enumerate(TABLE):
        mine = rows[(rows.case == label) & (rows.epsilon == epsilon)].set_index("method")
        if len(mine) and case < len(TABLE):
            auto, exact, best = mine.loc[estimator], mine.loc["without privacy"], ""
            if goal:
                best = f"{mine.loc['tuned', 'mean']:.3f} ({mine.loc['tuned', 'error']:.3f})"
            lines.append(
                f"| {label}, {estimator} | {epsilon:g} | **{auto['mean']:.3f}** ({auto.error:.3f}) "
                f"| {floor} | {best} | {goal or ''} | {exact['mean']:.3f} |"
            )
    return lines


def wide_lines(rows: pd.DataFrame) -> list[str]:
    """Return one line per data set, one group of columns per budget."""
    methods = ["auto", "best of 9", "free", "exact", "sklearn"]
    lines = ["| data | epsilon | " + " | ".join(methods) + " |", "|---" * 7 + "|"]
    for (case, epsilon), group in rows.groupby(["case", "epsilon"], sort=False):
        means = group.set_index("method")["mean"]
        cells = " | ".join(f"{means[m]:.3f}" for m in methods)
        lines.append(f"| {case} | {epsilon:g} | {cells} |")
    for epsilon, group in rows.groupby("epsilon"):
        means = group.groupby("method")["mean"].mean()
        cells = " | ".join(f"**{means[m]:.3f}**" for m in methods)
        lines.append(f"| **mean** | {epsilon:g} | {cells} |")
    return lines


def shape_lines(rows: pd.DataFrame) -> list[str]:
    """Return one line per shape."""
    lines = ["| shape | epsilon | auto | sklearn | seconds |", "|---|---|---|---|---|"]
    for (case, epsilon), group in rows.groupby(["case", "epsilon"], sort=False):
        means = group.set_index("method")["mean"]
        seconds = group["seconds"].iloc[0]
        lines.append(
            f"| {case} | {epsilon:g} | {means['auto']:.3f} | {means['sklearn']:.3f} | "
            f"{seconds:.2f} |"
        )
    return lines


def hard_lines(rows: pd.DataFrame) -> list[str]:
    """Return one line per case, with standard errors."""
    methods = rows.method.unique().tolist()
    lines = ["| case | epsilon | " + " | ".join(methods) + " |", "|---" * (2 + len(methods)) + "|"]
    for (case, epsilon), group in rows.groupby(["case", "epsilon"], sort=False):
        each = group.set_index("method")
        cells = (f"{each.loc[m, 'mean']:.3f} ({each.loc[m, 'error']:.3f})" for m in methods)
        lines.append(f"| {case} | {epsilon:g} | {' | '.join(cells)} |")
    return lines


PARTS = {
    "table": table_lines,
    "wide": wide_lines,
    "shapes": shape_lines,
    "probabilities": hard_lines,
    "unlike": hard_lines,
    "mixed": hard_lines,
    "local steps": hard_lines,
}
