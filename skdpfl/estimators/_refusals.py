"""Errors for unsupported parameters and methods, which name the alternative."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from skdpfl._missing import Missing


def refuse_arguments(name: str, unnamed: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    """Raise for arguments that ``fit`` does not have."""
    if unnamed:
        raise TypeError(
            f"{name}.fit takes silos and weights by name only: fit(X, y, silos=...), one id per "
            "row."
        )
    if arguments:
        names = ", ".join(map(repr, arguments))
        raise TypeError(f"{name}.fit takes X, y, silos and sample_weight; got {names}.")


#: parameters of scikit-learn's linear models -> the alternative
INSTEAD = {
    "class_weight": "it is for classifiers; fit takes a sample_weight.",
    "C": "give alpha=1 / (n_records * C).",
    "penalty": "alpha is the strength of a squared penalty, alpha=0 is none.",
    "l1_ratio": "alpha is the strength of a squared penalty; there is none by absolute values.",
    "max_iter": "give n_rounds; each round is paid for, so that they are fixed before the fit.",
    "tol": "n_rounds are fixed before the fit; when to stop would be learnt from the data.",
    "warm_start": "every fit starts anew and pays anew; privacy_spent_ of several fits add up.",
    "shuffle": "sampling says how a step draws records.",
    "batch_size": "sampling_rate is the share of its records that a silo reads in a step.",
    "eta0": "give learning_rate.",
    "learning_rate_init": "give learning_rate.",
    "hidden_layer_sizes": "give model=skdpfl.models.MLP(hidden_layer_sizes=...).",
    "activation": "give model=skdpfl.models.MLP(activation=...).",
    "epochs": "give n_rounds.",
}
NO_PARTIAL_FIT = Missing(
    "there is no partial_fit: the cost of all rounds is fixed before the first. Fit anew with "
    "fit(X, y, silos=...); a PrivacyLedger keeps several fits on the same records to one budget."
)


def refusing_parameters(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor with the same signature, whose errors name the alternative."""

    known = frozenset(inspect.signature(init).parameters)

    @functools.wraps(init)
    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        refuse_parameters(self, kwargs, known, TypeError)
        init(self, *args, **kwargs)

    return constructor


def refuse_parameters(
    estimator: Any, given: Mapping[str, Any], known: Collection[str], error: type[Exception]
) -> None:
    """Raise for parameters of scikit-learn's models that are missing or have another name here."""
    for name in given:
        if name in INSTEAD and name not in known:
            kind = type(estimator).__name__
            raise error(f"{kind} has no {name} (got {given[name]!r}): {INSTEAD[name]}")


class ScoresWithoutSilos:
    """Mixin, before scikit-learn's: ``score`` raises with a hint if silos are passed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, **refused: Any) -> float:
        """Return the accuracy of a classifier, the R² of a regressor.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the records in the score.
        **refused
            Not allowed.

        Returns
        -------
        float
            The exact score, which no privacy budget covers.
        """
        if "silos" in refused:
            raise TypeError(
                "score is one number over all records and takes no silos. Each silo's own: "
                "skdpfl.model_selection.silo_scores(estimator, X, y, silos=...)."
            )
        if refused:
            raise TypeError(f"score takes X, y and sample_weight; got {', '.join(refused)}.")
        return super().score(X, y, sample_weight)  # type: ignore[misc]
