"""The records of a fit where all silos are in this process, and what a fit asks them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdpfl.algorithms import Algorithm
from skdpfl.choosing import Committed, Facts, ScalingStep, Training, with_curvature
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import IdentityScaling, Scales, TemperaturePlan, slope_terms
from skdpfl.silos import Silos

#: records of a silo whose raw predictions are held at once
_BLOCK = 2**12


class LocalData(NamedTuple):
    """Validated records: features, coded targets, each record's silo; and their public numbers.

    After reading, a fit knows ``facts`` only. What it has to know of the records it asks here:
    scales (noised, paid for by the plan), curvatures (where nothing is hidden), and rounds.
    """

    X: np.ndarray
    y: np.ndarray
    silos: Silos
    facts: Facts

    @property
    def dtype(self) -> np.dtype:
        """The precision that the rounds compute in."""
        return self.X.dtype

    def assignment(self) -> str:
        """Return a digest of which record is in which silo."""
        return self.silos.digest()

    def scales(self, step: ScalingStep, streams: Streams) -> Scales:
        """Return the scales of features and target, as they were planned."""
        return step.find(self.X, self.y, self.silos, streams)

    def curvature(self, scales: Scales, committed: Committed, algorithm: Algorithm) -> Committed:
        """Return what is known with the data's own curvature; only where nothing is hidden."""
        highest = float(scales.target.transform(self.y.max()))
        committed = replace(committed, largest_target=highest)
        return with_curvature(committed, algorithm, self.X, self.silos, scales)

    def federation(self, scales: Scales, streams: Streams, n_jobs: int | None) -> LocalFederation:
        """Return the silos, which answer rounds."""
        y = self.y
        if not self.facts.is_classifier:
            y = scales.target.transform(y).astype(y.dtype, copy=False)
        transform: Any = scales.features.transform
        data = SiloData.from_codes(
            self.X,
            y,
            self.silos.codes,
            self.facts.n_silos,
            None if isinstance(scales.features, IdentityScaling) else transform,
            self.X.dtype if self.facts.n_outputs == 1 else None,
        )
        return LocalFederation(data, streams, n_jobs)

    def factor(
        self,
        plan: TemperaturePlan | None,
        training: Training,
        where: tuple[Work, LocalFederation, Streams],
        params: np.ndarray,
    ) -> float | None:
        """Return what raw predictions are to be multiplied by, as it was planned; None: nothing."""
        if plan is None:
            return None
        work, federation, streams = where
        sums = partial(slope_sums, federation.data, work, params)
        penalty = float(np.square(params, dtype=np.float64) @ work.penalty)
        return plan.find(sums, streams, training.walk, penalty)

    def for_callbacks(self, keep_y: bool) -> LocalData:
        """Return the data without what the rounds do not read: codes, and as a rule targets."""
        y = self.y if keep_y else self.y[:0].copy()
        silos = self.silos._replace(codes=self.silos.codes[:0].copy(), rows=None)
        return self._replace(y=y, silos=silos)


def slope_sums(
    data: SiloData, work: Work, params: np.ndarray, factor: float, cut: float
) -> np.ndarray:
    """Return each silo's sum of terms (n_silos,), not noised; see `skdpfl.scaling._temperature`.

    A silo's terms are computed from blocks of its own records.
    """
    params, sums = params * work.dtype.type(factor), np.zeros(len(data.sizes))
    for i, size in enumerate(data.sizes.tolist()):
        for start in range(0, size, _BLOCK):
            X, y = data.at(data.rows_of(i, slice(start, min(start + _BLOCK, size))), work.dtype)
            raw = work.model.raw(params, X)
            slopes = (work.loss.gradient(y, raw) * raw).sum(axis=-1)
            sums[i] += slope_terms(slopes, cut).sum()
    return sums
