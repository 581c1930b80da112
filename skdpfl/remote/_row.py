"""One silo's row of a plan, which is all that it needs and what it prices for itself.

A silo runs the plan of a federation of one, itself: where each silo adds its own noise, nothing
that it computes depends on others but through what the server broadcasts. So its messages are those
of the whole plan, bit for bit where the data are float64. (For float32 the precision of sums
follows from the silos' sizes; a silo chooses it for itself.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdpfl.privacy.events import Neighbours, Trust, Unit, compose
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.sampling import Disjoint, PoissonSampling, Sampling, WithoutReplacement
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote._terms import Refused
from skdpfl.scaling import CalibrationPlan, LinearGrid, MagnitudeGrid, ScalingPlan

#: bins of counts are no narrower than this many octaves
_NARROWEST = 2.0**-6
#: the most bins of a target
_MOST_BINS = 64


@dataclass(frozen=True, eq=False)
class Row:
    """The public numbers of one silo in a plan, and what it is asked beside the rounds.

    ``size`` is None where it is the silo's secret, ``rounds`` None where it is in all of them.
    """

    name: str
    size: int | None
    steps: tuple[int, ...]
    clip_norm: float
    noise_multiplier: float
    delta: float
    unit: Unit
    trust: Trust
    neighbours: Neighbours
    sampling: Sampling
    rounds: tuple[int, ...] | None
    cohort: str
    noise_schedule: tuple[str, float, int] | None
    mechanism: Mechanism
    scales: ScalingPlan | None
    calibration: CalibrationPlan | None

    def __post_init__(self) -> None:
        _check_numbers(self)
        if self.scales is not None:
            _check_scales(self.scales, self)
        if self.calibration is not None:
            setting = self.calibration.setting
            _check(setting.n_silos == 1 and _agrees(setting, self) and setting.every == 1)
            _check(self.unit == "record")

    def spent(self, seed: int | None) -> PrivacySpent:
        """Price the plan, as this silo does for itself."""
        return self.plan.spent(simulation_seed=seed)

    def check(self, n_features: int, n_classes: int | None) -> None:
        """Raise unless the row is one for these records."""
        if self.scales is not None and self.scales.n_features != n_features:
            raise Refused("The plan of the scales is for another number of features.")

    @cached_property
    def plan(self) -> PrivacyPlan:
        """The plan of a federation of this silo alone; what it is asked beside is its ``setup``."""
        parts = [part for part in (self.scales, self.calibration) if part is not None]
        setup = compose([each for part in parts for each in part.composition(0)])
        schedule = None
        if self.rounds is not None:
            mine = set(self.rounds)
            own, none = np.zeros(1, int), np.zeros(0, int)
            schedule = tuple(own if r in mine else none for r in range(len(self.steps)))
        return PrivacyPlan(
            silo_ids=(self.name,),
            silo_sizes=None if self.size is None else np.array([self.size]),
            steps=self.steps,
            clip_norm=self.clip_norm,
            noise_multiplier=np.array([self.noise_multiplier]),
            delta=np.array([self.delta]),
            unit=self.unit,
            trust=self.trust,
            neighbours=self.neighbours,
            sampling=self.sampling,
            schedule=schedule,
            cohort=self.cohort,
            noise_schedule=self.noise_schedule,
            setup=(setup,) if setup else (),
            mechanism=self.mechanism,
        )


def rows_of(
    plan: PrivacyPlan, scales: ScalingPlan | None, calibration: CalibrationPlan | None
) -> list[Row]:
    """Return each silo's row of a plan; plans that silos elsewhere cannot run are refused."""
    _check_can_run(plan)
    rounds: list[list[int]] = [[] for _ in range(plan.n_silos)]
    for r, cohort in enumerate(plan.schedule or ()):
        for i in cohort.tolist():
            rounds[i].append(r)
    return [
        Row(
            name=plan.silo_ids[i],
            size=None if plan.silo_sizes is None else int(plan.silo_sizes[i]),
            steps=tuple(plan.steps),
            clip_norm=float(plan.clip_norm),
            noise_multiplier=float(plan.noise_multiplier[i]),
            delta=float(plan.delta[i]),
            unit=plan.unit,
            trust=plan.trust,
            neighbours=plan.neighbours,
            sampling=plan.sampling,
            rounds=None if plan.schedule is None else tuple(rounds[i]),
            cohort=plan.cohort,
            noise_schedule=plan.noise_schedule,
            mechanism=plan.mechanism,
            scales=None if scales is None or scales.is_free else scales.of_silo(i),
            calibration=None if calibration is None else calibration.of_silo(i),
        )
        for i in range(plan.n_silos)
    ]


def _check_can_run(plan: PrivacyPlan) -> None:
    """Raise for plans whose guarantee needs more than a silo and its own noise."""
    if not plan.private:
        raise Refused(
            "epsilon=inf gives out exact numbers of each silo; silos elsewhere send noised ones "
            "only. Give a finite epsilon (a large one adds little noise)."
        )
    if not (plan.noise_multiplier > 0).all():
        raise Refused("Each silo elsewhere adds noise: give every silo a finite epsilon.")
    if plan.trust != "silo":
        raise Refused(
            f"trust={plan.trust!r} needs {'a shuffler' if plan.trust == 'shuffler' else 'a sum'} "
            "that nobody can look into; silos elsewhere would send exact numbers to the server. "
            'Give trust="silo": each silo then adds its own noise.'
        )
    if plan.unit == "silo" and plan.silo_fraction < 1:
        raise Refused(
            'With unit="silo" all silos elsewhere take part in every round, because who is chosen '
            "is a secret that messages would tell. Give silo_fraction=1.0."
        )


def _check(holds: object) -> None:
    if not holds:
        raise Refused("The row of the plan holds numbers that do not belong together.")


def _check_numbers(row: Row) -> None:
    """Raise unless each number is in its range: what is priced must be what runs."""
    n_rounds = len(row.steps)
    _check(n_rounds and all(k >= 1 for k in row.steps))
    _check(row.unit == "silo" if row.size is None else row.unit == "record" and row.size >= 1)
    _check(0 < row.clip_norm < math.inf and 0 < row.delta < 1)
    _check(0 < row.noise_multiplier < math.inf)
    if row.rounds is not None:
        _check(all(a < b for a, b in zip((-1, *row.rounds), (*row.rounds, n_rounds), strict=True)))
        _check(row.unit == "record")
    _check(row.trust == "silo" and row.mechanism.serves == (row.unit, row.trust))
    _check_sampling(row)


def _check_sampling(row: Row) -> None:
    """Raise unless batches can be drawn in every step that the silo is in."""
    sampling = row.sampling
    if isinstance(sampling, PoissonSampling | WithoutReplacement):
        _check(0 < sampling.rate <= 1)
    if isinstance(sampling, Disjoint):
        own = range(len(row.steps)) if row.rounds is None else row.rounds
        size = math.inf if row.size is None else row.size
        _check(sum(row.steps[r] for r in own) <= sampling.n_parts <= size)


def _agrees(setting: object, row: Row) -> bool:
    """Whether a setting of questions is that of the row."""
    s = setting
    same = (s.unit, s.trust, s.neighbours) == (row.unit, row.trust, row.neighbours)  # type: ignore[attr-defined]
    mu, sizes = s.mu, s.silo_sizes  # type: ignore[attr-defined]
    same_size = row.size is None or sizes.tolist() == [row.size]
    return same and same_size and mu.shape == sizes.shape == (1,) and bool(0 < mu[0] < math.inf)


def _check_scales(plan: ScalingPlan, row: Row) -> None:
    """Raise unless the releases' sensitivities, which follow from these numbers, are theirs."""
    setting = plan.setting
    _check(setting.n_silos == 1 and _agrees(setting, row))
    _check(setting.every >= 1 and (setting.most is None or setting.most >= 1))
    _check(plan.n_features >= 1)
    for bounds in (plan.feature_bounds,):
        if bounds is not None:
            _check(bounds.low.shape == bounds.high.shape == (plan.n_features,))
    counts = () if plan.counts is None else (plan.counts,)
    for release in counts:
        _check(isinstance(release.grid, MagnitudeGrid) and release.grid.octaves >= _NARROWEST)
        _check(release.ball is None)  # its sensitivity is not that of counts
    if plan.target_bins is not None:
        grid = plan.target_bins.grid
        _check(isinstance(grid, LinearGrid) and 2 <= grid.n_bins <= _MOST_BINS)
        _check(plan.reads_target and plan.counts is None and plan.target_bins.ball is None)
    for release in plan.moments:
        _check(release.grid is None)
        _check(release.ball is None or release.ball.n_features == plan.is_feature.sum())
    _check(all(0 < release.share <= 1 for release in plan.releases))
