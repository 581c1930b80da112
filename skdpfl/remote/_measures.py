"""How good a model is at one silo: a noised sum over its records.

::

    v_j    = 1 if record j is predicted right, else 0          measure "accuracy"
    v_j    = min(-log(probability of y_j), bound)              measure "log_loss"
    v_j    = min(|y_j - prediction|, bound)                    measure "absolute_error"
    v_j    = min((y_j - prediction)^2, bound)                  measure "squared_error"
    S      = sum of (v_j - bound / 2) + noise                  v_j on a grid; not finite: bound
    score  = S / n + bound / 2

Each term is at most C = bound / 2 whatever the record holds. Terms are multiples of 2^-40 bound, so
float64 adds up 2^12 of them without rounding, and more with an error that the noise pays for. The
score follows from the sum and from n, which is public; so is the model. :mod:`skdpfl.federation`
has the proof of what a sum costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skdpfl.federation import BoundedSum, SiloData
from skdpfl.losses import LogLoss
from skdpfl.models import Model, fitted_one_by_one
from skdpfl.privacy.release import DOUBLE
from skdpfl.remote._terms import Refused
from skdpfl.scaling import AffineScaling, CurveScaling, SquashScaling

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
    scaling: SquashScaling | AffineScaling | CurveScaling | None
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
        return fitted_one_by_one(self.model).raw_of_fitted(self.attributes, Z.astype(DOUBLE))

    def codes(self, X: np.ndarray) -> np.ndarray:
        """Return the codes of predicted classes."""
        raw = self.raw(X)
        return (raw[:, 0] > 0).astype(int) if raw.shape[1] == 1 else raw.argmax(axis=1)

    def means(self, X: np.ndarray) -> np.ndarray:
        """Return predicted targets."""
        raw = self.raw(X)[:, 0]
        return np.exp(raw) if self.log_link else raw


@dataclass(frozen=True, eq=False)
class Scored(BoundedSum):
    """The sum of a measure over records, less half of its bound for each."""

    measure: Measure
    bound: float
    model: Predictor

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def radius(self) -> float:
        return self.bound / 2

    def operations(self, records: np.ndarray, n_added: int) -> np.ndarray:
        return records + 2 + n_added

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if not 0 < self.bound < math.inf:
            raise Refused("The score's numbers do not belong together.")
        if self.measure == "accuracy" and self.bound != 1:
            raise Refused("Right or wrong counts 1 or 0: the bound of an accuracy is 1.")
        self.model.check(n_features, 1 if n_classes is None or n_classes == 2 else n_classes)
        if (self.measure in OF_CLASSES) != (n_classes is not None):
            raise Refused(f"{self.measure} is not a measure of what the fit predicts.")

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        step = _STEP * self.bound
        for silo in np.flatnonzero(data.sizes).tolist():
            rows = data.rows_of(silo, slice(None))
            values = self._values(data.X[rows], data.y[rows])
            terms = np.where(np.isfinite(values), np.clip(values, 0, self.bound), self.bound)
            total = (np.trunc((terms - self.bound / 2) / step) * step).sum()
            yield np.array([silo]), total[None]

    def _values(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return v_j (n,), not cut; perhaps not finite."""
        if self.measure == "accuracy":
            return (self.model.codes(X) == y).astype(DOUBLE)
        if self.measure == "log_loss":
            return LogLoss().value(y, self.model.raw(X))
        errors = np.abs(y.astype(DOUBLE) - self.model.means(X))
        return errors if self.measure == "absolute_error" else errors * errors
