"""Public numbers of the data, and the settings of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from skdpfl.privacy.sampling import Sampling


@dataclass(frozen=True, eq=False)
class Facts:
    """Public numbers: every choice that "auto" makes is a function of these and the budget.

    ``public_sizes`` (n_silos,) are the silos' numbers of records; None where they are protected
    (unit "silo"). ``n_outputs`` is the number of raw predictions of a record (1 for regression and
    two classes). ``feature_names`` are None where columns have none.
    """

    silo_ids: pd.Index
    public_sizes: np.ndarray | None
    n_features: int
    n_outputs: int = 1
    is_classifier: bool = True
    feature_names: Sequence[str] | None = None

    @property
    def n_silos(self) -> int:
        """The number of silos."""
        return len(self.silo_ids)

    @property
    def silo_sizes(self) -> np.ndarray:
        """The silos' numbers of records; raises where they are protected."""
        if self.public_sizes is None:
            raise RuntimeError('unit="silo" protects how many records a silo has.')
        return self.public_sizes

    @property
    def n_protected(self) -> int:
        """The number of records (unit "silo": silos) to protect."""
        return self.n_silos if self.public_sizes is None else self.n_records

    @property
    def n_records(self) -> int:
        """The number of records in all."""
        return int(self.silo_sizes.sum())


@dataclass(frozen=True)
class Settings:
    """The settings of a fit, with every "auto" resolved.

    ``steps`` is the number of private gradients per silo in each round; ``rate`` the share of its
    records that a step reads. ``server_step`` is the server's learning rate for the mean update.
    """

    steps: tuple[int, ...]
    learning_rate: float
    clip_norm: float
    rate: float
    sampling: Sampling
    momentum: float = 0.0
    server_step: float = 1.0

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.steps)
