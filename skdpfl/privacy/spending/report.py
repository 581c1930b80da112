"""Convert costs to plain data, for ledgers and for reports, and back.

A record holds the releases and their price. A report also has the epsilons at other deltas and of
each silo; the user guide describes its fields. Reading checks every field: none may be missing,
unknown or out of range, and derived values must agree.
"""

import itertools
import math
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from skdpfl import __version__
from skdpfl.privacy import events
from skdpfl.privacy.events import Event, Guarantee, Neighbours
from skdpfl.privacy.pricing.releases import releases
from skdpfl.privacy.spending.cost import Cost, SiloCosts

#: integers of a report are below it
_MOST_INTEGER = 2**63


def require(holds: bool, where: str, what: str) -> None:
    """Raise ValueError with the field's name unless ``holds``."""
    if not holds:
        raise ValueError(f"{where} {what}.")


def keys(item: Any, expected: Iterable[str], where: str) -> None:
    """Require a mapping with these keys and no others."""
    require(isinstance(item, dict), where, "is not a mapping")
    unlike = {*item} ^ {*expected}
    require(not unlike, where, f"lacks, or should not have, {', '.join(sorted(map(str, unlike)))}")


@contextmanager
def refusing_damage(what: str) -> Iterator[None]:
    """Raise a ValueError, too, where a value of another type than expected fails to be read."""
    try:
        yield
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError) as error:
        raise ValueError(f"{what} is damaged: it is not as it was written ({error}).") from error


def whole(item: dict[str, Any], name: str, where: str = "report", least: int = 0) -> int:
    """Return an integer of at least ``least``."""
    value = item[name]
    fine = type(value) is int and least <= value < _MOST_INTEGER
    require(fine, f"{where}.{name}", f"is not an integer from {least} to 2^63 - 1")
    return int(value)


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a float holds: JSON has integers of any length."""
    most = sys.float_info.max
    fine = isinstance(value, int | float) and not isinstance(value, bool)
    return fine and -most <= value <= most


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


def finite_numbers(values: Any, where: str, size: int | None = None) -> np.ndarray:
    """Return a list of finite numbers, of the given size, as an array."""
    fine = isinstance(values, list) and len(values) == (len(values) if size is None else size)
    many = "" if size is None else f"{size} "
    require(fine and all(map(is_finite, values)), where, f"is not a list of {many}finite numbers")
    return np.array(values, dtype=float)


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

#: the deltas at which a report states epsilon
REPORTED_DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
#: tolerances for a stated epsilon: prices of other versions differ by less
_LEAST_SHARE, _ROUNDING = 0.99, 1e-6

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
    stated = [
        {"delta": delta, "epsilon": plain(spent.epsilon_at(delta))} for delta in REPORTED_DELTAS
    ]
    words = {"schema": SCHEMA, "version": VERSION, "library": f"skdpfl {__version__}"}
    return {**words, **_with_epsilons(spent), "epsilon_at": stated}


def _with_epsilons(spent: Any) -> dict[str, Any]:
    """Return the record of a cost, with the epsilon of each silo."""
    record = to_record(spent)
    if record["per_silo"] is not None:
        record["per_silo"]["epsilon"] = plain(spent.per_silo.tolist())
    return record


def from_report(kind: type[Spent], report: Any) -> Spent:
    """Return the cost of a report; its prices are recomputed and compared."""
    require(isinstance(report, dict), "The report", "is not a mapping")
    also = {"schema", "version", "library", "epsilon_at"}
    require(also <= report.keys(), "The report", f"lacks one of {', '.join(sorted(also))}")
    one_of(report, "schema", [SCHEMA])
    one_of(report, "version", [VERSION])
    require(isinstance(report["library"], str), "library", "is no text")
    record = {name: value for name, value in report.items() if name not in also}
    spent = _read(kind, record, frozenset())
    _check_prices(spent)
    _require_equal(record, _with_epsilons(spent))
    for k, item in enumerate(listed(report, "epsilon_at")):
        where = f"epsilon_at[{k}]"
        keys(item, {"delta", "epsilon"}, where)
        fresh = spent.epsilon_at(_number(item["delta"], f"{where}.delta", most=1.0))
        _check_price(_number(item["epsilon"], f"{where}.epsilon"), fresh, where)
    return spent


def _require_equal(stated: dict[str, Any], fresh: dict[str, Any]) -> None:
    """Raise ValueError unless what was read is written again as it was."""
    for name in sorted(stated.keys() | fresh.keys()):
        fine = name in stated and name in fresh and stated[name] == fresh[name]
        require(fine, name, "does not follow from compositions")


def _check_prices(spent: Any) -> None:
    """Raise ValueError unless all epsilons are the prices of their releases."""
    for k, cost in enumerate(spent.costs):
        fresh = Cost.of(cost.composition, cost.delta, spent.neighbours).epsilon
        _check_price(cost.epsilon, fresh, f"compositions[{k}].epsilon")
    if spent.outsider is not None:
        _check_prices(spent.outsider)


def _check_price(stated: float, fresh: float, where: str) -> None:
    """Raise ValueError if a stated epsilon differs from the price now."""
    require(stated >= _LEAST_SHARE * fresh, where, "is below the cost of these releases")
    most = fresh / _LEAST_SHARE + _ROUNDING
    require(stated <= most, where, "is above the cost of these releases: some are not listed")


def to_record(spent: Any) -> dict[str, Any]:
    """Return a cost as plain data, without the seeds."""
    per_silo = None
    if spent.silo_ids is not None and spent.silo_costs is not None:
        per_silo = {"silo": plain(spent.silo_ids), "composition": list(spent.silo_costs)}
    return {
        "unit": spent.unit,
        "trust": spent.trust,
        "n_releases": int(spent.n_releases),
        "group_size": spent.group_size,
        "noise_multiplier": plain(spent.noise_multiplier),
        "simulation": spent.simulation,
        "epsilon": plain(spent.epsilon),
        "delta": spent.delta,
        "accountant": spent.accountant,
        "neighbours": spent.neighbours,
        "assignment": spent.assignment,
        "compositions": [_cost_to_dict(cost) for cost in spent.costs],
        "per_silo": per_silo,
        **({"colluding": spent.colluding} if spent.shares_noise else {}),
        **({"silos_per_person": spent.silos_per_person} if spent.unit == "person" else {}),
        **({"shares": dict(spent.shares)} if spent.shares else {}),
        "outsider": None if spent.outsider is None else to_record(spent.outsider),
    }


def _cost_to_dict(cost: Cost) -> dict[str, Any]:
    releases = [
        {"event": type(event).__name__, "count": count}
        | {name: plain(value) for name, value in vars(event).items()}
        for event, count in cost.composition
    ]
    return {"epsilon": plain(cost.epsilon), "delta": cost.delta, "events": releases}


def from_record(kind: type[Spent], record: Any, seeds: frozenset[int] = frozenset()) -> Spent:
    """Return the cost that :func:`to_record` wrote; ValueError says what is wrong with it."""
    spent = _read(kind, record, seeds)
    _require_equal(record, to_record(spent))
    return spent


def _read(kind: type[Spent], record: Any, seeds: frozenset[int]) -> Spent:
    """Return the cost of a record, whose fields have still to be compared with what it writes."""
    try:
        return kind(**_fields(kind, record, seeds))
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"The record of a cost lacks a field, or has a wrong one: {error}."
        ) from error


def _fields(kind: type[Spent], record: Any, seeds: frozenset[int]) -> dict[str, Any]:
    """Return the fields of a cost by name."""
    words = "unit", "trust", "neighbours"
    more = {n: record[n] for n in ("colluding", "silos_per_person") if n in record}
    guarantee = Guarantee(**{name: record[name] for name in words}, **more)
    costs = tuple(_cost(each, guarantee.neighbours) for each in record["compositions"])
    require(bool(costs), "compositions", "is empty")
    noise, outsider, silos = (record[n] for n in ("noise_multiplier", "outsider", "per_silo"))
    of_silos: dict[str, Any] = {}
    if silos is not None:
        ids, positions = map(_tuple, (silos["silo"], silos["composition"]))
        fine = isinstance(ids, tuple) and isinstance(positions, tuple)
        fine = fine and all(type(k) is int and 0 <= k < len(costs) for k in positions)
        require(fine and len(ids) == len(positions), "per_silo", "has no composition for each silo")
        of_silos = {"silo_ids": ids, "silo_costs": positions}
    shares = record.get("shares", {}).items()
    return of_silos | {
        "guarantee": guarantee,
        "costs": costs,
        "assignment": text_or_none(record, "assignment"),
        "n_releases": whole(record, "n_releases"),
        "group_size": whole(record, "group_size", least=1),
        "noise_multiplier": None if noise is None else _number(noise, "noise_multiplier"),
        "outside": None if outsider is None else from_record(kind, outsider, seeds),
        "simulation_seeds": seeds,
        "unknown_seeds": one_of(record, "simulation", [True, False]) and not seeds,
        "shares": tuple((name, _number(share, "shares", most=1.0)) for name, share in shares),
    }


def _cost(item: Any, neighbours: Neighbours) -> Cost:
    composition = tuple(_release(each) for each in item["events"])
    for event, count in composition:  # raise for numbers that have no price
        if isinstance(event, events.Profile):  # whose pair takes long to make
            points, most = event.epsilons, max(event.deltas, default=2.0)
            fine = len(points) == len(event.deltas) and most <= 1
            fine = fine and all(a < b for a, b in itertools.pairwise(points))
            require(fine, "events", "has what is not a privacy profile")
        else:
            releases(((event, count),), neighbours)
    delta = _number(item["delta"], "delta", most=1.0)
    return Cost(composition, delta, _number(item["epsilon"], "epsilon"))


def _release(item: Any) -> tuple[Event, int]:
    if item["event"] not in EVENTS:
        raise ValueError(f"event must be one of {', '.join(EVENTS)}; got {item['event']!r}.")
    own = {name: _value(value, name) for name, value in item.items() if name not in _OUTSIDE}
    return EVENTS[item["event"]](**own), whole(item, "count", least=1)


#: the keys of a release that are not fields of its event
_OUTSIDE = ("event", "count")


def _value(value: Any, name: str) -> Any:
    """Return a number of an event, or a tuple of numbers."""
    if isinstance(value, list):
        return tuple(_number(each, name) for each in value)
    number = _number(value, name)
    return int(number) if name == "batch" else number


def _number(value: Any, where: str, most: float = math.inf) -> float:
    """Return a number between 0 and ``most``; "inf" is infinity."""
    value = math.inf if value == "inf" else value
    fine = (is_finite(value) or value == math.inf) and 0 <= value <= most
    require(fine, where, f"is not a number from 0 to {most:g}")
    return float(value)


def _tuple(value: Any) -> Any:
    """Return lists as tuples, inside one another, too."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
