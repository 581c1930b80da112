"""Audits of everything that reports an epsilon: ``python benchmarks/audit/run.py [--quick]``.

One row for each estimator, solver, unit, trust, sampling and kind of release. The bounds hold
jointly with probability 99.9 %. Rows that ``results.csv`` has are not run again (``--again`` does;
``--only`` names a part of a row's name); ``--quick`` runs few fits and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from skdpfl import (
    DPFedAvgClassifier,
    DPFederatedRegressor,
    DPFedEXPClassifier,
    DPFedEXPRegressor,
    DPScaffoldClassifier,
    ISRLDPClassifier,
    ISRLDPRegressor,
)
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdpfl.privacy import SecureAggregation, audit_epsilon

EPSILON, DELTA = 4.0, 1e-5
#: what 99.9 % are shared among: the rows, and those that ran again with more fits
MOST_ROWS = 50
PLAIN = {"epsilon": EPSILON, "delta": DELTA, "scaling": None}
FULL = PLAIN | {"sampling_rate": 1.0}
BATCHES = PLAIN | {"sampling_rate": 0.1}
#: nothing but the rounds
ROUNDS = FULL | {"calibrate": False}
#: many silos in a few fits; one silo in many fits; (full, quick)
MANY = {"silo_sizes": [10] * 1000, "n_features": 4, "n_fits": (15, 5)}
CROWD = {"silo_sizes": [1] * 20_000, "n_features": 2, "n_fits": (100, 2)}
SERVER = {"silo_sizes": [20] * 3, "n_features": 4, "n_fits": (700, 100)}
WHOLE = SERVER | {"n_fits": (1500, 100)}
SHARED = SERVER | {"n_fits": (2500, 100)}
OUTSIDER = SERVER | {"n_fits": (4000, 100)}
PAIR = {"silo_sizes": [1] * 2, "n_features": 2, "n_fits": (4000, 60)}
ALONE = {"silo_sizes": [1] * 60, "n_features": 2, "n_fits": (600, 60)}
ONCE = {"silo_sizes": [50] * 200, "n_features": 20, "n_fits": (1, 1)}
SHUFFLED = {"trust": "shuffler", "n_rounds": 1, "calibrate": False}


def searched(trust: str, view: str, n_fits: tuple[int, int]) -> tuple[object, dict[str, object]]:
    """Return a search for two candidates, and data of one silo whose classes lie apart."""
    rng, y = np.random.default_rng(0), np.arange(600) % 2
    X = rng.normal(0, 0.1, (600, 2)) + np.where(y, 1, -1)[:, None] * [1, 0]
    inner = ISRLDPClassifier(
        scaling=None, n_rounds=3, learning_rate=1.0, sampling_rate=1.0, trust=trust, calibrate=False
    )
    search = DPRandomizedSearchCV(
        inner, {"clip_norm": [0.5, 1.0]}, epsilon=EPSILON, delta=DELTA, n_iter=2
    )
    return search, {"X": X, "y": y, "silos": np.zeros(600), "view": view, "n_fits": n_fits}


def scaled(n_fits: tuple[int, int]) -> dict[str, object]:
    """Return data for what is audited by its fitted attributes alone."""
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    return {"X": X, "silos": np.zeros(60), "view": "model", "n_fits": n_fits}


#: what has to reach half of epsilon: nothing, or one of the bounds
Half = Literal["", "if Gaussian", "at least"]
#: name -> (estimator, how, what has to reach half)
ROWS: dict[str, tuple[object, dict[str, object], Half]] = {
    "minibatch, full batches": (ISRLDPClassifier(**FULL, n_rounds=5), MANY, "if Gaussian"),
    "minibatch, a million trials": (ISRLDPClassifier(**ROUNDS, n_rounds=5), CROWD, "at least"),
    "minibatch, Poisson": (ISRLDPClassifier(**BATCHES, n_rounds=20), MANY, ""),
    "minibatch, fixed size": (
        ISRLDPClassifier(**BATCHES, n_rounds=20, sampling="without_replacement"), MANY, ""
    ),
    "accelerated": (
        ISRLDPRegressor(**FULL, n_rounds=5, solver="accelerated"), MANY, "if Gaussian"
    ),
    "accelerated, one pass": (
        ISRLDPClassifier(**PLAIN, n_rounds=3, solver="accelerated", sampling="disjoint"), MANY, ""
    ),
    "multistage": (
        ISRLDPClassifier(**FULL, alpha=0.1, n_rounds=6, solver="multistage"), MANY, "if Gaussian"
    ),
    "local": (ISRLDPClassifier(**FULL, n_rounds=5, solver="local"), MANY, "if Gaussian"),
    "balanced cohorts": (
        ISRLDPClassifier(**FULL, n_rounds=6, silo_fraction=0.5), MANY, "if Gaussian"
    ),
    "SCAFFOLD": (DPScaffoldClassifier(**FULL, n_rounds=5, local_steps=4), MANY, "if Gaussian"),
    "SCAFFOLD, warm start, decaying noise": (
        DPScaffoldClassifier(
            **FULL, n_rounds=5, local_steps=2, warm_start_rounds=2, noise_schedule=("round", 0.1, 1)
        ),
        MANY, "",
    ),
    "FedAvg, momentum": (
        DPFedAvgClassifier(**FULL, n_rounds=5, local_steps=3, momentum=0.9), MANY, "if Gaussian"
    ),
    "FedAvg, Poisson": (DPFedAvgClassifier(**BATCHES, n_rounds=5, local_steps=3), MANY, ""),
    "any algorithm, regression": (DPFederatedRegressor(**FULL, n_rounds=5), MANY, "if Gaussian"),
    "private scales": (
        ISRLDPClassifier(EPSILON, delta=DELTA, n_rounds=3, sampling_rate=1.0, scaling="private"),
        MANY | {"silo_sizes": [200] * 400}, "",
    ),
    "one run, many canaries": (
        ISRLDPClassifier(**FULL | {"delta": 1e-8}, n_rounds=1), ONCE, ""
    ),
    "whole silos, FedEXP": (DPFedEXPRegressor(**PLAIN, n_rounds=4), MANY, "if Gaussian"),
    "whole silos, learnt clip norm": (
        DPFedEXPClassifier(**PLAIN, n_rounds=4, clip_norm="auto"), MANY, "if Gaussian"
    ),
    "whole silos, FedAvg": (
        DPFedAvgClassifier(**PLAIN, n_rounds=4, unit="silo"), MANY, "if Gaussian"
    ),
    "whole silos, SCAFFOLD": (
        DPScaffoldClassifier(**PLAIN, n_rounds=4, unit="silo"), MANY, "if Gaussian"
    ),
    "whole silos, PrivUnit": (
        DPFedEXPClassifier(**PLAIN, n_rounds=1, mechanism="privunit"), MANY, "at least"
    ),
    "trusted server, minibatch": (
        ISRLDPClassifier(**FULL, n_rounds=3, trust="server"), SERVER, "if Gaussian"
    ),
    "trusted server, accelerated": (
        ISRLDPClassifier(**ROUNDS, n_rounds=3, trust="server", solver="accelerated"),
        SERVER, "if Gaussian",
    ),
    "trusted server, multistage": (
        ISRLDPClassifier(**ROUNDS, alpha=0.1, n_rounds=4, trust="server", solver="multistage"),
        SERVER, "if Gaussian",
    ),
    "trusted server, FedAvg": (
        DPFedAvgClassifier(**ROUNDS, n_rounds=3, local_steps=1, trust="server"),
        SERVER, "if Gaussian",
    ),
    "trusted server, Poisson": (
        ISRLDPClassifier(**BATCHES, n_rounds=10, trust="server"), SERVER, ""
    ),
    "trusted server, whole silos, FedEXP": (
        DPFedEXPClassifier(**PLAIN, n_rounds=4, trust="server"), WHOLE, "if Gaussian"
    ),
    "trusted server, whole silos, SCAFFOLD": (
        DPScaffoldClassifier(**PLAIN, n_rounds=4, unit="silo", trust="server"),
        WHOLE, "if Gaussian",
    ),
    "trusted server, whole silos, sampled": (
        DPFedAvgClassifier(**PLAIN, n_rounds=8, unit="silo", trust="server", silo_fraction=0.3),
        SERVER | {"silo_sizes": [20] * 10}, "",
    ),
    "outsider, sums of silos": (
        ISRLDPClassifier(**ROUNDS, n_rounds=3), OUTSIDER | {"view": "server"}, "if Gaussian"
    ),
    "final model, outsider": (
        ISRLDPClassifier(**ROUNDS, n_rounds=3), OUTSIDER | {"view": "model"}, "if Gaussian"
    ),
    "shared noise, minibatch": (
        ISRLDPClassifier(**FULL, n_rounds=3, trust="secagg"), SHARED, "if Gaussian"
    ),
    "shared noise, two of four collude": (
        DPFedAvgClassifier(**ROUNDS, n_rounds=3, local_steps=1, trust=SecureAggregation(2)),
        SHARED | {"silo_sizes": [20] * 4}, "if Gaussian",
    ),
    "shared noise, whole silos, FedEXP": (
        DPFedEXPClassifier(**PLAIN, n_rounds=4, trust="secagg"), SHARED, "if Gaussian"
    ),
    "final model, trusted server": (
        ISRLDPClassifier(**ROUNDS, n_rounds=3, trust="server"),
        SERVER | {"view": "model", "n_fits": (1000, 100)}, "if Gaussian",
    ),
    "calibrated probabilities": (
        ISRLDPClassifier(**FULL, n_rounds=2, calibrate=True), SERVER | {"view": "model"}, ""
    ),
    "two shuffled messages": (
        ISRLDPClassifier(**FULL, **SHUFFLED, sampling="without_replacement"), PAIR, "if Gaussian"
    ),
    "sixty shuffled messages": (
        ISRLDPClassifier(**FULL, **SHUFFLED, sampling="without_replacement"), ALONE, ""
    ),
    "sums of shuffled bits": (
        ISRLDPClassifier(**PLAIN, **SHUFFLED, solver="accelerated", sampling="disjoint"),
        WHOLE, "if Gaussian",
    ),
    "sums of shuffled bits, multistage": (
        ISRLDPClassifier(
            **PLAIN | SHUFFLED | {"n_rounds": 3},
            alpha=0.1, solver="multistage", sampling="disjoint",
        ),
        SERVER, "",
    ),
    "search, scores": (*searched("silo", "server", (400, 10)), ""),
    "search, best model": (*searched("silo", "model", (400, 10)), ""),
    "search, trusted server": (*searched("server", "server", (80, 4)), ""),
    "standard scaler": (DPStandardScaler(EPSILON, delta=DELTA), scaled((3000, 60)), ""),
    "standard scaler, bounds": (
        DPStandardScaler(EPSILON, delta=DELTA, feature_bounds=(-1, 1)), scaled((3000, 60)), ""
    ),
    "min-max scaler": (DPMinMaxScaler(EPSILON, delta=DELTA), scaled((3000, 60)), ""),
}  # fmt: skip
OUT = Path(__file__).parent / "results.csv"
COLUMNS = ["release", "view", "trials", "reported", "at least", "if Gaussian", "verdict"]


def audited(name: str, quick: bool) -> dict[str, str]:
    """Return a row of the table."""
    estimator, how, half = ROWS[name]
    how = how | {"n_fits": how["n_fits"][quick], "random_state": 0}  # type: ignore[index]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = audit_epsilon(estimator, confidence=1 - 0.001 / MOST_ROWS, **how)  # type: ignore[arg-type]
    bounds = {"": np.inf, "if Gaussian": found.gaussian_bound, "at least": found.lower_bound}
    blunt = not quick and bounds[half] < found.reported / 2
    verdict = "contradicted" if found.contradicted else "no teeth" if blunt else "holds"
    numbers = (found.reported, found.lower_bound, found.gaussian_bound)
    shown = ["-" if np.isnan(x) else f"{x:.2f}" for x in numbers]
    values = [name, found.view, str(found.n_trials), *shown, verdict]
    seconds = f"{time.process_time() - start:.0f}"
    row = dict(zip(COLUMNS, values, strict=True))
    return row | {"CPU s": seconds, "date": f"{datetime.now(UTC):%Y-%m-%d}"}


def kept() -> dict[str, dict[str, str]]:
    """Return the rows of the file."""
    rows = pd.read_csv(OUT, dtype=str).to_dict("records") if OUT.exists() else []
    return {row["release"]: row for row in rows}


def write(rows: dict[str, dict[str, str]]) -> None:
    """Write the rows that there are, in the order of ROWS."""
    pd.DataFrame([rows[name] for name in ROWS if name in rows]).to_csv(OUT, index=False)


def main() -> int:
    """Run rows; return 1 if a guarantee is contradicted, or an audit that should has no teeth."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    for flag in ("--quick", "--again"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    bad = []
    for name in ROWS:
        rows = kept()
        if args.only not in name or (name in rows and not args.again and not args.quick):
            continue
        row = audited(name, args.quick)
        print(" | ".join(row.values()), flush=True)
        if row["verdict"] != "holds":
            bad.append(name)
        if not args.quick:
            write(kept() | {name: row})
    if bad:
        print("look at:", *bad, sep="\n  ")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
