"""The base class of the estimators, with fit and predict: read, choose, plan, run, unpack.

Everything before the run uses public numbers only. Records are read by validation, whose errors
(NaN, a single class) can be seen, and by the run.
"""

import copy
from collections.abc import Callable
from dataclasses import field, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from skdpfl import _warnings
from skdpfl._compat import as_frame, fitting, with_callbacks, with_names
from skdpfl._declarations import (
    DEFAULT_CATEGORIES,
    encoding_elsewhere,
    encoding_for,
    encoding_of,
)
from skdpfl.choosing import PublicFacts, choose_within_budget, make_plan
from skdpfl.encoding import Encoding
from skdpfl.estimators import _data, _parameters
from skdpfl.estimators._as_json import from_plain, to_plain
from skdpfl.estimators._docs import refuse_parameters, refusing_parameters, with_constructor
from skdpfl.estimators._noise_error import coef_names, interactions, shape_functions, summary
from skdpfl.estimators._training import Trained
from skdpfl.federation import Federation, Schema
from skdpfl.models import LinearModel
from skdpfl.privacy.events import SecureAggregation
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling import AffineScaling
from skdpfl.table import FLOATS, Table, check_persons, numbers_in_rows, read_new

#: binary logarithms of the most rows, and the most numbers, in a block of predictions
_MOST_ROWS, _NUMBERS = 13, 20


def _fields_of(part: Any) -> list[str]:
    """Return the fields of a dataclass without ``get_params``, such as a loss or an algorithm."""
    if not is_dataclass(part) or isinstance(part, type) or hasattr(part, "get_params"):
        return []
    return [f.name for f in fields(part) if f.init]


def _are_numbers(values: Any, ndim: int) -> bool:
    """Whether these are few finite floats, which checks would return as they are."""
    few = type(values) is np.ndarray and values.size <= 2**_NUMBERS
    alike = few and values.dtype in FLOATS and values.ndim == ndim
    return alike and bool(np.isfinite(values).all())


@with_constructor
class FederatedEstimator(Trained):
    """Base class of all estimators.

    A family adds its parameters and a :class:`skdpfl.choosing.Method`; classifiers and regressors
    add targets and losses. The meaning of all parameters is in ``_docs.GROUPS``.
    """

    epsilon: Any = field(default=1.0, kw_only=False)
    delta: Any = "auto"
    feature_bounds: Any = None
    max_categories: int = DEFAULT_CATEGORIES
    silo_column: Any = None
    alpha: float = 0.0
    fit_intercept: bool = True
    model: Any = "linear"
    scaling: str | None = "auto"
    clip_features: bool | str = "auto"
    trust: str | SecureAggregation = "silo"
    neighbours: str = "auto"
    noise_multiplier: float | None = None
    n_rounds: Any = "auto"
    learning_rate: Any = "auto"
    clip_norm: Any = "auto"
    sampling_rate: Any = "auto"
    average: bool | float = True
    silo_fraction: float = 1.0
    cohort: Any = "auto"
    silo_weights: Any = "auto"
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    __metadata_request__fit = {"silos": True, "persons": True}  # noqa: RUF012

    #: valid values of ``trust``, words for ``learning_rate``, losses
    _trusts: ClassVar[tuple[str, ...]] = ("silo", "secagg", "server")
    _learning_rates: ClassVar[tuple[str, ...]] = ("auto",)
    _losses: ClassVar[tuple[str, ...]]

    #: parameters of the estimators that protect persons, where they are
    person_column: ClassVar[Any] = None
    silos_per_person: ClassVar[int] = 1

    #: raises an error that explains why there is none
    partial_fit = _parameters.NO_PARTIAL_FIT

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = refusing_parameters(cls.__init__)  # type: ignore[method-assign]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of this estimator.

        Parameters
        ----------
        deep : bool, default=True
            Whether to also return the parameters of its parts, such as ``loss__q`` of a loss
            object.

        Returns
        -------
        dict
            The values by name.
        """
        params: dict[str, Any] = super().get_params(deep)
        for name, part in list(params.items()) if deep else ():
            for f in _fields_of(part):
                params[f"{name}__{f}"] = getattr(part, f)
        return params

    def set_params(self, **params: Any) -> Any:
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params
            New values by name; ``loss__q`` is the field ``q`` of a loss object, which is replaced.

        Returns
        -------
        self : object
        """
        refuse_parameters(self, params, self._get_param_names(), ValueError)
        super().set_params(**{name: params.pop(name) for name in list(params) if "__" not in name})
        for name, part in self.get_params(deep=False).items() if params else ():
            own = [f for f in _fields_of(part) if f"{name}__{f}" in params]
            if own:
                setattr(self, name, replace(part, **{f: params.pop(f"{name}__{f}") for f in own}))
        for name, _, inner in (each.partition("__") for each in params):
            if not hasattr(part := getattr(self, name, self), "set_params"):
                raise ValueError(f"{name}__{inner}: {name}={part!r} has no parameter {inner!r}.")
        return super().set_params(**params)

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters; cached, since reading a signature is slow."""
        names: list[str] = super()._get_param_names()
        return names

    def _check(self) -> None:
        """Raise for the first invalid parameter, before any data are read."""
        words = {"trust": self._trusts, "learning_rate": self._learning_rates, "loss": self._losses}
        _parameters.check_parameters(type(self).__name__, self._parameters(), words)
        self._check_own()

    # ---- a family of estimators (one module each), with ``_method`` and ``_unpack_outcome`` ----

    def _check_own(self) -> None:
        """Raise for invalid parameters that only this family has."""

    # ---- classifiers and regressors, with ``_loss`` and ``_is_classifier`` ---------------------

    def _encode(self, y: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return targets encoded for the loss."""
        raise NotImplementedError

    def _n_outputs(self) -> int:
        raise NotImplementedError

    def _class_weights(self) -> tuple[float, ...] | None:
        """Return the weight of each class's losses; None without weights."""
        return None

    def _class_shares(self) -> tuple[float, ...] | None:
        """Return the shares of the classes if they are public, else None."""
        return None

    # ---- fit ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        *unnamed: Any,
        silos: Any = None,
        persons: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
        **refused: Any,
    ) -> Any:
        """Fit a model within the privacy budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos, in any order.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo id. Without it (and without ``silo_column``) all records are one
            silo, which is central differential privacy.
        persons : array-like of shape (n_samples,), default=None
            With ``unit="person"``: the id of each record's person, which stays secret, as does how
            many records a person has. Ids are compared over silos.
        sample_weight : array-like of shape (n_samples,), default=None
            Each record's weight, at least 0. Its loss is multiplied by it before the gradient is
            clipped. Weights cost nothing if each depends on its own record only; the cost does not
            cover weights that were computed from other records. They are not rescaled, since the
            largest weight is private: divide them by a public number so that most are at most 1.
            Clipping undoes larger ones, and with weights that sum to 1 noise dominates.
        exposure : array-like of shape (n_samples,), default=None
            Each record's exposure, above 0: the time, area or number of people that its target was
            counted over. Its logarithm is added to the raw prediction, so the model is one of
            rates: of targets per unit of exposure. For losses with a log link only. It is part of
            the record, and protected like it; a hundredth of the budget (of mu squared) finds a
            typical exposure, where the fit starts.
        *unnamed
            Not accepted: all others are keyword-only.
        **refused
            Not accepted; the error names the alternative.

        Returns
        -------
        self : object
            The fitted estimator. A fit that fails leaves the estimator as it was.
        """
        _parameters.refuse_arguments(type(self).__name__, unnamed, refused)
        with fitting(self):
            return self._fit(X, y, silos, persons, sample_weight, exposure)

    def _fit(
        self, X: Any, y: Any, silos: Any, persons: Any, sample_weight: Any, exposure: Any
    ) -> Any:
        self._check()
        known = isinstance(self, PersonEstimator)
        check_persons(self.unit, persons, self.person_column, known=known)
        return self._train(self._read(X, y, silos, persons, sample_weight, exposure))

    def fit_federation(self, federation: Federation, facts: Schema) -> Any:
        """Fit a model with remote silos.

        The result equals that of :meth:`fit`, bit for bit if the silos have the same random
        streams. The silos scale their records and add noise; this is the server's part.

        Parameters
        ----------
        federation : Federation
            The silos.
        facts : Schema
            Public facts of their data. Classifiers need ``classes``. With ``unit="person"`` sizes
            are numbers of persons, and ``silos_per_person`` is an assumption: remote silos do not
            compare ids.

        Returns
        -------
        self : object
            The fitted estimator. A fit that fails leaves the estimator as it was.
        """
        with fitting(self):
            self._check()
            self._train(self._declared(federation, facts))
            federation.end()
            return self

    def _declared(self, federation: Federation, facts: Schema) -> _data.DataElsewhere:
        """Check the declared facts of remote data, and set the attributes that depend on them."""
        sizes, *_ = _parameters.check_shape(facts.silo_sizes, facts.n_features, 2)
        if federation.n_silos != len(sizes):
            raise ValueError(
                f"silo_sizes has {len(sizes)} silos, but the federation has {federation.n_silos}."
            )
        federation.horizon, federation.has_exposure = self._declare_targets(), facts.exposure
        if facts.exposure:
            _data.check_exposure(self._loss())
        self.n_features_in_, width = int(facts.n_features), int(facts.n_features)
        self.schema_: Encoding | None = None
        if facts.columns is not None:
            self.schema_ = self._encoding_elsewhere(facts.columns, federation)
            width = len(self.schema_.names())
        federation.encoding = self.schema_
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if facts.feature_names is not None:
            self.feature_names_in_ = np.asarray(facts.feature_names, dtype=object)
        _parameters.check_named_bounds(self.feature_bounds, facts.feature_names)
        more = {"elsewhere": not hasattr(federation, "data"), "has_exposure": facts.exposure}
        known = self._facts(sizes, width, self._n_outputs(), self.schema_, **more)
        if self.schema_ is None:
            known = known.with_columns(None, facts.feature_names, facts.indicators)
        self._indicators = known.indicators
        return _data.DataElsewhere(federation, known, np.dtype(facts.dtype), self._class_weights())

    def _encoding_elsewhere(self, columns: Any, federation: Federation) -> Encoding:
        """Return the encoding of silos' frames; raise if it cannot be completed there."""
        encoding = encoding_elsewhere(columns, self.feature_bounds, self.max_categories)
        unknown = [column.name for column in encoding.columns if not column.is_known]
        if unknown and not federation.reads_frames:
            raise ValueError(
                f"{type(federation).__name__} has tables of numbers, so levels and ranges of "
                f"{unknown[:5]!r} cannot be found: declare them in columns or feature_bounds."
            )
        return encoding

    def _declare_targets(self) -> float | None:
        """Set the attributes that depend on targets, for remote data; return a horizon of times."""
        return None

    def plan_for(
        self,
        *,
        silo_sizes: Any,
        n_features: int | None = None,
        n_classes: int = 2,
        feature_names: Any = None,
        indicators: Any = None,
        exposure: bool = False,
        columns: Any = None,
    ) -> PrivacyPlan:
        """Return the plan of a fit on data with these sizes, without any data.

        Parameters
        ----------
        silo_sizes : mapping or sequence
            Each silo's number of records; with ``unit="person"`` of persons.
        n_features : int, default=None
            The number of features, without the silo column; by default that of ``columns``.
        n_classes : int, default=2
            The number of labels (classifiers only).
        feature_names : sequence of str, default=None
            The features' names; by default those of a ``feature_bounds`` mapping.
        indicators : sequence of bool, default=None
            Which features are columns of dtype bool; by default those that a ``feature_bounds``
            mapping leaves out.
        exposure : bool, default=False
            Whether records have exposures.
        columns : mapping, default=None
            The columns of a frame that holds not only numbers, and their kinds: "number",
            "category", "flag" or "date"; or the ``schema_`` of a fitted estimator.

        Returns
        -------
        PrivacyPlan
            Noise and rounds; ``plan.spent()`` is the cost, ``plan.expected_width`` the width of
            intervals with ``inference="intervals"``.
        """
        self._check()
        schema = None if columns is None else self._encoding_for(columns)
        if n_features is None and columns is not None:
            n_features, feature_names = len(columns), list(columns)
        width = n_features if schema is None else len(schema.names())
        sizes, d, n_classes = _parameters.check_shape(silo_sizes, width, n_classes)
        outputs = self._loss().n_outputs(n_classes if self._is_classifier() else None)
        facts = self._facts(sizes, d, outputs, schema, has_exposure=bool(exposure))
        if schema is None:
            facts = facts.with_columns(self.feature_bounds, feature_names, indicators)
        streams = streams_for(copy.deepcopy(self.random_state))  # fit draws the same schedule
        schedule = self._schedule_from(streams)
        return make_plan(choose_within_budget(self._recipe(facts), schedule), schedule)

    def summary(self) -> pd.DataFrame:
        """Return the coefficients as a frame, one row per feature and one for the intercept.

        Coefficients are in the units of X if the scaling is affine, else in those of
        ``scaling_.transform(X)``. The noise error is the standard deviation of a coefficient over
        fits on the same records with the same private scales and new noise in the rounds, estimated
        from these. New scales would move the limits at which values are clipped, and by them
        coefficients: by about 1 % at most for normal columns without a penalty, by up to 12 % for
        columns with long tails or ``alpha`` of 1 or more. It does not contain the sampling error,
        which is not released; standard errors that ignore the noise would be too small. It is known
        for linear models fitted by single gradient steps (``ISRLDP`` with the minibatch solver,
        ``DPFedAvg`` with one local step). If rounds sample silos or records, the sampling counts as
        noise, and at least four rounds per parameter are needed.

        Returns
        -------
        DataFrame
            Columns "coefficient" and, if it is known, "noise error"; for more than two classes
            "coefficient of <label>" and "noise error of <label>" for each. Its ``attrs`` has
            "epsilon", "delta", "no_noise_error" (why there is none), "noise_error_given" (the same
            scales), "model" ("linear" or "additive": what ``model="auto"`` has become) and, with
            ``unit="record"``, "epsilon_per_silo". The columns' names contain "simulation (seeded)"
            if the noise follows from a seed: whoever knows the seed can remove the noise.
        """
        check_is_fitted(self)
        return summary(self)

    @property
    def shape_functions_(self) -> dict[Any, pd.DataFrame]:
        """Each feature's curve, with ``model="additive"``: a mapping from feature to frame.

        Each row is a linear piece of the curve, between "from" and "to". "value" is the feature's
        contribution to the decision function in the middle of the piece, "slope" its change per
        unit, and "noise error" the standard deviation of the value over fits on the same records
        with new noise, where it is known (:meth:`summary`). With more than two classes columns are
        named "value of <label>". Curves are centred over the private histogram, and constant beyond
        the bounds; ``intercept_``, all curves and ``interactions_`` sum to the decision function.
        """
        check_is_fitted(self)
        return shape_functions(self)

    @property
    def interactions_(self) -> pd.DataFrame:
        """The products of an additive model: one row per pair of features, with its "coefficient".

        Before they are multiplied, both values are centred, divided by a scale and clipped at
        "most"; ``interactions_.attrs["coded"]`` has these numbers.
        """
        check_is_fitted(self)
        return interactions(self)

    def to_dict(self) -> dict[str, Any]:
        """Return a fitted linear or additive model as plain data, for a file that runs no code.

        Returns
        -------
        dict
            The model, which can be written as JSON: what is needed to predict, and the cost of the
            fit. The user guide lists its keys, and how to predict from them in any language.
        """
        check_is_fitted(self)
        return to_plain(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Any:
        """Read and check the output of :meth:`to_dict`.

        Parameters
        ----------
        plain : dict
            The model; ``json.load`` gives one.

        Returns
        -------
        estimator
            A fitted estimator of this class with the same predictions, without the fit's other
            parameters and attributes.
        """
        return from_plain(cls, plain)

    def _read(
        self, X: Any, y: Any, silos: Any, persons: Any, sample_weight: Any, exposure: Any
    ) -> _data.LocalData:
        """Read the data, and set the attributes with their public numbers."""
        table = Table.read(
            X,
            y,
            silos,
            persons=persons,
            validate=self._validate,
            silo_column=self.silo_column,
            person_column=self.person_column,
            encoding=self._encoding,
            warn=True,
        )
        features, y, encoding = table.X, table.y, table.encoding
        self.schema_ = encoding
        if encoding is not None:  # names and number are those of the frame
            validate_data(self, with_names(table.features), skip_check_array=True)
        names = getattr(self, "feature_names_in_", None)
        _parameters.check_named_bounds(self.feature_bounds, names)
        of_row, sizes = table.units(self.silos_per_person)
        weights = _data.read_sample_weight(sample_weight, len(features), X, features.dtype)
        class_weights = self._class_weights()
        classes = self.classes_ if self._is_classifier() else None
        exposure = _data.read_exposure(exposure, len(features), X, features.dtype, self._loss())
        more = {"indicators": table.indicators, "has_exposure": exposure is not None}
        by_silo, outputs = pd.Series(sizes, table.silos.ids), self._n_outputs()
        facts = self._facts(by_silo, features.shape[1], outputs, encoding, **more)
        self._indicators = facts.indicators
        _data.warn_of_counted(weights, class_weights, y, classes)
        _data.warn_of_counted_shares(facts.class_shares, y)
        raw = None if encoding is None else _data.RawColumns.of(table.features, encoding)
        records = features, y, table.silos, facts, weights, class_weights, exposure
        mean = getattr(self, "contribution", "mean") == "mean"
        return _data.LocalData(*records, raw, of_row, mean)

    def _encoding(self, features: Any) -> Encoding | None:
        """Return the encoding of a frame with these columns."""
        declared, others = self.feature_bounds, (self.silo_column, self.person_column)
        return encoding_of(features, declared, self.max_categories, others)

    def _encoding_for(self, columns: Any) -> Encoding | None:
        """Return the encoding of a frame whose columns have these kinds."""
        kinds = {name: getattr(kind, "kind", kind) for name, kind in columns.items()}
        return encoding_for(kinds, self.feature_bounds, self.max_categories)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that have coefficients, or enter the model.

        Parameters
        ----------
        input_features : ignored
            There for the sake of scikit-learn's conventions.

        Returns
        -------
        ndarray of str
            ``schema_.names()`` where a frame was encoded, else the names of the features; then
            those of the columns of curves, if there are any. One for each column of ``coef_``.
        """
        check_is_fitted(self)
        return np.array(coef_names(self), dtype=object)

    def _validate(self, features: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return features as numbers and targets encoded for the loss."""
        whole = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biu"
        read = (whole or _are_numbers(y, 1)) and _are_numbers(features, 2)
        if read and len(features) == len(y) >= 2 and features.size:
            self.n_features_in_ = features.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            return features, self._encode(y, features.dtype)
        features, y = validate_data(
            self,
            with_names(numbers_in_rows(features)),
            y,
            dtype=FLOATS,
            ensure_min_samples=2,
            y_numeric=not self._is_classifier(),
        )
        return features, self._encode(y, features.dtype)

    def _facts(
        self,
        sizes: pd.Series,
        n_features: int,
        n_outputs: int,
        encoding: Encoding | None = None,
        **more: Any,
    ) -> PublicFacts:
        """Return the public numbers, without the sizes if whole silos are protected."""
        public = None if self.unit == "silo" else sizes.to_numpy()
        names, shares = getattr(self, "feature_names_in_", None), self._class_shares()
        numbers = public, n_features, n_outputs, self._is_classifier(), names, shares
        facts = PublicFacts(sizes.index, *numbers, **more)
        return facts if encoding is None else facts.encoded(encoding)

    # ---- predict -----------------------------------------------------------------------------

    def _raw(self, X: Any) -> np.ndarray:
        """Return raw predictions (n, k) of new records."""
        check_is_fitted(self)
        if self._is_checked(X):
            return self._raw_of_numbers(X)
        _warnings.warn_of_unseen_silos(self, as_frame(X))
        schema = self.__dict__.get("schema_")
        how = {"dtype": FLOATS} if schema is None else {"skip_check_array": True}
        known = partial(validate_data, self, reset=False, **how)
        without = self.silo_column, self.person_column
        values = read_new(X, validate=known, without=without, encodes=schema is not None)
        if schema is None:
            return self._raw_of_numbers(values)
        return self._by_blocks(
            lambda rows: self._raw_of_numbers(schema.encode(_safe_indexing(values, rows))),
            _num_samples(values),
        )

    def _is_checked(self, X: Any) -> bool:
        """Whether all checks would return new records as they are."""
        fitted = vars(self)
        named = "feature_names_in_" in fitted or fitted.get("schema_") is not None
        known = not named and _are_numbers(X, 2) and len(X) > 0
        return known and X.shape[1] == fitted.get("n_features_in_")

    def _raw_of_numbers(self, values: np.ndarray) -> np.ndarray:
        """Return raw predictions of checked numbers."""
        if type(self.model_) is LinearModel and isinstance(self.scaling_, AffineScaling):
            raw = self.model_.raw_within(vars(self), values, self.scaling_.low, self.scaling_.high)
            if raw is not None:
                return raw
        return self._by_blocks(lambda rows: self._raw_of(values[rows]), len(values))

    def _by_blocks(self, function: Callable[[slice], np.ndarray], n: int) -> np.ndarray:
        """Return raw predictions of all rows, some at a time where rows are predicted alone."""
        rows = 2 ** max(0, min(_MOST_ROWS, _NUMBERS - self.model_.n_features.bit_length()))
        if not self.model_.fitted_by_rows:
            rows = max(1, n)
        each = [function(slice(i, i + rows)) for i in range(0, max(1, n), rows)]
        return each[0] if len(each) == 1 else np.concatenate(each)

    def _raw_of(self, values: np.ndarray) -> np.ndarray:
        """Return raw predictions of checked rows."""
        scaling = self.scaling_
        X = scaling.within(values) if scaling.affine else scaling.transform(values)
        return self.model_.raw_of_fitted(vars(self), X)

    def __sklearn_is_fitted__(self) -> bool:
        """Return what scikit-learn would find, but from the attribute that was set last."""
        return any(name.endswith("_") and name[:2] != "__" for name in reversed(vars(self)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


@with_constructor
class PersonEstimator(FederatedEstimator):
    """Base class of the estimators that can protect persons with several rows."""

    unit: str = "record"
    person_column: Any = None  # type: ignore[misc]
    contribution: str = "mean"
    silos_per_person: int = 1  # type: ignore[misc]
