"""Which columns an additive model adds, from public numbers.

With s the noise of the whole fit on each coordinate of the mean gradient, in clip norms, ``2 / s``
is what n mu is at a trusted server: n records of budget mu; n mu / sqrt(m) where each of m equal
silos adds its own noise. With d columns that may have curves, and p pairs of columns::

    curves       from 2 / s = 50 d on        8 pieces each
    their bins   from 2 / s = 100 d on       4 quantiles each
    products     from 2 / s = 15 p on, with at most 12 columns that may have curves
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

from skdpfl.choosing._noise_level import NoiseLevel
from skdpfl.choosing._request import Request
from skdpfl.federation import SiloBudgets
from skdpfl.models import Additive
from skdpfl.scaling import CurvePlan

#: the part of mu squared for the histogram
_SHARE = 0.1
#: the least 2 / s for each column's curve, its bins, and each product; the most columns for these
_CURVE, _BINS, _PAIR, _FEW = 50.0, 100.0, 15.0, 12
#: pieces of a curve, and pieces for each quantile that is a bin
_KNOTS, _PER_BIN = 8, 2


def plan_curves(request: Request, level: NoiseLevel, asked: Additive) -> CurvePlan | None:
    """Return what is added to the columns of a request, None for nothing."""
    asked.check()
    facts, bounds = request.facts, request.feature_bounds
    assert bounds is not None
    used = bounds.used
    indicators = np.zeros(used.size, bool) if facts.indicators is None else facts.indicators
    columns = np.flatnonzero(used & ~indicators)
    amount = 2 / level.noise if level.noise > 0 else math.inf
    each = amount / max(1, columns.size)
    knots, quantiles = asked.knots, 0
    if knots == "auto":
        knots = _KNOTS if each >= _CURVE else 0
        quantiles = _KNOTS // _PER_BIN if each >= _BINS else 0
    else:
        quantiles = knots // _PER_BIN
    few = columns.size <= _FEW
    pairs = _pairs(asked.interactions, np.flatnonzero(used), facts.feature_names, few, amount)
    if not knots:
        columns = columns[:0]
    if not (columns.size or len(pairs)):
        return None
    sizes = np.ones(facts.n_silos) if facts.public_sizes is None else facts.public_sizes
    given = SiloBudgets.of(request.promise, sizes, level.mu)
    names = facts.feature_names
    features = [f"x{j}" for j in range(used.size)] if names is None else [str(n) for n in names]
    return CurvePlan(
        given, tuple(features), bounds, columns, int(knots), quantiles, pairs, math.sqrt(_SHARE)
    )


def _pairs(asked: Any, used: np.ndarray, names: Any, few: bool, amount: float) -> np.ndarray:
    """Return the pairs of features (n, 2) whose products are added."""
    if isinstance(asked, str):
        n_pairs = used.size * (used.size - 1) / 2
        asked = few and amount >= _PAIR * n_pairs
    if isinstance(asked, bool):
        found = list(combinations(used.tolist(), 2)) if asked else []
    else:
        found = [(_number(a, names), _number(b, names)) for a, b in asked]
        strange = [pair for pair in found if not np.isin(pair, used).all()]
        if strange:
            raise ValueError(f"interactions: {strange[0]} are not two features that are used.")
    return np.array(found, np.int64).reshape(-1, 2)


def _number(feature: Any, names: Any) -> int:
    """Return the number of a feature that is named, or is a number."""
    known = [] if names is None else list(names)
    if feature in known:
        return known.index(feature)
    if isinstance(feature, int):
        return feature
    raise ValueError(f"interactions names {feature!r}, which is no feature; there are {known!r}.")
