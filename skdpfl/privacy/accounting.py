"""Accounting without an estimator: what noise costs, what noise a budget asks for."""

from __future__ import annotations

from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Composition, Event, FixedSizeGaussian, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing import Neighbours, price_delta, price_epsilon

__all__ = [
    "calibrate",
    "epsilon_of",
    "n_steps_for",
    "noise_multiplier_for",
    "price_delta",
    "price_epsilon",
]


def epsilon_of(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    neighbours: Neighbours = "replace",
    sampling: str = "poisson",
) -> float:
    """Return the epsilon of ``n_steps`` noisy sums over samples."""
    composition = _steps(noise_multiplier, sampling_rate, n_steps, sampling)
    return price_epsilon(composition, delta, neighbours)


def noise_multiplier_for(
    *,
    epsilon: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    neighbours: Neighbours = "replace",
    sampling: str = "poisson",
) -> float:
    """Return the least noise multiplier that meets the budget, on the safe side."""
    return calibrate(
        lambda z: _steps(z, sampling_rate, n_steps, sampling), epsilon, delta, neighbours
    )


def n_steps_for(
    *,
    epsilon: float,
    noise_multiplier: float,
    sampling_rate: float,
    delta: float,
    neighbours: Neighbours = "replace",
    sampling: str = "poisson",
) -> int:
    """Return the largest number of steps that meets the budget."""

    def fits(n: int) -> bool:
        return (
            price_epsilon(_steps(noise_multiplier, sampling_rate, n, sampling), delta, neighbours)
            <= epsilon
        )

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _steps(z: float, rate: float, n_steps: int, sampling: str) -> Composition:
    event: Event
    if sampling == "poisson":
        event = PoissonGaussian(z, rate)
    elif sampling == "without_replacement":
        event = FixedSizeGaussian(z, rate)
    else:
        event, n_steps = Gaussian(z), 1
    return ((event, n_steps),)
