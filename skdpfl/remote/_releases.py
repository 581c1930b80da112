"""The computation of a silo's answers, and the checks before it.

All refusals happen here, before the fit is charged; only then are records read, and a release is
drawn. So what precedes the charge, be it words or time, follows from letters, declarations and the
stored state alone. What runs is read from the agreed row of the plan, not from the letter.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skdpfl.encoding import EncodedColumn
from skdpfl.federation import Answered, Silo, SumPlan
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.remote._declared import pack
from skdpfl.remote._letters import Ask, Facts, Offer, Part, Task
from skdpfl.remote._masks import FEWEST, mask, masked, on_grid, secrets_of
from skdpfl.remote._records import SiloRecords
from skdpfl.remote._row import validated_question
from skdpfl.remote._terms import Refused, in_words

#: a clip norm that is learnt stays within this factor of the first one
_FARTHEST = 2.0**40


def streams_of(offer: Offer) -> Streams:
    """Return a silo's random streams: secret ones, or in a simulation those of its number."""
    if offer.seed is None:
        return streams_for(None)
    streams = streams_for(offer.seed)
    return streams if offer.row.masked else streams.of_silo(offer.index)


class Planned:
    """The next planned release of a fit; making it raises a Refused unless the letter asks for it.

    ``kept`` is the silo's stored state of the fit after its last answer, ``own`` has the secrets of
    its masks, ``roster`` the keys of the others; ``secrets`` are those of the masks afterwards.
    """

    def __init__(
        self,
        ask: Ask,
        offer: Offer,
        records: SiloRecords,
        kept: dict[str, Any],
        own: Any,
        roster: Any,
    ) -> None:
        self._ask, self._offer, self._row, self._records = ask, offer, offer.row, records
        self._saved, self.secrets = kept["silo"], own
        columns, facts = self._columns(kept.get("columns")), records.columns_of(ask, offer.facts)
        self._task, self._answered = self._task_of(kept["task"]), Answered.of(kept["silo"])
        self._state: dict[str, Any] = {"task": self._task, "columns": columns}
        plan = None if ask.purpose == "round" else self._plan_of_sum()
        hidden = self._row.masked if plan is None else plan.budgets.shares_noise
        if not hidden and ask.part is not None:
            raise Refused("This silo did not agree to masked sums.")
        if hidden:  # before the question, which it says the number of
            part = self._checked_part(plan, *kept.get(f"last {ask.purpose}", (-1, 0)))
        self._answer = self._answer_of_round() if plan is None else self._answer_of_sum(plan, facts)
        if plan is None:
            self._state["round"] = part.round if hidden else ask.number
        if hidden:
            self.secrets = secrets_of(roster, offer, part, kept["public"], own)
            self._state[f"last {ask.purpose}"] = part.round, ask.number - part.round

    def draw(self) -> Any:
        """Compute the release."""
        self._silo = self._restored()
        drawn = self._answer(self._silo)
        return drawn if self._ask.part is None else self._masked(drawn, self._ask.part)

    def state(self) -> dict[str, Any]:
        """Return the silo's state after it."""
        return self._state | {"silo": self._silo.save()}

    def _restored(self) -> Silo:
        """Return the silo with its records, as it was after its last answer."""
        row, records, facts = self._row, self._records, self._offer.facts
        X, exposure = records.table(self._ask, facts), records.exposure if facts.exposure else None
        of_row = records.of_row if row.promise.unit == "person" else None
        streams = streams_of(self._offer)
        given = records.targets(facts), len(row.silos), streams, records.sample_weight
        silo = Silo.alone(row.index, X, *given, exposure=exposure, of_row=of_row)
        if self._task is not None:
            silo.start(self._task.work(row.attempts, X.dtype))
        if self._saved is not None:
            silo.restore(self._saved)
        return silo

    def _plan_of_sum(self) -> SumPlan:
        """Return the plan of a sum besides the rounds."""
        for plan in self._row.sums:
            if plan.purpose == self._ask.purpose:
                return plan
        raise Refused(f"The plan has no sum for the {self._ask.purpose}.")

    def _checked_part(self, plan: SumPlan | None, last: int, failed: int) -> Part:
        """Return the data of a masked sum, after a check that it is in the plan and has this silo.

        Rounds come in order, and so do the sums of a ``plan`` besides them; ``last`` is the last
        one answered, with the number of failures until then. A sum is answered again only after a
        failure, and only as often as was priced, so a silo gives the planned answers and at most
        the spare ones.
        """
        row, part = self._row, self._ask.part
        if part is None:
            raise Refused("This silo agreed to masked sums only; the letter lacks the data of one.")
        among, everyone = part.among, np.arange(len(row.silos))
        if plan is not None:
            planned, spare = plan.numbers, plan.budgets.spare
        elif row.plan is not None:
            planned, spare = range(row.plan.n_rounds), row.plan.spare_rounds
        else:
            raise Refused("A round needs a task, which comes with the first one.")
        now = self._ask.number - part.round
        if part.round not in planned or part.round < last or not failed <= now <= spare:
            raise Refused(
                f"Attempt {self._ask.number} at {part.round} is not in the plan, or out of order: "
                f"{spare} attempts may fail."
            )
        if plan is None:
            everyone = row.cohort_of(part.round)
        known = among.dtype.kind == "i" and among.ndim == 1 and bool(np.isin(among, everyone).all())
        if (
            not known
            or row.index not in among
            or (np.diff(among) <= 0).any()
            or len(among) < FEWEST
        ):
            raise Refused(
                f"A masked sum needs {FEWEST} silos of a round or more, including this one."
            )
        if row.shares_noise and len(among) <= row.promise.colluding:
            raise Refused(f"Of {len(among)} shares of the noise, colluding silos would know all.")
        if not 0 < part.step < math.inf:
            raise Refused("The grid step of a masked sum must be a positive number.")
        return part

    def _masked(self, steps: np.ndarray, part: Part) -> np.ndarray:
        """Return a masked message; its pads follow from offer, task and the whole question."""
        row, offer, among = self._row, self._offer, part.among.tolist()
        if row.plan is not None and not row.shares_noise:
            steps = on_grid(steps, float(row.plan.weights[row.index]), part.step, len(among))
        question = replace(self._ask, task=None, part=replace(part, keys=None, signatures=()))
        task = None if self._task is None else self._task.digest
        what = pack((offer.agreed.hex(), task, question))
        return masked(steps, mask(self.secrets["secrets"], row.index, among, what, len(steps)))

    def _answer_of_round(self) -> Callable[[Silo], Any]:
        """Return what a silo computes for the next round."""
        ask, row, task = self._ask, self._row, self._task
        if task is None or row.plan is None:
            raise Refused("A round needs a task, which comes with the first one.")
        with in_words():
            self._answered.check_due(row.attempts, row.index, ask.number)
        if not task.algorithm.accepts(ask.content, task.model.size):
            raise Refused("The broadcast does not fit the algorithm and its model.")
        _check_clip_norm(ask.clip_norm, row.plan)
        among = 1 if ask.part is None else len(ask.part.among)
        return lambda silo: silo.round(ask.number, ask.content, ask.clip_norm, among=among)

    def _answer_of_sum(self, plan: SumPlan, facts: Facts) -> Callable[[Silo], Any]:
        """Return what a silo computes for one of the agreed noised sums."""
        ask, task, part = self._ask, self._task, self._ask.part
        work = None if task is None else task.work(self._row.priced, np.dtype(facts.dtype))
        number = ask.number if part is None else part.round
        question = validated_question(plan, number, ask.content, facts, work, ask.number - number)
        if part is not None:
            question = replace(question, among=len(part.among))
        with in_words():
            self._answered.check_new(question)
        return lambda silo: silo.answer(question)

    def _task_of(self, task: Task | None) -> Task | None:
        """Return the fit's task, which must not change after the first round."""
        offer, new = self._offer, self._ask.task
        if task is None and new is not None:
            if offer.row.plan is None or offer.task is None:
                raise Refused("A fit's task is for rounds, and none were agreed to.")
            new.check_offered(offer.task)
            new.check(offer.row.plan, offer.facts)
        if task is None or new is None:
            return new if task is None else task
        if task.digest != new.digest:
            raise Refused("The task of a fit must not change after its first round.")
        return task

    def _columns(self, first: tuple[EncodedColumn, ...] | None) -> tuple[EncodedColumn, ...] | None:
        """Return the encoding of frames, which must not change after the first letter with one.

        Otherwise two letters would tell whether a level occurs: dealt batches are of one table
        only. Levels 1 and True, which are equal, are not the same.
        """
        if first is not None and pack(first) != pack(self._ask.columns):
            raise Refused("The columns of a fit must not change after the first letter with them.")
        return self._ask.columns


def _check_clip_norm(clip_norm: float, plan: PrivacyPlan) -> None:
    """Raise unless the clip norm of whole silos' messages is valid for the plan's noise."""
    if plan.unit != "silo":
        return
    away = clip_norm / plan.clip_norm
    if not (math.isfinite(clip_norm) and 1 / _FARTHEST <= away <= _FARTHEST):
        raise Refused("The clip norm of a message must be a number near that of the plan.")
