"""The only round loop.

state = init;  in each round:  messages = the cohort's;  released = mechanism(sum of messages);
state = aggregate(state, released);  in the end an average of the rounds' models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms import Released, sends_one_gradient
from skdpfl.federation import Federation, Work
from skdpfl.privacy.cohorts import draw_cohort
from skdpfl.privacy.mechanisms import Aggregate

#: called with the round's number and the model as of now; a true answer stops the fit
OnRound = Callable[[int, np.ndarray], object]


class Outcome(NamedTuple):
    """What a run gives out: the model, the number of rounds that ran and where they ended.

    ``state`` is the algorithm's last state, ``clip_norm`` the norm that messages would be clipped
    to next (unit "silo"): functions of what was released, like the model.
    """

    params: np.ndarray
    n_rounds: int
    state: object
    clip_norm: float


@np.errstate(all="ignore")  # steps that diverge show in the model, and warnings tell of records
def run(
    work: Work, federation: Federation, *, average: bool = True, on_round: OnRound | None = None
) -> Outcome:
    """Run the plan's rounds and return the last model, or the average of the late ones."""
    _check_counted(work)
    plan, algorithm = work.plan, work.algorithm
    federation.start(work)
    start = work.model.init(work.streams.stream("init"), work.dtype)
    state, clip_norm = algorithm.init(start), plan.clip_norm
    late = Average(np.zeros(work.model.size))
    for r, cohort in enumerate(_cohorts(work)):
        if len(cohort) or plan.secret_cohorts:
            released = _round(work, federation, Round(r, cohort, clip_norm), state)
            clip_norm = plan.mechanism.next_clip_norm(plan, clip_norm, released.unclipped, r)
            state = algorithm.aggregate(state, released)
        else:
            state = algorithm.idle(state)
        params = algorithm.params(state)
        late.add(params, algorithm.output_weight(r, plan.n_rounds))
        output = late.mean if average and late.weight > 0 else params
        if on_round is not None and on_round(r, output.astype(work.dtype)):
            break
    return Outcome(output.astype(work.dtype), r + 1, state, clip_norm)


def _check_counted(work: Work) -> None:
    """Raise where the plan counts on sums of fresh gradients and the algorithm sends others."""
    plan, algorithm = work.plan, work.algorithm
    counted_on = plan.mechanism.gradients_only or plan.gradients_only
    if counted_on and not sends_one_gradient(algorithm):
        raise ValueError(
            f"{type(algorithm).__name__} sends more than one fresh gradient a round, or something "
            f'else; this plan with trust="{plan.trust}" needs a GradientMethod (one local step, '
            "nothing kept by silos)."
        )


@dataclass
class Average:
    """A weighted mean of models, one after the other."""

    mean: np.ndarray
    weight: float = 0.0

    def add(self, params: np.ndarray, share: float) -> None:
        """Count in another model."""
        if share:
            self.weight += share
            self.mean += (params - self.mean) * (share / self.weight)


class Round(NamedTuple):
    """A round's number, who takes part, and the norm that messages are clipped to."""

    number: int
    cohort: np.ndarray
    clip_norm: float


def _round(work: Work, federation: Federation, now: Round, state: object) -> Released:
    """Run one round: sum the cohort's weighted messages and release their mean.

    The sum is divided by the share of the silos that took part, not by their weight: its mean over
    cohorts of any one size is then the weighted mean over all silos, however unequal the weights.
    """
    plan, size = work.plan, work.model.size
    total, weight = np.zeros(size + plan.mechanism.n_extra), 0.0
    shared = work.algorithm.broadcast(state)
    for silos, messages in federation.round(now.number, shared, now.cohort, now.clip_norm):
        total += plan.weights[silos] @ messages  # in double precision
        weight += float(plan.weights[silos].sum())
    sampled = len(now.cohort) / plan.n_silos
    if plan.secret_cohorts:
        sampled = weight = plan.silo_fraction
    aggregate = Aggregate(total, sampled, now.clip_norm)
    mean = plan.mechanism.release(plan, aggregate, now.number, work.streams)
    if plan.mechanism.noised_later and work.alpha:
        mean[:size] += weight / sampled * work.penalty * shared
    known = plan.mechanism.statistics(plan, mean[size:], now.clip_norm)
    return Released(mean[:size].astype(work.dtype), weight, sampled, *known)


def _cohorts(work: Work) -> Iterator[np.ndarray]:
    """Yield who takes part in each round: the plan's schedule, or a secret draw."""
    plan = work.plan
    everyone = np.arange(plan.n_silos)
    if plan.schedule is not None:
        yield from plan.schedule
        return
    whole = plan.unit == "record" or plan.silo_fraction >= 1
    drawn = None if whole else draw_cohort(plan, work.streams)
    for _ in range(plan.n_rounds):
        yield everyone if drawn is None else next(drawn)
