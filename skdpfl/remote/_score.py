"""The second question of every hospital: how good is the model here?"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.pricing.price import Neighbours
from skdpfl.remote._federation import RemoteFederation, SilosMissing, told
from skdpfl.remote._letters import Agreement, Answer, Ask, Facts, Offer
from skdpfl.remote._refused import Refused
from skdpfl.remote._score_row import LinearPredictor, Measure, ScoreRow
from skdpfl.scaling import SquashScaling


class FittedLinear(Protocol):
    """A fitted linear model of this package."""

    coef_: np.ndarray
    intercept_: np.ndarray
    scaling_: Any
    n_features_in_: int


@dataclass(frozen=True)
class Scores:
    """How good a model is, silo by silo and over all records; estimates, with their noise.

    Attributes
    ----------
    per_silo : mapping
        Each silo's accuracy, or mean absolute error cut at the bound. Noise can carry it out of
        its range.
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
    model: FittedLinear,
    federation: RemoteFederation,
    *,
    epsilon: float,
    delta: float = 1e-5,
    bound: float | None = None,
    neighbours: Neighbours = "replace",
    random_state: int | None = None,
) -> Scores:
    """Ask silos elsewhere how good a model is at their records; each pays for its answer.

    Parameters
    ----------
    model : estimator
        A fitted linear classifier or regressor.
    federation : RemoteFederation
        The silos; its facts tell their sizes, which are public here.
    epsilon : float
        What the answer costs each silo. A silo of n records adds noise of about
        ``1.5 / (n epsilon)`` to its accuracy at usual deltas.
    delta : float, default=1e-5
        The delta that it is priced at.
    bound : float, optional
        Regression only: the largest absolute error that counts, from public knowledge; larger ones
        count as this.
    neighbours : {"replace", "add_remove"}, default="replace"
        The relation of the guarantee.
    random_state : int, optional
        The seed of a simulation. None: each silo draws its own noise.

    Returns
    -------
    Scores
        Accuracies, or mean absolute errors, per silo and overall.
    """
    facts, classes = federation.facts, federation.classes
    measure, bound = _measure(classes, bound)
    predictor = _predictor(model)
    z = (2 if neighbours == "replace" else 1) / gaussian_mu(float(epsilon), float(delta))
    names = None if facts.feature_names is None else tuple(map(str, facts.feature_names))
    fit, offers, rows = secrets.token_hex(8), {}, {}
    for i, (name, size) in enumerate(zip(federation.names, facts.silo_sizes.values(), strict=True)):
        row = ScoreRow(name, int(size), delta, neighbours, z, measure, bound, predictor)
        known = Facts(int(facts.n_features), names, classes, facts.dtype, int(size))
        offers[name] = Offer(fit, f"score of {federation.estimator}", known, row, i, random_state)
        rows[name] = row
    agreed, reasons = federation.exchange(offers, Agreement)
    if reasons:
        raise SilosMissing(f"Some silos do not answer how good a model is. {told(reasons)}")
    asks = dict.fromkeys(offers, Ask(fit, "score", 0, None, float("inf")))
    answers, reasons = federation.exchange(asks, Answer)
    reasons |= {n: "no single number" for n, a in answers.items() if a.values.shape != (1,)}
    if reasons:
        raise SilosMissing(f"Some silos were asked and did not answer. {told(reasons)}")
    return _scores(rows, {n: float(a.values[0]) for n, a in answers.items()}, agreed)


def _measure(classes: Any, bound: float | None) -> tuple[Measure, float]:
    if classes is not None:
        if bound is not None:
            raise ValueError("bound is for regression; a classifier's answers are right or wrong.")
        return "accuracy", 1.0
    if bound is None:
        raise ValueError(
            "Give bound, the largest absolute error that counts, from public knowledge."
        )
    return "absolute_error", float(bound)


def _predictor(model: FittedLinear) -> LinearPredictor:
    if not isinstance(getattr(model, "coef_", None), np.ndarray):
        raise Refused("Silos elsewhere score linear models; this one has no coef_.")
    scaling = None if model.scaling_.affine else model.scaling_
    if scaling is not None and type(scaling) is not SquashScaling:
        raise Refused(f"{type(scaling).__name__} is not known to silos elsewhere.")
    coef = np.atleast_2d(model.coef_)
    link = getattr(model, "loss", None) == "poisson"
    return LinearPredictor(coef, np.atleast_1d(model.intercept_), scaling, link)


def _scores(rows: dict[str, ScoreRow], sums: dict[str, float], agreed: dict[str, Any]) -> Scores:
    n = {name: row.size for name, row in rows.items()}
    half = {name: row.bound / 2 for name, row in rows.items()}
    std = {name: float(np.ravel(row.noised.std)[0]) for name, row in rows.items()}
    total = sum(n.values())
    return Scores(
        {name: sums[name] / n[name] + half[name] for name in rows},
        sum(sums[name] + n[name] * half[name] for name in rows) / total,
        {name: std[name] / n[name] for name in rows},
        float(np.sqrt(sum(s**2 for s in std.values()))) / total,
        {name: agreed[name].epsilon for name in rows},
    )
