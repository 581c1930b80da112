"""Whether bad fits are warned of: ``python benchmarks/auto/warned.py [--quick]``.

Fits end below a constant (the training records' mean, or their shares of classes) in R2 or log
loss, or well above it: .05 of R2, or of the log loss in parts of the constant's. Their warnings say
"The noise will drown", or that the target's scale was not found. Limits were chosen on the first
half of the data sets: the largest difference between the shares of both that are warned of (but for
one limit, for rare events and many columns). The second half was looked at afterwards. Three tenths
of the records are for the test.

"At best": a rule that is told the score on the training records, a mean over records, with the
noise of a release of a mean of numbers up to 1 for a share of mu^2, and warns below the limit that
is best for these fits (means of 20 draws). No such release is made.
Writes warned.csv, which goes on where it stopped, and warned.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from problems import PROBLEMS, Problem, outward, random_silos
from sklearn.metrics import log_loss

import skdpfl
from skdpfl.choosing._noise_level import noise_of_plan

HERE = Path(__file__).parent
EPSILONS = (0.125, 0.25, 0.5, 1.0, 3.0, 8.0)
SAID = ("The noise will drown", "Estimates within the budget show")
KEYS = ["data", "epsilon", "bounds", "seed"]


def schools(n_silos: int, least: int, most: int, seed: int) -> Problem:
    """Many small silos with effects of their own; ten columns."""
    rng = np.random.default_rng(seed)
    silos = np.repeat(np.arange(n_silos), rng.integers(least, most + 1, n_silos))
    X = rng.normal(size=(len(silos), 10))
    X[:, 5:] = X[:, 5:] > 0.3
    raw = (
        X @ [0.5, 0.4, 0.3, 0.2, 0.1, 0.3, -0.3, 0.2, 0, 0] + 0.3 * rng.normal(size=n_silos)[silos]
    )
    return Problem(X, 20 + 6 * (raw + 0.7 * rng.normal(size=len(silos))), silos, True)


def rare(n: int, d: int, share: float, strength: float, seed: int) -> Problem:
    """Events in a share of the records of six silos; two thirds of the columns are binary."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, d // 3 :] = rng.random((n, d - d // 3)) < rng.uniform(0.05, 0.5, d - d // 3)
    raw = X @ rng.normal(size=d)
    raw = strength * (raw - raw.mean()) / raw.std() + rng.logistic(size=n)
    return Problem(X, (raw > np.quantile(raw, 1 - share)).astype(int), rng.integers(0, 6, n))


def weak(n: int, d: int, r2: float, seed: int, skewed: bool = False) -> Problem:
    """A target of which a linear model explains a share; skewed: its exponential."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    raw = X @ rng.normal(size=d)
    y = np.sqrt(r2) * raw / raw.std() + np.sqrt(1 - r2) * rng.normal(size=n)
    return Problem(X, 10 * (np.exp(1.2 * y) if skewed else y) + 5, rng.integers(0, 5, n), True)


def insurance() -> Problem:
    """Insurance with three random silos."""
    data = PROBLEMS["insurance, 5 silos by charges"]()
    return data._replace(silos=random_silos(len(data.y), 3))


CASES = {name: make for name, make in PROBLEMS.items() if "14 x 14" not in name} | {
    "insurance, 3 silos": insurance,
    "schools, 131 of 15-30": lambda: schools(131, 15, 30, 500),
    "schools, 65 of 20-79": lambda: schools(65, 20, 79, 503),
    "rare .135, 1088 x 39": lambda: rare(1088, 39, 0.135, 0.7, 700),
    "rare .135, 1088 x 10": lambda: rare(1088, 10, 0.135, 1.2, 701),
    "rare .03, 8000 x 12": lambda: rare(8000, 12, 0.03, 2.0, 702),
    "rare .2, 3000 x 6": lambda: rare(3000, 6, 0.2, 2.5, 703),
    "weak .1, 2000 x 5": lambda: weak(2000, 5, 0.1, 900),
    "weak .3, 500 x 20": lambda: weak(500, 20, 0.3, 901),
    "weak .2, 200 x 3": lambda: weak(200, 3, 0.2, 904),
    "skewed, 3000 x 8": lambda: weak(3000, 8, 0.6, 902, True),
    "skewed, 800 x 4": lambda: weak(800, 4, 0.6, 903, True),
}


def fitted(name: str, epsilon: float, bounds: bool, seed: int) -> dict[str, object]:
    """Fit, and return what was said and how much better than the constant the fit is."""
    data = CASES[name]()
    rows = np.random.default_rng(seed).permutation(len(data.y))
    train, test = rows[: int(0.7 * len(rows))], rows[int(0.7 * len(rows)) :]
    known: dict[str, object] = {}
    if bounds:
        known["feature_bounds"] = outward(data.X.min(axis=0), data.X.max(axis=0))
        if data.regression:
            known["target_bounds"] = tuple(map(float, outward(data.y.min(), data.y.max())))
    kind = skdpfl.ISRLDPRegressor if data.regression else skdpfl.ISRLDPClassifier
    model = kind(epsilon, delta=1e-5, random_state=seed, **known)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(data.X[train], data.y[train], silos=data.silos[train])
    return {
        "kind": "R2" if data.regression else "log loss",
        "gain": gain(model, data, train, test),
        "trained": gain(model, data, train, train),
        "noise": noise_of_plan(model.plan_),
        "warned": any(str(each.message).startswith(SAID) for each in said),
    }


def gain(model: Any, data: Problem, train: np.ndarray, rows: np.ndarray) -> float:
    """Return how much better than the training records' constant a model is on some rows."""
    X, y = data.X[rows], data.y[rows]
    if data.regression:
        errors = np.square([y - model.predict(X), y - data.y[train].mean()]).mean(axis=1)
    else:
        shares = [np.mean(data.y[train] == label) for label in model.classes_]
        both = model.predict_proba(X), np.tile(shares, (len(y), 1))
        errors = np.array([log_loss(y, p, labels=model.classes_) for p in both])
    return float(1 - errors[0] / errors[1])


def table(found: pd.DataFrame) -> str:
    """Return the confusion tables in Markdown."""
    half = {name: 1 + i % 2 for i, name in enumerate(sorted(CASES))}
    found = found.assign(half=found["data"].map(half))
    found["end"] = np.select(
        [found["gain"] < 0, found["gain"] > 0.05], ["below", "above"], "between"
    )
    lines = ["| score | half of the data sets | epsilon | below: warned | .05 above: warned |"]
    lines.append("|---|---|---|---|---|")
    for kind, part in found.groupby("kind"):
        groups = [(f"{h}", "all", each) for h, each in part.groupby("half")]
        groups += [("both", f"{e:g}", each) for e, each in part.groupby("epsilon")]
        for words, epsilon, each in groups:
            counts = [each.loc[each["end"] == end, "warned"] for end in ("below", "above")]
            cells = [f"{int(c.sum())} of {len(c)}" for c in counts]
            lines.append(f"| {kind} | {words} | {epsilon} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def best(found: pd.DataFrame) -> str:
    """Return what a rule finds that is told the scores on the training records with noise."""
    rng, lines = np.random.default_rng(0), ["| score | share of mu^2 | below: warned | .05 above |"]
    lines.append("|---|---|---|---|")
    for kind, part in found[~found["gain"].between(0, 0.05)].groupby("kind"):
        below = (part["gain"] < 0).to_numpy()
        for share in (np.inf, 1.0, 0.25, 0.04):
            rates = []
            for _ in range(20):
                noise = part["noise"] / np.sqrt(share) * rng.normal(size=len(part))
                told = (part["trained"] + noise).to_numpy()
                said = told <= np.sort(told)[:, None]
                each = np.column_stack([said[:, below].mean(axis=1), said[:, ~below].mean(axis=1)])
                rates.append(each[(each[:, 0] - each[:, 1]).argmax()])
            known = "known exactly" if share == np.inf else f"{share:.0%}"
            one, two = np.mean(rates, axis=0)
            lines.append(f"| {kind} | {known} | {one:.0%} | {two:.0%} |")
    return "\n".join(lines)


def main() -> None:
    """Run all cases that are not in warned.csv yet, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few fits, nothing is written")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after these")
    options = parser.parse_args()
    if options.quick:
        quick = [("weak .2, 200 x 3", 0.25), ("rare .135, 1088 x 39", 1.0), ("iris, 1 silo", 8.0)]
        rows = [{"data": n, "epsilon": e} | fitted(n, e, True, 0) for n, e in quick]
        print(table(pd.DataFrame(rows)))
        return
    path, begun = HERE / "warned.csv", time.monotonic()
    found = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=KEYS)
    done = set(found[KEYS].itertuples(index=False, name=None))
    jobs = [
        (n, e, b, s)
        for s in range(options.seeds)
        for n in CASES
        for e in EPSILONS
        for b in (True, False)
    ]
    for job in (job for job in jobs if job not in done):
        if time.monotonic() - begun > options.seconds:
            break
        row = pd.DataFrame([dict(zip(KEYS, job, strict=True)) | fitted(*job)])
        row.to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.4g")
    found = pd.read_csv(path)
    first, second = __doc__.split("\n\n")[1:3]
    title = "# Warnings of fits no better than a constant"
    parts = [title, first, table(found), second.split("\nWrites")[0], best(found)]
    (HERE / "warned.md").write_text("\n\n".join(parts) + "\n")
    print(table(found), best(found), sep="\n\n")


if __name__ == "__main__":
    main()
