"""When whole silos are too few: ``python benchmarks/auto/whole.py [--quick]``.

Silos of 10 to 80 records with effects of their own; lognormal columns and indicators; bounds are
given. DP-FedAvg with ``unit="silo"`` is judged on 4,000 other records: R2, or the accuracy less
that of the more frequent label. "noise" is that of the average of all rounds in norms of a message,
which the warning reads. Its limits, 0.33 for numbers and 0.45 for labels, were chosen on other data
(normal columns, 42 to 300 silos of 30 records).

Writes whole.md; a minute on two cores.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import datetime
import warnings
from pathlib import Path

import numpy as np
from problems import Problem

import skdpfl

HERE = Path(__file__).parent
N_TEST = 4_000
SILOS, EPSILONS = (30, 100), (2.0, 5.0, 10.0)


def schools(n_silos: int, seed: int, regression: bool) -> Problem:
    """Return records of unlike silos, then those for the test."""
    rng, d = np.random.default_rng(100 + seed), 6
    silos = np.repeat(np.arange(n_silos), rng.integers(10, 80, n_silos))
    X = np.exp(0.6 * rng.normal(size=(len(silos) + N_TEST, d)))
    X[:, ::3] = rng.random(X[:, ::3].shape) < 0.3
    raw = (X - X.mean(axis=0)) / X.std(axis=0) @ (rng.normal(size=d) * (rng.random(d) < 0.6) + 0.2)
    raw /= raw.std()
    raw[: len(silos)] += 0.5 * rng.normal(size=n_silos)[silos]
    y = raw + 0.6 * rng.normal(size=len(raw))
    return Problem(X, y if regression else (y > 0.3).astype(int), silos, regression)


def fitted(data: Problem, trust: str, epsilon: float, seed: int) -> tuple[float, float, bool]:
    """Return the gain over a constant, the noise, and whether the fit was warned of."""
    kind, known = skdpfl.DPFedAvgClassifier, {"feature_bounds": (0, 8)}
    if data.regression:
        kind, known = skdpfl.DPFedAvgRegressor, known | {"target_bounds": (-5, 5)}
    model = kind(epsilon, unit="silo", trust=trust, random_state=seed, **known)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(data.X[:-N_TEST], data.y[:-N_TEST], silos=data.silos)
    plan, y = model.plan_, data.y[-N_TEST:]
    size = np.size(model.coef_) + np.size(model.intercept_)
    noise = plan.mechanism.noise_norm(plan, size) / plan.clip_norm / plan.n_rounds**0.5
    score = model.score(data.X[-N_TEST:], y)
    constant = 0.0 if data.regression else max(y.mean(), 1 - y.mean())
    return score - constant, noise, any("Hiding" in str(each.message) for each in said)


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, thirty silos, no file")
    quick = parser.parse_args().quick
    seeds, n_silos = (1, SILOS[:1]) if quick else (3, SILOS)
    lines = [
        "# Whole silos",
        "",
        f"`python benchmarks/auto/whole.py` on {datetime.date.today()}: means of {seeds} fits.",
        "",
        "| target, trust, silos, epsilon | noise | gain | least | warned of |",
        "|---|---|---|---|---|",
    ]
    for regression in (True, False):
        for trust in ("silo", "server"):
            for n in n_silos:
                for epsilon in EPSILONS:
                    found = [
                        fitted(schools(n, seed, regression), trust, epsilon, seed)
                        for seed in range(seeds)
                    ]
                    gains, noise, said = np.array(found).T
                    what = "number" if regression else "label"
                    lines.append(
                        f"| {what}, {trust}, {n}, {epsilon:g} | {noise.mean():.2f} "
                        f"| {gains.mean():.2f} | {gains.min():.2f} | {said.mean():.0%} |"
                    )
                    print(lines[-1], flush=True)
    if not quick:
        HERE.joinpath("whole.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
