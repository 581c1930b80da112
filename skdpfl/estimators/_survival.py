"""Survival: censored times, whose hazard is a step function times exp(x w).

The model is the piecewise exponential one (:class:`skdpfl.losses.PiecewiseExponential`).
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpfl._compat import with_names
from skdpfl._survival_times import concordance, read_horizon, read_intervals, read_survival
from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._docs import with_constructor
from skdpfl.estimators._kinds import refuse_in_score
from skdpfl.estimators._noise_error import coef_names
from skdpfl.losses import PiecewiseExponential, signed_times
from skdpfl.privacy.spending.spent import SIMULATION
from skdpfl.table import FLOATS, numbers_in_rows


@with_constructor
class FederatedSurvival(FederatedEstimator):
    """Base class of models of survival times."""

    target_bounds: Any = None
    breaks: Any = 8

    _losses = ("survival",)

    # ---- fit ---------------------------------------------------------------------------------

    def _check(self) -> None:
        super()._check()
        self._cuts()
        if not isinstance(self.model, str) or self.model not in ("linear", "auto"):
            raise ValueError(
                f'survival models are linear: model must be "linear"; got {self.model!r}. Curves '
                "of a feature are columns of DPSplineTransformer."
            )
        if not self.fit_intercept:
            raise ValueError("fit_intercept=False: a survival model has a baseline hazard.")

    def _cuts(self) -> tuple[float, np.ndarray]:
        """Return the horizon, and the inner ends of the intervals; raise if they are invalid."""
        horizon = read_horizon(self.target_bounds)
        return horizon, read_intervals(self.breaks, horizon)

    def _loss(self) -> PiecewiseExponential:
        horizon, cuts = self._cuts()
        return PiecewiseExponential(tuple((cuts / horizon).tolist()))

    def _is_classifier(self) -> bool:
        return False

    def _n_outputs(self) -> int:
        return self._loss().n_outputs()

    def _validated(self, features: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        if y is None:
            raise ValueError(f"{type(self).__name__} needs y: an event and a time for each record.")
        horizon, self.breaks_ = self._cuts()
        event, time = read_survival(y)
        features = validate_data(
            self, with_names(numbers_in_rows(features)), dtype=FLOATS, ensure_min_samples=2
        )
        if len(event) != len(features):
            raise ValueError(f"X has {len(features)} rows, y has {len(event)} events and times.")
        return features, signed_times(event, time, horizon).astype(features.dtype)

    def _declare_targets(self) -> float:
        horizon, self.breaks_ = self._cuts()
        return horizon

    # ---- predict -----------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the risks of new records: the logarithms of their hazard ratios.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``X @ coef_``: higher where events come sooner; 0 has the baseline hazard.
        """
        return np.asarray(self._raw(X)[:, 0] - self.intercept_[0])

    @property
    def baseline_hazard_(self) -> pd.Series:
        """The hazard of a record of zeros per unit of time, by interval."""
        check_is_fitted(self)
        horizon, cuts = self._cuts()
        intervals = pd.IntervalIndex.from_breaks([0.0, *cuts.tolist(), horizon], name="time")
        hazard = np.exp(np.asarray(self.intercept_, np.float64)) / horizon
        return pd.Series(hazard, index=intervals, name="baseline hazard")

    def predict_cumulative_hazard(self, X: Any, times: Any = None) -> pd.DataFrame:
        """Return the cumulative hazards of new records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        times : array-like, default=None
            Times from 0 to the horizon; None: the ends of the intervals.

        Returns
        -------
        DataFrame
            A row for each record, a column for each time.
        """
        risk, (horizon, cuts) = self.predict(X), self._cuts()
        asked = np.append(cuts, horizon) if times is None else np.atleast_1d(times).astype(float)
        if not ((asked >= 0) & (asked <= horizon)).all():
            raise ValueError(
                f"times must be from 0 to the horizon of target_bounds={self.target_bounds!r}, "
                "beyond which no time was read."
            )
        starts, hazard = np.append(0.0, cuts), self.baseline_hazard_.to_numpy()
        spent = np.clip(asked[:, None] - starts, 0.0, np.append(cuts, horizon) - starts)
        found = np.exp(risk.astype(np.float64))[:, None] * (spent @ hazard)
        index = getattr(X, "index", None)
        return pd.DataFrame(found, index=index, columns=pd.Index(asked, name="time"))

    def predict_survival_function(self, X: Any, times: Any = None) -> pd.DataFrame:
        """Return the probabilities that new records have no event until each time.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        times : array-like, default=None
            Times from 0 to the horizon; None: the ends of the intervals.

        Returns
        -------
        DataFrame
            A row for each record, a column for each time.
        """
        return np.exp(-self.predict_cumulative_hazard(X, times))

    def score(self, X: Any, y: Any, sample_weight: Any = None, **refused: Any) -> float:
        """Return the concordance of risks and times (Harrell's C).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        y : structured array or DataFrame
            Their events and times.
        sample_weight : None
            Not accepted.
        **refused
            Not accepted.

        Returns
        -------
        float
            The share of comparable pairs in which the record with the earlier event has the higher
            risk; 0.5 is chance. It is exact, and not private: no budget covers it.
        """
        refuse_in_score(refused)
        if sample_weight is not None:
            raise ValueError("The concordance of survival times takes no sample_weight.")
        event, time = read_survival(y)
        horizon = self._cuts()[0]
        signed = signed_times(event, time, horizon)
        return concordance(~np.signbit(signed), np.abs(signed), self.predict(X))

    def summary(self) -> pd.DataFrame:
        """Return log hazard ratios and hazard ratios as a frame, one row per feature.

        Coefficients are in the units of X if the scaling is affine. The noise error is the standard
        deviation of a coefficient over fits on the same records with new noise, without sampling
        error, where it is known.

        Returns
        -------
        DataFrame
            Columns "coefficient", "hazard ratio" and, if it is known, "noise error". Its ``attrs``
            has "epsilon", "delta", "no_noise_error" and, with ``unit="record"``,
            "epsilon_per_silo".
        """
        check_is_fitted(self)
        index = pd.Index(coef_names(self), name="feature")
        ratios = np.exp(np.asarray(self.coef_, np.float64))
        frame = pd.DataFrame({"coefficient": self.coef_, "hazard ratio": ratios}, index=index)
        errors = self._noise_error.of_coefficients()
        if errors is not None:
            frame["noise error"] = errors[: len(index)]
        spent = self.privacy_spent_
        frame.attrs = {"epsilon": spent.epsilon, "delta": spent.delta}
        frame.attrs |= {"no_noise_error": self._noise_error.missing, "model": "linear"}
        if spent.simulation:
            frame.columns.name = frame.attrs["simulation"] = SIMULATION
        if spent.per_silo is not None:
            frame.attrs["epsilon_per_silo"] = spent.per_silo.to_dict()
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
