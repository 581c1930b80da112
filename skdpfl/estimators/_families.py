"""ISRL-DP, DP-FedAvg, DP-SCAFFOLD, DP-FedEXP, and estimators for any algorithm object."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdpfl import choosing
from skdpfl._arguments import check_choice, is_auto
from skdpfl._warnings import warn
from skdpfl.algorithms import Algorithm, FedExp, MinibatchSGD, Scaffold
from skdpfl.choosing import Method, Recipe
from skdpfl.engine import Progress
from skdpfl.estimators._base import FederatedEstimator, PersonEstimator
from skdpfl.estimators._docs import documented, with_constructor
from skdpfl.estimators._intervals import check_inference
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor, FederatedSurvival
from skdpfl.estimators._noise_error import Path
from skdpfl.estimators._training import Started
from skdpfl.models import RuleTask
from skdpfl.privacy.mechanisms import Mechanism, PrivUnitMessages
from skdpfl.privacy.mechanisms.privunit import MOST_EPSILON, largest_error, split_epsilon
from skdpfl.privacy.pricing.gaussian import gaussian_mu


@with_constructor
class _ISRLDP(PersonEstimator):
    """What both estimators of ISRL-DP add.

    In each round every silo of the cohort sends one noised sum of clipped gradients of sampled
    records; the server takes a step along their weighted mean, plain or accelerated, over many
    rounds or in one pass over the records (Lowy and Razaviyayn, ICLR 2023). ``solver="local"``
    takes local steps; ``solver="localized"`` runs in phases on disjoint batches (Gao, Lowy, Zhou
    and Wright, 2024), so a record pays for one phase only.

    Parameters
    ----------
    unit : {"record", "person"}, default="record"
        What is protected: one record, or all records of a person in a silo, in any number.
    trust : {"silo", "secagg", "shuffler", "server"}, default="silo"
        Whom a person in the data has to trust. "silo": only their own silo; everything that leaves
        it is private. "secagg": the masks, which hide all but the sum of the silos' messages, and
        that at most one other silo colludes with the server (two with
        :class:`skdpfl.privacy.SecureAggregation` ``(colluding=2)``); each silo adds a share of the
        noise. "server": the server sees exact sums and adds the noise. "shuffler": a third party
        mixes the messages of a round, so that the server does not learn who sent which.
    learning_rate : "auto", "optimal" or float, default="auto"
        The learning rate for the average clipped gradient; for the accelerated solvers, whose steps
        grow, 1 / v in the papers. "optimal" is the published choice for the solver, from the
        smoothness of the loss, the plan's noise, ``alpha`` and ``radius``: a constant step with
        ``alpha=0``; with ``alpha > 0`` plain steps decrease and their average is weighted. "auto"
        is larger where clipping makes that safe, and adds momentum (minibatch). Neither changes the
        privacy cost, which is computed before.
    local_steps : "auto", int or sequence of int, default="auto"
        Gradient steps of a silo in a round, each of which is charged; ``solver="local"`` only.
        "auto" is 5, or 1 without privacy, which avoids client drift.
    noise_multiplier : float, default=None
        Instead of a budget (``epsilon=None``): the standard deviation of the noise on the clipped
        sum (with ``trust="shuffler"``, on each record's message), divided by ``clip_norm``.
    average : bool, float or int, default=True
        The rounds whose models are averaged. True: the second half for plain steps, the running
        average of the theory for accelerated ones. False: none; the model is that of the last
        round. A float in (0, 1): this share of the rounds, the last ones. An integer k: the last k
        rounds, or all if there are fewer.

    Notes
    -----
    **Formal guarantee.** With ``trust="silo"`` everything a silo sends, given what the others sent,
    is (epsilon, delta)-DP for its records (persons); with ``trust="server"`` the sequence of
    models is. Proof: replacing a record (a person's records, in any number) changes each
    clipped gradient sum by at most twice the clip norm, the noise and the sampling are those of
    ``plan_``, everything else is post-processing, and ``privacy_spent_`` composes exactly the
    releases of ``plan_``. With ``trust="shuffler"`` all shuffled messages together are
    (epsilon, delta)-DP, provided that the other silos add their noise too: proofs are in
    :mod:`skdpfl.privacy.shuffling` (single messages: minibatch) and
    :mod:`skdpfl.privacy.mechanisms.binomial` (sums: accelerated and multi-stage).
    """

    _trusts = ("silo", "secagg", "shuffler", "server")
    _learning_rates = ("auto", "optimal")
    model: Any = "auto"
    solver: str = "minibatch"
    local_steps: Any = "auto"
    sampling: str = "poisson"
    radius: float | None = None
    calibrate: bool = True
    inference: str | None = None
    covariance: str = "model"

    def _method(self) -> Method:
        return choosing.Solver(self.solver)

    def _parameters(self) -> dict[str, Any]:
        phases = self.solver == "localized" and self.sampling == "poisson"
        whole = {"sampling_rate": 1.0} if phases else {}  # a phase reads all of its batch
        return super()._parameters() | whole

    def _check_own(self) -> None:
        check_choice("unit", self.unit, ("record", "person"))
        check_inference(self._parameters(), self._loss())
        self._check_solver()
        if self.trust == "shuffler":
            self._check_shuffler()

    def _fit(
        self, X: Any, y: Any, silos: Any, persons: Any, sample_weight: Any, exposure: Any
    ) -> Any:
        if self.inference is not None and sample_weight is not None:
            raise ValueError(
                'inference="intervals" is of the unweighted model: leave sample_weight, or '
                "inference=None."
            )
        return super()._fit(X, y, silos, persons, sample_weight, exposure)

    def summary(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return the coefficients as a frame, one row per feature and one for the intercept.

        Parameters
        ----------
        confidence : float, default=0.95
            The probability with which an interval covers, with ``inference="intervals"``.

        Returns
        -------
        DataFrame
            With ``inference="intervals"``: columns "coefficient" (``coef_estimate_``, unshrunk),
            "standard error", "lower", "upper" and "p" (against 0); intervals contain sampling and
            noise. ``attrs["refused"]`` is a mapping from the coefficients without an interval,
            whose row is NaN, to the reason. Otherwise "coefficient" (``coef_``) and, if it is
            known, "noise error", the standard deviation over fits on the same records with the same
            private scales and new noise in the rounds, which is too small for intervals;
            ``attrs["no_noise_error"]`` is the reason if it is not known. With more than two classes
            the columns are "coefficient of <label>" and "noise error of <label>". ``attrs`` has
            "epsilon" and "delta" as well.
        """
        frame = super().summary()
        if "_intervals" not in vars(self):
            return frame
        intervals = self._intervals.frame(confidence)
        intervals.attrs |= frame.attrs
        intervals.columns.name = frame.columns.name
        return intervals

    def contrast(self, weights: Any, confidence: float = 0.95) -> pd.Series:
        """Return the interval of a linear combination of coefficients, at no further cost.

        Parameters
        ----------
        weights : mapping or array-like of shape (n_features,)
            The weight of each coefficient, by feature (others: 0) or in order. A difference of two
            levels is ``{"ward_heart": 1, "ward_lung": -1}``.
        confidence : float, default=0.95
            The probability with which the interval covers.

        Returns
        -------
        Series
            "coefficient", "standard error", "lower", "upper" and "p" (against 0). NaN if it is
            refused, with the reason in ``attrs["refused"]``.
        """
        check_is_fitted(self)
        if "_intervals" not in vars(self):
            raise AttributeError('contrast needs a fit with inference="intervals".')
        return self._intervals.contrast(weights, confidence)

    def _check_solver(self) -> None:
        """Raise for an unknown solver, or one that is incompatible with other parameters."""
        solver = self.solver
        check_choice("solver", solver, choosing.SOLVERS)
        if solver == "multistage" and not self.alpha > 0:
            raise ValueError(
                'solver="multistage" is for strongly convex objectives: give alpha > 0 (got '
                f'alpha={self.alpha!r}), or use solver="accelerated".'
            )
        if solver == "local" and self.trust != "silo":
            raise ValueError(
                'solver="local" sends more than one fresh gradient per round, so the silos must '
                f'add the noise: trust must be "silo"; got {self.trust!r}. The other solvers take '
                "any trust."
            )
        if solver != "local" and not is_auto(self.local_steps):
            raise ValueError(
                f'local_steps={self.local_steps!r} is for solver="local"; solver={solver!r} takes '
                'one gradient per round. Leave it "auto".'
            )

        if solver == "localized":
            self._check_localized()

    def _check_localized(self) -> None:
        """Raise for parameters that are incompatible with phases on disjoint batches."""
        samples = self.sampling != "poisson" or not is_auto(self.sampling_rate)
        some = self.silo_fraction != 1 or not isinstance(self.cohort, str)
        spare = getattr(self.trust, "spare_rounds", 0)
        for wrong, what in (
            (samples, "draws its own batches: leave sampling and sampling_rate at their defaults"),
            (some, "needs all silos in every round: silo_fraction must be 1, cohort a name"),
            (spare, "cannot repeat failed rounds: spare_rounds must be 0"),
            (self.trust == "shuffler", 'sends sums: trust="shuffler" takes the other solvers'),
        ):
            if wrong:
                raise ValueError(f'solver="localized" {what}.')

    def _check_shuffler(self) -> None:
        """Raise for parameters that are incompatible with trust="shuffler"."""
        solver, sampling = self.solver, self.sampling
        if sampling == "with_replacement":
            raise ValueError(
                'trust="shuffler" sends each record of a batch once: sampling="with_replacement" '
                'does not go with it; use "without_replacement".'
            )
        if solver in ("accelerated", "multistage") and sampling != "disjoint":
            raise ValueError(
                f'trust="shuffler" with solver={solver!r} makes one pass over the data: give '
                f'sampling="disjoint" (got {sampling!r}), or use solver="minibatch".'
            )
        if not (isinstance(self.silo_weights, str) and self.silo_weights in ("auto", "size")):
            raise ValueError(
                'trust="shuffler" gives every record the same weight, since the sender of a '
                'message is unknown: silo_weights must be "auto" or "size"; got '
                f"{self.silo_weights!r}."
            )


@documented
class ISRLDPClassifier(_ISRLDP, FederatedClassifier):
    """Linear or additive classifier by noisy SGD, private against the server and all other silos.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(5, 400, n_features=10, n_classes=2, random_state=0)
    >>> clf = ISRLDPClassifier(epsilon=2.0, feature_bounds=(-8, 8), random_state=0)
    >>> clf.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> clf.score(data.data, data.target) > 0.8
    True
    """


@documented
class ISRLDPRegressor(_ISRLDP, FederatedRegressor):
    """Linear or additive regressor by noisy SGD, private against the server and all other silos.

    Examples
    --------
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.datasets import make_federated_regression
    >>> data = make_federated_regression(5, 400, n_features=10, random_state=0)
    >>> model = ISRLDPRegressor(
    ...     epsilon=2.0, feature_bounds=(-8, 8), target_bounds=(-12, 12), random_state=0
    ... )
    >>> model.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> model.score(data.data, data.target) > 0.5
    True
    """


@documented
class ISRLDPSurvival(_ISRLDP, FederatedSurvival):
    """Survival model by noisy distributed SGD: hazard ratios without risk sets.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpfl import ISRLDPSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(60, 10, 3000), "treated": rng.random(3000) < 0.5})
    >>> died = rng.exponential(5 * np.exp(0.7 * X["treated"] - 0.03 * (X["age"] - 60)))
    >>> left = rng.uniform(1, 8, 3000)
    >>> y = pd.DataFrame({"died": died <= left, "years": np.minimum(died, left)})
    >>> model = ISRLDPSurvival(
    ...     3.0, target_bounds=(0, 5), breaks=5, feature_bounds={"age": (18, 100)}, random_state=0
    ... )
    >>> model.fit(X, y, silos=np.arange(3000) % 3).privacy_spent_
    PrivacySpent(ε=3.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> bool(abs(model.summary().loc["treated", "coefficient"] + 0.7) < 0.25)
    True
    >>> model.predict_survival_function(X[:2]).shape
    (2, 5)
    """


@with_constructor
class _DPFedAvg(PersonEstimator):
    """What both estimators of DP-FedAvg add.

    Each silo takes ``local_steps`` private gradient steps, and the server averages the resulting
    models (Noble, Bellet and Dieuleveut, AISTATS 2022). With one local step it is DP-FedSGD;
    ``local_epochs`` sets passes over the data instead, optionally one number per round.
    """

    local_steps: Any = "auto"
    local_epochs: Any = None
    momentum: Any = "auto"
    global_learning_rate: Any = "auto"
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    def _method(self) -> Method:
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


@documented
class DPFedAvgSurvival(_DPFedAvg, FederatedSurvival):
    """Survival model by differentially private federated averaging.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl import DPFedAvgSurvival
    >>> rng = np.random.default_rng(0)
    >>> X, left = rng.normal(size=(3000, 2)), rng.uniform(1, 8, 3000)
    >>> died = rng.exponential(5 * np.exp(-0.5 * X[:, 0]))
    >>> y = np.zeros(3000, [("died", bool), ("years", float)])
    >>> y["died"], y["years"] = died <= left, np.minimum(died, left)
    >>> model = DPFedAvgSurvival(3.0, target_bounds=(0, 5), feature_bounds=(-4, 4), random_state=0)
    >>> model.fit(X, y, silos=np.arange(3000) % 3).score(X, y) > 0.6
    True
    """


@dataclass(frozen=True)
class _Scaffolding(Method):
    """SCAFFOLD, with control variates computed from the noisy gradients at no extra cost."""

    warm_start_rounds: int

    def algorithm(self, recipe: Recipe) -> Algorithm:
        """Return SCAFFOLD; raise if the warm start uses up all rounds."""
        settings, warm = recipe.settings, self.warm_start_rounds
        if self.has_momentum(recipe):  # corrections of one step by all silos sum to zero
            return MinibatchSGD(settings.learning_rate * settings.server_step, settings.momentum)
        if warm >= settings.n_rounds:
            raise ValueError(
                f"warm_start_rounds={warm} leaves none of the {settings.n_rounds} rounds to train "
                "in."
            )
        return Scaffold(settings.learning_rate, settings.steps, settings.server_steps, warm)

    def has_momentum(self, recipe: Recipe) -> bool:
        """Whether there is nothing to correct, so that steps are those of minibatch SGD."""
        all_silos = recipe.silo_fraction >= 1 and recipe.promise.trust == "silo"
        return recipe.takes_one_step and all_silos and not self.warm_start_rounds

    def with_constants(self, recipe: Recipe) -> Recipe:
        """Return the recipe with control variates' learning rate set by the noise."""
        if not isinstance(recipe.algorithm, Scaffold):
            return recipe
        rate = choosing.control_rate(recipe)
        return replace(recipe, algorithm=replace(recipe.algorithm, control_rate=rate))


@with_constructor
class _DPScaffold(PersonEstimator):
    """What both estimators of DP-SCAFFOLD add.

    Silos take local steps as in DP-FedAvg, corrected by control variates, so that they do not drift
    towards their own optima (Noble, Bellet and Dieuleveut, AISTATS 2022).
    """

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
class _DPFederated(PersonEstimator):
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

    model: Any = "auto"
    algorithm: Algorithm | None = None
    mechanism: Mechanism | None = None
    sampling: str = "poisson"
    noise_schedule: Any = None
    calibrate: bool = True

    def _method(self) -> Method:
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
    """Linear or additive classifier trained by any federated algorithm.

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
    """Linear or additive regressor trained by any federated algorithm.

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


@documented
class DPFederatedSurvival(_DPFederated, FederatedSurvival):
    """Survival model trained by any federated algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl import DPFederatedSurvival
    >>> from skdpfl.algorithms import MinibatchSGD
    >>> rng = np.random.default_rng(0)
    >>> X, left = rng.normal(size=(3000, 2)), rng.uniform(1, 8, 3000)
    >>> died = rng.exponential(5 * np.exp(-0.5 * X[:, 0]))
    >>> y = np.zeros(3000, [("died", bool), ("years", float)])
    >>> y["died"], y["years"] = died <= left, np.minimum(died, left)
    >>> steps = MinibatchSGD(0.5, momentum=0.5)
    >>> model = DPFederatedSurvival(3.0, algorithm=steps, target_bounds=(0, 5), random_state=0)
    >>> model.set_params(feature_bounds=(-4, 4)).fit(X, y, silos=np.arange(3000) % 3).n_iter_
    100
    """


#: the largest share of the way to a silo's own optimum that a local step goes
_OF_WAY = 0.5


@dataclass(frozen=True)
class _Extrapolation(Method):
    """FedAvg with adaptive server steps."""

    privunit: bool

    def algorithm(self, recipe: Recipe) -> Algorithm:
        """Return FedEXP."""
        return FedExp(recipe.settings.learning_rate, recipe.settings.steps)

    def local_steps(self, recipe: Recipe) -> int:
        """Return the number of local steps for "auto"; of a quadratic loss, half-long ones."""
        return 20 if recipe.loss.is_quadratic else 10

    def n_rounds(self, recipe: Recipe, default: int) -> int:
        """Return the number of rounds; fewer for PrivUnit, which splits epsilon over them."""
        return min(default, 5) if self.privunit else default

    def mechanism(self, recipe: Recipe) -> Mechanism:
        """Return the mechanism."""
        return PrivUnitMessages() if self.privunit else super().mechanism(recipe)

    def message_clip_norm(
        self, recipe: Recipe, steps: tuple[int, ...], noise: float, task: RuleTask
    ) -> float:
        """Return the highest clip norm: of a quadratic loss, for noise of the target's whole scale.

        The rules' half leaves no room for a target's scale that noise makes too small: all messages
        would be clipped until late rounds. But messages are no longer than the way to as many
        uncorrelated rows as half-long steps can fit.
        """
        usual = super().message_clip_norm(recipe, steps, noise, task)
        if noise <= 0 or not (recipe.loss.is_quadratic and recipe.model.is_linear):
            return usual
        way = math.sqrt(_OF_WAY * max(steps)) / (task.curvature * task.norm)
        return max(usual, min(way, 1 / (noise * len(steps) * task.norm)))

    def silo_learning_rate(self, recipe: Recipe, noise: float, task: RuleTask) -> float:
        """Return the local step: of a quadratic loss longer, where messages may be long.

        K steps of a share e of the way to the silo's own optimum go ``1 - (1 - e)^K`` of it, with
        slopes of 1/3. If a message may be longer than the whole way, only curvature limits e, to
        1/2: a silo's own may be more than that of rows of the expected norm, the more so where
        noise makes scales too small and columns are correlated.
        """
        step, steps = super().silo_learning_rate(recipe, noise, task), recipe.settings.steps
        if not recipe.loss.is_quadratic:
            return step
        message = self.message_clip_norm(recipe, steps, noise, task)
        of_way = min(1.0, 3 * task.curvature * task.norm * message)
        share = min(_OF_WAY, 1 - (1 - of_way) ** (1 / max(steps)))
        return max(step, share / (task.curvature * task.squared_row))

    def with_constants(self, recipe: Recipe) -> Recipe:
        """Return the recipe with bounds on the server's steps, and on those of silos.

        If the silos' updates cancel, the ratio of their norms to the mean's norm is unbounded. In
        the direction of the largest curvature L, K steps of size e cover a share ``1 - (1 - e
        L)^K`` of the way to the optimum; a server step of more than ``2 / (1 - (1 - e L)^K)`` would
        diverge. Private fits do not know L and use that of rows of the expected norm.

        If noise makes scales too small, rows are longer, and steps may diverge in all silos: their
        clipped messages would lead away from the optimum, at full length. But a silo knows its own
        rows: it goes at most the whole way along them in a step, or as far as the rules allow.
        """
        settings, plan, largest, longest = recipe.settings, recipe.plan, 0.0, math.inf
        if self.privunit and plan.private:
            _compare(recipe)
        if not recipe.chooses_step:
            return recipe
        if recipe.measured is not None:
            pace = settings.learning_rate * max(settings.steps) * sum(recipe.measured)
            largest = 1.5 / pace if pace > 0 else 1.0
        elif plan.private:
            moved, covered = _parts_of_way(settings, recipe.task(recipe.squared_row))
            largest = 1.5 / covered if covered > 0 else 1.0
            _warn_of_few_steps(settings, moved, recipe.facts.n_features)
            if recipe.loss.is_quadratic and recipe.model.is_linear:
                bearable = 1 / (settings.learning_rate * recipe.expected.curvature)
                longest = max(bearable, recipe.squared_row)
        assert isinstance(recipe.algorithm, FedExp)
        largest = max(1.0, largest)
        algorithm = replace(recipe.algorithm, largest_step=largest, squared_row=longest)
        return replace(recipe, algorithm=algorithm)


@with_constructor
class _DPFedEXP(FederatedEstimator):
    """What both estimators of DP-FedEXP add.

    Silos take ``local_steps`` gradient steps each; the server's learning rate for their mean update
    D is adaptive, ``eta = max(1, mean |D_i|^2 / |mean D_i|^2)``, with both terms computed from
    private releases (Takakura, Liew and Hasegawa; without privacy, by ``epsilon=inf``, FedExP of
    Jhunjhunwala, Wang and Joshi, ICLR 2023). A round costs as much as one of DP-FedAvg, and there
    are no additional parameters to tune. Use it for many silos whose data differ; if noise
    dominates, it reduces to DP-FedAvg.

    Parameters
    ----------
    trust : {"silo", "secagg", "server"}, default="silo"
        "silo": each silo adds noise to its own message (LDP-FedEXP). "server": the server sees the
        sum of the clipped messages and adds the noise (CDP-FedEXP). "secagg": likewise, but each
        silo adds a share of the noise to its message, and masks hide all but the sum from the
        server (:class:`skdpfl.privacy.SecureAggregation`).
    noise_multiplier : float, default=None
        Instead of a budget (``epsilon=None``): the standard deviation of the noise on a message
        (with ``trust="server"``, on the sum), divided by ``clip_norm``. Not for
        ``mechanism="privunit"``.

    Attributes
    ----------
    global_step_sizes_ : ndarray of shape (n_rounds,)
        The server's step size in each round.

    Notes
    -----
    **Formal guarantee.** Everything a silo sends (``trust="silo"``), or the sequence of models
    (``trust="server"``), is (epsilon, delta)-DP for whole silos, their sizes included: under
    replacement of one silo's data, or (``trust="server"``) under setting its contribution to zero.
    With ``trust="secagg"`` this holds for what the server and the colluding silos learn from the
    sums. Proof: what leaves is a vector in a ball of radius ``clip_norm`` with the noise of
    ``plan_`` (:mod:`skdpfl.privacy.mechanisms`); ``privacy_spent_`` composes exactly those
    releases. The step sizes are functions of them.
    """

    unit = "silo"
    mechanism: str = "gaussian"
    local_steps: Any = "auto"

    def _method(self) -> Method:
        return _Extrapolation(self.mechanism == "privunit")

    def _check_own(self) -> None:
        check_choice("mechanism", self.mechanism, ("gaussian", "privunit"))
        if self.mechanism == "privunit" and self.trust != "silo":
            raise ValueError(
                'mechanism="privunit" makes each silo\'s message private by itself, so it needs '
                f'trust="silo"; got {self.trust!r}. With that trust, mechanism="gaussian" adds '
                "less noise."
            )
        if self.mechanism == "privunit" and self.noise_multiplier is not None:
            raise ValueError(
                'mechanism="privunit" adds no Gaussian noise: give epsilon, not noise_multiplier='
                f"{self.noise_multiplier!r}."
            )

    def _run(self, fit: Started, path: Path) -> Progress:
        outcome = super()._run(fit, path)
        _warn_if_still(outcome, fit)
        return outcome

    def _unpack_outcome(self, outcome: Progress) -> None:
        super()._unpack_outcome(outcome)
        self.global_step_sizes_ = np.asarray(outcome.state.step_sizes)  # type: ignore[attr-defined]


#: learnt clip norm in updates of standardised rows, and distance in messages that the rules expect,
#: of fits that stand still
STILL_CLIP, STILL_DISTANCE = 0.13, 3.0


def _parts_of_way(settings: choosing.Settings, task: RuleTask) -> tuple[float, float]:
    """Return how much of the way along a row one local step goes, and all of a round."""
    moved = min(settings.learning_rate * task.curvature * task.squared_row, 1.0)
    return moved, 1 - (1 - moved) ** max(settings.steps)


def _warn_if_still(outcome: Progress, fit: Started) -> None:
    """Warn if updates were far shorter than those of standardised rows, and the model hardly moved.

    The learnt clip norm follows the messages' median and is paid for. Where features' scales are
    unknown, learning rate and first clip norm are those for standardised rows.
    """
    plan, recipe = fit.work.plan, fit.recipe
    if not plan.private or not recipe.chooses_step or not math.isfinite(plan.clip_norm):
        return
    task = recipe.task(recipe.expected_row)
    usual = _parts_of_way(recipe.settings, task)[1] / (3 * task.curvature * task.norm)
    short = outcome.clip_norm < STILL_CLIP * usual
    if short and np.linalg.norm(outcome.params) < STILL_DISTANCE * min(plan.clip_norm, usual):
        warn(
            "The model has hardly moved: the silos' updates are about "
            f"{usual / outcome.clip_norm:.0f} times shorter than by the slopes of standardised "
            f"features, for which the learning rate of {recipe.settings.learning_rate:.2g} was "
            "chosen. Give feature_bounds (and target_bounds), or a larger learning_rate."
        )


def _warn_of_few_steps(settings: choosing.Settings, moved: float, n_features: int) -> None:
    """Warn if steps that curvature bounds, not noise, are too few for so many features.

    A step goes the share ``moved`` of the way along a row, so on average ``moved / n_features``
    along each of uncorrelated features: all together less than once the way.
    """
    n_steps = sum(settings.steps)
    if moved * max(settings.steps) < 1 or settings.n_rounds == 1:
        return
    if moved * n_steps < n_features:
        warn(
            f"{n_steps} local steps of each silo in all are few for {n_features} features, so the "
            "model will be short of the optimum. Increase n_rounds or local_steps."
        )


def _compare(recipe: Recipe) -> None:
    """Warn if Gaussian noise would be smaller, as pure local privacy composes badly over rounds."""
    plan, size = recipe.plan, recipe.model.size
    delta, rounds = float(plan.delta.max()), plan.mechanism.n_releases(plan)
    gaussian = math.sqrt(size * rounds) * 2 / gaussian_mu(recipe.price, delta)
    epsilon = min(MOST_EPSILON, 1 / float(plan.noise_multiplier[0]))
    pure = math.sqrt(largest_error(*split_epsilon(epsilon, size), size))
    if pure > gaussian:
        warn(
            f'mechanism="privunit" adds noise of up to {pure:.3g} clip norms to a message here '
            f'(epsilon {epsilon:.2g} in each of {rounds} rounds); mechanism="gaussian" adds '
            f"{gaussian:.3g}. Use the latter, or fewer rounds."
        )


@documented
class DPFedEXPClassifier(_DPFedEXP, FederatedClassifier):
    """Linear classifier by DP-FedEXP, which protects whole silos.

    Examples
    --------
    >>> from skdpfl import DPFedEXPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(
    ...     2000, 5, alpha=0, beta=0, n_features=10, n_classes=2, random_state=0
    ... )
    >>> clf = DPFedEXPClassifier(2.0, trust="server", feature_bounds=(-8, 8), random_state=0)
    >>> clf.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='silo', trust='server', neighbours='add_remove',
    simulation (seeded))
    >>> clf.global_step_sizes_.shape == (clf.n_rounds_,)
    True
    """


@documented
class DPFedEXPRegressor(_DPFedEXP, FederatedRegressor):
    """Linear regressor by DP-FedEXP, which protects whole silos.

    Examples
    --------
    >>> from skdpfl import DPFedEXPRegressor
    >>> from skdpfl.datasets import make_federated_regression
    >>> data = make_federated_regression(2000, 5, n_features=10, random_state=0)
    >>> model = DPFedEXPRegressor(
    ...     2.0, trust="server", feature_bounds=(-8, 8), target_bounds=(-12, 12), random_state=0
    ... )
    >>> model.fit(data.data, data.target, silos=data.silos).privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='silo', trust='server', neighbours='add_remove',
    simulation (seeded))
    """
