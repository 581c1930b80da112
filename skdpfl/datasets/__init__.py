"""Data sets in silos: published and synthetic ones, and ways to split a table into silos."""

from skdpfl.datasets._cifar import fetch_cifar10
from skdpfl.datasets._emnist import fetch_emnist
from skdpfl.datasets._heart import fetch_heart_disease
from skdpfl.datasets._insurance import fetch_insurance
from skdpfl.datasets._mnist import fetch_fashion_mnist, fetch_mnist
from skdpfl.datasets._obesity import fetch_obesity
from skdpfl.datasets._regression import make_federated_regression
from skdpfl.datasets._split import split_into_silos
from skdpfl.datasets._synthetic import make_federated_classification

__all__ = [
    "fetch_cifar10",
    "fetch_emnist",
    "fetch_fashion_mnist",
    "fetch_heart_disease",
    "fetch_insurance",
    "fetch_mnist",
    "fetch_obesity",
    "make_federated_classification",
    "make_federated_regression",
    "split_into_silos",
]
