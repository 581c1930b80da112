"""Skewed targets and quantiles: ``python benchmarks/auto/targets.py``.

Skewed: 3,000 records in five silos, five normal columns, a lognormal target (R2 about 0.22 without
privacy). "cut short": gradients clipped at one deviation of the target at most, as before
2026-11-22. "bounds": the observed ranges, rounded outward to one digit.

Quantiles: what share of the targets lies below predictions, its mean distance from the quantile
that was asked for (training and test records together), and the pinball loss of test records over
the target's standard deviation, with and without ``calibrate``. Bounds are given.

Writes targets.md beside this file. ``--seeds`` (default 20).
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
from hard import Split, fit, split
from problems import Problem, outward
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_pinball_loss

from skdpfl.losses import Quantile

HERE = Path(__file__).parent
SKEWED = [(1.0, False), (3.0, False), (8.0, False), (1.0, True), (8.0, True)]
DATA = [
    ("diabetes, 3 silos", (1.0, 3.0)),
    ("obesity: weight, 4 silos", (1.0, 3.0)),
    ("insurance, 5 silos by charges", (1.0, 3.0, 8.0)),
    ("synthetic 4000 x 30, by target", (1.0,)),
    ("houses (synthetic), 10 silos", (1.0,)),
    ("lognormal", (1.0, 3.0)),
]


def lognormal(seed: int) -> Split:
    """Records with a lognormal target, and many more of them as a test."""
    rng = np.random.default_rng(900 + seed)
    X = rng.normal(size=(13_000, 5))
    y = np.exp(7 + X @ [0.5, -0.3, 0.2, 0.1, 0.0] + 0.8 * rng.normal(size=13_000))
    silos, n = rng.integers(0, 5, 13_000), 3000
    bounds = {
        "feature_bounds": outward(X[:n].min(axis=0), X[:n].max(axis=0)),
        "target_bounds": tuple(map(float, outward(y[:n].min(), y[:n].max()))),
    }
    parts = (Problem(X[rows], y[rows], silos[rows], True) for rows in (slice(n), slice(n, None)))
    return Split(*parts, bounds)


def skewed(epsilon: float, bounded: bool, seed: int) -> list[float]:
    """Return R2 with gradients cut short, by "auto", and without privacy."""
    train, test, bounds = lognormal(seed)
    given = bounds if bounded else {}
    auto = fit("ISRLDP", train, seed, epsilon=epsilon, **given)
    most = np.sqrt(train.X.shape[1] + 1)
    short = fit(
        "ISRLDP", train, seed, epsilon=epsilon, clip_norm=min(auto.clip_norm_, most), **given
    )
    free = LinearRegression().fit(train.X, train.y)
    return [model.score(test.X, test.y) for model in (short, auto, free)]


def quantiles(name: str, epsilon: float, quantile: float, seed: int) -> list[float]:
    """Return the share below, its distance and the pinball loss, without and with the shift."""
    train, test, bounds = lognormal(seed) if name == "lognormal" else split(name, seed)
    found: list[float] = []
    for calibrate in (False, True):
        options = {"loss": Quantile(quantile), "calibrate": calibrate}
        model = fit("ISRLDP", train, seed, epsilon=epsilon, **options, **bounds)
        new = model.predict(test.X)
        below = np.append(train.y <= model.predict(train.X), test.y <= new).mean()
        loss = mean_pinball_loss(test.y, new, alpha=quantile) / train.y.std()
        found += [below, abs(below - quantile), loss]
    return found


def main() -> None:
    """Run all cases and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")

    def row(first: str, found: np.ndarray) -> str:
        errors = found.std(axis=0) / np.sqrt(seeds)
        cells = [f"{m:.3f} ({e:.3f})" for m, e in zip(found.mean(axis=0), errors, strict=True)]
        print(first, *cells, flush=True)
        return f"| {first} | " + " | ".join(cells) + " |"

    about = f"means of {seeds} seeds, standard errors in brackets"
    about = f"`python benchmarks/auto/targets.py` on {datetime.date.today()}: {about}."
    lines = ["# Skewed targets and quantiles", "", about, "", "## Skewed", ""]
    lines += ["| epsilon | cut short | auto | without privacy |", "|---|---|---|---|"]
    for epsilon, bounded in SKEWED:
        found = np.array([skewed(epsilon, bounded, seed) for seed in range(seeds)])
        lines.append(row(f"{epsilon:g}{', bounds' if bounded else ''}", found))
    lines += ["", "## Quantiles", ""]
    lines += [
        "| data, epsilon, quantile | share below, `calibrate=False` | its distance | pinball |"
    ]
    lines[-1] += " share below | its distance | pinball |"
    lines += ["|---|---|---|---|---|---|---|"]
    for name, budgets in DATA:
        for epsilon in budgets:
            for quantile in (0.1, 0.9):
                cases = range(seeds)
                found = np.array([quantiles(name, epsilon, quantile, seed) for seed in cases])
                lines.append(row(f"{name}, {epsilon:g}, {quantile:g}", found))
    HERE.joinpath("targets.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
