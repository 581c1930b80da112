"""Regression in many small silos: ``python benchmarks/auto/small_silos.py``.

65 to 160 schools of 15 to 80 pupils, 10 columns of all kinds (normal, skewed, indicators, rounded
marks in units of their own), a school's own level, R2 about 0.57 without privacy. Only ``epsilon``,
``delta=1e-5`` and the observed ranges, rounded outward to one digit, are given. "before": without
counts of the target in bins (a switch inside of the package, for comparison); "exact": features and
target standardised by exact moments, for nothing; "server": ``trust="server"``.

Own intercepts: 150 schools of 40 pupils and as many for the test, five normal columns and five
indicators, own levels of deviation 0.3 where the explained part has 0.8 and the rest 0.7. R2 of the
joint model, and of `SiloAdapted` on it.

Writes small_silos.md beside this file. ``--seeds`` (default 20); ``--own`` for the last part alone.
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
from skdpfl import ISRLDPRegressor, SiloAdapted

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
OWN = "## Own intercepts"


def with_levels(n_silos: int, least: int, most: int, seed: int) -> Problem:
    """Many small silos with effects of their own; ten columns."""
    rng = np.random.default_rng(seed)
    silos = np.repeat(np.arange(n_silos), rng.integers(least, most + 1, n_silos))
    X = rng.normal(size=(len(silos), 10))
    X[:, 5:] = X[:, 5:] > 0.3
    raw = X @ [0.5, 0.4, 0.3, 0.2, 0.1, 0.3, -0.3, 0.2, 0, 0]
    raw += 0.3 * rng.normal(size=n_silos)[silos]
    return Problem(X, 20 + 6 * (raw + 0.7 * rng.normal(size=len(silos))), silos, True)


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


def own_parts(epsilon: float, seed: int) -> list[float]:
    """Return R2 of the joint model, with own intercepts, and with own ridges."""
    data = with_levels(150, 80, 80, seed)
    train = np.arange(len(data.y)) % 80 < 40
    bounds = np.repeat([-5.0, 0.0], 5), np.repeat([5.0, 1.0], 5)
    joint = ISRLDPRegressor(
        epsilon, delta=1e-5, feature_bounds=bounds, target_bounds=(0, 50), random_state=seed
    )
    found = []
    for head in (None, "intercept", "ridge"):
        model = SiloAdapted(joint, head=head)
        model.fit(data.X[train], data.y[train], silos=data.silos[train])
        found.append(model.score(data.X[~train], data.y[~train], silos=data.silos[~train]))
    return found


def table_of_own_parts(seeds: int) -> list[str]:
    """Return the lines of the table."""
    lines = ["| epsilon | joint | own intercepts | own ridges | least gain of intercepts |"]
    lines.append("|---" * 5 + "|")
    for epsilon in (0.5, 1.0, 3.0):
        found = np.array([own_parts(epsilon, seed) for seed in range(seeds)])
        errors = found.std(axis=0) / np.sqrt(seeds)
        cells = [f"{m:.3f} ({e:.3f})" for m, e in zip(found.mean(axis=0), errors, strict=True)]
        least = (found[:, 1] - found[:, 0]).min()
        lines.append(f"| {epsilon:g} | " + " | ".join(cells) + f" | {least:+.3f} |")
    return lines


def main() -> None:
    """Run all cases and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--own", action="store_true", help="own intercepts only")
    options = parser.parse_args()
    seeds, path = options.seeds, HERE / "small_silos.md"
    warnings.simplefilter("ignore")
    own = ["", OWN, "", f"Means of {seeds} seeds.", "", *table_of_own_parts(seeds)]
    if options.own:
        before = path.read_text().split(OWN)[0].rstrip()
        path.write_text("\n".join([before, *own]) + "\n")
        return
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
    path.write_text("\n".join([*lines, *own]) + "\n")


if __name__ == "__main__":
    main()
