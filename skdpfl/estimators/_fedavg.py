"""DP-FedAvg, DP-FedSGD and one or several local epochs."""

from __future__ import annotations

from typing import Any

from skdpfl.choosing import Averaging, Method
from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._docs import documented, with_constructor
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor


@with_constructor
class _DPFedAvg(FederatedEstimator):
    _about = """
Each silo takes ``local_steps`` private gradient steps, and the server averages the resulting
models (Noble, Bellet and Dieuleveut, AISTATS 2022). With one local step it is DP-FedSGD;
``local_epochs`` sets passes over the data instead, optionally one number per round."""

    unit: str = "record"
    local_steps: Any = "auto"
    local_epochs: Any = None
    momentum: float = 0.0
    global_learning_rate: Any = "auto"
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    def _method(self) -> Method:
        return Averaging()


@documented
class DPFedAvgClassifier(_DPFedAvg, FederatedClassifier):
    """Linear classifier by differentially private federated averaging.

    Examples
    --------
    >>> from skdpfl import DPFedAvgClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(5, 400, n_features=10, n_classes=2, random_state=0)
    >>> clf = DPFedAvgClassifier(2.0, local_epochs=1, sampling_rate=0.1, n_rounds=10)
    >>> clf.set_params(feature_bounds=(-8, 8), random_state=0)
    DPFedAvgClassifier(...)
    >>> clf.fit(data.data, data.target, silos=data.silos).plan_.steps[0]  # an epoch in tenths
    10
    >>> clf.score(data.data, data.target) > 0.75
    True
    """


@documented
class DPFedAvgRegressor(_DPFedAvg, FederatedRegressor):
    """Linear regressor by differentially private federated averaging.

    Examples
    --------
    >>> from skdpfl import DPFedAvgRegressor
    >>> from skdpfl.datasets import make_federated_regression
    >>> data = make_federated_regression(5, 400, n_features=10, random_state=0)
    >>> model = DPFedAvgRegressor(
    ...     2.0, local_steps=5, feature_bounds=(-8, 8), target_bounds=(-12, 12), random_state=0
    ... )
    >>> model.fit(data.data, data.target, silos=data.silos).n_rounds_
    20
    >>> model.score(data.data, data.target) > 0.5
    True
    """
