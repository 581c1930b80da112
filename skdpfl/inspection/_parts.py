"""Members of fitted meta-estimators, and the fits that they made and discarded.

Also leaks: what fits around private estimators learn at no privacy cost, and remedies.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

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

from skdpfl._functions import WAYS_OUT, Declared, mixes, name_of
from skdpfl._pipelines import (
    chosen_by_functions,
    fits_as_released,
    gives_out_width,
    is_as_released,
    learns_nothing,
    leaves,
    steps_inside,
)
from skdpfl.privacy.spending.as_fitted import changed_around, differences, own_digests
from skdpfl.privacy.spending.ledger import Recorded

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


#: what fits each of its parts once
_ONCE = (Pipeline, ColumnTransformer, FeatureUnion, SelectFromModel, TransformedTargetRegressor)


class Unknown(Exception):
    """The cost of discarded fits cannot be recovered."""


def parts(obj: Any) -> list[tuple[str, Any]] | None:
    """Return the fitted estimators inside a meta-estimator; None if it is not a known kind."""
    if not is_as_released(obj):
        return None
    if isinstance(obj, TransformedTargetRegressor):
        return [("regressor", obj.regressor_), ("transformer", obj.transformer_)]
    selects = isinstance(obj, SelectFromModel) and not _reads_more(obj)
    if selects or isinstance(obj, FixedThresholdClassifier):  # the threshold is a parameter
        return [("estimator", obj.estimator_)]
    if isinstance(obj, CalibratedClassifierCV):
        members = [c.estimator for c in obj.calibrated_classifiers_]
    elif isinstance(obj, ENSEMBLES):
        members = obj.estimators_
    else:
        return steps_inside(obj)
    # a member of a voting ensemble that was dropped is a text
    found = [(f"estimator{i}", m) for i, m in enumerate(members) if not isinstance(m, str)]
    final = getattr(obj, "final_estimator_", None)
    return found if final is None else [*found, ("final_estimator", final)]


def is_priced(obj: Any) -> bool:
    """Whether an object has its own ``privacy_spent_``, from a fit of this package.

    What others carry under that name, subclasses with their own ``fit`` included, is not believed.
    """
    ours = isinstance(obj, Recorded) and fits_as_released(obj)
    return ours and hasattr(obj, "privacy_spent_")


def was_in_a_pipeline(obj: Any) -> bool:
    """Whether an object was fitted as a step of a scikit-learn pipeline."""
    fit = getattr(obj, "_as_fitted", None)
    return fit is not None and any("Pipeline ending in" in kind for kind, _ in fit.around)


def unpaid_parts(candidate: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, step) of steps of an unfitted estimator that would learn without privacy."""
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
    """Yield the private parts that were also fitted on the splits of ``obj.cv``, for predictions.

    With each: whether an earlier step of its pipeline had learnt its number of columns. Stacking,
    and chains with ``cv``, predict each record by models of the other splits; chains do so for all
    members except the last.
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
        check_plain(member)  # predictions by its own code may mix records
        yield from _paying_parts(member)


def check_plain(member: Any) -> None:
    """Raise Unknown unless each fit of a member fits each of its private parts once."""
    if isinstance(member, FrozenEstimator) or is_priced(member):
        if getattr(member, "pays_for_parts", False) or not is_as_released(member):
            raise Unknown(type(member).__name__)
    elif isinstance(member, _ONCE) and (inside := parts(member)) is not None:
        for _, part in inside:
            check_plain(part)
    elif not learns_nothing(member):
        raise Unknown(type(member).__name__)


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


def multiplicity(obj: Any) -> int:
    """Return the largest number of copies of a record in a member's sample.

    Members that take weights see each record once; its number of copies is a factor of its loss,
    which is clipped afterwards.
    """
    if not isinstance(obj, _BAGS):
        return 1
    fits = [getattr(part, "_as_fitted", None) for part in private_parts(obj)]
    if all(fits):
        return max((fit.times for fit in fits if fit), default=1)
    return max(int(np.bincount(drawn).max()) for drawn in obj.estimators_samples_)


class Leak(NamedTuple):
    """Something fitted without a privacy cost: where, what, and a remedy."""

    path: str
    what: str
    way_out: str


#: the way out where fits were discarded
BY_LEDGER = "Record it in a PrivacyLedger, which records every fit."

SCORES = "the choice was based on exact scores of the records"
OUT_OF_BAG = "oob_score_ and the out-of-bag predictions were computed from the exact records"
FOLDS = "folds depend on the labels, so that changing one label moves other records between them"
SIZES = (
    "folds depend on the sizes of silos, which unit='silo' protects: changing one silo's size "
    "moves other silos, or their records, between them"
)
HEADS = "its heads are fitted to the records without noise, and may be in what is learnt around it"
WITHOUT_HEADS = "Put the joint model there, and adapt it afterwards."
#: the leaks for which the cost of the fits is still reported: what is given out beside them
PAID_FITS = (SCORES, OUT_OF_BAG, FOLDS, SIZES)
#: the ways out of the last two
OTHER_SIZES = (
    "Use folds of whole silos that depend on ids alone: LeaveOneSiloOut() or "
    "SiloKFold(shuffle=True)."
)
OTHER_FOLDS = (
    "Give cv=SiloStratifiedKFold(5) or cv=KFold(5), whose folds do not depend on labels; for "
    "classifiers, those of cv=5 do."
)


def leak_of(step: Any, path: str) -> Leak:
    """Return the leak of a step that learns without privacy."""
    name = path.rsplit("__", 1)[-1] or "name"
    if not isinstance(step, FunctionTransformer):
        return Leak(
            path,
            f"{type(step).__name__} learnt from the records",
            "Declare what it needs (categories, constants), use a private transformer, or name it "
            "in public=[...] if it was fitted on public data only.",
        )
    if mixes(step):
        return _mixing(step, path)
    return Leak(
        path,
        f"it is unknown whether {name_of(step)}, a function that gets all records at once, mixes "
        "them",
        WAYS_OUT.format(public=f"privacy_spent(..., public=[{name!r}])"),
    )


def leaks_of_declared(step: Any, path: str) -> Iterator[Leak]:
    """Yield the leaks of functions in a declared step that mix records in a test."""
    for place, inner in leaves(step, path):
        if isinstance(inner, FunctionTransformer) and mixes(inner):
            yield _mixing(inner, place)


def _mixing(step: FunctionTransformer, path: str) -> Leak:
    what = (
        f"{name_of(step)} mixes records: in a test on made-up rows, its output for one row changed "
        "with the others"
    )
    return Leak(path, what, WAYS_OUT.partition("; or")[0] + ".")


def leaks_of_candidate(candidate: Any, path: str, public: Declared) -> Iterator[Leak]:
    """Yield the leaks of a search's candidate, of which the best one may have none."""
    for inner, step in unpaid_parts(candidate):
        place = "__".join(filter(None, (path, inner)))
        if public.covers_part(place):
            yield from leaks_of_declared(step, place)
        else:
            yield leak_of(step, place)


def leaks_of_changes(obj: Any, fits: Iterable[Any], path: str) -> Iterator[Leak]:
    """Yield a leak if parameters that determine the cost of a fit have changed since."""
    names = changed_around(obj, fits)
    if isinstance(obj, ColumnTransformer):  # copies of its steps were fitted
        asked = {name: step for name, step, _ in obj.transformers}
        for name, step, _ in obj.transformers_:
            if name in asked and hasattr(step, "get_params") and hasattr(asked[name], "get_params"):
                unlike = differences(own_digests(asked[name]), own_digests(step))
                names += [f"{name}__{each}" for each in unlike]
    if names:
        yield changed_after(path, type(obj).__name__, names)


def changed_after(path: str, kind: str, names: Iterable[str]) -> Leak:
    """Return the leak of a cost that would be priced by other parameters than the fit's."""
    return Leak(
        path,
        f"{', '.join(names)} of {kind} changed after the fit, so its cost is unknown",
        "Restore the parameters or fit again; a PrivacyLedger records every fit when it runs.",
    )


def own_leaks(obj: Any, path: str, public: Declared) -> Iterator[Leak]:
    """Yield what a meta-estimator itself learns, in addition to its members."""
    for name in chosen_by_functions(obj):
        place = f"{path}__{name}" if path else name
        if not public.covers(place):
            yield Leak(
                place,
                "a function of the records chose the columns",
                "Name them, choose them by make_column_selector, or declare the step by "
                f"public=[{name!r}] if they depend on the columns' names and types only.",
            )
    if isinstance(obj, OneVsOneClassifier):
        yield Leak(
            path,
            "OneVsOneClassifier fits each member to the records of two labels, whose numbers are "
            "learnt from the records and visible in its plan",
            "Use OneVsRestClassifier, or the estimator itself, which takes several labels.",
        )
    if isinstance(obj, BaggingClassifier | BaggingRegressor):
        if obj.oob_score:
            yield Leak(path, OUT_OF_BAG, "Fit with oob_score=False, and score on other records.")
        if getattr(obj, "_sample_weight", None) is not None:
            yield Leak(
                path,
                "records were drawn by weights, divided by the sum of all records' weights",
                "Fit without sample_weight.",
            )
    if isinstance(obj, CalibratedClassifierCV):
        yield Leak(
            path,
            "CalibratedClassifierCV fitted its calibration on exact predictions of the records",
            "Calibrate on public data, or use predict_proba of loss='log_loss' as it is.",
        )
