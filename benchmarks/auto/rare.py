"""Rare labels: ``python benchmarks/auto/rare.py``.

Two parts, judged on 20,000 other records; bounds are (-5, 5):

weights  six normal columns, two with an effect, four silos; the rarer label has a share of the
         records, by quantile. Area under the ROC curve and balanced accuracy without
         ``class_weight``, with {0: share, 1: 1}, and with the root of the share
loss     1,500 records in six silos, 20 normal columns, log odds 0.6 (x1 + .. + x4) + a. Log loss
         less that of a constant, the exact share of the training records; "exact" is
         ``LogisticRegression`` without privacy

Writes rare.md; half a minute on two cores. ``--seeds`` (default 8), ``--quick`` (two, no file).
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
from problems import Problem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

import skdpfl

HERE = Path(__file__).parent
N_TEST = 20_000
#: records, share of the rarer label, epsilon
WEIGHTS = [
    (1400, 0.02, 1.0),
    (1400, 0.05, 1.0),
    (1400, 0.05, 3.0),
    (1400, 0.2, 1.0),
    (5000, 0.05, 1),
]
#: a, and budgets
LOSS = [(-2.4, (0.5, 1.0, 3.0, 8.0)), (-4.0, (0.5, 2.0, 8.0))]


def by_quantile(n: int, share: float, seed: int) -> Problem:
    """Return records whose rarer label has this share."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + N_TEST, 6))
    raw = 1.5 * X[:, 0] + X[:, 1] + rng.logistic(size=len(X))
    return Problem(X, (raw > np.quantile(raw, 1 - share)).astype(int), rng.integers(0, 4, len(X)))


def by_odds(a: float, seed: int) -> Problem:
    """Return records of a logistic model with a low intercept."""
    rng = np.random.default_rng(1000 + seed)
    X = rng.normal(size=(1500 + N_TEST, 20))
    likely = 1 / (1 + np.exp(-(0.6 * X[:, :4].sum(axis=1) + a)))
    y = (rng.random(len(X)) < likely).astype(int)
    return Problem(X, y, rng.integers(0, 6, len(X)))


def fitted(data: Problem, epsilon: float, seed: int, **options: Any) -> Any:
    """Fit to the records that are not for the test."""
    model = skdpfl.ISRLDPClassifier(
        epsilon, delta=1e-5, feature_bounds=(-5, 5), random_state=seed, **options
    )
    n = len(data.y) - N_TEST
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data.X[:n], data.y[:n], silos=data.silos[:n])


def weights_row(n: int, share: float, epsilon: float, seeds: int) -> str:
    """Return a row of the table of weights."""
    found = []
    for seed in range(seeds):
        data, row = by_quantile(n, share, seed), []
        for given in (None, {0: share, 1: 1}, {0: share**0.5, 1: 1}):
            model = fitted(data, epsilon, seed, class_weight=given)
            z, y = model.decision_function(data.X[n:]), data.y[n:]
            row += [roc_auc_score(y, z), balanced_accuracy_score(y, z > 0)]
        found.append(row)
    means, errors = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(seeds)
    cells = " | ".join(f"{m:.3f} ({e:.3f})" for m, e in zip(means, errors, strict=True))
    return f"| {n}, {share:g}, {epsilon:g} | {cells} |"


def loss_row(a: float, epsilon: float, seeds: int) -> str:
    """Return a row of the table of losses."""
    found = []
    for seed in range(seeds):
        data = by_odds(a, seed)
        X, y = data.X[-N_TEST:], data.y[-N_TEST:]
        share = data.y[:-N_TEST].mean()
        constant = log_loss(y, np.full(len(y), share))
        model = fitted(data, epsilon, seed)
        exact = LogisticRegression().fit(data.X[:-N_TEST], data.y[:-N_TEST])
        likely = model.predict_proba(X)
        losses = [log_loss(y, likely) - constant, log_loss(y, exact.predict_proba(X)) - constant]
        found.append([constant, *losses, roc_auc_score(y, likely[:, 1])])
    (constant, own, exact, area), worst = np.mean(found, axis=0), np.max(found, axis=0)[1]
    error = np.std(found, axis=0)[1] / np.sqrt(seeds)
    return (
        f"| {a:g}, {epsilon:g} | {constant:.3f} | {own:+.4f} ({error:.4f}) | {worst:+.3f} "
        f"| {exact:+.4f} | {area:.3f} |"
    )


def main() -> None:
    """Run both parts and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="two seeds, no file")
    options = parser.parse_args()
    seeds = 2 if options.quick else options.seeds
    head = f"`python benchmarks/auto/rare.py` on {datetime.date.today()}: means of {seeds} seeds,"
    lines = ["# Rare labels", "", head + " standard errors in brackets.", "", "## Weights", ""]
    lines += [
        "| records, share, epsilon | AUC | balanced accuracy | AUC, by shares | balanced accuracy "
        "| AUC, by roots | balanced accuracy |",
        "|---|---|---|---|---|---|---|",
        *(weights_row(*case, seeds) for case in WEIGHTS),
        "",
        "## Log loss",
        "",
        "| a, epsilon | constant | fit less constant | worst | exact | AUC |",
        "|---|---|---|---|---|---|",
        *(loss_row(a, epsilon, seeds) for a, budgets in LOSS for epsilon in budgets),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.quick:
        HERE.joinpath("rare.md").write_text(text)


if __name__ == "__main__":
    main()
