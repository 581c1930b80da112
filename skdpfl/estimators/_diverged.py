"""Warnings of divergence."""

from __future__ import annotations

import numpy as np

from skdpfl._warnings import warn
from skdpfl.federation import SiloData, Work
from skdpfl.losses import loss_for

#: an objective this many times that of the model 0 counts as divergence
_WORSE, _BLOCK = 2.0, 2**14


def warn_if_diverged(params: np.ndarray, work: Work, data: SiloData | None) -> None:
    """Warn if the model is not finite or (without privacy) worse than the model 0.

    In private fits the objective is secret; with remote data it is unknown.
    """
    if not np.isfinite(params).all():
        warn("The model is not finite: the steps diverged. Give a smaller learning_rate.")
    elif not work.plan.private and data is not None:
        found, nothing = objective(params, work, data), objective(0 * params, work, data)
        if not found <= _WORSE * nothing:
            warn(
                f"The steps diverged: the objective is {found:.3g} where the model 0 has "
                f"{nothing:.3g}. Give a smaller learning_rate."
            )


def objective(params: np.ndarray, work: Work, data: SiloData) -> float:
    """Return the mean loss over all records plus the penalty."""
    total, n = 0.0, len(data.y)
    params = params.astype(np.float64)
    for i in range(0, n, _BLOCK):
        X, y = data.at(slice(i, i + _BLOCK))
        loss = loss_for(work.loss, y)
        total += len(y) / n * float(work.model.mean_loss(params, X, y, loss))
    return total + float(work.penalty @ np.square(params)) / 2
