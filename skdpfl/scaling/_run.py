"""Run a scaling plan: from noisy counts to boxes, from noisy moments to centers and scales.

Everything here is computed from public numbers and noised sums, whose privacy is stated in
:mod:`skdpfl.scaling._moments`. Warnings tell what released counts show of features without scales.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from skdpfl.federation import CohortSum, Federation
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import _moments
from skdpfl.scaling._choice import ScalingPlan
from skdpfl.scaling._magnitudes import Estimate, MagnitudeGrid, seen_in_bins, shape_library
from skdpfl.scaling._maps import (
    SURE_DEVIATIONS,
    AffineScaling,
    AffineTarget,
    Array,
    Bounds,
    IdentityScaling,
    Scales,
    Scaling,
    SquashScaling,
    affine_from_bounds,
    deviations_of_all,
)
from skdpfl.scaling._moments import (
    HALF,
    Boxes,
    boxes_around,
    center_and_scale,
    estimate,
    refine,
    target_is_unresolved,
)

_UNSEEN = (
    "By the noisy counts, all features are 0 in nearly all records (values below 1e-6 count as 0), "
    "so their scales were not found. Give feature_bounds, or values in other units."
)
_FAR_FROM_CENTER = (
    "{} are beyond 5e11 in many records, which is outside the range for scales, so the model may "
    "be useless. Give them in other units, or subtract a public number (days since a date, not "
    "nanoseconds since 1970), or give feature_bounds."
)
_MISSED = (
    "{} are outside feature_bounds in many records, by estimates within the budget, so little may "
    "be learnt from them. Check the units and the order of columns; give public ranges that "
    "contain nearly all values."
)


def doubts_about(
    far: tuple[int, ...],
    unseen: bool,
    missed: tuple[int, ...] = (),
    names: Sequence[Any] | None = None,
) -> list[str]:
    """Return warnings about features that released counts and moments show to be out of range."""
    doubts = [_UNSEEN] if unseen else []
    for text, features in ((_FAR_FROM_CENTER, far), (_MISSED, missed)):
        doubts += [text.format(values_of(features, names))] if features else []
    return doubts


def values_of(features: tuple[int, ...], names: Sequence[Any] | None = None) -> str:
    """Return text that names the features whose values are meant, by their columns if these do."""
    known = () if names is None else names
    shown = [repr(known[j]) if j < len(known) else str(j) for j in features[:5]]
    if len(features) == 1:
        return f"The values of feature {shown[0]}"
    more = ", ..." if len(features) > 5 else ""
    return f"The values of {len(features)} features ({', '.join(shown)}{more})"


#: warn of a wide column above this probability
_SURE_PROBABILITY = 0.95
#: a share that is a few values, and one that is many, but for so many deviations of the noise
_FEW_VALUES, _MANY_VALUES, _DEVIATIONS = 0.1, 0.3, 2.0
#: a range by counts that is narrower than bounds, in parts of them, takes their place
_NARROWER = 0.5
#: if many values are surely in so many octaves below its end
_TOP = 5


def run_scaling(plan: ScalingPlan, federation: Federation, streams: Streams) -> Scales:
    """Run the plan's releases and return the maps of features and target.

    The federation's silos are in the order of the plan's ``silo_sizes``; ``streams`` are those of
    the server's noise.
    """
    if plan.is_free:
        return Scales(_features_without_data(plan))
    if np.isinf(plan.budgets.spends).all():
        return _exact(plan, federation)
    return _scales(plan, find_moments(plan, ScalingRun(plan, federation, streams)))


class ScalingRun(NamedTuple):
    """A plan, its silos, and the server's random streams."""

    plan: ScalingPlan
    federation: Federation
    streams: Streams

    def mean(self, number: int, what: _moments.ColumnSums) -> Array:
        """Return the noisy mean contribution (columns, entries) over all silos."""
        question = self.plan.sums.question(number, what)
        return question.mean(self.federation, self.streams) / what.columns.weights[:, None]


class LearntMoments(NamedTuple):
    """What noisy sums show of columns: their boxes, and the moments within.

    From counts: ``wide``, the probability that a column's values spread over many powers of ten;
    ``beyond``, which columns have many values in the open bins at the ends; ``unseen``, whether all
    features seem to be 0, or too small for counts, in nearly all records; ``gathered``, whether
    nearly all values of the target are in two bins; ``narrow``, whether whole silos' target may
    vary by less than its scale can be. ``missed``: which columns have many values beyond their
    declared bounds.
    """

    boxes: Boxes
    wide: Array
    beyond: np.ndarray
    unseen: bool
    gathered: bool
    narrow: bool
    moments: Estimate
    missed: np.ndarray


def find_moments(plan: ScalingPlan, run: ScalingRun) -> LearntMoments:
    """Return boxes for all columns and moments in them, refined by rows around these."""
    counted = _boxes(plan, run)
    boxes, moments = counted[0], _first_look(plan, run, counted[0])
    excess, squared_noise = np.zeros((2, 3, plan.is_feature.size))
    for number, look in enumerate(plan.moments[1:], start=2):
        around, noise = boxes_around(boxes, moments, plan.is_feature), plan.noise(look)
        noisy = run.mean(number, _moments.RowMoments(plan.columns, around))
        moments = refine(moments, noisy, noise, plan.is_feature)
        excess += _excess(noisy[:, 0], noisy[:, 1] / HALF, around, *_declared(plan))
        squared_noise += np.stack([noise, noise, noise / HALF]) ** 2
    return LearntMoments(*counted, moments, _surely_above(excess, squared_noise))


def _declared(plan: ScalingPlan) -> tuple[Array, Array]:
    """Return the declared bounds of the columns; infinite ones of those without, and the target."""
    low, high = np.full((2, plan.is_feature.size), [[-np.inf], [np.inf]])
    if plan.features == "refined bounds" and plan.feature_bounds is not None:
        low[plan.is_feature] = plan.feature_bounds.low[plan.features_read]
        high[plan.is_feature] = plan.feature_bounds.high[plan.features_read]
    return low, high


def _excess(mean: Array, square: Array, around: Boxes, low: Array, high: Array) -> Array:
    """Return by how much noisy means of v, or of v^2, are beyond those of columns within bounds.

    v = (x - center) / half, cut towards 0, and every center is within the bounds. So each record's
    v of a column within them is between those of the bounds, whatever was cut, and v^2 is at most
    the larger of their squares: without noise nothing returned is above 0 (3, columns).
    """
    least, most = ((end - around.center) / around.half for end in (low, high))
    return np.stack([least - mean, mean - most, square - np.maximum(least**2, most**2)])


def _surely_above(excess: Array, squared_noise: Array) -> np.ndarray:
    """Whether any statistic (several, columns) of a column is above 0 by more than the noise.

    Together they are wrong as rarely as one of them at z = 4: once in 30,000 fits.
    """
    most = deviations_of_all(SURE_DEVIATIONS, excess.size)
    return np.asarray((excess > most * np.sqrt(squared_noise)).any(axis=0))


def _first_look(plan: ScalingPlan, run: ScalingRun, boxes: Boxes) -> Estimate:
    """Return moments in the boxes; the target's in a smaller one if its bins were counted."""
    bins, noise = plan.target_bins, plan.noise(plan.moments[0])
    if bins is None:
        noisy = run.mean(1, _moments.Moments(plan.columns, boxes))
        return estimate(noisy.T, noise, plan.is_feature)
    seen = seen_in_bins(run.mean(0, bins.what)[0], float(plan.noise(bins)[0]))
    whole = (0.0, 1.0, 1.0, 1.0)  # features keep their boxes
    prior = Estimate(*(np.where(plan.is_feature, *p) for p in zip(whole, seen, strict=True)))
    inner = boxes_around(boxes, prior, plan.is_feature)
    noisy = run.mean(1, _moments.Moments(plan.columns, inner))
    features = estimate(noisy.T, noise, plan.is_feature)
    target = refine(prior, noisy, noise, plan.is_feature)
    parts = zip(features, target, strict=True)
    return Estimate(*(np.where(plan.is_feature, *part) for part in parts))


def _boxes(plan: ScalingPlan, run: ScalingRun) -> tuple[Boxes, Array, np.ndarray, bool, bool, bool]:
    """Return the first six of `LearntMoments`: boxes are declared, or from noisy counts."""
    low, high = _declared(plan)
    wide, beyond = np.zeros(low.size), np.zeros(low.size, bool)
    unseen, gathered, narrow = False, False, False
    if plan.target == "refined bounds" and plan.target_bounds is not None:
        low[~plan.is_feature] = plan.target_bounds.low
        high[~plan.is_feature] = plan.target_bounds.high
    if plan.counts is not None:
        shares, where, noise = run.mean(0, plan.counts.what), plan.counted, plan.noise(plan.counts)
        drowned = deviations_of_all(_DEVIATIONS, MagnitudeGrid.n_bins) * noise > _MANY_VALUES
        unclear = drowned & plan.is_feature[where] & (plan.budgets.unit == "silo")
        targets = ~plan.is_feature[where] & (plan.budgets.unit == "silo")
        ranges, is_wide, is_narrow = shape_library().boxes(
            shares, noise, unclear, targets, plan.floor or 0.0
        )
        far = shares[:, [0, 2 * MagnitudeGrid.n_positive]]  # the two open bins
        is_far = far.max(axis=1) > _MANY_VALUES + deviations_of_all(_DEVIATIONS, far.size) * noise
        if not plan.unbounded.any():
            sure = _has_values(shares, noise, ranges) & ~is_far
            low, high = _narrower(low, high, where, ranges, sure)
            return _between(low, high), wide, beyond, unseen, gathered, narrow
        low[where], high[where] = ranges
        wide[where], beyond[where] = is_wide, is_far
        if plan.features == "private":
            zeros = shares[:, MagnitudeGrid.n_positive][plan.is_feature[where]]
            unseen = _all_zero(zeros, float(noise[0]))
        if plan.target == "private":
            in_two = float((shares[-1, :-1] + shares[-1, 1:]).max())
            gathered = in_two > 1 - _FEW_VALUES - _DEVIATIONS * float(noise[-1])
            narrow = bool(is_narrow[-1] > 1 - _SURE_PROBABILITY)
    return _between(low, high), wide, beyond, unseen, gathered, narrow


def _between(low: Array, high: Array) -> Boxes:
    return Boxes(low / 2 + high / 2, high / 2 - low / 2)


def _narrower(
    low: Array, high: Array, where: np.ndarray, bounds: Bounds, sure: np.ndarray
) -> tuple[Array, Array]:
    """Return the bounds, or ranges by counts that are sure, much narrower and within them.

    Counts tell the octaves of a column's values: those of years within (1970, 2020) are between
    1024 and 2048. Where in them the values lie is a guess, which must not overrule bounds.
    """
    counted = np.flatnonzero(where)[sure]
    edges = np.concatenate([[-np.inf], MagnitudeGrid.edges, [np.inf]])
    least, most = bounds.low[sure], bounds.high[sure]
    inner = np.maximum(low[counted], least), np.minimum(high[counted], most)
    octaves = (
        np.maximum(low[counted], edges[np.searchsorted(edges, least, side="right") - 1]),
        np.minimum(high[counted], edges[np.searchsorted(edges, most, side="left")]),
    )
    at_most = _NARROWER * (high - low)[counted]
    narrowed = (inner[1] > inner[0]) & (inner[1] - inner[0] < at_most)
    narrowed &= octaves[1] - octaves[0] < at_most
    low, high = low.copy(), high.copy()
    low[counted[narrowed]], high[counted[narrowed]] = inner[0][narrowed], inner[1][narrowed]
    return low, high


def _has_values(shares: Array, noise: Array, bounds: Bounds) -> np.ndarray:
    """Return whether many values surely lie in the top octaves of ranges, by noisy shares.

    A range that noise alone suggests, far below or above a column's values, has none there.
    """
    low, high, edges = bounds.low[:, None], bounds.high[:, None], MagnitudeGrid.edges
    largest = np.maximum(np.abs(low), np.abs(high))
    near = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])) >= largest * 2.0**-_TOP
    within = near & (edges[1:] > low) & (edges[:-1] < high)
    ones = (low <= 1) & (high >= 1) & (largest <= 2.0**_TOP)
    within = np.concatenate([within, ones], axis=1)
    most = _MANY_VALUES + _DEVIATIONS * noise * np.sqrt(within.sum(axis=1))
    return np.asarray((shares * within).sum(axis=1) > most)


def _all_zero(zeros: Array, noise: float) -> bool:
    """Whether, by noisy shares of zeros, no column has enough other values for the counts to show.

    Counts show values whose share is above two deviations of the noise. Many columns together are
    more informative: their mean share of other values has to be surely small, too.
    """
    several = zeros.mean() - _DEVIATIONS * noise / np.sqrt(zeros.size) >= 1 - _FEW_VALUES
    return bool(several and zeros.min() >= 1 - deviations_of_all(_DEVIATIONS, zeros.size) * noise)


def _scales(plan: ScalingPlan, learnt: LearntMoments) -> Scales:
    affine = center_and_scale(learnt.boxes, learnt.moments, plan.floors, plan.is_feature)
    maps = _maps(plan, *affine)
    features, beyond = np.flatnonzero(plan.features_read), learnt.beyond[plan.is_feature]
    wide = (learnt.wide[plan.is_feature] > _SURE_PROBABILITY) & ~beyond
    missed = learnt.missed[plan.is_feature]
    maps = replace(
        maps,
        missed_features=tuple(features[missed].tolist()),
        wide_features=tuple(features[wide].tolist()),
        far_features=tuple(features[beyond].tolist()),
        unseen_features=learnt.unseen,
    )
    if not plan.reads_target:
        return maps
    bounded = plan.target == "refined bounds"
    coarse = target_is_unresolved(learnt.moments, plan.floor, bounded, learnt.gathered)
    error, narrow = float(learnt.moments.mean_error[-1]), learnt.narrow
    return replace(maps, coarse_target=coarse, narrow_target=narrow, target_error=error)


def _exact(plan: ScalingPlan, federation: Federation) -> Scales:
    """Standardise by exact moments, in fits without privacy; ignores values that are not finite."""
    count, total = _exact_sums(plan.columns, federation, 0)
    center = total / np.maximum(count, 1)
    _, squares = _exact_sums(plan.columns, federation, 1, center)
    scale = np.sqrt(squares / np.maximum(count, 1))
    return _maps(plan, center, np.where(scale > 0, scale, 1.0), np.where(scale > 0, 1.0, 0.0))


def _exact_sums(
    columns: _moments.Columns, federation: Federation, number: int, center: Array | None = None
) -> Array:
    """Return all silos' exact sums (2, columns), added in order."""
    n_silos, width = federation.n_silos, 2 * columns.is_feature.size
    total = CohortSum(np.arange(n_silos), np.ones(n_silos), width)
    for silos, answers in federation.ask(_moments.ExactMoments(columns, number, center)):
        total.add(silos, answers)
    return total.result().reshape(-1, 2).T


def _maps(plan: ScalingPlan, center: Array, scale: Array, spread: Array) -> Scales:
    """Return the maps of features and target, from the results for the columns read."""
    if not plan.centred:
        center, scale, spread = uncentred(center, scale, spread)
    target = AffineTarget()
    if plan.reads_target:
        target = AffineTarget(float(center[-1]), float(scale[-1]))
    if not plan.features_read.any():
        return Scales(_features_without_data(plan), target)
    ignored = (0.0, np.inf, 0.0)
    center, scale, spread = (
        _spread_out(plan, values, fill)
        for values, fill in zip((center, scale, spread), ignored, strict=True)
    )
    return Scales(AffineScaling(center, scale, _radius(plan, center, scale), spread), target)


def uncentred(center: Array, scale: Array, spread: Array) -> tuple[Array, Array, Array]:
    """Scale by the root mean square, without centring."""
    whole = np.hypot(center, scale)
    return np.zeros_like(center), whole, np.hypot(spread * scale, center) / whole


def _spread_out(plan: ScalingPlan, values: Array, fill: float) -> Array:
    """Return values for all features, from those of the features read."""
    full = np.full(plan.n_features, fill)
    full[plan.features_read] = values[plan.is_feature]
    return full


def _radius(plan: ScalingPlan, center: Array, scale: Array) -> float:
    """Bound on the norm of a scaled row within declared bounds."""
    bounds = plan.feature_bounds
    if bounds is None:
        return np.inf
    furthest = np.maximum(np.abs(bounds.low - center), np.abs(bounds.high - center))
    return float(np.sqrt(((furthest / scale) ** 2).sum()))


def _features_without_data(plan: ScalingPlan) -> Scaling:
    """Return the features' map if no feature is read."""
    if plan.features == "squash":
        return SquashScaling()
    if plan.features != "none" and plan.feature_bounds is not None:
        return affine_from_bounds(plan.feature_bounds, plan.centred)
    return IdentityScaling()
