"""Is a private search worth its budget? ``python benchmarks/search.py``; results: search.md.

Each run splits a data set 80/20 at random within silos and spends one budget (epsilon, 1e-5) on the
80: "auto" by one fit that chooses nothing from the data; "search" by DPRandomizedSearchCV over four
candidates from a public space. Two rows that nobody can have are beside it: the candidates' mean
and the best of them (by the test set), each fitted with the whole budget as if the others had cost
nothing. Test accuracies; the difference search - auto is paired by split.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import loguniform
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.tables import header, markdown, row, spread
from skdpfl import ISRLDPClassifier
from skdpfl.datasets import fetch_obesity, split_into_silos
from skdpfl.model_selection import DPRandomizedSearchCV, SiloStratifiedKFold

DELTA, N_ITER = 1e-5, 4
SPACE = {"learning_rate": loguniform(0.03, 3), "clip_norm": loguniform(0.1, 3)}
ROWS = ("auto", "search", "mean candidate", "best candidate")


def load(name):
    """Return X, y, silos and public bounds."""
    if name == "obesity":
        data = fetch_obesity(download_if_missing=False)
        return data.data, data.target, data.silos, data.feature_bounds
    X, y = load_digits(return_X_y=True)
    return X, y, split_into_silos(y, 6, random_state=0), (0, 16)


def one(name, epsilon, seed):
    """Return the four accuracies of one split."""
    X, y, silos, bounds = load(name)
    folds = SiloStratifiedKFold(5, shuffle=True, random_state=seed)
    train, test = next(folds.split(X, groups=silos))
    base = ISRLDPClassifier(delta=DELTA, feature_bounds=bounds)

    def accuracy(model):
        return model.fit(X[train], y[train], silos=silos[train]).score(X[test], y[test])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # steps that diverge are candidates too
        search = DPRandomizedSearchCV(
            base, SPACE, n_iter=N_ITER, epsilon=epsilon, delta=DELTA, random_state=seed
        )
        found = accuracy(search)
        tried = search.candidates_.drop(columns="noisy_score").to_dict("records")
        fixed = {"epsilon": epsilon, "random_state": seed}
        each = [accuracy(base.set_params(**fixed, **params)) for params in tried]
        auto = ISRLDPClassifier(delta=DELTA, feature_bounds=bounds, **fixed)
        return accuracy(auto), found, np.mean(each), np.max(each)


def main():
    """Run all splits and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", nargs="+", default=["obesity", "digits"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0, 9.0])
    options = parser.parse_args()
    start = time.perf_counter()
    print(f"{header()}, {options.seeds} splits: mean ± standard deviation of test accuracies.\n")
    print(markdown(["data", "ε", *ROWS, "search − auto (± standard error)"]))
    for name in options.data:
        for epsilon in options.epsilons:
            runs = Parallel(n_jobs=options.jobs)(
                delayed(one)(name, epsilon, seed) for seed in range(options.seeds)
            )
            scores = np.array(runs)
            gain = scores[:, 1] - scores[:, 0]
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            cells = [*map(spread, scores.T), f"{gain.mean():+.3f} ± {error:.3f}"]
            print(row([name, f"{epsilon:g}", *cells]), flush=True)
    print(f"\nRun time {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
