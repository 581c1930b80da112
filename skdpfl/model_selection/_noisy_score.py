"""Scores of several models on held-out records, with noise.

A record's score lies in [0, 1]: whether its label is right, or 1 - min(1, (error / half range)^2).
Centred to [-1/2, 1/2] the vector of its scores for k models has norm at most C = sqrt(k) / 2, so a
sum over records with noise of standard deviation z C is ``Gaussian(z)`` for all k scores together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing

from skdpfl.privacy.randomness.grid import grid_for, reduced_clip, snapped_release
from skdpfl.privacy.randomness.streams import Streams


class NoisyScore:
    """Noisy mean scores over held-out records in their silos.

    Formal guarantee
    ----------------
    One record enters one silo's sum, with a vector of norm at most C; each sum (trust "silo") or
    the sum of all (trust "server") is released by the snapped Gaussian mechanism with multiplier z.
    """

    def __init__(self, inner: Any, codes: np.ndarray, n_silos: int) -> None:
        self._codes, self._n_silos = codes, n_silos
        self._each_silo = inner.trust == "silo"
        self._classifies = is_classifier(inner)
        self._bounds = None if self._classifies else inner.target_bounds
        neighbours = inner.neighbours
        self._neighbours = "replace" if neighbours == "auto" else neighbours

    def of(
        self,
        models: list[Any],
        X: Any,
        y: Any,
        rows: np.ndarray,
        noise_multiplier: float,
        streams: Streams,
    ) -> np.ndarray:
        """Return the models' noisy scores."""
        features, truth = _safe_indexing(X, rows), np.asarray(_safe_indexing(y, rows))
        scores = np.column_stack([self._records(m.predict(features), truth) for m in models])
        codes = self._codes if self._each_silo else np.zeros(len(rows), dtype=int)
        total = np.zeros(len(models))
        clip = float(np.sqrt(len(models)) / 2)
        grid = grid_for(noise_multiplier * clip, len(rows) * clip)
        rounding = (len(rows) + 8) * float(np.finfo(np.float64).eps)
        shrunk = reduced_clip(clip, grid, len(models), self._neighbours, rounding=rounding) / clip
        for silo in range(self._n_silos if self._each_silo else 1):
            part = (scores[codes == silo] - 0.5).sum(axis=0) * shrunk
            units = streams.stream("scores", silo).units(part.shape, np.float64)
            total += snapped_release(part, units, grid) / shrunk
        return total / len(rows) + 0.5

    def _records(self, predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
        if self._classifies:
            return (predicted == truth).astype(float)
        assert self._bounds is not None  # the search refuses regressors without
        low, high = self._bounds
        error = (predicted - truth) / ((high - low) / 2)
        return 1 - np.minimum(1.0, np.nan_to_num(error**2, nan=1.0, posinf=1.0))
