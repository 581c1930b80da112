"""Intervals of a fitted linear model in the units of X: the frame of ``summary``, and contrasts.

:mod:`skdpfl.inference` has the method and the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice, check_share
from skdpfl.estimators._noise_error import coef_names, linear_units
from skdpfl.federation import Federation, Work
from skdpfl.inference import Interval, IntervalPlan, IntervalRun, NewtonStep
from skdpfl.losses import LogLoss, Loss, PiecewiseExponential, Poisson, SquaredError
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.spending.report import keys, listed, require
from skdpfl.scaling import Scales

COLUMNS = ["coefficient", "standard error", "lower", "upper", "p"]
#: why a single coefficient has no interval
_UNBOUNDED = "unbounded: the noise hides how much the records tell about it"
_IGNORED = "its feature_bounds are equal, so the column is ignored"


def check_inference(params: Mapping[str, Any], loss: Loss) -> None:
    """Raise, before data are read, unless a fit with these parameters can have intervals."""
    check_choice("inference", params["inference"], (None, "intervals"))
    check_choice("covariance", params["covariance"], ("model", "robust", "silos"))
    if params["inference"] is None:
        return
    known = isinstance(loss, LogLoss | SquaredError | Poisson | PiecewiseExponential)
    linear = isinstance(params["model"], str) and params["model"] in ("linear", "auto")
    for wrong, why in (
        (not linear, "is for linear models: curves and networks have no coefficients to report; "
                     'use model="linear"'),
        (not known, 'is for the losses "log_loss", "squared_error" and "poisson", whose '
                    "estimates have a known law"),
        (params["epsilon"] is None, "spends fixed parts of a budget: give epsilon instead of "
                                    "noise_multiplier"),
        (params["n_rounds"] == "budget", 'spends fixed parts of a budget: leave n_rounds="auto"'),
        (params["trust"] == "shuffler", "needs sums, and a shuffler sends messages of single "
                                        'records: use trust="silo", "secagg" or "server"'),
        (params.get("class_weight") is not None, "is of the unweighted model: leave class_weight "
                                                 "and move the threshold of predictions instead"),
    ):  # fmt: skip
        if wrong:
            raise ValueError(f'inference="intervals" {why}.')


@dataclass(frozen=True, eq=False)
class FittedIntervals:
    """The Newton step of a fit, and the map from its parameters to coefficients in units of X.

    Coefficients and intercept are ``to_units @ theta + offsets``; columns without a parameter have
    zeros in ``to_units``.
    """

    step: NewtonStep
    to_units: np.ndarray
    offsets: np.ndarray
    names: tuple[Any, ...]

    def set_on(self, model: Any) -> None:
        """Set the attributes of a fitted model that follow from its intervals."""
        model._intervals = self
        shape = np.shape(model.coef_)
        d = math.prod(shape)
        model.coef_estimate_ = self.estimate[:d].reshape(shape)
        model.coef_covariance_ = self.covariance[:d, :d]

    def to_plain(self) -> dict[str, Any]:
        """Return the step and the map as numbers and arrays."""
        step = {each.name: getattr(self.step, each.name) for each in fields(self.step)}
        return step | {"to_units": self.to_units, "offsets": self.offsets}

    @classmethod
    def from_plain(cls, plain: Any, model: Any) -> FittedIntervals:
        """Return the intervals of a model from numbers and lists; raise unless they fit."""
        names = {each.name for each in fields(NewtonStep)}
        plain = {"far": ""} | plain if isinstance(plain, dict) else plain  # written before it was
        keys(plain, names | {"to_units", "offsets"}, "intervals")
        k, n = len(listed(plain, "score", "intervals")), len(coef_names(model))
        rows = len(listed(plain, "offsets", "intervals"))
        require(rows in (n, n + 1) and k > 0, "offsets", "are not one for each coefficient")
        shapes = {"pilot": (k,), "score": (k,), "curvature": (k, k), "meat": (k, k)}
        shapes |= {
            "to_units": (rows, k),
            "offsets": (rows,),
            "curvature_noise": (),
            "dispersion": (),
        }
        arrays = {name: _array(plain, name, shape) for name, shape in shapes.items()}
        least = min(arrays["curvature_noise"], arrays["dispersion"])
        require(least >= 0, "curvature_noise or dispersion", "is below 0")
        noise, each = plain["score_noise"], plain["each"]
        shape = (k,) if isinstance(noise, list) else ()
        arrays["score_noise"] = _array(plain, "score_noise", shape)
        if each is not None:
            require(isinstance(each, list) and len(each) == 2, "each", "is not a pair")
            m = len(listed({"each": each[0]}, "each", "intervals"))
            pair = {"scores": each[0], "curvatures": each[1]}
            each = _array(pair, "scores", (m, k)), _array(pair, "curvatures", (m, k, k))
        require(isinstance(plain["far"], str), "far", "is not a text")
        read = {name: arrays[name] for name in names - {"each", "far"}}
        step = NewtonStep(**read, each=each, far=plain["far"])
        named = tuple(coef_names(model)) + (("intercept",) if rows > n else ())
        return cls(step, arrays["to_units"], arrays["offsets"], named)

    @property
    def estimate(self) -> np.ndarray:
        """The estimates of all coefficients and the intercept; NaN if the table is refused."""
        if self.step.refused:
            return np.full(len(self.names), np.nan)
        return np.asarray(self.to_units @ self.step.estimate + self.offsets)

    @property
    def covariance(self) -> np.ndarray:
        """Their covariance; NaN if the table is refused."""
        if self.step.refused:
            return np.full((len(self.names),) * 2, np.nan)
        return np.asarray(self.to_units @ self.step.covariance @ self.to_units.T)

    def interval(self, weights: np.ndarray, confidence: float) -> Interval | str:
        """Return the interval of a combination, or why there is none."""
        along = weights @ self.to_units
        if self.step.refused or not along.any():
            return self.step.refused or _IGNORED
        interval = self.step.interval(along, confidence, float(weights @ self.offsets))
        return interval if np.isfinite(interval.lower + interval.upper) else _UNBOUNDED

    def refused(self, d: int) -> str:
        """Return why none of the first d coefficients has an interval of 95 %; "" if one has."""
        each = (self.interval(own, 0.95) for own in np.eye(len(self.names))[:d])
        why = list(takewhile(lambda own: isinstance(own, str), each))
        return str(why[0]) if len(why) == d else ""

    def frame(self, confidence: float) -> pd.DataFrame:
        """Return the intervals, one row a coefficient."""
        check_share("confidence", confidence)
        each = [self.interval(own, confidence) for own in np.eye(len(self.names))]
        rows = [[np.nan] * len(COLUMNS) if isinstance(own, str) else list(own) for own in each]
        index = pd.Index(self.names, name="feature")
        frame = pd.DataFrame(rows, index=index, columns=COLUMNS, dtype=float)
        why = {name: own for name, own in zip(self.names, each, strict=True) if type(own) is str}
        frame.attrs = {"confidence": float(confidence), "refused": why}
        return frame

    def contrast(self, weights: Any, confidence: float) -> pd.Series:
        """Return the interval of a linear combination of coefficients."""
        check_share("confidence", confidence)
        interval = self.interval(self._read(weights), confidence)
        if isinstance(interval, str):
            row = pd.Series(np.nan, index=COLUMNS)
            row.attrs["refused"] = interval
            return row
        return pd.Series(list(interval), index=COLUMNS)

    def _read(self, weights: Any) -> np.ndarray:
        """Return one weight a coefficient, from a mapping by name or an array."""
        n, names = len(self.names), list(self.names)
        if isinstance(weights, Mapping | pd.Series):
            entries = dict(weights.items())
            strange = [name for name in entries if name not in names]
            if strange:
                raise ValueError(
                    f"contrast: {strange[0]!r} is no coefficient; there are {names[:8]!r}."
                )
            read = np.array([float(entries.get(name, 0.0)) for name in names])
        else:
            read = np.asarray(weights, float)
            if read.shape == (n - ("intercept" in names),):  # of the features alone
                read = np.append(read, np.zeros(n - len(read)))
        if read.shape != (n,) or not np.isfinite(read).all() or not read.any():
            raise ValueError(
                "contrast takes a mapping from feature to weight, or one finite weight for each "
                f"feature, not all of them 0; got {weights!r}."
            )
        return read


def _array(plain: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Return an array of finite numbers; None where a matrix may be missing."""
    if name == "meat" and plain[name] is None:
        return None
    try:
        array = np.array(plain[name], dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.array(np.nan)
    fine = array.shape == shape and bool(np.isfinite(array).all())
    require(fine, f"intervals.{name}", f"is not an array of {shape} finite numbers")
    return array if shape else float(array)


def fitted_intervals(
    plan: IntervalPlan,
    federation: Federation,
    work: Work,
    params: np.ndarray,
    scales: Scales,
    streams: Streams,
    model: Any,
) -> FittedIntervals:
    """Ask the silos at a fitted model (``params``), and return its intervals."""
    length = plan.length(scales.features.row_norm)
    of_counts = scales.target if plan.kind == "counts" else None
    units = (float(getattr(of_counts, name, 1.0)) for name in ("scale", "exposure"))
    pilot = np.asarray(params, np.float64)
    step = plan.step(IntervalRun(plan, federation, work, streams, pilot, length, *units))
    to_units, offsets = linear_units(work.model, scales)
    ignored = np.isinf(getattr(scales.features, "scale", np.zeros(0)))
    used = np.ones(len(pilot), bool)
    used[: len(ignored)] = ~ignored
    alone = plan.kind == "times" or not plan.intercept  # hazards are not shown
    names = tuple(coef_names(model)) if alone else (*coef_names(model), "intercept")
    rows = slice(None, len(names))
    basis = plan.basis(step, used)
    to_units = (to_units * plan.stretch)[rows] @ basis
    return FittedIntervals(step.along(basis), to_units, offsets[rows], names)
