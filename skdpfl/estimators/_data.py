"""The records of a fit where all silos are in this process, and what a fit asks them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from skdpfl.algorithms import Algorithm
from skdpfl.choosing import Committed, Facts, ScalingStep, with_curvature
from skdpfl.federation import LocalFederation, SiloData
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import IdentityScaling, Scales
from skdpfl.silos import Silos


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

    def for_callbacks(self, keep_y: bool) -> LocalData:
        """Return the data without what the rounds do not read: codes, and as a rule targets."""
        y = self.y if keep_y else self.y[:0].copy()
        silos = self.silos._replace(codes=self.silos.codes[:0].copy(), rows=None)
        return self._replace(y=y, silos=silos)
