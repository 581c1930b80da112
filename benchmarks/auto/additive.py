"""What curves bring within the budget: ``python benchmarks/auto/additive.py``.

``model="auto"`` beside ``model="linear"`` on tables of mixed columns: 70 % of the records train,
the others test; numeric columns have bounds rounded outward to one digit, categories are columns of
True and False. AUC for two labels, accuracy for more, R2 for numbers; means over splits, and the
standard error of the difference. The thresholds of "auto" (``skdpfl/choosing/_curves.py``) were
chosen on other splits of these tables, with seeds below 10 and from 100 on.

Writes additive.csv and additive.md beside this file. ``--seeds`` (default 3), ``--cases`` (words
that their names start with), ``--pictures`` (only those of docs/models.md), ``--alone`` (only what
boosted trees of one silo alone reach without noise, for docs/which.md).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import gzip
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from problems import columns_of_all_kinds, made, outward
from sklearn import datasets as bundled
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdpfl import ISRLDPClassifier, ISRLDPRegressor, datasets

HERE = Path(__file__).parent
EPSILONS = (0.5, 1.0, 3.0, 8.0)
#: no seed from here to 99 chose anything
FIRST = 10
ADULT = [
    "age", "workclass", "weight", "education", "education_years", "marital", "occupation",
    "relationship", "race", "sex", "gain", "loss", "hours", "country", "income",
]  # fmt: skip


class Table(NamedTuple):
    """A frame of numbers and categories, and what is to be predicted."""

    frame: pd.DataFrame
    y: np.ndarray

    @property
    def is_regression(self) -> bool:
        return self.y.dtype.kind == "f"


def adult() -> Table:
    """Census records: who earns more than 50,000 dollars."""
    path = Path(os.environ["SKDPFL_DATA"]) / "adult" / "adult-train.csv.gz"
    with gzip.open(path, "rt") as lines:
        frame = pd.read_csv(lines, names=ADULT, skipinitialspace=True)
    return Table(frame.drop(columns="income"), (frame.income == ">50K").to_numpy().astype(int))


def fetched(fetch: Callable[..., Any]) -> Table:
    """A data set of skdpfl.datasets."""
    bunch = fetch(as_frame=True)
    return Table(bunch.data, np.asarray(bunch.target))


def bundle(load: Callable[..., Any], **more: Any) -> Table:
    """A data set of scikit-learn."""
    bunch = load(as_frame=True, **more)
    return Table(bunch.data, bunch.target.to_numpy())


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
    """Nothing bends, columns of all kinds, two labels."""
    columns = columns_of_all_kinds(n, d, seed=12)
    rank = np.argsort(np.argsort(columns, axis=0), axis=0) / n  # what is linear in ranks
    y = (rank - 0.5) @ np.random.default_rng(24).normal(size=d) * 3
    y = y + np.random.default_rng(25).logistic(size=n) > 0
    return Table(pd.DataFrame(rank, columns=[f"x{j}" for j in range(d)]), y.astype(int))


#: table, trust, number of silos
CASES: dict[str, tuple[Callable[[], Table], str, int]] = {
    "adult, server": (adult, "server", 1),
    "adult, ten silos": (adult, "silo", 10),
    "obesity, server": (lambda: fetched(datasets.fetch_obesity), "server", 1),
    "insurance, server": (lambda: fetched(datasets.fetch_insurance), "server", 1),
    "heart disease, server": (lambda: fetched(datasets.fetch_heart_disease), "server", 1),
    "wine, server": (lambda: bundle(bundled.load_wine), "server", 1),
    "breast cancer, server": (lambda: bundle(bundled.load_breast_cancer), "server", 1),
    "diabetes, server": (lambda: bundle(bundled.load_diabetes, scaled=False), "server", 1),
    "loans (synthetic), five silos": (loans, "silo", 5),
    "wages (synthetic), four silos": (wages, "silo", 4),
    "straight (synthetic), five silos": (straight, "silo", 5),
    "straight labels (synthetic), server": (ranks, "server", 1),
}


def prepared(table: Table) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    """Numbers with their bounds, and columns of True and False."""
    frame = table.frame
    numbers = frame.select_dtypes("number").columns
    low, high = outward(frame[numbers].min().to_numpy(), frame[numbers].max().to_numpy())
    bounds = dict(zip(numbers, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    return pd.get_dummies(frame, drop_first=False), bounds


def made_ready(name: str) -> tuple[Table, pd.DataFrame, Any, dict[str, Any]]:
    """Return a case's table, its columns, the class of its estimator, and the parameters."""
    load, trust, _ = CASES[name]
    table = load()
    X, bounds = prepared(table)
    options: dict[str, Any] = {"feature_bounds": bounds, "trust": trust, "delta": 1e-5}
    if not table.is_regression:
        return table, X, ISRLDPClassifier, options
    low, high = outward(np.array([table.y.min()]), np.array([table.y.max()]))
    options["target_bounds"] = (float(low[0]), float(high[0]))
    return table, X, ISRLDPRegressor, options


def score(model: Any, X: pd.DataFrame, y: np.ndarray) -> float:
    """AUC, accuracy or R2."""
    if y.dtype.kind == "f":
        return r2_score(y, model.predict(X))
    if len(np.unique(y)) == 2:
        return roc_auc_score(y, model.decision_function(X))
    return accuracy_score(y, model.predict(X))


def scores(name: str, n_seeds: int, models: tuple[Any, ...] = ("linear", "auto")) -> Iterator[dict]:
    table, X, kind, options = made_ready(name)
    n_silos = CASES[name][2]
    for seed in range(FIRST, FIRST + n_seeds):
        split = train_test_split(X, table.y, test_size=0.3, random_state=seed)
        X1, X2, y1, y2 = split
        silos = np.random.default_rng(seed).integers(0, n_silos, len(y1))
        for epsilon in EPSILONS:
            found = {"case": name, "seed": seed, "epsilon": epsilon}
            for model in models:
                fit = kind(epsilon, model=model, random_state=seed, **options)
                found[str(model)] = score(fit.fit(X1, y1, silos=silos), X2, y2)
            yield found


def alone(name: str, n_seeds: int, n_silos: int) -> float:
    """What boosted trees reach that one of so many silos fits by itself, without noise."""
    table = CASES[name][0]()
    X, _ = prepared(table)
    found = []
    for seed in range(FIRST, FIRST + n_seeds):
        X1, X2, y1, y2 = train_test_split(X, table.y, test_size=0.3, random_state=seed)
        own = np.random.default_rng(seed).integers(0, n_silos, len(y1)) == 0
        trees = HistGradientBoostingClassifier(random_state=0).fit(X1[own], y1[own])
        found.append(score(trees, X2, y2))
    return float(np.mean(found))


def page(frame: pd.DataFrame) -> str:
    """A table of means."""
    frame = frame.assign(gain=frame["auto"] - frame["linear"])
    grouped = frame.groupby(["case", "epsilon"], sort=False)
    means, errors = grouped.mean(numeric_only=True), grouped.gain.sem()
    lines = [
        "# Curves within the budget", "",
        "`python benchmarks/auto/additive.py`, see its docstring. AUC, accuracy or R2 of the test "
        "records.", "",
        "| case | epsilon | linear | auto | gain | standard error |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for (case, epsilon), row in means.iterrows():
        error = errors[case, epsilon]
        lines.append(
            f"| {case} | {epsilon:g} | {row.linear:.3f} | {row.auto:.3f} | {row.gain:+.3f} | "
            f"{error:.3f} |"
        )
    return "\n".join([*lines, "", made("additive.py")]) + "\n"


def draw() -> None:
    """Write the pictures of docs/models.md: adult at epsilon 1, insurance at epsilon 3."""
    import matplotlib.pyplot as plt

    from skdpfl.inspection import ShapeDisplay
    from skdpfl.models import Additive

    smoking = Additive(interactions=[("bmi", "smoker_yes")])
    columns = ["age", "education_years", "hours", "gain", "loss", "sex_Male"]
    for name, epsilon, asked, shown, n_products in (
        ("adult", 1.0, "auto", columns, 0),
        ("insurance", 3.0, smoking, ["age", "bmi", "smoker_yes"], 1),
    ):
        table, X, kind, options = made_ready(f"{name}, server")
        model = kind(epsilon, model=asked, random_state=0, **options).fit(X, table.y)
        display = ShapeDisplay.from_estimator(model, features=shown, n_products=n_products)
        display.figure_.savefig(HERE.parents[1] / f"docs/_static/curves_{name}.png", dpi=80)
        plt.close("all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--pictures", action="store_true", help="only draw docs/_static/curves_*")
    parser.add_argument("--alone", action="store_true", help="only boosted trees of one silo")
    chosen = parser.parse_args()
    if chosen.pictures:
        draw()
        return
    if chosen.alone:
        for n_silos in (3, 10, 100):
            print(n_silos, round(alone("adult, ten silos", chosen.seeds, n_silos), 3), flush=True)
        return
    warnings.simplefilter("ignore")
    rows: list[dict] = []
    for name in CASES:
        if not chosen.cases or name.startswith(tuple(chosen.cases)):
            rows += scores(name, chosen.seeds)
            print(page(pd.DataFrame(rows)).splitlines()[-6:-2], flush=True)
    frame = pd.DataFrame(rows)
    if not chosen.cases:
        frame.round(5).to_csv(HERE / "additive.csv", index=False)
        (HERE / "additive.md").write_text(page(frame))
    print(page(frame))


if __name__ == "__main__":
    main()
