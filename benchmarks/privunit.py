"""PrivUnit or Gaussian noise: ``python benchmarks/privunit.py``.

The largest root mean square error of a silo's message, in clip norms, over the number of rounds
that share one budget. From formulas alone: no data, no randomness.
"""

from __future__ import annotations

import math

from skdpfl.privacy.mechanisms.privunit import largest_error, split_epsilon
from skdpfl.privacy.pricing.gaussian import gaussian_mu

SIZE, EPSILON, DELTA = 30, 8.0, 1e-5
ROUNDS = (1, 2, 5, 10)


def privunit(n_rounds: int) -> float:
    """Return the error where a pure budget is divided by the rounds."""
    return math.sqrt(largest_error(*split_epsilon(EPSILON / n_rounds, SIZE), SIZE))


def gaussian(n_rounds: int) -> float:
    """Return the error where it is divided by their root."""
    return math.sqrt(SIZE * n_rounds) * 2 / gaussian_mu(EPSILON, DELTA)


if __name__ == "__main__":
    print(f"| {SIZE} parameters, epsilon {EPSILON:g}, delta {DELTA:g} | PrivUnit | Gaussian |")
    print("|---|---|---|")
    for rounds in ROUNDS:
        print(f"| {rounds} rounds | {privunit(rounds):.3g} | {gaussian(rounds):.3g} |")
