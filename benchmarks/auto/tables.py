"""Tables drawn by a seed, which chose nothing: columns, effects, labels and silos of all kinds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

N_TEST = 5_000


class Table(NamedTuple):
    """Records, the last N_TEST for the test, the others' silos, and public bounds of the columns.

    ``kind`` is "number", or the number of classes.
    """

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray]
    target_bounds: tuple[float, float] | None


def column(kind: int, z: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float, float]:
    """Return a column made of standard normal values, and what a data sheet says of its range."""
    if kind == 0:  # a measure
        place, spread = rng.uniform(10, 100), rng.uniform(2, 20)
        return place + spread * z, place - 5 * spread, place + 5 * spread
    if kind == 1:  # skewed
        unit = 10.0 ** rng.integers(-1, 3)
        return unit * np.exp(rng.uniform(0.4, 1.1) * z), 0.0, 40 * unit
    if kind == 2:  # a count, mostly small
        return np.floor(np.exp(rng.uniform(0.3, 1.0) * (z + 0.6))), 0.0, 30.0
    if kind == 3:  # years of age
        return np.round(np.clip(48 + 17 * z, 18, 95)), 18.0, 100.0
    if kind == 4:  # grades
        return np.digitize(z, [-1.2, -0.3, 0.5, 1.4]).astype(float), 0.0, 4.0
    return (z > rng.uniform(-0.3, 2.0)).astype(float), 0.0, 1.0  # yes or no


def effect(z: np.ndarray, bends: bool, rng: np.random.Generator) -> np.ndarray:
    """Return what a column adds: a line, or a curve of one of four kinds."""
    if not bends:
        return z
    at = rng.uniform(-1, 1)
    curves = (
        np.abs(z - at),
        np.tanh(3 * (z - at)),
        np.maximum(z - at, 0.0) * 1.5,
        np.cos(2 * z + at),
    )
    return curves[rng.integers(4)]


def table(seed: int, target: str | None = None) -> Table:
    """Return the table of a seed; ``target``: "two", "three" or "number", else drawn."""
    rng = np.random.default_rng([77, seed])
    target = target or str(rng.choice(["two", "two", "two", "three", "number"]))
    n = int(np.exp(rng.uniform(np.log(1_200), np.log(8_000))))
    d, n_silos = int(rng.integers(4, 20)), int(rng.integers(3, 13))
    mix = np.eye(d) + rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.15)
    Z = rng.normal(size=(n + N_TEST, d)) @ mix.T
    Z /= Z.std(axis=0)
    kinds = rng.choice(6, size=d, p=[0.2, 0.15, 0.15, 0.15, 0.1, 0.25])
    made = [column(int(kind), z, rng) for kind, z in zip(kinds, Z.T, strict=True)]
    X = np.column_stack([values for values, *_ in made])
    bounds = np.array([low for _, low, _ in made]), np.array([high for *_, high in made])
    k, bent = 3 if target == "three" else 1, rng.choice([0.0, 0.3, 0.7])
    raw = np.zeros((len(X), k))
    for x, kind in zip(X.T, kinds, strict=True):
        if rng.random() < 0.4:
            continue
        z = (np.log1p(x) if kind in (1, 2) and rng.random() < 0.5 else x).astype(float)
        z = (z - z.mean()) / max(z.std(), 1e-9)
        for c in range(k):
            raw[:, c] += rng.normal() * effect(z, kind != 5 and rng.random() < bent, rng)
    if d > 5 and rng.random() < 0.3:
        raw[:, 0] += rng.normal() * Z[:, 0] * Z[:, 1]
    raw = (raw - raw.mean(axis=0)) / np.maximum(raw.std(axis=0), 1e-9) * rng.uniform(0.4, 2.0)
    of_silo = rng.choice(n_silos, size=n, p=rng.dirichlet(np.full(n_silos, 4.0)))
    if target == "number":
        noise = rng.normal(size=len(X)) * rng.uniform(0.3, 1.0)
        y = 50 + 12 * (raw[:, 0] + noise)
        return Table(X, y, of_silo, bounds, (-50.0, 150.0))
    if target == "three":
        gumbel = rng.gumbel(size=raw.shape) + rng.normal(size=3) * 0.5
        return Table(X, (raw + gumbel).argmax(axis=1), of_silo, bounds, None)
    raw = raw[:, 0] + rng.logistic(size=len(X))
    share = float(rng.choice([0.04, 0.1, 0.2, 0.35, 0.5]))
    y = (raw > np.quantile(raw, 1 - share)).astype(int)
    return Table(X, y, of_silo, bounds, None)
