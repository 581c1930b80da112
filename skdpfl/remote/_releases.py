"""What a silo computes for an answer, and what it refuses to compute.

Everything that can be refused is refused here, before the fit is paid for; only then is a release
drawn. What runs is read from the row that was agreed to, not from the letter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdpfl.federation import Silo
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.remote._declared import pack
from skdpfl.remote._letters import Ask, Facts, Offer, Part, Task
from skdpfl.remote._masks import FEWEST, mask, masked, on_grid, public_of
from skdpfl.remote._records import SiloRecords
from skdpfl.remote._row import Row, checked
from skdpfl.remote._terms import Refused

#: a clip norm that is learnt stays within this factor of the first one
_FARTHEST = 2.0**40


class Planned(NamedTuple):
    """A release that was planned: ``draw`` computes it, ``state`` is what the silo keeps then."""

    draw: Callable[[], Any]
    state: Callable[[], dict[str, Any]]


def streams_of(offer: Offer) -> Streams:
    """Return a silo's random streams: its own secret, or in a simulation those of its number."""
    if offer.seed is None:
        return streams_for(None)
    return streams_for(offer.seed).of_silo(offer.index)


def planned(
    ask: Ask, offer: Offer, records: SiloRecords, kept: dict[str, Any], streams: Streams
) -> Planned:
    """Return what computes an answer; a Refused unless it is the next one of what was agreed to.

    ``kept`` is what the silo kept of the fit when it answered last.
    """
    row, X = offer.row, records.X
    task = None
    if isinstance(row, Row):
        task = _the_task(ask, row, offer.facts, kept)
    silo = Silo.alone(0, X, records.targets(offer.facts), 1, streams, records.sample_weight)
    if task is not None and isinstance(row, Row):
        silo.start(task.work(row.plan, X.dtype))
    if kept["silo"] is not None:
        silo.restore(kept["silo"])
    draw = _of_silo(ask, silo, offer, task, X.dtype)
    keys = kept.get("keys")
    if offer.masked and ask.purpose == "round":
        part, keys = _part_of(ask, row.name, kept)
        draw = partial(_hidden, draw, ask, part, row.name, keys, kept["key"])
    elif ask.part is not None:
        raise Refused("This silo did not agree to masked sums.")
    return Planned(draw, lambda: {"task": task, "silo": silo.save(), "keys": keys})


def _part_of(ask: Ask, name: str, kept: dict[str, Any]) -> tuple[Part, Mapping[str, str]]:
    """Return the silo's part of a masked sum, and the keys, which stay as they came first."""
    part = ask.part
    if part is None:
        raise Refused("This silo agreed to masked sums: a round needs its part of one.")
    keys: Mapping[str, str] | None = kept.get("keys") or part.keys
    if keys is None or (part.keys is not None and dict(part.keys) != dict(keys)):
        raise Refused("The keys of a fit come with its first round and stay.")
    who, step = set(part.among), part.step
    mine = name in who and keys.get(name) == public_of(kept["key"])
    if not mine or not who <= keys.keys() or len(who) != len(part.among) or len(who) < FEWEST:
        raise Refused(
            f"A masked sum is among {FEWEST} silos or more, each once, this one with them."
        )
    if not (0 < step < math.inf and 0 < part.weight < math.inf):
        raise Refused("The weight and the grid of a masked sum are positive numbers.")
    return part, keys


def _hidden(
    draw: Callable[[], np.ndarray],
    ask: Ask,
    part: Part,
    name: str,
    keys: Mapping[str, str],
    private: str,
) -> np.ndarray:
    """Return a silo's masked message."""
    others = {other: keys[other] for other in part.among if other != name}
    values = draw()
    steps = on_grid(values, part.weight, part.step, len(part.among))
    return masked(steps, mask(private, name, others, ask.fit, ask.number, len(values)))


def _of_silo(
    ask: Ask, silo: Silo, offer: Offer, task: Task | None, dtype: np.dtype
) -> Callable[[], Any]:
    """Return what computes the next release of a fit."""
    row = offer.row
    if ask.purpose != "round":
        return _sum_of_silo(ask, silo, offer, task, dtype)
    if task is None or not isinstance(row, Row):
        raise Refused("A round needs a task, which comes with the first one.")
    _refusing(silo.check_due, ask.number)
    if not task.algorithm.accepts(ask.content, task.model.size):
        raise Refused("This is not what the fit's algorithm broadcasts for its model.")
    _check_clip_norm(ask.clip_norm, row)
    return partial(silo.round, ask.number, ask.content, ask.clip_norm)


def _sum_of_silo(
    ask: Ask, silo: Silo, offer: Offer, task: Task | None, dtype: np.dtype
) -> Callable[[], Any]:
    """Return what computes one of the noised sums that were agreed to."""
    row = offer.row
    plan = next((plan for plan in row.sums if plan.purpose == ask.purpose), None)
    if plan is None:
        raise Refused(f"The plan has no question about the {ask.purpose}.")
    work = task.work(row.plan, dtype) if task is not None and isinstance(row, Row) else None
    question = checked(plan, ask.number, ask.content, offer.facts, work)
    _refusing(silo.check_new, question)
    return partial(silo.answer, question)


def _refusing(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a check of public numbers gives; its error may be sent."""
    try:
        return call(*args)
    except ValueError as error:
        raise Refused(str(error)) from error


def _the_task(ask: Ask, row: Row, facts: Facts, kept: dict[str, Any]) -> Task | None:
    """Return the fit's task, which stays what it was in the first round."""
    task: Task | None = kept["task"]
    if task is None and ask.task is not None:
        ask.task.check(row, facts)
    if task is None or ask.task is None:
        return ask.task if task is None else task
    if pack(task) != pack(ask.task):
        raise Refused("The task of a fit stays what it was in its first round.")
    return task


def _check_clip_norm(clip_norm: float, row: Row) -> None:
    """Raise unless messages of whole silos are clipped to a norm that noise can be made for."""
    if row.unit != "silo":
        return
    away = clip_norm / row.clip_norm
    if not (math.isfinite(clip_norm) and 1 / _FARTHEST <= away <= _FARTHEST):
        raise Refused("The clip norm of a message is a number near that of the plan.")
