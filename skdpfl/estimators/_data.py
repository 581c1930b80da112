"""The records of a fit, in this process or with remote silos, and their weights.

The weights of records and of classes are factors of a record's loss, before its gradient is
clipped.

**Formal guarantee.** A record's weight is part of the record, as its features and its target are.
Its gradient is multiplied by it, then cut to the clip norm C. So replacing a record and its weight
changes a clipped sum by at most 2 C, as without weights
(:meth:`skdpfl.models.Model.clipped_gradient_sum` computes the sums). Nothing else reads weights:
sizes, delta, scales, cohorts, divisors, steps and clip norms do not depend on them, so weights cost
nothing. The weights of the classes are public constants.

The caller has to ensure that a weight depends on its own record only. A weight that depends on
*other* records (class shares counted from the data, the weights of boosting) is not part of one
record, and the cost does not cover it. Two such cases can be recognised, and give a warning
(:func:`warn_of_counted`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from skdpfl._arguments import check_not_negative, naming_no_values
from skdpfl._warnings import warn
from skdpfl.choosing import PublicFacts, Recipe, with_curvature
from skdpfl.encoding import EncodedPart, Encoding
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.federation import Federation, LocalFederation, SiloData, class_codes
from skdpfl.losses import Loss
from skdpfl.models import ExpandedTable
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.ledger import mark_of
from skdpfl.scaling import Scales
from skdpfl.silos import Silos, check_index
from skdpfl.table import FLOATS


def _numbers_of(values: Any, n: int, X: Any, name: str) -> np.ndarray:
    """Return one number of each record (n,), floats; raise if they are invalid."""
    check_index(values, X, name)
    listed = np.iterable(values) and not isinstance(values, (str, bytes, Mapping))
    if not (listed or hasattr(values, "__array__")):
        raise ValueError(
            f"{name} must be one number for each of the {n} rows of X; got {values!r}."
        )
    if np.asarray(values).dtype.kind in "mM":
        raise ValueError(f"{name} holds dates or times instead of numbers: give days, or seconds.")
    with naming_no_values(values, name):
        numbers: np.ndarray = check_array(values, ensure_2d=False, dtype=FLOATS, input_name=name)
    if numbers.shape != (n,):
        raise ValueError(
            f"{name} must be one number for each of the {n} rows of X; got shape {numbers.shape}."
        )
    return numbers


def check_exposure(loss: Loss) -> None:
    """Raise unless a loss is one of counts, rates or amounts."""
    if loss.link != "log" or loss.n_outputs() != 1:
        raise ValueError(
            "exposure multiplies the mean, so it needs a loss with a log link: "
            f'"poisson", "negative_binomial", "tweedie" or "gamma"; got {loss!r}.'
        )


def read_exposure(exposure: Any, n: int, X: Any, dtype: np.dtype, loss: Loss) -> np.ndarray | None:
    """Return each record's exposure (n,), or None without exposures; raise if they are invalid.

    As with targets, the errors can be seen: they are no part of the guarantee.
    """
    if exposure is None:
        return None
    check_exposure(loss)
    exposures = _numbers_of(exposure, n, X, "exposure")
    if exposures.min() <= 0:
        raise ValueError(
            f"exposure must be above 0; row {int(np.argmax(exposures <= 0))} has none. Leave out "
            "records that were not observed."
        )
    limits = np.finfo(dtype)  # no error where a number does not fit single precision, as weights
    return np.clip(exposures, limits.tiny, limits.max).astype(dtype, copy=False)


def read_sample_weight(weights: Any, n: int, X: Any, dtype: np.dtype) -> np.ndarray | None:
    """Return each record's weight (n,), or None without weights; raise if they are invalid."""
    if weights is None:
        return None
    weights = _numbers_of(weights, n, X, "sample_weight")
    if weights.min() < 0:
        raise ValueError(
            f"sample_weight must not be negative; row {int(np.argmax(weights < 0))} has a negative "
            "weight."
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero everywhere.")
    # no error where a finite weight does not fit single precision: it would tell of a record
    return np.minimum(weights, np.finfo(dtype).max).astype(dtype, copy=False)


#: weights that were counted agree with the counts this well
_COUNTED = 1e-6
_PUBLIC_WEIGHTS = (
    "One record then changes the weights of many, which the privacy cost does not cover. Give "
    "class_weight, a mapping from label to weight, based on public knowledge of how common the "
    "labels are."
)


def warn_of_counted(
    weights: np.ndarray | None,
    class_weights: tuple[float, ...] | None,
    y: np.ndarray,
    classes: np.ndarray | None,
) -> None:
    """Warn of weights that were evidently computed from all records.

    These are weights inversely proportional to the labels' counts in y
    (``compute_sample_weight("balanced", y)``), and weights that were divided by their sum or mean.
    ``y`` holds codes of ``classes``; for regression ``classes`` is None.
    """
    if classes is not None:
        codes = class_codes(y, len(classes))
        counts = np.bincount(codes, minlength=len(classes))
        present = counts > 0
        for name, each in (
            ("class_weight", class_weights),
            ("sample_weight", None if weights is None else _weights_of_labels(weights, codes)),
        ):
            if each is not None and _falls_as(np.asarray(each, float)[present], counts[present]):
                warn(
                    f"{name} is inversely proportional to the labels' counts in y, so it was "
                    f"computed from the records. {_PUBLIC_WEIGHTS}",
                    PrivacyLeakWarning,
                )
                return
    if weights is None or np.ptp(weights) == 0 or np.array_equal(weights, np.round(weights)):
        return  # copies of records, as bagging counts them, are whole numbers
    total = float(weights.sum(dtype=np.float64))
    close = 1e-9 if weights.dtype == np.float64 else _COUNTED
    if any(abs(total / whole - 1) < close for whole in (1, len(weights))):
        warn(
            "sample_weight was divided by its sum or mean, which depends on all records; the "
            "privacy cost does not cover that. Divide by a public number, such as the largest "
            "possible weight.",
            PrivacyLeakWarning,
        )


def warn_of_counted_shares(shares: tuple[float, ...] | None, y: np.ndarray) -> None:
    """Warn of class shares that equal those in ``y`` exactly."""
    if shares is None or np.allclose(shares, np.round(shares, 2), rtol=0, atol=1e-12):
        return
    counted = np.bincount(class_codes(y, len(shares)), minlength=len(shares)) / len(y)
    if np.allclose(shares, counted, rtol=0, atol=1e-9):
        warn(
            "The shares in classes equal those in y to the last digit, so they were counted "
            "from the records; the privacy cost does not cover that. Give shares that are "
            "publicly known, or classes without shares: two labels are counted within the budget.",
            PrivacyLeakWarning,
        )


def _weights_of_labels(weights: np.ndarray, codes: np.ndarray) -> np.ndarray | None:
    """Return each label's weight, if all its records have the same."""
    of_label = np.ones(codes.max() + 1, dtype=weights.dtype)
    of_label[codes] = weights
    return of_label if np.array_equal(of_label[codes], weights) else None


def _falls_as(weights: np.ndarray, counts: np.ndarray) -> bool:
    """Return whether weights are inversely proportional to counts; integers were chosen by hand."""
    if np.ptp(counts) == 0 or np.array_equal(weights, np.round(weights)):
        return False
    products = weights * counts
    return float(np.ptp(products)) < _COUNTED * float(products.max())


def check_class_weight(weights: Any) -> None:
    """Raise for weights of classes that are not a public mapping."""
    if weights is None:
        return
    if isinstance(weights, str) and weights == "balanced":
        raise ValueError(
            'class_weight="balanced" counts the labels in the records, which the privacy cost does '
            "not cover. Give a mapping from label to weight based on public knowledge of how "
            "common the labels are, or move the decision threshold, for instance with "
            "sklearn.model_selection.FixedThresholdClassifier."
        )
    if not isinstance(weights, (Mapping, pd.Series)):
        raise ValueError(
            f"class_weight must be None or a mapping from label to weight; got {weights!r}."
        )
    for label, value in weights.items():
        check_not_negative(f"class_weight[{label!r}]", value)
    if len(weights) and not any(value > 0 for _, value in weights.items()):
        raise ValueError(f"class_weight must have a positive entry; got {weights!r}.")


def weights_of_classes(weights: Any, classes: np.ndarray) -> tuple[float, ...] | None:
    """Return each class's weight by its code, divided by the largest; without an entry it is 1.

    Gradients are clipped after they are weighted, so weights above 1 would be clipped away. An
    entry that is not a class is an error if a class lacks an entry, as it may be mistyped.
    """
    if weights is None:
        return None
    entries, labels = dict(weights.items()), classes.tolist()
    strange = [label for label in entries if label not in labels]
    missing = [label for label in labels if label not in entries]
    if strange and missing:
        raise ValueError(
            f"class_weight has entries for {strange[:5]!r}, which are not labels, and none for "
            f"{missing[:5]!r}."
        )
    values = [float(entries.get(label, 1.0)) for label in labels]
    largest = max(values)
    if largest == 0:
        raise ValueError(f"class_weight must be positive for at least one label; got {weights!r}.")
    return tuple(value / largest for value in values)


class DataSource(ABC):
    """Access to the records of a fit, which itself only has ``facts`` and ``dtype``.

    Scales are estimated by noised sums over the federation, which the plan charges, and the model
    is trained in its rounds. Curvatures are computed only in fits without privacy.
    """

    facts: PublicFacts
    dtype: np.dtype
    #: whether rounds may end without the messages of some silos
    may_miss = False
    #: factors of losses, for each class code; None: 1
    class_weights: tuple[float, ...] | None = None

    @abstractmethod
    def federation(self, streams: Streams, n_jobs: int | None) -> Federation:
        """Return the silos."""

    def streams(self, random_state: Any) -> Streams:
        """Return the random streams of a fit."""
        return streams_for(random_state)

    def assignment(self) -> str | None:
        """Return a digest of the assignment of records to silos, None if unknown here."""
        return None

    def digest(self) -> str | None:
        """Return a digest of all records, None if they are not here."""
        return None

    def marks(self) -> dict[str, Any]:
        """Return an identifier of these records, and whether they have weights, if here."""
        return {}

    @abstractmethod
    def with_curvature(self, recipe: Recipe, scales: Scales) -> Recipe:
        """Return the recipe with the curvature of the objective on the data."""

    def raw_federations(self, streams: Streams) -> tuple[Federation, Federation]:
        """Return silos with a frame's undeclared categories, and with its other such columns."""
        raise NotImplementedError

    def encoded(self, encoding: Encoding) -> DataSource:
        """Return the data with a frame's levels and ranges, which were found."""
        raise NotImplementedError

    @abstractmethod
    def records(self) -> tuple[np.ndarray, np.ndarray]:
        """Return features and coded targets for a callback that asks for them."""

    def for_callbacks(self, keep_y: bool) -> DataSource:
        """Return the data that callbacks may ask for."""
        return self


@dataclass(frozen=True, eq=False)
class RawColumns:
    """The columns of a frame whose levels or ranges are not known yet.

    ``words`` (n, c) are those of categories, ``numbers`` (n, k) those of numbers and dates, with
    NaN for gaps.
    """

    words: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, frame: Any, encoding: Encoding) -> RawColumns | None:
        """Return a frame's columns; None if all are known."""
        if encoding.is_known:
            return None
        words, numbers = encoding.unknown("category"), encoding.unknown("number", "date")
        return cls(words.typed(frame), numbers.typed(frame).astype(np.float64))

    def encoded(self, X: ExpandedTable, encoding: Encoding) -> ExpandedTable:
        """Return encoded records with the columns of levels and ranges that were found."""
        known, raw = X.parts(), [iter(self.words.T), iter(self.numbers.T)]

        def parts() -> Iterator[EncodedPart]:
            for column in encoding.columns:
                own = list(islice(known, column.n_parts))
                paid = column.paid and column.parts(next(raw[column.kind != "category"]))
                yield from paid or own

        return ExpandedTable.of_parts(parts(), encoding, len(X))


@dataclass(frozen=True, eq=False)
class LocalData(DataSource):
    """Validated records: features, coded targets, each record's silo and perhaps its weight."""

    X: np.ndarray | ExpandedTable
    y: np.ndarray
    silos: Silos
    facts: PublicFacts
    weights: np.ndarray | None = None
    class_weights: tuple[float, ...] | None = None
    exposure: np.ndarray | None = None
    raw: RawColumns | None = None
    #: the contribution, one person's in one silo, that each record is a part of; None: its own
    of_row: np.ndarray | None = None
    #: whether a person's records give the mean of their gradients; if not, the sum
    mean: bool = True

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.X.dtype

    def federation(self, streams: Streams, n_jobs: int | None) -> LocalFederation:
        parts = self.X, self.y, self.silos.codes, self.facts.n_silos
        records = SiloData.from_codes(
            *parts, weights=self.weights, exposure=self.exposure, of_row=self.of_row
        )
        return LocalFederation(records, streams, n_jobs)

    def raw_federations(self, streams: Streams) -> tuple[Federation, Federation]:
        assert self.raw is not None
        nothing = np.broadcast_to(np.int8(0), len(self.y))
        silos = self.silos.codes, self.facts.n_silos
        words, numbers = (
            LocalFederation(
                SiloData.from_codes(table, nothing, *silos, of_row=self.of_row), streams
            )
            for table in (self.raw.words, self.raw.numbers)
        )
        return words, numbers

    def encoded(self, encoding: Encoding) -> LocalData:
        assert self.raw is not None and isinstance(self.X, ExpandedTable)
        X = self.raw.encoded(self.X, encoding)
        return replace(self, X=X, facts=self.facts.encoded(encoding), raw=None)

    def assignment(self) -> str:
        return self.silos.assignment()

    def marks(self) -> dict[str, Any]:
        mark = mark_of(*self._stored, self.y, *(() if self.raw is None else (self.raw.words,)))
        return {"mark": mark, "weighted": self.weights is not None}

    def digest(self) -> str:
        digest = hashlib.blake2b(self.silos.digest().encode(), digest_size=16)
        for values in (*self._stored, self.y, self.weights, self.exposure, self.of_row):
            if values is not None:
                digest.update(f"{values.shape} {values.dtype}".encode())
                digest.update(np.ascontiguousarray(values))
        if self.raw is not None:
            digest.update(repr(self.raw.words.tolist()).encode())
            digest.update(np.ascontiguousarray(self.raw.numbers))
        return digest.hexdigest()

    @property
    def _stored(self) -> tuple[np.ndarray, ...]:
        """The features as they are stored."""
        return self.X.stored if isinstance(self.X, ExpandedTable) else (self.X,)

    def with_curvature(self, recipe: Recipe, scales: Scales) -> Recipe:
        highest = float(scales.target.transform(self.y.max()))
        recipe = replace(recipe, largest_target=highest)
        return with_curvature(recipe, self.X, self.silos, scales, self._factors())

    def _factors(self) -> np.ndarray | None:
        """Return the weight of each record's loss; None without weights."""
        factors = [] if self.weights is None else [self.weights]
        if self.class_weights is not None:
            codes = class_codes(self.y, len(self.class_weights))
            factors.append(np.asarray(self.class_weights)[codes])
        if self.of_row is not None:
            factors.append(self._shares_of_persons())
        return np.prod(factors, axis=0) if factors else None

    def _shares_of_persons(self) -> np.ndarray:
        """Return the factor of each record's gradient in its silo's mean over persons, times n."""
        assert self.of_row is not None
        rows, persons = self.silos.sizes, self.facts.known_sizes
        share = (rows / persons)[self.silos.codes]
        return share / np.bincount(self.of_row)[self.of_row] if self.mean else share

    def records(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.X), self.y

    def for_callbacks(self, keep_y: bool) -> LocalData:
        y = self.y if keep_y else self.y[:0].copy()
        silos = self.silos._replace(codes=self.silos.codes[:0].copy(), rows=None)
        return replace(self, y=y, silos=silos, weights=None, exposure=None, of_row=None)


@dataclass(frozen=True, eq=False)
class DataElsewhere(DataSource):
    """Records that only remote silos can read."""

    silos: Federation
    facts: PublicFacts
    dtype: np.dtype
    class_weights: tuple[float, ...] | None = None

    @property
    def may_miss(self) -> bool:  # type: ignore[override]
        return self.silos.may_miss

    def federation(self, streams: Streams, n_jobs: int | None) -> Federation:
        return self.silos

    def raw_federations(self, streams: Streams) -> tuple[Federation, Federation]:
        self.silos.encoding = None
        return self.silos, self.silos

    def encoded(self, encoding: Encoding) -> DataElsewhere:
        self.silos.encoding = encoding
        return replace(self, facts=self.facts.encoded(encoding))

    def streams(self, random_state: Any) -> Streams:
        own = self.silos.own_streams() if random_state is None else None
        return super().streams(random_state) if own is None else own

    def with_curvature(self, recipe: Recipe, scales: Scales) -> Recipe:
        raise ValueError(
            'learning_rate="auto" with epsilon=inf depends on the curvature of the objective on '
            "the records, which remote silos do not send; give learning_rate as a number."
        )

    def records(self) -> tuple[np.ndarray, np.ndarray]:
        raise ValueError(
            "A callback asks for the training records, which stay at their silos. "
            "Use a callback that does not need them."
        )
