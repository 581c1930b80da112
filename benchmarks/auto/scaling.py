"""How good scales are that a fit finds within its budget: ``python benchmarks/auto/scaling.py``.

Each data set is split 80/20 and trained by plain full-batch noisy gradient descent (momentum 0.9,
60 rounds, average of the second half; clip norm and step the best of four pairs, the same for all),
so that only the scaling differs. Every row spends one budget (epsilon, 1e-5) on scales and training
together, except "exact", which standardises by exact moments for free.

Columns: "bounds": ranges rounded outward to one digit map features and target to [-1, 1];
"refined": the same, then ``plan_scaling`` with these bounds; "found": ``plan_scaling`` without
bounds. Scores: R2 or accuracy on the rest, means over seeds; in brackets the median of the four.
"""

from __future__ import annotations

import argparse
import itertools
from typing import NamedTuple

import numpy as np
from sklearn import datasets as bundled

from skdpfl import datasets
from skdpfl.federation import LocalFederation, SiloBudgets, SiloData
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling._bounds import (
    Bounds,
    affine_from_bounds,
    read_feature_bounds,
    read_target_bounds,
    target_from_bounds,
)
from skdpfl.scaling._choice import plan_scaling
from skdpfl.scaling._run import run_scaling

DELTA, ROUNDS, MOMENTUM = 1e-5, 60, 0.9
WAYS = ("exact", "bounds", "refined", "found")


class Data(NamedTuple):
    """Features, target and silo codes; ``n_outputs`` is 0 for regression."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    n_outputs: int


def fetched(fetch) -> Data:
    """A data set of skdpfl.datasets with its own silos."""
    bunch = fetch()
    codes = np.unique(bunch.silos, return_inverse=True)[1]
    whole = bunch.target.dtype.kind == "f"
    return Data(bunch.data, bunch.target, codes, 0 if whole else _outputs(bunch.target))


def random_silos(load, n_silos: int, regression: bool = False) -> Data:
    """A bundled data set with random silos."""
    X, y = load(return_X_y=True)
    codes = np.random.default_rng(0).integers(0, n_silos, len(y))
    return Data(X, y, codes, 0 if regression else _outputs(y))


def raw_diabetes(return_X_y: bool) -> tuple[np.ndarray, np.ndarray]:
    """The diabetes data in their own units."""
    return bundled.load_diabetes(return_X_y=return_X_y, scaled=False)


def mixed_units(n: int = 6000, d: int = 15, n_silos: int = 10) -> Data:
    """Synthetic: magnitudes from 1e-3 to 1e4, offsets of up to 30 deviations, skew, indicators."""
    rng = np.random.default_rng(7)
    size, offset = 10.0 ** rng.uniform(-3, 4, d), rng.choice([0, 1, 5, 30], d)
    Z = rng.normal(size=(n, d))
    Z[:, ::3] = np.exp(Z[:, ::3])
    Z[:, 1::5] = Z[:, 1::5] > 1
    raw = (Z - Z.mean(0)) / Z.std(0) @ rng.normal(size=d) + rng.normal(size=n)
    return Data((Z + offset) * size, (raw > 0).astype(int), rng.integers(0, n_silos, n), 1)


def wide(n: int = 4000, d: int = 100, n_silos: int = 20) -> Data:
    """Synthetic: a hundred skewed features."""
    rng = np.random.default_rng(5)
    X = rng.gamma(1.0, 1.0, (n, d)) * np.exp(2 * rng.normal(size=d))
    Z = (X - X.mean(0)) / X.std(0)
    raw = Z @ rng.normal(size=d) * 3 / np.sqrt(d) + rng.logistic(size=n)
    return Data(X, (raw > 0).astype(int), rng.integers(0, n_silos, n), 1)


SETS = {
    "insurance, 5 silos by charges": lambda: fetched(datasets.fetch_insurance),
    "obesity, 7 silos by class": lambda: fetched(datasets.fetch_obesity),
    "heart disease, 4 hospitals": lambda: fetched(datasets.fetch_heart_disease),
    "breast cancer, 5 silos": lambda: random_silos(bundled.load_breast_cancer, 5),
    "digits, 6 silos": lambda: random_silos(bundled.load_digits, 6),
    "diabetes, 4 silos": lambda: random_silos(raw_diabetes, 4, regression=True),
    "wine, 2 silos": lambda: random_silos(bundled.load_wine, 2),
    "mixed units, 10 silos": mixed_units,
    "wide, 20 silos": wide,
}


def _outputs(y: np.ndarray) -> int:
    n_classes = len(np.unique(y))
    return 1 if n_classes == 2 else n_classes


def outward(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round away from the data to one digit."""

    def one_digit(values: np.ndarray, rounding) -> np.ndarray:
        unit = 10.0 ** np.floor(np.log10(np.where(values == 0, 1, np.abs(values))))
        return rounding(np.round(values / unit, 9)) * unit

    return one_digit(np.asarray(low, float), np.floor), one_digit(np.asarray(high, float), np.ceil)


def scaled(way: str, data: Data, train: np.ndarray, mu: float, known: tuple, seed: int) -> tuple:
    """Scaled features and target, the share of mu that this took, and the rows' norm."""
    X, y, codes, n_outputs = data
    features, target = known
    if way == "bounds":
        maps, share = (affine_from_bounds(features), target and target_from_bounds(target)), 0.0
    else:
        bounds = known if way == "refined" else (None, None)
        sizes = np.bincount(codes[train], minlength=codes.max() + 1)
        spends = np.full(len(sizes), np.inf if way == "exact" else mu)
        plan = plan_scaling(
            SiloBudgets(sizes, spends),
            X.shape[1],
            feature_bounds=bounds[0],
            target_bounds=bounds[1],
            has_target=n_outputs == 0,
        )
        streams = streams_for(seed)
        records = SiloData.from_codes(X[train], y[train], codes[train], codes.max() + 1)
        found = run_scaling(plan, LocalFederation(records, streams), streams)
        maps, share = (found.features, found.target), 0.0 if way == "exact" else plan.share
    t = maps[1].transform(y) if n_outputs == 0 else y
    return maps[0].transform(X), t, share, maps[0].row_norm or 1.0


def train_model(Z, t, n_silos, n_outputs, mu, clip, step, rng) -> np.ndarray:
    """Noisy full-batch gradient descent; each silo noises its own clipped sum."""
    rows = np.column_stack([Z, np.ones(len(Z))])
    norms = np.linalg.norm(rows, axis=1)
    k = max(1, n_outputs)
    labels = np.eye(k)[t.astype(int)] if k > 1 else t[:, None]
    w = velocity = total = np.zeros((rows.shape[1], k))
    noise = 2 * np.sqrt(ROUNDS) / mu * clip * np.sqrt(n_silos) / len(Z)
    for r in range(ROUNDS):
        raw = rows @ w
        slopes = _prediction(raw, n_outputs) - labels
        sizes = np.linalg.norm(slopes, axis=1) * norms
        slopes *= np.minimum(1, clip / np.maximum(sizes, 1e-12))[:, None]
        gradient = rows.T @ slopes / len(Z) + noise * rng.normal(size=w.shape)
        velocity = MOMENTUM * velocity - step * gradient
        w = w + velocity
        total = total + w * (r >= ROUNDS // 2)
    return total / (ROUNDS - ROUNDS // 2)


def _prediction(raw: np.ndarray, n_outputs: int) -> np.ndarray:
    if n_outputs == 0:
        return raw
    if n_outputs == 1:
        return 1 / (1 + np.exp(-np.clip(raw, -50, 50)))
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def score(w: np.ndarray, Z: np.ndarray, t: np.ndarray, n_outputs: int) -> float:
    """R2 (at least -1) or accuracy."""
    raw = np.column_stack([Z, np.ones(len(Z))]) @ w
    if n_outputs == 0:
        return max(-1.0, 1 - np.mean((raw[:, 0] - t) ** 2) / t.var())
    return float(np.mean((raw[:, 0] > 0 if n_outputs == 1 else raw.argmax(axis=1)) == t))


def cell(way: str, data: Data, epsilon: float, seeds: int) -> str:
    """The best mean score of the four pairs of clip norm and step, and their median."""
    mu, n, n_silos = gaussian_mu(epsilon, DELTA), len(data.y), int(data.codes.max()) + 1
    target = None
    if data.n_outputs == 0:
        target = read_target_bounds(outward(data.y.min(), data.y.max()))
    known: tuple[Bounds, Bounds | None] = (
        read_feature_bounds(outward(data.X.min(axis=0), data.X.max(axis=0)), data.X.shape[1]),
        target,
    )
    scores = np.empty((seeds, 4))
    for seed in range(seeds):
        order = np.random.default_rng(1000 + seed).permutation(n)
        train, rest = order[: int(0.8 * n)], order[int(0.8 * n) :]
        Z, t, share, norm = scaled(way, data, train, mu, known, seed)
        size = np.sqrt(1 + norm**2)
        for i, (clip, step) in enumerate(itertools.product((0.3, 1.0), (0.4, 1.2))):
            left = mu * np.sqrt(1 - share**2)
            args = Z[train], t[train], n_silos, data.n_outputs, left, clip * size, step / size**2
            w = train_model(*args, np.random.default_rng(seed))
            scores[seed, i] = score(w, Z[rest], t[rest], data.n_outputs)
    means = scores.mean(axis=0)
    return f"{means.max():.3f} ({np.median(means):.3f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    args = parser.parse_args()
    print("| data | epsilon | " + " | ".join(WAYS) + " |\n" + "|---" * (2 + len(WAYS)) + "|")
    for (name, load), epsilon in itertools.product(SETS.items(), args.epsilons):
        cells = [cell(way, load(), epsilon, args.seeds) for way in WAYS]
        print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
