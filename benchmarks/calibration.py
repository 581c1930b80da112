"""What accounting costs: ``python benchmarks/calibration.py``.

Three tables, each call uncached and on one thread:

1. time to find the noise for 20,000 Poisson steps at rate 0.04 and epsilon 1 (median of many), and
   for other settings; and the price of that noise over the budget, computed afresh;
2. time to price a composition, and the same by dp-accounting's distributions where it knows them,
   with the epsilons of both;
3. how much epsilon a grid adds, by its step over the deviation of one step's loss.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
import time
from collections.abc import Callable

from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Composition, FixedSizeGaussian, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing.price import price_epsilon

DELTA = 1e-5


def steps(kind: type, rate: float, n: int) -> Callable[[float], Composition]:
    """n alike releases at a noise multiplier."""
    return lambda z: ((kind(z, rate), n),)


def levels(rate: float, n: int) -> Callable[[float], Composition]:
    """n releases over 64 noise levels that fall to a third."""
    return lambda z: tuple((PoissonGaussian(z * 3 ** (-k / 63), rate), n // 64) for k in range(64))


#: Name, composition at a noise multiplier, neighbours, epsilon.
CASES: list[tuple[str, Callable[[float], Composition], str, float]] = [
    ("20,000 Poisson steps, q=0.04", steps(PoissonGaussian, 0.04, 20_000), "replace", 1.0),
    ("the same, add_remove", steps(PoissonGaussian, 0.04, 20_000), "add_remove", 1.0),
    ("the same, epsilon 0.1", steps(PoissonGaussian, 0.04, 20_000), "replace", 0.1),
    ("the same, epsilon 10", steps(PoissonGaussian, 0.04, 20_000), "replace", 10.0),
    ("20,000 fixed batches, 0.04", steps(FixedSizeGaussian, 0.04, 20_000), "replace", 1.0),
    ("64 noise levels", levels(0.04, 20_000), "replace", 1.0),
    ("1,000 steps, q=0.01", steps(PoissonGaussian, 0.01, 1_000), "replace", 3.0),
    ("1,000,000 steps, q=1e-5", steps(PoissonGaussian, 1e-5, 10**6), "replace", 1.0),
    ("100 full batches", lambda z: ((Gaussian(z), 100),), "replace", 1.0),
]


def timed(function: Callable[[], float], repeats: int) -> tuple[float, float]:
    """The result and the median time of uncached calls, in milliseconds."""
    times = []
    for _ in range(repeats):
        price_epsilon.cache_clear()
        start = time.perf_counter()
        result = function()
        times.append(1e3 * (time.perf_counter() - start))
    return result, statistics.median(times)


def library(z: float, rate: float, n: int, share: float) -> float:
    """Epsilon by dp-accounting, its grid a share of a step's loss deviation."""
    from dp_accounting.pld import privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    one = privacy_loss_distribution.from_gaussian_mechanism(
        z,
        sampling_prob=rate,
        value_discretization_interval=share * 2 * rate / z,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    return one.self_compose(n).get_epsilon_for_delta(DELTA)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats

    print(f"calibration to (epsilon, {DELTA:g}), uncached, median of {repeats}")
    print(f"{'':32} {'ms':>8} {'noise':>10} {'price / budget':>15}")
    for name, build, neighbours, epsilon in CASES:
        z, ms = timed(lambda: calibrate(build, epsilon, DELTA, neighbours), repeats)  # noqa: B023
        price_epsilon.cache_clear()
        ratio = price_epsilon(build(z), DELTA, neighbours) / epsilon
        print(f"{name:32} {ms:8.1f} {z:10.4g} {ratio:15.5f}")

    print(f"\n{'one price':32} {'ms':>8} {'epsilon':>10} {'dp-accounting: ms':>18} {'epsilon':>10}")
    for z, rate, n in ((42, 0.04, 20_000), (60, 0.2, 4_000), (1, 0.01, 1_000), (2, 1e-3, 10**5)):
        build = steps(PoissonGaussian, rate, n)
        ours, ms = timed(lambda: price_epsilon(build(z), DELTA, "replace"), repeats)  # noqa: B023
        theirs, slow = timed(lambda: library(z, rate, n, 1 / 16), 3)  # noqa: B023
        print(f"z={z}, q={rate:g}, {n:>7,} steps".ljust(32), end="")
        print(f" {ms:8.1f} {ours:10.5f} {slow:18.1f} {theirs:10.5f}")

    print(
        "\nepsilon that a grid adds, z=42, q=0.04, 20,000 steps: grid / deviation of a step's loss"
    )
    finest = library(42, 0.04, 20_000, 1 / 64)
    for share in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 5.0):
        print(f"{share:10.4f} {library(42, 0.04, 20_000, share) / finest - 1:10.2%}")


if __name__ == "__main__":
    main()
