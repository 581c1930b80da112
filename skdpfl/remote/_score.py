"""Private scores of a fitted model at remote silos."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from skdpfl._arguments import check_choice
from skdpfl._surface import refuse_own_parts
from skdpfl._survival_times import refuse_survival
from skdpfl.federation import Measure, SiloBudgets, ask_score, measure_of, score_plan
from skdpfl.losses import Loss
from skdpfl.privacy import events
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.remote._federation import RemoteFederation, check_declared
from skdpfl.remote._row import Predictor, Scored
from skdpfl.remote._terms import Refused
from skdpfl.scaling import IdentityScaling

#: the arrays of a fitted linear model, and of a network
_FITTED = ("coef_", "intercept_", "coefs_", "intercepts_")


@dataclass(frozen=True)
class Scores:
    """Estimated scores of a model, per silo and over all records, with their noise.

    Attributes
    ----------
    per_silo : mapping
        Each silo's score; greater is better. Noise can move it outside its range. Empty with
        ``trust="secagg"``, which reveals no single silo's score.
    overall : float
        The score over all records.
    noise : mapping
        The standard deviation of the noise in each silo's score, in first-order approximation.
    overall_noise : float
        That of the score over all records.
    epsilon : mapping
        The cost to each silo, as computed by the silo.
    """

    per_silo: Mapping[str, float]
    overall: float
    noise: Mapping[str, float]
    overall_noise: float
    epsilon: Mapping[str, float]


def score_federation(
    model: Any,
    federation: RemoteFederation,
    *,
    epsilon: float,
    delta: float = 1e-5,
    measure: str | None = None,
    bound: float | None = None,
    trust: str | events.SecureAggregation = "silo",
    neighbours: events.Neighbours = "replace",
    unit: Literal["record", "person"] = "record",
    silos_per_person: int = 1,
    random_state: int | None = None,
) -> Scores:
    """Score a model privately on the records of remote silos; each silo pays for its answer.

    Every record (with ``unit="person"`` every person) has the same weight, whatever its weight in
    fits.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor, linear or a network.
    federation : RemoteFederation
        The silos; its facts have their sizes, which are public here.
    epsilon : float
        The cost to each silo. A silo of n records adds noise of about
        ``1.5 / (n epsilon)`` to its accuracy at usual deltas.
    delta : float, default=1e-5
        The delta of the cost.
    measure : str, optional
        The score. For classifiers "accuracy" (the default), "balanced_accuracy", "neg_log_loss",
        "neg_brier_score", "calibration_error" (lower is better), or, with two labels, "roc_auc" and
        "average_precision"; for regressors "neg_mean_absolute_error" (the default), "r2" or
        "d2_poisson". A record's loss or error is clipped at a bound; see Notes.
    bound : float, optional
        The value at which a record's log loss or absolute error is clipped, from public knowledge;
        the noise is proportional to it. By default log(100), the log loss of a probability of 1 %,
        or half the range of the model's ``target_bounds``.
    trust : {"silo", "secagg"} or SecureAggregation, default="silo"
        "silo": each silo adds its own noise. "secagg": each adds a share, and the server sees only
        the sum over all silos; there are no scores of single silos then.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation of the guarantee.
    unit : {"record", "person"}, default="record"
        What is protected. A person counts by the mean over their records; the sizes in the facts of
        ``federation`` are then numbers of persons.
    silos_per_person : int, default=1
        With ``unit="person"``: the assumed largest number of silos in which a person has records.
    random_state : int, optional
        The seed of a simulation. None: each silo draws its own noise.

    Returns
    -------
    Scores
        Estimates of the score, per silo and overall.

    Notes
    -----
    **Formal guarantee.** Each silo releases noised sums over its records, whose terms are bounded
    for any record: one sum, or three for "roc_auc", which share the epsilon. Scores are functions
    of these sums and of the silos' sizes, which are public here.

    For "r2" and "d2_poisson", a record's deviance is clipped at that of the middle of
    ``target_bounds`` from an end. "balanced_accuracy" divides by noisy counts and leaves out
    classes whose count may be noise alone. "roc_auc" counts predictions in 16 bins, whose edges are
    quantiles from noisy counts. Ties within a bin count one half, so without noise the error is at
    most half the probability that a positive and a negative share a bin, about 0.03. A score that
    noise leaves undefined, such as the area with one label, is NaN with infinite noise.
    """
    refuse_own_parts(model, Refused)
    refuse_survival(model, "score_federation")
    predictor = _predictor(model)
    what = _measure(measure, federation.classes, bound, model)
    n = np.array([int(size) for size in federation.facts.silo_sizes.values()])
    check_choice("trust", events.trust_name(trust), ("silo", "secagg"))
    check_choice("unit", unit, ("record", "person"))
    guarantee = events.read_guarantee(unit, trust, neighbours, silos_per_person)
    mu = gaussian_mu(float(epsilon), float(delta)) * guarantee.share_in_silo(len(n))
    budgets = SiloBudgets.of(guarantee, n, mu, events.spare_rounds_of(trust))
    plan = score_plan(what, budgets, mu)
    made = partial(Scored, model=predictor)
    federation.encoding = getattr(model, "schema_", None)
    federation.agree_on_sums([plan], made(what), float(delta), random_state)
    score = ask_score(what, plan, federation, streams_for(random_state), made)
    federation.end()
    each = list(zip(score.means, score.noises.tolist(), strict=True))
    scores = [score.measure.score(mean, noise) for mean, noise in each]
    errors = [score.measure.error(mean, noise) for mean, noise in each]
    own = not plan.budgets.as_one
    return Scores(
        dict(zip(federation.names, scores, strict=True)) if own else {},
        score.score,
        dict(zip(federation.names, errors, strict=True)) if own else {},
        score.error,
        dict(federation.epsilons),
    )


def _measure(asked: str | None, classes: Any, bound: float | None, model: Any) -> Measure:
    """Return the measure, or the default one."""
    name = asked or ("neg_mean_absolute_error" if classes is None else "accuracy")
    n_classes, targets = classes and len(classes), getattr(model, "target_bounds", None)
    measure = measure_of(name, n_classes=n_classes, bound=bound, targets=targets)
    if measure.reads == "log_probabilities" and not hasattr(model, "predict_proba"):
        raise ValueError(f'loss={model.loss!r} has no probabilities; use measure="accuracy".')
    return measure


def _predictor(model: Any) -> Predictor:
    """Return what silos need to predict with a fitted model."""
    fitted = getattr(model, "__dict__", {})
    arrays = {name: fitted[name] for name in _FITTED if name in fitted}
    if not arrays:
        raise Refused("Remote silos can score fitted linear models and networks only.")
    scaling = model.scaling_
    if isinstance(scaling, IdentityScaling) or getattr(scaling, "low", scaling) is None:
        scaling = None  # the arrays are in the units of X
    loss = model._loss()
    if type(loss).predict is not Loss.predict or type(loss).inverse_link is not Loss.inverse_link:
        raise Refused(f"The code for predictions of {type(loss).__name__} cannot be sent.")
    predictor = Predictor(model.model_, arrays, scaling, loss.link == "log")
    check_declared(predictor, "The model has a part")
    return predictor
