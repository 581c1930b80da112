"""DP-SCAFFOLD against DP-FedAvg on silos that differ, at epsilon 3 against the server itself.

The synthetic (alpha, beta) = (5, 5) silos of Noble, Bellet and Dieuleveut (AISTATS 2022): 100 silos
of 4,000 training records, 10 classes, 5 silos a round, a fifth of their records in each of 5 local
steps, 400 rounds, delta = 1 / (number of records). Published there at epsilon 3, and against an
outsider only: 45.5 % for DP-SCAFFOLD. Here whoever sees everything that a silo sends learns no more
than (3, delta) allows.

    python benchmarks/scaffold_synthetic.py             the whole grid, about ten minutes
    python benchmarks/scaffold_synthetic.py --quick     one data set, the tuned steps only
"""

import argparse
import time
import warnings

import numpy as np

from skdpfl import DPFedAvgClassifier, DPScaffoldClassifier
from skdpfl.datasets import make_federated_classification

METHODS = {"DP-SCAFFOLD": DPScaffoldClassifier, "DP-FedAvg": DPFedAvgClassifier}
N_SILOS, N_RECORDS, N_TRAIN = 100, 5000, 4000
#: clipping norm and step: their product moves the model, their ratio what is clipped
GRID = [(1.0, step) for step in (0.03, 0.1, 0.3, 1.0, 3.0)] + [(3.0, 0.1), (3.0, 0.3), (10.0, 0.1)]
SETTING = {
    "epsilon": 3.0,
    "delta": 1 / (N_SILOS * N_TRAIN),
    "n_rounds": 400,
    "local_steps": 5,
    "silo_fraction": 0.05,
    "sampling_rate": 0.2,
    "scaling": None,
    "average": False,
}


def load(seed, n_silos=N_SILOS, n_records=N_RECORDS, n_train=N_TRAIN):
    """Training and test records of every silo."""
    bunch = make_federated_classification(
        n_silos, n_records, n_features=40, n_classes=10, alpha=5.0, beta=5.0, random_state=seed
    )
    X, y = bunch.data.astype(np.float32), bunch.target
    train = np.arange(n_records) < n_train
    train = np.tile(train, n_silos)
    return X[train], y[train], bunch.silos[train], X[~train], y[~train]


def accuracy(method, records, clip_norm, step, *, seed=0, **setting):
    """Test accuracy of one fit and what it cost."""
    X, y, silos, X_test, y_test = records
    clf = METHODS[method](
        clip_norm=clip_norm, learning_rate=step, random_state=seed, **(SETTING | setting)
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="delta=")  # the paper's: 1 / n
        clf.fit(X, y, silos=silos)
    return clf.score(X_test, y_test), clf.privacy_spent_


def main():
    """Print the grid: a line for each cohort, data set, method and step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    seeds, grid = ([0], [(1.0, 0.3)]) if quick else ([0, 1, 2], GRID)
    print(
        f"{'cohorts':9}{'data':>5}{'clip':>6}{'step':>6}   " + "".join(f"{m:>13}" for m in METHODS)
    )
    for cohort in ("uniform", "balanced"):
        best = {method: [] for method in METHODS}
        for data_seed in seeds:
            records = load(data_seed)
            found = {method: [] for method in METHODS}
            for clip_norm, step in grid:
                start = time.perf_counter()
                for method in METHODS:
                    score, spent = accuracy(method, records, clip_norm, step, cohort=cohort)
                    found[method].append(score)
                line = "".join(f"{found[m][-1]:13.3f}" for m in METHODS)
                print(
                    f"{cohort:9}{data_seed:5}{clip_norm:6g}{step:6g}   {line}   {spent}"
                    f"   {time.perf_counter() - start:.0f} s",
                    flush=True,
                )
            for method in METHODS:
                best[method].append(max(found[method]))
        tuned = ", ".join(f"{m} {np.mean(best[m]):.3f}" for m in METHODS)
        print(f"{cohort}, best step of each data set: {tuned}\n", flush=True)


if __name__ == "__main__":
    main()
