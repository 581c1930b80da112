"""ISRL-DP: federated learning when nobody outside a silo is trusted (Lowy, Razaviyayn)."""

from __future__ import annotations

from typing import Any, ClassVar

from skdpfl.algorithms import Algorithm
from skdpfl.estimators._docs import documented
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.estimators._isrl_checks import check_shuffler, check_solver
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor
from skdpfl.estimators._solvers import automatic_rounds, draft, finished
from skdpfl.estimators._theory import Committed, Training
from skdpfl.privacy.mechanisms import Mechanism, ShuffledSums, mechanism_for
from skdpfl.privacy.sampling import Poisson


class _ISRLDP:
    """The solvers of noisy distributed SGD."""

    _trusts = ("silo", "shuffler", "server")
    _learning_rates = ("auto", "optimal")
    _parameter_docs: ClassVar[dict[str, str]] = {
        "learning_rate": """"auto", "optimal" or float, default="auto"
    The step on the average clipped gradient; for the accelerated solvers, whose steps grow, about
    what a gradient moves the result by (1 / v in the papers). "optimal" is the published choice
    for the solver, from the smoothness of the loss, the plan's noise, ``alpha`` and ``radius``:
    a constant step with ``alpha=0``; with ``alpha > 0`` plain steps decrease and their average is
    weighted. "auto" is longer where clipping makes that safe, and has momentum (minibatch). Either
    is decided after the plan is priced, so none of it changes what is released.""",
        "local_steps": """"auto", int or sequence of int, default="auto"
    Gradient steps of a silo in a round, each of them paid for; ``solver="local"`` only ("auto":
    5; without privacy 1: more of them drift to the silos' own optima).""",
        "noise_multiplier": """float, default=None
    Instead of a budget (``epsilon=None``): the noise's standard deviation on the clipped sum over
    ``clip_norm``; under ``trust="shuffler"`` that on each record's message.""",
        "average": """bool, default=True
    Give out an average of the rounds' models instead of the last one: of the second half for plain
    steps, the running average that the theory is about for accelerated ones.""",
    }

    solver: str
    trust: str
    sampling: str

    @property
    def _automatic_local_steps(self) -> int:
        return 5 if self.solver == "local" else 1

    @property
    def _server_momentum(self) -> bool:
        return self.solver == "minibatch"

    def _mechanism(self, unit: str, trust: str) -> Mechanism:
        sums = trust == "shuffler" and self.solver in ("accelerated", "multistage")
        return ShuffledSums() if sums else mechanism_for(unit, trust)

    def _automatic_rounds(self, facts: Facts, default: int) -> int:
        return automatic_rounds(self, facts, default)

    def _algorithm(self, settings: Settings, facts: Facts) -> Algorithm:
        if self.trust == "shuffler" and isinstance(settings.sampling, Poisson):
            raise ValueError(
                'trust="shuffler" needs batches of a fixed size, since the number of messages is '
                f'seen; got sampling="poisson" at sampling_rate={settings.rate:.3g}. Use '
                'sampling="without_replacement" or "disjoint", or sampling_rate=1.'
            )
        return draft(self, settings)

    def _training(self, algorithm: Algorithm, known: Committed) -> Training:
        return finished(self, algorithm, self._loss(), known)  # type: ignore[attr-defined]

    def _check_own(self) -> None:
        check_solver(self)
        if self.trust == "shuffler":
            check_shuffler(self)


@documented
class ISRLDPClassifier(_ISRLDP, FederatedClassifier):  # type: ignore[misc]
    """Linear classifier by noisy distributed SGD, private towards the server and all other silos.

    In each round every silo of the cohort sends one clipped, sampled and noised gradient; the
    server takes a step along their weighted mean, plain or accelerated, over many rounds or in one
    pass over the records (Lowy and Razaviyayn, ICLR 2023). ``solver="local"`` takes local steps.

    Notes
    -----
    **Formal guarantee.** With ``trust="silo"`` everything a silo sends, given what the others
    sent, is (epsilon, delta)-DP for its records; with ``trust="server"`` the sequence of models
    is. Proof: each clipped gradient sum is moved by at most twice the clip norm, the noise and the
    sampling are those of ``plan_``, everything else post-processes them, and ``privacy_spent_``
    composes exactly the releases of ``plan_``. With ``trust="shuffler"`` all shuffled messages
    together are, as long as the other silos add their noise too: proofs are in
    :mod:`skdpfl.privacy.shuffling.rounds` (single messages: minibatch) and
    :mod:`skdpfl.privacy.mechanisms.binomial` (sums: accelerated and multi-stage).

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(5, 400, n_features=10, n_classes=2, random_state=0)
    >>> clf = ISRLDPClassifier(epsilon=2.0, feature_bounds=(-8, 8), random_state=0)
    >>> clf.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo')
    >>> clf.score(data.data, data.target) > 0.8
    True
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
        local_steps: Any = "auto",
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
        self.local_steps = local_steps
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
class ISRLDPRegressor(_ISRLDP, FederatedRegressor):  # type: ignore[misc]
    """Linear regressor by noisy distributed SGD, private towards the server and all other silos.

    In each round every silo of the cohort sends one clipped, sampled and noised gradient; the
    server takes a step along their weighted mean, plain or accelerated, over many rounds or in one
    pass over the records (Lowy and Razaviyayn, ICLR 2023). ``solver="local"`` takes local steps.

    Notes
    -----
    **Formal guarantee.** With ``trust="silo"`` everything a silo sends, given what the others
    sent, is (epsilon, delta)-DP for its records; with ``trust="server"`` the sequence of models
    is. Proof: each clipped gradient sum is moved by at most twice the clip norm, the noise and the
    sampling are those of ``plan_``, everything else post-processes them, and ``privacy_spent_``
    composes exactly the releases of ``plan_``. With ``trust="shuffler"`` all shuffled messages
    together are, as long as the other silos add their noise too: proofs are in
    :mod:`skdpfl.privacy.shuffling.rounds` (single messages: minibatch) and
    :mod:`skdpfl.privacy.mechanisms.binomial` (sums: accelerated and multi-stage).

    Examples
    --------
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.datasets import make_federated_regression
    >>> data = make_federated_regression(5, 400, n_features=10, random_state=0)
    >>> model = ISRLDPRegressor(
    ...     epsilon=2.0, feature_bounds=(-8, 8), target_bounds=(-12, 12), random_state=0
    ... )
    >>> model.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo')
    >>> model.score(data.data, data.target) > 0.5
    True
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
        local_steps: Any = "auto",
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
        self.local_steps = local_steps
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
