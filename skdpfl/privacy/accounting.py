"""Accounting without an estimator: the epsilon of given noise, and the noise for a budget.

A fit releases ``n_steps`` noisy sums of clipped gradients. With ``noise_multiplier`` z = (std of
the noise on the clipped sum) / (clipping norm), these functions solve ::

    price(z, sampling_rate, n_steps) = (epsilon, delta)

for epsilon, for z, or for the number of steps. :mod:`skdpfl.privacy.pricing.price` computes the
prices of events.
"""

import math
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_rate,
    check_share,
)
from skdpfl.privacy import events
from skdpfl.privacy.calibration import calibrate, check_epsilon_says_something, largest
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.public_numbers import MOST_STEPS, NoiseSchedule, noise_factors

SamplingName = Literal["poisson", "without_replacement", "with_replacement", "disjoint"]

#: Largest number of steps.
_MOST_STEPS = 10**9


def epsilon_of(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    neighbours: events.Neighbours = "replace",
    sampling: SamplingName = "poisson",
    batch: int | None = None,
) -> float:
    """Return the epsilon of noisy sums over sampled records.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise on a clipped sum, over the clipping norm. 0: no noise.
    sampling_rate : float
        The share of the records in a step's batch, in (0, 1].
    n_steps : int
        The number of released sums.
    delta : float
        In (0, 1).
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation: one record is replaced, or its contribution is set to zero.
    sampling : {"poisson", "without_replacement", "with_replacement", "disjoint"}, \
            default="poisson"
        How batches are drawn. "poisson": each record independently with probability
        ``sampling_rate``. "without_replacement": an independent uniform batch of fixed size in each
        step ("replace" only). "with_replacement": ``batch`` independent uniform draws in each step
        ("replace" only). "disjoint": k = floor(1 / sampling_rate) disjoint batches, drawn once
        independently of the data and used in turn, so that a record is in at most ceil(n_steps / k)
        of them.
    batch : int, default=None
        The number of draws of a step, for "with_replacement" only.

    Returns
    -------
    float
        The epsilon for which the releases are (epsilon, delta)-DP; 0 if delta alone suffices.

    See Also
    --------
    noise_multiplier_for : The noise for a budget.
    n_steps_for : The steps that a budget allows.

    Notes
    -----
    **Formal guarantee.** The result is an upper bound for the given sampling, exact up to 0.1 %
    (plain Gaussian sums: exact): see :mod:`skdpfl.privacy.pricing.price`.

    Examples
    --------
    >>> from skdpfl.privacy import epsilon_of
    >>> round(epsilon_of(noise_multiplier=60, sampling_rate=0.2, n_steps=4000, delta=1e-5), 3)
    1.649
    """
    check_choice("neighbours", neighbours, get_args(events.Neighbours))
    steps = _steps(noise_multiplier, sampling_rate, _whole(n_steps), sampling, batch)
    return price_epsilon(steps, check_share("delta", delta), neighbours)


def noise_multiplier_for(
    *,
    epsilon: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    neighbours: events.Neighbours = "replace",
    sampling: SamplingName = "poisson",
    batch: int | None = None,
) -> float:
    """Return the smallest noise multiplier that meets a budget, rounded up.

    Parameters
    ----------
    epsilon : float
        Greater than 0; ``inf`` means no noise.
    sampling_rate, n_steps, delta, neighbours, sampling, batch
        As for :func:`epsilon_of`.

    Returns
    -------
    float
        The noise multiplier, whose epsilon is between 99 % and 100 % of the budget.

    See Also
    --------
    epsilon_of : The price of given noise.
    n_steps_for : The steps that a budget allows.

    Examples
    --------
    >>> from skdpfl.privacy import noise_multiplier_for
    >>> round(noise_multiplier_for(epsilon=1, sampling_rate=0.04, n_steps=20_000, delta=1e-5), 1)
    42.2
    """
    check_choice("neighbours", neighbours, get_args(events.Neighbours))
    n_steps = _whole(n_steps)
    _steps(1.0, sampling_rate, n_steps, sampling, batch)
    return calibrate(
        lambda z: _steps(z, sampling_rate, n_steps, sampling, batch), epsilon, delta, neighbours
    )


def n_steps_for(
    *,
    epsilon: float,
    noise_multiplier: float,
    sampling_rate: float,
    delta: float,
    neighbours: events.Neighbours = "replace",
    sampling: SamplingName = "poisson",
    batch: int | None = None,
    noise_schedule: NoiseSchedule = None,
    local_steps: int = 1,
) -> int:
    """Return the largest number of steps that a budget allows.

    Parameters
    ----------
    epsilon : float
        Greater than 0 and finite.
    noise_multiplier, sampling_rate, delta, neighbours, sampling, batch
        As for :func:`epsilon_of`.
    noise_schedule : tuple, default=None
        ``("round", beta, start)`` or ``("step", beta, start)``: noise that decays from
        ``noise_multiplier`` on, as in the estimators.
    local_steps : int, default=1
        The steps of a round, for schedules. The last round may be a part of one.

    Returns
    -------
    int
        The number of steps; 0 if the budget does not allow a single one.

    See Also
    --------
    epsilon_of : The price of given steps.
    noise_multiplier_for : The noise for a budget.

    Examples
    --------
    >>> from skdpfl.privacy import n_steps_for
    >>> n_steps_for(epsilon=1, noise_multiplier=2, sampling_rate=1, delta=1e-5)
    0
    """
    check_choice("neighbours", neighbours, get_args(events.Neighbours))
    epsilon, delta = check_positive("epsilon", epsilon), check_share("delta", delta)
    check_epsilon_says_something(epsilon)

    def fits(n: int) -> bool:
        steps = _steps(noise_multiplier, sampling_rate, n, sampling, batch)
        if noise_schedule is not None:
            steps = _decaying(noise_schedule, local_steps, steps)
        return price_epsilon(steps, delta, neighbours) <= epsilon

    most = _MOST_STEPS if noise_schedule is None else MOST_STEPS
    found = largest(fits, most)
    if found >= most:
        raise ValueError(
            f"noise_multiplier={noise_multiplier!r} allows more than {most:g} steps at "
            f"epsilon={epsilon!r} and delta={delta!r}."
        )
    return found


def _steps(
    z: float, rate: float, n_steps: int, sampling: SamplingName, batch: int | None
) -> events.Composition:
    """Return the releases of the steps."""
    z = check_number("noise_multiplier", z, low=0)
    rate = check_rate("sampling_rate", rate)
    if check_choice("sampling", sampling, get_args(SamplingName)) == "poisson":
        return ((events.PoissonGaussian(z, rate), n_steps),)
    if sampling == "without_replacement":
        return ((events.FixedSizeGaussian(z, rate), n_steps),)
    if sampling == "with_replacement":
        if batch is None:
            raise ValueError('sampling="with_replacement" needs batch, the draws of a step.')
        return ((events.WithReplacementGaussian(z, rate, check_count("batch", batch)), n_steps),)
    per_pass = math.floor(min((1 + 1e-12) / rate, _MOST_STEPS))
    return ((events.Gaussian(z), math.ceil(n_steps / per_pass)),)


def _decaying(
    schedule: NoiseSchedule, local_steps: int, steps: events.Composition
) -> events.Composition:
    """Return the releases of as many steps, with noise that decays by a schedule."""
    ((event, n),) = steps
    if not isinstance(event, events.PoissonGaussian | events.FixedSizeGaussian):
        raise ValueError('noise_schedule does not go with sampling="disjoint".')
    whole, rest = divmod(n, check_count("local_steps", local_steps))
    factors = noise_factors(schedule, (local_steps,) * whole + ((rest,) if rest else ()))
    values, counts = np.unique(np.concatenate(factors), return_counts=True)
    z = event.noise_multiplier
    each = zip(values.tolist(), counts.tolist(), strict=True)
    return events.compose((replace(event, noise_multiplier=z * f), c) for f, c in each)


def _whole(n_steps: float) -> int:
    """Return a number of steps, or raise."""
    if check_number("n_steps", n_steps, low=1, high=_MOST_STEPS) % 1:
        raise ValueError(f"n_steps must be an integer; got {n_steps!r}.")
    return int(n_steps)
