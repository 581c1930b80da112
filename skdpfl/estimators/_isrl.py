"""ISRL-DP: federated learning when nobody outside a silo is trusted (Lowy, Razaviyayn)."""

from typing import Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdpfl._arguments import check_choice, is_auto
from skdpfl.choosing import SOLVERS, Method, Solver
from skdpfl.estimators._base import PersonEstimator
from skdpfl.estimators._docs import documented, with_constructor
from skdpfl.estimators._intervals import check_inference
from skdpfl.estimators._kinds import FederatedClassifier, FederatedRegressor, FederatedSurvival


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
        return Solver(self.solver)

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
        found = self._intervals.frame(confidence)
        found.attrs |= frame.attrs
        found.columns.name = frame.columns.name
        return found

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
        check_choice("solver", solver, SOLVERS)
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
        drawn = self.sampling != "poisson" or not is_auto(self.sampling_rate)
        some = self.silo_fraction != 1 or not isinstance(self.cohort, str)
        spare = getattr(self.trust, "spare_rounds", 0)
        for wrong, what in (
            (drawn, "draws its own batches: leave sampling and sampling_rate at their defaults"),
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
