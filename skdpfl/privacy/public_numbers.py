"""The public numbers of a plan, without mechanism and price.

Mechanisms read their clip norm, noise, weights and rates here;
:class:`skdpfl.privacy.plan.PrivacyPlan` adds the mechanism itself and the prices.

**Noise that decays** over the rounds, by the two schemes of Chang, Seif and Tandon (CISS 2022):
with r = 1..R the round and t = 1..K the local step, the variance of a step's noise is ::

    ("round", beta, start)   sigma^2 beta^(r - start)                    for r > start
    ("step", beta, start)    sigma^2 beta^(K (r - start - 1) + t - 1)    for r > start

and sigma^2 up to ``start``. ``noise_factors`` returns the factor on the noise *multiplier* (the
square root), rounded down to at most 64 values on a geometric grid. The fit runs with the rounded
factors, so the price is exactly that of what runs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice, check_rate
from skdpfl.privacy.events import Composition, Guarantee, Guaranteed
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import distinct
from skdpfl.privacy.sampling import Everyone, Sampling, draw_cohorts

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
    """Return the schedule's three numbers, or raise."""
    wanted = "None, ('round', beta, start) or ('step', beta, start)"
    if not isinstance(schedule, (tuple, list)) or len(schedule) != 3:
        raise ValueError(f"noise_schedule must be {wanted}; got {schedule!r}.")
    kind, beta, start = schedule
    check_choice("noise_schedule: kind", kind, ("round", "step"))
    check_rate("noise_schedule: beta", beta)
    if not start >= 0 or start != int(start):
        raise ValueError(f"noise_schedule: start must be an integer >= 0; got {start!r}.")
    return kind, float(beta), int(start)


def _round_down(logs: np.ndarray) -> np.ndarray:
    """Round logarithms <= 0 down to at most MAX_LEVELS equally spaced values."""
    if np.unique(logs).size <= MAX_LEVELS:
        return logs
    spacing = -logs.min() / (MAX_LEVELS - 1)
    return -spacing * np.ceil(np.round(-logs / spacing, 9))


#: what a person's rows in a silo are together
CONTRIBUTIONS = ("mean", "sum")
#: A plan has no more steps in all: their noise is listed step by step.
MOST_STEPS = 10_000_000


class SiloSizes:
    """Base class of what has the silos' ids, and their sizes unless these are protected."""

    silo_ids: Any
    silo_sizes: np.ndarray | None

    @property
    def n_silos(self) -> int:
        """The number of silos."""
        return len(self.silo_ids)

    @property
    def known_sizes(self) -> np.ndarray:
        """The silos' numbers of records, or persons; raises if they are protected."""
        if self.silo_sizes is None:
            raise ValueError('unit="silo" protects silo_sizes: they are not known.')
        return self.silo_sizes


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PublicNumbers(SiloSizes, Guaranteed):
    """The numbers of a plan, all public; the fields are described in PrivacyPlan."""

    silo_sizes: np.ndarray | None
    delta: np.ndarray
    steps: tuple[int, ...]
    clip_norm: float
    noise_multiplier: np.ndarray
    guarantee: Guarantee = field(default_factory=Guarantee)
    sampling: Sampling = field(default_factory=Everyone)
    weights: np.ndarray = None  # type: ignore[assignment]
    schedule: tuple[np.ndarray, ...] | None = None
    cohort: str = "balanced"
    silo_fraction: float = 1.0
    noise_schedule: NoiseSchedule = None
    setup: tuple[Composition, ...] = ()
    gradients_only: bool = False
    size: int | None = None
    silo_ids: Sequence[Any] = None  # type: ignore[assignment]
    spare_rounds: int = 0
    contribution: str = "mean"

    def __post_init__(self) -> None:
        check_choice("contribution", self.contribution, CONTRIBUTIONS)
        ids = range(len(self.known_sizes)) if self.silo_ids is None else self.silo_ids
        plain = ids.tolist() if isinstance(ids, (np.ndarray, pd.Index)) else ids
        object.__setattr__(self, "silo_ids", tuple(plain))  # any file format can hold it
        if self.weights is None:
            object.__setattr__(self, "weights", np.full(self.n_silos, 1 / self.n_silos))
        if len(self.setup) not in (0, 1, self.n_silos):
            raise ValueError(
                f"setup must have one entry for all of the {self.n_silos} silos or one for each; "
                f"got {len(self.setup)}."
            )
        if self.unit == "silo" and self.noise_schedule is not None:
            raise ValueError(
                f"noise_schedule={self.noise_schedule!r} changes the noise on records' gradients; "
                'with unit="silo" whole messages get noise, the same in all rounds, so it must be '
                "None."
            )
        if sum(self.steps) > MOST_STEPS:
            raise ValueError(
                f"{len(self.steps):,} rounds of up to {max(self.steps):,} steps are too many: "
                f"a plan lists every step, at most {MOST_STEPS:,}."
            )
        for name in ("noise_multiplier", "delta"):
            value = np.broadcast_to(np.asarray(getattr(self, name), dtype=float), (self.n_silos,))
            object.__setattr__(self, name, value)
        if self.silos_per_person > 1 and np.ptp(self.delta):
            raise ValueError(
                f"silos_per_person={self.silos_per_person} needs one delta for all silos: a "
                "person's silos share it."
            )

    def setup_of(self, silo: int) -> Composition:
        """The releases of a silo in addition to training."""
        if not self.setup:
            return ()
        return self.setup[silo if len(self.setup) > 1 else 0]

    @cached_property
    def setup_codes(self) -> np.ndarray:
        """Codes (n_silos,) that are equal for silos with equal additional releases."""
        if len(self.setup) <= 1:
            return np.zeros(self.n_silos)
        codes = {each: i for i, each in enumerate(dict.fromkeys(self.setup))}
        return np.array([codes[each] for each in self.setup], dtype=float)

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.steps)

    @cached_property
    def expected_sizes(self) -> np.ndarray:
        """The public normaliser of each silo's steps, shape (n_silos,)."""
        return self._by_size(self.sampling.expected_size)

    @cached_property
    def largest_batches(self) -> np.ndarray:
        """The largest number of records in a step of each silo, shape (n_silos,)."""
        return self._by_size(self.sampling.largest_batch)

    def _by_size(self, number: Callable[[int], float]) -> np.ndarray:
        first, of_silo = distinct(self.known_sizes)
        return np.asarray([number(n) for n in self.known_sizes[first].tolist()])[of_silo]

    @cached_property
    def largest_weight(self) -> float:
        """The largest of the silos' weights."""
        return float(self.weights.max())

    @cached_property
    def total_weight(self) -> float:
        """The sum of the silos' weights."""
        return float(self.weights.sum())

    @cached_property
    def cohort_sizes(self) -> np.ndarray:
        """The numbers of silos in rounds, one for each round that has any."""
        if self.schedule is None:
            return np.full(max(1, self.n_rounds), self.n_silos)
        return np.array([len(silos) for silos in self.schedule if len(silos)] or [1])

    @cached_property
    def excess_of_shares(self) -> float:
        """The noise in a cohort's sum over the priced noise, if silos share it: root mean square.

        Of c shares of std / sqrt(c - t) each, the price counts c - t.
        """
        sizes = self.cohort_sizes
        return math.sqrt(np.mean(sizes / (sizes - self.colluding)))

    @cached_property
    def record_shares(self) -> np.ndarray:
        """The factor of a record's gradient in the weighted sum of mean gradients."""
        return self.weights / self.expected_sizes

    @cached_property
    def factors(self) -> list[np.ndarray]:
        """For each round, the factors (steps[r],) on the noise multiplier of its steps."""
        return noise_factors(self.noise_schedule, self.steps)

    @cached_property
    def factor_range(self) -> tuple[float, float]:
        """The smallest and the largest factor of the schedule, 1 without one."""
        if self.noise_schedule is None or not sum(self.steps):
            return 1.0, 1.0
        every = np.concatenate(self.factors)
        return float(every.min()), float(every.max())

    def cohorts(self, streams: Streams) -> Iterator[np.ndarray]:
        """Draw and yield the silos of each round, as increasing indices."""
        stream = streams.stream("cohorts")
        return draw_cohorts(self.cohort, self.silo_fraction, self.n_silos, self.n_rounds, stream)

    def step_numbers(self, round: int) -> range:
        """Return the numbers of a round's steps, counted from the fit's first step on."""
        return range(self._ends[round] - self.steps[round], self._ends[round])

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.steps))

    @cached_property
    def rates(self) -> np.ndarray:
        """The share of its records that each silo reads in a step, rounded to 12 digits."""
        digits, powers = np.frexp(self.expected_sizes / self.known_sizes)
        return np.ldexp(np.round(digits, 12), powers)

    @cached_property
    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct factors (L,), and the number of steps of each silo with each (n_silos, L).

        Spare rounds may repeat any round of a silo, so they count as the round with least noise.
        """
        values, counts = self._planned_levels
        if self.spare_rounds:
            counts = np.array(counts)
            counts[counts.any(axis=1), 0] += self.spare_rounds
        return values, counts

    @property
    def _planned_levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The levels of the planned rounds, without spare ones; factors increase."""
        if self.unit == "silo":  # one message a round, in the worst case in every round
            return np.ones(1), np.full((self.n_silos, 1), self._most_rounds, dtype=np.int64)
        if self.noise_schedule is None:
            values, per_round = np.ones(1), np.array(self.steps, dtype=np.int64)[:, None]
        else:
            values, codes = np.unique(np.concatenate(self.factors), return_inverse=True)
            per_round = np.zeros((self.n_rounds, len(values)), dtype=np.int64)
            np.add.at(per_round, (np.repeat(np.arange(self.n_rounds), self.steps), codes), 1)
        if self.schedule is None:
            total = per_round.sum(axis=0)
            return values, np.broadcast_to(total, (self.n_silos, len(values)))
        counts = np.zeros((self.n_silos, len(values)), dtype=np.int64)
        for silos, row in zip(self.schedule, per_round, strict=True):
            counts[silos] += row
        return values, counts

    @property
    def _most_rounds(self) -> int:
        """The largest number of rounds that a silo can take part in, for any secret draw."""
        if self.schedule is not None:
            return int(np.bincount(np.concatenate(self.schedule), minlength=1).max())
        if self.cohort != "balanced" or self.silo_fraction >= 1:
            return self.n_rounds
        per_round = max(1, round(self.silo_fraction * self.n_silos))
        return min(self.n_rounds, -(-self.n_rounds * per_round // self.n_silos))
