"""Where the records of a fit are: in this process, or with silos elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from skdpfl.algorithms import Algorithm
from skdpfl.choosing import Committed, Facts, Training, with_curvature
from skdpfl.federation import Federation, LocalFederation, SiloData, Work
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import Scales, TemperaturePlan, slope_terms
from skdpfl.silos import Silos

#: records of a silo whose raw predictions are held at once
_BLOCK = 2**12


class DataSource(ABC):
    """What a fit asks where the records are; it knows ``facts`` and ``dtype`` only.

    Scales are found by questions to the federation, noised and paid for by the plan; the model is
    trained by its rounds. Curvatures are asked for only where nothing is hidden.
    """

    facts: Facts
    dtype: np.dtype
    #: whether the silos answer how raw predictions are to be scaled after training
    calibrates: ClassVar[bool] = False

    @abstractmethod
    def federation(self, streams: Streams, n_jobs: int | None) -> Federation:
        """Return the silos, which answer questions and rounds."""

    @abstractmethod
    def assignment(self) -> str | None:
        """Return a digest of which record is in which silo, None if that is not known here."""

    @abstractmethod
    def curvature(self, scales: Scales, committed: Committed, algorithm: Algorithm) -> Committed:
        """Return what is known with the data's own curvature."""

    @abstractmethod
    def records(self) -> tuple[np.ndarray, np.ndarray]:
        """Return features and coded targets for a callback that asks for them."""

    def factor(
        self,
        plan: TemperaturePlan | None,
        training: Training,
        where: tuple[Work, Federation, Streams],
        params: np.ndarray,
    ) -> float | None:
        """Return what raw predictions are to be multiplied by, as it was planned; None: nothing."""
        return None

    def for_callbacks(self, keep_y: bool) -> DataSource:
        """Return the data without what only :meth:`federation` and :meth:`curvature` read."""
        return self


@dataclass(frozen=True, eq=False)
class LocalData(DataSource):
    """Validated records: features, coded targets, each record's silo."""

    X: np.ndarray
    y: np.ndarray
    silos: Silos
    facts: Facts
    calibrates: ClassVar[bool] = True

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.X.dtype

    def federation(self, streams: Streams, n_jobs: int | None) -> LocalFederation:
        records = SiloData.from_codes(self.X, self.y, self.silos.codes, self.facts.n_silos)
        return LocalFederation(records, streams, n_jobs)

    def assignment(self) -> str:
        return self.silos.digest()

    def curvature(self, scales: Scales, committed: Committed, algorithm: Algorithm) -> Committed:
        highest = float(scales.target.transform(self.y.max()))
        committed = replace(committed, largest_target=highest)
        return with_curvature(committed, algorithm, self.X, self.silos, scales)

    def records(self) -> tuple[np.ndarray, np.ndarray]:
        return self.X, self.y

    def factor(
        self,
        plan: TemperaturePlan | None,
        training: Training,
        where: tuple[Work, Federation, Streams],
        params: np.ndarray,
    ) -> float | None:
        if plan is None:
            return None
        work, federation, streams = where
        assert isinstance(federation, LocalFederation)
        sums = partial(slope_sums, federation.data, work, params)
        penalty = float(np.square(params, dtype=np.float64) @ work.penalty)
        return plan.find(sums, streams, training.walk, penalty)

    def for_callbacks(self, keep_y: bool) -> LocalData:
        y = self.y if keep_y else self.y[:0].copy()
        silos = self.silos._replace(codes=self.silos.codes[:0].copy(), rows=None)
        return replace(self, y=y, silos=silos)


@dataclass(frozen=True, eq=False)
class DataElsewhere(DataSource):
    """Records that only the silos of a federation see."""

    silos: Federation
    facts: Facts
    dtype: np.dtype

    def federation(self, streams: Streams, n_jobs: int | None) -> Federation:
        return self.silos

    def assignment(self) -> None:
        return None

    def curvature(self, scales: Scales, committed: Committed, algorithm: Algorithm) -> Committed:
        raise ValueError(
            'learning_rate="auto" with epsilon=inf follows from the curvature of the records, '
            "which silos elsewhere do not give out; give learning_rate as a number."
        )

    def records(self) -> tuple[np.ndarray, np.ndarray]:
        raise ValueError("A callback asks for the training records, which are with their silos.")


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
