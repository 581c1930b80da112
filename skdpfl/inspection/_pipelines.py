"""A pipeline in place of an estimator: where its paying step is, and how it gets silos."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.pipeline import Pipeline


def paying(model: Any) -> tuple[str, Any]:
    """Return the prefix of the paying step's parameters ("" or "step__"), and the step."""
    name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if not hasattr(last, "plan_for"):
        raise ValueError(
            "estimator must be one of skdpfl's, or a pipeline that ends in one; got "
            f"{type(model).__name__}."
        )
    return (f"{name}__" if name else ""), last


def silos_for(model: Any, silos: Any) -> dict[str, Any]:
    """Return the silos as an argument of the model's fit, whether routing is on or off."""
    if silos is None:
        return {}
    prefix = "" if get_config()["enable_metadata_routing"] else paying(model)[0]
    return {f"{prefix}silos": silos}
