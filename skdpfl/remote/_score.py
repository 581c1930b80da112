"""The second question of every hospital: how good is the model here?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np

from skdpfl.federation import SiloBudgets, SumPlan
from skdpfl.losses import LogLoss, Loss
from skdpfl.models import Model
from skdpfl.privacy.events import Neighbours
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.remote._declared import pack
from skdpfl.remote._federation import RemoteFederation
from skdpfl.remote._measures import OF_CLASSES, Measure, Predictor, Scored
from skdpfl.remote._terms import Refused
from skdpfl.remote._wire import WireError
from skdpfl.scaling import IdentityScaling

#: the arrays of a fitted linear model, and of a network
_FITTED = ("coef_", "intercept_", "coefs_", "intercepts_")


class Fitted(Protocol):
    """A fitted estimator of this package."""

    model_: Model
    scaling_: Any
    loss: Any

    def _loss(self) -> Loss: ...


@dataclass(frozen=True)
class Scores:
    """How good a model is, silo by silo and over all records; estimates, with their noise.

    Attributes
    ----------
    per_silo : mapping
        Each silo's accuracy, or mean loss or error, each record's cut at the bound. Noise can carry
        it out of its range.
    overall : float
        The mean over all records.
    noise : mapping
        The standard deviation of the noise in each silo's number.
    overall_noise : float
        That of the mean over all records.
    epsilon : mapping
        What each silo paid, by its own computation.
    """

    per_silo: Mapping[str, float]
    overall: float
    noise: Mapping[str, float]
    overall_noise: float
    epsilon: Mapping[str, float]


def score_federation(
    model: Fitted,
    federation: RemoteFederation,
    *,
    epsilon: float,
    delta: float = 1e-5,
    measure: Measure | None = None,
    bound: float | None = None,
    neighbours: Neighbours = "replace",
    random_state: int | None = None,
) -> Scores:
    """Ask silos elsewhere how good a model is at their records; each pays for its answer.

    Every record counts once, whatever weight it has in fits.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor, linear or a network.
    federation : RemoteFederation
        The silos; its facts tell their sizes, which are public here.
    epsilon : float
        What the answer costs each silo. A silo of n records adds noise of about
        ``1.5 / (n epsilon)`` to its accuracy at usual deltas.
    delta : float, default=1e-5
        The delta that it is priced at.
    measure : {"accuracy", "log_loss", "absolute_error", "squared_error"}, optional
        What is added up over records; by default accuracy, or absolute error in regression.
    bound : float, optional
        The largest loss or error of a record that counts, from public knowledge; larger ones count
        as this. All but "accuracy" need it. The noise grows with it.
    neighbours : {"replace", "add_remove"}, default="replace"
        The relation of the guarantee.
    random_state : int, optional
        The seed of a simulation. None: each silo draws its own noise.

    Returns
    -------
    Scores
        Means of the measure over records, per silo and overall.
    """
    predictor = _predictor(model)
    what = Scored(*_measure(measure, federation.classes, bound, model), predictor)
    n = np.array([int(size) for size in federation.facts.silo_sizes.values()])
    mu = np.full(n.shape, gaussian_mu(float(epsilon), float(delta)))
    plan = SumPlan(SiloBudgets(n, mu, neighbours=neighbours), "score", (mu,))
    federation.agree_on_sums([plan], what, float(delta), random_state)
    sums = plan.question(0, what).each(federation, streams_for(random_state))
    std, names = plan.noised(0, what).std, federation.names
    return Scores(
        dict(zip(names, (sums / n + what.radius).tolist(), strict=True)),
        float((sums + n * what.radius).sum() / n.sum()),
        dict(zip(names, (std / n).tolist(), strict=True)),
        float(np.sqrt((std**2).sum())) / int(n.sum()),
        dict(federation.epsilons),
    )


def _measure(
    given: Measure | None, classes: Any, bound: float | None, model: Fitted
) -> tuple[Measure, float]:
    """Return the measure and its bound, as they were given or by default."""
    measure: Measure = given or ("absolute_error" if classes is None else "accuracy")
    choices = [m for m in get_args(Measure) if (m in OF_CLASSES) == (classes is not None)]
    if measure not in choices:
        raise ValueError(f"measure is one of {choices} here; got {measure!r}.")
    if measure == "log_loss" and not isinstance(model._loss(), LogLoss):
        raise ValueError(
            f'loss={model.loss!r} gives no probabilities: score by measure="accuracy".'
        )
    if measure == "accuracy":
        if bound is not None:
            raise ValueError("bound is for losses and errors; an answer is right or wrong.")
        return measure, 1.0
    if bound is None:
        raise ValueError(
            f"Give bound, the largest {measure} of a record that counts, from public knowledge."
        )
    return measure, float(bound)


def _predictor(model: Fitted) -> Predictor:
    """Return what silos need to predict by a fitted model."""
    found = getattr(model, "__dict__", {})
    arrays = {name: found[name] for name in _FITTED if name in found}
    if not arrays:
        raise Refused("Silos elsewhere score fitted linear models and networks; this is neither.")
    scaling = model.scaling_
    if isinstance(scaling, IdentityScaling) or getattr(scaling, "low", scaling) is None:
        scaling = None  # the arrays are in the units of X
    loss = model._loss()
    if type(loss).predict is not Loss.predict or type(loss).inverse_link is not Loss.inverse_link:
        raise Refused(f"{type(loss).__name__} predicts by code of its own, which is not sent.")
    predictor = Predictor(model.model_, arrays, scaling, loss.link == "log")
    try:
        pack(predictor)
    except WireError as error:
        raise Refused(f"The model cannot be sent to silos elsewhere. {error}") from error
    return predictor
