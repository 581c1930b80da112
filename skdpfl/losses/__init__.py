"""Losses: convex functions of a target and a raw prediction (see `Loss`)."""

from skdpfl.losses._base import Loss, Weighted, record_by_record, with_weights
from skdpfl.losses._survival import (
    Gamma,
    NegativeBinomial,
    Offset,
    OfLogMean,
    PiecewiseExponential,
    Poisson,
    Tweedie,
    loss_for,
    signed_times,
    with_offsets,
)
from skdpfl.losses._targets import (
    AbsoluteError,
    Hinge,
    Huber,
    Kinked,
    LogLoss,
    Ordinal,
    Quantile,
    SquaredError,
    SquaredHinge,
)

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
