"""Hazard ratios and survival curves within a budget, against Cox's and Kaplan-Meier's exact ones.

::

    python benchmarks/survival.py               # 20 studies a line, some minutes
    python benchmarks/survival.py --seeds 3

Studies are simulated: five features, hazard .05, .15 and .08 a year until years 2, 5 and 10, ratios
of exp(.5, -.4, .2, .6, 0), people leave between years 2 and 14. Cox's model is fitted by Newton's
method on the same records, and Kaplan-Meier's curve is theirs. "coef" is the mean absolute
difference of log hazard ratios; "curve" the largest difference over eight times; both are means
over the studies.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse

import numpy as np
import pandas as pd

from skdpfl import ISRLDPSurvival
from skdpfl.inspection import kaplan_meier

RATIOS = np.array([0.5, -0.4, 0.2, 0.6, 0.0])
ENDS, HAZARDS = np.array([0.0, 2.0, 5.0, 10.0]), np.array([0.05, 0.15, 0.08])
HORIZON = 10.0


def study(seed: int, n: int = 4500) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y, three silos and the baseline hazards of a simulated study."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(RATIOS)))
    X[:, 3] = rng.random(n) < 0.4
    y = times(X, rng.exponential(size=n), rng.uniform(2, 14, n))
    return X, y, np.arange(n) % 3, HAZARDS


def times(X: np.ndarray, endured: np.ndarray, leaves: np.ndarray) -> np.ndarray:
    """Return events and times: death where the cumulative hazard is ``endured``, or leaving."""
    amount = endured / np.exp(X @ RATIOS)
    cumulative = np.append(0.0, np.cumsum(HAZARDS * np.diff(ENDS)))
    dies = np.interp(amount, cumulative, ENDS, right=2 * HORIZON)
    y = np.zeros(len(X), [("died", bool), ("years", float)])
    y["died"], y["years"] = (dies <= leaves) & (dies < HORIZON), np.minimum(dies, leaves)
    return y


def cox(X: np.ndarray, y: np.ndarray, horizon: float = HORIZON) -> np.ndarray:
    """Return the log hazard ratios of Cox's partial likelihood (Breslow's ties), by Newton."""
    time = np.minimum(y["years"], horizon)
    died = y["died"] & (y["years"] <= horizon)
    order = np.argsort(-time, kind="stable")
    X, time, died = X[order], time[order], died[order]
    last = np.searchsorted(-time, -time, side="right") - 1
    w = np.zeros(X.shape[1])
    for _ in range(50):
        risk = np.exp(X @ w)
        at_risk = np.cumsum(risk)[last]
        mean = np.cumsum(risk[:, None] * X, axis=0)[last] / at_risk[:, None]
        square = np.cumsum(risk[:, None, None] * X[:, :, None] * X[:, None, :], axis=0)[last]
        spread = square / at_risk[:, None, None] - mean[:, :, None] * mean[:, None, :]
        step = np.linalg.solve(spread[died].sum(axis=0), (X - mean)[died].sum(axis=0))
        w = w + step
        if np.abs(step).max() < 1e-10:
            break
    return w


def errors(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the standard errors of log hazard ratios from the information at the truth."""
    spent = np.clip(np.minimum(y["years"], HORIZON)[:, None] - ENDS[:-1], 0.0, np.diff(ENDS))
    hazards = spent * HAZARDS * np.exp(X @ RATIOS)[:, None]
    cross = X.T @ hazards
    square = X.T @ (hazards.sum(axis=1)[:, None] * X)
    inverse = np.linalg.inv(square - cross / hazards.sum(axis=0) @ cross.T)
    return np.asarray(np.sqrt(np.diag(inverse)))


def exact_curve(y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return Kaplan-Meier's estimate at some times."""
    at = np.unique(y["years"][y["died"]])
    at_risk = (y["years"][:, None] >= at).sum(axis=0)
    deaths = ((y["years"][:, None] == at) & y["died"][:, None]).sum(axis=0)
    survival = np.append(1.0, np.cumprod(1 - deaths / at_risk))
    return np.asarray(survival[np.searchsorted(at, times, side="right")])


def compare(epsilon: float, trust: str, n: int, seeds: int) -> dict[str, object]:
    """Return one line of the table."""
    apart, curves, scores = [], [], []
    for seed in range(seeds):
        X, y, silos, _ = study(seed, n)
        how = {"target_bounds": (0, HORIZON), "trust": trust, "random_state": seed}
        model = ISRLDPSurvival(epsilon, **how).fit(X, y, silos=silos)
        apart.append(model.coef_ - cox(X, y))
        found = kaplan_meier(y, epsilon=epsilon, silos=silos, **how)["survival"]
        exact = exact_curve(y, found.index.get_level_values("time").to_numpy())
        curves.append(np.abs(found.to_numpy() - exact).max())
        scores.append(model.score(X, y))
    return {
        "epsilon": epsilon, "trust": trust, "records": n,
        "coef": np.abs(apart).mean(), "bias": np.abs(np.mean(apart, axis=0)).max(),
        "curve": np.mean(curves), "concordance": np.mean(scores),
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    cases = [(3.0, "secagg", 4500), (3.0, "silo", 4500), (1.0, "secagg", 4500), (3.0, "silo", 1500)]
    rows = [compare(*case, seeds) for case in cases]
    print(pd.DataFrame(rows).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
