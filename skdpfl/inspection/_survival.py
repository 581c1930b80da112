"""Survival curves from one noised histogram of intervals, events and groups.

::

    cells         each record is in one: its group, the interval of its time, event or censored;
                  or its group and "past the horizon"
    counts        noisy, of all cells at once                    (:mod:`skdpfl.inspection._look`)
    N_b           at risk at the start of interval b: the sum of the cells from b on
    q_b           d_b / (N_b - c_b / 2)                          d_b events, c_b censored
    S_b           prod over intervals up to b of 1 - q_b         the life table's estimate
    var log S_b   sum q_b / ((1 - q_b) (N_b - c_b / 2))          Greenwood's, the sample's error
                  + the variance over normal draws of the counts' noise

The life table is the Kaplan-Meier curve at the ends of intervals, but for records that were
censored within an interval, of whom half count as at risk. In a cell each record counts once, so
the noise does not grow with the number of intervals.

Formal guarantee
----------------
A record adds a one to one cell at most, so replacing it changes the counts by at most sqrt(2). All
else is computed from the noisy counts and public numbers. Groups that are not declared are found by
noisy counts above a threshold (:mod:`skdpfl.scaling._value_counts`), with a fifth of epsilon and
half of delta: both parts together are (epsilon, delta)-DP by basic composition, and the cost is
that of their composition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skdpfl._arguments import check_number, check_share, is_auto
from skdpfl._surface import filled_docs
from skdpfl._survival_times import read_horizon, read_intervals, read_survival
from skdpfl.federation import Federation, Schema
from skdpfl.inspection._display import COLOURS, Display
from skdpfl.inspection._look import FirstLook, Lives
from skdpfl.losses import signed_times
from skdpfl.preprocessing import declared_values
from skdpfl.privacy.calibration import automatic_delta
from skdpfl.privacy.events import SecureAggregation
from skdpfl.silos import check_index

#: the part of epsilon that finds groups
_GROUPS = 0.2
#: draws of noise for its error
_DRAWS = 400
#: fewer at risk than so many deviations of their noise tell nothing
_AT_RISK = 2.0
#: the group of all records
ALL_RECORDS = "all"


@filled_docs()
def kaplan_meier(
    y: Any,
    *,
    by: Any = None,
    epsilon: float = 1.0,
    breaks: Any = 8,
    target_bounds: Any,
    groups: Any = "auto",
    silos: Any = None,
    facts: Schema | None = None,
    confidence: float = 0.95,
    delta: Any = "auto",
    trust: str | SecureAggregation = "silo",
    neighbours: str = "auto",
    random_state: Any = None,
) -> pd.DataFrame:
    """Estimate survival curves within a privacy budget, with the errors of sample and noise.

    Parameters
    ----------
    y : structured array or DataFrame of shape (n_samples,)
        The records' events and times: one bool and one number. Or a
        :class:`skdpfl.remote.RemoteFederation`, whose silos have these as targets.
    by : array-like of shape (n_samples,), default=None
        Each record's group; missing values are in none. None: one curve. With remote silos: the
        name of the column of groups, which have to be declared.
    epsilon : float, default=1.0
        The privacy budget of all curves together. ``inf``: no noise, and no privacy.
    breaks : int or sequence of float, default=8
        The number of equal intervals of the horizon, or their inner ends; public.
    target_bounds : (0, horizon)
        The public time up to which events are read: later ones are censored there.
    groups : "auto" or sequence, default="auto"
        The public values of ``by``. "auto": False and True of a bool column; of others, those that
        are frequent enough within a silo, found with a fifth of epsilon.
    silos : array-like of shape (n_samples,), default=None
        Each record's silo; None: all are one.
    facts : Schema, default=None
        With remote silos: the public facts of their data.
    confidence : float, default=0.95
        That of the intervals, at each time.
    [delta]
    [trust]
    [neighbours]
    [random_state]

    Returns
    -------
    DataFrame
        Indexed by (group, time), the ends of the intervals; columns "survival", "low" and "high",
        which do not increase. NaN from where noise hides how many are at risk.
        ``attrs["privacy_spent"]`` is the cost, ``attrs["noise_error"]`` the standard deviation of
        the noise in each count.

    See Also
    --------
    SurvivalDisplay : A picture.
    skdpfl.ISRLDPSurvival : Hazard ratios.

    Notes
    -----
    **Formal guarantee.** The messages of a silo are (epsilon, delta)-differentially private for its
    records, for any data of the others: counts of cells, of which each record is in one, with
    Gaussian noise. The cost is charged to open ledgers before a record is read.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpfl.inspection import kaplan_meier
    >>> rng = np.random.default_rng(0)
    >>> treated, left = rng.random(4000) < 0.5, rng.uniform(1, 8, 4000)
    >>> died = rng.exponential(np.where(treated, 8, 4))
    >>> y = pd.DataFrame({"died": died <= left, "years": np.minimum(died, left)})
    >>> curves = kaplan_meier(
    ...     y, by=treated, target_bounds=(0, 5), breaks=5, silos=np.arange(4000) % 4, random_state=0
    ... )
    >>> list(curves), bool(abs(curves.loc[(True, 5.0), "survival"] - np.exp(-5 / 8)) < 0.05)
    (['survival', 'low', 'high'], True)
    """
    horizon, share = read_horizon(target_bounds), check_share("confidence", confidence)
    cuts = read_intervals(breaks, horizon)
    check_number("epsilon", epsilon, low=0, open_low=True)
    budget = {"trust": trust, "neighbours": neighbours, "random_state": random_state}
    lives, cost, table = Lives(tuple((cuts / horizon).tolist()), horizon), None, y
    levels: list[Any] = [ALL_RECORDS]
    if not isinstance(y, Federation):
        event, time = read_survival(y)
        lives, table = lives._replace(targets=signed_times(event, time, horizon)), 0 * time
        if by is not None:
            levels, table, cost = _grouped(by, y, groups, silos, len(time), epsilon, delta, budget)
    elif by is not None:
        levels, lives = _declared_groups(groups), lives._replace(by=by)
    values = range(len(levels)) if lives.by is None else levels
    if cost is not None:
        epsilon, delta = (1 - _GROUPS) * epsilon, _half(delta, len(table))
    look = FirstLook(
        epsilon=epsilon, delta=delta, called="kaplan_meier", parts=("lives",), lives=lives,
        levels=() if by is None else tuple(values), **budget,
    ).at(table, silos, None, facts, False)  # fmt: skip
    counts, noise = look.sums["lives"].of(None)
    each = counts.reshape(len(levels), -1)
    if by is None and neighbours != "add_remove":  # the number of records is public
        each = each + (look.n_samples_seen_ - each.sum()) / each.size
    curves = (_curve(row, noise, cuts, horizon, share) for row in each)
    frame = pd.concat(dict(zip(levels, curves, strict=True)), names=["group"])
    spent = look.privacy_spent_
    frame.attrs["privacy_spent"] = spent if cost is None else cost + spent
    frame.attrs["noise_error"] = noise
    return frame


def _declared_groups(groups: Any) -> list[Any]:
    """Return the declared groups of remote silos."""
    if is_auto(groups):
        raise ValueError("With remote silos, declare the values of by: groups=[...].")
    return list(declared_values(groups).tolist())


def _half(delta: Any, n: int) -> float:
    return float(automatic_delta(n) if is_auto(delta) else delta) / 2


def _grouped(
    by: Any,
    y: Any,
    groups: Any,
    silos: Any,
    n: int,
    epsilon: float,
    delta: Any,
    budget: dict[str, Any],
) -> tuple[list[Any], np.ndarray, Any]:
    """Return the groups, each record's number among them (-1: none), and what finding them cost."""
    check_index(by, y, "by")
    column, cost = pd.Series(by if hasattr(by, "dtype") else np.asarray(by)), None
    column = column.reset_index(drop=True)
    if len(column) != n:
        raise ValueError(f"by must have one group for each of the {n} records of y.")
    if not is_auto(groups):
        levels = declared_values(groups).tolist()
    elif pd.api.types.is_bool_dtype(getattr(by, "dtype", np.asarray(by).dtype)):
        levels = [False, True]
    else:
        look = FirstLook(
            epsilon=_GROUPS * epsilon, delta=_half(delta, n), called="kaplan_meier groups",
            parts=("words",), single=True, **budget | {"random_state": _another(budget)},
        ).at(column, silos, None, None, False)  # fmt: skip
        levels, cost = sorted(look.counts_of_words(None)[0].index, key=str), look.privacy_spent_
    if not levels:
        raise ValueError(
            "No group of by is frequent enough to be released: declare them, groups=[...]."
        )
    places = {level: i for i, level in enumerate(levels)}
    known = column.astype(object).map(
        lambda value: places.get(value, -1) if not _lacks(value) else -1
    )
    return levels, known.to_numpy(np.intp), cost


def _another(budget: dict[str, Any]) -> Any:
    """Return the random state of the groups' noise: another seed of a simulation."""
    seed = budget["random_state"]
    if not isinstance(seed, int | np.integer):
        return seed
    return int(np.random.SeedSequence(int(seed)).generate_state(1)[0])


def _lacks(value: Any) -> bool:
    return value is None or value is pd.NA or value != value


def _curve(
    counts: np.ndarray, noise: float, cuts: np.ndarray, horizon: float, confidence: float
) -> pd.DataFrame:
    """Return one group's curve from its noisy counts (2 k + 1,)."""
    hazards, at_risk = _hazards(counts)
    blind = np.sqrt(np.arange(len(counts), 0, -1)[:-1:2]) * noise * _AT_RISK
    hidden = np.logical_or.accumulate(at_risk <= np.maximum(blind, 0.5))
    with np.errstate(all="ignore"):
        logs = np.cumsum(np.log1p(-hazards))
        sample = np.cumsum(hazards / ((1 - hazards) * at_risk))
        noisy = counts + noise * np.random.default_rng(0).normal(size=(_DRAWS, len(counts)))
        survival = np.exp(logs)
        again = np.cumprod(1 - _hazards(noisy)[0], axis=-1)
    error = np.sqrt(survival**2 * np.nan_to_num(sample) + np.nanvar(again, axis=0))
    reach = ndtri(0.5 + confidence / 2) * error
    series = {"survival": survival, "low": survival - reach, "high": survival + reach}
    columns = {
        name: np.where(hidden, np.nan, np.minimum.accumulate(np.clip(values, 0.0, 1.0)))
        for name, values in series.items()
    }
    return pd.DataFrame(columns, index=pd.Index(np.append(cuts, horizon), name="time"))


def _hazards(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of events among those at risk (..., k), and how many these are."""
    left = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    censored, events = counts[..., :-1:2], counts[..., 1::2]
    at_risk = left[..., :-1:2] - censored / 2
    with np.errstate(all="ignore"):
        shares = np.clip(events, 0.0, None) / at_risk
    return np.clip(np.where(at_risk > 0, shares, 0.0), 0.0, 1.0), at_risk


@dataclass(eq=False, repr=False, kw_only=True)
class SurvivalDisplay(Display):
    """Survival curves: steps with their intervals, or predictions of a model.

    Make one with :meth:`from_curves` or :meth:`from_estimator`.

    Parameters
    ----------
    curves : DataFrame
        Indexed by (group, time); the column "survival" and perhaps "low" and "high".

    Attributes
    ----------
    lines_ : list of matplotlib lines
        A line for each group.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    kaplan_meier : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.inspection import SurvivalDisplay, kaplan_meier
    >>> y = np.zeros(2000, [("died", bool), ("years", float)])
    >>> y["died"], y["years"] = True, np.random.default_rng(0).exponential(4, 2000)
    >>> curves = kaplan_meier(y, target_bounds=(0, 5), random_state=0)
    >>> len(SurvivalDisplay.from_curves(curves).lines_)
    1
    """

    curves: pd.DataFrame

    @classmethod
    def from_curves(cls, curves: pd.DataFrame, *, ax: Any = None) -> SurvivalDisplay:
        """Draw a result of ``kaplan_meier``.

        Parameters
        ----------
        curves : DataFrame
            The result.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        SurvivalDisplay
        """
        return cls(curves=curves).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, times: Any = None, ax: Any = None
    ) -> SurvivalDisplay:
        """Draw the survival functions that a model predicts for a few records.

        Parameters
        ----------
        estimator : estimator
            A fitted survival model.
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records, a line for each.
        times : array-like, default=None
            Times; None: the ends of the intervals.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        SurvivalDisplay
        """
        table = estimator.predict_survival_function(X, times)
        index = pd.MultiIndex.from_product([table.index, table.columns], names=["group", "time"])
        curves = pd.DataFrame({"survival": table.to_numpy().ravel()}, index=index)
        return cls(curves=curves).plot(ax)

    def _draw(self, color: str | None) -> None:
        self.lines_ = []
        groups = self.curves.groupby(level=0, sort=False)
        for number, (name, curve) in enumerate(groups):
            own = color or COLOURS[number % len(COLOURS)]
            shown = curve.droplevel(0)
            start = pd.DataFrame(1.0, index=[0.0], columns=shown.columns)
            shown = pd.concat([start, shown]) if shown.index[0] > 0 else shown
            stepped = "low" in shown
            style: dict[str, Any] = {"drawstyle": "steps-post"} if stepped else {}
            self.lines_ += self.ax_.plot(
                shown.index, shown["survival"], color=own, label=str(name), **style
            )
            if stepped:
                between = shown.index, shown["low"], shown["high"]
                self.ax_.fill_between(*between, step="post", color=own, alpha=0.2, linewidth=0)
        self.ax_.set(xlabel="time", ylabel="survival", ylim=(0, 1.02))
        if len(self.lines_) > 1:
            self.ax_.legend(frameon=False)
