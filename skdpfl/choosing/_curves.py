"""The columns that an additive model adds, chosen from public numbers.

Let s be the noise of the whole fit on each coordinate of the mean gradient, in clip norms. For n
records with budget mu, ``2 / s`` is n mu with a trusted server, and n mu / sqrt(m) if each of m
equal silos adds its own noise. With d columns that may have curves, and p pairs of columns::

                                 2 / s at least, for labels     for numbers
    curves of 8 pieces           90 d (140 d if more than two)  120 d
    their bins, 4 quantiles      170 d                          300 d
    products of numbers          80 p, p pairs of them          200 p
    of a number and an indicator 25 p, p pairs of them          25 p

Products need d of at most 12; products of two indicators are not used. P converged columns of
variance 1 reduce R2 by about ``25 (2 / s)^-2 P^2``, which is 0.007 at the limits for curves (P = 2
d) and bins (P = 5 d), and scores of rankings by less. Products with an indicator often gain much
more, so their limit is lower. The limits are from benchmarks/auto/additive.py, on other splits than
it shows.
"""

import math
from itertools import combinations
from typing import Any

import numpy as np

from skdpfl._arguments import is_auto
from skdpfl.choosing._noise_level import NoiseLevel
from skdpfl.choosing._request import Request
from skdpfl.federation import SiloBudgets
from skdpfl.models import Additive
from skdpfl.scaling import CurvePlan

#: the part of mu squared for the histogram
_SHARE = 0.1
#: the least 2 / s, see above; the most columns for products
_LABELS, _NUMBERS, _FEW = (90.0, 170.0, 80.0, 25.0), (120.0, 300.0, 200.0, 25.0), 12
#: the same of curves, for more than two classes, each of which has curves
_SEVERAL = 140.0
#: pieces of a curve, and pieces for each quantile that is a bin
_KNOTS, _PER_BIN = 8, 2


def plan_curves(request: Request, level: NoiseLevel, asked: Additive) -> CurvePlan | None:
    """Return the plan of the columns added to those of a request; None for none."""
    asked.check()
    facts, bounds = request.facts, request.feature_bounds
    assert bounds is not None
    used = bounds.used
    indicators = np.zeros(used.size, bool) if facts.indicators is None else facts.indicators
    columns = np.flatnonzero(used & ~indicators)
    amount = 2 / level.noise if level.noise > 0 else math.inf
    each = amount / max(1, columns.size)
    least = _LABELS if facts.is_classifier else _NUMBERS
    knots, quantiles = asked.knots, 0
    if is_auto(knots):
        enough = _SEVERAL if facts.n_outputs > 2 else least[0]
        knots = _KNOTS if each >= enough else 0
        quantiles = _KNOTS // _PER_BIN if each >= least[1] else 0
    else:
        quantiles = knots // _PER_BIN
    found = _pairs(asked.interactions, used, indicators, facts.feature_names)
    if is_auto(asked.interactions):
        of_numbers = ~indicators[found].any(axis=1)
        wanted = np.where(of_numbers, least[2] * of_numbers.sum(), least[3] * (~of_numbers).sum())
        found = found[(amount >= wanted) & (columns.size <= _FEW)]
    if not knots:
        columns = columns[:0]
    if not (columns.size or len(found)):
        return None
    sizes = np.ones(facts.n_silos) if facts.public_sizes is None else facts.public_sizes
    promise = request.promise
    given = SiloBudgets.of(promise.guarantee, sizes, level.mu, promise.spare_rounds)
    names = facts.feature_names
    features = [f"x{j}" for j in range(used.size)] if names is None else [str(n) for n in names]
    return CurvePlan(
        given, tuple(features), bounds, columns, int(knots), quantiles, found, math.sqrt(_SHARE)
    )


def _pairs(asked: Any, used: np.ndarray, indicators: np.ndarray, names: Any) -> np.ndarray:
    """Return the pairs of features (n, 2) whose products may be added."""
    if is_auto(asked) or isinstance(asked, bool):
        each = combinations(np.flatnonzero(used).tolist(), 2) if asked else ()
        found = [pair for pair in each if not indicators[list(pair)].all()]
    else:
        found = [(_number(a, names), _number(b, names)) for a, b in asked]
        strange = [pair for pair in found if not all(0 <= j < used.size and used[j] for j in pair)]
        if strange:
            raise ValueError(
                f"interactions: {strange[0]} must be two features that are not ignored."
            )
    return np.array(found, np.int64).reshape(-1, 2)


def _number(feature: Any, names: Any) -> int:
    """Return the number of a feature that is named, or is a number."""
    known = [] if names is None else list(names)
    if feature in known:
        return known.index(feature)
    if isinstance(feature, int):
        return feature
    raise ValueError(
        f"interactions names {feature!r}, which is not a feature; the features are {known!r}."
    )
