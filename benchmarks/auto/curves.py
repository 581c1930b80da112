"""When products and curves of features pay: ``python benchmarks/auto/curves.py``.

Columns are mapped to [-1, 1] by their public bounds; then one of four groups of features is made of
them, by steps that learn nothing: the columns themselves ("linear"), with all products of two
("products"), with squares, too ("quadratic"), or quadratic splines with four public knots in each
column ("splines"). For each group: the score of "auto" at epsilon 1, 3 and 8, and without privacy
(ridge or logistic regression); and the public number s P, the noise of the fit in one coordinate of
the mean gradient times the number of coefficients of an output.

Three ways to choose a group are compared: always "linear"; the rule, which takes the group that is
best without privacy (somebody who knows the subject would know which) among those whose s P is at
most 0.2 for numbers and 0.5 for labels, the limits of ``skdpfl.inspection.affordable_features``;
and the best group by the test records.

Writes curves.csv and curves.md beside this file. ``--seeds`` (default 4), ``--cases``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from problems import PROBLEMS, Problem, made, outward, random_silos
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skdpfl import ISRLDPClassifier, ISRLDPRegressor

HERE = Path(__file__).parent
EPSILONS = (1.0, 3.0, 8.0)
#: the rule's largest s P, for numbers and for labels
LIMITS = 0.2, 0.5
#: columns that matter by themselves, in products, and in curves
_SHAPES = {
    "products matter, 2000 x 5, 5 silos": (2_000, 5, 5, "products"),
    "products matter, 20000 x 10, 20 silos": (20_000, 10, 20, "products"),
    "curves matter, 5000 x 6, 5 silos": (5_000, 6, 5, "curves"),
    "nothing bends, 2000 x 8, 5 silos": (2_000, 8, 5, ""),
}
CASES = [
    "insurance, 5 silos by charges",
    "diabetes, 3 silos",
    "houses (synthetic), 10 silos",
    "obesity: age, 4 silos",
    "obesity, 7 silos by class",
    "heart disease, 4 hospitals",
    "breast cancer, 5 silos",
    *_SHAPES,
]


def synthetic(n: int, d: int, n_silos: int, what: str) -> Problem:
    """Uniform columns; a target that is linear in them and, in equal parts, something else."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (n, d))
    raw = X @ rng.normal(size=d)
    bent = np.zeros(n)
    if what == "products":
        bent = sum(rng.normal() * X[:, i] * X[:, i - 1] for i in range(d))
    elif what == "curves":
        bent = np.cos(np.pi * X[:, : d // 2]) @ rng.normal(size=d // 2)
    y = raw / raw.std() + (bent / bent.std() if what else 0) + rng.normal(size=n)
    return Problem(X, y, random_silos(n, n_silos), True)


def groups(d: int) -> dict[str, Any]:
    """Return the groups of features: steps that learn nothing."""
    knots = np.repeat(np.linspace(-1, 1, 4)[:, None], d, axis=1)
    return {
        "linear": FunctionTransformer(),
        "products": PolynomialFeatures(2, interaction_only=True, include_bias=False),
        "quadratic": PolynomialFeatures(2, include_bias=False),
        "splines": SplineTransformer(knots=knots, degree=2, include_bias=False),
    }


def noise_times_size(model: Any) -> float:
    """Return s P of a fit."""
    plan = model.plan_
    s = plan.mechanism.noise_on_mean(plan) / plan.clip_norm / np.sqrt(sum(plan.steps))
    return float(s * (model.n_features_in_ + 1))


def rows_of(case: str, seeds: int) -> list[dict[str, Any]]:
    """Return all numbers of a case, one row for each group and budget."""
    data = synthetic(*_SHAPES[case]) if case in _SHAPES else PROBLEMS[case]()
    low, high = outward(data.X.min(axis=0), data.X.max(axis=0))
    columns = (2 * (data.X - low) / np.where(high > low, high - low, 1) - 1) * (high > low)
    kind = ISRLDPRegressor if data.regression else ISRLDPClassifier
    known: dict[str, Any] = {"delta": 1e-5}
    if data.regression:
        known["target_bounds"] = tuple(map(float, outward(data.y.min(), data.y.max())))
    found = []
    for name, step in groups(columns.shape[1]).items():
        X = step.fit(columns).transform(columns)
        known["feature_bounds"] = (0, 1) if name == "splines" else (-1, 1)
        for epsilon in (*EPSILONS, np.inf):
            scores, size = [], 0.0
            for seed in range(seeds):
                train, test = train_test_split(np.arange(len(X)), test_size=0.2, random_state=seed)
                if np.isinf(epsilon):
                    exact = LogisticRegression(C=1.0, max_iter=500)
                    if data.regression:
                        exact = RidgeCV(np.logspace(-3, 3, 7))
                    model = make_pipeline(StandardScaler(), exact).fit(X[train], data.y[train])
                else:
                    model = kind(epsilon=epsilon, random_state=seed, **known)
                    model.fit(X[train], data.y[train], silos=data.silos[train])
                    size = noise_times_size(model)
                scores.append(model.score(X[test], data.y[test]))
            found.append(
                {
                    "case": case, "group": name, "columns": X.shape[1], "epsilon": epsilon,
                    "labels": not data.regression,
                    "mean": np.mean(scores), "error": np.std(scores) / np.sqrt(seeds),
                    "s P": size,
                }
            )  # fmt: skip
            print(*found[-1].values(), flush=True)
    return found


def choices(found: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of three ways to choose a group, one row for each case and budget."""
    lines = []
    for (case, epsilon), rows in found[np.isfinite(found.epsilon)].groupby(["case", "epsilon"]):
        exact = found[(found.case == case) & np.isinf(found.epsilon)].set_index("group")["mean"]
        rows = rows.set_index("group")
        fit = rows["s P"] <= (LIMITS[1] if rows["labels"].iloc[0] else LIMITS[0])
        rule = exact[fit[fit].index].idxmax() if fit.any() else "linear"
        linear, best = rows["mean"]["linear"], rows["mean"].idxmax()
        lines.append(
            [case, epsilon, linear, exact["linear"], rule, rows["mean"][rule], best,
             rows["mean"][best], rows["s P"][rule]]
        )  # fmt: skip
    names = ["case", "epsilon", "linear", "exact linear", "rule", "its score", "best", "best score"]
    return pd.DataFrame(lines, columns=[*names, "s P"])


def losses(found: pd.DataFrame) -> Iterator[tuple[float, float, pd.Series]]:
    """Yield ranges of s P, and what fits in them are below the same features without privacy."""
    exact = found[np.isinf(found.epsilon)].set_index(["case", "group"])["mean"]
    private = found[np.isfinite(found.epsilon)]
    keys = pd.MultiIndex.from_frame(private[["case", "group"]])
    lost = pd.Series(exact.loc[keys].to_numpy() - private["mean"].to_numpy())
    for low, high in itertools.pairwise((0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, np.inf)):
        inside = private["s P"].between(low, high, inclusive="right").to_numpy()
        if inside.any():
            yield low, high, lost[inside]


def report(found: pd.DataFrame) -> str:
    """Return the tables as text."""
    chosen = choices(found)
    lines = [
        "# When curves pay",
        "",
        "`python benchmarks/auto/curves.py`, see its docstring. R2 or accuracy, means.",
        "",
        "| case | epsilon | linear | and no privacy | the rule takes | its score | s P | best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in chosen.itertuples(index=False):
        lines.append(
            f"| {r[0]} | {r[1]:g} | {r[2]:.3f} | {r[3]:.3f} | {r[4]} | **{r[5]:.3f}** | "
            f"{r[8]:.3f} | {r[6]}, {r[7]:.3f} |"
        )
    means = chosen[["linear", "its score", "best score"]].mean().round(3).tolist()
    lines.append("| **mean** | | {:.3f} | | | **{:.3f}** | | {:.3f} |".format(*means))
    lines += ["", "## What the noise takes", "", "Medians, in brackets the most."]
    for kind, labels in (("R2", False), ("accuracy", True)):
        lines += ["", f"| s P | fits | {kind} below that without privacy |", "|---|---|---|"]
        lines += [
            f"| {low:g} to {high:g} | {len(lost)} | {lost.median():.3f} ({lost.max():.3f}) |"
            for low, high, lost in losses(found[found.labels == labels])
        ]
    return "\n".join([*lines, "", made("curves.py")]) + "\n"


def main() -> None:
    """Run the cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = pd.DataFrame([row for case in options.cases for row in rows_of(case, options.seeds)])
    if options.cases == CASES:
        found.round(5).to_csv(HERE / "curves.csv", index=False)
        HERE.joinpath("curves.md").write_text(report(found))
    print(report(found))


if __name__ == "__main__":
    main()
