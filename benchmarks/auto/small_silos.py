"""Regression in many small silos: ``python benchmarks/auto/small_silos.py``.

65 to 160 schools of 15 to 80 pupils, 10 columns of all kinds (normal, skewed, indicators, rounded
marks in units of their own), a school's own level, R2 about 0.57 without privacy. Only ``epsilon``,
``delta=1e-5`` and the observed ranges, rounded outward to one digit, are given. "before": without
counts of the target in bins (a switch inside of the package, for comparison); "exact": features and
target standardised by exact moments, for nothing; "server": ``trust="server"``.

Writes small_silos.md beside this file. ``--seeds`` (default 20).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from problems import Problem, outward
from sklearn.linear_model import LinearRegression

import skdpfl.scaling._choice as choice
from skdpfl import ISRLDPRegressor

HERE = Path(__file__).parent
#: silos, their least and most records, epsilon
CASES = [
    (131, 15, 30, 0.5),
    (131, 15, 30, 1.0),
    (131, 15, 30, 3.0),
    (65, 15, 80, 0.5),
    (65, 15, 80, 1.0),
    (160, 15, 80, 0.5),
]
METHODS = ("before", "auto", "exact", "server", "no privacy")
_LIMIT = choice._COARSE


def schools(n_silos: int, low: int, high: int, seed: int, d: int = 10) -> Problem:
    """Pupils in schools."""
    rng = np.random.default_rng(seed + 500)
    sizes = rng.integers(low, high + 1, n_silos)
    n, silos = int(sizes.sum()), np.repeat(np.arange(n_silos), sizes)
    mix = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.2) + 0.7 * np.eye(d)
    Z = (rng.normal(size=(n, d)) + 0.3 * rng.normal(size=(n_silos, d))[silos]) @ mix.T
    Z /= Z.std(axis=0)
    raw = Z @ rng.normal(size=d)
    level = 0.09 * rng.normal(size=n_silos)[silos]
    noise = 0.95 * np.sqrt(0.4) * rng.normal(size=n)
    y = 50 + 12 * (np.sqrt(0.6) * raw / raw.std() + noise + level)
    kinds = rng.integers(0, 4, d)
    X = np.where(kinds == 0, np.exp(Z / 1.5), Z)
    X = np.where(kinds == 1, Z > 0.5, X)
    X = np.where(kinds == 2, np.round(3 * Z + 12), X)
    X = np.where(kinds == 3, 50 + 10 * Z, X)
    return Problem(X, y, silos, True)


def scores(n_silos: int, low: int, high: int, epsilon: float, seed: int) -> list[float]:
    """Return R2 of all methods on a fifth of the pupils."""
    data = schools(n_silos, low, high, seed)
    test = np.random.default_rng(seed).random(len(data.y)) < 0.2
    X, y, silos = data.X[~test], data.y[~test], data.silos[~test]
    known = {
        "feature_bounds": outward(data.X.min(axis=0), data.X.max(axis=0)),
        "target_bounds": tuple(map(float, outward(data.y.min(), data.y.max()))),
    }

    def r2(shift: Any = 0.0, scale: Any = 1.0, level: float = 0.0, unit: float = 1.0, **kw: Any):
        model = ISRLDPRegressor(epsilon=epsilon, delta=1e-5, random_state=seed, **kw)
        model.fit((X - shift) / scale, (y - level) / unit, silos=silos)
        return model.score((data.X[test] - shift) / scale, (data.y[test] - level) / unit)

    choice._COARSE = np.inf
    before = r2(**known)
    choice._COARSE = _LIMIT
    exact = r2(X.mean(axis=0), X.std(axis=0), y.mean(), y.std(), scaling=None)
    free = LinearRegression().fit(X, y).score(data.X[test], data.y[test])
    return [before, r2(**known), exact, r2(trust="server", **known), free]


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    lines = [
        "# Small silos",
        "",
        f"`python benchmarks/auto/small_silos.py`, see its docstring: means of R2 over {seeds} "
        "seeds, standard errors in brackets, and the least.",
        "",
        "| silos | records of each | epsilon | " + " | ".join(METHODS) + " |",
        "|---" * (3 + len(METHODS)) + "|",
    ]
    for n_silos, low, high, epsilon in CASES:
        found = np.array([scores(n_silos, low, high, epsilon, seed) for seed in range(seeds)])
        cells = [f"{s.mean():.3f} ({s.std() / np.sqrt(seeds):.3f}), {s.min():.2f}" for s in found.T]
        lines.append(f"| {n_silos} | {low} to {high} | {epsilon:g} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    HERE.joinpath("small_silos.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
