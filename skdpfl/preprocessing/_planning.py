"""Choosing how to scale, from public numbers only: sizes, numbers of columns, bounds, budgets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpfl.preprocessing._advice import HOPELESS, advised, counts_noise, target_is_hopeless
from skdpfl.preprocessing._bounds import Bounds
from skdpfl.preprocessing._frozen import Frozen, frozen, frozen_bounds, thawed_bounds
from skdpfl.preprocessing._magnitudes import MagnitudeGrid
from skdpfl.preprocessing._plan import Features, Release, ScalingPlan
from skdpfl.preprocessing._rows import Ball
from skdpfl.preprocessing._setting import Neighbours, Setting, Trust, Unit

#: records that are plenty: more are read only where the noise asks for them
_PLENTY = 2**16
#: a second round of moments pays below this noise
_SECOND_ROUND = 0.07
#: noise of the typical feature's mean, in half ranges, beyond which moments teach nothing
_USELESS = 0.5
#: a typical deviation, in half ranges
_TYPICAL = 0.3
#: bins of one octave where counts are less noisy than this, else of one and a half
_FINE = 0.05

#: plans are remembered up to this many silos
_REMEMBERED = 4096


@dataclass(frozen=True)
class Shares:
    """How much of mu scaling may take.

    Moments in known bounds, and two more looks at whole rows (0: none); or counts, moments after
    them, and one more look. Shares shrink until the noise of a mean (in half ranges; of a count in
    shares of the records) is no smaller than ``enough``, and inside known bounds, in deviations,
    than ``precise``. ``floor`` is the smallest scale, in half ranges.
    """

    bounded: float = 0.3
    again: float = 0.22
    counts: float = 0.42
    moments: float = 0.27
    after_counts: float = 0.2
    enough: float = 0.03
    precise: float = 0.2
    floor: float | None = 0.2


#: scaling before a training, which is left 0.90 or 0.84 of mu; scaling and nothing else
TRAINING = Shares()
EVERYTHING = Shares(
    bounded=1.0, again=0.0, counts=0.5**0.5, moments=0.5**0.5, enough=0.0, precise=0.0, floor=None
)


def plan_scaling(
    *,
    silo_sizes: ArrayLike,
    n_features: int,
    mu: ArrayLike,
    scaling: Literal["auto", "private"] | None = "auto",
    feature_bounds: Bounds | None = None,
    target_bounds: Bounds | None = None,
    has_target: bool = False,
    unit: Unit = "record",
    trust: Trust = "silo",
    neighbours: Neighbours = "replace",
    shares: Shares = TRAINING,
    centred: bool = True,
) -> ScalingPlan:
    """Decide how to scale.

    Parameters
    ----------
    silo_sizes : array-like of shape (n_silos,)
    n_features : int
    mu : float or array-like of shape (n_silos,)
        The whole fit's budget as Gaussian DP (under ``neighbours``); ``inf`` for no privacy.
    scaling : {"auto", "private"} or None
        "auto" squashes the features where finding scales is hopeless, "private" never does; None
        leaves everything alone.
    feature_bounds, target_bounds : Bounds, optional
        Public knowledge.
    has_target : bool
        Whether there is a target to scale (regression).
    unit, trust, neighbours : str
        What is protected, from whom.
    shares : Shares
        How much of the budget scaling may take.
    centred : bool
        False: zero stays zero, for models without an intercept.

    Returns
    -------
    ScalingPlan
    """
    sizes = np.asarray(silo_sizes)
    budgets = np.broadcast_to(np.asarray(mu, np.float64), sizes.shape)
    plan = _plan if sizes.size <= _REMEMBERED else _plan.__wrapped__
    return plan(
        frozen(sizes), frozen(budgets), frozen_bounds(feature_bounds),
        frozen_bounds(target_bounds), n_features, scaling, has_target, unit, trust, neighbours,
        shares, centred,
    )  # fmt: skip


@lru_cache(maxsize=32)
def _plan(
    sizes: Frozen,
    budgets: Frozen,
    feature_bounds: tuple[Frozen, Frozen] | None,
    target_bounds: tuple[Frozen, Frozen] | None,
    n_features: int,
    scaling: Literal["auto", "private"] | None,
    has_target: bool,
    unit: Unit,
    trust: Trust,
    neighbours: Neighbours,
    shares: Shares,
    centred: bool,
) -> ScalingPlan:
    """Decide from public numbers alone, once for fits that share them."""
    setting = Setting(sizes.array(), budgets.array(), unit, trust, neighbours)
    plan = ScalingPlan(
        setting, n_features, "none", "none", thawed_bounds(feature_bounds),
        thawed_bounds(target_bounds), floor=shares.floor, centred=centred,
    )  # fmt: skip
    if scaling is None:
        return plan
    if has_target:
        plan = replace(plan, target="private" if target_bounds is None else "refined bounds")
    found = _chosen(plan, scaling, shares)
    if unit == "silo" and target_is_hopeless(found):
        return advised(_chosen(replace(plan, target="none"), scaling, shares), "left as it is")
    return advised(found)


def _chosen(plan: ScalingPlan, scaling: str, shares: Shares) -> ScalingPlan:
    if plan.feature_bounds is not None:
        return _refined(plan, "refined bounds", "bounds", shares)
    return _without_bounds(plan, scaling, shares)


def _refined(plan: ScalingPlan, refined: Features, public: Features, shares: Shares) -> ScalingPlan:
    """Refine a public map by moments unless even the typical feature would drown in noise."""
    better = _with_releases(replace(plan, features=refined), shares)
    n_read = int(better.read.sum())
    if n_read and better.noise(better.moments[0])[0] <= _USELESS * np.sqrt(n_read):
        return better
    return _with_releases(replace(plan, features=public), shares)


def _without_bounds(plan: ScalingPlan, scaling: str, shares: Shares) -> ScalingPlan:
    """Find the features' scales privately where that will work, squash them elsewhere."""
    private = _with_releases(replace(plan, features="private"), shares)
    if scaling == "private" or counts_noise(private) <= HOPELESS:
        return private
    return _refined(plan, "refined squash", "squash", shares)


def _with_releases(plan: ScalingPlan, shares: Shares) -> ScalingPlan:
    """Add the releases, each spending as little as gives little noise."""
    if not plan.pool.size:
        return plan
    plan = replace(plan, setting=_sparing(plan, shares))
    if shares.again and not plan.unbounded.any():
        return replace(plan, moments=_looks(plan, shares))
    counts = None
    if plan.unbounded.any():
        counts = _sized(plan, Release(shares.counts, MagnitudeGrid(1.5)), shares.enough)
        if plan.noise(counts).max() < _FINE:
            counts = replace(counts, grid=MagnitudeGrid(1.0))
    largest = shares.bounded if counts is None else shares.moments
    moments = _sized(plan, Release(largest), shares.enough)
    halved = replace(moments, share=moments.share / np.sqrt(2))
    looks: tuple[Release, ...] = (moments,)
    if plan.noise(halved).max() < _SECOND_ROUND:
        looks = (halved, halved)
    elif shares.again:
        looks = (moments, _again(plan, shares.after_counts, shares))
    return replace(plan, counts=counts, moments=looks)


def _looks(plan: ScalingPlan, shares: Shares) -> tuple[Release, ...]:
    """Moments in known boxes, and then, twice, of rows in a ball around what was seen before."""
    first = _sized(plan, Release(shares.bounded), _TYPICAL * shares.precise)
    return first, *[_again(plan, shares.again, shares)] * 2


def _again(plan: ScalingPlan, share: float, shares: Shares) -> Release:
    """Moments of rows in a ball."""
    release = Release(share, ball=Ball(int(plan.read.sum())))
    return _sized(plan, release, shares.precise)


def _sparing(plan: ScalingPlan, shares: Shares) -> Setting:
    """Read a part of the records where that leaves little noise at a third of the shares."""
    setting = plan.setting
    if not shares.enough:
        return setting
    if setting.unit == "silo":
        return replace(setting, most=max(1, _PLENTY // setting.n_silos))
    n = int(np.sum(setting.silo_sizes))
    if n < 2 * _PLENTY:
        return setting
    releases = [Release(shares.moments / 3)]
    if plan.unbounded.any():
        releases.append(Release(shares.counts / 3, MagnitudeGrid(1.5)))
    noise = max(plan.noise(release).max() for release in releases)
    room = shares.enough / noise if noise > 0 else np.inf
    return replace(setting, every=int(max(1, min(n // _PLENTY, room))))


def _sized(plan: ScalingPlan, release: Release, enough: float) -> Release:
    """The release with the smallest share, up to its own, that is precise enough."""
    if not enough:
        return release
    needed = release.share * plan.noise(release).max() / enough
    return replace(release, share=float(min(release.share, max(needed, 1e-3))))
