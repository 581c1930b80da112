"""Costs as plain data, for audit files."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from skdpfl.privacy.spending.cost import Cost, SiloCosts


def as_dict(paid: SiloCosts) -> dict[str, Any]:
    """Return lists, strings and numbers only: prices, compositions and what each silo paid."""
    report: dict[str, Any] = {
        "epsilon": plain(paid.epsilon),
        "delta": paid.delta,
        "accountant": paid.accountant,
        "compositions": [_cost_as_dict(cost) for cost in paid.costs],
        "per_silo": None,
    }
    if paid.silo_ids is not None and paid.silo_costs is not None:
        report["per_silo"] = [
            {"silo": plain(silo), "epsilon": plain(paid.costs[g].epsilon), "composition": g}
            for silo, g in zip(paid.silo_ids, paid.silo_costs, strict=True)
        ]
    return report


def _cost_as_dict(cost: Cost) -> dict[str, Any]:
    """Return one cost: its price and its events by name."""
    events = [
        {"event": type(event).__name__, "count": count}
        | {key: plain(value) for key, value in dataclasses.asdict(event).items()}
        for event, count in cost.composition
    ]
    return {"epsilon": plain(cost.epsilon), "delta": cost.delta, "events": events}


def plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and math.isinf(item):
        return "inf" if item > 0 else "-inf"
    return item if item is None or isinstance(item, bool | int | float | str) else str(item)
