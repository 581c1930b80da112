"""Noise that decays over the rounds: the two schemes of Chang, Seif and Tandon (CISS 2022).

With r = 1..R the round and t = 1..K the local step, the variance of a step's noise is

    ("round", beta, start)   sigma^2 beta^(r - start)                    for r > start
    ("step", beta, start)    sigma^2 beta^(K (r - start - 1) + t - 1)    for r > start

and sigma^2 up to ``start``. What is returned is the factor on the noise *multiplier* (the square
root), rounded down to at most 64 values on a geometric grid. The rounded factors are the ones that
run, so that what is priced is exactly what ran.
"""

from __future__ import annotations

import numpy as np

MAX_LEVELS = 64

#: None, or (kind, beta, start)
NoiseSchedule = tuple[str, float, int] | None


def noise_factors(schedule: NoiseSchedule, steps: tuple[int, ...]) -> list[np.ndarray]:
    """Return, for each round, the factors (steps[r],) on the noise multiplier of its steps."""
    if schedule is None:
        ones = {k: np.ones(k) for k in set(steps)}
        return [ones[k] for k in steps]
    kind, beta, start = check_schedule(schedule)
    exponents = []
    done = 0  # decayed steps so far
    for r, k in enumerate(steps, start=1):
        late = r > start
        if kind == "round":
            exponents.append(np.full(k, max(0, r - start), dtype=float))
        else:
            exponents.append((done + np.arange(k)) * float(late))
            done += k if late else 0
    flat = np.concatenate(exponents) if exponents else np.zeros(0)
    rounded = _round_down(flat * (0.5 * np.log(beta)))
    return np.split(np.exp(rounded), np.cumsum(steps)[:-1])


def check_schedule(schedule: NoiseSchedule) -> tuple[str, float, int]:
    """Return the schedule's three numbers, or say what is wrong with them."""
    wanted = "None, ('round', beta, start) or ('step', beta, start)"
    if not isinstance(schedule, (tuple, list)) or len(schedule) != 3:
        raise ValueError(f"noise_schedule must be {wanted}; got {schedule!r}.")
    kind, beta, start = schedule
    if kind not in ("round", "step"):
        raise ValueError(f"noise_schedule must be {wanted}; got the kind {kind!r}.")
    if not 0 < beta <= 1:
        raise ValueError(f"noise_schedule: beta must be in (0, 1]; got {beta!r}.")
    if not start >= 0 or start != int(start):
        raise ValueError(f"noise_schedule: start must be an integer >= 0; got {start!r}.")
    return kind, float(beta), int(start)


def _round_down(logs: np.ndarray) -> np.ndarray:
    """Round logarithms <= 0 down to at most MAX_LEVELS equally spaced values."""
    if np.unique(logs).size <= MAX_LEVELS:
        return logs
    spacing = -logs.min() / (MAX_LEVELS - 1)
    return -spacing * np.ceil(np.round(-logs / spacing, 9))
