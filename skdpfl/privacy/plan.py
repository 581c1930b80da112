"""The plan: everything that decides privacy, written once, executed by the engine and priced here.

A :class:`PrivacyPlan` holds public numbers only. The engine reads clip norm, noise, rates and
schedule from it; :meth:`PrivacyPlan.spent` prices the very same object; calibration returns
another plan. It is committed to before any data are touched: a fit that stops early is charged for
all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

import numpy as np
import pandas as pd

from skdpfl.privacy.events import Composition
from skdpfl.privacy.mechanisms import Mechanism, NoPrivacy, mechanism_for
from skdpfl.privacy.planned.least_noise import allowed, least_noise
from skdpfl.privacy.planned.outsider import outsider_multipliers
from skdpfl.privacy.planned.releases import Groups, dearest, groups_of, levels_of
from skdpfl.privacy.pricing.price import Neighbours
from skdpfl.privacy.sampling import Everyone, Sampling
from skdpfl.privacy.schedules import NoiseSchedule, noise_factors
from skdpfl.privacy.spending.spent import PrivacySpent, Trust, Unit


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyPlan:
    """What will run, in public numbers.

    Parameters
    ----------
    silo_sizes : ndarray of int, shape (n_silos,), or None
        The silos' numbers of records; None where they are protected (unit "silo").
    steps : tuple of int
        For each round, how many private gradients a silo takes that takes part in it.
    clip_norm : float
        The norm a record's gradient (unit "record") or a silo's message (unit "silo") is cut to;
        in the first round, if the mechanism learns it.
    noise_multiplier : ndarray of shape (n_silos,)
        The noise on a silo's clipped sum over the clip norm, before the schedule's factors.
    delta : ndarray of shape (n_silos,)
        Each silo's delta.
    unit, trust, neighbours : str
        What is protected, against whom, under which relation.
    sampling : Sampling
        How records are drawn in each step.
    weights : ndarray of shape (n_silos,), optional
        The silos' public weights, summing to one; by default equal.
    schedule : tuple of int arrays, optional
        The silos that take part in each round (unit "record"); None means all of them.
    cohort, silo_fraction : str and float
        How cohorts are drawn; for unit "silo" the engine draws them secretly by these.
    noise_schedule : tuple, optional
        Decaying noise, see :mod:`skdpfl.privacy.schedules`.
    setup : Composition
        What every silo released before training (scales).
    gradients_only : bool
        True if the algorithm releases only cohorts' sums of fresh gradients.
    silo_ids : sequence, optional
        The silos' names; by default 0, 1, ... Without ``silo_sizes`` they say how many there are.
    mechanism : Mechanism
        Where the noise is; chosen by unit and trust unless given.

    Examples
    --------
    >>> from skdpfl import DPScaffoldClassifier
    >>> clf = DPScaffoldClassifier(epsilon=1.0, local_steps=10, scaling=None)
    >>> plan = clf.plan_for(silo_sizes=[500, 500, 1000], n_features=20)
    >>> plan.n_rounds, plan.steps[0], plan.delta[0]
    (10, 10, np.float64(1e-05))
    >>> plan.spent().epsilon <= 1.0
    True

    See Also
    --------
    skdpfl.privacy.epsilon_of : The price of steps without a plan.
    """

    silo_sizes: np.ndarray | None
    steps: tuple[int, ...]
    clip_norm: float
    noise_multiplier: np.ndarray
    delta: np.ndarray
    unit: Unit = "record"
    trust: Trust = "silo"
    neighbours: Neighbours = "replace"
    sampling: Sampling = field(default_factory=Everyone)
    weights: np.ndarray = None  # type: ignore[assignment]
    schedule: tuple[np.ndarray, ...] | None = None
    cohort: str = "balanced"
    silo_fraction: float = 1.0
    noise_schedule: NoiseSchedule = None
    setup: Composition = ()
    gradients_only: bool = False
    silo_ids: pd.Index = None  # type: ignore[assignment]
    mechanism: Mechanism = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.silo_ids is None:
            object.__setattr__(self, "silo_ids", pd.RangeIndex(len(self.known_sizes)))
        if self.weights is None:
            object.__setattr__(self, "weights", np.full(self.n_silos, 1 / self.n_silos))
        if self.mechanism is None:
            object.__setattr__(self, "mechanism", mechanism_for(self.unit, self.trust))
        if self.unit == "silo" and self.noise_schedule is not None:
            raise ValueError(
                f"noise_schedule={self.noise_schedule!r} is about the noise on records' gradients; "
                'unit="silo" noises whole messages, all alike: it must be None.'
            )
        for name in ("noise_multiplier", "delta"):
            value = np.broadcast_to(np.asarray(getattr(self, name), dtype=float), (self.n_silos,))
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"PrivacyPlan({self.n_silos} silos, {self.n_rounds} rounds)"

    @property
    def n_silos(self) -> int:
        """The number of silos."""
        return len(self.silo_ids)

    @property
    def known_sizes(self) -> np.ndarray:
        """The silos' numbers of records, or an error where they are protected."""
        if self.silo_sizes is None:
            raise ValueError('silo_sizes are protected under unit="silo": this plan has none.')
        return self.silo_sizes

    def with_sizes(self, silo_sizes: np.ndarray) -> PrivacyPlan:
        """Return the plan as the silos run it, who know their sizes; it never leaves them."""
        return replace(self, silo_sizes=silo_sizes)

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.steps)

    @property
    def private(self) -> bool:
        """False for a plan that adds no noise at all."""
        return not isinstance(self.mechanism, NoPrivacy)

    @property
    def secret_cohorts(self) -> bool:
        """Whether who takes part in a round, and how many, must not be seen."""
        return self.private and self.unit == "silo" and self.trust == "server"

    @property
    def secret_sizes(self) -> bool:
        """Whether a silo's size must not be seen, be it by the last bits of others' messages."""
        return self.private and self.unit == "silo"

    @cached_property
    def expected_sizes(self) -> np.ndarray:
        """The public normaliser of each silo's steps, shape (n_silos,)."""
        return self._by_size(self.sampling.expected_size)

    @cached_property
    def largest_batches(self) -> np.ndarray:
        """The most records that a step of each silo adds up, shape (n_silos,)."""
        return self._by_size(self.sampling.largest_batch)

    def _by_size(self, number: Callable[[int], float]) -> np.ndarray:
        sizes, of_silo = np.unique(self.known_sizes, return_inverse=True)
        return np.asarray([number(n) for n in sizes.tolist()])[of_silo]

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
        return min((float(f.min()) for f in self.factors if f.size), default=1.0)

    @cached_property
    def largest_factor(self) -> float:
        """The largest factor of the schedule, 1 without one."""
        return max((float(f.max()) for f in self.factors if f.size), default=1.0)

    def step_numbers(self, round: int) -> range:
        """Return the numbers of a round's steps, counted from the fit's first step on."""
        return range(self._ends[round] - self.steps[round], self._ends[round])

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.steps))

    # ---- what was released -------------------------------------------------------------------

    @cached_property
    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct factors (L,) and how often each silo met each of them (n_silos, L)."""
        return levels_of(self)

    @cached_property
    def rates(self) -> np.ndarray:
        """The share of its records that a silo's step reads: all its size matters for."""
        return np.round(self.expected_sizes / self.known_sizes, 12)

    def groups(self, z: np.ndarray | None = None) -> Groups:
        """Return what was released, group by group; ``z`` replaces the noise multipliers."""
        return groups_of(self, self.noise_multiplier if z is None else z)

    # ---- prices ------------------------------------------------------------------------------

    def spent(
        self, *, assignment: str | None = None, simulation_seed: int | None = None
    ) -> PrivacySpent:
        """Price the plan.

        Parameters
        ----------
        assignment : str, default=None
            A digest of which record is in which silo.
        simulation_seed : int, default=None
            The integer seed, if the noise comes from one.

        Returns
        -------
        PrivacySpent
            The guarantee of the whole plan, also if fewer rounds are run.
        """
        most = float(self.delta.max())
        names = self.silo_ids.tolist() if self.unit == "record" else None
        if not self.private:
            return PrivacySpent.exact(
                unit=self.unit,
                trust=self.trust,
                neighbours=self.neighbours,
                delta=most,
                silo_ids=names,
                n_releases=sum(self.steps),
            )
        groups, outsider = self.groups(), outsider_multipliers(self)
        return PrivacySpent.from_compositions(
            unit=self.unit,
            trust=self.trust,
            neighbours=self.neighbours,
            delta=most,
            compositions=groups.compositions,
            group_deltas=self.delta[groups.first].tolist(),
            silo_ids=names,
            group_of_silo=groups.of_silo.tolist() if names else None,
            outsider_compositions=None if outsider is None else dearest(self, outsider),
            noise_multiplier=self._least_noise if self.mechanism.gaussian else None,
            n_releases=int(self.levels[1].sum(axis=1).max()),
            assignment=assignment,
            simulation_seeds=frozenset(() if simulation_seed is None else (simulation_seed,)),
        )

    @property
    def _least_noise(self) -> float:
        return float(self.noise_multiplier.min()) * self.smallest_factor

    # ---- calibration -------------------------------------------------------------------------

    def with_noise(self, noise_multiplier: float | np.ndarray) -> PrivacyPlan:
        """Return the same plan with other noise (one multiplier, or one a silo).

        Parameters
        ----------
        noise_multiplier : float or ndarray of shape (n_silos,)
            The noise on a clipped sum over the clip norm.

        Returns
        -------
        PrivacyPlan
            Another one; plans never change.
        """
        return replace(self, noise_multiplier=allowed(self, noise_multiplier))

    def calibrated(self, epsilon: float | np.ndarray) -> PrivacyPlan:
        """Return the plan with the least noise whose price is at most ``epsilon``.

        One number gives all silos the same multiplier, that of the silo that would pay most;
        an array gives each silo its own.

        Parameters
        ----------
        epsilon : float or ndarray of shape (n_silos,)
            The budget, or each silo's own.

        Returns
        -------
        PrivacyPlan
            Another one; plans never change.
        """
        return self.with_noise(least_noise(self, epsilon))
