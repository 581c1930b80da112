"""Prices of random plans against their budgets.

    python benchmarks/prices.py [--chunks 0:200]

The plans are those of ``tests/privacy/test_random_plans.py``, whose slow tests run the first 60
chunks of ten; none may cost more than its budget. Price over budget, the dearest silo's.
"""

import argparse
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.privacy.test_random_plans import PER_CHUNK, draw

#: chunks in a line
AT_ONCE = 20


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


def main():
    """Print a line for each twenty chunks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", default="0:200")
    first, last = map(int, parser.parse_args().chunks.split(":"))
    n_plans = n_above = 0
    for start in range(first, last, AT_ONCE):
        chunks = range(start, min(last, start + AT_ONCE))
        found = np.array([share for chunk in chunks for share in shares(chunk)])
        low, middle, most = np.quantile(found, [0.01, 0.5, 1.0])
        print(f"from {start}: {low:.4f} (1 %), {middle:.4f} (median), {most:.6f} (max)", flush=True)
        n_plans, n_above = n_plans + len(found), n_above + int((found > 1).sum())
    print(f"{n_plans} random plans: {n_above} above the budget")
    sys.exit(int(n_above > 0))


if __name__ == "__main__":
    main()
