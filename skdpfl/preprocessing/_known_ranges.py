"""The ranges that what leaves transformers lies in, whatever the records are.

Our transformers say theirs by ``_ranges_out``; of scikit-learn's, those are known whose definition
bounds what they give out. An estimator that a pipeline fits as its last step takes the ranges of
what it is given as if they were its ``feature_bounds``, and cuts values at them.

**Formal guarantee.** A range follows from a transformer's parameters, which are public, and from
fitted attributes that were paid for. No record is read, so nothing is added to what is paid.
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
    """KnownRanges of columns (d,), NaN where they are not known, and which columns are 0 or 1."""

    low: np.ndarray
    high: np.ndarray
    indicators: np.ndarray

    @classmethod
    def of(cls, low: Any, high: Any, width: int, indicators: Any = False) -> KnownRanges:
        """Return ranges of so many columns."""
        parts = (low, float), (high, float), (indicators, bool)
        return cls(*(np.broadcast_to(value, width).astype(kind) for value, kind in parts))

    @classmethod
    def unknown(cls, width: int) -> KnownRanges:
        """Return that nothing is known of so many columns."""
        return cls.of(np.nan, np.nan, width)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.low)

    def take(self, columns: Any) -> KnownRanges:
        """Return those of some columns."""
        return KnownRanges(*(part[columns] for part in self))

    def including(self, values: Any) -> KnownRanges:
        """Return ranges that hold these values as well, one of each column or one for all."""
        try:
            values = np.asarray(values, dtype=float)
        except (TypeError, ValueError):  # text
            return KnownRanges.unknown(self.width)
        inside = self.indicators & np.isin(values, (0, 1))
        return KnownRanges(np.minimum(self.low, values), np.maximum(self.high, values), inside)

    def with_column(self, position: int) -> KnownRanges:
        """Return ranges with a column in between of which nothing is known."""
        before, after = self.take(slice(position)), self.take(slice(position, None))
        return joined([before, KnownRanges.unknown(1), after])


def joined(parts: Sequence[KnownRanges]) -> KnownRanges:
    """Return the ranges of tables side by side."""
    return KnownRanges(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def ranges_after(step: Any, given: KnownRanges | None = None) -> KnownRanges | None:
    """Return the ranges of what leaves a fitted step, from those of its input; None: not known."""
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
    """Return the ranges of the features X that pipelines give their last step, fitting it now.

    scikit-learn's pipelines tell a step nothing of the others, so they are looked for among the
    callers: those whose last step this is, and in turn whose last step such a pipeline is.
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
    """Return the ranges of a transformer of ours, which may let a silo column through."""
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
    """Of a ColumnTransformer: part by part; unknown is what its parts do not know."""
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
    parts = [ranges_after(part, given) for _, part in step.transformer_list if part != "drop"]
    known = [part for part in parts if part is not None]
    return joined(known) if known and len(known) == len(parts) else None


def _of_constants(step: Any, given: KnownRanges | None) -> KnownRanges | None:
    """Of an imputer of constants: input ranges, and the constant."""
    plain = step.strategy == "constant" and not step.add_indicator
    same = given is not None and len(step.statistics_) == given.width
    return given.including(step.statistics_) if given is not None and plain and same else None


def _of_products(step: Any, given: KnownRanges | None) -> KnownRanges | None:
    """Of polynomials: powers of intervals, and their products."""
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
