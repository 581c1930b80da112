"""Privacy cost of a fitted pipeline, search or ensemble, discarded fits included.

A cross-validation's fits on training sets, whose models are discarded, have costs that are
recomputed from the plan of the fit that was kept. The automatic delta, and so the
noise of a fit, follows from the number of records, so the size of each training set is needed. It
is found without the records: splitters are run on the same number of made-up rows, in the same
silos. Whatever is not known here has no price, since its fits may have done anything.
"""

import copy
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import ensemble, multiclass, multioutput
from sklearn import model_selection as splitters
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from skdpfl import _pipelines
from skdpfl._functions import WAYS_OUT, Declared, mixes, name_of
from skdpfl._warnings import warn, warnings_off
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import LeaveOneSiloOut, SiloGroupKFold, SiloKFold
from skdpfl.preprocessing import PayingTransformer
from skdpfl.privacy.calibration import delta_of
from skdpfl.privacy.events import Approximate, Composition, Exact, Gaussian, Guarantee
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.spending.ledger import Recorded, differences, own_digests
from skdpfl.privacy.spending.spent import PrivacySpent, chosen_by_outputs, of_copies, total

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
    if not _pipelines.is_as_released(obj):
        return None
    if any(callable(getattr(obj, name, None)) for name in ("max_features", "importance_getter")):
        return None  # functions of a SelectFromModel may read more than the fitted model
    if not (names := _names(obj, STEPS)):
        return _pipelines.steps_inside(obj)
    end = "_" if hasattr(obj, names[0]) else ""
    parts = [(name[:-1], getattr(obj, name[:-1] + end)) for name in names]
    if not end and len(parts) == 2 and parts[1][1] is None:
        how = {"inverse_func": obj.inverse_func, "check_inverse": obj.check_inverse}
        parts[1] = ("transformer", FunctionTransformer(obj.func, **how))
    return parts


def members(obj: Any) -> Parts | None:
    """Return the fitted parts of a meta-estimator, ensemble or pipeline; None of anything else."""
    if not _pipelines.is_as_released(obj) or not (names := _names(obj, MEMBERS)):
        return steps(obj)
    parts: Parts = []
    for name in names:
        value = getattr(obj, name, "drop")
        several = enumerate(value) if isinstance(value, list) else [("", value)]
        parts += [(f"{name.rstrip('s_')}{i}", each) for i, each in several]
    return [(name, each) for name, each in parts if not isinstance(each, str)]


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
    ours = _pipelines.fits_as_released(obj)
    return getattr(obj, getattr(type(obj), "holds", ""), None) if ours else None


def is_private(obj: Any) -> bool:
    """Whether an object has a cost of its own, that of a fit of this package.

    What others carry as ``privacy_spent_``, subclasses with their own ``fit`` included, is not
    believed.
    """
    return isinstance(obj, Recorded) and _pipelines.fits_as_released(obj)


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
    for place, inner in _pipelines.leaves(step, path):
        if isinstance(inner, FunctionTransformer) and mixes(inner):
            yield _mixing(inner, place)


def _mixing(step: FunctionTransformer, path: str) -> Leak:
    return Leak(path, f"{name_of(step)} {_pipelines.MIXES}", _pipelines.ROW_BY_ROW)


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
    return max(int(np.bincount(sample).max()) for sample in obj.estimators_samples_)


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
        plain = _pipelines.learns_nothing(step) and _pipelines.steps_inside(step) is None
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
    for name in _pipelines.chosen_by_functions(obj):
        if not public.covers(place := joined(path, name)):
            yield Leak(place, _pipelines.CHOSEN, _pipelines.BY_NAME.format(name=name))
    if isinstance(obj, BAGS) and _drew_before(obj):
        yield Leak(path, DRAWN_BEFORE, "Fit with warm_start=False.")
    if isinstance(obj, BAGS) and obj.oob_score:
        yield Leak(path, OUT_OF_BAG, "Fit with oob_score=False; score on other records.", paid=True)
    if isinstance(obj, BAGS) and getattr(obj, "_sample_weight", None) is not None:
        yield Leak(path, WEIGHTED, "Fit without sample_weight.")


# ---- fits on splits ---------------------------------------------------------------------------

#: training and test sets themselves
_LISTS = (list, tuple, np.ndarray)
#: splitters whose folds follow the labels
_OF_LABELS = (
    splitters.RepeatedStratifiedKFold,
    splitters.StratifiedGroupKFold,
    splitters.StratifiedKFold,
    splitters.StratifiedShuffleSplit,
)
#: splitters that leave each group out, whatever its size
_OF_GROUPS = (LeaveOneSiloOut, splitters.LeaveOneGroupOut, splitters.LeavePGroupsOut)
#: made-up silos, and records of each, that splits of records are tried on
_TRIED = 50
#: parameters of a guarantee, which all fits share
_GUARANTEE = ("unit", "trust", "neighbours")


class Unknown(Exception):
    """The cost of discarded fits cannot be recovered."""


def follows_labels(cv: Any, *, classifier: bool) -> bool:
    """Whether changing one label can move other records to other folds."""
    by_default = classifier and (cv is None or isinstance(cv, Integral))
    return by_default or isinstance(cv, _OF_LABELS) or bool(getattr(cv, "stratify_y", False))


def follows_sizes(cv: Any) -> bool:
    """Whether changing one silo's size can move other silos, or their records, to other folds."""
    by_ids = isinstance(cv, (*_OF_GROUPS, *_LISTS))
    return not (cv.shuffle if isinstance(cv, SiloKFold) else by_ids)


def draws_once(cv: Any) -> bool:
    """Whether training sets contain each row at most once; a repeated row costs as two records.

    Splitters of scikit-learn and this package qualify, and lists that were checked.
    """
    known = _pipelines.is_as_released(cv)
    listed = getattr(cv, "cv", cv) if known else cv  # check_cv wraps lists
    if isinstance(listed, _LISTS):
        return all(_are_distinct(np.asarray(train)) for train, _ in listed)
    return cv is None or isinstance(cv, Integral | str) or known


def _are_distinct(rows: np.ndarray) -> bool:
    """Whether indices, or a mask, name each row once."""
    if rows.dtype == bool or not rows.size:
        return True
    return bool(rows.min() >= 0 and len(np.unique(rows)) == rows.size)


def budget(fitted: Any) -> float:
    """Return the largest epsilon given for a silo; infinity for given noise."""
    epsilon = fitted.epsilon
    if isinstance(epsilon, Mapping | pd.Series):
        epsilon = max(dict(epsilon).values())
    return math.inf if epsilon is None else float(epsilon)


def costs_on_splits(inner: Any, fitted: Any, cv: Any, count: int | None) -> list[PrivacySpent]:
    """Return the cost of a fit on each of ``count`` training sets (None: unknown), or raise.

    ``fitted`` has the same place in what was fitted on all records; its sizes determine the price.
    """
    asked, paid = ([getattr(each, n, None) for n in _GUARANTEE] for each in (inner, fitted))
    if type(inner) is not type(fitted) or asked != paid:
        raise Unknown("the best candidate has no such fit")
    if hasattr(type(inner), "holds"):
        raise Unknown("each has several")
    if not isinstance(inner.random_state, Integral | None):
        raise Unknown("each had a copy of random_state, so all have the same noise")
    if not math.isfinite(budget(inner)):
        raise Unknown("that of given noise depends on how much of each silo was used")
    priced = _of_transformer if isinstance(inner, PayingTransformer) else _of_model
    shares = _training_shares(cv, fitted, inner, count)
    costs = {share: priced(inner, fitted, share) for share in set(shares)}
    seeds = frozenset(() if inner.random_state is None else (int(inner.random_state),))
    return [replace(costs[share], simulation_seeds=seeds) for share in shares]


def _training_shares(cv: Any, fitted: Any, inner: Any, count: int | None) -> list[float]:
    """Return the share of the records (persons, or silos) in each training set.

    If nothing else is known, training sets count as equally large, provided that costs are the same
    at any size (the delta was given).
    """
    silos, whole = _silos_of(fitted)
    persons = fitted.unit == "person"
    sizes = _sizes(cv, silos, persons)
    if whole and not getattr(cv, "_leaves_silos_out", False):
        # splits of records, whose number is secret: all silos are in all sets, or nearly so
        tried = _sizes(cv, np.repeat(np.arange(_TRIED), _TRIED))
        sizes = [] if isinstance(cv, _LISTS) or not tried else [len(silos)] * (count or 0)
    if sizes and count in (None, len(sizes)):
        return [size / len(silos) for size in sizes]
    if count is None or isinstance(inner.delta, str):
        raise Unknown(f"sizes of training sets of {type(cv).__name__}")
    return [1 - 1 / count] * count


def _silos_of(fitted: Any) -> tuple[np.ndarray, bool]:
    """Return the silo of each record, and whether whole silos are protected."""
    sizes = getattr(getattr(fitted, "plan_", None), "silo_sizes", None)
    if sizes is not None:
        return np.repeat(np.arange(len(sizes)), sizes), False
    n, n_silos = getattr(fitted, "n_samples_seen_", None), len(fitted.silo_ids_)
    return np.arange(n_silos if n is None else n) % n_silos, n is None


def _sizes(cv: Any, silos: np.ndarray, persons: bool = False) -> list[int]:
    """Return the numbers of rows (or persons) of the training sets; empty if unknown."""
    if not (cv is None or isinstance(cv, (Integral, *_LISTS)) or hasattr(cv, "split")):
        return []  # an iterator, which the fit used up
    splitter = copy.deepcopy(splitters.check_cv(cv))  # a generator of random numbers moves on
    of_persons = isinstance(splitter, SiloGroupKFold)
    if of_persons != persons and not getattr(splitter, "_leaves_silos_out", False):
        return []  # secret: the number of records in folds of persons, of persons in folds of rows
    owners = {}
    if hasattr(splitter, "silo_column"):
        splitter.silo_column = splitter.person_column = None
        owners = {"silos": silos, "persons": np.arange(len(silos))}
    rows = np.zeros((len(silos), 1))
    with warnings_off():
        try:
            folds = splitter.split(rows, rows[:, 0], **owners)
            return [len(train) for train, _ in folds]
        except (ValueError, TypeError, KeyError, IndexError):  # it needs labels or groups
            return []


def _of_model(inner: Any, fitted: Any, share: float) -> PrivacySpent:
    """Return the cost of a fit on a training set with this share of every silo, or of the silos.

    Splits that do not keep the silos' shares may have more or less of a silo. A fit with a given
    epsilon has met it anyway.
    """
    ids, sizes = fitted.plan_.silo_ids, fitted.plan_.silo_sizes
    if sizes is None:  # protected
        ids = ids[: max(1, math.floor(share * len(ids) + 1e-9))]
        sizes, share = np.ones(len(ids)), 1.0
    n_records = np.maximum(1, np.floor(sizes * share + 1e-9)).astype(int)
    plan = clone(inner).plan_for(
        silo_sizes=dict(zip(ids, n_records.tolist(), strict=True)),
        n_features=fitted.n_features_in_,
        n_classes=len(getattr(fitted, "classes_", (0, 1))),
        feature_names=getattr(fitted, "feature_names_in_", None),
        indicators=getattr(fitted, "_indicators", None),
        columns=getattr(fitted, "schema_", None),
    )
    return plan.spent()


def _of_transformer(inner: PayingTransformer, fitted: Any, share: float) -> PrivacySpent:
    """Return the cost of a private transformer, by its epsilon and delta.

    If all releases of the kept fit are Gaussian mechanisms, so are those of fits with other budgets
    only. Their squared mu sum to at most that of the mu for (epsilon, delta), so together they cost
    at most one mechanism with that mu. Others are priced as arbitrary releases with their epsilon
    and delta.
    """
    spent = fitted.privacy_spent_
    n = len(fitted.silo_ids_) if spent.unit == "silo" else fitted.n_samples_seen_
    delta = delta_of(inner.delta, max(1, math.floor(share * n + 1e-9)))
    composition: Composition = ((Approximate(float(inner.epsilon), delta), 1),)
    other = set(differences(own_digests(inner), own_digests(fitted)))
    if spent.accountant == "gdp" and other <= {"epsilon", "delta", "random_state"}:
        multiplier = spent.change / gaussian_mu(float(inner.epsilon), delta)
        composition = ((Gaussian(multiplier), 1),)
    compositions = [() if _pipelines.learns_nothing(inner) else composition]
    return PrivacySpent.from_compositions(spent.guarantee, delta=delta, compositions=compositions)


def privacy_spent(fitted: Any, *, public: Collection[str] = ()) -> PrivacySpent:
    """Return the privacy cost of a fitted estimator, pipeline, search or ensemble.

    Parameters
    ----------
    fitted : estimator
        A fitted object that contains estimators of this library.
    public : collection of str, default=()
        Names of steps (as in a pipeline; ``"a__b"`` for a step b within a step a) that cost
        nothing: they learnt from public data only, or are a ``FunctionTransformer`` whose function
        treats each row by itself. Functions are still tested on made-up rows; one that mixes them
        is not free.

    Returns
    -------
    PrivacySpent
        The composition of all fits; epsilon is infinite if a step was fitted on the records without
        privacy. Each such step gives a :class:`~skdpfl.exceptions.PrivacyLeakWarning`.

    See Also
    --------
    skdpfl.privacy.PrivacyLedger : One budget for all fits on a data set.
    skdpfl.privacy.PrivacySpent : The type of the result.

    Notes
    -----
    A cost is known for estimators of this package, and for scikit-learn's pipelines, ensembles,
    multi-output and multi-label estimators, ``FixedThresholdClassifier``, ``SelectFromModel``,
    ``TransformedTargetRegressor`` and searches around them. Anything else that is fitted makes it
    infinite: other classes, subclasses with a ``fit`` of their own (what they carry as
    ``privacy_spent_`` is not believed), searches and shared budgets in stacks, chains and searches,
    which fit them on splits as well. A ledger around the fit adds up all private fits that run,
    each row as one record (:class:`~skdpfl.privacy.PrivacyLedger` lists what it does not count)::

        with PrivacyLedger() as ledger:
            anything.fit(X, y)
        ledger.spent

    The fits of searches, stacks and chains on splits are charged by their plans at the sizes of the
    training sets; a choice by exact scores is not covered by a budget and gives a warning. If sizes
    depend on labels or groups, they cannot be recovered: with ``delta="auto"``, which follows from
    them, the cost is then infinite, and so it is with given noise, and where all fits have a copy
    of one generator. Ensembles are charged for all their members. Bagging passes copies of a record
    to estimators of this package as its weight, which costs nothing; to pipelines it passes copied
    rows, which cost more. An estimator in a ``FrozenEstimator`` counts as if it was fitted there.

    In a ``FunctionTransformer``, only functions that act entrywise, such as ``np.log1p`` and
    ``np.clip``, are known not to mix records. Any function is free in a
    :class:`~skdpfl.preprocessing.RowTransformer`, which passes one row at a time.

    The cost of discarded fits, and whether a step learnt anything, follow from parameters. If
    fitted parts show that these were changed after the fit, the cost is infinite. Other changes
    leave no trace (``cv`` of searches and stacks, ``bootstrap``, functions, removed steps): call
    this function before them. The cost of an estimator is that of its own fit: pass the pipeline
    that it is a part of.

    If an earlier step has learnt the number of columns of the next one (a ``DPOneHotEncoder`` of
    unknown categories without ``max_categories``), plans of later steps depend on an output. They
    are then priced as arbitrary releases with their epsilon and delta, which is sound, and somewhat
    more expensive.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> import skdpfl
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = skdpfl.ISRLDPClassifier(epsilon=2.0, scaling=None, random_state=0)
    >>> skdpfl.privacy_spent(make_pipeline(Normalizer(), clf).fit(X, y))
    PrivacySpent(ε=2.00, δ=0.0001, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    """
    _check(fitted)
    bill = _Bill(Declared(public))
    bill.add(fitted)
    bill.public.check()
    for leak in bill.leaks.values():
        where = leak.path or type(fitted).__name__
        warn(f"{where}: {leak.what}, which no budget covers. {leak.way_out}", PrivacyLeakWarning)
    seeds = Counter(seed for cost in bill.costs for seed in cost.simulation_seeds)
    repeated = [(seed, times) for seed, times in seeds.items() if times > 1]
    if repeated:
        warn(_REPEATED.format(seed=repeated[0][0], times=repeated[0][1]), PrivacyLeakWarning)
    return total(bill.all_costs() or [_nothing([], exact=False)])


_REPEATED = (
    "{times} fits drew their noise from random_state={seed}: it repeats, and together they may "
    "reveal the records exactly. The cost is that of fresh noise: use random_state=None."
)


def _check(fitted: Any) -> None:
    """Raise for objects that are not fitted or not estimators."""
    if not hasattr(fitted, "fit"):
        raise TypeError(
            f"fitted must be a fitted estimator; got {type(fitted).__name__}. To add the costs of "
            "several fits, use sum(privacy_spent(one) for one in estimators)."
        )
    inner = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
    if isinstance(inner, Recorded) and not hasattr(inner, "privacy_spent_"):
        raise NotFittedError(f"This {type(inner).__name__} is not fitted yet, so it has no cost.")
    if type(inner).__module__.startswith("sklearn."):
        check_is_fitted(inner)


class _Splits(NamedTuple):
    """Training sets that copies were fitted on."""

    cv: Any
    #: how many; None: unknown
    number: int | None
    #: by path, the parts of what was fitted to all records
    twins: dict[str, Any]
    #: whether these have the same parameters
    same: bool


class _At(NamedTuple):
    """Where a part is in an object, and what pays for it."""

    path: str = ""
    #: its plan depends on an output of an earlier step
    chosen: bool = False
    #: costs of its own are paid for by what is around it, unless it is frozen
    covered: bool = False
    #: one fit on each training set; only what fits its parts once has a price there
    splits: _Splits | None = None
    #: the most rows of the fit that are copies of one record
    copies: int = 1

    def inside(self, name: str, **changes: Any) -> "_At":
        """Return where a part of this part is."""
        return self._replace(path=joined(self.path, name), **changes)


class _Bill:
    """The costs of the fits that made an object, in their order, and what no budget covers."""

    def __init__(self, public: Declared) -> None:
        self.public, self.costs = public, list[PrivacySpent]()
        self.leaks = dict[tuple[str, str], Leak]()
        self._frozen: list[Any] = []
        self._own: Collection[str] = ()  # steps declared to the search around them

    def all_costs(self) -> list[PrivacySpent]:
        """Return all costs; the last one is infinite if not all fits are paid for."""
        paid = all(leak.paid for leak in self.leaks.values())
        return _pipelines.pool_silos(self.costs) + (
            [] if paid else [_nothing(self.costs, exact=True)]
        )

    def add(self, obj: Any, at: _At = _At()) -> None:  # noqa: B008
        """Add what the fits of an object and its parts cost."""
        whole = at.splits is None and _pipelines.is_as_released(obj)
        if at.path and self._is_declared(obj, at.path):
            return
        if isinstance(obj, FrozenEstimator):  # its earlier fit counts as well, once
            if all(obj.estimator is not each for each in self._frozen):
                self._frozen.append(obj.estimator)
                self.add(obj.estimator, at._replace(covered=False, splits=None))
        elif at.splits is None and (model := held(obj)) is not None:
            self._wrapped(obj, model, at)
        elif is_private(obj):
            self._private(obj, at)
        elif whole and isinstance(obj, BaseSearchCV) and hasattr(obj, "best_estimator_"):
            self._search(obj, at)
        elif (inside := (members if whole else steps)(obj)) is not None:
            self._members(obj, inside, at)
        elif not _pipelines.learns_nothing(obj):
            self._note(leak_of(obj, at.path))

    def _note(self, *leaks: Leak) -> None:
        for leak in leaks:
            self.leaks.setdefault((leak.path, leak.what), leak)

    def _is_declared(self, step: Any, path: str) -> bool:
        """Return whether a step was declared; note if its function mixes records anyway."""
        own = any(f"__{path}".endswith(f"__{name}") for name in self._own)
        if declared := self.public.covers(path) or own:
            self._note(*leaks_of_declared(step, path))
        return declared

    def _members(self, obj: Any, inside: Parts, at: _At) -> None:
        """Add the costs of members, and note what is learnt beside them."""
        chosen = at.chosen
        for name, part in inside:
            copies = at.copies * copies_in(obj, part)
            here = at.inside(name, chosen=chosen, copies=copies)
            self.add(part, here)
            known = at.splits.twins.get(here.path) if at.splits else part
            chosen = chosen or (isinstance(obj, Pipeline) and _pipelines.gives_out_width(known))
        if at.splits is None:
            self._note(*changed_after(at.path, obj, changed_steps(obj)))
        if at.splits is None and isinstance(obj, (*STACKS, *CHAINS)):
            self._cross_fits(obj, inside[: len(obj.estimators_)], at)
        self._note(*own_leaks(obj, at.path, self.public))

    def _wrapped(self, obj: Any, model: Any, at: _At) -> None:
        """Add the cost of a search, a shared budget, or silos' own parts, of this package."""
        if getattr(obj, "stays_at_silos", False) and at.path:
            self._note(Leak(at.path, HEADS, "Put the joint model there."))
        if pays := is_private(obj):  # a search's plans see what earlier steps found
            width = _pipelines.gives_out_width(getattr(obj, "best_estimator_", None))
            self._private(obj, at._replace(chosen=at.chosen or width))
        before, self._own = self._own, getattr(obj, "public", ())
        if getattr(obj, "pays_for_parts", True):
            self.add(model, at._replace(covered=at.covered or pays))
        else:
            self.add(model, at.inside("estimator"))
        self._own = before

    def _private(self, part: Any, at: _At) -> None:
        """Add the cost of private fits; if plans depend on an output, that of whole budgets."""
        if at.covered:
            return
        fitted = at.splits.twins.get(at.path) if at.splits else part
        before = getattr(fitted, "_as_fitted", None)
        if before is not None and (at.splits.same if at.splits else at.chosen):
            names = differences(before.own, own_digests(part))
            self._note(*changed_after(at.path, part, names))
        try:
            costs = (
                costs_on_splits(part, fitted, *at.splits[:2])
                if at.splits
                else [part.privacy_spent_]
            )
            if at.chosen and part.epsilon is None:
                raise Unknown("that of given noise depends on columns that a step learnt")
        except Unknown as why:
            self._note(unknown(at.path, part, why))
            return
        for cost in costs:
            paid = chosen_by_outputs(cost, budget(part)) if at.chosen else cost
            self.costs.append(of_copies(paid, at.copies))

    def _cross_fits(self, obj: Any, inside: Parts, at: _At) -> None:
        """Add the costs of fits on splits for predictions, which the next fit reads."""
        chain = isinstance(obj, CHAINS)
        if chain and obj.cv is None:
            return
        for name, member in inside[:-1] if chain else inside:
            here = at.inside(name)
            if not _pipelines.keeps_rows_apart(member):
                self._note(unknown(here.path, member, "its predictions may mix records"))
            twins = dict(by_path(member, here.path))
            if not isinstance(obj.cv, str):
                self.add(member, here._replace(splits=_Splits(obj.cv, None, twins, same=True)))
            elif all(member is not each for _, each in obj.estimators):  # a copy
                self._note(*changed_after(at.path, obj, ["cv"]))
        self._note(*self._of_splits(obj, at.path))

    def _search(self, search: BaseSearchCV, at: _At) -> None:
        """Add the cost of every fit of a search."""
        best, twins = search.best_estimator_, dict(by_path(search.best_estimator_, at.path))
        halves = getattr(search, "resource", None) == "n_samples"  # training sets of several sizes
        cv = iter(()) if halves else search.cv
        for i, params in enumerate(search.cv_results_["params"]):
            splits = _Splits(cv, search.n_splits_, twins, same=i == search.best_index_)
            self.add(clone(search.estimator).set_params(**params), at._replace(splits=splits))
        self.add(best, at)
        self._note(Leak(at.path, SCORES, BY_SCORES, paid=True))
        self._note(*self._of_splits(search, at.path))

    def _of_splits(self, obj: Any, path: str) -> Iterator[Leak]:
        """Yield leaks of folds that follow what is protected, or hold a record several times."""
        units = {cost.unit for cost in self.costs}
        if follows_labels(obj.cv, classifier=is_classifier(obj)):
            yield Leak(path, BY_LABEL, BY_INDEX, paid=True)
        if "silo" in units and follows_sizes(obj.cv):
            yield Leak(path, BY_SIZE, BY_ID, paid=True)
        if "record" in units and not draws_once(obj.cv):
            yield Leak(path, REPEATS, BY_LIST)


def _nothing(paid: Sequence[PrivacySpent], *, exact: bool) -> PrivacySpent:
    """Return a cost of zero, or infinity, that can be added to the others."""
    return PrivacySpent.from_compositions(
        paid[0].guarantee if paid else Guarantee(),
        delta=paid[0].delta if paid else 1e-5,
        compositions=[((Exact(), 1),) if exact else ()],
    )
