"""Losses: convex functions of a target and a raw prediction (see `Loss`)."""

from skdpfl.losses._base import Loss
from skdpfl.losses._hinge import Hinge, SquaredHinge
from skdpfl.losses._log import LogLoss
from skdpfl.losses._moreau import Kink, Kinked
from skdpfl.losses._poisson import Poisson
from skdpfl.losses._regression import AbsoluteError, Huber, Quantile, SquaredError
from skdpfl.losses._weighted import Weighted, loss_for, with_weights

#: every loss of this package, by the estimators' names; the property tests run over all
NAMED: dict[str, type[Loss]] = {
    "log_loss": LogLoss,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "squared_error": SquaredError,
    "huber": Huber,
    "absolute_error": AbsoluteError,
    "quantile": Quantile,
    "poisson": Poisson,
}
LOSSES = tuple(NAMED.values())

__all__ = [
    "LOSSES",
    "NAMED",
    "AbsoluteError",
    "Hinge",
    "Huber",
    "Kink",
    "Kinked",
    "LogLoss",
    "Loss",
    "Poisson",
    "Quantile",
    "SquaredError",
    "SquaredHinge",
    "Weighted",
    "loss_for",
    "with_weights",
]
