"""Convert costs to plain data, for ledgers and for reports, and back.

A record holds the releases and their price. A report also has the epsilons at other deltas and of
each silo; the user guide describes its fields. Reading checks every field: none may be missing,
unknown or out of range, and derived values must agree.
"""

import dataclasses
import math
from collections.abc import Collection, Iterable
from typing import Any, TypeVar, get_args

import numpy as np

from skdpfl import __version__
from skdpfl.privacy import events
from skdpfl.privacy.events import Composition, Event, Guarantee, Neighbours, Trust, Unit
from skdpfl.privacy.spending.cost import Cost, SiloCosts, fields_of


def require(holds: bool, where: str, what: str) -> None:
    """Raise ValueError with the field's name unless ``holds``."""
    if not holds:
        raise ValueError(f"{where} {what}.")


def keys(item: Any, expected: Iterable[str], where: str) -> None:
    """Require a mapping with these keys and no others."""
    require(isinstance(item, dict), where, "is not a mapping")
    unlike = {*item} ^ {*expected}
    require(not unlike, where, f"lacks, or should not have, {', '.join(sorted(map(str, unlike)))}")


def number(item: Any, name: Any, where: str = "report", most: float = math.inf) -> float:
    """Return a number between 0 and ``most``; "inf" is infinity."""
    value = math.inf if item[name] == "inf" else item[name]
    fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
    require(fine, f"{where}.{name}", f"is not a number from 0 to {most:g}")
    return float(value)


def whole(item: dict[str, Any], name: str, where: str = "report", least: int = 0) -> int:
    """Return an integer of at least ``least``."""
    value = item[name]
    require(
        type(value) is int and value >= least, f"{where}.{name}", f"is not an integer >= {least}"
    )
    return int(value)


def listed(item: dict[str, Any], name: str, where: str = "report") -> list[Any]:
    """Return a list."""
    require(isinstance(item[name], list), f"{where}.{name}", "is no list")
    values: list[Any] = item[name]
    return values


def one_of(item: dict[str, Any], name: str, choices: Collection[Any], where: str = "report") -> Any:
    """Return a string that is one of the choices."""
    fine = any(type(item[name]) is type(choice) and item[name] == choice for choice in choices)
    words = "must be one of " if len(choices) > 1 else "must be "
    require(fine, f"{where}.{name}", words + ", ".join(map(repr, choices)))
    return item[name]


def text_or_none(item: dict[str, Any], name: str) -> str | None:
    """Return a string or None."""
    value: str | None = item[name]
    require(value is None or isinstance(value, str), name, "must be a string or null")
    return value


SCHEMA, VERSION = "skdpfl.PrivacySpent", 1

#: every event that has a price, by its name in a report
EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}
#: the largest value of an event's fields; others end at infinity
_AT_MOST = {"sampling_rate": 1.0, "delta": 1.0, "deltas": 1.0}

#: the deltas at which a report states epsilon
REPORTED_DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
#: tolerances for a stated epsilon: prices of other versions differ by less
_LEAST, _LITTLE = 0.99, 1e-6

_COSTS = {"epsilon", "delta", "accountant", "neighbours", "assignment", "compositions", "per_silo"}
#: the keys of a record, and of a report
RECORD = {"unit", "trust", "n_releases", "group_size", "noise_multiplier", "simulation", *_COSTS}
RECORD |= {"outsider"}
#: what a record also has where silos share noise, and where persons are protected
_OF_SHARES, _OF_PERSONS = {"colluding"}, {"silos_per_person"}
REPORT = {"schema", "version", "library", "epsilon_at", *RECORD}

#: :class:`skdpfl.privacy.PrivacySpent`, which is made from this module's functions
Spent = TypeVar("Spent", bound=SiloCosts)


def plain(value: Any) -> Any:
    """Return a value for JSON; infinity becomes "inf", unknown types become text."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def to_report(spent: Any) -> dict[str, Any]:
    """Return a cost as plain data, with all information for an audit."""
    words = {"schema": SCHEMA, "version": VERSION, "library": f"skdpfl {__version__}"}
    report: dict[str, Any] = {**words, **to_record(spent)}
    if report["per_silo"] is not None:
        report["per_silo"]["epsilon"] = plain(spent.per_silo.tolist())
    report["epsilon_at"] = [
        {"delta": delta, "epsilon": plain(spent.epsilon_at(delta))} for delta in REPORTED_DELTAS
    ]
    return report


def from_report(kind: type[Spent], report: dict[str, Any]) -> Spent:
    """Return the cost of a report; its prices are recomputed and compared."""
    keys(report, REPORT | _more(report), "The report")
    one_of(report, "schema", [SCHEMA])
    one_of(report, "version", [VERSION])
    require(isinstance(report["library"], str), "library", "is no text")
    record, told = {name: report[name] for name in RECORD | _more(report)}, None
    if record["per_silo"] is not None:
        keys(record["per_silo"], {"silo", "composition", "epsilon"}, "per_silo")
        record["per_silo"] = {**record["per_silo"]}
        told = record["per_silo"].pop("epsilon")
    spent = from_record(kind, record)
    _check_prices(spent)
    silos = spent.per_silo
    agree = silos is None or plain(silos.tolist()) == told
    require(agree, "per_silo.epsilon", "does not follow from compositions")
    for k, item in enumerate(listed(report, "epsilon_at")):
        where = f"epsilon_at[{k}]"
        keys(item, {"delta", "epsilon"}, where)
        fresh = spent.epsilon_at(number(item, "delta", where, 1.0))
        _check_price(number(item, "epsilon", where), fresh, where)
    return spent


def _more(record: Any) -> set[str]:
    """Return the additional keys of records of this unit and trust, and of plans with shares."""
    if not isinstance(record, dict):
        return set()
    return _also(record.get("unit"), record.get("trust")) | (record.keys() & {"shares"})


def _also(unit: Any, trust: Any) -> set[str]:
    shares, persons = trust == "secagg", unit == "person"
    return (_OF_SHARES if shares else set()) | (_OF_PERSONS if persons else set())


def _check_prices(spent: Any) -> None:
    """Raise ValueError unless all epsilons are the prices of their releases."""
    for k, cost in enumerate(spent.costs):
        fresh = Cost.of(cost.composition, cost.delta, spent.neighbours).epsilon
        _check_price(cost.epsilon, fresh, f"compositions[{k}].epsilon")
    if spent.outsider is not None:
        _check_prices(spent.outsider)


def _check_price(stated: float, fresh: float, where: str) -> None:
    """Raise ValueError if a stated epsilon differs from the price now."""
    require(stated >= _LEAST * fresh, where, "is below the cost of these releases")
    most = fresh / _LEAST + _LITTLE
    require(stated <= most, where, "is above the cost of these releases: some are not listed")


def to_record(spent: Any) -> dict[str, Any]:
    """Return a cost as plain data, without the seeds."""
    return {
        "unit": spent.unit,
        "trust": spent.trust,
        "n_releases": int(spent.n_releases),
        "group_size": spent.group_size,
        "noise_multiplier": plain(spent.noise_multiplier),
        "simulation": spent.simulation,
        **costs_to_dict(spent),
        **{name: getattr(spent, name) for name in _also(spent.unit, spent.trust)},
        **({"shares": dict(spent.shares)} if spent.shares else {}),
        "outsider": None if spent.outsider is None else to_record(spent.outsider),
    }


def from_record(kind: type[Spent], record: Any, seeds: frozenset[int] = frozenset()) -> Spent:
    """Return the cost that :func:`to_record` wrote; ValueError says what is wrong with it."""
    keys(record, RECORD | _more(record), "The record of a cost")
    noise, outsider = record["noise_multiplier"], record["outsider"]
    simulation = one_of(record, "simulation", [True, False])
    paid = costs_from_dict(record)
    words: dict[str, Any] = {
        "n_releases": whole(record, "n_releases"),
        "group_size": whole(record, "group_size", least=1),
        "noise_multiplier": None if noise is None else number(record, "noise_multiplier"),
        "outside": None if outsider is None else from_record(kind, outsider, seeds),
        "simulation_seeds": seeds,
        "unknown_seeds": simulation and not seeds,
        "shares": _shares(record.get("shares", {})),
    }
    return kind(**words, **fields_of(paid))


def _shares(parts: Any) -> tuple[tuple[str, float], ...]:
    """Return the parts of a budget by purpose."""
    require(isinstance(parts, dict), "shares", "is not a mapping")
    return tuple((str(name), number(parts, name, "shares", 1.0)) for name in parts)


def costs_to_dict(paid: SiloCosts) -> dict[str, Any]:
    """Return the costs as lists, strings and numbers."""
    per_silo = None
    if paid.silo_ids is not None and paid.silo_costs is not None:
        per_silo = {"silo": plain(paid.silo_ids), "composition": list(paid.silo_costs)}
    return {
        "epsilon": plain(paid.epsilon),
        "delta": paid.delta,
        "accountant": paid.accountant,
        "neighbours": paid.neighbours,
        "assignment": paid.assignment,
        "compositions": [_cost_to_dict(cost) for cost in paid.costs],
        "per_silo": per_silo,
    }


def _cost_to_dict(cost: Cost) -> dict[str, Any]:
    releases = [
        {"event": type(event).__name__, "count": count}
        | {field.name: plain(getattr(event, field.name)) for field in dataclasses.fields(event)}
        for event, count in cost.composition
    ]
    return {"epsilon": plain(cost.epsilon), "delta": cost.delta, "events": releases}


def costs_from_dict(data: dict[str, Any]) -> SiloCosts:
    """Return the costs that ``data`` describes; ValueError says what is wrong with it."""
    compositions = listed(data, "compositions")
    require(bool(compositions), "compositions", "is empty")
    costs = tuple(
        _cost_from_dict(item, f"compositions[{k}]") for k, item in enumerate(compositions)
    )
    paid = SiloCosts(
        guarantee=_guarantee(data),
        costs=costs,
        assignment=text_or_none(data, "assignment"),
        **_silos(data["per_silo"], len(costs)),
    )
    for name in ("epsilon", "delta", "accountant"):
        require(data[name] == plain(getattr(paid, name)), name, "does not follow from compositions")
    return paid


def _guarantee(data: dict[str, Any]) -> Guarantee:
    return Guarantee(
        one_of(data, "unit", get_args(Unit)),
        one_of(data, "trust", get_args(Trust)),
        one_of(data, "neighbours", get_args(Neighbours)),
        whole(data, "colluding") if "colluding" in _more(data) else 0,
        whole(data, "silos_per_person", least=1) if "silos_per_person" in _more(data) else 1,
    )


def _cost_from_dict(item: Any, where: str) -> Cost:
    keys(item, {"epsilon", "delta", "events"}, where)
    releases: Composition = tuple(
        _release(release, f"{where}.events[{k}]")
        for k, release in enumerate(listed(item, "events", where))
    )
    return Cost(releases, number(item, "delta", where, 1.0), number(item, "epsilon", where))


def _release(item: Any, where: str) -> tuple[Event, int]:
    kind = EVENTS.get(str(item.get("event"))) if isinstance(item, dict) else None
    if kind is None:
        raise ValueError(f"{where} is not a release with one of the events {', '.join(EVENTS)}.")
    fields = [field.name for field in dataclasses.fields(kind)]
    keys(item, {"event", "count", *fields}, where)
    values = {name: _field(item, name, where) for name in fields}
    if "epsilons" in values:
        pairs = zip(values["epsilons"], values["epsilons"][1:], strict=False)
        increase = all(a < b for a, b in pairs)
        alike = len(values["epsilons"]) == len(values["deltas"]) > 0
        require(increase and alike, where, "is not a privacy profile")
    return kind(**values), whole(item, "count", where, 1)


def _field(item: dict[str, Any], name: str, where: str) -> Any:
    """Return a number of an event, or a tuple of numbers."""
    if name == "batch":
        return whole(item, name, where, 1)
    most = _AT_MOST.get(name, math.inf)
    if name not in ("epsilons", "deltas"):
        return number(item, name, where, most)
    values = dict(enumerate(listed(item, name, where)))
    return tuple(number(values, k, f"{where}.{name}", most) for k in values)


def _silos(per_silo: Any, n_costs: int) -> dict[str, tuple[Any, ...]]:
    if per_silo is None:
        return {}
    keys(per_silo, {"silo", "composition"}, "per_silo")
    ids, positions = (
        listed(per_silo, "silo", "per_silo"),
        listed(per_silo, "composition", "per_silo"),
    )
    require(len(ids) == len(positions), "per_silo", "has lists of different lengths")
    known = all(type(k) is int and 0 <= k < n_costs for k in positions)
    require(known, "per_silo.composition", "is not the index of a composition")
    return {"silo_ids": tuple(map(_hashable, ids)), "silo_costs": tuple(positions)}


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
