"""Data sources: records in this process, or with remote silos."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from skdpfl.algorithms import Algorithm
from skdpfl.choosing import Committed, PublicFacts, with_curvature
from skdpfl.federation import Federation, LocalFederation, SiloData, class_codes
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import Scales
from skdpfl.silos import Silos


class DataSource(ABC):
    """Access to the records of a fit, which itself only has ``facts`` and ``dtype``.

    Scales are estimated by questions to the federation, with noise that the plan charges, and the
    model is trained in its rounds. Curvatures are computed only in fits without privacy.
    """

    facts: PublicFacts
    dtype: np.dtype
    #: whether rounds may end without the messages of some silos
    may_miss = False
    #: what losses are multiplied by, for each class code; None: 1
    class_weights: tuple[float, ...] | None = None

    @abstractmethod
    def federation(self, streams: Streams, n_jobs: int | None) -> Federation:
        """Return the silos."""

    @abstractmethod
    def assignment(self) -> str | None:
        """Return a digest of the assignment of records to silos, None if unknown here."""

    def digest(self) -> str | None:
        """Return a digest of all records, None if they are not here."""
        return None

    @abstractmethod
    def curvature(self, scales: Scales, committed: Committed, algorithm: Algorithm) -> Committed:
        """Return ``committed`` with the curvature of the data."""

    @abstractmethod
    def records(self) -> tuple[np.ndarray, np.ndarray]:
        """Return features and coded targets for a callback that asks for them."""

    def for_callbacks(self, keep_y: bool) -> DataSource:
        """Return the data without what only :meth:`federation` and :meth:`curvature` need."""
        return self


@dataclass(frozen=True, eq=False)
class LocalData(DataSource):
    """Validated records: features, coded targets, each record's silo and perhaps its weight."""

    X: np.ndarray
    y: np.ndarray
    silos: Silos
    facts: PublicFacts
    weights: np.ndarray | None = None
    class_weights: tuple[float, ...] | None = None

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.X.dtype

    def federation(self, streams: Streams, n_jobs: int | None) -> LocalFederation:
        given = self.X, self.y, self.silos.codes, self.facts.n_silos
        records = SiloData.from_codes(*given, weights=self.weights)
        return LocalFederation(records, streams, n_jobs)

    def assignment(self) -> str:
        return self.silos.digest()

    def digest(self) -> str:
        digest = hashlib.blake2b(self.silos.digest().encode(), digest_size=16)
        for values in (self.X, self.y, self.weights):
            if values is not None:
                digest.update(f"{values.shape} {values.dtype}".encode())
                digest.update(np.ascontiguousarray(values))
        return digest.hexdigest()

    def curvature(self, scales: Scales, committed: Committed, algorithm: Algorithm) -> Committed:
        highest = float(scales.target.transform(self.y.max()))
        committed = replace(committed, largest_target=highest)
        return with_curvature(committed, algorithm, self.X, self.silos, scales, self._factors())

    def _factors(self) -> np.ndarray | None:
        """Return what each record's loss is multiplied by, None for nothing."""
        if self.class_weights is None:
            return self.weights
        codes = class_codes(self.y, len(self.class_weights))
        factors = np.asarray(self.class_weights)[codes]
        return factors if self.weights is None else factors * self.weights

    def records(self) -> tuple[np.ndarray, np.ndarray]:
        return self.X, self.y

    def for_callbacks(self, keep_y: bool) -> LocalData:
        y = self.y if keep_y else self.y[:0].copy()
        silos = self.silos._replace(codes=self.silos.codes[:0].copy(), rows=None)
        return replace(self, y=y, silos=silos, weights=None)


@dataclass(frozen=True, eq=False)
class DataElsewhere(DataSource):
    """Records that only remote silos can read."""

    silos: Federation
    facts: PublicFacts
    dtype: np.dtype
    class_weights: tuple[float, ...] | None = None

    @property
    def may_miss(self) -> bool:  # type: ignore[override]
        return self.silos.may_miss

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
