"""Federated algorithms, one or two in each file. They see gradients and messages, never records."""

from skdpfl.algorithms._accelerated import AcceleratedSGD
from skdpfl.algorithms._accelerated import AcceleratedState as AcceleratedState
from skdpfl.algorithms._base import (
    Algorithm,
    Ball,
    Gradient,
    GradientMethod,
    Released,
    sends_one_gradient,
)
from skdpfl.algorithms._base import is_vector as is_vector
from skdpfl.algorithms._fedavg import FedAvg, LocalSGD
from skdpfl.algorithms._fedexp import FedExp
from skdpfl.algorithms._fedexp import FedExpState as FedExpState
from skdpfl.algorithms._minibatch import MinibatchSGD
from skdpfl.algorithms._minibatch import MinibatchState as MinibatchState
from skdpfl.algorithms._multistage import MultistageSGD
from skdpfl.algorithms._scaffold import Scaffold, ScaffoldBroadcast, whole_silo_control_rate
from skdpfl.algorithms._scaffold import ScaffoldState as ScaffoldState

__all__ = [
    "AcceleratedSGD",
    "Algorithm",
    "Ball",
    "FedAvg",
    "FedExp",
    "Gradient",
    "GradientMethod",
    "LocalSGD",
    "MinibatchSGD",
    "MultistageSGD",
    "Released",
    "Scaffold",
    "ScaffoldBroadcast",
    "sends_one_gradient",
    "whole_silo_control_rate",
]
