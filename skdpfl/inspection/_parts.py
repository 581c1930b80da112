"""Members of fitted meta-estimators, and the fits that they made and discarded."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl._pipelines import gives_out_width, is_as_released, learns_nothing, leaves
from skdpfl.privacy.spending.recording import Recorded

_BAGS = (BaggingClassifier, BaggingRegressor)
_STACKS = (StackingClassifier, StackingRegressor)
_CHAINS = (ClassifierChain, RegressorChain)
#: ensembles in which only the members read the records; others may weight or draw records by exact
#: errors (boosting) and are not supported
ENSEMBLES = (
    *_BAGS,
    *_STACKS,
    *_CHAINS,
    VotingClassifier,
    VotingRegressor,
    MultiOutputClassifier,
    MultiOutputRegressor,
    OneVsOneClassifier,
    OneVsRestClassifier,
    OutputCodeClassifier,
)


#: what learns by the estimators only that are its parameters
_AROUND = (
    *ENSEMBLES,
    CalibratedClassifierCV,
    ColumnTransformer,
    FeatureUnion,
    FixedThresholdClassifier,
    Pipeline,
    SelectFromModel,
    TransformedTargetRegressor,
)


class Unknown(Exception):
    """The cost of fits that were discarded cannot be derived from what is left."""


def parts(obj: Any) -> list[tuple[str, Any]] | None:
    """Return the fitted estimators inside a meta-estimator; None if it is not a known kind."""
    if not is_as_released(obj):
        return None
    if isinstance(obj, Pipeline):
        return list(obj.steps)
    if isinstance(obj, ColumnTransformer):
        return [(name, part) for name, part, _ in obj.transformers_]
    if isinstance(obj, FeatureUnion):
        return list(obj.transformer_list)
    if isinstance(obj, TransformedTargetRegressor):
        return [("regressor", obj.regressor_), ("transformer", obj.transformer_)]
    if isinstance(obj, FixedThresholdClassifier):  # the threshold is a parameter
        return [("estimator", obj.estimator_)]
    if isinstance(obj, SelectFromModel) and not _reads_more(obj):
        return [("estimator", obj.estimator_)]
    if isinstance(obj, CalibratedClassifierCV):
        members = [c.estimator for c in obj.calibrated_classifiers_]
        return [(f"estimator{i}", m) for i, m in enumerate(members)]
    if isinstance(obj, ENSEMBLES):
        return [*_members(obj), *_last(obj)]
    return None


def is_priced(obj: Any) -> bool:
    """Whether an object says itself what its fit cost; one that wraps another may hand that on."""
    own = isinstance(obj, Recorded) or is_as_released(obj)
    return own and hasattr(obj, "privacy_spent_")


def unpaid_parts(candidate: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, step) of what an unfitted estimator would learn without privacy."""
    given = {"": candidate, **candidate.get_params(deep=True)}
    frozen = tuple(f"{path}__" for path, part in given.items() if isinstance(part, FrozenEstimator))
    for path, part in given.items():
        if path.startswith(frozen) or not hasattr(part, "fit"):
            continue
        if isinstance(part, TransformedTargetRegressor):
            part = FunctionTransformer(part.func)
        around = isinstance(part, _AROUND) and is_as_released(part)
        if not (around or isinstance(part, Recorded)):
            yield from ((at, each) for at, each in leaves(part, path) if not learns_nothing(each))


def _reads_more(selector: SelectFromModel) -> bool:
    """Whether the selection may depend on more than the fitted model, such as X."""
    return callable(selector.max_features) or callable(selector.importance_getter)


def cross_fits(obj: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the private parts that were fitted on the splits of ``obj.cv``, too, to predict.

    With each: whether an earlier step of its pipeline had found how many columns it sees.
    Stacking, and chains with ``cv``, predict each record by models of the other splits; chains do
    so for all members except the last.
    """
    if not isinstance(obj, (*_STACKS, *_CHAINS)):
        return
    cv = obj.cv
    if isinstance(obj, _CHAINS) and cv is None:
        return
    if isinstance(cv, str) and cv == "prefit":
        given = [each for _, each in obj.estimators]
        if not all(any(member is each for each in given) for member in obj.estimators_):
            raise Unknown("cv changed after the fit, which made copies of its members")
        return
    for member in obj.estimators_ if isinstance(obj, _STACKS) else obj.estimators_[:-1]:
        yield from _paying_parts(member)


def private_parts(obj: Any) -> list[Any]:
    """Return the fitted private estimators inside an object, without those inside searches."""
    return [part for part, _ in _paying_parts(obj)]


def _paying_parts(member: Any, chosen: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the private estimators in a member, and whether an earlier step chose their plan."""
    if isinstance(member, Recorded):
        yield member, chosen
    else:
        for _, part in parts(member) or []:
            yield from _paying_parts(part, chosen)
            chosen = chosen or (isinstance(member, Pipeline) and gives_out_width(part))


def _members(obj: Any) -> Iterator[tuple[str, Any]]:
    for i, member in enumerate(obj.estimators_):
        if not isinstance(member, str):  # a dropped member of a voting ensemble
            yield f"estimator{i}", member


def _last(obj: Any) -> list[tuple[str, Any]]:
    final = getattr(obj, "final_estimator_", None)
    return [] if final is None else [("final_estimator", final)]


def multiplicity(obj: Any) -> int:
    """Return how often the most often drawn record is in a member's sample."""
    if not isinstance(obj, _BAGS):
        return 1
    seen = [part._as_fitted.times for part in private_parts(obj) if hasattr(part, "_as_fitted")]
    if not obj.bootstrap:
        return max(seen, default=1)
    return max(*seen, *(int(np.bincount(drawn).max()) for drawn in obj.estimators_samples_))
