"""What is promised, and how it is counted."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name -> module; imported on first use, so that ``import skdpfl`` stays light.
_PUBLIC = {
    "PrivacyLedger": "skdpfl.privacy.spending.ledger",
    "PrivacyPlan": "skdpfl.privacy.plan",
    "PrivacySpent": "skdpfl.privacy.spending.spent",
    "epsilon_of": "skdpfl.privacy.accounting",
    "n_steps_for": "skdpfl.privacy.accounting",
    "noise_multiplier_for": "skdpfl.privacy.accounting",
    "published": "skdpfl.privacy.published",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_PUBLIC[name])
    return module if _PUBLIC[name] == f"{__name__}.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]
