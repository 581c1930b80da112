"""Base class of the private scalers: budget, silos, plan and cost."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from skdpfl import _docs
from skdpfl._arguments import check_number, check_share, is_auto
from skdpfl._compat import as_frame, with_names
from skdpfl._input_errors import advising
from skdpfl._missing import not_elsewhere
from skdpfl.preprocessing._frames import CarriesSilos
from skdpfl.privacy.pricing.automatic_delta import automatic_delta
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.recording import Recorded
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.scaling import (
    EVERYTHING,
    AffineScaling,
    Array,
    Bounds,
    ScalingPlan,
    plan_scaling,
    read_feature_bounds,
)
from skdpfl.silos import Silos, read_silos, split_silo_column

#: decorator that fills in the shared parts of the transformers' docstrings
shared_docs = _docs.shared_docs(
    {
        "parameters": """
    delta : "auto" or float, default="auto"
        "auto" is the largest power of ten that is at most 1 / (10 n_samples).
    feature_bounds : (low, high) or mapping, default=None
        Public ranges: two numbers, two arrays of shape (n_features,), two Series (by column
        name if both have names), or a mapping from column to (low, high). Must not be computed
        from the data. ``low == high`` ignores the column.
    silo_column : str, default=None
        The column of X with each record's silo; it is passed through unchanged.
    random_state : int, RandomState, Generator or None, default=None
        None: secret noise. An integer is for simulations: it determines the noise.""",
        "fitted": """
    silo_ids_ : ndarray
        The silos.
    n_features_in_ : int
        The number of features, without the silo column.
    n_samples_seen_ : int
        The number of records.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X is a DataFrame.""",
    }
)


class PrivateScaler(CarriesSilos, Recorded, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base class of transformers that spend their budget on the scales of the features."""

    __metadata_request__fit = {"silos": True}  # noqa: RUF012

    fit_federation = not_elsewhere(
        'Give the estimator itself scaling="private", or feature_bounds from public knowledge.'
    )

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: Any = "auto",
        feature_bounds: Any = None,
        silo_column: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_bounds = feature_bounds
        self.silo_column = silo_column
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, silos: Any = None) -> Any:
        """Learn the scales of the features within the privacy budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos. Missing and infinite values are allowed; they count as the
            middle of a feature's range, and ``transform`` does not change them.
        y : None
            Ignored.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo id; None: all records are one silo.

        Returns
        -------
        self : object
        """
        _check_budget(self.epsilon, self.delta)
        # a warning (or, with np.seterr, an error) of arithmetic could reveal a single outlier
        with np.errstate(all="ignore"):
            plan = self._fit(X, silos)
        if plan.advice:
            warnings.warn(plan.advice, UserWarning, stacklevel=2)
        return self

    def _fit(self, X: Any, silos: Any) -> ScalingPlan:
        """Set all fitted attributes and return the plan."""
        streams = streams_for(self.random_state)
        X = as_frame(X)
        features, silos = split_silo_column(X, silos, self.silo_column)
        before = dict(self.__dict__)
        try:
            with advising(features):
                values = self._values(features)
            read = read_silos(silos, len(values), X)
            bounds = self._bounds(values.shape[1])
            delta = automatic_delta(len(values)) if self.delta == "auto" else float(self.delta)
            plan = self._plan(read, values.shape[1], bounds, gaussian_mu(self.epsilon, delta))
            spent = _cost(plan, delta, read, streams)
            self._charge(spent)
            scaling = self._learn(plan, values, read, streams)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self.scaling_ = scaling
        self._set_attributes(scaling)
        named = self.silo_column is not None
        self._silo_position = list(X.columns).index(self.silo_column) if named else None
        self.silo_ids_, self.privacy_spent_ = read.ids.to_numpy(), spent
        self.n_samples_seen_ = len(values)
        return plan

    def _values(self, features: Any) -> Array:
        kinds = [np.float64, np.float32]
        return validate_data(self, with_names(features), dtype=kinds, ensure_all_finite=False)

    def _bounds(self, n_features: int) -> Bounds | None:
        if self.feature_bounds is None:
            return None
        names = getattr(self, "feature_names_in_", None)
        return read_feature_bounds(self.feature_bounds, n_features, names)

    def _plan(self, silos: Silos, n_features: int, bounds: Bounds | None, mu: float) -> ScalingPlan:
        return plan_scaling(
            silo_sizes=silos.sizes,
            n_features=n_features,
            mu=mu,
            scaling="private",
            feature_bounds=bounds,
            shares=EVERYTHING,
        )

    def _learn(self, plan: ScalingPlan, X: Array, silos: Silos, streams: Streams) -> AffineScaling:
        """Return the scaling; only this method reads values."""
        raise NotImplementedError

    def _set_attributes(self, scaling: AffineScaling) -> None:
        """Set the fitted attributes of scikit-learn's scaler with the same name."""
        raise NotImplementedError

    def _map(self, X: Array, inverse: bool) -> Array:
        return self.scaling_.inverse(X) if inverse else self.scaling_.transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags


def _check_budget(epsilon: Any, delta: Any) -> None:
    """Raise unless epsilon and delta are valid."""
    check_number("epsilon", epsilon, low=0, open_low=True, words=" (inf for no privacy)")
    if not is_auto(delta):
        check_share("delta", delta, words=' (or "auto")')


def _cost(plan: ScalingPlan, delta: float, silos: Silos, streams: Streams) -> PrivacySpent:
    """Return the cost of the plan, which is the same for all silos."""
    seeds = () if streams.seed is None else (streams.seed,)
    return PrivacySpent.from_compositions(
        unit="record",
        trust="silo",
        neighbours="replace",
        delta=delta,
        compositions=[plan.composition()],
        silo_ids=silos.ids.tolist(),
        group_of_silo=[0] * len(silos.ids),
        n_releases=len(plan.releases),
        assignment=silos.digest(),
        simulation_seeds=frozenset(seeds),
    )
