"""A pipeline with one privacy budget for transformers and estimator; see SharedBudget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from skdpfl._compat import as_frame
from skdpfl._functions import Declared
from skdpfl._pipelines import gives_out_width, pool_silos
from skdpfl._surface import not_elsewhere
from skdpfl._warnings import foreign_steps
from skdpfl.encoding import typed
from skdpfl.model_selection import _wrapped
from skdpfl.privacy.calibration import check_budget_parameters, delta_of
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.cost import at_delta
from skdpfl.privacy.spending.ledger import AsFitted, Recorded
from skdpfl.privacy.spending.spent import PrivacySpent, chosen_by_outputs, total
from skdpfl.table import Owners, public_columns

#: the search for the last step's epsilon ends here
_CLOSE_FACTOR = 1.003


@dataclass(eq=False, repr=False)
class SharedBudget(Recorded, _wrapped.BestModel, MetaEstimatorMixin, BaseEstimator):
    """One privacy budget for a pipeline, shared by its transformers and its estimator.

    Every private step gets a part; the last one gets what remains after the releases of all others
    are composed, which is more than the difference of the epsilons.

    Parameters
    ----------
    estimator : Pipeline
        A pipeline that ends in an estimator of this library with ``unit="record"`` or, in all
        private steps, ``unit="person"``, or in a scikit-learn ``TransformedTargetRegressor`` of
        one, whose transformer learns nothing. The epsilon, delta and random_state of all private
        steps are overridden.
    epsilon : float, default=1.0
        The budget of the whole fit.
    delta : "auto" or float, default="auto"
        Its delta; "auto" is the largest power of ten that is at most 1 / (10 n_records), or
        1 / (10 n_persons).
    shares : "auto" or mapping, default="auto"
        The share of the budget for each step before the last: ``{"imputer": 0.05, "columns__cat":
        0.1}``. Shares are of the squared Gaussian-DP parameter mu, which is additive: a share of
        0.1 increases the noise of the last step by 5 %. "auto": 0.1 in total, in equal parts.
    public : collection of str, default=()
        Names of steps, each a ``FunctionTransformer`` whose function you declare to treat each row
        by itself. Functions are tested on made-up rows first. NumPy's entrywise functions need no
        declaration, nor does a :class:`~skdpfl.preprocessing.RowTransformer`.
    random_state : int, RandomState, Generator or None, default=None
        None draws cryptographic noise; anything else is a simulation. Each step has its own noise.

    Attributes
    ----------
    estimator_ : Pipeline
        The fitted pipeline.
    privacy_spent_ : PrivacySpent
        The cost of the whole fit.
    epsilons_ : dict
        The epsilon of each private step, by its name; they need not sum to ``epsilon``.

    See Also
    --------
    DPRandomizedSearchCV : One budget for a search.
    skdpfl.privacy_spent : The cost of a pipeline whose steps have their own budgets.

    Notes
    -----
    **Formal guarantee.** Transformers' budgets are functions of public numbers, which fixes their
    releases. The last step's plan has the largest epsilon for which all releases together, composed
    as distributions, are within (epsilon, delta). If the number of columns is learnt from the
    records (``DPOneHotEncoder`` without ``max_categories``), the plan depends on an output: it gets
    half of delta, and is priced as arbitrary releases with its epsilon and delta
    (:mod:`skdpfl.privacy.spending.cost`). The fit fails if the last step's releases are not the
    priced ones.

    Ledgers record each step's fit separately.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.model_selection import SharedBudget
    >>> from skdpfl.preprocessing import DPSimpleImputer
    >>> X = np.random.default_rng(0).uniform(0, 100, (2000, 2))
    >>> y = X[:, 0] > 50
    >>> X[::7, 0] = np.nan
    >>> model = make_pipeline(
    ...     DPSimpleImputer(feature_bounds=(0, 100)), ISRLDPClassifier(feature_bounds=(0, 100)))
    >>> shared = SharedBudget(model, epsilon=2.0, delta=1e-5, random_state=0).fit(X, y)
    >>> shared.privacy_spent_
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> {name: round(epsilon, 1) for name, epsilon in shared.epsilons_.items()}
    {'dpsimpleimputer': 0.6, 'isrldpclassifier': 1.9}
    """

    __metadata_request__fit = {"silos": True, "persons": True}  # noqa: RUF012
    holds = "estimator_"

    fit_federation = not_elsewhere(
        "Let each silo prepare its records by public numbers, and fit the last step by itself."
    )

    estimator: Any
    _: KW_ONLY
    epsilon: float = 1.0
    delta: Any = "auto"
    shares: Any = "auto"
    public: Any = ()
    random_state: Any = None

    def fit(self, X: Any, y: Any, *, silos: Any = None, persons: Any = None) -> SharedBudget:
        """Fit the pipeline within the budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the steps have a ``silo_column``.
        persons : array-like of shape (n_samples,), default=None
            With ``unit="person"``: each record's person, unless the steps have a
            ``person_column``.

        Returns
        -------
        self : SharedBudget
        """
        X = as_frame(X)
        model = self._checked(X)
        name, last = _wrapped.last_step(model)
        paying = _wrapped.paying_steps(model)
        streams = streams_for(self.random_state)
        n = _num_samples(X)
        n = int(Owners.read(X, silos, persons, last).sizes.sum()) if last.unit == "person" else n
        delta = delta_of(self.delta, max(1, n))  # without rows the first step raises
        _wrapped.divide(last, paying, self.shares, float(self.epsilon), delta)
        _wrapped.seed_steps(paying, streams)
        last.set_params(random_state=_wrapped.seed_from(streams, "step", len(paying)))
        with config_context(enable_metadata_routing=True):
            by_name = {"silos": silos, "persons": persons}
            routed = {name: ids for name, ids in by_name.items() if ids is not None}
            before = model[:-1]
            with foreign_steps():
                Z = before.fit_transform(
                    typed(X, _wrapped.owner_columns(model)),
                    y,
                    **(routed if _wrapped.takes_silos(before) else {}),
                )
            model.steps[:-1] = before.steps
            spents = [step.privacy_spent_ for step in _wrapped.paying_steps(model).values()]
            together = partial(_together, spents, gives_out_width(before), delta)
            own = delta / 2 if gives_out_width(before) else delta
            price = _price(last, own, Z, y, Owners.read(Z, silos, persons, last), streams)
            epsilon = largest(lambda e: together(price(e)).epsilon, float(self.epsilon))
            last.set_params(epsilon=epsilon, delta=own, noise_multiplier=None)
            with foreign_steps():
                model.steps[-1][1].fit(Z, y, **routed)
        fitted = _wrapped.last_step(model)[1]
        for each in {id(last): last, id(fitted): fitted}.values():
            del each._schedule_streams
        spent = together(fitted.privacy_spent_)
        if any(cost.trust == "server" for cost in pool_silos([*spents, fitted.privacy_spent_])):
            spent = spent.trusting("server")
        if spent.epsilon > float(self.epsilon):
            raise RuntimeError(
                f"The fit cost {spent!r}, which differs from its price, so its result is withheld."
            )
        return self.keep(model, spent, {**paying, name: fitted})

    def keep(self, fitted: Pipeline, spent: PrivacySpent, steps: dict[str, Any]) -> SharedBudget:
        """Set the fitted attributes, after :meth:`fit` or a run of a search.

        Parameters
        ----------
        fitted : Pipeline
            The fitted pipeline.
        spent : PrivacySpent
            Its cost.
        steps : dict
            Its private steps by name.

        Returns
        -------
        self : SharedBudget
        """
        self.estimator_, self.privacy_spent_ = fitted, spent
        self._as_fitted = AsFitted.of(self, weighted=False)
        self.epsilons_ = {path: float(step.epsilon) for path, step in steps.items()}
        return self

    def check_model(self) -> Pipeline:
        """Return an unfitted copy of the pipeline; raise if it is none.

        Returns
        -------
        Pipeline
        """
        model = clone(self.estimator)
        if not isinstance(model, Pipeline) or len(model.steps) < 2:
            raise ValueError(
                f"SharedBudget needs a Pipeline of several steps; got {type(model).__name__}."
            )
        return model

    def _checked(self, X: Any) -> Pipeline:
        """Check the parameters; return an unfitted copy of the pipeline."""
        check_budget_parameters(self.epsilon, self.delta)
        model = self.check_model()
        _wrapped.check_target(model)
        _wrapped.check_paid(model, Declared(self.public), X)
        _wrapped.check_steps(_wrapped.last_step(model)[1], _wrapped.paying_steps(model))
        return model


def model_of(made: Any) -> Any:
    """Return the pipeline of a shared budget, or the model itself."""
    if not isinstance(made, SharedBudget):
        return made
    return getattr(made, made.holds, made.estimator)


def _price(
    last: Any, delta: float, Z: Any, y: Any, owners: Owners, streams: Streams
) -> Callable[[float], PrivacySpent]:
    """Return the cost of the last step for a given epsilon."""
    sizes = dict(zip(owners.silos.ids.tolist(), owners.sizes.tolist(), strict=True))
    labels = np.unique(np.asarray(y)) if is_classifier(last) else (0, 1)
    last._schedule_streams = lambda: streams  # the plan that is priced is the one that runs

    def price(epsilon: float) -> PrivacySpent:
        last.set_params(epsilon=epsilon, delta=delta, noise_multiplier=None)
        plan = last.plan_for(
            silo_sizes=sizes,
            n_classes=len(labels),
            **public_columns(Z, last.silo_column, getattr(last, "person_column", None)),
        )
        return plan.spent()

    return price


def _together(
    before: list[PrivacySpent], chosen: bool, delta: float, own: PrivacySpent
) -> PrivacySpent:
    """Return the cost of all steps; ``chosen``: the last one's plan depends on an output."""
    return at_delta(total([*before, chosen_by_outputs(own) if chosen else own]), delta)


def largest(price: Callable[[float], float], epsilon: float) -> float:
    """Return the largest epsilon of the last step for which all steps are within the budget."""
    if math.isinf(epsilon) or price(epsilon) <= epsilon:
        return epsilon
    low, high = 0.0, epsilon
    while not low or high / low > _CLOSE_FACTOR:
        middle = math.sqrt(low * high) if low else high * 0.9
        low, high = (middle, high) if price(middle) <= epsilon else (low, middle)
        if high < 1e-3 * epsilon:
            raise ValueError(
                f"epsilon={epsilon:g} is too small for the steps of this pipeline: declare bounds."
            )
    return low
