"""Persons with several rows: unit="person" against limited rows at the budget of a group.

::

    python benchmarks/panels.py            # six splits a cell, two minutes

Three made-up panels of persons with 3 to 8 rows in ten silos, with effects at person and row level;
a quarter of the persons is the test set. Columns: the score (R2 or AUC) of unit="person", of
``limit_rows`` with k = 1, 2, 3 rows in random order, and the gain over the best of these.
"""

import argparse
import warnings

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.preprocessing import limit_rows
from skdpfl.privacy import epsilon_per_record

D, SILOS, DELTA = 8, 10, 1e-5
PERSONS = {"numbers": 1500, "labels": 3000, "numbers within bounds": 1500}


def panel(kind, seed):
    """Return features, targets and persons of rows, half of the columns fixed for a person."""
    rng = np.random.default_rng(seed)
    persons = np.repeat(np.arange(PERSONS[kind]), rng.integers(3, 9, PERSONS[kind]))
    own, n = rng.normal(size=(PERSONS[kind], D))[persons], len(persons)
    X = np.where(np.arange(D) < D // 2, own, 0.6 * own + 0.8 * rng.normal(size=(n, D)))
    score = 1.2 * X @ rng.normal(size=D) / np.sqrt(D)
    score += 0.7 * rng.normal(size=PERSONS[kind])[persons]
    if kind == "labels":
        return X, (1.5 * score + rng.logistic(size=n) > 0).astype(int), persons
    y = score + rng.normal(size=n)
    return (np.clip(2 * X, -4, 4) if kind != "numbers" else X), y, persons


def scores(kind, epsilon, seed):
    """Return the score of the person fit and of those of 1, 2 and 3 rows."""
    X, y, persons = panel(kind, seed)
    rng = np.random.default_rng(seed)
    test = np.isin(persons, rng.choice(PERSONS[kind], PERSONS[kind] // 4, replace=False))
    rows = rng.permutation(np.flatnonzero(~test))
    make = ISRLDPClassifier if kind == "labels" else ISRLDPRegressor
    given = {"feature_bounds": (-4, 4), "delta": DELTA, "random_state": seed}
    if kind != "labels":
        given["target_bounds"] = (-5, 5)

    def scored(model):
        if kind == "labels":
            return roc_auc_score(y[test], model.decision_function(X[test]))
        return r2_score(y[test], model.predict(X[test]))

    person, ids = make(epsilon, unit="person", **given), persons[rows]
    found = [scored(person.fit(X[rows], y[rows], silos=ids % SILOS, persons=ids))]
    for k in (1, 2, 3):
        kept = rows[limit_rows(persons[rows], k)]
        model = make(epsilon_per_record(epsilon, k=k, delta=DELTA), **given)
        found.append(scored(model.fit(X[kept], y[kept], silos=persons[kept] % SILOS)))
    return found


def main():
    """Print a line for each panel and budget."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--splits", type=int, default=6)
    splits = parser.parse_args().splits
    warnings.simplefilter("ignore")
    for kind in PERSONS:
        for epsilon in (1.0, 3.0):
            mean = np.mean([scores(kind, epsilon, seed) for seed in range(splits)], axis=0)
            print(f"{kind:22} {epsilon:3g}  {mean.round(3)}  {mean[0] - mean[1:].max():+.4f}")


if __name__ == "__main__":
    main()
