"""Coverage and width of intervals: simulated studies, with data and noise drawn anew in each.

    python benchmarks/intervals.py [CELL ...] [--studies 200] [--seed 0]

A row for each cell: the mean coverage of 95 % intervals over coefficients and its standard error
over studies, that of the least and the most covered one, the width over that without privacy
(median), the share of coefficients that are refused, the share of p-values of a true zero below
.05, and for rates the mean distance of ``coef_`` from an exact fit. Rows are printed as they come.

"persons" have 1 to 8 rows each, with equal odds, whose features have the correlation .5, and whose
labels, errors or lives that of normal variables with .5; widths are over those of one row a person.
"times" are the survival studies of ``benchmarks/survival.py``.
"""

import argparse
import sys
import warnings
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtr
from sklearn.linear_model import PoissonRegressor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import survival
from skdpfl import ISRLDPClassifier, ISRLDPRegressor, ISRLDPSurvival

#: Student's quantile without privacy, and the truth (repeated; the fourth is a true zero)
QUANTILE, TRUTH = 1.96, (1.0, -0.8, 0.5, 0.0, 0.3)


@dataclass(frozen=True)
class Cell:
    """A kind of study."""

    kind: str = "labels"
    d: int = 5
    sizes: tuple = (1000, 1000, 1000)
    epsilon: float = 3.0
    trust: str = "silo"
    bounds: object = (-4.0, 4.0)
    correlation: float = 0.0
    intercept: float = 0.2
    flags: int = 0
    covariance: str = "model"
    errors: str = "normal"
    persons: bool = False


TEN = (1000,) * 10
_BASE = {
    "d5": Cell(),
    "secagg": Cell(sizes=TEN, epsilon=1.0, trust="secagg"),
    "d20": Cell(d=20, sizes=TEN),
}
_SAME = {
    "learnt": {"bounds": None},
    "sheet": {"bounds": (-20.0, 20.0)},
    "wide bounds": {"bounds": (-100.0, 100.0)},
    "flags": {"flags": 3},
    "correlated": {"correlation": 0.7},
    "unequal": {"sizes": (2400, 450, 150)},
}
CELLS = {f"{kind} {name}": replace(c, kind=kind) for kind in ("labels", "numbers", "counts")
         for name, c in _BASE.items()}  # fmt: skip
CELLS |= {f"{kind} d5 {name}": replace(Cell(kind=kind), **how) for kind in ("labels", "numbers")
          for name, how in _SAME.items()}  # fmt: skip
CELLS["labels d5 rare"] = Cell(intercept=-3.3)
CELLS["labels secagg rare"] = replace(_BASE["secagg"], intercept=-3.3)
CELLS["labels silos"] = Cell(sizes=(600,) * 12, covariance="silos")
CELLS["labels robust"] = replace(_BASE["secagg"], epsilon=3.0, covariance="robust")
CELLS["numbers robust"] = Cell("numbers", sizes=TEN, covariance="robust", errors="unequal")
CELLS["numbers model"] = Cell("numbers", sizes=TEN, errors="unequal")
CELLS["numbers silos"] = Cell("numbers", sizes=(600,) * 12, covariance="silos")
CELLS["labels persons"] = Cell(persons=True)
CELLS["numbers persons"] = Cell("numbers", persons=True)
CELLS["labels secagg persons"] = replace(_BASE["secagg"], epsilon=8.0, persons=True)
CELLS["times"] = Cell(
    "times", sizes=(1500,) * 3, trust="secagg", bounds=((-4, -4, -4, 0, -4), (4, 4, 4, 1, 4))
)
CELLS["times persons"] = replace(CELLS["times"], persons=True)
CELLS["rates"] = Cell("rates", sizes=(1000,) * 5, trust="secagg")


@dataclass(frozen=True)
class Study:
    """The records of a study; ``without_privacy`` are the widths of an exact fit's intervals."""

    X: np.ndarray
    y: np.ndarray
    owners: dict
    without_privacy: np.ndarray


def truth_of(cell):
    """Return coefficients, and the intercept but for times."""
    if cell.kind == "times":
        return survival.RATIOS
    size = {"labels": 1.0, "numbers": 1.0, "counts": 0.4, "rates": 0.4}[cell.kind]
    w = np.resize(TRUTH, cell.d) * size * (1.0 if cell.d < 10 else 0.5)
    return np.append(w, cell.intercept)


def draw(cell, rng):
    """Return the records of a study."""
    if cell.kind == "times" and not cell.persons:
        X, y, silos, _ = survival.study(int(rng.integers(2**31)), sum(cell.sizes))
        return Study(X, y, {"silos": silos}, 2 * QUANTILE * survival.errors(X, y))
    n, r = sum(cell.sizes), cell.correlation
    owners = {"silos": np.repeat(np.arange(len(cell.sizes)), cell.sizes)}
    persons = np.repeat(np.arange(n), rng.integers(1, 9, n)) if cell.persons else np.arange(n)
    X = np.sqrt(1 - r) * rng.normal(size=(n, cell.d)) + np.sqrt(r) * rng.normal(size=(n, 1))
    rates = np.linspace(0.1, 0.5, cell.flags) if cell.flags else ()
    X[:, : cell.flags] = rng.random((n, cell.flags)) < rates
    own, error = rng.normal(size=(len(persons), cell.d)), rng.normal(size=len(persons))
    if cell.persons:
        X = (X[persons] + own) / np.sqrt(2)
        error = (error + rng.normal(size=n)[persons]) / np.sqrt(2)
        owners = {"silos": owners["silos"][persons], "persons": persons}
    if cell.kind == "times":
        X[:, 3] = rng.random(n)[persons] < 0.4
        y = survival.times(X, -log_ndtr(error), rng.uniform(2, 14, len(X)))
        widths = 2 * QUANTILE * survival.errors(X, y) * np.sqrt(len(X) / n)
        return Study(X, y, owners, widths)
    eta = X @ truth_of(cell)[:-1] + cell.intercept
    if cell.kind == "labels":
        y = (logit(ndtr(error)) + eta > 0).astype(int)
    elif cell.kind == "numbers":
        y = eta + error * (1.0 if cell.errors == "normal" else np.sqrt(0.2 + 0.8 * X[:, 0] ** 2))
    else:
        time = np.exp(rng.normal(size=n)) if cell.kind == "rates" else np.ones(n)
        eta = eta + np.log(time)
        y = rng.poisson(np.exp(eta))
        owners |= {"exposure": time} if cell.kind == "rates" else {}
    return Study(X, y, owners, without_privacy(cell, X, eta, n))


def without_privacy(cell, X, eta, n):
    """Return the widths of an exact fit's intervals, from the expected information of n rows."""
    Z, p = np.column_stack([X, np.ones(len(X))]), expit(eta)
    of_kind = {"labels": p * (1 - p), "numbers": np.ones(len(X))}
    h = of_kind[cell.kind] if cell.kind in of_kind else np.exp(eta)
    inverse = np.linalg.inv(Z.T @ (h[:, None] * Z) * (n / len(X)))
    return 2 * QUANTILE * np.sqrt(np.diag(inverse))


def estimator(cell, seed):
    """Return the estimator of a study."""
    bounds = cell.bounds
    if bounds is not None and cell.flags:
        low, high = np.full(cell.d, bounds[0]), np.full(cell.d, bounds[1])
        low[: cell.flags], high[: cell.flags] = 0.0, 1.0
        bounds = (low, high)
    known = {
        "epsilon": cell.epsilon,
        "trust": cell.trust,
        "feature_bounds": bounds,
        "inference": "intervals",
        "covariance": cell.covariance,
        "unit": "person" if cell.persons else "record",
        "random_state": seed,
    }
    if cell.kind == "labels":
        return ISRLDPClassifier(**known)
    if cell.kind == "times":
        return ISRLDPSurvival(**known, target_bounds=(0, survival.HORIZON))
    target = None if cell.bounds is None else (-8.0, 8.0) if cell.kind == "numbers" else (0.0, 30.0)
    loss = "squared_error" if cell.kind == "numbers" else "poisson"
    return ISRLDPRegressor(**known, target_bounds=target, loss=loss)


def apart(model, study):
    """Return the mean distance of coefficients from an exact fit's; NaN but for rates."""
    time = study.owners.get("exposure")
    if time is None:
        return np.nan
    exact = PoissonRegressor(alpha=0.0, tol=1e-8, max_iter=1000)
    exact.fit(study.X, study.y / time, sample_weight=time)
    return float(np.abs(np.ravel(model.coef_) - exact.coef_).mean())


def studies(cell, n_studies, seed, name=""):
    """Return covered (n, k), NaN where refused; widths over no privacy's; p-values; distances."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    truth, found = truth_of(cell), []
    for _ in range(n_studies):
        study = draw(cell, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = estimator(cell, int(rng.integers(2**31))).fit(study.X, study.y, **study.owners)
        frame = model.summary()
        covered = (frame["lower"] <= truth) & (truth <= frame["upper"])
        covered = np.where(frame["p"].isna(), np.nan, covered)
        widths = (frame["upper"] - frame["lower"]) / study.without_privacy
        distance = np.full(len(truth), apart(model, study))
        found.append(np.array([covered, widths, frame["p"], distance], float))
    return np.moveaxis(np.array(found), 1, 0)


def row(cell, n_studies, seed, name=""):
    """Return the figures of a cell."""
    covered, widths, p, distances = studies(cell, n_studies, seed, name)
    own = np.nanmean(covered, axis=0)
    zero = p[:, np.flatnonzero(truth_of(cell) == 0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of studies that are refused as a whole
        of_study = np.nanmean(covered, axis=1)
    found = {
        "coverage": np.nanmean(covered),
        "se": np.nanstd(of_study) / np.sqrt(n_studies),
        "least": np.nanmin(own),
        "most": np.nanmax(own),
        "width": np.nanmedian(widths),
        "refused": np.isnan(covered).mean(),
    }
    found |= {"p < .05": np.nanmean(zero < 0.05)} if zero.size else {}
    return found | ({"apart": distances.mean()} if np.isfinite(distances).all() else {})


def main():
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", default=list(CELLS), help="by default all")
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.cells:
        found = row(CELLS[name], given.studies, given.seed, name)
        print(f"{name:24}", *(f"{key} {value:.3f}" for key, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
