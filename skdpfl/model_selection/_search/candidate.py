"""One candidate of a search: what its fit would cost, and its fit, under one and the same plan."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing

from skdpfl._pipelines import private_step, silos_argument
from skdpfl.model_selection._search.callbacks import Runs
from skdpfl.model_selection._search.steps import width_seen
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.spending.spent import PrivacySpent


class Candidate:
    """A point of the space, with what a fit of it depends on in public.

    Parameters
    ----------
    template : estimator
        The searched estimator; it is cloned.
    params : dict
        What is set on the clone.
    sizes : dict
        Each training silo's number of records.
    X, y : array-like
        All records; only their width and their label set are looked at until :meth:`fit`.
    schedule : Streams
        Who takes part in which round is drawn from these, so that the plan that is priced is the
        one that runs, whatever the noise is drawn from.
    """

    def __init__(
        self, template: Any, params: dict[str, Any], sizes: Any, X: Any, y: Any, schedule: Streams
    ) -> None:
        self._template, self.params, self._schedule = template, params, schedule
        self._sizes, self._X = sizes, X
        self._labels = (
            np.unique(np.asarray(y)) if is_classifier(private_step(template)[1]) else None
        )
        self._priced: dict[tuple[float, float], PrivacySpent] = {}

    def model(self) -> Any:
        """Return an unfitted model with the candidate's parameters."""
        own = {name: clone(value, safe=False) for name, value in self.params.items()}
        return clone(self._template).set_params(**own)

    @cached_property
    def _width(self) -> int:
        return width_seen(self.model(), self._X)

    def price(self, epsilon: float, delta: float) -> PrivacySpent:
        """Return what the candidate's fit costs with this budget of its own."""
        if (epsilon, delta) not in self._priced:
            inner = self._paying(self.model(), epsilon, delta)
            plan = inner.plan_for(
                silo_sizes=self._sizes,
                n_features=self._width,
                n_classes=2 if self._labels is None else len(self._labels),
            )
            self._priced[epsilon, delta] = plan.spent()
        return self._priced[epsilon, delta]

    def fit(
        self,
        data: tuple[Any, Any, Any],
        train: np.ndarray,
        budget: tuple[float, float],
        seed: int | None,
        runs: Runs,
        *,
        paid: bool,
    ) -> Any:
        """Return the model fitted to the training rows of (X, y, silos).

        ``runs`` tells the search's callbacks of it, unless it is a secret; ``paid``: it must have
        released what :meth:`price` said.
        """
        X, y, silos = (None if part is None else _safe_indexing(part, train) for part in data)
        model = self.model()
        inner = self._paying(model, *budget)
        inner.set_params(random_state=seed, verbose=0)
        if self._labels is not None and inner.classes is None:
            inner.set_params(classes=self._labels)  # they are public, and priced; some may be rare
        inner._covered = True  # the search has charged the ledgers
        with runs.run(model):
            model.fit(X, y, **silos_argument(model, silos))
        del inner._covered, inner._schedule_streams
        if paid:
            self.check(model, *budget)
        return model

    def check(self, fitted: Any, epsilon: float, delta: float) -> None:
        """Raise unless the fit released what was priced: the search's cost would be wrong."""
        ran, priced = private_step(fitted)[1].privacy_spent_.costs, self.price(epsilon, delta).costs
        if ran != priced:
            raise RuntimeError(
                f"The fit of candidate {self.params!r} released {ran!r}, but the search has paid "
                f"for {priced!r}; its result is not given out."
            )

    def _paying(self, model: Any, epsilon: float, delta: float) -> Any:
        _, inner = private_step(model)
        inner.set_params(epsilon=epsilon, delta=delta, noise_multiplier=None)
        inner._schedule_streams = lambda: self._schedule  # copies of the estimator share it
        return inner
