"""Federated algorithms, which see gradients and messages but never records."""

from skdpfl.algorithms._base import (
    Algorithm,
    Ball,
    Gradient,
    GradientMethod,
    Released,
    sends_one_gradient,
)
from skdpfl.algorithms._base import is_vector as is_vector
from skdpfl.algorithms._base import takes_stacks as takes_stacks
from skdpfl.algorithms._gradient_methods import (
    AcceleratedSGD,
    LocalizedSGD,
    MinibatchSGD,
    MultistageSGD,
)
from skdpfl.algorithms._local_steps import (
    FedAvg,
    FedExp,
    LocalSGD,
    Scaffold,
    ScaffoldBroadcast,
    whole_silo_control_rate,
)

__all__ = [
    "AcceleratedSGD",
    "Algorithm",
    "Ball",
    "FedAvg",
    "FedExp",
    "Gradient",
    "GradientMethod",
    "LocalSGD",
    "LocalizedSGD",
    "MinibatchSGD",
    "MultistageSGD",
    "Released",
    "Scaffold",
    "ScaffoldBroadcast",
    "sends_one_gradient",
    "whole_silo_control_rate",
]
