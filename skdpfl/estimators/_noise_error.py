"""The noise in each coefficient, as far as released rounds tell, and the frame that shows it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.algorithms.theory import Rounds, average_covariance, rounds_of
from skdpfl.engine import Progress, last_rounds
from skdpfl.federation import Work
from skdpfl.models import Model
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.sampling import Everyone
from skdpfl.privacy.spending.spent import SIMULATION
from skdpfl.scaling import Calibrated, CurveScaling, Scales

#: fewer rounds tell nothing; more parameters take seconds
_FEWEST, _MOST = 20, 200
#: models beyond it have moments that overflow
_FAR = 1e50


@dataclass(frozen=True, eq=False)
class NoiseError:
    """The input of :meth:`of_coefficients`; ``missing``: why there is none."""

    missing: str = ""
    rounds: Rounds | None = None
    noise: float | None = 0.0
    n_last: int | None = None
    calibrated: Calibrated | None = None
    model: Model | None = None
    scales: Scales | None = None

    def of_coefficients(self, combined: np.ndarray | None = None) -> np.ndarray | None:
        """Return standard deviations, flat as the model's parameters are; None: not known.

        ``combined`` (m, n): of linear combinations of each output's coefficients and intercept.
        """
        found = self.calibrated
        if self.rounds is None or found is None or self.model is None or self.scales is None:
            return None
        to_units = _to_units(self.model, self.scales)
        covariance = found.factor**2 * average_covariance(self.rounds, self.noise, self.n_last)
        for error, along in found.errors:
            direction = np.asarray(along, np.float64)
            covariance += error**2 * np.outer(direction, direction)
        if combined is not None:
            to_units = np.kron(np.eye(self.model.n_outputs), combined) @ to_units
        variances = np.einsum("ij,jk,ik->i", to_units, covariance, to_units, optimize=True)
        return np.sqrt(np.maximum(variances, 0))


class Path:
    """The models of a fit's rounds."""

    def __init__(self, work: Work, average: bool | float, kept: Progress | None) -> None:
        self._n_last = None if average is True else last_rounds(average, work.plan.n_rounds)
        self._work, self.missing = work, _why_not(work, self._n_last, kept)
        self._states: list[object] = []

    def add(self, now: Progress) -> None:
        """Add the model after a round."""
        if not self.missing:
            self._states.append(now.state)

    def error(self, scales: Scales, found: Calibrated) -> NoiseError:
        """Return the noise error of a model after calibration."""
        work = self._work
        models = [work.algorithm.params(state) for state in self._states]
        path = np.array([] if self.missing else [work.model.init(None), *models], np.float64)
        if self.missing or len(path) != work.plan.n_rounds + 1 or not np.all(np.abs(path) < _FAR):
            return NoiseError(self.missing or "not all rounds were run, or steps diverged")
        if not np.ptp(path[len(path) // 4 :], axis=0).any():
            return NoiseError("the model did not move")
        step = work.algorithm.heavy_ball()
        assert step is not None
        rounds = rounds_of(path, *step)
        noise = None if _draws(work.plan) else work.plan.mechanism.noise_on_mean(work.plan)
        return NoiseError("", rounds, noise, self._n_last, found, work.model, scales)


def _draws(plan: PrivacyPlan) -> bool:
    """Whether rounds draw records or silos."""
    return plan.schedule is not None or not isinstance(plan.sampling, Everyone)


def _why_not(work: Work, n_last: int | None, kept: Progress | None) -> str:
    """Return why the noise cannot be told from the rounds, "" if it can."""
    plan, size = work.plan, work.model.size
    if not plan.private:
        return "there is no noise"
    if not work.model.is_linear or size > _MOST:
        return f"the model is not linear, or has more than {_MOST} parameters"
    if plan.unit != "record" or work.algorithm.heavy_ball() is None:
        return "rounds are not single gradient steps of constant length (minibatch SGD)"
    if plan.n_rounds < _FEWEST or kept is not None:
        return f"there are fewer than {_FEWEST} rounds, or the fit went on from a checkpoint"
    if n_last is not None and 4 * n_last < plan.n_rounds:
        return "fewer than a quarter of the rounds are averaged"
    if _draws(plan) and size > plan.n_rounds // 4:
        return "rounds draw silos or records, and are too few to tell their noise"
    if plan.noise_schedule is not None:
        return "the noise changes from round to round"
    return ""


def _to_units(model: Model, scales: Scales) -> np.ndarray:
    """Return the linear map from parameters to coefficients and intercepts in given units."""

    def units(params: np.ndarray) -> np.ndarray:
        found = model.fitted_attributes(params, scales, is_classifier=True)
        both = np.column_stack([found["coef_"], found["intercept_"]])
        return np.asarray(both.ravel(), np.float64)

    size = model.size
    origin = units(np.zeros(size))
    return np.column_stack([units(unit) - origin for unit in np.eye(size)])


def coef_names(model: Any) -> list[Any]:
    """Return the name of each column that a fitted estimator has a coefficient of."""
    if isinstance(model.scaling_, CurveScaling):
        return list(model.scaling_.names)
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
    values = np.column_stack([coefficients, intercepts]).T
    several = len(coefficients) > 1
    columns = [f"coefficient of {c}" for c in model.classes_] if several else ["coefficient"]
    index = pd.Index([*names, "intercept"], name="feature")
    frame = pd.DataFrame(values, index=index, columns=columns)
    errors = model._noise_error.of_coefficients()
    if errors is not None:
        frame[[name.replace("coefficient", "noise error") for name in columns]] = errors.reshape(
            len(coefficients), -1
        ).T
    spent = model.privacy_spent_
    frame.attrs = {"epsilon": spent.epsilon, "delta": spent.delta}
    if spent.simulation:
        frame.columns.name = frame.attrs["simulation"] = SIMULATION
    frame.attrs["no_noise_error"] = model._noise_error.missing
    if spent.per_silo is not None:
        frame.attrs["epsilon_per_silo"] = spent.per_silo.to_dict()
    return frame
