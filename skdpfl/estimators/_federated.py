"""Any algorithm object as an estimator."""

from __future__ import annotations

from typing import Any, ClassVar

from skdpfl.algorithms import Algorithm
from skdpfl.choosing import Averaging, GivenAlgorithm, Method
from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._docs import documented, with_constructor
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor
from skdpfl.privacy.mechanisms import Mechanism


@with_constructor
class _DPFederated(FederatedEstimator):
    _about = """
An algorithm gets private gradients and released means only, so the guarantee holds for any
algorithm. Its hyper-parameters (steps, learning rate) are its fields; ``learning_rate`` is used
by the default algorithm only."""

    unit: str = "record"
    algorithm: Algorithm | None = None
    mechanism: Mechanism | None = None
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    _parameter_docs: ClassVar[dict[str, str]] = {
        "mechanism": """Mechanism, default=None
    The mechanism: an object of :class:`skdpfl.privacy.mechanisms.Mechanism`, also a user-defined
    one; None is the one for ``unit`` and ``trust``.""",
    }

    def _method(self) -> Method:
        if self.algorithm is None:
            return Averaging(given_mechanism=self.mechanism)
        return GivenAlgorithm(self.algorithm, given_mechanism=self.mechanism)

    def _check_own(self) -> None:
        if not isinstance(self.algorithm, Algorithm | None):
            raise ValueError(
                "algorithm must be an object of a subclass of skdpfl.algorithms.Algorithm; got "
                f"{self.algorithm!r}."
            )
        if not isinstance(self.mechanism, Mechanism | None):
            raise ValueError(
                "mechanism must be an object of a subclass of "
                f"skdpfl.privacy.mechanisms.Mechanism; got {self.mechanism!r}."
            )


@documented
class DPFederatedClassifier(_DPFederated, FederatedClassifier):
    """Linear classifier trained by any federated algorithm.

    Examples
    --------
    >>> from skdpfl import DPFederatedClassifier
    >>> from skdpfl.algorithms import MinibatchSGD
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(5, 400, n_features=10, n_classes=2, random_state=0)
    >>> steps = MinibatchSGD(3.0, momentum=0.5)
    >>> clf = DPFederatedClassifier(
    ...     2.0, algorithm=steps, n_rounds=40, feature_bounds=(-8, 8), random_state=0
    ... )
    >>> clf.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace')
    """


@documented
class DPFederatedRegressor(_DPFederated, FederatedRegressor):
    """Linear regressor trained by any federated algorithm.

    Examples
    --------
    >>> from skdpfl import DPFederatedRegressor
    >>> from skdpfl.algorithms import MinibatchSGD
    >>> from skdpfl.datasets import make_federated_regression
    >>> data = make_federated_regression(5, 400, n_features=10, random_state=0)
    >>> steps, bounds = MinibatchSGD(0.3), (-8, 8)
    >>> model = DPFederatedRegressor(
    ...     2.0, algorithm=steps, feature_bounds=bounds, target_bounds=(-12, 12), random_state=0
    ... )
    >>> model.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace')
    """
