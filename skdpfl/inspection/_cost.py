"""Privacy cost of a fitted pipeline, search or ensemble, discarded fits included."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdpfl._adapted import SiloAdapted
from skdpfl._functions import Declared
from skdpfl._pipelines import gives_out_width, is_as_released, learns_nothing, told_alike
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import _on_split, _parts
from skdpfl.privacy.events import Exact, Guarantee
from skdpfl.privacy.spending.as_fitted import changed
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
    For searches the fits of all candidates on all splits are charged, by their plans at the sizes
    of the training sets, plus the refit; the choice by exact scores is not covered by a budget and
    gives a warning. If sizes depend on labels or groups, they cannot be recovered: with
    ``delta="auto"``, which follows from them, the cost is then infinite. Ensembles are charged for
    all their members; if a record can be drawn several times (bagging with replacement) each member
    is priced for the largest multiplicity. An estimator in a ``FrozenEstimator`` counts as if it
    was fitted there.

    In a ``FunctionTransformer``, only functions that act entrywise, such as ``np.log1p`` and
    ``np.clip``, are known not to mix records. Any function is free in a
    :class:`~skdpfl.preprocessing.RowTransformer`, which passes one row at a time.

    The cost of discarded fits, and whether a step learnt anything, follow from parameters. Every
    private fit stores digests of its parameters, and of those of the pipeline and meta-estimator
    around it: if they have changed since, the cost is infinite. (This is not detected if fits ran
    in other processes.)

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
    names = Declared(public)
    found = list(_visit(fitted, "", names))
    names.check()
    if _parts.was_in_a_pipeline(fitted):
        warn(
            f"This {type(fitted).__name__} was fitted as a part of a Pipeline, and this is the "
            "cost of the part alone: what other steps read is not in it. Ask for the whole "
            "pipeline.",
            PrivacyLeakWarning,
        )
    paid = told_alike([f for f in found if isinstance(f, PrivacySpent)])
    leaks = [f for f in found if isinstance(f, _parts.Leak)]
    for leak in leaks:
        warn(
            f"{leak.path or type(fitted).__name__}: {leak.what}, which no budget covers. "
            f"{leak.way_out}",
            PrivacyLeakWarning,
        )
    unpaid = (
        [_nothing(paid, exact=True)]
        if any(leak.what not in _parts.PAID_FITS for leak in leaks)
        else []
    )
    _warn_if_noise_repeats(paid)
    return total([*paid, *unpaid] or [_nothing(paid, exact=False)])


def _warn_if_noise_repeats(costs: Sequence[PrivacySpent]) -> None:
    """Warn once if two of the fits drew their noise from the same integer seed."""
    counts = Counter(seed for cost in costs for seed in cost.simulation_seeds)
    repeated = [seed for seed, times in counts.items() if times > 1]
    if repeated:
        warn(
            f"{counts[repeated[0]]} fits drew their noise from random_state={repeated[0]}: it "
            "repeats, and together they may reveal the records exactly. The cost is that of fresh "
            "noise: use random_state=None, or a generator instead of an integer.",
            PrivacyLeakWarning,
        )


def _check(fitted: Any) -> None:
    """Raise for objects that are not fitted or not estimators."""
    if not hasattr(fitted, "fit"):
        raise TypeError(
            f"fitted must be a fitted estimator; got {type(fitted).__name__}. To add the costs of "
            "several fits, use sum(privacy_spent(one) for one in estimators)."
        )
    inner = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
    if hasattr(inner, "plan_for") and not hasattr(inner, "privacy_spent_"):
        raise NotFittedError(f"This {type(inner).__name__} is not fitted yet, so it has no cost.")
    if type(inner).__module__.startswith("sklearn."):
        check_is_fitted(inner)


def _visit(
    obj: Any, path: str, public: Declared, chosen: bool = False, covered: bool = False
) -> Iterator[PrivacySpent | _parts.Leak]:
    """Yield the costs and leaks of a fitted object and its parts.

    ``chosen``: their plans depend on an output of an earlier step. ``covered``: what has a cost of
    its own is paid for by what is around it, unless it is frozen.
    """
    if path and public.covers(path):
        yield from _parts.leaks_of_declared(obj, path)
        return
    if isinstance(obj, FrozenEstimator):  # its earlier fit counts as well
        obj, covered = obj.estimator, False
    if isinstance(obj, SiloAdapted) and is_as_released(obj):
        if path:
            yield _parts.Leak(path, _parts.HEADS, _parts.WITHOUT_HEADS)
        yield from _visit(obj.estimator_, path, public, chosen)
    elif _parts.is_priced(obj):
        # a search's plans see what earlier steps of its pipelines found
        best = getattr(obj, "best_estimator_", None)
        if not covered:
            yield from _paid(obj, path, chosen or gives_out_width(best))
        yield from _beside(obj, path, public)
    elif isinstance(obj, BaseSearchCV) and is_as_released(obj):
        yield from _search(obj, path, public, chosen)
    elif (inside := _parts.parts(obj)) is not None:
        times, found = _parts.multiplicity(obj), []
        for name, part in inside:
            place = f"{path}__{name}" if path else name
            found.append(list(_visit(part, place, public, chosen, covered)))
            chosen = chosen or (isinstance(obj, Pipeline) and gives_out_width(part))
        for each in _told_alike(found) if isinstance(obj, Pipeline) else found:
            yield from (of_copies(f, times) if isinstance(f, PrivacySpent) else f for f in each)
        yield from _parts.leaks_of_changes(obj, _parts.private_parts(obj), path)
        yield from _cross_fits(obj, path, chosen)
        yield from _parts.own_leaks(obj, path, public)
    elif not learns_nothing(obj):
        yield _parts.leak_of(obj, path)


def _paid(fitted: Any, path: str, chosen: bool) -> Iterator[PrivacySpent | _parts.Leak]:
    """Yield the cost of a fit; if its plan depends on an output, that of its whole budget."""
    spent: PrivacySpent = fitted.privacy_spent_
    if chosen and (names := changed(fitted)):
        yield _parts.changed_after(path, type(fitted).__name__, names)
    if chosen and fitted.epsilon is None:
        yield _parts.Leak(
            path,
            f"{type(fitted).__name__} was given noise_multiplier, whose cost depends on the "
            "number of columns that an earlier step learnt",
            "Give it an epsilon, or the earlier step max_categories or max_features.",
        )
    yield chosen_by_outputs(spent, _on_split.budget(fitted)) if chosen else spent


def _beside(search: Any, path: str, public: Declared) -> Iterator[PrivacySpent | _parts.Leak]:
    """Yield costs outside the search's, or shared budget's, own: steps that it does not pay for."""
    if not getattr(search, "pays_for_parts", False):
        return
    best = getattr(search, search._fitted)
    steps = best.steps if isinstance(best, Pipeline) else [("", best)]
    if isinstance(best, Pipeline):
        yield from _parts.leaks_of_changes(best, _parts.private_parts(best), path)
        if not is_as_released(best):
            yield _parts.leak_of(best, path)
    own = Declared(search.public)
    for name, part in steps:
        place = "__".join(filter(None, (path, name)))
        here = list(_visit(part, place, public, covered=True))
        told = list(_visit(part, name, own, covered=True))  # what was declared to the search
        yield from min(here, told, key=lambda each: sum(isinstance(f, _parts.Leak) for f in each))


def _told_alike(
    found: list[list[PrivacySpent | _parts.Leak]],
) -> list[list[PrivacySpent | _parts.Leak]]:
    """Return the costs of a pipeline's steps, with their common trust."""
    told = iter(told_alike([f for each in found for f in each if isinstance(f, PrivacySpent)]))
    return [[next(told) if isinstance(f, PrivacySpent) else f for f in each] for each in found]


def _cross_fits(obj: Any, path: str, chosen: bool) -> Iterator[PrivacySpent | _parts.Leak]:
    """Yield the costs of fits on splits that were used for predictions only."""
    try:
        members = list(_parts.cross_fits(obj))
        for member, found in members:
            if names := changed(member):
                yield _parts.changed_after(path, type(member).__name__, names)
            yield from _on_split.costs_on_splits(member, member, obj.cv, chosen=chosen or found)
        if members and _on_split.follows_labels(obj.cv, classifier=is_classifier(obj)):
            yield _parts.Leak(path, _parts.FOLDS, _parts.OTHER_FOLDS)
        whole = any(member.privacy_spent_.unit == "silo" for member, _ in members)
        if whole and _on_split.follows_sizes(obj.cv):
            yield _parts.Leak(path, _parts.SIZES, _parts.OTHER_SIZES)
    except _parts.Unknown:
        what = f"the cost of the fits of {type(obj).__name__} on its splits cannot be recovered"
        yield _parts.Leak(path, what, _parts.BY_LEDGER)


def _search(
    search: BaseSearchCV, path: str, public: Declared, chosen: bool
) -> Iterator[PrivacySpent | _parts.Leak]:
    """Yield the cost of every fit of a search."""
    best = getattr(search, "best_estimator_", None)
    if best is None:
        what = "the fits of a search without refit cannot be recovered"
        yield _parts.Leak(path, what, "Use refit=True, or record the search in a PrivacyLedger.")
        return
    kept = clone(search.estimator).set_params(**search.best_params_)
    if names := _on_split.changed_candidate(kept, best):
        yield _parts.changed_after(path, f"the estimator of {type(search).__name__}", names)
    yield from _parts.leaks_of_changes(search, _parts.private_parts(best), path)
    halves = getattr(search, "resource", None) == "n_samples"  # training sets of several sizes
    cv = iter(()) if halves else search.cv
    beside: dict[str, _parts.Leak] = {}
    for params in search.cv_results_["params"]:
        candidate = clone(search.estimator).set_params(**params)
        beside |= {leak.path: leak for leak in _parts.leaks_of_candidate(candidate, path, public)}
        try:
            yield from _on_split.costs_of_candidate(
                candidate, best, cv, search.n_splits_, chosen=chosen
            )
        except _parts.Unknown:
            what = (
                f"the cost of candidates of {type(search.estimator).__name__} cannot be recovered"
            )
            yield _parts.Leak(path, what, _parts.BY_LEDGER)
            break
    yield from (found := list(_visit(best, path, public, chosen)))
    told = [each.path for each in found if isinstance(each, _parts.Leak)]
    yield from (leak for place, leak in beside.items() if place not in told)
    also = ""
    if _on_split.follows_labels(search.cv, classifier=is_classifier(search)):
        also = f"  Besides, {_parts.FOLDS}, which no budget covers. {_parts.OTHER_FOLDS}"
    whole = any(isinstance(each, PrivacySpent) and each.unit == "silo" for each in found)
    if whole and _on_split.follows_sizes(search.cv):
        also += f"  Besides, {_parts.SIZES}, which no budget covers. {_parts.OTHER_SIZES}"
    yield _parts.Leak(
        path,
        _parts.SCORES,
        "The returned cost is that of the fits only; DPRandomizedSearchCV covers the choice too."
        + also,
    )


def _nothing(paid: list[PrivacySpent], *, exact: bool) -> PrivacySpent:
    """Return a cost of zero, or infinity, that can be added to the others."""
    return PrivacySpent.from_compositions(
        paid[0].guarantee if paid else Guarantee(),
        delta=paid[0].delta if paid else 1e-5,
        compositions=[((Exact(), 1),) if exact else ()],
    )
