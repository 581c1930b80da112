"""The tables of the study of networks, made of its rows."""

from __future__ import annotations

import pandas as pd

#: trust and model of each column
COLUMNS = [
    ("silo", "linear"), ("silo", "MLP(100)"),
    ("server", "linear"), ("server", "MLP(100)"), ("server", "CNN"),
]  # fmt: skip


def report(frame: pd.DataFrame) -> str:
    """Return both parts as tables."""
    lines: list[str] = []
    which = frame[frame.part == "auto"].pivot_table(
        index=["problem", "epsilon"], columns=["trust", "method"], values="score", sort=False
    )
    if len(which):
        columns = [c for c in COLUMNS if c in which.columns]
        lines += ["| problem | epsilon | " + " | ".join(f"{m}, {t}" for t, m in columns) + " |"]
        lines += ["|" + "---|" * (2 + len(columns))]
        for (name, epsilon), row in which.iterrows():
            cells = " | ".join(f"{row[c]:.3f}" if c in row.dropna() else "" for c in columns)
            lines.append(f"| {name} | {epsilon:g} | {cells} |")
        lines.append("")
    tried = frame[frame.part == "steps"].pivot_table(
        index=["problem", "epsilon", "trust"], columns="method", values="score", sort=False
    )
    if len(tried):
        less = tried.sub(tried["auto"], axis=0)
        names = list(dict.fromkeys(tried.index.get_level_values("problem")))
        lines += [
            "<!-- steps -->",
            "",
            "| change | " + " | ".join(names) + " |",
            "|" + "---|" * (1 + len(names)),
        ]
        for label in (label for label in less if label != "auto"):
            means = less[label].groupby("problem").mean()
            lines.append(f"| {label} | " + " | ".join(f"{means[n]:+.3f}" for n in names) + " |")
        lines.append("")
    return "\n".join(lines)
