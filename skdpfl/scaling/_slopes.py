"""Asking silos for the slopes that the temperature follows from, once a model is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms import is_vector
from skdpfl.federation import Federation, Question, SiloData, Work
from skdpfl.losses import loss_for
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._temperature import EVALUATIONS, TemperaturePlan, slope_terms

#: records of a silo whose raw predictions are held at once
_BLOCK = 2**12


class Slope(NamedTuple):
    """Where the slope is asked for: a model, and the factor on its raw predictions."""

    params: np.ndarray
    factor: float


@dataclass(frozen=True, eq=False)
class SlopeQuestion(Question):
    """Each silo's noised sum of terms; exact where the server adds the noise."""

    plan: TemperaturePlan
    work: Work
    params: np.ndarray
    factor: float
    number: int
    purpose = "temperature"

    @property
    def asked(self) -> Slope:
        return Slope(self.params, self.factor)

    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        here, work = np.flatnonzero(data.sizes), self.work
        maps = work.features, work.target, work.target_dtype, work.class_weights
        mapped = data.mapped(*maps)
        exact = slope_sums(mapped, work, self.params, self.factor, self.plan.cut)[here]
        yield here, self.plan.answers(here, exact, streams, self.number)[:, None]


def slope_question(plan: TemperaturePlan, work: Work, number: int, asked: object) -> SlopeQuestion:
    """Return a question that somebody else asks, if it is one of the plan's; raise otherwise."""
    known = isinstance(asked, Slope) and is_vector(asked.params, work.model.size)
    if not known or number not in range(EVALUATIONS):
        raise ValueError(f"The plan has no question about slopes of the number {number!r}.")
    assert isinstance(asked, Slope)
    return SlopeQuestion(plan, work, asked.params, asked.factor, number)


def slope_sums(
    data: SiloData, work: Work, params: np.ndarray, factor: float, cut: float
) -> np.ndarray:
    """Return each silo's sum of terms (n_silos,), not noised; see `skdpfl.scaling._temperature`.

    A silo's terms are computed from blocks of its own records.
    """
    params, sums = work.model.rescaled(params, factor), np.zeros(len(data.sizes))
    for i, size in enumerate(data.sizes.tolist()):
        for start in range(0, size, _BLOCK):
            X, y = data.at(data.rows_of(i, slice(start, min(start + _BLOCK, size))), work.dtype)
            raw = work.model.raw(params, X)
            slopes = (loss_for(work.loss, y).gradient(y, raw) * raw).sum(axis=-1)
            sums[i] += slope_terms(slopes, cut).sum()
    return sums


def find_factor(
    plan: TemperaturePlan,
    federation: Federation,
    work: Work,
    params: np.ndarray,
    streams: Streams,
    walk: float,
) -> float:
    """Return what a trained model's raw predictions are to be multiplied by."""

    def ask(factor: float, number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return federation.ask(SlopeQuestion(plan, work, params, factor, number))

    mask = work.model.output_mask()
    scaled = work.penalty if mask is None else work.penalty * mask
    penalty = float(np.square(params, dtype=np.float64) @ scaled)
    return plan.find(ask, streams, walk, penalty)
