"""Does more budget ever hurt? ``python benchmarks/auto/budgets.py``.

Eight tables of 1,500 to 5,000 training records in six silos of unlike sizes, with 3 to 15 %
positives: indicators of which 1 to 5 % are ones, lognormal columns in units of their own, normal
ones; labels follow their logarithms. Every family with 1, 5 and 20 local steps (DPFedEXP, which
protects whole silos, with 200 of one size), bounds given, epsilon 0.5 to 30, eight paired seeds:
records are drawn anew in each, for all epsilons. Area under the ROC curve of 4,000 other records,
and log loss less that of the training records' share.

A fall is a mean at a larger epsilon that is lower by more than 0.01 and two standard errors of the
paired difference (log loss: higher); with one seed none is judged.

Adds to budgets.csv what is missing there, and writes budgets.md: ten minutes on a core.
``--tables AB``, ``--seeds 2``, ``--methods "DPFedAvg 20"`` are a part of it; ``--quick`` one table
and seed, no file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import datetime
import itertools
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.metrics import log_loss, roc_auc_score

import skdpfl

HERE = Path(__file__).parent
N_TEST = 4_000
#: silos that are protected as a whole
WHOLE = 200
EPSILONS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0)


class Law(NamedTuple):
    """Training records, columns of each kind, positives, deviations of logarithms and log odds."""

    n: int
    indicators: int
    lognormal: int
    normal: int
    share: float
    spread: float
    signal: float


TABLES = {
    "A": Law(1500, 12, 4, 4, 0.12, 1.0, 1.5),
    "B": Law(3000, 20, 6, 4, 0.05, 1.0, 1.2),
    "C": Law(5000, 30, 8, 2, 0.03, 1.5, 1.2),
    "D": Law(2000, 4, 10, 0, 0.15, 1.5, 1.0),
    "E": Law(4000, 40, 0, 6, 0.08, 1.0, 1.0),
    "F": Law(2500, 8, 12, 4, 0.10, 0.8, 0.8),
    "G": Law(1500, 25, 3, 3, 0.15, 1.2, 2.0),
    "H": Law(5000, 15, 15, 5, 0.06, 1.2, 0.7),
}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "ISRLDP": ("ISRLDP", {}),
    "ISRLDP, not clipped": ("ISRLDP", {"clip_features": False}),
    "ISRLDP, server": ("ISRLDP", {"trust": "server"}),
    "DPFedAvg 1": ("DPFedAvg", {}),
    "DPFedAvg 1, server": ("DPFedAvg", {"trust": "server"}),
    "DPFedAvg 5": ("DPFedAvg", {"local_steps": 5}),
    "DPFedAvg 20": ("DPFedAvg", {"local_steps": 20}),
    "DPScaffold 1": ("DPScaffold", {}),
    "DPScaffold 5": ("DPScaffold", {"local_steps": 5}),
    "DPScaffold 20": ("DPScaffold", {"local_steps": 20}),
    "DPFedEXP": ("DPFedEXP", {}),
}
KEYS = ["table", "method", "seed", "epsilon"]


class Drawn(NamedTuple):
    """Records, those for the test last, and public bounds."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray]


def drawn(name: str, seed: int) -> Drawn:
    """Return records of a table, whose law is fixed."""
    law, fixed = TABLES[name], np.random.default_rng(ord(name))
    rng, n = np.random.default_rng([ord(name), seed, 7]), TABLES[name].n + N_TEST
    i, m = law.indicators, law.lognormal
    d = i + m + law.normal
    mix = fixed.normal(size=(d, d)) * (fixed.random((d, d)) < 0.15) + np.eye(d)
    ones = fixed.uniform(0.01, 0.05, i)
    along, units = fixed.normal(size=d) * (fixed.random(d) < 0.5), 10.0 ** fixed.integers(-1, 4, m)
    Z = rng.normal(size=(n, d)) @ mix.T / np.sqrt(np.square(mix).sum(axis=1))
    Z[:, :i] = norm.ppf(1 - ones) < Z[:, :i]
    raw = np.where(np.arange(d) < i, 2.0, 1.0) * Z @ along
    raw = raw / raw.std() * law.signal + rng.logistic(size=n)
    y = (raw > np.quantile(raw, 1 - law.share)).astype(int)
    X = Z.copy()
    X[:, i : i + m] = np.exp(law.spread * Z[:, i : i + m]) * units
    low = np.repeat([0.0, -4.0], [i + m, law.normal])
    high = np.concatenate([np.ones(i), np.exp(3 * law.spread) * units, np.full(law.normal, 4.0)])
    return Drawn(X, y, rng.choice(6, size=n, p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.1]), (low, high))


def fitted(data: Drawn, method: str, epsilon: float, seed: int) -> dict[str, float]:
    """Return how good a fit is."""
    name, options = METHODS[method]
    model = getattr(skdpfl, name + "Classifier")(
        epsilon, delta=1e-5, random_state=seed, feature_bounds=data.bounds, **options
    )
    X, y, silos = (part[:-N_TEST] for part in data[:3])
    if name == "DPFedEXP":  # whole silos are protected
        silos = np.arange(len(y)) % WHOLE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, silos=silos)
    likely, tested = model.predict_proba(data.X[-N_TEST:]), data.y[-N_TEST:]
    constant = log_loss(tested, np.full(N_TEST, y.mean()))
    area = roc_auc_score(tested, model.decision_function(data.X[-N_TEST:]))
    return {"area": area, "loss": log_loss(tested, likely) - constant}


def falls(found: pd.DataFrame, what: str, sign: int) -> list[str]:
    """Return the rows of the table of falls, the largest of each table and method."""
    worst: dict[tuple[str, str], tuple[float, str]] = {}
    wide = found.pivot_table(index=["table", "method", "seed"], columns="epsilon", values=what)
    for (table, method), each in wide.groupby(level=[0, 1]):
        for a, b in itertools.combinations(wide.columns, 2):
            lost = (sign * (each[a] - each[b])).dropna()
            error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else np.inf
            if lost.mean() > max(0.01 + 2 * error, worst.get((table, method), (0.0,))[0]):
                by = f"{lost.mean():.3f} ({error:.3f})"
                text = f"| {what} | {table} | {method} | {a:g} to {b:g} | {by} |"
                worst[table, method] = lost.mean(), text
    return [text for _, text in worst.values()]


def report(found: pd.DataFrame) -> str:
    """Return the text of budgets.md."""
    columns = [f"{e:g}" for e in EPSILONS]
    lines = [
        "# Does more budget ever hurt?",
        "",
        f"`python benchmarks/auto/budgets.py` on {datetime.date.today()}: {len(found)} fits of "
        f"{found['seed'].nunique()} seeds on {found['table'].nunique()} tables, two cores, "
        f"NumPy {np.__version__}.",
    ]
    for what, head in (
        ("area", "Area under the ROC curve"),
        ("loss", "Log loss less a constant's"),
    ):
        means = found.pivot_table(index="method", columns="epsilon", values=what)
        lines += ["", f"## {head}, means of all tables", ""]
        lines += ["| method, local steps | " + " | ".join(columns) + " |", "|---" * 9 + "|"]
        for method in (m for m in METHODS if m in means.index):
            lines.append(
                f"| {method} | " + " | ".join(f"{v:.3f}" for v in means.loc[method]) + " |"
            )
    every = falls(found, "area", 1) + falls(found, "loss", -1)
    lines += ["", "## Falls", "", f"{len(every)} in {2 * found.groupby(KEYS[:2]).ngroups} rows."]
    if every:
        lines += ["", "| what | table | method | epsilon | by |", "|---|---|---|---|---|", *every]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default="".join(TABLES))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--quick", action="store_true", help="one table and seed, no file")
    options = parser.parse_args()
    tables, seeds = ("A", 1) if options.quick else (options.tables, options.seeds)
    path = HERE / "budgets.csv"
    old = pd.read_csv(path) if path.exists() and not options.quick else pd.DataFrame(columns=KEYS)
    done = set(old[KEYS].itertuples(index=False, name=None))
    for seed, table in itertools.product(range(seeds), tables):
        cases = [(table, m, seed, e) for m in options.methods for e in EPSILONS]
        cases = [case for case in cases if case not in done]
        data = drawn(table, seed) if cases else None
        rows = [
            dict(zip(KEYS, case, strict=True)) | fitted(data, case[1], case[3], seed)
            for case in cases
        ]
        old = pd.concat([old, pd.DataFrame(rows)]) if len(old) else pd.DataFrame(rows)
        if not options.quick:
            old.round(5).to_csv(path, index=False)
    text = report(old)
    print(text)
    if not options.quick:
        HERE.joinpath("budgets.md").write_text(text)


if __name__ == "__main__":
    main()
