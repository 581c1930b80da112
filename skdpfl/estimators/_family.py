"""What an estimator says of itself: its family an algorithm, its kind how targets are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdpfl.algorithms import Algorithm
from skdpfl.engine import Outcome
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.estimators._theory import Committed, Training, smoothed
from skdpfl.estimators._whole_silos import warn_of_noise
from skdpfl.losses import Loss
from skdpfl.preprocessing._scaling import Scales
from skdpfl.privacy.mechanisms import Mechanism, mechanism_for


class Family:
    """What :class:`FederatedEstimator` asks its subclasses for."""

    # ---- a family of estimators (one module each) --------------------------------------------

    #: the words that ``learning_rate`` may be
    _learning_rates: tuple[str, ...] = ("auto",)

    @property
    def _automatic_local_steps(self) -> int:
        """The number of local steps that "auto" means."""
        return 1

    def _algorithm(self, settings: Settings, facts: Facts) -> Algorithm:
        """Return the algorithm that runs with these settings."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        """Return the loss that the parameters name."""
        raise NotImplementedError

    def _training(self, algorithm: Algorithm, known: Committed) -> Training:
        """Return what runs, now that the plan stands: its noise and the scales may set constants.

        Nothing here may change what is released: the plan has been priced.
        """
        warn_of_noise(self, known)
        return Training(algorithm, smoothed(self._loss(), known), known.settings)

    def _mechanism(self, unit: str, trust: str) -> Mechanism:
        """Return where the noise is."""
        return mechanism_for(unit, trust)

    def _automatic_rounds(self, facts: Facts, default: int) -> int:
        """Return the number of rounds that "auto" means."""
        return default

    def _check_own(self) -> None:
        """Raise for parameters of this family alone that cannot be right."""

    def _unpack_outcome(self, outcome: Outcome) -> None:
        """Set the fitted attributes that say how the run went."""
        if np.isfinite(outcome.clip_norm):
            self.clip_norm_ = outcome.clip_norm

    # ---- classifiers and regressors ----------------------------------------------------------

    def _is_classifier(self) -> bool:
        raise NotImplementedError

    def _y_checks(self) -> dict[str, Any]:
        raise NotImplementedError

    def _encode(self, y: np.ndarray, dtype: np.dtype) -> np.ndarray:
        raise NotImplementedError

    def _n_outputs(self) -> int:
        raise NotImplementedError

    def _scaled_target(self, y: np.ndarray, scales: Scales) -> np.ndarray:
        raise NotImplementedError
