"""The coefficients of a fitted model and its privacy cost, as a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def summary(model: Any) -> pd.DataFrame:
    """Return the frame of an estimator's ``summary``."""
    if not hasattr(model, "coef_"):
        raise AttributeError(
            f"summary is for models with coefficients; {type(model.model_).__name__} has none."
        )
    coefficients = np.atleast_2d(model.coef_)
    intercepts = np.atleast_1d(model.intercept_)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{i}" for i in range(coefficients.shape[1])]
    values = np.column_stack([coefficients, intercepts]).T
    several = len(coefficients) > 1
    columns = [f"coefficient of {c}" for c in model.classes_] if several else ["coefficient"]
    index = pd.Index([*names, "intercept"], name="feature")
    frame = pd.DataFrame(values, index=index, columns=columns)
    errors = model._noise_error.of_coefficients()
    if errors is not None:
        frame[[name.replace("coefficient", "noise error") for name in columns]] = errors.reshape(
            len(coefficients), -1
        ).T
    spent = model.privacy_spent_
    frame.attrs = {"epsilon": spent.epsilon, "delta": spent.delta}
    frame.attrs["no_noise_error"] = model._noise_error.missing
    if spent.per_silo is not None:
        frame.attrs["epsilon_per_silo"] = spent.per_silo.to_dict()
    return frame
