"""Features over many powers of ten, and wide bounds: ``python benchmarks/auto/wide.py``.

5,000 records in five silos, 40 features exp(s z) of normal z, or Cauchy; labels of a logistic model
of z (of the features' arctangents). Log loss of 10,000 others as they are, with
``clip_features=True``, and with the logarithms (inverse hyperbolic sines) as features; "said": the
share of the fits whose warning names features.

The second table: 4,000 records in six silos, 16 columns, whose normal z decide the labels. "Data
sheet": bounds of 100 and 150 for deviations of 1; "money": exp(z) thousands, bounds of a million;
"mixed": five columns of either kind and six with bounds of (-5, 5). Writes wide.md. ``--seeds``
(default 10).
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
from sklearn.metrics import log_loss

from skdpfl import ISRLDPClassifier

HERE = Path(__file__).parent
KINDS = ("normal", "exp(z)", "exp(2 z)", "exp(3 z)", "Cauchy")
N, N_TEST, D = 5_000, 10_000, 40
N_BOUNDED, D_BOUNDED = 4_000, 16


def problems(kind: str, seed: int) -> tuple[Problem, Problem]:
    """Return records as they are, and with logarithms as features."""
    rng = np.random.default_rng(500 + seed)
    z = rng.normal(size=(N + N_TEST, D))
    X, logs = z, z
    if kind == "Cauchy":
        X = rng.standard_cauchy(size=z.shape)
        z, logs = 1.5 * np.arctan(X), np.arcsinh(X)
    elif kind != "normal":
        X = np.exp({"exp(z)": 1, "exp(2 z)": 2, "exp(3 z)": 3}[kind] * z)
        logs = np.log(X)
    y = (z @ rng.normal(size=D) / 2 + rng.logistic(size=N + N_TEST) > 0).astype(int)
    silos = np.arange(N + N_TEST) % 5
    return Problem(X, y, silos, False), Problem(logs, y, silos, False)


def losses(kind: str, epsilon: float, seed: int) -> list[float]:
    """Return log losses as is, clipped, with logarithms, and of a constant; and whether it said."""
    found, said = [], 0.0
    as_is, logs = problems(kind, seed)
    ways: list[tuple[Problem, dict[str, Any]]]
    ways = [(as_is, {"clip_features": False}), (as_is, {"clip_features": True}), (logs, {})]
    for number, (data, options) in enumerate(ways):
        model = ISRLDPClassifier(epsilon, delta=1e-5, random_state=seed, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(data.X[:N], data.y[:N], silos=data.silos[:N])
        found.append(log_loss(data.y[N:], model.predict_proba(data.X[N:])))
        if number == 0:
            said = float(any("powers of ten" in str(one.message) for one in caught))
    shares = np.bincount(as_is.y[:N]) / N
    constant = log_loss(as_is.y[N:], np.tile(shares, (N_TEST, 1)))
    return [*found, constant, said]


def bounded(kind: str, seed: int) -> tuple[Problem, tuple[np.ndarray, np.ndarray]]:
    """Return records, and bounds as people have them."""
    rng = np.random.default_rng(700 + seed)
    z = rng.normal(size=(N_BOUNDED + N_TEST, D_BOUNDED))
    X, column = z.copy(), np.arange(D_BOUNDED)
    low, high = np.full(D_BOUNDED, -5.0), np.full(D_BOUNDED, 5.0)
    money = column < {"money": D_BOUNDED, "mixed": 5}.get(kind, 0)
    sheet = ~money & (column < {"data sheet": D_BOUNDED, "mixed": 10}.get(kind, 0))
    X[:, money], low[money], high[money] = 1e3 * np.exp(z[:, money]), 0.0, 1e6
    far = 20.0 * (column % 2)
    X[:, sheet] += far[sheet]
    low[sheet], high[sheet] = np.where(far > 0, 0.0, -50.0)[sheet], 100.0
    effects = rng.normal(size=D_BOUNDED)
    raw = 1.5 * z @ effects / np.linalg.norm(effects)
    y = (raw + rng.logistic(size=len(z)) > 0).astype(int)
    return Problem(X, y, rng.integers(0, 6, len(z)), False), (low, high)


def within_bounds(kind: str, epsilon: float, seed: int) -> list[float]:
    """Return log losses with and without bounds."""
    data, bounds = bounded(kind, seed)
    found = []
    for given in (bounds, None):
        model = ISRLDPClassifier(epsilon, delta=1e-5, random_state=seed, feature_bounds=given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.X[:N_BOUNDED], data.y[:N_BOUNDED], silos=data.silos[:N_BOUNDED])
        likely = model.predict_proba(data.X[N_BOUNDED:])
        found.append(log_loss(data.y[N_BOUNDED:], likely))
    return found


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    lines = ["# Features over many powers of ten", ""]
    about = f"means of {seeds} seeds, standard errors in brackets"
    lines += [f"`python benchmarks/auto/wide.py` on {datetime.date.today()}: {about}.", ""]
    lines += ["| features, epsilon | as they are | clipped | logarithms | constant |"]
    lines[-1] += " warned of |"
    lines += ["|---|---|---|---|---|---|"]
    for kind in KINDS:
        for epsilon in (0.5, 3.0):
            found = np.array([losses(kind, epsilon, seed) for seed in range(seeds)])
            errors = found.std(axis=0) / np.sqrt(seeds)
            means = [f"{m:.3f} ({e:.3f})" for m, e in zip(found.mean(axis=0), errors, strict=True)]
            lines.append(f"| {kind}, {epsilon:g} | " + " | ".join(means[:3]))
            lines[-1] += f" | {found[:, 3].mean():.3f} | {found[:, 4].mean():.0%} |"
            print(lines[-1], flush=True)
    lines += ["", "## Bounds", "", "| bounds, epsilon | with them | without |", "|---|---|---|"]
    for kind in ("tight", "data sheet", "money", "mixed"):
        for epsilon in (0.5, 1.0, 3.0):
            found = np.array([within_bounds(kind, epsilon, seed) for seed in range(seeds)])
            errors = found.std(axis=0) / np.sqrt(seeds)
            means = [f"{m:.3f} ({e:.3f})" for m, e in zip(found.mean(axis=0), errors, strict=True)]
            lines.append(f"| {kind}, {epsilon:g} | " + " | ".join(means) + " |")
            print(lines[-1], flush=True)
    HERE.joinpath("wide.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
