"""The plan of scaling features and target, with its releases, and how it is chosen.

It is chosen from public numbers (sizes, numbers of columns, bounds, budgets), before data are read.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from skdpfl.federation import SiloBudgets, SumPlan
from skdpfl.privacy.events import Composition
from skdpfl.scaling._magnitudes import LinearGrid, MagnitudeGrid
from skdpfl.scaling._maps import Array, Bounds
from skdpfl.scaling._moments import Columns, ColumnSums, Counts, Moments, RowMoments

Features = Literal["none", "bounds", "refined bounds", "private", "squash"]
Target = Literal["none", "refined bounds", "private"]


class Look(NamedTuple):
    """A planned noised sum over all silos' records (a look), and the share of mu that it costs.

    It does not include boxes, which follow from earlier looks: the noise does not depend on them.
    """

    share: float
    what: ColumnSums


@dataclass(frozen=True, eq=False)
class ScalingPlan:
    """The noised sums (looks) from which scales are estimated, and their cost.

    Attributes
    ----------
    budgets : SiloBudgets
    features : {"none", "bounds", "refined bounds", "private", "squash"}
        How features are scaled: not at all; by declared bounds, or these refined by noisy moments;
        estimated without bounds; or squashed.
    target : {"none", "refined bounds", "private"}
    counts : Look or None
        Counts for the magnitude of columns without bounds; or of features within bounds, which may
        be far too wide (data sheets, money), where counts are clear enough.
    target_bins : Look or None
        Counts for the position of the target within its bounds.
    moments : tuple of Look
        Means and variances; all but the first ones of rows in a ball.
    floor : float or None
        The smallest scale, in half boxes; None: no floor.
    advice : str
        Text of a UserWarning; "" for none.
    centred : bool
        False for models without an intercept: columns and target are scaled by their root mean
        square.
    indicators : ndarray of shape (n_features,) or None
        Features of 0 and 1 within bounds, whose scale is half their range: in units of its standard
        deviation, a rare one would add as much noise as a common one.
    purpose : str
        What the sums are for, which names their random streams.

    Notes
    -----
    **Formal guarantee.** Each look is a Gaussian mechanism of ``share * mu`` of Gaussian DP
    (:mod:`skdpfl.scaling._moments`); later looks depend on earlier ones only through their noisy
    values (adaptive composition). The silo pays for the releases in ``composition(silo)``:
    ``share * mu`` of Gaussian DP in total.
    """

    budgets: SiloBudgets
    n_features: int
    features: Features
    target: Target
    feature_bounds: Bounds | None = None
    target_bounds: Bounds | None = None
    counts: Look | None = None
    moments: tuple[Look, ...] = ()
    floor: float | None = 0.2
    advice: str = field(default="", repr=False)
    centred: bool = True
    target_bins: Look | None = None
    indicators: np.ndarray | None = None
    purpose: str = "scales"

    @property
    def looks(self) -> tuple[Look, ...]:
        """All looks, in order."""
        counted = [look for look in (self.counts, self.target_bins) if look is not None]
        return (*counted, *self.moments)

    @property
    def is_free(self) -> bool:
        """Whether nothing is read from the data."""
        return not self.looks

    @property
    def share(self) -> float:
        """The share of mu that scaling spends; training keeps ``sqrt(1 - share**2)``."""
        return float(np.sqrt(sum(look.share**2 for look in self.looks)))

    @cached_property
    def sums(self) -> SumPlan:
        """The plan of the sums: counts have number 0 (a plan has at most one kind)."""
        counted = self.counts is not None or self.target_bins is not None
        mus = tuple(look.share * self.budgets.spends for look in self.looks)
        return SumPlan(self.budgets, self.purpose, mus, 0 if counted else 1)

    def composition(self, silo: int = 0) -> Composition:
        """The releases of the silo at this position, for the accountant."""
        return self.sums.composition(silo)

    @cached_property
    def features_read(self) -> np.ndarray:
        """The features that are read; those with equal bounds are ignored."""
        if self.features == "refined bounds" and self.feature_bounds is not None:
            return self.feature_bounds.used
        return np.full(self.n_features, self.features == "private")

    def within(self, bounds: Bounds) -> "ScalingPlan":
        """Return the plan for bounds that released numbers determine; its mus stay the same."""
        plan = replace(self, feature_bounds=bounds)

        def again(look: Look) -> Look:
            return look._replace(what=replace(look.what, columns=plan.columns))

        return replace(plan, moments=tuple(map(again, self.moments)))

    @property
    def reads_target(self) -> bool:
        """Whether the target is read."""
        return self.target != "none"

    @cached_property
    def columns(self) -> Columns:
        """All columns that are read."""
        return Columns(self.features_read, self.reads_target)

    @cached_property
    def without_bounds(self) -> Columns:
        """The columns that are read and have no bounds."""
        used = np.full(self.n_features, self.features == "private")
        return Columns(used, self.target == "private")

    @property
    def within_bounds(self) -> Columns:
        """The features with bounds whose magnitudes can be counted: all but indicators."""
        fixed = np.zeros(self.n_features, bool) if self.indicators is None else self.indicators
        return Columns(self.features_read & ~fixed, False)

    @property
    def floors(self) -> Array | float | None:
        """The smallest scale of each column that is read, in half boxes."""
        if self.floor is None or self.indicators is None or self.features != "refined bounds":
            return self.floor
        fixed = np.append(self.indicators[self.features_read], [False] * self.reads_target)
        return np.where(fixed, 1.0, self.floor)

    @property
    def is_feature(self) -> np.ndarray:
        """Which of the columns are features; the last may be the target."""
        return self.columns.is_feature

    @cached_property
    def unbounded(self) -> np.ndarray:
        """Which of the columns have no bounds."""
        return np.where(self.is_feature, self.features == "private", self.target == "private")

    @property
    def counted(self) -> np.ndarray:
        """Which of the columns are counted: those without bounds, or features within bounds."""
        if self.counts is None or self.unbounded.any():
            return self.unbounded
        used = self.counts.what.columns.used[self.features_read]
        return np.append(used, np.zeros(int(self.reads_target), bool))

    def noise(self, look: Look) -> Array:
        """Standard deviation of the noise in each column's mean contribution (weight 1)."""
        noised = look.what.noised(self.budgets, look.share * self.budgets.spends)
        return self.budgets.noise_of_mean(noised.std) / look.what.columns.weights


#: enough records: more are read only if the noise is small enough
_PLENTY = 2**16
#: noise of a typical feature's mean, in half ranges, above which moments are useless
_USELESS = 0.5
#: a typical deviation, in half ranges
_TYPICAL = 0.3
#: noise of a target's mean, in half ranges, above which its bins are counted first, until noise of
#: a bin is half of that; the share of mu for it (bounds five times too wide: R2 below 0 without)
_COARSE, _BINS_SHARE = 0.12, 0.2
#: the largest share for counts in which few values beside zeros show (no more than for others: R2
#: -.046 at worst)
_SPARSE_SHARE = 0.25
#: noise of counts that are worth it within bounds (none: score -.51 at worst, with bounds that are
#: a hundred times too wide)
_CLEAR_COUNTS = 0.05
#: counts noisier than this find no scales, and columns are squashed (never: AUC -.165 at worst)
HOPELESS = 0.25


@dataclass(frozen=True)
class Shares:
    """The largest shares of mu for scaling.

    With bounds: moments, and two further releases of whole rows; before them counts, if they are
    clear enough at their share (0: never). Without: counts, moments after them, and one further
    release. A target with bounds may be counted first, see ``_with_target_bins``. A share is
    reduced as long as the noise of a mean (in half ranges; of a count in shares of the records)
    stays below ``enough`` and, with bounds and in standard deviations, below ``precise``; that of
    counts until ``sparse``, where columns of mostly zeros show, or within bounds until ``clear``.
    ``floor`` is the smallest scale, in half ranges.
    """

    #: within bounds: training has 11 % more noise, 18 % with counts (without the second sum of
    #: rows: score -.078 at worst)
    bounded: float = 0.3
    rows: float = 0.22
    counts_in_bounds: float = 0.3
    #: without bounds: 19 % more noise
    counts: float = 0.42
    moments: float = 0.27
    rows_after_counts: float = 0.2
    #: noise at which more budget is better spent on training
    enough: float = 0.03
    sparse: float = 0.01
    precise: float = 0.2
    #: a scale that is too small loses a column; one that is too large clips it
    floor: float | None = 0.2
    clear: float = _CLEAR_COUNTS


#: scaling before training, which gets at least 0.85 or 0.84 of mu; where noise is given, and mu
#: is a guess; scaling alone
TRAINING, GIVEN_NOISE = Shares(), Shares(sparse=0.015)
EVERYTHING = Shares(
    bounded=3**-0.5, rows=3**-0.5, counts_in_bounds=0.0, counts=0.5**0.5, moments=0.5,
    rows_after_counts=0.5, enough=0.0, precise=0.0, floor=None,
)  # fmt: skip


def plan_scaling(
    budgets: SiloBudgets,
    n_features: int,
    *,
    scaling: Literal["auto", "private"] | None = "auto",
    feature_bounds: Bounds | None = None,
    target_bounds: Bounds | None = None,
    has_target: bool = False,
    shares: Shares = TRAINING,
    centred: bool = True,
    indicators: np.ndarray | None = None,
) -> ScalingPlan:
    """Choose the plan of scaling.

    Parameters
    ----------
    given : SiloBudgets
        The whole fit's budgets; ``inf`` for no privacy.
    n_features : int
    scaling : {"auto", "private"} or None
        "auto" squashes the features if scales cannot be estimated, "private" never does; None: no
        scaling.
    feature_bounds, target_bounds : Bounds, optional
        Public bounds of features and target.
    has_target : bool
        Whether there is a target to scale (regression).
    shares : Shares
        The largest shares of the budget for scaling.
    centred : bool
        False: scale without centring, for models without an intercept.
    indicators : ndarray of shape (n_features,), optional
        Which features are 0 or 1.

    Returns
    -------
    ScalingPlan
    """
    plan = ScalingPlan(
        budgets, n_features, "none", "none", feature_bounds, target_bounds,
        floor=shares.floor, centred=centred, indicators=indicators,
    )  # fmt: skip
    if scaling is None:
        return plan
    if has_target:
        plan = replace(plan, target="private" if target_bounds is None else "refined bounds")
    chosen = _chosen(plan, scaling, shares)
    if budgets.unit == "silo" and target_is_hopeless(chosen):
        return with_advice(_chosen(replace(plan, target="none"), scaling, shares), "left as it is")
    return with_advice(chosen)


def _chosen(plan: ScalingPlan, scaling: str, shares: Shares) -> ScalingPlan:
    if plan.feature_bounds is not None:
        return _refined(plan, shares)
    private = _with_looks(replace(plan, features="private"), shares)
    if scaling == "private" or counts_noise(private) <= HOPELESS:
        return private
    return _with_looks(replace(plan, features="squash"), shares)


def _refined(plan: ScalingPlan, shares: Shares) -> ScalingPlan:
    """Refine declared bounds by private moments, unless the noise is too large."""
    better = _with_looks(replace(plan, features="refined bounds"), shares)
    n_read = int(better.features_read.sum())
    if n_read and better.noise(better.moments[0])[0] <= _USELESS * np.sqrt(n_read):
        return better
    return _with_looks(replace(plan, features="bounds"), shares)


def _with_looks(plan: ScalingPlan, shares: Shares) -> ScalingPlan:
    """Add the looks, each with the least share that is precise enough."""
    if not plan.is_feature.size:
        return plan
    plan = replace(plan, budgets=_with_fewer_records(plan, shares))
    if not plan.unbounded.any():
        bounded = _with_target_bins(replace(plan, moments=_looks_in_bounds(plan, shares)))
        if bounded.target_bins is not None:
            return bounded
        return _with_counts(bounded, shares)
    most = (shares.counts, shares.enough), (_SPARSE_SHARE, shares.sparse)
    each = [_with_least_share(plan, _counts(plan, share), noise) for share, noise in most]
    counts = max(each, key=lambda look: look.share)
    moments = _with_least_share(plan, Look(shares.moments, Moments(plan.columns)), shares.enough)
    rows = _rows(plan, shares.rows_after_counts, shares)
    return replace(plan, counts=counts, moments=(moments, rows))


def _counts(plan: ScalingPlan, share: float) -> Look:
    """Counts of the columns without bounds."""
    return Look(share, Counts(plan.without_bounds, MagnitudeGrid()))


def _with_counts(plan: ScalingPlan, shares: Shares) -> ScalingPlan:
    """Count the magnitudes of features with bounds, which may be far too wide, if that is cheap."""
    columns, share = plan.within_bounds, shares.counts_in_bounds
    if not (share and columns.used.any() and plan.features == "refined bounds"):
        return plan
    look = Look(share, Counts(columns, MagnitudeGrid()))
    if plan.noise(look).max() / plan.budgets.excess > _CLEAR_COUNTS:
        return plan
    return replace(plan, counts=_with_least_share(plan, look, shares.clear))


def _looks_in_bounds(plan: ScalingPlan, shares: Shares) -> tuple[Look, ...]:
    """Moments in known boxes, then twice those of rows in a ball around the last estimates."""
    first = Look(shares.bounded, Moments(plan.columns))
    first = _with_least_share(plan, first, _TYPICAL * shares.precise)
    return first, *[_rows(plan, shares.rows, shares)] * 2


def _with_target_bins(plan: ScalingPlan) -> ScalingPlan:
    """Count the target in a few bins first, if noise would dominate moments within its bounds."""
    bounds = plan.target_bounds
    if plan.target != "refined bounds" or bounds is None or plan.budgets.unit == "silo":
        return plan
    if plan.noise(plan.moments[0])[-1] <= _COARSE:
        return plan
    grid = LinearGrid(float(bounds.low[0]), float(bounds.high[0]))
    target = Columns(np.zeros(plan.n_features, bool), True)
    bins = _with_least_share(plan, Look(_BINS_SHARE, Counts(target, grid)), _COARSE / 2)
    return replace(plan, target_bins=bins)


def _rows(plan: ScalingPlan, share: float, shares: Shares) -> Look:
    """Moments of rows in a ball."""
    return _with_least_share(plan, Look(share, RowMoments(plan.columns)), shares.precise)


def _with_fewer_records(plan: ScalingPlan, shares: Shares) -> SiloBudgets:
    """Read only a part of the records if noise is small enough at a third of the shares."""
    budgets = plan.budgets
    if not shares.enough:
        return budgets
    if budgets.unit == "silo":
        return replace(budgets, most=max(1, _PLENTY // budgets.n_silos))
    n = int(np.sum(budgets.silo_sizes))
    if n < 2 * _PLENTY or budgets.unit == "person":
        return budgets
    looks = [Look(shares.moments / 3, Moments(plan.columns))]
    if plan.unbounded.any():
        looks.append(_counts(plan, shares.counts / 3))
    noise = max(plan.noise(look).max() for look in looks)
    room = shares.enough / noise if noise > 0 else np.inf
    return replace(budgets, every=int(max(1, min(n // _PLENTY, room))))


def _with_least_share(plan: ScalingPlan, look: Look, enough: float) -> Look:
    """Return the look with the smallest share that is precise enough, at most its own."""
    if not enough:
        return look
    needed = look.share * plan.noise(look).max() / plan.budgets.excess / enough
    return look._replace(share=float(min(look.share, max(needed, 1e-3))))


def with_advice(plan: ScalingPlan, target: str = "") -> ScalingPlan:
    """Add advice if the budget is too small; ``target``: text on what happens to the target."""
    advice = []
    if plan.features == "squash":
        advice.append(
            f"The budget is too small to estimate the scales of {plan.n_features} features "
            f"privately from {_silos(plan)}, so features are squashed into (-1, 1) whatever their "
            "scale, which costs accuracy. Give feature_bounds=(low, high), public ranges of the "
            "features, or scale them first by public numbers and set scaling=None."
        )
    elif plan.features == "private" and counts_noise(plan) > HOPELESS:
        advice.append(
            f"The scales of {plan.n_features} features, estimated privately from {_silos(plan)}, "
            "will be mostly noise. Give feature_bounds=(low, high)."
        )
    if target or target_is_hopeless(plan):
        how = f"cannot be estimated privately from {_silos(plan)}, so it is {target}"
        if not target:
            how = f"estimated privately from {_silos(plan)} will be mostly noise"
        advice.append(
            f"The target's scale {how}. Give target_bounds=(low, high), its public range."
        )
    return replace(plan, advice=" ".join(advice))


def _silos(plan: ScalingPlan) -> str:
    """Return text on the amount of data, without protected sizes."""
    if plan.budgets.unit == "silo":
        return f"{plan.budgets.n_silos} protected silos"
    n_silos, n = plan.budgets.n_silos, int(np.sum(plan.budgets.silo_sizes))
    return f"{n} records of one silo" if n_silos == 1 else f"{n} records of {n_silos} silos"


def target_is_hopeless(plan: ScalingPlan) -> bool:
    """Whether the target's scale would be mostly noise."""
    alone = plan.target == "private" and plan.features != "private"
    return alone and counts_noise(plan) > HOPELESS


def counts_noise(plan: ScalingPlan) -> float:
    """The counts' noise, in shares of all records."""
    return float(plan.noise(plan.counts).max()) if plan.counts is not None else 0.0
