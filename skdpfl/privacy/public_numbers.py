"""The public numbers of a plan: what runs and how often, before any mechanism or price.

Mechanisms read their clip norm, noise, weights and rates here;
:class:`skdpfl.privacy.plan.PrivacyPlan` adds the mechanism itself and the prices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._distinct import distinct
from skdpfl.privacy.events import Composition, Protected
from skdpfl.privacy.sampling import Everyone, Sampling
from skdpfl.privacy.schedules import NoiseSchedule, noise_factors

#: A plan has no more steps in all: their noise is listed step by step.
MOST_STEPS = 10_000_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PublicNumbers(Protected):
    """The numbers of a plan, all public; the fields are described in PrivacyPlan."""

    silo_sizes: np.ndarray | None
    delta: np.ndarray
    steps: tuple[int, ...]
    clip_norm: float
    noise_multiplier: np.ndarray
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

    def __post_init__(self) -> None:
        ids = range(len(self.known_sizes)) if self.silo_ids is None else self.silo_ids
        plain = ids.tolist() if isinstance(ids, (np.ndarray, pd.Index)) else ids
        object.__setattr__(self, "silo_ids", tuple(plain))  # any file format can hold it
        if self.weights is None:
            object.__setattr__(self, "weights", np.full(self.n_silos, 1 / self.n_silos))
        if len(self.setup) not in (0, 1, self.n_silos):
            raise ValueError(
                f"setup has one entry for all of the {self.n_silos} silos or one for each; got "
                f"{len(self.setup)}."
            )
        if self.unit == "silo" and self.noise_schedule is not None:
            raise ValueError(
                f"noise_schedule={self.noise_schedule!r} is about the noise on records' gradients; "
                'unit="silo" noises whole messages, all alike: it must be None.'
            )
        if sum(self.steps) > MOST_STEPS:
            raise ValueError(
                f"{len(self.steps):,} rounds of up to {max(self.steps):,} steps are too many: "
                f"a plan lists every step, at most {MOST_STEPS:,}."
            )
        for name in ("noise_multiplier", "delta"):
            value = np.broadcast_to(np.asarray(getattr(self, name), dtype=float), (self.n_silos,))
            object.__setattr__(self, name, value)

    @property
    def n_silos(self) -> int:
        """The number of silos."""
        return len(self.silo_ids)

    def setup_of(self, silo: int) -> Composition:
        """What a silo releases beside the training."""
        if not self.setup:
            return ()
        return self.setup[silo if len(self.setup) > 1 else 0]

    @cached_property
    def setup_codes(self) -> np.ndarray:
        """A number for each silo (n_silos,), the same where what they release beside is."""
        if len(self.setup) <= 1:
            return np.zeros(self.n_silos)
        codes = {each: i for i, each in enumerate(dict.fromkeys(self.setup))}
        return np.array([codes[each] for each in self.setup], dtype=float)

    @property
    def known_sizes(self) -> np.ndarray:
        """The silos' numbers of records, or an error where they are protected."""
        if self.silo_sizes is None:
            raise ValueError('silo_sizes are protected under unit="silo": this plan has none.')
        return self.silo_sizes

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
        """The most records that a step of each silo adds up, shape (n_silos,)."""
        return self._by_size(self.sampling.largest_batch)

    def _by_size(self, number: Callable[[int], float]) -> np.ndarray:
        first, of_silo = distinct(self.known_sizes)
        return np.asarray([number(n) for n in self.known_sizes[first].tolist()])[of_silo]

    @cached_property
    def largest_weight(self) -> float:
        """The largest of the silos' weights."""
        return float(self.weights.max())

    @cached_property
    def weight_in_largest(self) -> float:
        """The weight of all silos in units of the largest weight."""
        return float(self.weights.sum() / self.weights.max())

    @cached_property
    def record_shares(self) -> np.ndarray:
        """How far a record moves the weighted sum of mean gradients, per unit of its gradient."""
        return self.weights / self.expected_sizes

    @cached_property
    def factors(self) -> list[np.ndarray]:
        """For each round, the factors (steps[r],) on the noise multiplier of its steps."""
        return noise_factors(self.noise_schedule, self.steps)

    @cached_property
    def smallest_factor(self) -> float:
        """The smallest factor of the schedule, 1 without one."""
        if self.noise_schedule is None:
            return 1.0
        return min((float(f.min()) for f in self.factors if f.size), default=1.0)

    @cached_property
    def largest_factor(self) -> float:
        """The largest factor of the schedule, 1 without one."""
        if self.noise_schedule is None:
            return 1.0
        return max((float(f.max()) for f in self.factors if f.size), default=1.0)

    def step_numbers(self, round: int) -> range:
        """Return the numbers of a round's steps, counted from the fit's first step on."""
        return range(self._ends[round] - self.steps[round], self._ends[round])

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.steps))

    @cached_property
    def rates(self) -> np.ndarray:
        """The share of its records that a silo's step reads, to 12 digits: equal ones are alike."""
        digits, powers = np.frexp(self.expected_sizes / self.known_sizes)
        return np.ldexp(np.round(digits, 12), powers)

    @cached_property
    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct factors (L,) and how often each silo met each of them (n_silos, L)."""
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
        """The most rounds one silo can take part in, whatever the secret draw was."""
        if self.cohort != "balanced" or self.silo_fraction >= 1:
            return self.n_rounds
        per_round = max(1, round(self.silo_fraction * self.n_silos))
        return min(self.n_rounds, -(-self.n_rounds * per_round // self.n_silos))
