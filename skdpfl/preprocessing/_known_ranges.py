"""The ranges of transformers' outputs that hold for any records.

Transformers of this package define them by ``_ranges_out``; those of scikit-learn have known ranges
if their definition bounds the output. An estimator that is the last step of a pipeline uses the
ranges of its input as ``feature_bounds``, and clips values to them.

**Formal guarantee.** A range follows from a transformer's parameters, which are public, and from
its private fitted attributes. No record is read, so nothing is added to the cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from traceback import walk_stack
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
)


class KnownRanges(NamedTuple):
    """Ranges of columns (d,), NaN if unknown, and which columns are 0 or 1."""

    low: np.ndarray
    high: np.ndarray
    indicators: np.ndarray

    @classmethod
    def of(cls, low: Any, high: Any, width: int, indicators: Any = False) -> KnownRanges:
        """Return the same range for a number of columns."""
        parts = (low, float), (high, float), (indicators, bool)
        return cls(*(np.broadcast_to(value, width).astype(kind) for value, kind in parts))

    @classmethod
    def unknown(cls, width: int) -> KnownRanges:
        """Return unknown ranges for a number of columns."""
        return cls.of(np.nan, np.nan, width)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.low)

    def take(self, columns: Any) -> KnownRanges:
        """Return the ranges of some columns."""
        return KnownRanges(*(part[columns] for part in self))

    def including(self, values: Any) -> KnownRanges:
        """Return ranges extended to these values, one for each column or one for all."""
        try:
            values = np.asarray(values, dtype=float)
        except (TypeError, ValueError):  # text
            return KnownRanges.unknown(self.width)
        inside = self.indicators & np.isin(values, (0, 1))
        return KnownRanges(np.minimum(self.low, values), np.maximum(self.high, values), inside)

    def times(self, weight: float) -> KnownRanges:
        """Return the ranges of columns that are multiplied by a weight."""
        ends = np.sort([self.low * weight, self.high * weight], axis=0)
        return KnownRanges(ends[0], ends[1], self.indicators & (weight == 1))

    def with_column(self, position: int) -> KnownRanges:
        """Return ranges with an inserted column of unknown range."""
        before, after = self.take(slice(position)), self.take(slice(position, None))
        return joined([before, KnownRanges.unknown(1), after])


def joined(parts: Sequence[KnownRanges]) -> KnownRanges:
    """Return the ranges of horizontally stacked tables."""
    return KnownRanges(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def ranges_after(step: Any, given: KnownRanges | None = None) -> KnownRanges | None:
    """Return the ranges of a fitted step's output, from those of its input; None: unknown."""
    if step is None or isinstance(step, str):  # "passthrough"
        return given
    if isinstance(step, FrozenEstimator):
        return ranges_after(step.estimator, given)
    own = getattr(step, "_ranges_out", None)
    known = _of_silos(step, own, given) if own else None
    of_kind = _KINDS.get(type(step))  # a subclass may do anything
    return known if of_kind is None else of_kind(step, given)


def features_of(given: KnownRanges | None, X: Any, silo_column: Any) -> KnownRanges | None:
    """Return the ranges of a table's columns without that of its silo column."""
    names = list(getattr(X, "columns", ()))
    if given is None or silo_column not in names or given.width != len(names):
        return given
    return given.take(np.arange(given.width) != names.index(silo_column))


def ranges_before(estimator: Any, X: Any, silo_column: Any) -> KnownRanges | None:
    """Return the ranges of the features X that a pipeline passes to its last step, in its fit.

    scikit-learn's pipelines do not inform a step of the others, so the call stack is searched for
    pipelines whose last step this is, and for pipelines whose last step is such a pipeline.
    """
    found: list[Pipeline] = []
    last: Any = estimator
    for frame, _ in walk_stack(sys._getframe(1)):
        caller: Any = frame.f_locals.get("self")
        if type(caller) is Pipeline and caller.steps[-1][1] is last:
            found.append(caller)
            last = caller
    given = None
    for pipeline in reversed(found):
        given = _of_pipeline(pipeline, given, len(pipeline.steps) - 1)
    return features_of(given, X, silo_column)


def _of_silos(
    step: Any, own: Callable[[KnownRanges | None], Any], given: KnownRanges | None
) -> Any:
    """Return the ranges of a transformer of this package, which may pass a silo column through."""
    position, d = step._silo_position, step.n_features_in_
    if given is not None and position is not None:
        given = given.take(np.arange(given.width) != position)
    found = own(given if given is not None and given.width == d else None)
    if found is None or position is None:
        return found
    return found.with_column(step._place(position))


def _of_pipeline(
    step: Any, given: KnownRanges | None, n_steps: int | None = None
) -> KnownRanges | None:
    for _, part in step.steps[:n_steps]:
        given = ranges_after(part, given)
    return given


def _of_columns(step: Any, given: KnownRanges | None) -> KnownRanges:
    """Return those of a ColumnTransformer, part by part."""
    inputs = step._transformer_to_input_indices
    places = step.output_indices_
    found = KnownRanges.unknown(max(place.stop for place in places.values()))
    for name, part, _ in step.transformers_:
        place = places[name]
        own = ranges_after(part, None if given is None else given.take(inputs[name]))
        if own is not None and own.width == place.stop - place.start:
            for whole, values in zip(found, own, strict=True):
                whole[place] = values
    return found


def _of_union(step: Any, given: KnownRanges | None) -> KnownRanges | None:
    weights, found = step.transformer_weights or {}, []
    for name, part in step.transformer_list:
        own = None if part == "drop" else ranges_after(part, given)
        if own is None and part != "drop":
            return None
        found += [] if own is None else [own.times(weights.get(name, 1))]
    return joined(found) if found else None


def _of_constants(step: Any, given: KnownRanges | None) -> KnownRanges | None:
    """Return those of an imputer with constants: input ranges, extended to the constant."""
    plain = step.strategy == "constant" and not step.add_indicator
    same = given is not None and len(step.statistics_) == given.width
    return given.including(step.statistics_) if given is not None and plain and same else None


def _of_products(step: Any, given: KnownRanges | None) -> KnownRanges | None:
    """Return those of polynomials: powers of intervals, and their products."""
    powers = step.powers_
    if given is None or given.width != powers.shape[1]:
        return None
    low, high = given.low**powers, given.high**powers
    low, high = np.minimum(low, high), np.maximum(low, high)
    around = (given.low < 0) & (given.high > 0) & (powers % 2 == 0) & (powers > 0)
    low = np.where(around, 0.0, low)
    ends = np.ones((2, len(powers)))
    for j in range(powers.shape[1]):
        each = np.array([end * own[:, j] for end in ends for own in (low, high)])
        ends = np.array([each.min(axis=0), each.max(axis=0)])
    return KnownRanges(ends[0], ends[1], (given.indicators | (powers == 0)).all(axis=1))


def _of_splines(step: Any, given: KnownRanges | None) -> KnownRanges | None:
    grows = step.extrapolation in ("linear", "continue")
    return None if grows else KnownRanges.of(0.0, 1.0, step.n_features_out_)


def _of_rows(step: Any, given: KnownRanges | None) -> KnownRanges | None:
    """Of flags, and of rows of norm 1; they need no fit: a frozen one may not know its width."""
    d, flags = getattr(step, "n_features_in_", None), isinstance(step, Binarizer)
    return None if d is None else KnownRanges.of(0.0 if flags else -1.0, 1.0, d, flags)


#: transformers of scikit-learn -> the ranges of what leaves them
_KINDS: dict[type, Callable[[Any, KnownRanges | None], KnownRanges | None]] = {
    Pipeline: _of_pipeline,
    ColumnTransformer: _of_columns,
    FeatureUnion: _of_union,
    SimpleImputer: _of_constants,
    PolynomialFeatures: _of_products,
    SplineTransformer: _of_splines,
    Binarizer: _of_rows,
    Normalizer: _of_rows,
    OneHotEncoder: lambda step, given: KnownRanges.of(
        0.0, 1.0, len(step.get_feature_names_out()), True
    ),
}
