"""How an audit is run: what its parameters say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl.inspection.audits.watch import BackEnd


@dataclass(frozen=True)
class Setting:
    """The parameters of :func:`skdpfl.privacy.audit_epsilon` that are not about data."""

    view: str
    n_fits: int
    confidence: float
    random_state: Any
    back_end: BackEnd

    @property
    def coins(self) -> np.random.Generator:
        """The audit's own random numbers."""
        seed = self.random_state
        return np.random.default_rng(seed if seed is None else [int(seed), 1])

    def seed(self, fit: int) -> int | None:
        """Return the ``random_state`` of one of the fits."""
        return None if self.random_state is None else int(self.random_state) * 10**6 + fit
