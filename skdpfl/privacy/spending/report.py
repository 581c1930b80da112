"""A cost as plain data, for audit files."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skdpfl.privacy.spending.cost import Cost
    from skdpfl.privacy.spending.spent import PrivacySpent

_AS_THEY_ARE = ("unit", "trust", "neighbours", "accountant", "n_releases", "group_size")


def as_dict(spent: PrivacySpent) -> dict[str, Any]:
    """Return lists, strings and numbers only; never the seeds, which are the noise."""
    report: dict[str, Any] = {name: getattr(spent, name) for name in _AS_THEY_ARE}
    for name in ("epsilon", "delta", "noise_multiplier"):
        report[name] = _plain(getattr(spent, name))
    report["simulation"] = bool(spent.simulation_seeds)
    report["compositions"] = [_cost_as_dict(cost) for cost in spent.costs]
    report["per_silo"] = None
    if spent.silo_ids is not None and spent.silo_costs is not None:
        report["per_silo"] = [
            {"silo": _plain(silo), "epsilon": _plain(spent.costs[g].epsilon), "composition": g}
            for silo, g in zip(spent.silo_ids, spent.silo_costs, strict=True)
        ]
    report["outsider"] = None if spent.outsider is None else as_dict(spent.outsider)
    return report


def _cost_as_dict(cost: Cost) -> dict[str, Any]:
    """Plain form of one cost: its price and its events by name."""
    events = [
        {"event": type(event).__name__, "count": count}
        | {key: _plain(value) for key, value in dataclasses.asdict(event).items()}
        for event, count in cost.composition
    ]
    return {"epsilon": _plain(cost.epsilon), "delta": cost.delta, "events": events}


def _plain(value: Any) -> Any:
    """A value JSON can hold."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and math.isinf(item):
        return "inf" if item > 0 else "-inf"
    return item if item is None or isinstance(item, bool | int | float | str) else str(item)
