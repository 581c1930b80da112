"""DP-FedAvg, DP-SCAFFOLD, and estimators for any algorithm object."""

from dataclasses import dataclass, replace
from typing import Any

from skdpfl import choosing
from skdpfl.algorithms import Algorithm, Scaffold
from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._docs import documented, with_constructor
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor
from skdpfl.privacy.mechanisms import Mechanism


@with_constructor
class _DPFedAvg(FederatedEstimator):
    """What both estimators of DP-FedAvg add.

    Each silo takes ``local_steps`` private gradient steps, and the server averages the resulting
    models (Noble, Bellet and Dieuleveut, AISTATS 2022). With one local step it is DP-FedSGD;
    ``local_epochs`` sets passes over the data instead, optionally one number per round.
    """

    unit: str = "record"
    local_steps: Any = "auto"
    local_epochs: Any = None
    momentum: float = 0.0
    global_learning_rate: Any = "auto"
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    def _method(self) -> choosing.Method:
        return choosing.Averaging()


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
    40
    >>> model.score(data.data, data.target) > 0.5
    True
    """


@dataclass(frozen=True)
class _Scaffolding(choosing.Method):
    """SCAFFOLD, with control variates computed from the noisy gradients at no extra cost."""

    warm_start_rounds: int

    def algorithm(self, request: choosing.Request, settings: choosing.Settings) -> Algorithm:
        """Return SCAFFOLD; raise if the warm start uses up all rounds."""
        server, warm = settings.server_steps, self.warm_start_rounds
        if warm >= settings.n_rounds:
            raise ValueError(
                f"warm_start_rounds={warm} leaves none of the {settings.n_rounds} rounds to train "
                "in."
            )
        return Scaffold(settings.learning_rate, settings.steps, server, warm)

    def training(self, algorithm: Algorithm, committed: choosing.Committed) -> choosing.Training:
        """Return the training, with control variates' learning rate set by the noise."""
        training = super().training(algorithm, committed)
        assert isinstance(algorithm, Scaffold)
        algorithm = replace(algorithm, control_rate=choosing.control_rate(committed))
        return training._replace(algorithm=algorithm)


@with_constructor
class _DPScaffold(FederatedEstimator):
    """What both estimators of DP-SCAFFOLD add.

    Silos take local steps as in DP-FedAvg, corrected by control variates, so that they do not drift
    towards their own optima (Noble, Bellet and Dieuleveut, AISTATS 2022).
    """

    unit: str = "record"
    local_steps: Any = "auto"
    global_learning_rate: Any = "auto"
    warm_start_rounds: int = 0
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    def _method(self) -> choosing.Method:
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
    40
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
    40
    >>> model.score(data.data, data.target) > 0.5
    True
    """


@with_constructor
class _DPFederated(FederatedEstimator):
    """What both estimators with any algorithm add.

    An algorithm gets private gradients and released means only, so the guarantee holds for any
    algorithm. Its hyper-parameters (steps, learning rate) are its fields; ``learning_rate`` is used
    by the default algorithm only.

    Parameters
    ----------
    mechanism : Mechanism, default=None
        A :class:`skdpfl.privacy.mechanisms.Mechanism` object, which may be user-defined; None: the
        default for ``unit`` and ``trust``.
    """

    unit: str = "record"
    algorithm: Algorithm | None = None
    mechanism: Mechanism | None = None
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    def _method(self) -> choosing.Method:
        if self.algorithm is None:
            return choosing.Averaging(given_mechanism=self.mechanism)
        return choosing.GivenAlgorithm(self.algorithm, given_mechanism=self.mechanism)

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
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
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
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    """
