"""Which part of noisy scales costs probabilities: ``python benchmarks/auto/means.py``.

Classifiers with bounds at epsilon 1, split 80/20. Their private scales are read, means or spreads
or both are replaced by exact ones, and the columns so scaled are trained on with ``scaling=None``:
so all have the same noise. Log losses are those of the best factor on all predictions (found with
all records: no fit could have it), so that only the direction counts.

Writes means.md beside this file. ``--seeds`` (default 20).
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
from hard import Split, fit, split
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

HERE = Path(__file__).parent
CASES = ("breast cancer, 5 silos", "wine, 2 silos", "heart disease, 4 hospitals")
WAYS = ("noisy", "exact means", "exact spreads", "exact")


def log_loss(raw: np.ndarray, y: np.ndarray) -> float:
    """Return the log loss of raw predictions (n, 1) or (n, K)."""
    both = raw if raw.shape[1] > 1 else np.column_stack([np.zeros(len(raw)), raw])
    return float(-log_softmax(both, axis=1)[np.arange(len(y)), y].mean())


def judged(data: Split, center: np.ndarray, scale: np.ndarray, seed: int) -> list[float]:
    """Return accuracy and log loss with the best factor, of a fit to columns so scaled."""
    train, test = (part._replace(X=(part.X - center) / scale) for part in data[:2])
    model = fit("ISRLDP", train, seed, epsilon=1.0, scaling=None, calibrate=False)
    raw = [model.decision_function(part.X).reshape(len(part.y), -1) for part in (test, train)]
    codes = [np.searchsorted(model.classes_, part.y) for part in (test, train)]
    both, labels = np.concatenate(raw), np.concatenate(codes)

    def loss(u: float) -> float:
        return log_loss(np.exp(u) * both, labels)

    factor = np.exp(minimize_scalar(loss, bounds=(-4, 2), method="bounded").x)
    return [model.score(test.X, test.y), log_loss(factor * raw[0], codes[0])]


def errors_and_scores(name: str, seed: int) -> tuple[list[float], list[Any]]:
    """Return the errors of means (in deviations) and of log spreads, and the scores of all ways."""
    data = split(name, seed)
    found = fit("ISRLDP", data.train, seed, epsilon=1.0, **data.bounds).scaling_
    center, scale = found.center, found.scale
    mean, spread = data.train.X.mean(axis=0), data.train.X.std(axis=0)
    errors = np.array([(center - mean) / spread, np.log(scale / spread)])
    pairs = [(center, scale), (mean, scale), (center, spread), (mean, spread)]
    return np.sqrt((errors**2).mean(axis=1)).tolist(), [judged(data, *p, seed) for p in pairs]


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    about = f"`python benchmarks/auto/means.py` on {datetime.date.today()}: means of {seeds} seeds,"
    lines = ["# Means, spreads and probabilities", ""]
    lines += [
        f"{about} standard errors in brackets. Accuracy, and log loss with the best factor.",
        "",
    ]
    lines += ["| data, epsilon 1 | error of means, of log spreads | " + " | ".join(WAYS) + " |"]
    lines += ["|---" * 6 + "|"]
    for name in CASES:
        runs = [errors_and_scores(name, seed) for seed in range(seeds)]
        errors, scores = np.array([e for e, _ in runs]), np.array([s for _, s in runs])
        error = scores.std(axis=0) / np.sqrt(seeds)
        cells = [
            f"{m[0]:.3f} ({e[0]:.3f}), {m[1]:.3f} ({e[1]:.3f})"
            for m, e in zip(scores.mean(axis=0), error, strict=True)
        ]
        first = "{:.2f}, {:.2f}".format(*errors.mean(axis=0))
        lines.append(f"| {name} | {first} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    HERE.joinpath("means.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
