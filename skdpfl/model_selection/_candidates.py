"""The candidates of a search: points of a space, the cost of their fits, and the fits.

If all runs are public, callbacks are called for each. In a secret search the number of runs, their
times and results are not covered by the budget; a callback (such as a progress bar) would reveal
them, so none is called.

A search's budget is divided so that each run gets the largest epsilon. Training records: n fits
composed, or the best of a random number of runs, must cost at most (epsilon, delta); the largest
epsilon of a single fit with that property is found by bisection. Scoring records are used for the
scores only, which have the whole budget.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import _safe_indexing

from skdpfl._warnings import foreign_steps, warn
from skdpfl.model_selection._shared_budget import model_of
from skdpfl.model_selection._wrapped import (
    TriedSteps,
    check_steps,
    check_target,
    divide,
    last_step,
    paid_for,
    paying_steps,
    protection_of,
    seed_steps,
    sum_of,
)
from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Composition, Gaussian, Neighbours, compose
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.releases import undominated
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.cost import ORDERS, Cost, Repetition, renyi_curve
from skdpfl.privacy.spending.spent import PrivacySpent


class Runs:
    """Calls the callbacks of a search (from scikit-learn 1.9 on) for its runs.

    ``count`` is the number of runs; None if it is secret.
    """

    def __init__(self, search: Any, count: int | None) -> None:
        self._search, self._secret = search, count is None
        self._context = None
        if hasattr(search, "_init_callback_context"):
            self._context = search._init_callback_context(max_subtasks=count or 0)
            self._context.call_on_fit_task_begin(estimator=search)

    def warn_of_hidden_callbacks(self, model: Any) -> None:
        """Warn of callbacks that will not be called."""
        if self._secret and any(True for _ in callback_attributes(model)):
            warn('Callbacks of the estimator are not called in a search with trust="server".')

    @contextmanager
    def run(self, model: Any) -> Iterator[None]:
        """Context of one run's fit, under which its rounds are reported."""
        if self._secret:  # they would reveal the run
            for part, name in list(callback_attributes(model)):
                delattr(part, name)
        if self._secret or self._context is None:
            yield
            return
        context = self._context.subcontext(task_name="candidate")
        with context.propagate_callback_context(model):
            context.call_on_fit_task_begin(estimator=self._search)
            yield
            context.call_on_fit_task_end(estimator=self._search)

    def end(self) -> None:
        """End the search's task."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._search)


def callback_attributes(model: Any) -> Iterator[tuple[Any, str]]:
    """Yield the parts of a model that callbacks are set on, and the attribute that holds them."""
    for part in (model, *model.get_params(deep=True).values()):
        for name in ("_skl_callbacks", "_watch"):
            if name in getattr(part, "__dict__", {}):
                yield part, name


class Space:
    """A mapping from parameters to lists or distributions, or several of them."""

    def __init__(self, distributions: Any) -> None:
        several = isinstance(distributions, Sequence) and len(distributions) > 0
        parts = distributions if several else [distributions]
        if not all(isinstance(part, Mapping) for part in parts):
            raise ValueError(
                "param_distributions must be a mapping from parameters to lists or distributions, "
                f"or a list of mappings; got {distributions!r}."
            )
        self.distributions, self._parts = distributions, parts
        #: the names of the searched parameters
        self.names = {name for part in parts for name in part}

    @property
    def n_points(self) -> int:
        """The number of points of a grid of lists; 0 if some parameter has a distribution."""
        if any(hasattr(values, "rvs") for part in self._parts for values in part.values()):
            return 0
        return len(ParameterGrid(self.distributions))

    def warn_of_repeats(self, count: int) -> None:
        """Warn if a grid has fewer points than runs, since each run is charged."""
        if 0 < self.n_points < count:
            most = self.n_points
            warn(f"The space has {most} points: n_iter={count} pays for some again; set {most}.")

    def draw(self, count: int, seed: int, *, distinct: bool) -> list[dict[str, Any]]:
        """Return ``count`` points: independent, or without repeats until all were drawn."""
        if distinct and self.n_points:
            once = min(count, self.n_points)
            points = list(ParameterSampler(self.distributions, once, random_state=seed))
            return [points[i % once] for i in range(count)]
        seeds = range(seed, seed + count)
        return [next(iter(ParameterSampler(self.distributions, 1, random_state=s))) for s in seeds]


class Candidate:
    """A point of the space, with the public facts of its fit.

    ``template`` is the searched estimator, ``params`` are the parameters of its clone; ``sizes``
    has each training silo's number of records (persons); ``few`` has some rows of X with their
    silos and persons, of which only the columns are used, and ``y`` all targets, of which only the
    labels are until :meth:`fit`. ``schedule`` has the random streams of the schedule, so that the
    plan that runs is the priced one.
    """

    def __init__(
        self,
        template: Any,
        params: dict[str, Any],
        sizes: Any,
        few: Sequence[Any],
        y: Any,
        schedule: Streams,
    ) -> None:
        self._template, self.params, self._schedule = template, params, schedule
        self._sizes, self._few = sizes, few
        self._labels = np.unique(np.asarray(y)) if is_classifier(template) else None
        self._priced: dict[tuple[float, float], dict[str, PrivacySpent]] = {}

    def _made(self) -> Any:
        own = {name: clone(value, safe=False) for name, value in self.params.items()}
        made = clone(self._template).set_params(**own)
        check_target(model_of(made))
        return made

    def model(self) -> Any:
        """Return an unfitted model with the candidate's parameters, that of a shared budget."""
        return model_of(self._made())

    @cached_property
    def _tried(self) -> TriedSteps:
        return TriedSteps.of(self.model(), self._few, len(self._sizes))

    def price(self, epsilon: float, delta: float) -> PrivacySpent:
        """Return the cost of the candidate's fit with this budget."""
        parts = self._parts(epsilon, delta)
        if len(parts) == 1:
            return next(iter(parts.values()))
        return sum_of(parts, protection_of(last_step(self.model())[1]))

    def _parts(self, epsilon: float, delta: float) -> dict[str, PrivacySpent]:
        """Return the costs of the private steps, the last one's at the end."""
        if (epsilon, delta) not in self._priced:
            made = self._made()
            inner = self._paying(made, self._tried.paying, epsilon, delta)
            plan = inner.plan_for(
                silo_sizes=self._sizes,
                n_classes=2 if self._labels is None else len(self._labels),
                **self._tried.columns,
            )
            costs = self._tried.costs(self._sizes)
            self._priced[epsilon, delta] = costs | {"the last step": plan.spent()}
        return self._priced[epsilon, delta]

    def fit(
        self,
        data: tuple[Any, Any, Any, Any],
        train: np.ndarray,
        budget: tuple[float, float],
        seed: int | None,
        runs: Runs,
        *,
        paid: bool,
    ) -> Any:
        """Return the model fitted to the training rows of (X, y, silos, persons).

        ``runs`` calls the search's callbacks, unless the run is secret; ``paid``: the priced
        releases, which are compared with those of the fit.
        """
        X, y, *owners = (None if part is None else _safe_indexing(part, train) for part in data)
        made = self._made()
        model = model_of(made)
        paying = paying_steps(model)
        inner = self._paying(made, paying, *budget)
        seed_steps(paying, streams_for(seed))
        inner.set_params(random_state=seed, verbose=0)
        if self._labels is not None and inner.classes is None:
            inner.set_params(classes=self._labels)  # public; rare ones may be missing
        by_name = {"silos": owners[0], "persons": owners[1]}
        metadata = {name: ids for name, ids in by_name.items() if ids is not None}
        alone, charged = model is inner, paying | {"the last step": inner}
        routed = nullcontext() if alone else config_context(enable_metadata_routing=True)
        foreign = nullcontext() if alone else foreign_steps()
        with runs.run(model), routed, paid_for(charged), foreign:
            model.fit(X, y, **metadata)
        path, fitted = last_step(model)
        for each in {id(inner): inner, id(fitted): fitted}.values():
            del each._schedule_streams
        steps = {**paying_steps(model), "the last step": fitted}
        if paid:
            self.check(steps, *budget)
        if made is model:
            return model
        whole = sum_of({p: step.privacy_spent_ for p, step in steps.items()}, protection_of(inner))
        own = {**paying, path: fitted}
        return made.set_params(epsilon=budget[0], delta=budget[1]).keep(model, whole, own)

    def check(self, fitted: dict[str, Any], epsilon: float, delta: float) -> None:
        """Raise unless the releases of all steps are the priced ones."""
        for path, priced in self._parts(epsilon, delta).items():
            ran = fitted[path].privacy_spent_.costs
            if ran != priced.costs:
                raise RuntimeError(
                    f"The fit of candidate {self.params!r} released {ran!r} in {path}, but the "
                    f"search was charged for {priced.costs!r}; its result is withheld."
                )

    def _paying(self, made: Any, paying: dict[str, Any], epsilon: float, delta: float) -> Any:
        """Set the budgets of private steps, and return the last one."""
        _, inner = last_step(model_of(made))
        own = epsilon
        if paying:
            check_steps(inner, paying)
            own = divide(inner, paying, getattr(made, "shares", "auto"), epsilon, delta)
        inner.set_params(epsilon=own, delta=delta, noise_multiplier=None)
        inner._schedule_streams = lambda: self._schedule  # copies of the estimator share it
        return inner


#: a run gets at least this share of the epsilon that the budget was divided for
_LEAST_SHARE = 1e-3

#: (epsilon, delta) -> the cost of a candidate's fit
Price = Callable[[float, float], PrivacySpent]


class SearchBudget(NamedTuple):
    """Each run's epsilon, the noise multiplier of scores, and the costs of training and scoring."""

    epsilon: float
    score_noise: float
    cost: tuple[Composition, ...]
    curve: np.ndarray


def divide_budget(
    neighbours: Neighbours,
    prices: Sequence[Price],
    epsilon: float,
    delta: float,
    repetition: Repetition | None,
) -> SearchBudget:
    """Return the division of (epsilon, delta) among runs and scores."""
    if repetition is None:
        noise = calibrate(lambda z: ((Gaussian(z), 1),), epsilon, delta, neighbours)
        return _largest_epsilon(
            lambda e: _of_all(prices, e, delta), noise, epsilon, delta, neighbours, len(prices)
        )
    # the best of K runs: a run is a fit, or a score, whichever the record takes part in
    whole = {cost.composition for each in prices for cost in each(epsilon, delta).costs}
    failure = max(renyi(part, ORDERS[0], neighbours)[1] for part in whole)  # thresholds of levels
    noise = _score_noise(repetition, epsilon, delta - repetition.mean * failure, neighbours)

    def of_best(epsilon: float) -> list[Composition]:
        fits = {cost.composition for price in prices for cost in price(epsilon, delta).costs}
        return [((repetition.profile((*fits, ((Gaussian(noise), 1),)), neighbours), 1),)]

    budget = _largest_epsilon(of_best, noise, epsilon, delta, neighbours, len(prices))
    parts = {c.composition for price in prices for c in price(budget.epsilon, delta).costs}
    return budget._replace(curve=renyi_curve({*parts, ((Gaussian(noise), 1),)}, neighbours))


def within(
    budget: SearchBudget,
    price: Price,
    delta: float,
    repetition: Repetition | None,
    neighbours: Neighbours,
) -> float:
    """Return the epsilon of one run: the budget's, or less if its curve exceeds the priced one.

    The theorem on random repetition needs each run's Renyi curve and failure probability to be at
    most the priced ones; fits with the same (epsilon, delta) but other samplings or mechanisms have
    different curves. An error depends on candidates only, whose distribution is public: conditional
    on no error, the number of runs has a distribution of the same family, with a smaller mean.
    """
    if repetition is None:
        return budget.epsilon
    epsilon = budget.epsilon
    while epsilon > _LEAST_SHARE * budget.epsilon:
        parts = {cost.composition for cost in price(epsilon, delta).costs}
        if (renyi_curve(parts, neighbours) <= budget.curve).all():
            return epsilon
        epsilon *= 0.98
    raise ValueError(
        "A run of this search would cost more, at any epsilon, than those for which its budget was "
        'divided. Use candidates with similar sampling, or search with trust="silo".'
    )


def _largest_epsilon(
    cost: Callable[[float], Sequence[Composition]],
    noise: float,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    n_scores: int,
) -> SearchBudget:
    """Return the largest single epsilon whose cost stays within the budget."""
    low, high = 0.0, float(epsilon)
    best: Sequence[Composition] = ()
    for _ in range(30):
        middle = math.sqrt(low * high) if low else high / 2
        parts = cost(middle)
        if max(price_epsilon(part, delta, neighbours) for part in parts) <= epsilon:
            low, best = middle, parts
        else:
            high = middle
        if low and high / low < 1.005:
            break
    if not low:
        raise ValueError(
            f"epsilon={epsilon:g} is too small for a search over {n_scores} candidates."
        )
    return SearchBudget(low, noise, (*best, ((Gaussian(noise), 1),)), np.zeros(0))


def _of_all(prices: Sequence[Price], epsilon: float, delta: float) -> list[Composition]:
    """Return the largest possible costs of a silo for all candidates' fits together."""
    each = _costs_of_silos([price(epsilon, delta) for price in prices])
    together = [compose(pair for cost in costs for pair in cost.composition) for costs in each]
    return [together[i] for i in undominated(together)]


def _costs_of_silos(spents: Sequence[PrivacySpent]) -> Iterator[tuple[Cost, ...]]:
    """Yield the silos' costs, one per fit; every combination if silos are unknown."""
    each = [spent.silo_costs for spent in spents]
    if any(silos is None for silos in each):
        yield from itertools.product(*(spent.costs for spent in spents))
        return
    for positions in dict.fromkeys(zip(*(s for s in each if s is not None), strict=True)):
        yield tuple(spent.costs[i] for spent, i in zip(spents, positions, strict=True))


def _score_noise(
    repetition: Repetition, epsilon: float, delta: float, neighbours: Neighbours
) -> float:
    """Return the least noise of a score for which keeping the best run meets the budget."""

    def price(z: float) -> float:
        profile = repetition.profile((((Gaussian(z), 1),),), neighbours)
        return price_epsilon(((profile, 1),), delta, neighbours)

    low, high = 1e-2, 1e5
    if price(high) > epsilon:
        raise ValueError(f"epsilon={epsilon:g} is too small for {repetition.mean:g} expected runs.")
    for _ in range(40):
        middle = np.sqrt(low * high)
        low, high = (low, middle) if price(middle) <= epsilon else (middle, high)
        if high / low < 1.005:
            break
    return float(high)
