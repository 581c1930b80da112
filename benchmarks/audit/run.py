"""Audits of everything that reports an epsilon: ``python benchmarks/audit/run.py [--quick]``.

One row for each estimator, solver, unit, trust, sampling and kind of release. The bounds hold
jointly with probability 99.9 %. ``--out FILE`` writes the table that is part of ``docs/audit.md``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import time
import warnings
from datetime import UTC, datetime

import numpy as np

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
from skdpfl.privacy import audit_epsilon

EPSILON, DELTA = 4.0, 1e-5
PLAIN = {"epsilon": EPSILON, "delta": DELTA, "scaling": None}
FULL = PLAIN | {"sampling_rate": 1.0}
BATCHES = PLAIN | {"sampling_rate": 0.1}
#: many silos in a few fits; one silo in many fits; (full, quick)
MANY = {"silo_sizes": [10] * 1000, "n_features": 4, "n_fits": (15, 5)}
SERVER = {"silo_sizes": [20] * 3, "n_features": 4, "n_fits": (700, 100)}
OUTSIDER = SERVER | {"n_fits": (3000, 100)}
ALONE = {"silo_sizes": [1] * 60, "n_features": 2, "n_fits": (1000, 60)}
ONCE = {"silo_sizes": [50] * 200, "n_features": 20, "n_fits": (1, 1)}


def data() -> dict[str, object]:
    """A small data set for what is audited from outside."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2))
    return {"X": X, "y": (X[:, 0] > 0).astype(int), "silos": np.arange(60) % 2}


def outside(n_fits: tuple[int, int]) -> dict[str, object]:
    return data() | {"n_fits": n_fits, "view": "model"}


def scaler(n_fits: tuple[int, int]) -> dict[str, object]:
    return outside(n_fits) | {"y": None}


SEARCHED = ISRLDPClassifier(
    scaling=None, n_rounds=3, learning_rate=1.0, sampling_rate=1.0, trust="server"
)
#: name -> (estimator, how, whether Gaussian releases are plain: half of epsilon is to be found)
ROWS: dict[str, tuple[object, dict[str, object], bool]] = {
    "minibatch, full batches": (ISRLDPClassifier(**FULL, n_rounds=5), MANY, True),
    "minibatch, Poisson": (ISRLDPClassifier(**BATCHES, n_rounds=20), MANY, False),
    "minibatch, fixed size": (
        ISRLDPClassifier(**BATCHES, n_rounds=20, sampling="without_replacement"), MANY, False
    ),
    "accelerated": (ISRLDPRegressor(**FULL, n_rounds=5, solver="accelerated"), MANY, True),
    "accelerated, one pass": (
        ISRLDPClassifier(**PLAIN, n_rounds=3, solver="accelerated", sampling="disjoint"),
        MANY, False,
    ),
    "multistage": (
        ISRLDPClassifier(**FULL, alpha=0.1, n_rounds=6, solver="multistage"), MANY, True
    ),
    "local": (ISRLDPClassifier(**FULL, n_rounds=5, solver="local"), MANY, False),
    "balanced cohorts": (ISRLDPClassifier(**FULL, n_rounds=6, silo_fraction=0.5), MANY, True),
    "SCAFFOLD": (DPScaffoldClassifier(**FULL, n_rounds=5, local_steps=4), MANY, True),
    "SCAFFOLD, warm start, decaying noise": (
        DPScaffoldClassifier(
            **FULL, n_rounds=5, local_steps=2, warm_start_rounds=2, noise_schedule=("round", 0.1, 1)
        ),
        MANY, False,
    ),
    "FedAvg, momentum": (
        DPFedAvgClassifier(**FULL, n_rounds=5, local_steps=3, momentum=0.9), MANY, False
    ),
    "FedAvg, Poisson": (DPFedAvgClassifier(**BATCHES, n_rounds=5, local_steps=3), MANY, False),
    "any algorithm, regression": (DPFederatedRegressor(**FULL, n_rounds=5), MANY, True),
    "private scales": (
        ISRLDPClassifier(EPSILON, delta=DELTA, n_rounds=3, sampling_rate=1.0, scaling="private"),
        MANY | {"silo_sizes": [200] * 400}, False,
    ),
    "one run, many canaries": (
        ISRLDPClassifier(**FULL | {"delta": 1e-8}, n_rounds=1), ONCE, False
    ),
    "whole silos, FedEXP": (DPFedEXPRegressor(**PLAIN, n_rounds=4), MANY, True),
    "whole silos, learnt clip norm": (
        DPFedEXPClassifier(**PLAIN, n_rounds=4, clip_norm="auto"), MANY, False
    ),
    "whole silos, FedAvg": (DPFedAvgClassifier(**PLAIN, n_rounds=4, unit="silo"), MANY, False),
    "whole silos, SCAFFOLD": (DPScaffoldClassifier(**PLAIN, n_rounds=4, unit="silo"), MANY, False),
    "whole silos, PrivUnit": (
        DPFedEXPClassifier(**PLAIN, n_rounds=1, mechanism="privunit"), MANY, False
    ),
    "trusted server, minibatch": (
        ISRLDPClassifier(**FULL, n_rounds=3, trust="server"), SERVER, True
    ),
    "trusted server, Poisson": (
        ISRLDPClassifier(**BATCHES, n_rounds=10, trust="server"), SERVER, False
    ),
    "trusted server, whole silos, FedEXP": (
        DPFedEXPClassifier(**PLAIN, n_rounds=4, trust="server"), SERVER, False
    ),
    "trusted server, whole silos, sampled": (
        DPFedAvgClassifier(**PLAIN, n_rounds=8, unit="silo", trust="server", silo_fraction=0.3),
        SERVER | {"silo_sizes": [20] * 10}, False,
    ),
    "outsider, sums of silos": (
        ISRLDPClassifier(**FULL, n_rounds=3), OUTSIDER | {"view": "server"}, False
    ),
    "final model": (ISRLDPClassifier(**FULL, n_rounds=3), OUTSIDER | {"view": "model"}, False),
    "shuffled messages": (
        ISRLDPClassifier(**FULL, n_rounds=1, trust="shuffler", sampling="without_replacement"),
        ALONE, False,
    ),
    "search, trusted server": (
        DPRandomizedSearchCV(
            SEARCHED, {"clip_norm": [0.5, 1.0]}, epsilon=EPSILON, delta=DELTA, n_iter=2
        ),
        outside((100, 10)), False,
    ),
    "calibrated probabilities": (
        ISRLDPClassifier(**FULL, n_rounds=2, calibrate=True), SERVER | {"view": "model"}, False
    ),
    "standard scaler": (DPStandardScaler(EPSILON, delta=DELTA), scaler((1000, 60)), False),
    "min-max scaler": (DPMinMaxScaler(EPSILON, delta=DELTA), scaler((1000, 60)), False),
}  # fmt: skip


def audited(name: str, quick: bool) -> dict[str, object]:
    """Return a row of the table."""
    estimator, how, plain = ROWS[name]
    how = how | {"n_fits": how["n_fits"][quick], "random_state": 0}  # type: ignore[index]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = audit_epsilon(estimator, confidence=1 - 0.001 / len(ROWS), **how)  # type: ignore[arg-type]
    return {
        "release": name,
        "view": found.view,
        "trials": found.n_trials,
        "reported": f"{found.reported:.2f}",
        "at least": f"{found.lower_bound:.2f}",
        "if Gaussian": f"{found.gaussian_bound:.2f}",
        "verdict": "contradicted" if found.contradicted else "holds",
        "teeth": found.gaussian_bound >= found.reported / 2 or not plain,
        "CPU s": f"{time.process_time() - start:.0f}",
    }


def main() -> int:
    """Print the table; return 1 if a guarantee is contradicted, or a plain case has no teeth."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out")
    args = parser.parse_args()
    lines, bad = [], []
    columns = ["release", "view", "trials", "reported", "at least", "if Gaussian", "verdict"]
    for name in ROWS:
        if args.only not in name:
            continue
        row = audited(name, args.quick)
        if row["verdict"] != "holds" or not (row["teeth"] or args.quick):
            bad.append(name)
        lines.append("| " + " | ".join(str(row[c]) for c in columns) + " |")
        print(lines[-1], f"{row['CPU s']} s", flush=True)
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    said = (
        f"skdpfl {importlib.metadata.version('skdpfl')}, NumPy {np.__version__}, "
        f"{datetime.now(UTC):%Y-%m-%d}: `python benchmarks/audit/run.py"
        f"{' --quick' if args.quick else ''}`"
    )
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write("\n".join([said, "", *head, *lines, ""]))
    if bad:
        print("look at:", *bad, sep="\n  ")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
