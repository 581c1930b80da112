"""Prices against budgets: random plans, and 10,000 silos of 10,000 budgets.

    python benchmarks/prices.py [--chunks 0:200] [--out FILE]

Random plans are those of ``tests/privacy/test_random_plans.py``, whose slow tests run the first 60
chunks of ten; none may cost more than its budget. ``--out`` adds a line to a csv file for each
twenty chunks, and goes on where the file ends.
"""

import argparse
import csv
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from skdpfl import ISRLDPClassifier
from skdpfl.privacy import epsilon_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.privacy.test_random_plans import PER_CHUNK, draw

#: chunks in a line of the file
AT_ONCE = 20
COLUMNS = ["first", "plans", "above", "share_1pct", "share_median", "share_max", "date"]


def shares(chunk):
    """Return price over budget of a chunk's random plans, the dearest silo's."""
    r, found = random.Random(chunk), []
    while len(found) < PER_CHUNK:
        try:
            estimator, plan = draw(r)
        except ValueError:  # scales alone cost more, or a sampling that does not go here
            continue
        spent = plan.spent()
        costs = [spent.epsilon] if spent.per_silo is None else [spent.epsilon, *spent.per_silo]
        found.append(max(costs) / estimator.epsilon)
    return found


def lines(first, last, out):
    """Yield a line for each twenty chunks; those that the file has are read from there."""
    done = {}
    if out and out.exists():
        with out.open(encoding="utf-8") as file:
            done = {int(row["first"]): row for row in csv.DictReader(file)}
    for start in range(first, last, AT_ONCE):
        if start not in done:
            chunks = range(start, min(last, start + AT_ONCE))
            found = np.array([share for chunk in chunks for share in shares(chunk)])
            low, middle, most = np.quantile(found, [0.01, 0.5, 1.0])
            values = [start, len(found), int((found > 1).sum()), f"{low:.4f}", f"{middle:.4f}",
                      f"{most:.6f}", f"{datetime.now(UTC):%Y-%m-%d}"]  # fmt: skip
            done[start] = dict(zip(COLUMNS, values, strict=True))
            if out:
                new = not out.exists()
                with out.open("a", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    if new:
                        writer.writeheader()
                    writer.writerow(done[start])
        yield done[start]


def seconds(n_silos=10_000, *, budgets=True):
    """Return CPU seconds to plan and price silos of as many budgets, or sizes."""
    sizes = np.full(n_silos, 500) if budgets else np.arange(200, 200 + n_silos)
    of_silo = dict(enumerate(np.linspace(0.5, 8.0, n_silos).tolist())) if budgets else 1.0
    estimator = ISRLDPClassifier(of_silo, delta=1e-5, scaling=None, random_state=0)
    start = time.process_time()
    plan = estimator.plan_for(silo_sizes=dict(enumerate(sizes.tolist())), n_features=10)
    spent = plan.spent()
    elapsed = time.process_time() - start
    asked = np.array(list(of_silo.values())) if budgets else np.ones(n_silos)
    share = spent.per_silo.to_numpy() / asked
    return elapsed, share.min(), share.max()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", default="0:200")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only-plans", action="store_true")
    args = parser.parse_args()
    epsilon_of(noise_multiplier=1.0, sampling_rate=0.1, n_steps=1, delta=1e-5)  # imports
    for budgets in () if args.only_plans else (True, False):
        elapsed, least, most = seconds(budgets=budgets)
        what = "budgets" if budgets else "sizes"
        print(f"10,000 silos of 10,000 {what}: {elapsed:.1f} s (CPU), price {least:.4f} to "
              f"{most:.4f} of the budget")  # fmt: skip
    n_plans = n_above = 0
    for line in lines(*map(int, args.chunks.split(":")), args.out):
        print(*line.values(), flush=True)
        n_plans, n_above = n_plans + int(line["plans"]), n_above + int(line["above"])
    print(f"{n_plans} random plans: {n_above} above the budget")
    sys.exit(int(n_above > 0))
