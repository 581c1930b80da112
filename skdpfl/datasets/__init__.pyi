from skdpfl.datasets._published import (
    fetch_cifar10 as fetch_cifar10,
    fetch_emnist as fetch_emnist,
    fetch_fashion_mnist as fetch_fashion_mnist,
    fetch_heart_disease as fetch_heart_disease,
    fetch_insurance as fetch_insurance,
    fetch_mnist as fetch_mnist,
    fetch_obesity as fetch_obesity,
)
from skdpfl.datasets._synthetic import (
    make_federated_classification as make_federated_classification,
    make_federated_regression as make_federated_regression,
    split_into_silos as split_into_silos,
)
