"""How good a model is at one silo: a noised sum over its records, and what it costs.

::

    v_j    = 1 if record j is predicted right, else 0          measure "accuracy"
    v_j    = min(-log(probability of y_j), bound)              measure "log_loss"
    v_j    = min(|y_j - prediction|, bound)                    measure "absolute_error"
    v_j    = min((y_j - prediction)^2, bound)                  measure "squared_error"
    S      = sum of (v_j - bound / 2) + noise                  v_j on a grid; not finite: bound
    score  = S / n + bound / 2

**Formal guarantee.** Each term is at most C = bound / 2, so replacing a record moves the sum by at
most 2 C and setting its term to zero by C. Terms are multiples of 2^-40 bound, so float64 adds up
2^12 of them without rounding, and more with an error that the noise pays for, as it pays for the
grid that noise and sum are added on (:func:`skdpfl.privacy.release.noise_for`). So S is a Gaussian
mechanism of noise multiplier ``noise_multiplier``; the score follows from it and from n, which is
public. The model is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skdpfl.losses import LogLoss
from skdpfl.models import Model, one_by_one
from skdpfl.privacy.events import Gaussian, Neighbours
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import (
    DOUBLE,
    NoisedSum,
    PrecisionError,
    grid_for,
    noise_for,
    relative_error,
)
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote._terms import Refused
from skdpfl.scaling import AffineScaling, SquashScaling

Measure = Literal["accuracy", "log_loss", "absolute_error", "squared_error"]
#: those of classifiers
OF_CLASSES = ("accuracy", "log_loss")
#: terms are multiples of this share of their bound
_STEP = 2.0**-40


@dataclass(frozen=True, eq=False)
class Predictor:
    """What a fitted model predicts by: its arrays, and what is done to features before.

    Features are squashed, or clipped to the limits of an affine map, which the arrays undo.
    """

    model: Model
    attributes: Mapping[str, Any]
    scaling: SquashScaling | AffineScaling | None
    log_link: bool

    def check(self, n_features: int, n_outputs: int) -> None:
        """Raise unless rows of so many features become rows of so many raw predictions."""
        try:
            shapes = [self.raw(np.zeros((n, n_features))).shape for n in (1, 2)]
        except (ValueError, KeyError, TypeError):
            shapes = []
        if shapes != [(1, n_outputs), (2, n_outputs)]:
            raise Refused("The model to be scored is for other features or classes.")

    def raw(self, X: np.ndarray) -> np.ndarray:
        """Return raw predictions (n, k)."""
        Z = X
        if self.scaling is not None:
            Z = self.scaling.within(X) if self.scaling.affine else self.scaling.transform(X)
        return one_by_one(self.model).raw_of_fitted(self.attributes, Z.astype(DOUBLE))

    def codes(self, X: np.ndarray) -> np.ndarray:
        """Return the codes of predicted classes."""
        raw = self.raw(X)
        return (raw[:, 0] > 0).astype(int) if raw.shape[1] == 1 else raw.argmax(axis=1)

    def means(self, X: np.ndarray) -> np.ndarray:
        """Return predicted targets."""
        raw = self.raw(X)[:, 0]
        return np.exp(raw) if self.log_link else raw


@dataclass(frozen=True, eq=False)
class ScoreRow:
    """One silo's score: whose, of which model, how noisy."""

    name: str
    size: int
    delta: float
    neighbours: Neighbours
    noise_multiplier: float
    measure: Measure
    bound: float
    model: Predictor

    def __post_init__(self) -> None:
        numbers = self.delta, self.noise_multiplier, self.bound
        if not (self.size >= 1 and all(0 < x < math.inf for x in numbers) and self.delta < 1):
            raise Refused("The score's numbers do not belong together.")
        if self.measure == "accuracy" and self.bound != 1:
            raise Refused("Right or wrong counts 1 or 0: the bound of an accuracy is 1.")

    def spent(self, seed: int | None) -> PrivacySpent:
        """Price the score, as this silo does for itself."""
        return PrivacySpent.from_compositions(
            unit="record",
            trust="silo",
            neighbours=self.neighbours,
            delta=self.delta,
            compositions=[((Gaussian(self.noise_multiplier), 1),)],
            silo_ids=(self.name,),
            group_of_silo=[0],
            noise_multiplier=self.noise_multiplier,
            n_releases=1,
            simulation_seeds=frozenset(() if seed is None else (seed,)),
        )

    def check(self, n_features: int, n_classes: int | None) -> None:
        """Raise unless the model is one for these records."""
        self.model.check(n_features, 1 if n_classes is None or n_classes == 2 else n_classes)
        if (self.measure in OF_CLASSES) != (n_classes is not None):
            raise Refused(f"{self.measure} is not a measure of what the fit predicts.")
        try:
            assert self.noised.std > 0
        except PrecisionError as error:
            raise Refused("The score's noise is too little, or too much, to be added.") from error

    @property
    def noised(self) -> NoisedSum:
        """The noised sum."""
        half = self.bound / 2
        change = 2 if self.neighbours == "replace" else 1
        mu = np.array([change / self.noise_multiplier])
        error = relative_error((self.size + 3, DOUBLE)) * half * self.size
        std = noise_for(mu, change * half, 1, np.array([error]))
        return NoisedSum(std, np.array([grid_for(float(std[0]), half * self.size)]))

    def answer(self, X: np.ndarray, y: np.ndarray, streams: Streams) -> np.ndarray:
        """Return the noised sum (1,); ``y`` are codes of classes, or numbers."""
        values = self._values(X, y)
        terms = np.where(np.isfinite(values), np.clip(values, 0, self.bound), self.bound)
        step = _STEP * self.bound
        total = (np.trunc((terms - self.bound / 2) / step) * step).sum()
        units = streams.units_block("score", np.zeros(1, int), 0, (), np.float64)
        return np.asarray(self.noised.added(np.array([total]), units))

    def _values(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return v_j (n,), not cut; perhaps not finite."""
        if self.measure == "accuracy":
            return (self.model.codes(X) == y).astype(DOUBLE)
        if self.measure == "log_loss":
            return LogLoss().value(y, self.model.raw(X))
        errors = np.abs(y.astype(DOUBLE) - self.model.means(X))
        return errors if self.measure == "absolute_error" else errors * errors
