"""Differentially private federated learning as scikit-learn estimators."""

import importlib
from typing import Any

__version__ = "0.1.0"

_ESTIMATORS = [
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
]
_OTHERS = ["Checkpoint"]
_MODULES = [
    "algorithms",
    "datasets",
    "exceptions",
    "inspection",
    "losses",
    "model_selection",
    "preprocessing",
    "privacy",
]

__all__ = ["__version__", *_ESTIMATORS, *_OTHERS, *_MODULES, "privacy_spent"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"skdpfl.{name}")
    if name == "privacy_spent":
        return importlib.import_module("skdpfl.inspection").privacy_spent
    if name in _ESTIMATORS or name in _OTHERS:
        return getattr(importlib.import_module("skdpfl.estimators"), name)
    raise AttributeError(f"module 'skdpfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
