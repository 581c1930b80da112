"""How good "auto" is, and how far from the best tuning: ``python benchmarks/auto/study.py``.

Every fit gets only ``epsilon``, ``delta=1e-5``, ``random_state`` and, unless said otherwise, the
observed ranges rounded outward to one digit as bounds. Scores are accuracy or R2 on a fifth of the
records (``train_test_split(test_size=0.2, random_state=seed)``). Three parts:

table    the cases that the project set itself, 20 seeds; beside them "tuned": features (and target)
         standardised beforehand by exact moments, for nothing, and the best mean score of
         DP-FedAvg with one local step (DP-SCAFFOLD with 5) of 10 or 100 gradients, clip norms of
         1/3 and 1 times what auto chose, and learning rates of 1/3, 2/3, 1 and 3 times (per clip
         norm), chosen on the test records
wide     many data sets, epsilon 1, 3 and 10: "auto"; "free": features and target standardised by
         exact moments, for nothing (a leak, for comparison); "best of 9": the best mean score of
         clip norms of 1/3, 1 and 3 times what auto chose, and learning rates of 1/3, 1 and 3 times
         (per clip norm), chosen on the test records; "exact": epsilon infinity; "sklearn"
shapes   100 to 1e6 records, 2 to 1000 columns, 1 to 10,000 silos: one fit each, with its time
probabilities, unlike, mixed, local steps
         cases where "auto" once failed, see hard.py: log loss (12 seeds); the synthetic benchmark
         (5, 5), 100 silos of 1,000 records, epsilon 3 (1 seed); one silo at epsilon 0.3 beside
         others at 3 (16 seeds); rounds x local steps of DP-FedAvg (10 seeds)

Five minutes on two cores; ``--quick`` takes one. Writes results.md and results.csv beside
this file; what is not run (``--parts``, ``--piece``) stays as it is there. Data are looked for in
``$SKDPFL_DATA``, see :mod:`skdpfl.datasets`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import functools
import itertools
import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from cases import SHAPES, TABLE
from hard import (
    LOCAL_STEPS,
    MIXED,
    PROBABILITIES,
    UNLIKE,
    local_steps,
    mixed,
    probabilities,
    unlike,
)
from problems import PROBLEMS, Problem, outward, synthetic
from report import PARTS, report
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import skdpfl

HERE = Path(__file__).parent
FACTORS = (1 / 3, 1.0, 3.0)
#: the tuning of the table: gradients in all, factors of auto's clip norm and learning rate
TUNINGS = list(itertools.product((10, 100), (1 / 3, 1.0), (1 / 3, 2 / 3, 1.0, 3.0)))


class Row(NamedTuple):
    """One number of the results file."""

    part: str
    case: str
    method: str
    epsilon: float
    mean: float
    error: float
    seconds: float


@functools.lru_cache(maxsize=2)
def problem(name: str) -> Problem:
    """Return a data set, made once in each process."""
    return PROBLEMS[name]()


def bounds(data: Problem) -> dict[str, Any]:
    """Return what somebody might know of the ranges."""
    known: dict[str, Any] = {
        "feature_bounds": outward(data.X.min(axis=0), data.X.max(axis=0)),
    }
    if data.regression:
        known["target_bounds"] = tuple(map(float, outward(data.y.min(), data.y.max())))
    return known


def fit(estimator: str, data: Problem, rows: np.ndarray, seed: int, **kw: Any) -> Any:
    """Fit one of the estimators to some of the rows."""
    kind = "Regressor" if data.regression else "Classifier"
    model = getattr(skdpfl, estimator + kind)(delta=1e-5, random_state=seed, **kw)
    return model.fit(data.X[rows], data.y[rows], silos=data.silos[rows])


def parts(data: Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train and to test on."""
    return tuple(train_test_split(np.arange(len(data.y)), test_size=0.2, random_state=seed))


def table_row(case: tuple, seeds: int) -> list[Row]:
    """Run a row of the table, with the score without privacy beside it."""
    label, name, estimator, epsilon, bounded, *_ = case
    data, scores, exact, best, start = problem(name), [], [], [], time.perf_counter()
    for seed in range(seeds):
        train, test = parts(data, seed)
        known = bounds(data) if bounded else {}
        model = fit(estimator, data, train, seed, epsilon=epsilon, **known)
        scores.append(model.score(data.X[test], data.y[test]))
        exact.append(reference(data, train, test))
        if bounded:
            best.append(tuned(estimator, standardised(data, train), train, test, seed, epsilon))
    seconds = (time.perf_counter() - start) / seeds
    methods = {estimator: np.array(scores), "without privacy": np.array(exact)}
    if bounded:
        methods["tuned"] = np.array(best)[:, np.mean(best, axis=0).argmax()]
    return [
        Row("table", label, method, epsilon, s.mean(), s.std() / np.sqrt(seeds), seconds)
        for method, s in methods.items()
    ]


def tuned(
    estimator: str,
    data: Problem,
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
    epsilon: float,
) -> list[float]:
    """Return the scores of all tunings on data that were standardised for nothing."""
    scaffold = estimator == "DPScaffold"
    name, steps = ("DPScaffold", 5) if scaffold else ("DPFedAvg", 1)
    common = {"epsilon": epsilon, "scaling": None, "local_steps": steps}
    scores, starts = [], {}
    for n, c, e in TUNINGS:
        common["n_rounds"] = n // steps
        if n not in starts:
            starts[n] = fit(name, data, train, seed, **common)
        auto = starts[n]
        step = auto.learning_rate_ * auto.global_learning_rate_  # a given one is not split
        given = {"clip_norm": c * auto.clip_norm_, "learning_rate": e / c * step}
        model = fit(name, data, train, seed, **common, **given)
        scores.append(model.score(data.X[test], data.y[test]))
    return scores


def reference(data: Problem, train: np.ndarray, test: np.ndarray) -> float:
    """Return the score of scikit-learn's model without privacy."""
    scaler = StandardScaler().fit(data.X[train])
    model = LinearRegression() if data.regression else LogisticRegression(C=10, max_iter=300)
    some = train[:20_000]
    model.fit(scaler.transform(data.X[some]), data.y[some])
    return model.score(scaler.transform(data.X[test]), data.y[test])


def standardised(data: Problem, train: np.ndarray) -> Problem:
    """Return the data scaled by exact moments of the training rows."""
    X = StandardScaler().fit(data.X[train]).transform(data.X)
    y = data.y
    if data.regression:
        y = (y - y[train].mean()) / y[train].std()
    return data._replace(X=X, y=y)


def wide_rows(name: str, epsilon: float, seeds: int) -> list[Row]:
    """Run all columns of one data set and budget."""
    data, scores = problem(name), {"auto": [], "free": [], "exact": [], "sklearn": []}
    grid = np.zeros((seeds, len(FACTORS) ** 2))
    start = time.perf_counter()
    for seed in range(seeds):
        train, test = parts(data, seed)

        def score(model: Any, used: Problem = data, test: np.ndarray = test) -> float:
            return max(model.score(used.X[test], used.y[test]), -1.0)

        known = bounds(data) | {"epsilon": epsilon}
        scores["auto"].append(score(fit("ISRLDP", data, train, seed, **known)))
        free = standardised(data, train)
        model = fit("ISRLDP", free, train, seed, epsilon=epsilon, scaling=None)
        scores["free"].append(score(model, free))
        scores["exact"].append(score(fit("ISRLDP", data, train, seed, epsilon=np.inf)))
        scores["sklearn"].append(reference(data, train, test))
        auto = fit("DPFedAvg", data, train, seed, **known)
        for i, (c, e) in enumerate(itertools.product(FACTORS, FACTORS)):
            given = {"clip_norm": c * auto.clip_norm_, "learning_rate": e / c * auto.learning_rate_}
            grid[seed, i] = score(fit("DPFedAvg", data, train, seed, **known, **given))
    seconds = (time.perf_counter() - start) / seeds
    rows = [Row("wide", name, "best of 9", epsilon, grid.mean(axis=0).max(), 0.0, seconds)]
    for method, s in scores.items():
        error = np.std(s) / np.sqrt(seeds)
        rows.append(Row("wide", name, method, epsilon, np.mean(s), error, seconds))
    return rows


def shape_row(n: int, d: int, n_silos: int, n_classes: int, epsilon: float, kw: dict) -> list[Row]:
    """Fit once to data of a shape."""
    data = synthetic(n * 5 // 4, d, n_silos, seed=3, n_classes=n_classes)
    train, test = parts(data, 0)
    known = bounds(data) | kw
    start = time.perf_counter()
    model = fit("ISRLDP", data, train, 0, epsilon=epsilon, **known)
    seconds = time.perf_counter() - start
    given = ", ".join(f"{k}={v!r}" for k, v in kw.items())
    case = f"{n} x {d}, {n_silos} silos, {n_classes or 'no'} classes" + (given and f", {given}")
    score, exact = model.score(data.X[test], data.y[test]), reference(data, train, test)
    return [
        Row("shapes", case, "auto", epsilon, score, 0.0, seconds),
        Row("shapes", case, "sklearn", epsilon, exact, 0.0, seconds),
    ]


def hard_rows(
    part: str, case: str, epsilon: float, seeds: int, measure: Any, *args: Any
) -> list[Row]:
    """Run one of the cases where "auto" once failed, for some seeds."""
    start = time.perf_counter()
    found = pd.DataFrame([measure(*args, seed) for seed in range(seeds)])
    seconds = (time.perf_counter() - start) / seeds
    error = found.std(ddof=0) / np.sqrt(seeds)
    return [
        Row(part, case, str(name), epsilon, found[name].mean(), error[name], seconds)
        for name in found
    ]


def run(job: tuple) -> list[Row]:
    """Run a part of the study in some process."""
    function, *args = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def with_earlier(rows: pd.DataFrame) -> pd.DataFrame:
    """Return earlier results with these in their places."""
    path, keys = HERE / "results.csv", ["part", "case", "epsilon"]
    if not path.exists():
        return rows
    earlier = pd.read_csv(path)
    both = pd.concat([earlier, rows], ignore_index=True)
    code = both.groupby(keys, sort=False).ngroup()
    again = code[: len(earlier)].isin(code[len(earlier) :])
    both, code = both.drop(index=again.index[again]), code.drop(again.index[again])
    return both.iloc[code.to_numpy().argsort(kind="stable")].reset_index(drop=True)


def main() -> None:
    """Run the parts asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few seeds, small shapes, no file")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--piece", default="1/1", help="1/4: every fourth case, from the first")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds, most = (2, 20_000) if options.quick else (20, 10**9)
    names = list(PROBLEMS)[:4] if options.quick else list(PROBLEMS)
    jobs: list[tuple] = []
    if "table" in options.parts:
        jobs += [(table_row, case, seeds) for case in TABLE]
    if "wide" in options.parts:
        epsilons = (1.0, 3.0, 10.0)
        jobs += [(wide_rows, n, e, min(seeds, 5)) for n, e in itertools.product(names, epsilons)]
    if "shapes" in options.parts:
        jobs += [(shape_row, *shape) for shape in SHAPES if shape[0] <= most]
    if "probabilities" in options.parts:
        jobs += [
            (hard_rows, "probabilities", name, e, min(seeds, 12), probabilities, name, e)
            for name, e in PROBABILITIES
        ]
    if "unlike" in options.parts:
        jobs += [
            (hard_rows, "unlike", f"{name} {kw or ''}", 3.0, 1, unlike, name, kw, 1000)
            for name, kw in UNLIKE
        ]
    if "mixed" in options.parts:
        jobs += [(hard_rows, "mixed", n, 0.3, min(seeds, 16), mixed, n, k) for n, k in MIXED]
    if "local steps" in options.parts:
        jobs += [
            (hard_rows, "local steps", n, e, min(seeds, 10), local_steps, n, e)
            for n, e in LOCAL_STEPS
        ]
    first, every = map(int, options.piece.split("/"))
    jobs, rows = jobs[first - 1 :: every], []
    with multiprocessing.Pool(options.jobs) as pool:
        for done in pool.imap(run, jobs, chunksize=1):
            rows += done
            if not options.quick:  # what has run stays, if the rest does not
                write(with_earlier(pd.DataFrame(done)))
            print(*(f"{r.case} {r.method} {r.epsilon:g} {r.mean:.3f}" for r in done), sep="; ")
    print(report(pd.DataFrame(rows)))


def write(frame: pd.DataFrame) -> None:
    """Write all results."""
    HERE.joinpath("results.md").write_text(report(frame))
    frame.round(5).to_csv(HERE / "results.csv", index=False)


if __name__ == "__main__":
    main()
