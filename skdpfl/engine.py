"""The round loop.

::

    state = init
    in each round:  messages = those of the cohort
                    released = mechanism(sum of messages)
                    state    = aggregate(state, released)
    model = an average of the rounds' models

A round depends on earlier ones through a :class:`Progress` only. From a saved one, with restored
silos (:class:`skdpfl.federation.Silo`), a run continues with the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms import Released, sends_one_gradient
from skdpfl.federation import CohortSum, Federation, GridSum, Work, sum_in_order
from skdpfl.independence import check_declared
from skdpfl.privacy.mechanisms import Aggregate, Mechanism
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams

#: what a mechanism may do with the sum of messages, or change after a round
_OF_SERVER = "release", "statistics", "next_clip_norm"
#: called with the round's number and the current model; a true result stops the fit
OnRound = Callable[[int, np.ndarray], object]


class Progress(NamedTuple):
    """The state of a run after some rounds.

    Attributes
    ----------
    n_rounds : int
        Number of completed rounds.
    params : ndarray of shape (size,)
        The model: the last one, or the average of late ones with ``average=True``.
    state : object
        The algorithm's state.
    clip_norm : float
        The clip norm of messages in the next round (unit "silo").
    mean, weight : ndarray of shape (size,) and float
        The average of the late rounds' models, and the sum of their weights.
    """

    n_rounds: int
    params: np.ndarray
    state: object
    clip_norm: float
    mean: np.ndarray
    weight: float = 0.0


def run(
    work: Work,
    federation: Federation,
    streams: Streams,
    *,
    average: bool | float = True,
    on_round: OnRound | None = None,
    after: Progress | None = None,
    keep: Callable[[Progress], None] | None = None,
) -> Progress:
    """Run the plan's rounds.

    Parameters
    ----------
    work : Work
        What to do.
    federation : Federation
        The silos.
    streams : Streams
        The server's random streams, for one fit: cohorts and the noise on the aggregate.
    average : bool, float or int, default=True
        Which rounds' models are averaged. True: the algorithm decides, by default the second half.
        False: only the last. A float in (0, 1): this share of the rounds, the last ones. An
        integer: this number of last rounds.
    on_round : callable, optional
        Called with the round's number and the current model; a true result stops the run.
    after : Progress, optional
        Continue after these rounds: silos keep their state.
    keep : callable, optional
        Called with the state after each round, before ``on_round`` is.

    Returns
    -------
    Progress
        The final state; ``params`` is the model.

    See Also
    --------
    rounds : The same round by round; can continue a run.
    """
    now = after
    for now in rounds(work, federation, streams, average=average, after=after):
        if keep is not None:
            keep(now)
        if on_round is not None and on_round(now.n_rounds - 1, now.params):
            break
    assert now is not None  # a plan has rounds
    return now


def rounds(
    work: Work,
    federation: Federation,
    streams: Streams,
    *,
    average: bool | float = True,
    after: Progress | None = None,
) -> Iterator[Progress]:
    """Run the plan's rounds as a generator, one round for each item.

    Parameters
    ----------
    work, federation, streams, average, after
        As for :func:`run`.

    Yields
    ------
    Progress
        The state after each round.
    """
    _check_counted(work)
    if after is None:
        check_declared(work.algorithm, work.loss, work.model)
        federation.start(work)
        after = _beginning(work, streams, average)
    else:
        _check_continues(work.plan, streams)
    means = _means(work, federation)
    for r, cohort in enumerate(_cohorts(work.plan, streams)):
        if r >= after.n_rounds:
            now = Round(r, cohort, after.clip_norm)
            after = _next(work, federation, streams, after, now, average, means)
            yield after


def _check_counted(work: Work) -> None:
    """Raise if the plan requires sums of fresh gradients and the algorithm sends others."""
    plan, algorithm = work.plan, work.algorithm
    counted_on = plan.mechanism.gradients_only or plan.gradients_only
    if counted_on and not (sends_one_gradient(algorithm) and max(plan.steps) <= 1):
        raise ValueError(
            f'trust="{plan.trust}" with this plan needs a GradientMethod, whose silos send one '
            f"fresh gradient per round and keep no state; got {type(algorithm).__name__}."
        )


def _check_continues(plan: PrivacyPlan, streams: Streams) -> None:
    """Raise if a balanced schedule would start again: a silo could exceed its priced rounds.

    Cohorts that are drawn independently in each round may use new streams.
    """
    dealt = plan.schedule is None and plan.silo_fraction < 1 and plan.cohort == "balanced"
    if dealt and plan.unit == "silo" and not streams.is_simulation:
        raise ValueError(
            'A run with cohort="balanced" cannot be continued: its secret schedule of silos ends '
            'with the run. Use cohort="uniform" or "poisson" instead.'
        )


def _beginning(work: Work, streams: Streams, average: bool | float) -> Progress:
    """Return the state of a run before its first round."""
    if work.plan.private:
        streams.claim("the server")
    params = work.model.init(streams.stream("init"), work.dtype)
    state = work.algorithm.init(params)
    named = isinstance(average, bool)
    weight = work.algorithm.start_weight(work.plan.n_rounds) if named else 0.0
    mean = params.astype(float) if weight else np.zeros(work.model.size)
    return Progress(0, params, state, work.plan.clip_norm, mean, weight)


@np.errstate(all="ignore")  # warnings could reveal records; divergence shows in the model
def _next(
    work: Work,
    federation: Federation,
    streams: Streams,
    before: Progress,
    now: Round,
    average: bool | float,
    means: Means | None,
) -> Progress:
    """Run the next round."""
    plan, algorithm, (r, cohort, clip_norm) = work.plan, work.algorithm, now
    if means is not None:
        released = means(now, algorithm.broadcast(before.state))
        state = algorithm.aggregate(before.state, released)
    elif len(cohort.silos) or plan.secret_cohorts:
        released = _round(work, federation, streams, now, before.state)
        federation.on_release(r, released)
        clip_norm = plan.mechanism.next_clip_norm(plan, clip_norm, released.unclipped, r)
        state = algorithm.aggregate(before.state, released)
    else:
        state = algorithm.idle(before.state)
    params = algorithm.params(state)
    mean, weight = before.mean, before.weight
    if isinstance(average, bool):
        share = algorithm.output_weight(r, plan.n_rounds)
    else:
        late = r >= plan.n_rounds - last_rounds(average, plan.n_rounds)
        share = float(late and algorithm.moves(r))
    if share:
        weight += share
        mean = mean + (params - mean) * (share / weight)
    output = mean if average is not False and weight > 0 else params
    return Progress(r + 1, output.astype(work.dtype), state, clip_norm, mean, weight)


def last_rounds(average: float, n_rounds: int) -> int:
    """Return how many of the last rounds' models ``average`` stands for; False: 1.

    All of them if there are fewer rounds.

    Examples
    --------
    >>> last_rounds(0.25, 40), last_rounds(3, 40)
    (10, 3)
    """
    if isinstance(average, float):
        return math.ceil(average * n_rounds - 1e-9)  # a product like 3.0000000000000004 is 3
    return min(n_rounds, max(1, int(average)))


class Cohort(NamedTuple):
    """The silos of a round, their weights, and the sum of these."""

    silos: np.ndarray
    weights: np.ndarray
    weight: float

    @classmethod
    def of(cls, plan: PrivacyPlan, silos: np.ndarray) -> Cohort:
        """Return a cohort of the plan's silos."""
        weights = plan.weights[silos]
        return cls(silos, weights, float(np.add.reduce(weights)))


class Round(NamedTuple):
    """A round's number, cohort and clip norm of messages."""

    number: int
    cohort: Cohort
    clip_norm: float


#: (round, broadcast) -> what the round releases
Means = Callable[[Round, np.ndarray], Released]


def _means(work: Work, federation: Federation) -> Means | None:
    """Return :func:`_round` of silos that all send gradients, whose mean is released as it is.

    It does the operations that do not keep the numbers; None for other rounds.
    """
    mechanism, gradients = work.plan.mechanism, federation.gradients()
    methods = [getattr(getattr(mechanism, name), "__func__", None) for name in _OF_SERVER]
    if methods != [getattr(Mechanism, name) for name in _OF_SERVER]:
        return None
    more = mechanism.n_extra or mechanism.shared or mechanism.noised_later
    if gradients is None or more or work.plan.secret_cohorts:
        return None

    def of_round(now: Round, shared: np.ndarray) -> Released:
        total = sum_in_order(now.cohort.weights, gradients(now.number, shared))
        return Released(total.astype(work.dtype), now.cohort.weight)

    return of_round


def _round(
    work: Work, federation: Federation, streams: Streams, now: Round, state: object
) -> Released:
    """Run one round: sum the cohort's weighted messages and release their mean.

    The sum is divided by the share of the silos that took part, not by their weight. Its
    expectation over cohorts of a given size is then the weighted mean over all silos, however
    unequal the weights are.
    """
    plan, size, (cohort, weights, weight) = work.plan, work.model.size, now.cohort
    width = size + plan.mechanism.n_extra
    on_grid = plan.mechanism.shared  # silos weight their messages themselves
    total = GridSum(cohort, width) if on_grid else CohortSum(cohort, weights, width)
    shared = work.algorithm.broadcast(state)
    for silos, messages in federation.round(now.number, shared, cohort, now.clip_norm):
        total.add(silos, messages)
    came = len(cohort)
    absent = federation.absent()
    if len(absent):  # the mean is over the others, as if they had been the cohort
        total.add(absent, np.zeros((len(absent), width), total.dtype))
        came, weight = came - len(absent), weight - float(plan.weights[absent].sum())
    sampled = came / plan.n_silos
    if plan.secret_cohorts:
        sampled = weight = plan.silo_fraction
    aggregate = Aggregate(total.result(), sampled, now.clip_norm, came)
    mean = plan.mechanism.release(plan, aggregate, now.number, streams)
    if plan.mechanism.noised_later and work.alpha:
        mean[:size] += weight / sampled * work.penalty * shared
    statistics = plan.mechanism.statistics(plan, mean[size:], now.clip_norm)
    return Released(mean[:size].astype(work.dtype), weight, sampled, *statistics)


def _cohorts(plan: PrivacyPlan, streams: Streams) -> Iterator[Cohort]:
    """Yield the cohort of each round: from the plan's schedule, or a secret draw."""
    if plan.schedule is not None:
        cohorts: Iterable[np.ndarray] = plan.schedule
    elif plan.unit == "silo" and plan.silo_fraction < 1:
        cohorts = plan.cohorts(streams)
    else:
        yield from repeat(Cohort.of(plan, np.arange(plan.n_silos)), plan.n_rounds)
        return
    for silos in cohorts:
        yield Cohort.of(plan, silos)
