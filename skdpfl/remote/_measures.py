"""A model's score at one silo: sums of a measure over its records.

:mod:`skdpfl.federation` has the measures, the term of a record in each, and the proof of a sum's
cost. The model and the silo's size are public.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from skdpfl._apart import anew, rows_apart
from skdpfl.federation import BoundedSum, Measure
from skdpfl.losses import LogLoss
from skdpfl.models import Model, fitted_one_by_one
from skdpfl.privacy.release import DOUBLE
from skdpfl.remote._terms import Refused
from skdpfl.scaling import AffineScaling, CurveScaling, SquashScaling


@dataclass(frozen=True, eq=False)
class Predictor:
    """The parts of a fitted model that predictions need: its arrays, and the map of features.

    Features are squashed, or clipped to the limits of an affine map whose scale is already in the
    arrays.
    """

    model: Model
    attributes: Mapping[str, Any]
    scaling: SquashScaling | AffineScaling | CurveScaling | None
    log_link: bool

    def check(self, n_features: int, n_outputs: int) -> None:
        """Raise unless the model has these numbers of features and raw predictions."""
        try:
            shapes = [self._raw(np.zeros((n, n_features))).shape for n in (1, 2)]
        except (ValueError, KeyError, TypeError):
            shapes = []
        if shapes != [(1, n_outputs), (2, n_outputs)]:
            raise Refused("The model to be scored is for other features or classes.")

    def raw(self, X: np.ndarray) -> np.ndarray:
        """Return raw predictions (n, k); NaN for a record at which a user's model fails."""
        if fitted_one_by_one(self.model) is self.model:
            return self._raw(X)
        fixed = np.full(self.model.n_outputs, np.nan)
        return rows_apart(anew(self), lambda own, i: own._raw(X[[i]])[0], len(X), fixed)[0]

    def _raw(self, X: np.ndarray) -> np.ndarray:
        Z = X
        if self.scaling is not None:
            Z = self.scaling.within(X) if self.scaling.affine else self.scaling.transform(X)
        return self.model.raw_of_fitted(self.attributes, Z.astype(DOUBLE))

    def read(self, what: str, X: np.ndarray) -> np.ndarray:
        """Return the predictions that a measure reads, one row a record."""
        raw = self.raw(X)
        if what == "scores":
            return raw
        if what == "targets":
            return np.exp(raw) if self.log_link else raw
        if what == "codes":
            codes = (raw[:, 0] > 0).astype(int) if raw.shape[1] == 1 else raw.argmax(axis=1)
            return codes[:, None]
        every = range(max(2, raw.shape[1]))
        return np.stack([-LogLoss().value(np.full(len(raw), k), raw) for k in every], axis=1)


@dataclass(frozen=True, eq=False)
class Scored(BoundedSum):
    """A measure of a model's predictions."""

    measure: Measure
    model: Predictor

    on_grid = property(attrgetter("measure.on_grid"))  # type: ignore[assignment]
    shape = property(attrgetter("measure.shape"))  # type: ignore[assignment]
    radius = property(attrgetter("measure.radius"))  # type: ignore[assignment]
    diameter = property(attrgetter("measure.diameter"))  # type: ignore[assignment]

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        self.measure.check(n_features, n_classes, work)
        self.model.check(n_features, 1 if n_classes is None or n_classes == 2 else n_classes)

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.measure.terms(self.model.read(self.measure.reads, X), y)
