"""The second question of every hospital: how good is the model here?"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from skdpfl._arguments import check_choice
from skdpfl._surface import refuse_own_parts
from skdpfl.federation import Measure, SiloBudgets, ask_score, measure_of, score_plan
from skdpfl.losses import Loss
from skdpfl.models import Model
from skdpfl.privacy.events import Neighbours, SecureAggregation, read_trust
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.remote._declared import pack
from skdpfl.remote._federation import RemoteFederation
from skdpfl.remote._measures import Predictor, Scored
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
        Each silo's score; greater is better. Noise can carry it out of its range. Empty with
        ``trust="secagg"``, which shows nobody a silo's own.
    overall : float
        The score over all records.
    noise : mapping
        The standard deviation of the noise in each silo's score, to first order.
    overall_noise : float
        That of the score over all records.
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
    measure: str | None = None,
    bound: float | None = None,
    trust: str | SecureAggregation = "silo",
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
    measure : str, optional
        What greater is better of: of labels "accuracy" (the default), "balanced_accuracy",
        "neg_log_loss" or "roc_auc" (of two labels); of numbers "neg_mean_absolute_error" (the
        default) or "r2". A record's loss or error counts up to a bound; see Notes.
    bound : float, optional
        The largest log loss or absolute error of a record that counts, from public knowledge;
        larger ones count as this, and the noise grows with it. By default log(100), that of a
        probability of 1 %, and half the range of the model's ``target_bounds``.
    trust : {"silo", "secagg"} or SecureAggregation, default="silo"
        "silo": each silo adds noise of its own. "secagg": each adds a share, and the server sees
        the sum over all silos only; there are no scores of single silos then.
    neighbours : {"replace", "add_remove"}, default="replace"
        The relation of the guarantee.
    random_state : int, optional
        The seed of a simulation. None: each silo draws its own noise.

    Returns
    -------
    Scores
        Estimates of the score, per silo and overall.

    Notes
    -----
    **Formal guarantee.** Each silo releases noised sums of its records' terms, which are bounded
    whatever a record holds: one sum, or three for "roc_auc", which share the epsilon. Scores are
    functions of these sums and of the silos' sizes, which are public here.

    Squared errors of "r2" count up to the square of half the range of ``target_bounds``.
    "balanced_accuracy" divides by noisy counts and leaves out a class that noise may have made.
    "roc_auc" counts scores in 16 bins, quantiles of noisy counts; a tie within a bin counts one
    half, so without noise it is off by at most half the chance that a positive and a negative share
    a bin, about .03.
    """
    refuse_own_parts(model, Refused)
    predictor = _predictor(model)
    what = _measure(measure, federation.classes, bound, model)
    n = np.array([int(size) for size in federation.facts.silo_sizes.values()])
    mu, (said, colluding, spare) = gaussian_mu(float(epsilon), float(delta)), read_trust(trust)
    check_choice("trust", said, ("silo", "secagg"))
    budgets = SiloBudgets(
        n,
        np.full(n.shape, mu),
        trust=said,
        neighbours=neighbours,
        colluding=colluding,
        spare=min(spare, 1),
    )
    plan = score_plan(what, budgets, mu)
    made = partial(Scored, model=predictor)
    federation.agree_on_sums([plan], made(what), float(delta), random_state)
    found = ask_score(what, plan, federation, streams_for(random_state), made)
    each = list(zip(found.means, found.noises.tolist(), strict=True))
    scores = [found.measure.score(mean, noise) for mean, noise in each]
    errors = [found.measure.error(mean, noise) for mean, noise in each]
    own = not plan.budgets.as_one
    return Scores(
        dict(zip(federation.names, scores, strict=True)) if own else {},
        found.score,
        dict(zip(federation.names, errors, strict=True)) if own else {},
        found.error,
        dict(federation.epsilons),
    )


def _measure(given: str | None, classes: Any, bound: float | None, model: Fitted) -> Measure:
    """Return the measure, as it was given or by default."""
    name = given or ("neg_mean_absolute_error" if classes is None else "accuracy")
    if name == "neg_log_loss" and not hasattr(model, "predict_proba"):
        raise ValueError(f'loss={model.loss!r} gives no probabilities: score by "accuracy".')
    return measure_of(
        name,
        n_classes=None if classes is None else len(classes),
        bound=bound,
        targets=getattr(model, "target_bounds", None),
    )


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
