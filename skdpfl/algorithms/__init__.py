"""One file, one algorithm. Each sees gradients and messages, never a record."""

from skdpfl.algorithms._base import Algorithm, Ball, Gradient, GradientMethod, Released
from skdpfl.algorithms._fedavg import FedAvg
from skdpfl.algorithms._minibatch import MinibatchSGD
from skdpfl.algorithms._scaffold import Scaffold

__all__ = [
    "Algorithm",
    "Ball",
    "FedAvg",
    "Gradient",
    "GradientMethod",
    "MinibatchSGD",
    "Released",
    "Scaffold",
]
