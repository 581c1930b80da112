"""The noise in each coefficient, estimated from released rounds, and the frames that show it.

Frames show coefficients, or the curves and products of an additive model.

**Private scales** are taken as given. New ones move the limits at which values are clipped, and how
far the rounds come: by .1 to 1 % of a coefficient for normal columns, by up to 12 % for columns
with long tails, at any number of records, for scales are planned to be right to a tenth or a fifth.
A penalty is on scaled columns: with alpha = 1 they move coefficients of normal columns by 8 %, too.
No released number tells it. The error of a scale bounds it, and is ten times too large or more.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.algorithms.average_noise import (
    Rounds,
    average_covariance,
    classes_covariance,
    rounds_of,
)
from skdpfl.engine import Progress, last_rounds
from skdpfl.federation import Work
from skdpfl.losses import LogLoss
from skdpfl.models import Additive, LinearModel, Model
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.sampling import Everyone
from skdpfl.privacy.spending.spent import SIMULATION
from skdpfl.scaling import PRODUCT_DEVIATIONS, Calibrated, CurveScaling, Scales

#: fewer rounds tell too little, in all or for each parameter; more parameters take seconds
_FEWEST_ROUNDS, _ROUNDS_FOR_EACH, _MOST_PARAMETERS = 40, 4, 200
#: the share of a slope that its correction may take
_MOST_CORRECTED = 0.5
#: models beyond it have moments that overflow, or that are rounded to 0
_DIVERGED, _STILL = 1e50, 1e-200
_UNSETTLED = (
    "noise fades so slowly in some direction that the rounds do not tell how slowly (more rounds, "
    "longer steps, or fewer columns that others nearly determine)"
)
#: the condition of noise errors, in frames
GIVEN = "the private scales and limits in scaling_; new ones would move coefficients, too"


@dataclass(frozen=True, eq=False)
class NoiseError:
    """The input of :meth:`of_coefficients`; ``reason``: why there is none."""

    reason: str = ""
    rounds: Rounds | None = None
    noise: float | None = 0.0
    n_last: int | None = None
    calibrated: Calibrated | None = None
    model: Model | None = None
    scales: Scales | None = None
    n_classes: int = 1  # of a softmax

    @property
    def missing(self) -> str:
        """Why there is no estimate; "" if there is one."""
        if self.rounds is None or self.scales is None:
            return self.reason
        known = _is_curved(self.scales) or self._of_average[1] < _MOST_CORRECTED
        return "" if known else _UNSETTLED

    @cached_property
    def _of_average(self) -> tuple[np.ndarray, float]:
        """The covariance of the averaged rounds, and how far it is corrected."""
        assert self.rounds is not None
        arguments = self.rounds, self.noise, self.n_last
        if self.n_classes > 1:
            return classes_covariance(*arguments, self.n_classes)
        return average_covariance(*arguments)

    def of_coefficients(self, combined: np.ndarray | None = None) -> np.ndarray | None:
        """Return standard deviations, flat like the model's parameters; None if unknown.

        ``combined`` (m, n): for linear combinations of each output's coefficients and intercept
        instead.
        """
        calibrated = self.calibrated
        if self.missing or calibrated is None or self.model is None or self.scales is None:
            return None
        to_units, _ = linear_units(self.model, self.scales)
        covariance = calibrated.factor**2 * self._of_average[0]
        for error, along in calibrated.errors:
            direction = np.asarray(along, np.float64)
            covariance += error**2 * np.outer(direction, direction)
        if combined is not None:
            to_units = np.kron(np.eye(self.model.n_outputs), combined) @ to_units
        variances = np.einsum("ij,jk,ik->i", to_units, covariance, to_units, optimize=True)
        return np.sqrt(np.maximum(variances, 0))


class Path:
    """The models of a fit's rounds."""

    def __init__(self, work: Work, average: bool | float, resumed: Progress | None) -> None:
        self._n_last = None if average is True else last_rounds(average, work.plan.n_rounds)
        self._work, self.missing = work, _why_not(work, self._n_last, resumed)
        self._states: list[object] = []

    def add(self, now: Progress) -> None:
        """Add the model after a round."""
        if not self.missing:
            self._states.append(now.state)

    def error(self, scales: Scales, calibrated: Calibrated) -> NoiseError:
        """Return the noise error of a model after calibration."""
        work = self._work
        models = [work.algorithm.params(state) for state in self._states]
        path = np.array([] if self.missing else [work.model.init(None), *models], np.float64)
        if (
            self.missing
            or len(path) != work.plan.n_rounds + 1
            or not np.all(np.abs(path) < _DIVERGED)
        ):
            return NoiseError(self.missing or "not all rounds were run, or steps diverged")
        curved, most = _is_curved(scales), work.plan.n_rounds // _ROUNDS_FOR_EACH
        if work.model.size > most and (_draws(work.plan) or not curved):
            few = f"fewer than {_ROUNDS_FOR_EACH} for each parameter"
            return NoiseError(f"rounds are too few to estimate the noise: {few}")
        step = work.algorithm.heavy_ball()
        assert step is not None
        rounds = rounds_of(path, *step)
        if not np.trace(rounds.models) > _STILL:
            return NoiseError("the model did not move")
        noise = None if _draws(work.plan) else work.plan.mechanism.noise_on_mean(work.plan)
        softmax = isinstance(work.loss, LogLoss) and isinstance(work.model, LinearModel)
        classes = work.model.n_outputs if softmax else 1
        return NoiseError("", rounds, noise, self._n_last, calibrated, work.model, scales, classes)


def _is_curved(scales: Scales) -> bool:
    """Whether coefficients are of curves, which are shrunk after their rounds.

    Their rounds have more noise than they, so what is stated is not too small.
    """
    return isinstance(scales.features, CurveScaling)


def _draws(plan: PrivacyPlan) -> bool:
    """Whether rounds sample records or silos."""
    return plan.schedule is not None or not isinstance(plan.sampling, Everyone)


def _why_not(work: Work, n_last: int | None, resumed: Progress | None) -> str:
    """Return why the noise cannot be estimated from the rounds; "" if it can."""
    plan, size = work.plan, work.model.size
    if not plan.private:
        return "there is no noise"
    if not work.model.is_linear or size > _MOST_PARAMETERS:
        return f"the model is not linear, or has more than {_MOST_PARAMETERS} parameters"
    if plan.unit == "silo" or work.algorithm.heavy_ball() is None:
        return "rounds are not single gradient steps of constant length (minibatch SGD)"
    if plan.n_rounds < _FEWEST_ROUNDS or resumed is not None:
        return f"there are fewer than {_FEWEST_ROUNDS} rounds, or the fit went on from a checkpoint"
    if n_last is not None and 4 * n_last < plan.n_rounds:
        return "fewer than a quarter of the rounds are averaged"
    if plan.noise_schedule is not None:
        return "the noise changes from round to round"
    return ""


def linear_units(model: Model, scales: Scales) -> tuple[np.ndarray, np.ndarray]:
    """Return the map from parameters to coefficients and intercepts in given units, at 0 too."""

    def units(params: np.ndarray) -> np.ndarray:
        attributes = model.fitted_attributes(params, scales, is_classifier=True)
        coef, intercept = attributes["coef_"], attributes["intercept_"]
        one_slope = len(coef) < len(intercept)
        both = [np.append(coef, intercept)] if one_slope else [*np.column_stack([coef, intercept])]
        return np.concatenate(both).astype(np.float64)

    size = model.size
    origin = units(np.zeros(size))
    return np.column_stack([units(unit) - origin for unit in np.eye(size)]), origin


def coef_names(model: Any) -> list[Any]:
    """Return the name of each column that has a coefficient in a fitted estimator."""
    names = feature_names_of(model)
    more = model.scaling_.names if isinstance(model.scaling_, CurveScaling) else ()
    return names + list(more[len(names) :])


def feature_names_of(model: Any) -> list[Any]:
    """Return the names of a fitted estimator's features, after its encoding."""
    if (schema := getattr(model, "schema_", None)) is not None:
        return list(schema.names())
    names = getattr(model, "feature_names_in_", None)
    return [f"x{i}" for i in range(model.n_features_in_)] if names is None else list(names)


def summary(model: Any) -> pd.DataFrame:
    """Return the frame of an estimator's ``summary``."""
    if not hasattr(model, "coef_"):
        raise AttributeError(
            f"summary is for models with coefficients; {type(model.model_).__name__} has none."
        )
    coefficients = np.atleast_2d(model.coef_)
    intercepts = np.atleast_1d(model.intercept_)
    names = coef_names(model)
    several, one_slope = len(coefficients) > 1, len(coefficients) < len(intercepts)
    if one_slope:
        values = np.append(coefficients, intercepts)[:, None]
    else:
        values = np.column_stack([coefficients, intercepts]).T
    columns = [f"coefficient of {c}" for c in model.classes_] if several else ["coefficient"]
    last = [f"above {label}" for label in model.classes_[:-1]] if one_slope else ["intercept"]
    index = pd.Index([*names, *last], name="feature")
    frame = pd.DataFrame(values, index=index, columns=columns)
    errors = model._noise_error.of_coefficients()
    if errors is not None:
        frame[[name.replace("coefficient", "noise error") for name in columns]] = errors.reshape(
            len(coefficients), -1
        ).T
    return with_conditions(frame, model, errors)


def with_conditions(frame: pd.DataFrame, model: Any, errors: np.ndarray | None) -> pd.DataFrame:
    """Return the frame with the cost, why there are no errors, and what they are given."""
    spent, scaled = model.privacy_spent_, errors is not None and model.scaling is not None
    frame.attrs = {
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "no_noise_error": model._noise_error.missing,
        "noise_error_given": GIVEN if scaled else "",
        "model": "additive" if isinstance(model.scaling_, CurveScaling) else "linear",
    }
    if spent.simulation:
        frame.columns.name = frame.attrs["simulation"] = SIMULATION
    if spent.per_silo is not None:
        frame.attrs["epsilon_per_silo"] = spent.per_silo.to_dict()
    return frame


def shape_functions(model: Any) -> dict[Any, pd.DataFrame]:
    """Return each feature's curve: its contribution to the decision function, piece by piece.

    Each row is a linear piece between "from" and "to": "value" is the contribution in its middle,
    "slope" its change per unit, "noise error" the standard deviation of the value over fits on the
    same records with new noise, where it is known. Beyond the bounds a curve is constant. For an
    indicator, the two rows are its values 0 and 1.
    """
    _check(model)
    names, ranges = feature_names_of(model), model._ranges
    each = zip(ranges.low.tolist(), ranges.high.tolist(), strict=True)
    scaling, parts = model.scaling_, []
    numbers = {}
    if isinstance(scaling, CurveScaling):
        numbers = {curve.column: n for n, curve in enumerate(scaling.curves.curves)}
    for j, (low, high) in enumerate(each):
        if j in numbers:
            parts.append(_of_curve(scaling, numbers[j]))
        elif numbers and (low, high) == (0, 1):
            parts.append(_line(model, j, np.array([0.0, 1.0]), np.array([0.0, 1.0])))
        else:
            parts.append(_line(model, j, np.array([low]), np.array([high])))
    basis = np.concatenate([values for _, values, _ in parts])
    values, errors = _combined(model, basis)
    slopes, _ = _combined(model, np.concatenate([slopes for _, _, slopes in parts]), False)
    frames, start = {}, 0
    for name, (pieces, own, _) in zip(names, parts, strict=True):
        rows = slice(start, start := start + len(own))
        frame = pd.DataFrame(pieces, columns=["from", "to"])
        frames[name] = _with(frame, model, rows, value=values, slope=slopes, noise=errors)
    return frames


def interactions(model: Any) -> pd.DataFrame:
    """Return the coefficients of products, one row per pair of features.

    Before they are multiplied, both values are centred, divided by a scale and clipped at "most":
    ``attrs["coded"]`` has these numbers by feature.
    """
    _check(model)
    scaling, names = model.scaling_, coef_names(model)
    pairs, coded = np.zeros((0, 2), int), {}
    if isinstance(scaling, CurveScaling):
        curves = scaling.curves
        pairs, each = curves.pairs, zip(curves.center.tolist(), curves.scale.tolist(), strict=True)
        coded = dict(zip(names, each, strict=False)) | {"most": PRODUCT_DEVIATIONS}
    basis = np.eye(len(names))[len(names) - len(pairs) :]
    values, errors = _combined(model, basis)
    index = [(names[a], names[b]) for a, b in pairs.tolist()]
    frame = pd.DataFrame(index=pd.MultiIndex.from_tuples(index, names=["feature", "by"]))
    frame = _with(frame, model, slice(None), coefficient=values, noise=errors)
    frame.attrs["coded"] = coded
    return frame


def _check(model: Any) -> None:
    """Raise an AttributeError unless this is a fitted additive model."""
    asked = isinstance(model.model, Additive) or model.model in ("additive", "auto")
    if not asked or getattr(model, "_ranges", None) is None:
        became = ', so model="auto" has become linear' if model.model == "auto" else ""
        raise AttributeError(
            'There are curves only after a fit with model="additive" (or "auto") and '
            f"feature_bounds{became}."
        )


def _of_curve(scaling: CurveScaling, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pieces (m, 2), and the columns (m, width) at their middles and of their slopes."""
    curves = scaling.curves
    curve, places = curves.curves[number], curves.places(number)
    low, high = curve.edges[:-1], curve.edges[1:]
    middles = low / 2 + high / 2
    values, slopes = np.zeros((2, len(low), curves.width))
    values[:, places] = curve.columns(middles, curves.n_bins) - curves.offset[places]
    slopes[:, places[0]] = 1.0
    return np.column_stack([low, high]), values, slopes


def _line(
    model: Any, feature: int, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same for a feature without a curve."""
    values, slopes = np.zeros((2, len(low), np.atleast_2d(model.coef_).shape[1]))
    values[:, feature] = low / 2 + high / 2
    slopes[:, feature] = low < high
    return np.column_stack([low, high]), values, slopes


def _combined(
    model: Any, basis: np.ndarray, with_errors: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return combinations (m, k) of coefficients, and their noise errors if they are known."""
    values = basis @ np.atleast_2d(model.coef_).T
    if not with_errors:
        return values, None
    beside = np.column_stack([basis, np.zeros(len(basis))])  # nothing of the intercept
    errors = model._noise_error.of_coefficients(beside)
    return values, None if errors is None else errors.reshape(values.shape[1], -1).T


def _with(
    frame: pd.DataFrame,
    model: Any,
    rows: slice,
    *,
    noise: np.ndarray | None,
    slope: np.ndarray | None = None,
    **values: np.ndarray,
) -> pd.DataFrame:
    """Return a frame with columns of values, slopes and noise errors, for each class."""
    ((word, value),) = values.items()
    columns = {word: value, "slope": slope, "noise error": noise}
    for kind, numbers in columns.items():
        if numbers is None:
            continue
        for c in range(numbers.shape[1]):
            name = kind if numbers.shape[1] == 1 else f"{kind} of {model.classes_[c]}"
            frame[name] = numbers[rows, c]
    if model.privacy_spent_.simulation:
        frame.columns.name = frame.attrs["simulation"] = SIMULATION
    return frame
