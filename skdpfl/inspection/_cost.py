"""Privacy cost of a fitted pipeline, search or ensemble, discarded fits included."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdpfl import _pipelines
from skdpfl._functions import Declared
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import _on_split, _parts
from skdpfl.privacy.events import Exact, Guarantee
from skdpfl.privacy.spending.as_fitted import differences, own_digests
from skdpfl.privacy.spending.ledger import Recorded
from skdpfl.privacy.spending.spent import PrivacySpent, chosen_by_outputs, of_copies, total


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
    kept: bool


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
        return self._replace(path=_parts.joined(self.path, name), **changes)


class _Bill:
    """The costs of the fits that made an object, in their order, and what no budget covers."""

    def __init__(self, public: Declared) -> None:
        self.public, self.costs = public, list[PrivacySpent]()
        self.leaks = dict[tuple[str, str], _parts.Leak]()
        self._frozen: list[Any] = []
        self._own: Collection[str] = ()  # steps declared to the search around them

    def all_costs(self) -> list[PrivacySpent]:
        """Return all costs; the last one is infinite if not all fits are paid for."""
        paid = all(leak.paid for leak in self.leaks.values())
        return _pipelines.told_alike(self.costs) + (
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
        elif at.splits is None and (model := _parts.held(obj)) is not None:
            self._wrapped(obj, model, at)
        elif _parts.is_private(obj):
            self._private(obj, at)
        elif whole and isinstance(obj, BaseSearchCV) and hasattr(obj, "best_estimator_"):
            self._search(obj, at)
        elif (inside := (_parts.members if whole else _parts.steps)(obj)) is not None:
            self._members(obj, inside, at)
        elif not _pipelines.learns_nothing(obj):
            self._note(_parts.leak_of(obj, at.path))

    def _note(self, *leaks: _parts.Leak) -> None:
        for leak in leaks:
            self.leaks.setdefault((leak.path, leak.what), leak)

    def _is_declared(self, step: Any, path: str) -> bool:
        """Return whether a step was declared; note if its function mixes records anyway."""
        own = any(f"__{path}".endswith(f"__{name}") for name in self._own)
        if found := self.public.covers(path) or own:
            self._note(*_parts.leaks_of_declared(step, path))
        return found

    def _members(self, obj: Any, inside: _parts.Parts, at: _At) -> None:
        """Add the costs of members, and note what is learnt beside them."""
        chosen = at.chosen
        for name, part in inside:
            copies = at.copies * _parts.copies_in(obj, part)
            here = at.inside(name, chosen=chosen, copies=copies)
            self.add(part, here)
            known = at.splits.twins.get(here.path) if at.splits else part
            chosen = chosen or (isinstance(obj, Pipeline) and _pipelines.gives_out_width(known))
        if at.splits is None:
            self._note(*_parts.changed_after(at.path, obj, _parts.changed_steps(obj)))
        if at.splits is None and isinstance(obj, (*_parts.STACKS, *_parts.CHAINS)):
            self._cross_fits(obj, inside[: len(obj.estimators_)], at)
        self._note(*_parts.own_leaks(obj, at.path, self.public))

    def _wrapped(self, obj: Any, model: Any, at: _At) -> None:
        """Add the cost of a search, a shared budget, or silos' own parts, of this package."""
        if getattr(obj, "stays_at_silos", False) and at.path:
            self._note(_parts.Leak(at.path, _parts.HEADS, "Put the joint model there."))
        if pays := _parts.is_private(obj):  # a search's plans see what earlier steps found
            found = _pipelines.gives_out_width(getattr(obj, "best_estimator_", None))
            self._private(obj, at._replace(chosen=at.chosen or found))
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
        if before is not None and (at.splits.kept if at.splits else at.chosen):
            names = differences(before.own, own_digests(part))
            self._note(*_parts.changed_after(at.path, part, names))
        try:
            costs = (
                _on_split.costs_on_splits(part, fitted, *at.splits[:2])
                if at.splits
                else [part.privacy_spent_]
            )
            if at.chosen and part.epsilon is None:
                raise _on_split.Unknown("that of given noise depends on columns that a step learnt")
        except _on_split.Unknown as why:
            self._note(_parts.unknown(at.path, part, why))
            return
        for cost in costs:
            found = chosen_by_outputs(cost, _on_split.budget(part)) if at.chosen else cost
            self.costs.append(of_copies(found, at.copies))

    def _cross_fits(self, obj: Any, inside: _parts.Parts, at: _At) -> None:
        """Add the costs of fits on splits for predictions, which the next fit reads."""
        chain = isinstance(obj, _parts.CHAINS)
        if chain and obj.cv is None:
            return
        for name, member in inside[:-1] if chain else inside:
            here = at.inside(name)
            if not _pipelines.keeps_rows_apart(member):
                self._note(_parts.unknown(here.path, member, "its predictions may mix records"))
            twins = dict(_parts.by_path(member, here.path))
            if not isinstance(obj.cv, str):
                self.add(member, here._replace(splits=_Splits(obj.cv, None, twins, kept=True)))
            elif all(member is not each for _, each in obj.estimators):  # a copy
                self._note(*_parts.changed_after(at.path, obj, ["cv"]))
        self._note(*self._of_splits(obj, at.path))

    def _search(self, search: BaseSearchCV, at: _At) -> None:
        """Add the cost of every fit of a search."""
        best, twins = search.best_estimator_, dict(_parts.by_path(search.best_estimator_, at.path))
        halves = getattr(search, "resource", None) == "n_samples"  # training sets of several sizes
        cv = iter(()) if halves else search.cv
        for i, params in enumerate(search.cv_results_["params"]):
            splits = _Splits(cv, search.n_splits_, twins, kept=i == search.best_index_)
            self.add(clone(search.estimator).set_params(**params), at._replace(splits=splits))
        self.add(best, at)
        self._note(_parts.Leak(at.path, _parts.SCORES, _parts.BY_SCORES, paid=True))
        self._note(*self._of_splits(search, at.path))

    def _of_splits(self, obj: Any, path: str) -> Iterator[_parts.Leak]:
        """Yield leaks of folds that follow what is protected, or hold a record several times."""
        units = {cost.unit for cost in self.costs}
        if _on_split.follows_labels(obj.cv, classifier=is_classifier(obj)):
            yield _parts.Leak(path, _parts.BY_LABEL, _parts.BY_INDEX, paid=True)
        if "silo" in units and _on_split.follows_sizes(obj.cv):
            yield _parts.Leak(path, _parts.BY_SIZE, _parts.BY_ID, paid=True)
        if "record" in units and not _on_split.draws_once(obj.cv):
            yield _parts.Leak(path, _parts.REPEATS, _parts.BY_LIST)


def _nothing(paid: Sequence[PrivacySpent], *, exact: bool) -> PrivacySpent:
    """Return a cost of zero, or infinity, that can be added to the others."""
    return PrivacySpent.from_compositions(
        paid[0].guarantee if paid else Guarantee(),
        delta=paid[0].delta if paid else 1e-5,
        compositions=[((Exact(), 1),) if exact else ()],
    )
