"""The private steps of a pipeline, and the parts of one budget that each of them gets.

Shares are of the squared Gaussian-DP parameter mu, which is additive. A step's releases follow from
its part and from public numbers, so a plan can price them before any fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl._arguments import check_share, is_auto
from skdpfl._functions import WAYS_OUT, Declared, name_of
from skdpfl._pipelines import (
    check_columns_are_named,
    gives_out_width,
    is_as_released,
    is_declared,
    learns_nothing,
    private_step,
    tells_density,
)
from skdpfl._warnings import foreign_steps, warnings_off
from skdpfl.model_selection._wrapped import steps_before_last
from skdpfl.privacy.events import read_guarantee
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.spending.ledger import PAID_FOR, TRIED, Recorded
from skdpfl.privacy.spending.spent import PrivacySpent, total
from skdpfl.table import public_columns

#: what all steps before the last have together, as a share of the squared Gaussian budget: it
#: leaves the last step sqrt(0.9) of its own, noise that is 5 % larger
_BEFORE = 0.1


def seed_from(streams: Streams, purpose: str, number: int) -> int | None:
    """Return a seed derived from the fit's; None if that is secret."""
    if not streams.is_simulation:
        return None
    return int(streams.stream(purpose, number).integers(0, 2**31, ()))


def divide(
    last: Any, paying: Mapping[str, Any], shares: Any, epsilon: float, delta: float
) -> float:
    """Set the budgets of all steps before the last; return what their shares leave to the last.

    What is left is exact for Gaussian releases only; whoever runs the steps prices them.
    """
    each = shares_of(shares, list(paying))
    mu = gaussian_mu(float(epsilon), delta)
    own = delta / max(1, len(paying))
    for path, step in paying.items():
        step.set_params(epsilon=gaussian_epsilon(math.sqrt(each[path]) * mu, own), delta=own)
        if has_relation(step):
            step.set_params(neighbours=_relation(last))
    return gaussian_epsilon(math.sqrt(1 - sum(each.values())) * mu, delta)


def seed_steps(paying: Mapping[str, Any], streams: Streams) -> None:
    """Give each step before the last noise of its own."""
    for i, step in enumerate(paying.values()):
        step.set_params(random_state=seed_from(streams, "step", i))


@contextmanager
def paid_for(paying: Mapping[str, Any], why: str = "charged") -> Iterator[None]:
    """Context in which a search has charged the fits of these steps, and of copies of them."""
    running = [why]
    for step in paying.values():
        setattr(step, PAID_FOR, running)
    try:
        yield
    finally:
        running.clear()


@dataclass(frozen=True, eq=False)
class TriedSteps:
    """The steps before the last, as a plan sees them: their columns, and what they would cost.

    They were fitted to some rows without noise. Of what they found only the number of columns and
    their types are used, which are public; found categories are not kept.
    """

    paying: dict[str, Any]
    columns: dict[str, Any]

    @classmethod
    def of(cls, model: Any, few: Sequence[Any], n_silos: int) -> TriedSteps:
        """Try the steps of a pipeline on some rows with silos and persons, which have all silos."""
        X, silos, persons = few
        last = last_step(model)[1]
        owners = last.silo_column, getattr(last, "person_column", None)
        if not isinstance(model, Pipeline) or len(model.steps) == 1:
            return cls({}, public_columns(X, *owners))
        before = clone(model[:-1])
        asked = paying_steps(before, whole=True)
        check_steps(last, asked)
        for step in asked.values():
            step.set_params(epsilon=math.inf, random_state=None)
        told = {"silos": silos, "persons": persons} if takes_silos(before) else {}
        routed = {name: ids for name, ids in told.items() if ids is not None}
        with warnings_off(), config_context(enable_metadata_routing=True):
            with paid_for(asked, TRIED), foreign_steps():
                before.fit(X, **routed)
            paying = paying_steps(before, whole=True)
            _check_tried(paying, n_silos)
            with foreign_steps():
                return cls(paying, public_columns(before.transform(X), *owners))

    def costs(self, silo_sizes: Mapping[Any, int]) -> dict[str, PrivacySpent]:
        """Return the costs of the steps with their present parameters, by path."""
        return {path: step.cost_for(silo_sizes) for path, step in self.paying.items()}


def _check_tried(paying: Mapping[str, Any], n_silos: int) -> None:
    """Refuse steps whose columns or guarantee do not follow from public numbers."""
    if any(map(gives_out_width, paying.values())):
        raise ValueError(
            "A search plans its runs before they start, but the number of columns that a "
            "DPOneHotEncoder finds is not known then: give max_categories, or declare the "
            "categories."
        )
    for path, step in paying.items():
        if len(step.silo_ids_) < n_silos:
            raise ValueError(
                f"{path}: {type(step).__name__} takes all records as one silo, where the last step "
                f"has {n_silos} silos, so it would not protect a silo's records from the server. "
                "Give it silo_column=..., or the silos to fit."
            )


def sum_of(parts: Mapping[str, PrivacySpent], wanted: Any) -> PrivacySpent:
    """Return the cost of all steps of a run, which read the same silos; raise for weaker trust."""
    whole = total([replace(part, assignment="those of the run") for part in parts.values()])
    if whole.guarantee != wanted:
        weaker = [path for path, part in parts.items() if part.trust == whole.trust]
        raise ValueError(
            f"{weaker[0]} has trust={whole.trust!r}, the last step trust={wanted.trust!r}: all "
            "steps of a search need the same."
        )
    return whole


def last_step(model: Any) -> tuple[str, Any]:
    """Return the path of the last private step, and the step, also inside transformed targets."""
    name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if type(last) is TransformedTargetRegressor:
        inner = getattr(last, "regressor_", last.regressor)
        return f"{name}__regressor", private_step(inner)[1]
    return name, private_step(model)[1]


def paying_steps(model: Pipeline, *, whole: bool = False) -> dict[str, Any]:
    """Return the private steps before the last, by path; ``whole``: the last counts, too."""
    steps = steps_before_last(model, whole=whole)
    return {p: step for p, step in steps if isinstance(step, Recorded) and not learns_nothing(step)}


def owner_columns(model: Any) -> set[Any]:
    """Return the names of the columns that hold silos or persons."""
    steps = [last_step(model)[1], *paying_steps(model).values()]
    names = "silo_column", "person_column"
    return {getattr(step, name, None) for step in steps for name in names}


def check_paid(model: Pipeline, public: Declared, X: Any) -> None:
    """Refuse pipelines with steps that learn without privacy, unless declared public."""
    check_columns_are_named(model, public)
    for path, step in steps_before_last(model):
        paying = isinstance(step, Recorded) and is_as_released(step)
        if is_declared(step, path, public, X) or learns_nothing(step) or paying:
            continue
        if isinstance(step, FunctionTransformer | FrozenEstimator):
            name = path.rsplit("__", 1)[-1]
            raise ValueError(
                f"{path}: {name_of(step)} gets all records at once and may mix them, which the "
                f"privacy cost does not cover. {WAYS_OUT.format(public=f'public=[{name!r}]')}"
            )
        if isinstance(step, ColumnTransformer) and tells_density(step):
            raise ValueError(
                f"{path}: whether the output is sparse follows from the records, and fits raise an "
                "error if it is. Give sparse_threshold=0."
            )
        raise ValueError(
            f"{path}: {type(step).__name__} learns from the records, which the privacy cost does "
            "not cover. Use a transformer of skdpfl.preprocessing, declare what it needs "
            "(categories, constants), or give FrozenEstimator(fitted) if it was fitted on public "
            "data."
        )
    public.check()


def check_steps(last: Any, paying: Mapping[str, Any]) -> None:
    """Refuse pipelines whose steps' costs cannot be added."""
    if paying and last.unit == "silo":
        raise ValueError(
            f"Transformers protect records, but unit={last.unit!r} of the last step protects "
            "silos, so their costs cannot be added. Use declared bounds, constants and categories."
        )
    said = _protects(last)
    for path, step in paying.items():
        if _protects(step) != said:
            raise ValueError(
                f"All steps of a budget protect the same: {path} has {_protects(step)}, the last "
                f"step {said}. Set unit and silos_per_person of {path}."
            )
    others = [p for p, step in paying.items() if not has_relation(step)]
    if others and _relation(last) != "replace":
        raise ValueError(
            f"{others[0]} is priced for neighbours='replace', the last step for "
            f"neighbours={last.neighbours!r}, so their costs cannot be added."
        )


def _protects(step: Any) -> str:
    """Return what a step protects, in words."""
    more = getattr(step, "silos_per_person", 1)
    return f"unit={step.unit!r}" + (f", silos_per_person={more}" if more != 1 else "")


def _relation(last: Any) -> str:
    """Return the neighbouring relation of the last step, for records."""
    return read_guarantee("record", last.trust, last.neighbours).neighbours


def has_relation(step: Any) -> bool:
    """Whether the step can be priced under another neighbouring relation than its own."""
    return "neighbours" in step.get_params(deep=False)


def takes_silos(before: Pipeline) -> bool:
    """Whether a step before the last gets the silos by metadata routing."""
    return any(isinstance(step, Recorded) for _, step in steps_before_last(before, whole=True))


def shares_of(given: Any, paths: list[str]) -> dict[str, float]:
    """Return each path's share of the squared Gaussian budget."""
    if is_auto(given):
        return dict.fromkeys(paths, _BEFORE / max(1, len(paths)))
    if not isinstance(given, Mapping) or set(given) != set(paths):
        raise ValueError(
            f'shares must be "auto", or a mapping with a share for each of {paths!r}; got '
            f"{given!r}."
        )
    shares = {path: check_share(f"shares[{path!r}]", given[path]) for path in paths}
    if sum(shares.values()) >= 1:
        raise ValueError(
            f"shares must sum to less than 1, to leave a part to the last step; got {given!r}."
        )
    return shares
