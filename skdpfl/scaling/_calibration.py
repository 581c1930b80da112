"""Asking silos for the sums that a calibration follows from, once a model is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms import is_vector
from skdpfl.federation import Federation, Question, SiloData, Work
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._shift import ShiftPlan, below_terms
from skdpfl.scaling._temperature import TemperaturePlan, centred_slopes, slope_terms

#: records of a silo whose raw predictions are held at once
_BLOCK = 2**12

CalibrationPlan = TemperaturePlan | ShiftPlan


class Slope(NamedTuple):
    """Where slopes are asked for: a model, and the factor on its raw predictions."""

    params: np.ndarray
    factor: float


class Below(NamedTuple):
    """What targets are compared with: a model's raw predictions plus a shift."""

    params: np.ndarray
    shift: float


class Calibrated(NamedTuple):
    """A model's parameters after calibration, and what was found.

    ``error`` is the standard deviation of the parameters along ``direction`` that the noise of the
    releases gives them.
    """

    params: np.ndarray
    factor: float = 1.0
    shift: float = 0.0
    error: float = 0.0
    direction: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class CalibrationQuestion(Question):
    """Each silo's noised sum of terms; exact where the server adds the noise."""

    plan: CalibrationPlan
    work: Work
    where: Slope | Below
    number: int

    @property
    def purpose(self) -> str:  # type: ignore[override]
        return self.plan.purpose

    @property
    def asked(self) -> Slope | Below:
        return self.where

    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        here, work = np.flatnonzero(data.sizes), self.work
        maps = work.features, work.target, work.target_dtype, work.class_weights
        mapped = data.mapped(*maps)
        exact = sums_of_terms(mapped, work, self.where, self.plan.cut)[here]
        yield here, self.plan.answers(here, exact, streams, self.number)[:, None]


def calibration_question(
    plan: CalibrationPlan, work: Work, number: int, asked: object
) -> CalibrationQuestion:
    """Return a question that somebody else asks, if it is one of the plan's; raise otherwise."""
    kind = Slope if isinstance(plan, TemperaturePlan) else Below
    known = isinstance(asked, kind) and is_vector(asked.params, work.model.size)
    if not known or number not in range(plan.evaluations):
        raise ValueError(f"The plan has no question about the {plan.purpose} {number!r}.")
    assert isinstance(asked, Slope | Below)
    return CalibrationQuestion(plan, work, asked, number)


def sums_of_terms(data: SiloData, work: Work, asked: Slope | Below, cut: float) -> np.ndarray:
    """Return each silo's sum of terms (n_silos,), not noised; see the modules of the plans.

    A silo's terms are computed from blocks of its own records. Weights of records are part of
    slopes; counts ignore them.
    """
    params, sums, work = asked.params, np.zeros(len(data.sizes)), work.apart()
    if isinstance(asked, Slope):
        params = work.model.rescaled(params, asked.factor)
    for i, size in enumerate(data.sizes.tolist()):
        for start in range(0, size, _BLOCK):
            X, y = data.at(data.rows_of(i, slice(start, min(start + _BLOCK, size))), work.dtype)
            raw = work.model.raw(params, X)
            targets, weights = (y, 1.0) if y.dtype.names is None else (y["target"], y["weight"])
            if isinstance(asked, Slope):
                slopes = (work.loss.gradient(targets, raw) * raw).sum(axis=-1)
                slopes = centred_slopes(raw, slopes, cut) * weights
                sums[i] += slope_terms(slopes, cut).sum()
            else:
                sums[i] += below_terms(targets, raw[:, 0], asked.shift).sum()
    return sums


def calibrated(
    plan: CalibrationPlan,
    federation: Federation,
    work: Work,
    params: np.ndarray,
    streams: Streams,
    walk: float = 0.0,
) -> Calibrated:
    """Return a trained model after calibration; ``walk``: how far noise moves its predictions."""

    def ask(value: float, number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        kind = Slope if isinstance(plan, TemperaturePlan) else Below
        return federation.ask(CalibrationQuestion(plan, work, kind(params, value), number))

    if isinstance(plan, ShiftPlan):
        trained, intercept = work.loss.quantile_level, work.model.intercept_mask()
        assert trained is not None
        assert intercept is not None
        shift, error = plan.find(ask, streams, trained)
        moved = params + (shift * intercept).astype(params.dtype)
        return Calibrated(moved, shift=shift, error=error, direction=intercept)
    mask = work.model.output_mask()
    scaled = work.penalty if mask is None else work.penalty * mask
    penalty = float(np.square(params, dtype=np.float64) @ scaled)
    factor = plan.find(ask, streams, walk, penalty)
    rescaled = work.model.rescaled(params, factor)
    return Calibrated(rescaled, factor, error=plan.noise_of_logarithm, direction=rescaled)
