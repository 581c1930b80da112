"""Scores of several models on held-out records or silos, with noise.

A record's score lies in [0, 1]: whether its label is right, or 1 - min(1, (error / half range)^2).
A silo's score (``unit="silo"``) is the mean over its records, and lies there too. Centred to
[-1/2, 1/2] the vector of a unit's scores for k models has norm at most C = sqrt(k) / 2, so a sum
over units with noise of standard deviation z C is ``Gaussian(z)`` for all k scores together. The
mean over n units then has noise of standard deviation z sqrt(k) / (2 n), times the square root of
the number of sums that were noised.

Under ``trust="server"`` the number of runs is a secret, so noise must not follow from it: each
model's score is then a release of its own, ``Gaussian(z)`` with k = 1, as random repetition takes
every run to be the same mechanism (:mod:`skdpfl.privacy.spending.repetition`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing

from skdpfl.model_selection._wrapped import Protection
from skdpfl.model_selection.holdout import Split
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import noised_sum


class NoisyScore:
    """Noisy mean scores over the held-out units: records, or silos by one score each.

    Formal guarantee
    ----------------
    One unit enters one sum (``trust="server"``: one for each run), with a vector of norm at most C,
    whatever it holds; a silo's vector is the same size however many records it has. Each silo's sum
    (``trust="silo"``) or the sum of all (``trust="server"``) is released by the snapped Gaussian
    mechanism with multiplier z, under replacement (the sum moves by at most 2 C) or zero-out (by C;
    a vector of zeros is a score of one half). The number of units that the mean is over is public.
    """

    def __init__(self, inner: Any, guarantee: Protection, split: Split) -> None:
        self._guarantee, self._split = guarantee, split
        self._classifies = is_classifier(inner)
        self._bounds = None if self._classifies else inner.target_bounds

    def of(
        self, models: list[Any], X: Any, y: Any, noise_multiplier: float, streams: Streams
    ) -> np.ndarray:
        """Return the models' noisy scores (k,)."""
        rows = self._split.test
        features, truth = _safe_indexing(X, rows), np.asarray(_safe_indexing(y, rows))
        with np.errstate(all="ignore"):  # a warning could depend on a single record
            scores = np.column_stack([self._records(m.predict(features), truth) for m in models])
        scores, z = self._units(scores), noise_multiplier
        if self._guarantee.trust == "silo":
            return self._released(scores, z, streams)
        each = [self._released(one[:, None], z, streams, i) for i, one in enumerate(scores.T)]
        return np.concatenate(each)

    def _released(
        self, scores: np.ndarray, z: float, streams: Streams, number: int = 0
    ) -> np.ndarray:
        """Return the mean of units' scores (n, k), each sender's sum noised."""
        n, k = scores.shape
        clip = float(np.sqrt(k) / 2)
        # a score is centred, added to at most n others, shrunk and divided by the grid
        noised = noised_sum(
            clip, z * clip, k, self._guarantee.neighbours, terms=n, operations=n + 3
        )
        shrunk = noised.clip / clip
        senders = self._senders(n)
        sums = np.zeros((int(senders.max()) + 1, k))
        np.add.at(sums, senders, scores - 0.5)
        units = streams.units_block("scores", np.arange(len(sums)), number, (k,), np.float64)
        released = noised.added(sums * shrunk, units)
        return released.sum(axis=0) / shrunk / n + 0.5

    def _units(self, scores: np.ndarray) -> np.ndarray:
        """Return a row of scores for each protected unit."""
        if self._guarantee.unit == "record":
            return scores
        codes, counts = self._split.codes, np.bincount(self._split.codes)
        means = [np.bincount(codes, weights=column) / counts for column in scores.T]
        return np.clip(np.column_stack(means), 0.0, 1.0)

    def _senders(self, n_units: int) -> np.ndarray:
        """Return the index of each unit's sum."""
        if self._guarantee.trust != "silo":
            return np.zeros(n_units, dtype=int)
        return np.arange(n_units) if self._guarantee.unit == "silo" else self._split.codes

    def _records(self, predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
        if self._classifies:
            return (predicted == truth).astype(float)
        assert self._bounds is not None  # the search refuses regressors without
        low, high = self._bounds
        error = (predicted - truth) / ((high - low) / 2)
        return 1 - np.minimum(1.0, np.nan_to_num(error**2, nan=1.0, posinf=1.0))
