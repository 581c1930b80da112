"""The computation of a silo's answers, and the checks before it.

All refusals happen here, before the fit is charged; only then are records read, and a release is
drawn. So what precedes the charge, be it words or time, follows from letters, declarations and the
stored state alone. What runs is read from the agreed row of the plan, not from the letter.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdpfl.encoding import EncodedColumn
from skdpfl.federation import Answered, Silo, SumPlan
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.remote._declared import pack
from skdpfl.remote._letters import Ask, Facts, Offer, Part, Task
from skdpfl.remote._masks import FEWEST, mask, masked, on_grid
from skdpfl.remote._records import SiloRecords
from skdpfl.remote._roster import secrets_of
from skdpfl.remote._row import Row, validated_question
from skdpfl.remote._terms import Refused, in_words

#: a clip norm that is learnt stays within this factor of the first one
_FARTHEST = 2.0**40


class Planned(NamedTuple):
    """A planned release: ``draw`` computes it, ``state`` is the silo's state afterwards.

    ``secrets`` are those of the fit's masks.
    """

    draw: Callable[[], Any]
    state: Callable[[], dict[str, Any]]
    secrets: Mapping[str, Any]


def streams_of(offer: Offer) -> Streams:
    """Return a silo's random streams: secret ones, or in a simulation those of its number."""
    if offer.seed is None:
        return streams_for(None)
    streams = streams_for(offer.seed)
    return streams if offer.masked else streams.of_silo(offer.index)


def planned(
    ask: Ask,
    offer: Offer,
    records: SiloRecords,
    kept: dict[str, Any],
    own: Mapping[str, Any],
    roster: Mapping[str, str] | None,
) -> Planned:
    """Return the next planned release; raise a Refused unless the letter asks for that.

    ``kept`` is the silo's stored state of the fit after its last answer, ``own`` has the secrets of
    its masks.
    """
    row, columns, facts = offer.row, _the_columns(ask, kept), records.columns_of(ask, offer.facts)
    task, answered = _the_task(ask, offer, kept), Answered.of(kept["silo"])
    asked, met = None if ask.purpose == "round" else _plan_of(ask, row), dict[str, Any]()
    hidden = row.masked if asked is None else asked.budgets.shares_noise
    if not hidden and ask.part is not None:
        raise Refused("This silo did not agree to masked sums.")
    if hidden:  # before the question, which it says the number of
        last = kept.get(f"last {ask.purpose}", (-1, 0))
        part = _checked_part(ask, row, asked, *last)
    answer, silos = _answer_of(ask, answered, offer, task, facts), list[Silo]()

    def draw() -> Any:
        silos.append(_restored(ask, offer, records, kept["silo"], task))
        return answer(silos[0])

    drawn: Callable[[], Any] = draw
    if ask.purpose == "round":
        met["round"] = part.round if hidden else ask.number
    if hidden:
        own = secrets_of(roster, offer, part, kept["public"], own)
        met[f"last {ask.purpose}"] = part.round, ask.number - part.round
        drawn = partial(_hidden, draw, ask, offer, part, task, own["secrets"])
    state = {"task": task, "columns": columns} | met
    return Planned(drawn, lambda: state | {"silo": silos[0].save()}, own)


def _restored(
    ask: Ask, offer: Offer, records: SiloRecords, saved: dict[str, Any] | None, task: Task | None
) -> Silo:
    """Return the silo with its records, as it was after its last answer."""
    row, X, facts = offer.row, records.table(ask, offer.facts), offer.facts
    exposure = records.exposure if facts.exposure else None
    of_row = records.of_row if row.promise.unit == "person" else None
    given = records.targets(facts), len(row.silos), streams_of(offer), records.sample_weight
    silo = Silo.alone(row.index, X, *given, exposure=exposure, of_row=of_row)
    if task is not None:
        silo.start(task.work(row.attempts, X.dtype))
    if saved is not None:
        silo.restore(saved)
    return silo


def _plan_of(ask: Ask, row: Row) -> SumPlan:
    """Return the plan of a sum besides the rounds."""
    plan = next((plan for plan in row.sums if plan.purpose == ask.purpose), None)
    if plan is None:
        raise Refused(f"The plan has no sum for the {ask.purpose}.")
    return plan


def _checked_part(ask: Ask, row: Row, plan: SumPlan | None, last: int, failed: int) -> Part:
    """Return the data of a masked sum, after a check that it is in the plan and has this silo.

    Rounds come in order, and so do the sums of a ``plan`` besides them; ``last`` is the last one
    answered, with the number of failures until then. A sum is answered again only after a failure,
    and only as often as was priced, so a silo gives the planned answers and at most the spare ones.
    """
    part = ask.part
    if part is None:
        raise Refused("This silo agreed to masked sums only; the letter lacks the data of one.")
    among, everyone = part.among, np.arange(len(row.silos))
    if plan is not None:
        _check_attempt(part.round, ask.number, plan.numbers, plan.budgets.spare, last, failed)
    elif row.plan is not None:
        rounds = range(row.plan.n_rounds)
        _check_attempt(part.round, ask.number, rounds, row.plan.spare_rounds, last, failed)
        everyone = row.cohort_of(part.round)
    else:
        raise Refused("A round needs a task, which comes with the first one.")
    known = among.dtype.kind == "i" and among.ndim == 1 and bool(np.isin(among, everyone).all())
    if not known or row.index not in among or (np.diff(among) <= 0).any() or len(among) < FEWEST:
        raise Refused(f"A masked sum needs {FEWEST} silos of a round or more, including this one.")
    if row.shares_noise and len(among) <= row.promise.colluding:
        raise Refused(f"Of {len(among)} shares of the noise, colluding silos would know all.")
    if not 0 < part.step < math.inf:
        raise Refused("The grid step of a masked sum must be a positive number.")
    return part


def _check_attempt(
    round: int, number: int, planned: range, spare: int, last: int, failed: int
) -> None:
    """Raise unless an attempt is at the next round or sum, or a spare one."""
    if round not in planned:
        raise Refused("An attempt must be at a round of the plan, or at a sum besides the rounds.")
    if round < last or not failed <= number - round <= spare:
        raise Refused(
            f"Attempt {number} at round {round}: out of order, or above {spare} spare ones."
        )


def _hidden(
    draw: Callable[[], np.ndarray],
    ask: Ask,
    offer: Offer,
    part: Part,
    task: Task | None,
    secrets: np.ndarray,
) -> np.ndarray:
    """Return a silo's masked message; its pads follow from offer, task and the whole question."""
    row, steps = offer.row, draw()
    if row.plan is not None and not row.shares_noise:
        weight = float(row.plan.weights[row.index])
        steps = on_grid(steps, weight, part.step, len(part.among))
    question = replace(ask, task=None, part=replace(part, keys=None, signatures=()))
    what = pack((offer.agreed.hex(), None if task is None else task.digest, question))
    return masked(steps, mask(secrets, row.index, part.among.tolist(), what, len(steps)))


def _answer_of(
    ask: Ask, answered: Answered, offer: Offer, task: Task | None, facts: Facts
) -> Callable[[Silo], Any]:
    """Return what a silo computes for the next planned release of a fit."""
    row = offer.row
    if ask.purpose != "round":
        return _sum_of_silo(ask, answered, offer, task, facts)
    if task is None or row.plan is None:
        raise Refused("A round needs a task, which comes with the first one.")
    with in_words():
        answered.check_due(row.attempts, row.index, ask.number)
    if not task.algorithm.accepts(ask.content, task.model.size):
        raise Refused("The broadcast does not fit the algorithm and its model.")
    _check_clip_norm(ask.clip_norm, row.plan)
    among = 1 if ask.part is None else len(ask.part.among)
    return lambda silo: silo.round(ask.number, ask.content, ask.clip_norm, among=among)


def _sum_of_silo(
    ask: Ask, answered: Answered, offer: Offer, task: Task | None, facts: Facts
) -> Callable[[Silo], Any]:
    """Return what a silo computes for one of the agreed noised sums."""
    row = offer.row
    work = None if task is None else task.work(row.priced, np.dtype(facts.dtype))
    plan, part = _plan_of(ask, row), ask.part
    number = ask.number if part is None else part.round
    question = validated_question(plan, number, ask.content, facts, work, ask.number - number)
    if part is not None:
        question = replace(question, among=len(part.among))
    with in_words():
        answered.check_new(question)
    return lambda silo: silo.answer(question)


def _the_task(ask: Ask, offer: Offer, kept: dict[str, Any]) -> Task | None:
    """Return the fit's task, which must not change after the first round."""
    task: Task | None = kept["task"]
    if task is None and ask.task is not None:
        if offer.row.plan is None or offer.task is None:
            raise Refused("A fit's task is for rounds, and none were agreed to.")
        ask.task.check_offered(offer.task)
        ask.task.check(offer.row.plan, offer.facts)
    if task is None or ask.task is None:
        return ask.task if task is None else task
    if task.digest != ask.task.digest:
        raise Refused("The task of a fit must not change after its first round.")
    return task


def _the_columns(ask: Ask, kept: dict[str, Any]) -> tuple[EncodedColumn, ...] | None:
    """Return the encoding of frames, which must not change after the first letter that has one.

    Otherwise two letters would tell whether a level occurs: dealt batches are of one table only.
    Levels 1 and True, which are equal, are not the same.
    """
    first: tuple[EncodedColumn, ...] | None = kept.get("columns")
    if first is not None and pack(first) != pack(ask.columns):
        raise Refused("The columns of a fit must not change after the first letter with them.")
    return ask.columns


def _check_clip_norm(clip_norm: float, plan: PrivacyPlan) -> None:
    """Raise unless the clip norm of whole silos' messages is valid for the plan's noise."""
    if plan.unit != "silo":
        return
    away = clip_norm / plan.clip_norm
    if not (math.isfinite(clip_norm) and 1 / _FARTHEST <= away <= _FARTHEST):
        raise Refused("The clip norm of a message must be a number near that of the plan.")
