"""What is known of objects around private estimators, and leaks: what no budget covers.

Whatever is not known here has no price, since its fits may have done anything.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn import ensemble, multiclass, multioutput
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl._functions import WAYS_OUT, Declared, mixes, name_of
from skdpfl._pipelines import (
    BY_NAME,
    CHOSEN,
    MIXES,
    ROW_BY_ROW,
    chosen_by_functions,
    fits_as_released,
    is_as_released,
    learns_nothing,
    leaves,
)
from skdpfl._pipelines import steps_inside as steps_of_columns
from skdpfl.privacy.spending.as_fitted import differences, own_digests
from skdpfl.privacy.spending.ledger import Recorded

BAGS = (ensemble.BaggingClassifier, ensemble.BaggingRegressor)
STACKS = (ensemble.StackingClassifier, ensemble.StackingRegressor)
CHAINS = (multioutput.ClassifierChain, multioutput.RegressorChain)
VOTES = (ensemble.VotingClassifier, ensemble.VotingRegressor)
OUTPUTS = (multioutput.MultiOutputClassifier, multioutput.MultiOutputRegressor)
LABELS = (multiclass.OneVsRestClassifier, multiclass.OutputCodeClassifier)
#: containers of scikit-learn's, and the attributes that hold their fitted members, each of which
#: was fitted once; those of stacks and chains on the splits of ``cv``, too
MEMBERS = {
    (*BAGS, *STACKS, *CHAINS, *VOTES, *OUTPUTS, *LABELS): ("estimators_", "final_estimator_"),
    (FixedThresholdClassifier,): ("estimator_",),
}
#: those that may stand in a pipeline; without the underscore it is the part before a fit
STEPS = {
    (SelectFromModel,): ("estimator_",),
    (TransformedTargetRegressor,): ("regressor_", "transformer_"),
}
#: steps without fitted state
NO_STATE = (FeatureHasher, HashingVectorizer)
Parts = list[tuple[str, Any]]


def steps(obj: Any) -> Parts | None:
    """Return the parts of a pipeline and the like, fitted or not; None of anything else."""
    if not is_as_released(obj):
        return None
    if any(callable(getattr(obj, name, None)) for name in ("max_features", "importance_getter")):
        return None  # functions of a SelectFromModel may read more than the fitted model
    if not (names := _names(obj, STEPS)):
        return steps_of_columns(obj)
    end = "_" if hasattr(obj, names[0]) else ""
    found = [(name[:-1], getattr(obj, name[:-1] + end)) for name in names]
    if not end and len(found) == 2 and found[1][1] is None:
        how = {"inverse_func": obj.inverse_func, "check_inverse": obj.check_inverse}
        found[1] = ("transformer", FunctionTransformer(obj.func, **how))
    return found


def members(obj: Any) -> Parts | None:
    """Return the fitted parts of a meta-estimator, ensemble or pipeline; None of anything else."""
    if not is_as_released(obj) or not (names := _names(obj, MEMBERS)):
        return steps(obj)
    found: Parts = []
    for name in names:
        value = getattr(obj, name, "drop")
        several = enumerate(value) if isinstance(value, list) else [("", value)]
        found += [(f"{name.rstrip('s_')}{i}", each) for i, each in several]
    return [(name, each) for name, each in found if not isinstance(each, str)]


def _names(obj: Any, table: dict[Any, tuple[str, ...]]) -> tuple[str, ...]:
    return next((names for kinds, names in table.items() if isinstance(obj, kinds)), ())


def by_path(obj: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and part of an object and of what pipelines in it put together."""
    yield path, obj
    for name, part in steps(obj) or ():
        yield from by_path(part, joined(path, name))


def joined(*names: str) -> str:
    """Return the path of a part."""
    return "__".join(filter(None, names))


def held(obj: Any) -> Any:
    """Return the fitted model inside a search and the like of this package; None of others."""
    return getattr(obj, getattr(type(obj), "holds", ""), None) if fits_as_released(obj) else None


def is_private(obj: Any) -> bool:
    """Whether an object has a cost of its own, that of a fit of this package.

    What others carry as ``privacy_spent_``, subclasses with their own ``fit`` included, is not
    believed.
    """
    return isinstance(obj, Recorded) and fits_as_released(obj)


class Leak(NamedTuple):
    """Something that no budget covers: where, what, a remedy, and whether the fits are paid."""

    path: str
    what: str
    way_out: str
    paid: bool = False


#: the way out where it is not known what was fitted: a ledger does not see that two rows are one
BY_LEDGER = (
    "Unless rows are copied (by bags of pipelines, or oversampling), a ledger has the cost: "
    "with PrivacyLedger() as ledger: ...fit(X, y); ledger.spent"
)
SCORES = "the choice was based on exact scores of the records"
BY_SCORES = "The cost is that of the fits only; DPRandomizedSearchCV covers the choice, too."
HEADS = "its heads are fitted to the records without noise, and may be in what is learnt around it"
BY_LABEL = "folds depend on the labels, so that changing one label moves other records between them"
BY_INDEX = "Give cv=KFold(5) or cv=SiloStratifiedKFold(5); for classifiers, folds of cv=5 do."
BY_SIZE = (
    "folds depend on sizes that unit='silo' protects: changing one silo's size moves other silos"
)
BY_ID = "Use folds of whole silos by ids alone: LeaveOneSiloOut() or SiloKFold(shuffle=True)."
REPEATS = "the cost cannot be recovered (training sets of cv may contain a record twice)"
BY_LIST = "Give a splitter of scikit-learn or skdpfl, or a list of training sets of distinct rows."
WEIGHTED = "records were drawn by weights, divided by the sum of all records' weights"
DRAWN_BEFORE = "earlier fits may have drawn a record any number of times"
OUT_OF_BAG = "oob_score_ and the out-of-bag predictions were computed from the exact records"
RESTORE = "Restore the parameters, or fit again."
DECLARE = (
    "Declare what it needs (categories, constants), use a private transformer, or name it in "
    "public=[{name!r}] if it was fitted on public data only. "
)


def leak_of(step: Any, path: str) -> Leak:
    """Return the leak of a step that is not known to learn nothing."""
    name = path.rsplit("__", 1)[-1] or "name"
    if isinstance(step, FunctionTransformer):
        what = f"it is unknown whether {name_of(step)}, which gets all records at once, mixes them"
        way_out = WAYS_OUT.format(public=f"privacy_spent(..., public=[{name!r}])")
        return _mixing(step, path) if mixes(step) else Leak(path, what, way_out)
    what = f"{type(step).__name__} learnt from the records, or it is not known what it learnt"
    return Leak(path, what, DECLARE.format(name=name) + BY_LEDGER)


def leaks_of_declared(step: Any, path: str) -> Iterator[Leak]:
    """Yield the leaks of functions in a declared step that mix records in a test."""
    for place, inner in leaves(step, path):
        if isinstance(inner, FunctionTransformer) and mixes(inner):
            yield _mixing(inner, place)


def _mixing(step: FunctionTransformer, path: str) -> Leak:
    return Leak(path, f"{name_of(step)} {MIXES}", ROW_BY_ROW)


def unknown(path: str, obj: Any, why: object) -> Leak:
    """Return the leak of fits whose cost is not known."""
    what = f"the cost of fits of {type(obj).__name__} cannot be recovered ({why})"
    return Leak(path, what, BY_LEDGER)


def copies_in(obj: Any, member: Any) -> int:
    """Return the most copies of one record in a member's fit: bagging repeats rows.

    Private estimators get weights instead.
    """
    if not isinstance(obj, BAGS) or _has_weights(member) or _drew_before(obj):
        return 1
    return max(int(np.bincount(drawn).max()) for drawn in obj.estimators_samples_)


def _has_weights(member: Any) -> bool:
    """Whether the fit of a private estimator had weights."""
    return is_private(member) and bool(member._as_fitted.weighted)


def _drew_before(bag: Any) -> bool:
    """Whether members may be from earlier fits, whose numbers of copies are not known."""
    weighted = all(_has_weights(member) for member in bag.estimators_)
    return not weighted and bool(bag.warm_start or len(bag._seeds) < len(bag.estimators_))


def changed_steps(obj: Any) -> list[str]:
    """Return the steps of a fitted pipeline or ColumnTransformer that changed after its fit."""
    names = []
    for name, step in obj.steps if isinstance(obj, Pipeline) else ():
        plain = learns_nothing(step) and steps_of_columns(step) is None
        if plain and not hasattr(step, "n_features_in_") and not isinstance(step, (str, *NO_STATE)):
            names.append(name)
    asked = {name: step for name, step, _ in getattr(obj, "transformers", ())}
    for name, step, _ in getattr(obj, "transformers_", ()):  # copies
        if all(hasattr(each, "get_params") for each in (step, asked.get(name))):
            unlike = differences(own_digests(asked[name]), own_digests(step))
            names += [f"{name}__{each}" for each in unlike]
    return names


def changed_after(path: str, obj: Any, names: list[str]) -> Iterator[Leak]:
    """Yield the leak of a cost that would be priced by other parameters than the fit's."""
    if names:
        what = f"{', '.join(names)} of {type(obj).__name__} changed after the fit"
        yield Leak(path, f"{what}, so its cost is unknown", RESTORE)


def own_leaks(obj: Any, path: str, public: Declared) -> Iterator[Leak]:
    """Yield what a meta-estimator itself learns, in addition to its members."""
    for name in chosen_by_functions(obj):
        if not public.covers(place := joined(path, name)):
            yield Leak(place, CHOSEN, BY_NAME.format(name=name))
    if isinstance(obj, BAGS) and _drew_before(obj):
        yield Leak(path, DRAWN_BEFORE, "Fit with warm_start=False.")
    if isinstance(obj, BAGS) and obj.oob_score:
        yield Leak(path, OUT_OF_BAG, "Fit with oob_score=False; score on other records.", paid=True)
    if isinstance(obj, BAGS) and getattr(obj, "_sample_weight", None) is not None:
        yield Leak(path, WEIGHTED, "Fit without sample_weight.")
