"""Data sets in silos: published and synthetic ones, and ways to split a table into silos."""

from skdpfl.datasets._images import fetch_cifar10, fetch_emnist, fetch_fashion_mnist, fetch_mnist
from skdpfl.datasets._synthetic import (
    make_federated_classification,
    make_federated_regression,
    split_into_silos,
)
from skdpfl.datasets._tables import fetch_heart_disease, fetch_insurance, fetch_obesity

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
