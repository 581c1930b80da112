"""The plan: all numbers that determine privacy, read by the engine and by the accountant.

A :class:`PrivacyPlan` holds public numbers only. The engine reads clip norm, noise, rates and
schedule from it; :meth:`PrivacyPlan.spent` prices the same object; calibration returns another
plan. It is fixed before any data are read: a fit that stops early is charged for the whole plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skdpfl.privacy import silo_releases
from skdpfl.privacy.events import Exact
from skdpfl.privacy.mechanisms import Mechanism, NoPrivacy, mechanism_for
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.spending.spent import PrivacySpent


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PrivacyPlan(PublicNumbers):
    """The public numbers of a fit.

    Parameters
    ----------
    silo_sizes : ndarray of int, shape (n_silos,), or None
        The silos' numbers of records (unit "person": of persons); None if they are protected (unit
        "silo").
    steps : tuple of int
        For each round, the number of private gradients of a participating silo.
    clip_norm : float
        The clip norm of a record's (a person's) gradient, or of a silo's message (unit "silo");
        in the first round, if the mechanism learns it.
    noise_multiplier : ndarray of shape (n_silos,)
        The noise on a silo's clipped sum over the clip norm, before the schedule's factors.
    delta : ndarray of shape (n_silos,)
        Each silo's delta.
    guarantee : Guarantee, optional
        Who is protected, against whom, and under which relation; by default records, with the
        noise of their own silo. Its words are attributes of the plan, too.
    sampling : Sampling
        How records are drawn in each step.
    weights : ndarray of shape (n_silos,), optional
        The silos' public weights, summing to one; by default equal.
    schedule : tuple of int arrays, optional
        The silos that take part in each round (not for unit "silo"); None means all of them.
    cohort, silo_fraction : str and float
        How cohorts are drawn; for unit "silo" the engine draws them secretly.
    noise_schedule : tuple, optional
        Decaying noise, see :mod:`skdpfl.privacy.public_numbers`.
    setup : tuple of Composition
        The releases of silos in addition to training (scales, calibration): one entry for
        all silos, or one for each; (): none.
    gradients_only : bool
        True if the algorithm releases only cohorts' sums of fresh gradients.
    size : int, optional
        The number of coordinates of a message, if its price depends on it.
    silo_ids : sequence, optional
        The silos' ids; by default 0, 1, ... Required without ``silo_sizes``.
    spare_rounds : int
        With ``trust="secagg"``: how many failed rounds may be repeated; see
        :class:`skdpfl.privacy.SecureAggregation`.
    contribution : {"mean", "sum"}
        With unit "person": what is clipped, the mean or the sum of the gradients of a person's rows
        in a silo.
    noise_of_sum : float, optional
        With ``trust="secagg"``: the noise on a cohort's weighted sum without the colluding silos'
        shares, over ``clip_norm``. By default it follows from the multipliers; plans of some of the
        silos state it, since all silos need the same.
    mechanism : Mechanism
        The mechanism; by default the one for unit and trust.
    expected_width : float, optional
        With ``inference="intervals"``: the expected width of 95 % intervals of standardised
        features (:func:`skdpfl.inference.expected_width`). No price depends on it.
    shares : tuple of (str, float)
        The part of the budget's mu squared for each purpose: levels, ranges, scales, ..., and
        rounds, the rest; () if rounds have all. No price depends on it.

    Examples
    --------
    >>> from skdpfl import DPScaffoldClassifier
    >>> clf = DPScaffoldClassifier(epsilon=1.0, local_steps=10, scaling=None)
    >>> plan = clf.plan_for(silo_sizes=[500, 500, 1000], n_features=20)
    >>> plan.n_rounds, plan.steps[0], plan.delta[0]
    (40, 10, np.float64(1e-05))
    >>> plan.spent().epsilon <= 1.0
    True

    See Also
    --------
    skdpfl.privacy.epsilon_of : The price of steps without a plan.
    """

    mechanism: Mechanism = None  # type: ignore[assignment]
    expected_width: float | None = None
    shares: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.mechanism is None:
            object.__setattr__(self, "mechanism", mechanism_for(self.unit, self.trust))
        super().__post_init__()
        self.mechanism.check(self)

    def __repr__(self) -> str:
        return f"PrivacyPlan({self.n_silos} silos, {self.n_rounds} rounds)"

    @property
    def private(self) -> bool:
        """False for a plan that adds no noise at all."""
        return not isinstance(self.mechanism, NoPrivacy)

    @cached_property
    def secret_cohorts(self) -> bool:
        """Whether the cohort of a round and its size are secret."""
        return self.private and self.unit == "silo" and self.trust == "server"

    def groups(self) -> silo_releases.SiloGroups:
        """Return the groups of silos with equal releases."""
        return silo_releases.groups_of(self, self.mechanism, self.noise_multiplier)

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
            The cost of the whole plan, even if fewer rounds run.
        """
        most = float(self.delta.max())
        names = self.silo_ids if self.unit != "silo" else None
        if not self.private:
            return PrivacySpent.from_compositions(
                self.guarantee,
                delta=most,
                compositions=[((Exact(), 1),)],
                silo_ids=names,
                group_of_silo=[0] * self.n_silos,
                noise_multiplier=0.0,
                n_releases=sum(self.steps),
            )
        groups = self.groups()
        seen = silo_releases.outsider_multipliers(self) if self.mechanism.fresh_noise else None
        outsider = None if seen is None else silo_releases.costliest(self, self.mechanism, seen)
        before = max((sum(n for _, n in releases) for releases in self.setup), default=0)
        return PrivacySpent.from_compositions(
            self.guarantee,
            delta=most,
            compositions=groups.compositions,
            group_deltas=self.delta[groups.first].tolist(),
            silo_ids=names,
            group_of_silo=groups.of_silo.tolist() if names else None,
            outsider_compositions=outsider,
            noise_multiplier=self._stated_noise,
            n_releases=self.mechanism.n_releases(self) + before,
            assignment=assignment,
            simulation_seeds=frozenset(() if simulation_seed is None else (simulation_seed,)),
            shares=self.shares,
        )

    @property
    def _stated_noise(self) -> float | None:
        """The common noise multiplier in the round with the least; None if silos differ."""
        alike = bool((self.noise_multiplier == self.noise_multiplier[0]).all())
        if not self.mechanism.gaussian or not alike:
            return None
        return float(self.noise_multiplier[0]) * self.factor_range[0]

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
        return replace(
            self, noise_multiplier=silo_releases.allowed(self, self.mechanism, noise_multiplier)
        )

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
        return replace(
            self, noise_multiplier=silo_releases.least_noise(self, self.mechanism, epsilon)
        )
