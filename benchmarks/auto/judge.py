"""Curves or lines on ten drawn tables: ``python benchmarks/auto/judge.py``.

Tables 0 to 9 of ``tables.py``, which chose nothing, where silos add their own noise or share it, at
epsilon 1, 3 and 8: ``model="auto"`` less ``model="linear"``, means of two seeds. The score is R2 of
numbers, the area under the ROC curve of two labels, the accuracy of more; log losses are those of
labels. More budget hurts where the next epsilon has a score lower by .005 or a loss higher by .003.

Writes judge.md; some minutes on two cores. ``--tables`` (default 10).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import datetime
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score
from tables import N_TEST, Table, table

import skdpfl

HERE = Path(__file__).parent
EPSILONS, TRUSTS = (1.0, 3.0, 8.0), ("silo", "secagg")


def judged(data: Table, seed: int, epsilon: float, trust: str, model: str) -> tuple[float, float]:
    """Return a fit's score, and its log loss less that of the shares (0 for numbers)."""
    X, y = data.X[:-N_TEST], data.y[:-N_TEST]
    tested, wanted = data.X[-N_TEST:], data.y[-N_TEST:]
    known = {"feature_bounds": data.bounds, "trust": trust, "model": model, "delta": 1e-5}
    known |= {"random_state": seed}
    if data.target_bounds is not None:
        known |= {"target_bounds": data.target_bounds}
        fit = skdpfl.ISRLDPRegressor(epsilon, **known).fit(X, y, silos=data.silos)
        return fit.score(tested, wanted), 0.0
    fit = skdpfl.ISRLDPClassifier(epsilon, **known).fit(X, y, silos=data.silos)
    shares, found = np.bincount(y) / len(y), fit.predict_proba(tested)
    labels = np.arange(len(shares))
    constant = log_loss(wanted, np.tile(shares, (N_TEST, 1)), labels=labels)
    two = len(labels) == 2
    score = roc_auc_score(wanted, found[:, 1]) if two else fit.score(tested, wanted)
    return score, log_loss(wanted, found, labels=labels) - constant


def cells(number: int) -> pd.DataFrame:
    """Return means of two seeds of the fits to a table, one row for each trust and epsilon."""
    data, rows = table(number), []
    for trust in TRUSTS:
        for epsilon in EPSILONS:
            fits = [
                [judged(data, seed, epsilon, trust, m) for m in ("linear", "auto")]
                for seed in (number, number + 1_000)
            ]
            (line, line_loss), (own, loss) = np.mean(fits, axis=0)
            row = {"score": own - line, "loss": loss - line_loss, "above": loss, "own": own}
            rows.append(row | {"table": number, "trust": trust, "epsilon": epsilon})
    return pd.DataFrame(rows).assign(labels=data.target_bounds is None)


def main() -> None:
    """Run all fits and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    n_tables = parser.parse_args().tables
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pd.concat([cells(number) for number in range(n_tables)])
    of_labels, each = found[found["labels"]], found.groupby(["table", "trust"])
    steps = len(found) - each.ngroups
    hurt = (each["own"].diff() < -0.005) | (each["above"].diff() > 0.003)
    lines = [
        "# Curves or lines on ten tables that chose nothing",
        "",
        f"`python benchmarks/auto/judge.py` on {datetime.date.today()}: `auto` less `linear`.",
        "",
        "| | cells | of |",
        "|---|---|---|",
        f"| score below by .005 | {(found['score'] < -0.005).sum()} | {len(found)} |",
        f"| score above by .005 | {(found['score'] > 0.005).sum()} | {len(found)} |",
        f"| log loss worse by .005 | {(of_labels['loss'] > 0.005).sum()} | {len(of_labels)} |",
        f"| log loss above the constant's by .003 | {(of_labels['above'] > 0.003).sum()} | "
        f"{len(of_labels)} |",
        f"| more budget hurts | {hurt.sum()} | {steps} |",
        "",
        f"Scores differ by {found['score'].mean():+.4f} in the mean, {found['score'].min():+.3f} "
        f"at worst and {found['score'].max():+.3f} at best.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if n_tables == parser.get_default("tables"):
        HERE.joinpath("judge.md").write_text(text)


if __name__ == "__main__":
    main()
