"""Classifiers on tables that chose nothing: ``python benchmarks/auto/unseen.py``.

300 to 6,000 records in 2 to 12 silos of unlike sizes, 4 to 25 normal, lognormal and 0/1 columns,
3 to 50 % positives, log odds of deviation 0 (no signal), 0.5, 1 or 2; epsilon 0.5 to 8, one seed
each; half of the fits have bounds. Log loss of 5,000 other records, less that of a constant, the
exact share of the training records; how many end so far above it, and how many of them, and of
those below by 5 % or more, were warned of.

Writes unseen.md; a minute on two cores. ``--tables`` (default 300), ``--quick`` (20, no file);
``--rounds 100`` gives all fits as many rounds (no file).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from problems import Problem
from sklearn.metrics import log_loss

import skdpfl

HERE = Path(__file__).parent
N_TEST = 5_000
EPSILONS, FAMILIES = (0.5, 1.0, 2.0, 4.0, 8.0), ("ISRLDP", "DPFedAvg", "DPScaffold")


def table(seed: int) -> tuple[Problem, tuple[np.ndarray, np.ndarray]]:
    """Return records, those for the test last, and public bounds."""
    rng = np.random.default_rng(5000 + seed)
    n = int(np.exp(rng.uniform(np.log(400), np.log(6000))))
    d, n_silos = int(rng.integers(4, 26)), int(rng.integers(2, 13))
    mix = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.15) + np.eye(d)
    Z = rng.normal(size=(n + N_TEST, d)) @ mix.T
    Z /= Z.std(axis=0)
    kinds = rng.integers(0, 4, d)
    X = np.where(kinds == 0, np.exp(0.7 * Z), Z)
    X = np.where(kinds == 1, (rng.uniform(0.5, 2, d) < Z).astype(float), X)
    raw = Z @ (rng.normal(size=d) * (rng.random(d) < 0.5))
    raw *= rng.choice([0.0, 0.5, 1.0, 2.0]) / max(raw.std(), 1e-9)
    share = float(rng.choice([0.03, 0.06, 0.12, 0.25, 0.5]))
    raw += rng.logistic(size=len(raw))
    y = (raw > np.quantile(raw, 1 - share)).astype(int)
    silos = rng.choice(n_silos, size=n, p=rng.dirichlet(np.full(n_silos, 3.0)))
    low, high = (
        np.where(kinds < 2, 0.0, -5.0),
        np.select([kinds == 0, kinds == 1], [10.0, 1.0], 5.0),
    )
    return Problem(X, y, silos), (low, high)


def fitted(number: int, n_rounds: int | str) -> dict[str, Any]:
    """Return how a fit ended, relative to the constant's log loss, and whether it was warned of."""
    data, bounds = table(number)
    known: dict[str, Any] = {"feature_bounds": bounds} if number % 2 else {}
    kind = getattr(skdpfl, FAMILIES[number // 5 % 3] + "Classifier")
    known |= {"n_rounds": n_rounds}
    model = kind(EPSILONS[number % 5], delta=1e-5, random_state=number, **known)
    X, y = data.X[:-N_TEST], data.y[:-N_TEST]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y, silos=data.silos)
    tested = data.y[-N_TEST:]
    constant = log_loss(tested, np.full(N_TEST, y.mean()))
    gain = log_loss(tested, model.predict_proba(data.X[-N_TEST:])) - constant
    warned = any("will drown" in str(each.message) for each in said)
    return {"gain": gain, "constant": constant, "warned": warned}


def main() -> None:
    """Run all fits and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="twenty tables, no file")
    parser.add_argument("--rounds", type=int, help="for comparison; no file")
    options = parser.parse_args()
    n = 20 if options.quick else options.tables
    found = pd.DataFrame([fitted(number, options.rounds or "auto") for number in range(n)])
    rows = [(f"above by {most:g}", found["gain"] > most) for most in (0.0, 0.01, 0.02)]
    rows.append(("below by 5 % of it", found["gain"] < -0.05 * found["constant"]))
    lines = [
        "# Classifiers on tables that chose nothing",
        "",
        f"`python benchmarks/auto/unseen.py` on {datetime.date.today()}: {n} fits; means of "
        f"{found['gain'].mean():+.4f}, at most {found['gain'].max():+.3f} above the constant.",
        "",
        "| log loss and the constant's | fits | warned of |",
        "|---|---|---|",
        *(f"| {name} | {where.sum()} | {found['warned'][where].sum()} |" for name, where in rows),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.quick and options.rounds is None:
        HERE.joinpath("unseen.md").write_text(text)


if __name__ == "__main__":
    main()
