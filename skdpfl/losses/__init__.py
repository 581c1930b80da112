"""Losses: convex functions of a target and a raw prediction (see `Loss`)."""

from skdpfl.losses._base import Loss, Weighted, record_by_record, with_weights
from skdpfl.losses._classification import Hinge, LogLoss, Ordinal, SquaredHinge
from skdpfl.losses._moreau import Kink, Kinked
from skdpfl.losses._rates import (
    Gamma,
    NegativeBinomial,
    Offset,
    OfLogMean,
    Poisson,
    Tweedie,
    loss_for,
    with_offsets,
)
from skdpfl.losses._regression import AbsoluteError, Huber, Quantile, SquaredError
from skdpfl.losses._survival import PiecewiseExponential, signed_times

#: every loss of this package, by the estimators' names; the property tests run over all
NAMED: dict[str, type[Loss]] = {
    "log_loss": LogLoss,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "ordinal": Ordinal,
    "squared_error": SquaredError,
    "huber": Huber,
    "absolute_error": AbsoluteError,
    "quantile": Quantile,
    "poisson": Poisson,
    "gamma": Gamma,
    "tweedie": Tweedie,
    "negative_binomial": NegativeBinomial,
    "survival": PiecewiseExponential,
}
LOSSES = tuple(NAMED.values())
