"""Coverage and width of intervals: simulated studies, with data and noise drawn anew in each.

    python -m benchmarks.intervals [CELL ...] [--studies 200] [--seed 0]

A row for each cell: the mean coverage of 95 % intervals over coefficients, that of the least and
the most covered one, the width over that without privacy (median), the share of coefficients that
are refused, and the share of p-values of a true zero below .05. Rows are printed as they come.
"""

import argparse
import warnings
import zlib
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from skdpfl import ISRLDPClassifier, ISRLDPRegressor

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


def truth_of(cell):
    """Return coefficients and intercept."""
    size = {"labels": 1.0, "numbers": 1.0, "counts": 0.4}[cell.kind]
    w = np.resize(TRUTH, cell.d) * size * (1.0 if cell.d < 10 else 0.5)
    return np.append(w, cell.intercept)


def draw(cell, rng):
    """Return X, y and silos of a study."""
    n, r = sum(cell.sizes), cell.correlation
    X = np.sqrt(1 - r) * rng.normal(size=(n, cell.d)) + np.sqrt(r) * rng.normal(size=(n, 1))
    rates = np.linspace(0.1, 0.5, cell.flags) if cell.flags else ()
    X[:, : cell.flags] = rng.random((n, cell.flags)) < rates
    eta = X @ truth_of(cell)[:-1] + cell.intercept
    if cell.kind == "labels":
        y = (rng.random(n) < expit(eta)).astype(int)
    elif cell.kind == "counts":
        y = rng.poisson(np.exp(eta))
    else:
        spread = 1.0 if cell.errors == "normal" else np.sqrt(0.2 + 0.8 * X[:, 0] ** 2)
        y = eta + spread * rng.normal(size=n)
    return X, y, np.repeat(np.arange(len(cell.sizes)), cell.sizes)


def without_privacy(cell, X):
    """Return the widths that an exact fit would have, from the expected information."""
    eta, Z = X @ truth_of(cell)[:-1] + cell.intercept, np.column_stack([X, np.ones(len(X))])
    p = expit(eta)
    h = {"labels": p * (1 - p), "counts": np.exp(eta), "numbers": np.ones(len(X))}[cell.kind]
    inverse = np.linalg.inv(Z.T @ (h[:, None] * Z))
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
        "random_state": seed,
    }
    if cell.kind == "labels":
        return ISRLDPClassifier(**known)
    counts = cell.kind == "counts"
    target = None if cell.bounds is None else (0.0, 30.0) if counts else (-8.0, 8.0)
    loss = "poisson" if counts else "squared_error"
    return ISRLDPRegressor(**known, target_bounds=target, loss=loss)


def studies(cell, n_studies, seed, name=""):
    """Return covered (n, k), NaN where refused; widths over no privacy's; and p-values."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    truth, found = truth_of(cell), []
    for _ in range(n_studies):
        X, y, silos = draw(cell, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = estimator(cell, int(rng.integers(2**31))).fit(X, y, silos=silos)
        frame = model.summary()
        covered = (frame["lower"] <= truth) & (truth <= frame["upper"])
        covered = np.where(frame["p"].isna(), np.nan, covered)
        widths = (frame["upper"] - frame["lower"]) / without_privacy(cell, X)
        found.append(np.array([covered, widths, frame["p"]], float))
    return np.moveaxis(np.array(found), 1, 0)


def row(cell, n_studies, seed, name=""):
    """Return the figures of a cell."""
    covered, widths, p = studies(cell, n_studies, seed, name)
    own = np.nanmean(covered, axis=0)
    zero = p[:, np.flatnonzero(truth_of(cell) == 0)]
    return {
        "coverage": np.nanmean(covered),
        "least": np.nanmin(own),
        "most": np.nanmax(own),
        "width": np.nanmedian(widths),
        "refused": np.isnan(covered).mean(),
        "p < .05": np.nanmean(zero < 0.05) if zero.size else np.nan,
    }


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
