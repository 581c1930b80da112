"""Prices against budgets: random plans, and 10,000 silos of 10,000 budgets.

    python benchmarks/prices.py [--plans 2000]

Random plans are those of ``tests/privacy/test_random_plans.py``; none may cost more than its
budget.
"""

import argparse
import random
import sys
import time
from pathlib import Path

import numpy as np

from skdpfl import ISRLDPClassifier
from skdpfl.privacy import epsilon_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.privacy.test_random_plans import draw


def shares(n_plans):
    """Return price over budget of random plans; also each silo's."""
    r, found = random.Random(2_000), []
    while len(found) < n_plans:
        try:
            estimator, plan = draw(r)
        except ValueError:  # scales alone cost more, or a sampling that does not go here
            continue
        spent = plan.spent()
        costs = [spent.epsilon] if spent.per_silo is None else [spent.epsilon, *spent.per_silo]
        found.append(max(costs) / estimator.epsilon)
    return np.array(found)


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
    parser.add_argument("--plans", type=int, default=2_000)
    n_plans = parser.parse_args().plans
    epsilon_of(noise_multiplier=1.0, sampling_rate=0.1, n_steps=1, delta=1e-5)  # imports
    for budgets in (True, False):
        elapsed, least, most = seconds(budgets=budgets)
        what = "budgets" if budgets else "sizes"
        print(f"10,000 silos of 10,000 {what}: {elapsed:.1f} s (CPU), price {least:.4f} to "
              f"{most:.4f} of the budget")  # fmt: skip
    found = shares(n_plans)
    print(f"{n_plans} random plans: {(found > 1).sum()} above the budget; price over budget "
          f"{np.quantile(found, 0.01):.4f} (1 %), {np.median(found):.4f} (median), "
          f"{found.max():.6f} (largest)")  # fmt: skip
