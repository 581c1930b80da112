"""Private statistics of a table's columns before a fit, with their noise errors.

:mod:`skdpfl.inspection._look` has the releases and the proof. An error is the half width of the
interval that contains 68 % of the changes that additional noise of the same size would make. For
quantiles it includes the standard deviation of a value within its bin.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdpfl import _surface
from skdpfl._arguments import check_count, is_auto
from skdpfl.federation import Schema
from skdpfl.inspection._look import FirstLook
from skdpfl.preprocessing import declared_values
from skdpfl.privacy.calibration import is_number
from skdpfl.privacy.events import SecureAggregation

#: the quantiles of a description
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: arguments that the functions here forward to FirstLook
_GIVEN = FirstLook.__dataclass_fields__.keys() - {"parts", "levels"}
#: normals that noise errors follow from
_DRAWS = 200
#: the key of what is of all silos together
ALL_SILOS = "all silos"

_docs: Callable[[_surface.T], _surface.T] = _surface.filled_docs(
    {
        "table": """
    frame : DataFrame, array-like or Federation
        The records of all silos; or remote silos (:mod:`skdpfl.remote`), with ``facts``. Columns of
        numbers, booleans and dates are numeric, all others are text; types are public.""",
        "column": """
    values : Series, array-like of shape (n_samples,), DataFrame or Federation
        One column; a frame may also have the silo column. Or remote silos, with ``facts``.""",
        "epsilon": """
    epsilon : float, default=1.0
        The privacy budget of the whole result. ``inf``: no noise, and no privacy.""",
        "bounds": """
    feature_bounds : (low, high) or mapping, default=None
        Public ranges, as in estimators; a mapping may leave columns out, whose ranges are then
        estimated within the budget. An object column with a range is numeric (None: with unknown
        range); "number", "category", "flag" and "date" are kinds, two dates a range of days. Dates
        count as days since 1970. Values beyond a range are clipped to it; ``low == high`` leaves a
        column out.""",
        "rest": """
    silo_column : str, default=None
        The column that holds each record's silo.
    [delta]
    [random_state]
    silos : array-like of shape (n_samples,), default=None
        Each record's silo, instead of ``silo_column``. With neither, all records are one silo.""",
        "by_silo": """
    by_silo : bool, default=False
        Whether to also return each silo's own statistics, below those of "all silos". They cost
        nothing more, since each silo adds its own noise, but they are noisier.""",
        "more": """
    [trust]
    [neighbours]
    facts : Schema, default=None
        Public facts of remote silos, which agree, charge their ledgers and add the noise.
    unit : {"record", "person"}, default="record"
        What is protected: one record, or all records of a person in a silo, in any number. A person
        then counts as one, by the mean over their rows; values that are looked for come from one
        row of each, drawn at random. Counts are numbers of persons.
    persons : array-like of shape (n_samples,), default=None
        With ``unit="person"``: the id of each record's person, which stays secret.
    person_column : str, default=None
        The column that holds it, instead of ``persons``.
    silos_per_person : int, default=1
        With ``unit="person"``: in how many silos a person may have rows; these are paid for.""",
        "guarantee": """
    **Formal guarantee.** The messages of a silo are (epsilon, delta)-differentially private for its
    records, for any data of the others: a composition of sums of bounded terms with Gaussian noise
    (:mod:`skdpfl.inspection._look`). The cost is charged to open ledgers once, before a record is
    read. Every call has its own noise and its own cost.""",
    }
)


@_docs
def describe(
    frame: Any,
    *,
    epsilon: float = 1.0,
    feature_bounds: Any = None,
    silo_column: Any = None,
    delta: Any = "auto",
    random_state: Any = None,
    silos: Any = None,
    by_silo: bool = False,
    trust: str | SecureAggregation = "silo",
    neighbours: str = "auto",
    facts: Schema | None = None,
    unit: str = "record",
    persons: Any = None,
    person_column: Any = None,
    silos_per_person: int = 1,
) -> pd.DataFrame:
    """Describe the columns of a table within a privacy budget, each number with its noise error.

    This is for a first look, before a model is fitted. Numeric columns get counts, shares of
    missing values, means, standard deviations and quantiles; text columns get counts, shares of
    missing values, and shares of the categories that are frequent enough to be released.

    Parameters
    ----------
    [table]
    [epsilon]
    [bounds]
    [rest]
    [by_silo]
    [more]

    Returns
    -------
    DataFrame
        One row for each column except the silo column. The statistics are ``count``, ``missing`` (a
        share), ``mean``, ``std``, ``5%``, ``25%``, ``50%``, ``75%``, ``95%``, each followed by its
        error (``mean_error``, ...); and for text columns ``shares``, a dict of the categories'
        shares of all records, and ``shares_error``. NaN: not applicable, or dominated by noise.
        With ``by_silo`` the index is (silo, column). ``attrs["privacy_spent"]`` is the cost.

    See Also
    --------
    QuantilesDisplay : A picture.
    value_counts : Counts of one text column.
    histogram, quantile : Numeric columns.
    correlation : Pairs of columns.

    Notes
    -----
    [guarantee]

    Quantiles are computed from counts in at most 128 bins, as if values were spread evenly within
    one: a value that many records share, such as 0, may be off by a bin's width, 3.5 times the
    error. Without bounds, about a quarter of the budget is spent on the powers of two between which
    columns lie. Values beyond those that are surely there are clipped, and no error contains that:
    ``std`` misses long tails, and ``mean``, too, where most values are 0 (of 5,000 records of six
    columns in three silos at epsilon 1 a tenth, spread over some powers of two, may be missed).
    Categories have to be frequent enough within a silo; other silos' counts are left out. Errors
    are small with few columns, bounds, and large silos.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpfl.inspection import describe
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.normal(60, 10, 4000), "sex": rng.choice(["f", "m"], 4000)})
    >>> table = describe(frame, epsilon=1.0, feature_bounds={"age": (0, 120)}, random_state=0)
    >>> bool(abs(table.loc["age", "mean"] - 60) < 4 * table.loc["age", "mean_error"] < 4)
    True
    >>> sorted(table.loc["sex", "shares"])
    ['f', 'm']
    >>> table.attrs["privacy_spent"].epsilon <= 1.0
    True
    """
    look = _looked(locals(), "describe", ("magnitudes", "spreads", "bins", "known", "words"))
    return _by_group(look, by_silo, lambda silo: _table(look, silo))


def _looked(
    arguments: dict[str, Any], called: str, parts: tuple[str, ...], **own: Any
) -> FirstLook:
    """Run a look with a function's arguments, and its own settings."""
    table = arguments["frame"] if "frame" in arguments else arguments["values"]
    known = {name: arguments[name] for name in _GIVEN & arguments.keys()}
    look = FirstLook(**known, called=called, parts=parts, **own)
    owners = arguments["silos"], arguments["persons"]
    return look.at(table, *owners, arguments["facts"], arguments.get("by_silo", False))


def _by_group(look: FirstLook, by_silo: bool, statistic: Callable[[int | None], Any]) -> Any:
    """Return the table for all silos, optionally with each silo's below, and the cost."""
    table = statistic(None)
    if by_silo:
        each = {name: statistic(i) for i, name in enumerate(look.silo_ids_.tolist())}
        errors = table.attrs
        table = pd.concat({ALL_SILOS: table} | each, names=["silo"])
        table.attrs = errors
    table.attrs["privacy_spent"] = look.privacy_spent_
    return table


def _error(
    released: np.ndarray, again: Callable[[np.ndarray], np.ndarray], shape: Sequence[int]
) -> np.ndarray:
    """Return the error of a statistic: the 68 % quantile of its change by additional noise.

    ``again`` computes it with draws (n, *shape) added to the noisy sums.
    """
    rng, apart = np.random.default_rng(0), []
    for _ in range(0, _DRAWS, 20):
        changed = np.abs(again(rng.normal(size=(20, *shape))) - released)
        apart.append(np.where(np.isnan(changed), np.inf, changed))
    error = np.quantile(np.concatenate(apart), 0.6827, axis=0, method="higher")
    return np.where(np.isnan(released), np.nan, error)


def _spread(look: FirstLook, silo: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return number, mean and deviation (3, d) of numeric columns, and their errors."""
    statistics = look.spread(silo)
    error = _error(statistics, lambda draw: look.spread(silo, draw), statistics.shape)
    error[0] = look.count_noise(silo)  # counts are cut to the number of records; their noise is not
    return statistics, error


def _error_of_cuts(look: FirstLook, correlations: np.ndarray) -> np.ndarray:
    """Return the error (d, d) of correlations from rows that were cut, or that lack a value.

    With l_j the share of column j's squares that the sum of products lost, and r the correlation of
    what is left, that of all is r sqrt((1 - l_j) (1 - l_k)) + t sqrt(l_j l_k), where t, the
    correlation of what was lost, is between -1 and 1. The error is the root mean square of the
    difference from r for a uniform t.
    """
    n, _, _ = look.spread(None)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.clip(1 - look.squares() / n, 0.0, 1.0)
    left = np.sqrt(np.outer(1 - lost, 1 - lost))
    error = np.hypot(correlations * (1 - left), np.sqrt(np.outer(lost, lost) / 3))
    np.fill_diagonal(error, 0.0)
    return np.where(np.isnan(correlations), np.nan, error)


def _quantiles(
    look: FirstLook, silo: int | None, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles (d, n_shares) of numeric columns, and their errors."""
    at_shares, shape = look.quantiles(silo, shares), look.sums["bins"].each.shape[1:]
    noise = _error(at_shares, lambda draw: look.quantiles(silo, shares, draw), shape)
    inner = look.edges[:, None, 1:-1]
    at = (inner < np.nan_to_num(at_shares)[:, :, None]).sum(axis=-1)
    width = np.take_along_axis(np.diff(look.edges, axis=1), at, axis=1)
    return at_shares, np.hypot(noise, width / np.sqrt(12))


def _table(look: FirstLook, silo: int | None) -> pd.DataFrame:
    """Return the description of all silos' records, or of one silo's."""
    shown, n = np.zeros(look.n_features_in_, dtype=bool), look.size(silo)
    columns: dict[str, np.ndarray] = {}

    def put(name: str, part: str, values: Any, errors: Any) -> None:
        for key, column in ((name, values), (f"{name}_error", errors)):
            if key not in columns:
                columns[key] = np.full(len(shown), np.nan, dtype=np.asarray(column).dtype)
            columns[key][look.used[part]] = column
        shown[look.used[part]] = True

    if "spreads" in look.used:
        spread, error = _spread(look, silo)
        put("count", "spreads", spread[0], error[0])
        put("missing", "spreads", 1 - spread[0] / n, error[0] / n)
        put("mean", "spreads", spread[1], error[1])
        put("std", "spreads", spread[2], error[2])
        values, errors = _quantiles(look, silo, np.array(_SHARES))
        for share, value, its_error in zip(_SHARES, values.T, errors.T, strict=True):
            put(f"{share:.0%}", "bins", value, its_error)
    if "words" in look.used:
        known, noise = look.sums["known"].of(silo)
        known = np.clip(known, 0.0, n)
        put("count", "known", known, np.full(len(known), noise))
        put("missing", "known", 1 - known / n, np.full(len(known), noise / n))
        put("shares", "words", *_shares(look, silo))
    return pd.DataFrame(columns, index=pd.Index(look.names, name="column"))[shown]


def _shares(look: FirstLook, silo: int | None) -> tuple[np.ndarray, float]:
    """Return the categories' shares of the records for each text column, and their error."""
    counts = look.counts_of_words(silo)
    n, shares = look.size(silo), np.empty(len(counts), dtype=object)
    shares[:] = [(each / n).clip(upper=1.0).to_dict() for each in counts]
    return shares, look.words_noise(silo) / n


@_docs
def quantile(
    frame: Any,
    q: Any = 0.5,
    *,
    epsilon: float = 1.0,
    feature_bounds: Any = None,
    silo_column: Any = None,
    delta: Any = "auto",
    random_state: Any = None,
    silos: Any = None,
    by_silo: bool = False,
    trust: str | SecureAggregation = "silo",
    neighbours: str = "auto",
    facts: Schema | None = None,
    unit: str = "record",
    persons: Any = None,
    person_column: Any = None,
    silos_per_person: int = 1,
) -> pd.DataFrame:
    """Return quantiles of columns within a privacy budget, each with its noise error.

    Parameters
    ----------
    [table]
    q : float or sequence of float, default=0.5
        The quantiles, from 0 to 1. Their number does not change the cost. Those near 0 and 1 depend
        on few records, and are noisy.
    [epsilon]
    [bounds]
    [rest]
    [by_silo]
    [more]

    Returns
    -------
    DataFrame
        One row for each numeric column; ``50%`` and ``50%_error``, say. Booleans and text are left
        out. With ``by_silo`` the index is (silo, column). ``attrs["privacy_spent"]`` is the cost.

    See Also
    --------
    describe : Means and shares as well.
    histogram : The counts.

    Notes
    -----
    [guarantee]

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.inspection import quantile
    >>> ages = np.random.default_rng(0).normal(60, 10, 4000)
    >>> found = quantile(ages, [0.25, 0.5], feature_bounds=(0, 120), random_state=0)
    >>> list(found), bool(abs(found.loc[0, "50%"] - 60) < 2)
    (['25%', '25%_error', '50%', '50%_error'], True)
    """
    asked = np.atleast_1d(np.asarray(q, dtype=object))
    shares = np.array([each if is_number(each) else np.nan for each in asked.flat], np.float64)
    if asked.ndim != 1 or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"q must be one or several numbers from 0 to 1; got {q!r}.")
    look = _looked(locals(), "quantile", ("magnitudes", "bins"))
    index = pd.Index(look.names[look.used["bins"]], name="column")

    def table(silo: int | None) -> pd.DataFrame:
        values, errors = _quantiles(look, silo, shares)
        columns = dict[str, np.ndarray]()
        for share, value, error in zip(shares, values.T, errors.T, strict=True):
            columns |= {f"{100 * share:g}%": value, f"{100 * share:g}%_error": error}
        return pd.DataFrame(columns, index=index)

    return _by_group(look, by_silo, table)


@_docs
def histogram(
    values: Any,
    bins: int = 10,
    *,
    epsilon: float = 1.0,
    feature_bounds: Any = None,
    silo_column: Any = None,
    delta: Any = "auto",
    random_state: Any = None,
    silos: Any = None,
    by_silo: bool = False,
    trust: str | SecureAggregation = "silo",
    neighbours: str = "auto",
    facts: Schema | None = None,
    unit: str = "record",
    persons: Any = None,
    person_column: Any = None,
    silos_per_person: int = 1,
) -> pd.Series:
    """Count the values of a column in equal bins, within a privacy budget.

    Parameters
    ----------
    [column]
    bins : int, default=10
        The number of bins, at most 128.
    [epsilon]
    [bounds]
    [rest]
    [by_silo]
    [more]

    Returns
    -------
    Series
        Noisy counts, which may be negative, by interval of the range; values beyond it are in the
        first and the last interval. With ``by_silo`` the index is (silo, interval).
        ``attrs["noise_error"]`` is the standard deviation of the noise in a count of all silos,
        ``attrs["privacy_spent"]`` the cost.

    See Also
    --------
    CountsDisplay : A picture.
    quantile : Quantiles of columns.

    Notes
    -----
    [guarantee]

    A record is in one bin of the column, so more bins do not increase the noise in each.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.inspection import histogram
    >>> ages = np.random.default_rng(0).normal(60, 10, 4000)
    >>> counts = histogram(ages, 4, feature_bounds=(0, 120), random_state=0)
    >>> [str(interval) for interval in counts.index]
    ['[0.0, 30.0)', '[30.0, 60.0)', '[60.0, 90.0)', '[90.0, 120.0)']
    >>> bool(abs(counts.iloc[1] - 2000) < 150), counts.attrs["noise_error"] < 20
    (True, True)
    """
    check_count("bins", bins, high=128)
    look = _looked(locals(), "histogram", ("magnitudes", "bins"), n_bins=int(bins), single=True)
    name = look.names[look.used["bins"]][0]
    index = pd.IntervalIndex.from_breaks(look.edges[0], closed="left", name="interval")

    def table(silo: int | None) -> pd.Series:
        counts, noise = look.sums["bins"].of(silo)
        bars = pd.Series(counts[0], index=index, name=name)
        bars.attrs["noise_error"] = noise
        return bars

    return _by_group(look, by_silo, table)


@_docs
def value_counts(
    values: Any,
    *,
    epsilon: float = 1.0,
    categories: Any = "auto",
    silo_column: Any = None,
    delta: Any = "auto",
    random_state: Any = None,
    silos: Any = None,
    by_silo: bool = False,
    trust: str | SecureAggregation = "silo",
    neighbours: str = "auto",
    facts: Schema | None = None,
    unit: str = "record",
    persons: Any = None,
    person_column: Any = None,
    silos_per_person: int = 1,
) -> pd.Series:
    """Count how often each value of a column occurs, within a privacy budget.

    Parameters
    ----------
    [column]
    [epsilon]
    categories : "auto" or sequence, default="auto"
        Declared values, which must not be computed from the data: each gets a noisy count, also
        values that no record has. "auto": values that are frequent enough within a silo are
        released, so that the values of single records stay secret.
    [rest]
    [by_silo]
    [more]

    Returns
    -------
    Series
        Noisy counts by value, the most frequent first; declared values in the given order, with
        counts that may be negative. With ``by_silo`` the index is (silo, value).
        ``attrs["noise_error"]`` is the standard deviation of the noise in a count of all silos,
        ``attrs["privacy_spent"]`` the cost.

    See Also
    --------
    CountsDisplay : A picture.
    describe : Shares in all text columns.
    skdpfl.preprocessing.DPOneHotEncoder : Indicator columns for the values.

    Notes
    -----
    [guarantee]

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.inspection import value_counts
    >>> wards = np.repeat(["heart", "lung", "Atlantis"], [1200, 800, 1])
    >>> counts = value_counts(wards, random_state=0)
    >>> list(counts.index), bool(abs(counts["heart"] - 1200) < 60)
    (['heart', 'lung'], True)
    >>> list(value_counts(wards, categories=["heart", "kidney"], random_state=0).index)
    ['heart', 'kidney']
    """
    declared = not is_auto(categories)
    levels = tuple(declared_values(categories).tolist()) if declared else ()
    if declared and not levels:
        raise ValueError('categories must be "auto" or at least one value.')
    parts = ("levels",) if declared else ("words",)
    look = _looked(locals(), "value_counts", parts, levels=levels, single=True)
    name = look.names[0]

    def table(silo: int | None) -> pd.Series:
        if declared:
            counts, noise = look.sums["levels"].of(silo)
            series = pd.Series(counts[0], index=pd.Index(list(levels), name="value"))
        else:
            series, noise = look.counts_of_words(silo)[0], look.words_noise(silo)
            series = series.rename_axis("value")
        series.name, series.attrs["noise_error"] = name, noise
        return series

    return _by_group(look, by_silo, table)


@_docs
def correlation(
    frame: Any,
    *,
    epsilon: float = 1.0,
    feature_bounds: Any = None,
    silo_column: Any = None,
    delta: Any = "auto",
    random_state: Any = None,
    silos: Any = None,
    trust: str | SecureAggregation = "silo",
    neighbours: str = "auto",
    facts: Schema | None = None,
    unit: str = "record",
    persons: Any = None,
    person_column: Any = None,
    silos_per_person: int = 1,
) -> pd.DataFrame:
    """Return the correlations of columns within a privacy budget.

    Parameters
    ----------
    [table]
    [epsilon]
    [bounds]
    [rest]
    [more]

    Returns
    -------
    DataFrame
        The noisy correlations of numeric and boolean columns, 1 on the diagonal; NaN if noise
        dominates a column's spread. ``attrs["noise_error"]`` is a dict of dicts with each pair's
        error, by noise and by clipped rows; ``attrs["privacy_spent"]`` the cost.

    See Also
    --------
    describe : Statistics of single columns.

    Notes
    -----
    [guarantee]

    Means and standard deviations are estimated first. Standardised rows are clipped to 1.5 times
    the square root of the number of columns, which reduces the influence of outliers; rare flags
    and skewed columns lose most. How much a column lost is estimated, but not how that correlates:
    the error takes all that is possible as equally likely. Rows with missing values are ignored,
    and count as lost. Noise grows with the number of columns: select those that matter.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpfl.inspection import correlation
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"weight": rng.normal(75, 10, 8000)})
    >>> frame["height"] = 100 + frame["weight"] + rng.normal(0, 10, 8000)
    >>> bounds = {"weight": (30, 150), "height": (100, 250)}
    >>> found = correlation(frame, epsilon=2.0, feature_bounds=bounds, random_state=0)
    >>> bool(abs(found.loc["weight", "height"] - 0.5**0.5) < 0.1)
    True
    """
    look = _looked(locals(), "correlation", ("magnitudes", "spreads", "products"))
    correlations, shape = look.correlations(), look.products.shape
    noise = _error(correlations, lambda draw: np.stack([*map(look.correlations, draw)]), shape)
    error = np.hypot(noise, _error_of_cuts(look, correlations))
    names = pd.Index(look.names[look.used["products"]], name=None)
    table = pd.DataFrame(correlations, index=names, columns=names)
    table.attrs["noise_error"] = pd.DataFrame(error, index=names, columns=names).to_dict()
    table.attrs["privacy_spent"] = look.privacy_spent_
    return table
