"""DP-SCAFFOLD: local steps corrected by control variates (Noble, Bellet, Dieuleveut)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from skdpfl.algorithms import Algorithm, Scaffold
from skdpfl.choosing import Committed, Method, Request, Settings, Training, control_rate
from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._docs import documented, with_constructor
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor


@dataclass(frozen=True)
class _Scaffolding(Method):
    """SCAFFOLD; control variates are computed from noisy gradients, at no additional price."""

    warm_start_rounds: int

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return SCAFFOLD; raise if the warm start takes all rounds."""
        server, warm = settings.server_step, self.warm_start_rounds
        if warm >= settings.n_rounds:
            raise ValueError(
                f"warm_start_rounds={warm} leaves none of the {settings.n_rounds} rounds to train "
                "in."
            )
        return Scaffold(settings.learning_rate, settings.steps, server, warm)

    def training(self, algorithm: Algorithm, committed: Committed) -> Training:
        """Return the training, with a learning rate of control variates for the noise."""
        training = super().training(algorithm, committed)
        assert isinstance(algorithm, Scaffold)
        algorithm = replace(algorithm, control_rate=control_rate(committed))
        return training._replace(algorithm=algorithm)


@with_constructor
class _DPScaffold(FederatedEstimator):
    _about = """
Local steps as in DP-FedAvg, corrected by control variates, so that silos do not drift towards
their own optima (Noble, Bellet and Dieuleveut, AISTATS 2022)."""

    unit: str = "record"
    local_steps: Any = "auto"
    global_learning_rate: Any = "auto"
    warm_start_rounds: int = 0
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    def _method(self) -> Method:
        return _Scaffolding(self.warm_start_rounds)


@documented
class DPScaffoldClassifier(_DPScaffold, FederatedClassifier):
    """Linear classifier by DP-SCAFFOLD, for silos whose data differ.

    Examples
    --------
    >>> from skdpfl import DPScaffoldClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(5, 400, n_features=10, n_classes=2, random_state=0)
    >>> clf = DPScaffoldClassifier(2.0, local_steps=20, feature_bounds=(-8, 8), random_state=0)
    >>> clf.fit(data.data, data.target, silos=data.silos).n_rounds_
    20
    >>> clf.score(data.data, data.target) > 0.75
    True
    """


@documented
class DPScaffoldRegressor(_DPScaffold, FederatedRegressor):
    """Linear regressor by DP-SCAFFOLD, for silos whose data differ.

    Examples
    --------
    >>> from skdpfl import DPScaffoldRegressor
    >>> from skdpfl.datasets import make_federated_regression
    >>> data = make_federated_regression(5, 400, n_features=10, random_state=0)
    >>> model = DPScaffoldRegressor(
    ...     2.0, local_steps=20, feature_bounds=(-8, 8), target_bounds=(-12, 12), random_state=0
    ... )
    >>> model.fit(data.data, data.target, silos=data.silos).n_rounds_
    20
    >>> model.score(data.data, data.target) > 0.5
    True
    """
