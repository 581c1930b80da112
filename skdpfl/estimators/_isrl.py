"""ISRL-DP: federated learning when nobody outside a silo is trusted (Lowy, Razaviyayn)."""

from __future__ import annotations

from typing import Any

from skdpfl.algorithms import Algorithm, Ball, MinibatchSGD
from skdpfl.estimators._docs import documented
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor


class _ISRLDP:
    """One private gradient of every silo of the cohort in each round."""

    solver: str
    radius: float | None
    _trusts = ("silo", "server")
    _solvers = ("minibatch",)

    def _algorithm(self, settings: Settings, facts: Facts) -> Algorithm:
        ball = Ball() if self.radius is None else Ball(float(self.radius))
        return MinibatchSGD(settings.learning_rate, settings.momentum, ball)


@documented
class ISRLDPClassifier(_ISRLDP, FederatedClassifier):
    """Linear classifier by noisy distributed SGD, private towards the server and all other silos.

    In each round every silo of the cohort sends one clipped, sampled and noised gradient; the
    server takes a step along their weighted mean (Lowy and Razaviyayn, ICLR 2023, Algorithm 2).

    Notes
    -----
    **Formal guarantee.** With ``trust="silo"`` everything a silo sends, given what the others
    sent, is (epsilon, delta)-DP for its records; with ``trust="server"`` the sequence of models
    is. Proof: each clipped gradient sum is moved by at most twice the clip norm, the noise and the
    sampling are those of ``plan_``, everything else post-processes them, and ``privacy_spent_``
    composes exactly the releases of ``plan_``.
    """

    def __init__(
        self,
        epsilon: Any = 1.0,
        *,
        delta: Any = "auto",
        noise_multiplier: float | None = None,
        trust: str = "silo",
        neighbours: str = "auto",
        sampling: str = "poisson",
        solver: str = "minibatch",
        radius: float | None = None,
        loss: str = "log_loss",
        alpha: float = 0.0,
        fit_intercept: bool = True,
        classes: Any = None,
        n_rounds: Any = "auto",
        learning_rate: Any = "auto",
        clip_norm: Any = "auto",
        sampling_rate: Any = "auto",
        average: bool = True,
        silo_fraction: float = 1.0,
        cohort: str = "auto",
        silo_weights: Any = "auto",
        feature_bounds: Any = None,
        scaling: str | None = "auto",
        silo_column: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.noise_multiplier = noise_multiplier
        self.trust = trust
        self.neighbours = neighbours
        self.sampling = sampling
        self.solver = solver
        self.radius = radius
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.sampling_rate = sampling_rate
        self.average = average
        self.silo_fraction = silo_fraction
        self.cohort = cohort
        self.silo_weights = silo_weights
        self.feature_bounds = feature_bounds
        self.scaling = scaling
        self.silo_column = silo_column
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented
class ISRLDPRegressor(_ISRLDP, FederatedRegressor):
    """Linear regressor by noisy distributed SGD, private towards the server and all other silos.

    In each round every silo of the cohort sends one clipped, sampled and noised gradient; the
    server takes a step along their weighted mean (Lowy and Razaviyayn, ICLR 2023, Algorithm 2).

    Notes
    -----
    **Formal guarantee.** With ``trust="silo"`` everything a silo sends, given what the others
    sent, is (epsilon, delta)-DP for its records; with ``trust="server"`` the sequence of models
    is. Proof: each clipped gradient sum is moved by at most twice the clip norm, the noise and the
    sampling are those of ``plan_``, everything else post-processes them, and ``privacy_spent_``
    composes exactly the releases of ``plan_``.
    """

    def __init__(
        self,
        epsilon: Any = 1.0,
        *,
        delta: Any = "auto",
        noise_multiplier: float | None = None,
        trust: str = "silo",
        neighbours: str = "auto",
        sampling: str = "poisson",
        solver: str = "minibatch",
        radius: float | None = None,
        loss: str = "squared_error",
        huber_delta: float = 1.35,
        quantile: float = 0.5,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        n_rounds: Any = "auto",
        learning_rate: Any = "auto",
        clip_norm: Any = "auto",
        sampling_rate: Any = "auto",
        average: bool = True,
        silo_fraction: float = 1.0,
        cohort: str = "auto",
        silo_weights: Any = "auto",
        feature_bounds: Any = None,
        target_bounds: Any = None,
        scaling: str | None = "auto",
        silo_column: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.noise_multiplier = noise_multiplier
        self.trust = trust
        self.neighbours = neighbours
        self.sampling = sampling
        self.solver = solver
        self.radius = radius
        self.loss = loss
        self.huber_delta = huber_delta
        self.quantile = quantile
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.sampling_rate = sampling_rate
        self.average = average
        self.silo_fraction = silo_fraction
        self.cohort = cohort
        self.silo_weights = silo_weights
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.scaling = scaling
        self.silo_column = silo_column
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
