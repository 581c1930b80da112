"""Scores of a fitted model on records that were held out, for a budget of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _num_samples, check_is_fitted

from skdpfl import federation
from skdpfl._arguments import check_choice, check_positive
from skdpfl._compat import as_frame
from skdpfl._surface import refuse_own_parts
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection.scoring import codes_of, predictions
from skdpfl.privacy.calibration import check_budget_parameters, delta_of
from skdpfl.privacy.events import Guarantee, read_guarantee, spare_rounds_of, trust_name
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.spent import PrivacySpent, cost_of_sums
from skdpfl.silos import Silos, read_persons, read_silos, split_column, split_silo_column
from skdpfl.table import check_persons, contributions

#: objects with a model inside, and the attribute that holds it
_INSIDE = ("best_estimator_", "estimator_", "regressor_", "estimator")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out records of silos, and the budget and guarantee of what is released of them.

    Formal guarantee
    ----------------
    Each release is a noised sum of one bounded term per record
    (:class:`skdpfl.federation.BoundedSum`), which is a function of that record and a fixed model
    (:func:`skdpfl.model_selection.scoring.predictions`). The squared Gaussian-DP parameters of all
    sums add up to the budget's.
    """

    X: Any
    y: Any
    silos: Silos
    #: each row's contribution if persons are protected, and the silos' numbers of units
    of_row: np.ndarray | None
    sizes: np.ndarray
    guarantee: Guarantee
    epsilon: float
    delta: float
    spare: int
    streams: Streams

    @classmethod
    def read(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        epsilon: Any,
        delta: Any,
        silos: Any,
        trust: Any,
        neighbours: Any,
        random_state: Any,
        unit: Any = "record",
        persons: Any = None,
    ) -> HeldOut:
        """Return the records and the budget for a fitted model, or raise."""
        refuse_own_parts(model)
        check_is_fitted(model)
        check_positive("epsilon", epsilon)
        check_budget_parameters(epsilon, delta)
        check_choice("trust", trust_name(trust), ("silo", "secagg", "server"))
        check_choice("neighbours", neighbours, ("replace", "add_remove"))
        costs = [getattr(each, "privacy_spent_", None) for each in _parts_of(model)]
        if unit == "record" and any(getattr(each, "unit", None) == "person" for each in costs):
            warn(
                'The model protects persons, but this is priced for single records: unit="person".',
                PrivacyLeakWarning,
            )
        X = as_frame(X)
        check_consistent_length(X, y)
        columns = list(getattr(X, "columns", ()))
        column, person = owner_column(model, "silo"), owner_column(model, "person")
        column = column if column in columns else None
        person = person if person in columns and unit == "person" else None
        check_persons(unit, persons, person)
        _check_columns(model, X)
        persons = split_column(X, persons, person, "person")[1]
        groups = read_silos(split_silo_column(X, silos, column)[1], _num_samples(X), X)
        of_row, sizes = contributions(read_persons(persons, _num_samples(X), X), groups)
        guarantee = read_guarantee(unit, trust, neighbours)
        return cls(
            X,
            y,
            groups,
            of_row,
            sizes,
            guarantee,
            float(epsilon),
            delta_of(delta, _n_units(groups, sizes, guarantee)),
            spare_rounds_of(trust),
            streams_for(random_state),
        )

    @property
    def n_units(self) -> int:
        """The number of records, persons or silos, whichever are protected; it is public."""
        return _n_units(self.silos, self.sizes, self.guarantee)

    @property
    def as_one(self) -> bool:
        """Whether only sums over all silos are released."""
        return self.guarantee.trust != "silo"

    def plans(self, measures: Sequence[federation.Measure]) -> list[federation.SumPlan]:
        """Return the plans of some scores, which share the budget equally."""
        mu = gaussian_mu(self.epsilon, self.delta)
        budgets = federation.SiloBudgets.of(self.guarantee, self.sizes, mu, self.spare)
        plans, first = list[federation.SumPlan](), 0
        for measure in measures:
            own = mu / math.sqrt(len(measures))
            plans.append(federation.score_plan(measure, budgets, own, first))
            first += len(measure.parts)
        return plans

    def spent(self, plans: Sequence[federation.SumPlan]) -> PrivacySpent:
        """Return the cost of the plans."""
        assignment = self.silos.assignment() if self.guarantee.unit == "record" else None
        names, budgets = self.silos.ids.tolist(), plans[0].budgets
        return cost_of_sums(plans, self.delta, names, assignment, self.streams.seed, budgets)

    def release(
        self,
        model: Any,
        measures: Sequence[federation.Measure],
        plans: Sequence[federation.SumPlan],
    ) -> list[federation.ReleasedScore]:
        """Return the scores, which must have been paid for; equal predictions are made once."""
        classes = np.asarray(model.classes_) if predicts_labels(model) else np.zeros(0)
        truth = self._truth(classes, measures)
        made: dict[str, np.ndarray] = {}
        released = []
        for measure, plan in zip(measures, plans, strict=True):
            if measure.reads not in made:
                made[measure.reads] = predictions(
                    model, self.X, measure.reads, classes, units=self._units
                )
            data = federation.SiloData.from_codes(
                made[measure.reads],
                truth,
                self.silos.codes,
                len(self.silos.ids),
                of_row=self.of_row,
            )
            local = federation.LocalFederation(data, self.streams)
            released.append(federation.ask_score(measure, plan, local, self.streams))
        return released

    @property
    def _units(self) -> np.ndarray | None:
        """Each row's person or silo if the numbers of their rows are secret."""
        return self.silos.codes if self.guarantee.unit == "silo" else self.of_row

    def _truth(self, classes: np.ndarray, measures: Sequence[federation.Measure]) -> np.ndarray:
        """Return the targets as measures read them; NaN or -1 for what is none."""
        if len(classes):
            return codes_of(self.y, classes)
        if any(isinstance(measure, federation.Concordance) for measure in measures):
            return survival_targets(self.y)
        return np.asarray(pd.to_numeric(pd.Series(np.ravel(self.y)), errors="coerce"), float)


def _n_units(silos: Silos, sizes: np.ndarray, guarantee: Guarantee) -> int:
    return len(silos.ids) if guarantee.unit == "silo" else int(sizes.sum())


def predicts_labels(model: Any) -> bool:
    """Whether a fitted model is a classifier; some libraries have no tags of scikit-learn."""
    tagged = hasattr(model, "__sklearn_tags__")
    return is_classifier(model) if tagged else hasattr(model, "classes_")


def owner_column(model: Any, what: str) -> Any:
    """Return the column of ``what`` ("silo", "person") of the estimator inside a model, if any."""
    columns = (getattr(each, f"{what}_column", None) for each in _parts_of(model))
    return next((column for column in columns if column is not None), None)


def _parts_of(model: Any) -> Iterator[Any]:
    """Yield a model, what is inside it, and so on."""
    while model is not None:
        yield model
        if hasattr(model, "steps"):
            model = model.steps[-1][1]
        else:
            model = next((getattr(model, n) for n in _INSIDE if hasattr(model, n)), None)


def is_survival(y: Any) -> bool:
    """Whether targets have an event and a time: a structured array, or a frame of two columns."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    return names is not None or (hasattr(y, "columns") and len(y.columns) == 2)


def survival_targets(y: Any) -> np.ndarray:
    """Return (time, event) pairs (n, 2); types say which is which, never values."""
    frame = pd.DataFrame(y) if getattr(y, "dtype", None) is not None else as_frame(y)
    columns = [pd.Series(np.asarray(frame[name])) for name in frame.columns]
    events = [each for each in columns if each.dtype.kind == "b"]
    times = [each for each in columns if each.dtype.kind in "iuf"]
    if len(columns) != 2 or len(events) != 1 or len(times) != 1:
        raise ValueError(
            "concordance needs y with an event (bool) and a time (number): a structured array, or "
            f"a frame of two columns; got {[str(each.dtype) for each in columns]}."
        )
    return np.stack([times[0].to_numpy(float), events[0].to_numpy(float)], axis=1)


def _check_columns(model: Any, X: Any) -> None:
    """Raise if columns of the fit are missing; names and numbers of columns are public."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None and hasattr(X, "columns"):
        owners = [owner_column(model, what) for what in ("silo", "person")]
        known = [*X.columns, *owners]
        missing = [name for name in np.asarray(names).tolist() if name not in known]
        if missing:
            raise ValueError(f"X lacks columns that the model was fitted with: {missing!r}.")
        return
    width = getattr(model, "n_features_in_", None)
    if width is not None and np.ndim(X) == 2 and np.shape(X)[1] < width:
        raise ValueError(f"X has {np.shape(X)[1]} features; the model was fitted with {width}.")
