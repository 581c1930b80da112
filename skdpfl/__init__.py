"""Differentially private federated learning as scikit-learn estimators.

Names are imported on first use; ``__init__.pyi`` tells type checkers and editors what they are.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "DPFedAvgClassifier",
    "DPFedAvgRegressor",
    "DPFedEXPClassifier",
    "DPFedEXPRegressor",
    "DPFederatedClassifier",
    "DPFederatedRegressor",
    "DPScaffoldClassifier",
    "DPScaffoldRegressor",
    "ISRLDPClassifier",
    "ISRLDPRegressor",
    "SiloAdapted",
    "__version__",
    "algorithms",
    "datasets",
    "exceptions",
    "inspection",
    "losses",
    "model_selection",
    "preprocessing",
    "privacy",
    "privacy_spent",
    "report",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'skdpfl' has no attribute {name!r}")
    if name in ("privacy_spent", "report"):
        return getattr(importlib.import_module("skdpfl.inspection"), name)
    if name == "SiloAdapted":
        return importlib.import_module("skdpfl._adapted").SiloAdapted
    if name.islower():
        return importlib.import_module(f"skdpfl.{name}")
    return getattr(importlib.import_module("skdpfl.estimators"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
