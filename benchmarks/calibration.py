"""What accounting costs: ``python benchmarks/calibration.py``.

Time to price Poisson steps, and the same by dp-accounting's distributions, with the epsilons of
both; each call uncached and on one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
import time
from collections.abc import Callable

from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.privacy_accountant import NeighboringRelation

from skdpfl.privacy.events import PoissonGaussian
from skdpfl.privacy.pricing.price import price_epsilon

DELTA = 1e-5
#: noise multiplier, rate, steps
CASES = ((42, 0.04, 20_000), (60, 0.2, 4_000), (1, 0.01, 1_000), (2, 1e-3, 10**5))


def timed(function: Callable[[], float], repeats: int) -> tuple[float, float]:
    """Return the result and the median time of uncached calls, in milliseconds."""
    times = []
    for _ in range(repeats):
        price_epsilon.cache_clear()
        start = time.perf_counter()
        result = function()
        times.append(1e3 * (time.perf_counter() - start))
    return result, statistics.median(times)


def library(z: float, rate: float, n: int) -> float:
    """Return epsilon by dp-accounting, its grid a sixteenth of a step's loss deviation."""
    one = privacy_loss_distribution.from_gaussian_mechanism(
        z,
        sampling_prob=rate,
        value_discretization_interval=rate / z / 8,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    return one.self_compose(n).get_epsilon_for_delta(DELTA)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    print(f"{'one price':32} {'ms':>8} {'epsilon':>10} {'dp-accounting: ms':>18} {'epsilon':>10}")
    for z, rate, n in CASES:
        steps = ((PoissonGaussian(z, rate), n),)
        ours, ms = timed(lambda: price_epsilon(steps, DELTA, "replace"), repeats)  # noqa: B023
        theirs, slow = timed(lambda: library(z, rate, n), 3)  # noqa: B023
        print(f"z={z}, q={rate:g}, {n:>7,} steps".ljust(32), end="")
        print(f" {ms:8.1f} {ours:10.5f} {slow:18.1f} {theirs:10.5f}")


if __name__ == "__main__":
    main()
