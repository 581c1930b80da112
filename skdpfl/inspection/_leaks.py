"""What nothing pays for in fits around ours: where, what, and the way out."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.multiclass import OneVsOneClassifier
from sklearn.preprocessing import FunctionTransformer

from skdpfl._functions import WAYS_OUT, Declared, mixes, name_of
from skdpfl._pipelines import chosen_by_functions, leaves
from skdpfl.inspection._parts import unpaid_parts
from skdpfl.privacy.spending.as_fitted import changed_around, differences, own_digests


class Leak(NamedTuple):
    """Something fitted without a privacy cost: where, what, and a remedy."""

    path: str
    what: str
    way_out: str


#: the way out where fits were discarded
BY_LEDGER = "Record it in a PrivacyLedger, which sees every fit."

SCORES = "the choice was made by exact scores of the records"
OUT_OF_BAG = "oob_score_ and the predictions beside it were computed from the exact records"
FOLDS = "folds follow the labels, so that one changed label moves other records between them"
SIZES = (
    "folds follow the sizes of silos, which unit='silo' protects: one silo's size moves other "
    "silos, or their records, between them"
)
#: the leaks for which the cost of the fits is still reported: what is given out beside them
PAID_FITS = (SCORES, OUT_OF_BAG, FOLDS, SIZES)
#: the ways out of the last two
OTHER_SIZES = (
    "Give folds of whole silos that follow ids alone: LeaveOneSiloOut() or SiloKFold(shuffle=True)."
)
OTHER_FOLDS = (
    "Type cv=SiloStratifiedKFold(5), or cv=KFold(5), whose folds follow no label; for classifiers, "
    "those of cv=5 do."
)


def leak_of(step: Any, path: str) -> Leak:
    """Return the leak of a step that nothing pays for."""
    name = path.rsplit("__", 1)[-1] or "name"
    if not isinstance(step, FunctionTransformer):
        return Leak(
            path,
            f"{type(step).__name__} learnt from the records",
            "Declare what it needs (categories, constants), use a paid-for transformer, or name "
            "it in public=[...] if it saw public data only.",
        )
    if mixes(step):
        return _mixing(step, path)
    return Leak(
        path,
        f"nobody can tell whether {name_of(step)}, a function that is given all records at once, "
        "mixes them",
        WAYS_OUT.format(public=f"privacy_spent(..., public=[{name!r}])"),
    )


def leaks_of_declared(step: Any, path: str) -> Iterator[Leak]:
    """Yield the leaks of functions in a declared step that are seen to mix records."""
    for place, inner in leaves(step, path):
        if isinstance(inner, FunctionTransformer) and mixes(inner):
            yield _mixing(inner, place)


def _mixing(step: FunctionTransformer, path: str) -> Leak:
    what = (
        f"{name_of(step)} mixes records: on made-up rows, what it gave out for one row changed "
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
    """Yield a leak where parameters that tell what a fit cost are not those of the fit any more."""
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
        f"{', '.join(names)} of {kind} changed after the fit, so that what it cost is not known",
        "Set it back or fit again; a PrivacyLedger sees every fit as it is made.",
    )


def own_leaks(obj: Any, path: str, public: Declared) -> Iterator[Leak]:
    """Yield what a meta-estimator itself learns, beside its members."""
    for name in chosen_by_functions(obj):
        place = f"{path}__{name}" if path else name
        if not public.covers(place):
            yield Leak(
                place,
                "a function of the records chose the columns",
                "Name them, choose them by make_column_selector, or declare the step by "
                f"public=[{name!r}] if they follow from the columns' names and types.",
            )
    if isinstance(obj, OneVsOneClassifier):
        yield Leak(
            path,
            "OneVsOneClassifier fits each member to the records of two labels, whose numbers are "
            "learnt from the records and shown by its plan",
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
