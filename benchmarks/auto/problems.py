"""Drawn tables in silos: columns, effects, labels and silos of all kinds, which chose nothing."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn import datasets as bundled
from sklearn.model_selection import train_test_split

from benchmarks.problems import Problem, held_out, outward
from skdpfl import datasets


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
    far = z - at
    curves = np.abs(far), np.tanh(3 * far), np.maximum(far, 0.0) * 1.5, np.cos(2 * z + at)
    return curves[rng.integers(4)]


def sparsely_mixed(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Return normal columns of deviation 1, some of which are correlated."""
    mix = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.15) + np.eye(d)
    Z = rng.normal(size=(n, d)) @ mix.T
    return Z / Z.std(axis=0)


def of_all_kinds(seed: int, n_test: int = 5_000) -> Problem:
    """Return a table with two or three labels or a number, and curves and lines."""
    rng = np.random.default_rng([77, seed])
    target = str(rng.choice(["two", "two", "two", "three", "number"]))
    n = int(np.exp(rng.uniform(np.log(1_200), np.log(8_000))))
    d, n_silos = int(rng.integers(4, 20)), int(rng.integers(3, 13))
    Z = sparsely_mixed(rng, n + n_test, d)
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
    silos = rng.choice(n_silos, size=n, p=rng.dirichlet(np.full(n_silos, 4.0)))
    if target == "number":
        noise = rng.normal(size=len(X)) * rng.uniform(0.3, 1.0)
        data = held_out(X, 50 + 12 * (raw[:, 0] + noise), silos, n_test, bounds)
        return data._replace(bounds=data.bounds | {"target_bounds": (-50.0, 150.0)})
    if target == "three":
        gumbel = rng.gumbel(size=raw.shape) + rng.normal(size=3) * 0.5
        return held_out(X, (raw + gumbel).argmax(axis=1), silos, n_test, bounds)
    raw = raw[:, 0] + rng.logistic(size=len(X))
    share = float(rng.choice([0.04, 0.1, 0.2, 0.35, 0.5]))
    return held_out(X, rarer(raw, share), silos, n_test, bounds)


def rarer(raw: np.ndarray, share: float) -> np.ndarray:
    """Return labels of which so large a share, those of the largest numbers, are ones."""
    return (raw > np.quantile(raw, 1 - share)).astype(int)


def of_labels(seed: int, n_test: int = 5_000) -> Problem:
    """Return normal, lognormal and 0/1 columns, 3 to 50 % positives, perhaps without any signal."""
    rng = np.random.default_rng(5000 + seed)
    n = int(np.exp(rng.uniform(np.log(400), np.log(6000))))
    d, n_silos = int(rng.integers(4, 26)), int(rng.integers(2, 13))
    Z = sparsely_mixed(rng, n + n_test, d)
    kinds = rng.integers(0, 4, d)
    X = np.where(kinds == 0, np.exp(0.7 * Z), Z)
    X = np.where(kinds == 1, (rng.uniform(0.5, 2, d) < Z).astype(float), X)
    raw = Z @ (rng.normal(size=d) * (rng.random(d) < 0.5))
    raw *= rng.choice([0.0, 0.5, 1.0, 2.0]) / max(raw.std(), 1e-9)
    share = float(rng.choice([0.03, 0.06, 0.12, 0.25, 0.5]))
    y = rarer(raw + rng.logistic(size=len(raw)), share)
    silos = rng.choice(n_silos, size=n, p=rng.dirichlet(np.full(n_silos, 3.0)))
    low = np.where(kinds < 2, 0.0, -5.0)
    high = np.select([kinds == 0, kinds == 1], [10.0, 1.0], 5.0)
    return held_out(X, y, silos, n_test, (low, high))


class Law(NamedTuple):
    """Training records, columns of each kind, positives, deviations of logarithms and log odds."""

    n: int
    indicators: int
    lognormal: int
    normal: int
    share: float
    spread: float
    signal: float


#: tables with rare indicators and heavy tails
LAWS = {
    "A": Law(1500, 12, 4, 4, 0.12, 1.0, 1.5),
    "B": Law(3000, 20, 6, 4, 0.05, 1.0, 1.2),
    "C": Law(5000, 30, 8, 2, 0.03, 1.5, 1.2),
    "D": Law(2000, 4, 10, 0, 0.15, 1.5, 1.0),
    "E": Law(4000, 40, 0, 6, 0.08, 1.0, 1.0),
    "F": Law(2500, 8, 12, 4, 0.10, 0.8, 0.8),
    "G": Law(1500, 25, 3, 3, 0.15, 1.2, 2.0),
    "H": Law(5000, 15, 15, 5, 0.06, 1.2, 0.7),
}


def of_law(name: str, seed: int, n_test: int = 4_000) -> Problem:
    """Return records drawn by a law, which is fixed."""
    law, fixed = LAWS[name], np.random.default_rng(ord(name))
    rng, n = np.random.default_rng([ord(name), seed, 7]), law.n + n_test
    i, m = law.indicators, law.lognormal
    d = i + m + law.normal
    mix = fixed.normal(size=(d, d)) * (fixed.random((d, d)) < 0.15) + np.eye(d)
    ones = fixed.uniform(0.01, 0.05, i)
    along, units = fixed.normal(size=d) * (fixed.random(d) < 0.5), 10.0 ** fixed.integers(-1, 4, m)
    Z = rng.normal(size=(n, d)) @ mix.T / np.sqrt(np.square(mix).sum(axis=1))
    Z[:, :i] = norm.ppf(1 - ones) < Z[:, :i]
    raw = np.where(np.arange(d) < i, 2.0, 1.0) * Z @ along
    y = rarer(raw / raw.std() * law.signal + rng.logistic(size=n), law.share)
    X = Z.copy()
    X[:, i : i + m] = np.exp(law.spread * Z[:, i : i + m]) * units
    low = np.repeat([0.0, -4.0], [i + m, law.normal])
    high = np.concatenate([np.ones(i), np.exp(3 * law.spread) * units, np.full(law.normal, 4.0)])
    silos = rng.choice(6, size=n, p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.1])
    return held_out(X, y, silos, n_test, (low, high))


def by_quantile(n: int, share: float, seed: int, n_test: int = 20_000) -> Problem:
    """Return six normal columns, two with an effect; the rarer label has this share."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n_test, 6))
    y = rarer(1.5 * X[:, 0] + X[:, 1] + rng.logistic(size=len(X)), share)
    return held_out(X, y, rng.integers(0, 4, len(X)), n_test, (-5, 5))


def by_odds(a: float, seed: int, n_test: int = 20_000) -> Problem:
    """Return 1,500 records of a logistic model whose intercept is low."""
    rng = np.random.default_rng(1000 + seed)
    X = rng.normal(size=(1500 + n_test, 20))
    likely = 1 / (1 + np.exp(-(0.6 * X[:, :4].sum(axis=1) + a)))
    y = (rng.random(len(X)) < likely).astype(int)
    return held_out(X, y, rng.integers(0, 6, len(X)), n_test, (-5, 5))


class Table(NamedTuple):
    """A frame of numbers and categories, and what is to be predicted."""

    frame: pd.DataFrame
    y: np.ndarray

    def columns(self) -> pd.DataFrame:
        """Return numbers, and categories as columns of True and False."""
        return pd.get_dummies(self.frame, drop_first=False)

    def bounds(self) -> dict[str, Any]:
        """Return the ranges of numbers, rounded outward to one digit."""
        numbers = self.frame.select_dtypes("number")
        ranges = {name: around(values) for name, values in numbers.items()}
        target = {"target_bounds": around(self.y)} if self.y.dtype.kind == "f" else {}
        return {"feature_bounds": ranges} | target

    def split(self, seed: int, n_silos: int) -> Problem:
        """Return 70 % of the records in random silos, and the others for the test."""
        X, X_test, y, y_test = train_test_split(
            self.columns(), self.y, test_size=0.3, random_state=seed
        )
        silos = np.random.default_rng(seed).integers(0, n_silos, len(y))
        return Problem(X, y, silos, X_test, y_test, self.bounds())


def around(values: Any) -> tuple[float, float]:
    """Return a range, rounded outward to one digit."""
    return float(-outward(-values.min())), float(outward(values.max()))


ADULT = [
    "age", "workclass", "weight", "education", "education_years", "marital", "occupation",
    "relationship", "race", "sex", "gain", "loss", "hours", "country", "income",
]  # fmt: skip


def adult() -> Table:
    """Census records: who earns more than 50,000 dollars."""
    path = Path(os.environ["SKDPFL_DATA"]) / "adult" / "adult-train.csv.gz"
    with gzip.open(path, "rt") as lines:
        frame = pd.read_csv(lines, names=ADULT, skipinitialspace=True)
    return Table(frame.drop(columns="income"), (frame.income == ">50K").to_numpy().astype(int))


def loaded(load: Callable[..., Any], **more: Any) -> Table:
    """A data set of skdpfl.datasets or scikit-learn."""
    bunch = load(as_frame=True, **more)
    return Table(bunch.data, np.asarray(bunch.target))


def loans(n: int = 20_000) -> Table:
    """Like credit records: heavy tails, many zeros, effects that level off and turn."""
    rng = np.random.default_rng(21)
    age, limit = rng.uniform(21, 70, n), rng.lognormal(11.5, 0.8, n)
    owed = limit * rng.beta(0.6, 1.4, n)
    late = np.where(rng.random(n) < 0.7, 0.0, rng.geometric(0.5, n))
    paid = np.where(rng.random(n) < 0.2, 0.0, rng.lognormal(8, 1.2, n))
    raw = 1.5 * np.minimum(late, 2) - 0.5 * np.log1p(paid) / 4 + 1.2 * (owed / limit > 0.8)
    raw = raw + ((age - 42) / 18) ** 2 - 0.5 * np.log(limit / 1e5) - 1.2
    sex = pd.Categorical(rng.choice(["a", "b"], n))
    frame = pd.DataFrame({"age": age, "limit": limit, "owed": owed, "late": late, "paid": paid})
    return Table(frame.assign(sex=sex), (raw + rng.logistic(size=n) > 0).astype(int))


def wages(n: int = 8_000) -> Table:
    """Like a survey of wages: experience that pays less and less, a product, indicators."""
    rng = np.random.default_rng(22)
    years, school = rng.gamma(2.0, 8.0, n).clip(0, 50), rng.integers(6, 21, n).astype(float)
    town, firm = rng.random(n) < 0.4, rng.lognormal(4, 1.5, n)
    y = 12 + 6 * np.sqrt(years) - 0.35 * years + 0.9 * school + 0.8 * town * (school - 12)
    y = y + 1.5 * np.log(firm) + rng.normal(0, 5, n)
    return Table(pd.DataFrame({"years": years, "school": school, "town": town, "firm": firm}), y)


def straight(n: int = 20_000, d: int = 8) -> Table:
    """Nothing bends."""
    rng = np.random.default_rng(23)
    X = rng.normal(size=(n, d)).clip(-3, 3)
    y = X @ rng.normal(size=d) + rng.normal(size=n) * 2
    return Table(pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]), y)


def ranks(n: int = 10_000, d: int = 12) -> Table:
    """Nothing bends, ranks of correlated columns of four kinds, two labels."""
    rng = np.random.default_rng(12)
    mix = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.2) + 0.7 * np.eye(d)
    Z = rng.normal(size=(n, d)) @ mix.T
    Z /= Z.std(axis=0)
    rng.normal(size=d), rng.random(d), rng.logistic(size=n)  # once those of a target
    kinds = rng.integers(0, 4, d)
    X = np.where(kinds == 0, np.exp(Z), Z)
    X = np.where(kinds == 1, rng.normal(size=d) < Z, X)
    X = np.where(kinds == 2, np.round(3 * Z), X)
    X = X * 10.0 ** rng.integers(-2, 4, d) + (kinds > 1) * rng.normal(size=d)
    rank = np.argsort(np.argsort(X, axis=0), axis=0) / n  # what is linear in ranks
    y = (rank - 0.5) @ np.random.default_rng(24).normal(size=d) * 3
    y = y + np.random.default_rng(25).logistic(size=n) > 0
    return Table(pd.DataFrame(rank, columns=[f"x{j}" for j in range(d)]), y.astype(int))


TABLES: dict[str, Callable[[], Table]] = {
    "adult": adult,
    "obesity": partial(loaded, datasets.fetch_obesity),
    "insurance": partial(loaded, datasets.fetch_insurance),
    "heart disease": partial(loaded, datasets.fetch_heart_disease),
    "wine": partial(loaded, bundled.load_wine),
    "breast cancer": partial(loaded, bundled.load_breast_cancer),
    "diabetes": partial(loaded, bundled.load_diabetes, scaled=False),
    "loans (synthetic)": loans,
    "wages (synthetic)": wages,
    "straight (synthetic)": straight,
    "straight labels (synthetic)": ranks,
}


@cache
def named(name: str) -> Table:
    """Return a table of TABLES, made once."""
    return TABLES[name]()
