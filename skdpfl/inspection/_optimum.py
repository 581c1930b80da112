"""The minimiser of the silos' weighted objective, found without noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skdpfl.losses import Loss
from skdpfl.models import LinearModel


def optimum(
    model: LinearModel,
    X: NDArray,
    y: NDArray,
    loss: Loss,
    record_weights: NDArray,
    penalty: NDArray,
) -> NDArray:
    """Minimise F, in coordinates in which it is about as curved along every feature."""
    if not loss.smooth:
        raise ValueError(f"loss={loss!r} is not valid without coef; its gradient jumps. Give coef.")
    size = np.ones(model.size)
    n_weights = model.n_features * model.n_outputs
    size[:n_weights] = np.repeat(np.square(X).mean(axis=0), model.n_outputs)
    size += penalty
    norms = model.squared_row_norms(X)
    scale = 1 / np.sqrt(np.where(size > 0, size, 1))

    def objective(scaled: NDArray) -> tuple[float, NDArray]:
        params = scaled * scale
        value = record_weights @ loss.value(y, model.raw(params, X), squared_norms=norms)
        gradient = model.gradient_sum(params, X, y, loss, weights=record_weights)
        return value + penalty @ params**2 / 2, (gradient + penalty * params) * scale

    # the first value sets the unit, so that tolerances mean the same for any target
    unit = max(objective(model.init())[0], np.finfo(float).tiny)

    def in_units(scaled: NDArray) -> tuple[float, NDArray]:
        value, gradient = objective(scaled)
        return value / unit, gradient / unit

    found = minimize(
        in_units,
        model.init(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-7, "maxcor": 30},
    )
    return found.x * scale
