"""Every noised sum: no record adds more than it says, and noise and price follow from that.

A new kind of sum is one row of ``SUMS``; all properties below are tested of it.
"""

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from skdpfl import scaling
from skdpfl.federation import (
    R2,
    Accuracy,
    AveragePrecision,
    BalancedAccuracy,
    BoundedSum,
    CalibrationError,
    CellCounts,
    Closeness,
    Confusion,
    D2Poisson,
    LocalFederation,
    RocAuc,
    SiloData,
    SumPlan,
    Work,
    _sums,
)
from skdpfl.inference import (
    HazardCurvature,
    HazardScores,
    LinearMeat,
    LinearMoments,
    PilotCurvature,
    PilotScores,
    ResidualSize,
)
from skdpfl.losses import LogLoss, PiecewiseExponential, Poisson, Quantile, SquaredError
from skdpfl.models import LinearModel, OneSlope
from skdpfl.privacy.events import Approximate, Exact, Gaussian
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.remote._row import Predictor, Scored
from skdpfl.scaling._moments import ColumnSums
from tests.made_sums import budgets_of, exact_sums

D = 3
WILD = [0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan, 1e9, 2.0**-20]
ANY = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(WILD)
ROWS = st.lists(st.lists(ANY, min_size=D + 1, max_size=D + 1), min_size=2, max_size=6)
PROTECTED = [
    ("record", "silo", "replace"),
    ("record", "shuffler", "replace"),
    ("record", "server", "replace"),
    ("record", "silo", "add_remove"),
    ("record", "secagg", "replace"),
    ("silo", "silo", "replace"),
    ("silo", "server", "add_remove"),
    ("silo", "secagg", "replace"),
]


@dataclass(frozen=True)
class Raw(BoundedSum):
    """A sum from outside that does not cut anything itself."""

    length: float = 2.0

    @property
    def shape(self):
        return (D,)

    @property
    def radius(self):
        return self.length

    def terms(self, X, y):
        return X


FEATURES, ALL = scaling.Columns(np.ones(D, bool), False), scaling.Columns(np.ones(D, bool), True)
TARGET, SOME = scaling.Columns(np.zeros(D, bool), True), scaling.Columns(np.arange(D) > 0, True)
WORK = Work(LinearModel(D, 1), LogLoss(), None, None, np.dtype(float))
LEVELS = Work(LinearModel(D, 1), Quantile(0.2), None, None, np.dtype(float))
NUMBERS = Work(LinearModel(D, 1), SquaredError(), None, None, np.dtype(float))
COUNTS = Work(LinearModel(D, 1), Poisson(), None, None, np.dtype(float))
CUTS, TIMES = (0.25, 0.5), np.array([0.01, -0.02, 0.01, -3, -2, -3])
SURVIVAL = Work(OneSlope(D, 3), PiecewiseExponential(CUTS), None, None, np.dtype(float))
PARAMS = np.array([1.0, -2.0, 0.5, 0.3])
LINEAR = Predictor(
    LinearModel(D, 1), {"coef_": PARAMS[None, :D], "intercept_": PARAMS[D:]}, None, False
)

USED, ONES = np.ones(D, bool), np.ones(D)


def boxes(columns, center=0.0, half=1.0):
    n = columns.is_feature.size
    return scaling.Boxes(np.full(n, center), np.full(n, half))


#: a sum, the work of its fit, and whether two rows of the worst ones are as far apart as it says
SUMS = {
    "counts": (scaling.Counts(FEATURES, scaling.MagnitudeGrid()), None, True),
    "bins of a target": (scaling.Counts(TARGET, scaling.LinearGrid(-1.0, 1.0)), None, True),
    "moments": (scaling.Moments(FEATURES, boxes(FEATURES)), None, True),
    "moments with the target": (scaling.Moments(ALL, boxes(ALL)), None, True),
    "moments of some columns": (scaling.Moments(SOME, boxes(SOME, 0.2, 0.7)), None, True),
    "moments in tiny boxes": (scaling.Moments(ALL, boxes(ALL, 1e300, 1e-300)), None, False),
    "rows": (scaling.RowMoments(FEATURES, boxes(FEATURES)), None, False),
    "slopes": (scaling.Slopes(PARAMS, 1.2, 0.9), WORK, False),
    "labels": (scaling.Labels(), None, True),
    "events": (scaling.Events(), None, True),
    "levels": (scaling.Below(PARAMS, 0.1), LEVELS, True),
    "accuracy": (Scored(Accuracy(), LINEAR), None, True),
    "balanced accuracy": (Scored(BalancedAccuracy(2), LINEAR), None, True),
    "confusion": (Scored(Confusion(2), LINEAR), None, True),
    "bins of scores": (Scored(RocAuc(edges=np.linspace(-3, 3, 15)), LINEAR), None, True),
    "log loss": (Scored(Closeness("log_loss", 5.0, 5.0), LINEAR), None, True),
    "squared error": (Scored(Closeness("squared_error", 2.0, 4.0), LINEAR), None, True),
    "r2": (Scored(R2(-1.0, 1.0), LINEAR), None, False),
    "d2": (Scored(D2Poisson(0.0, 1.0), LINEAR), None, False),
    "calibration": (Scored(CalibrationError(), LINEAR), None, True),
    "precision": (Scored(AveragePrecision(edges=np.linspace(-3, 3, 15)), LINEAR), None, True),
    "centres": (scaling.Means(USED, 90, -ONES, ONES, True), None, True),
    "centres, zeroed": (scaling.Means(USED, 90, -ONES, ONES, False), None, False),
    "spreads": (scaling.Spreads(USED, 90, -ONES, ONES, True), None, True),
    "spreads, zeroed": (scaling.Spreads(USED, 90, -ONES, ONES, False), None, False),
    "bins of columns": (scaling.Bins(USED, 90, np.tile(np.linspace(-1, 1, 9), (D, 1))), None, True),
    "levels of a column": (scaling.Levels(np.arange(D) == 0, 90, (9.0, -9.0)), None, True),
    "levels of one form": (scaling.Levels(np.arange(D) == 0, 90, (9, "9", -9.0)), None, True),
    "known": (scaling.Known(USED, 90), None, False),
    "magnitudes": (scaling.Magnitudes(USED, 90), None, True),
    "second moments": (scaling.SecondMoments(np.zeros(D), 0.8, True), None, True),
    "second moments alone": (scaling.SecondMoments(np.zeros(D), 2.0, False), None, True),
    "cells of columns": (scaling.Histogram(np.arange(D), -np.ones(D), np.ones(D)), None, True),
    "second moments of scaled ones": (
        scaling.ScaledMoments(ONES, 2.0, False, scale=3 * ONES),
        None,
        False,
    ),
    "exposures": (scaling.ExposureCounts(), None, True),
    "a life table": (
        scaling.LifeTable(np.arange(D) == 0, 90, (9.0, -9.0), (0.2, 0.5), 3.0),
        None,
        True,
    ),
    "scores": (PilotScores(PARAMS, True, cut_score=0.3, cut_curvature=2.0), WORK, False),
    "scores of counts": (PilotScores(PARAMS / 9, True, counts=True, cut_score=0.1), COUNTS, False),
    "curvature": (PilotCurvature(PARAMS / 9, True, cut_curvature=0.4), WORK, False),
    "curvature of counts": (PilotCurvature(PARAMS / 9, True, counts=True), COUNTS, False),
    "outer products of scores": (
        PilotScores(PARAMS, True, cut_score=0.3, products="records"),
        WORK,
        False,
    ),
    "rows and residuals": (LinearMoments(PARAMS, True, length=1.2, sigma=0.5), NUMBERS, False),
    "linear scores": (LinearMeat(PARAMS, True, length=1.415, sigma=0.05), NUMBERS, False),
    "size of residuals": (ResidualSize(PARAMS, True), NUMBERS, True),
    "scores of hazards": (HazardScores(TIMES, True, cuts=CUTS, cut_score=0.3), SURVIVAL, False),
    "curvature of hazards": (
        HazardCurvature(TIMES, True, cuts=CUTS, cut_curvature=0.3),
        SURVIVAL,
        False,
    ),
    "scores of hazards, squared": (
        HazardScores(TIMES, True, cuts=CUTS, cut_score=0.3, products="records"),
        SURVIVAL,
        False,
    ),
    "from outside": (Raw(), None, True),
}
NAMES = pytest.mark.parametrize("name", SUMS)
#: of each kind, opposite and ordinary rows, and ones that are not finite
WORST = np.array(
    [[-9.0] * 4, [9.0] * 4, [9.0, -9, 9, 1], [0.0] * 4, [1e300] * 4, [-1e300] * 4, [0.5] * 4]
    + [[v, 0.1, -0.1, 1.0] for v in WILD]
    + [
        [np.nan, np.nan, np.nan, 1.0],
        [0.0, 0.0, 0.0, 0.3],
        [5e300, -5e300, 0.0, 0.0],
        [1.0, 0.0, 0.0, 1.0],
        [-1.0, 0.0, 0.0, 1.0],
        [9.0, 0.0, 0.0, 0.0],
        [0.0, 9.0, 0.0, 0.0],
        [-9.0, 9.0 * math.sqrt(15), 0.0, 0.0],  # of products: at angles that are furthest apart
    ]
)


def of_rows(name, rows, codes):
    """Records as the sum reads them: labels are 0 or 1 where it is about labels."""
    rows = np.asarray(rows, float)
    what, work, _ = SUMS[name]
    y = rows[:, D]
    kind = getattr(what, "measure", None)
    of_targets = isinstance(kind, R2) or getattr(kind, "kind", "log_loss") != "log_loss"
    labels = work is WORK or (kind is not None and not of_targets)
    y = (y > 0).astype(np.int8) if labels else y
    exposure = rows[:, 0] if isinstance(what, scaling.ExposureCounts) else None
    return SiloData.from_codes(rows[:, :D], y, codes, int(codes.max()) + 1, exposure=exposure)


def terms_of(name, rows):
    """Each record's terms (n, width): the sums of silos of one record."""
    what, work, _ = SUMS[name]
    with np.errstate(all="ignore"):
        data = of_rows(name, rows, np.arange(len(rows)))
        return exact_sums(what, data, work=work).reshape(len(rows), -1)


def distances(terms):
    return np.linalg.norm(terms[:, None] - terms[None], axis=-1)


@pytest.mark.slow
@pytest.mark.every
@NAMES
@settings(max_examples=60)
@given(rows=ROWS)
def test_no_record_reaches_further_than_it_says(name, rows):
    what, terms = SUMS[name][0], terms_of(name, rows)
    assert np.isfinite(terms).all()
    assert np.linalg.norm(terms, axis=1).max() <= what.radius * (1 + 1e-14)
    assert distances(terms).max() <= what.diameter * (1 + 1e-14)
    assert np.abs(terms).max() <= what.entry * (1 + 1e-14)


@pytest.mark.every
@NAMES
def test_the_worst_records_reach_as_far(name):
    """Were the promise smaller, it would be broken here."""
    (what, _, attained), terms = SUMS[name], terms_of(name, WORST)
    assert distances(terms).max() <= what.diameter * (1 + 1e-14)
    reached = 0.999 if attained else 0.55
    assert distances(terms).max() >= reached * what.diameter
    longest = np.linalg.norm(terms, axis=1).max()
    assert reached * what.radius <= longest <= what.radius * (1 + 1e-14)


def records(n=90, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, D + 1)) * 10.0 ** rng.integers(-3, 3, (n, 1))
    rows[::10] = WORST[: len(rows[::10])]
    return rows, rng.choice(3, n, p=[0.1, 0.1, 0.8])  # silos of few records, and of many


@NAMES
def test_a_silos_sum_is_of_its_records_whatever_the_others_hold(name):
    """To the last bit; and it is the sum of its records' terms, as far as it says."""
    (what, work, _), (rows, codes) = SUMS[name], records()
    with np.errstate(all="ignore"):
        whole = exact_sums(what, of_rows(name, rows, codes), work=work)
        alone = [
            exact_sums(what, of_rows(name, rows[codes == i], np.zeros((codes == i).sum(), int)),
                       work=work)[0]
            for i in range(3)
        ]  # fmt: skip
        other = np.where((codes == 1)[:, None], rows, 7.0)
        changed = exact_sums(what, of_rows(name, other, codes), work=work)
        turned = exact_sums(what, of_rows(name, rows[::-1], codes[::-1]), work=work)
    np.testing.assert_array_equal(whole, alone)
    np.testing.assert_array_equal(whole[1], changed[1])
    terms = terms_of(name, rows)
    added = np.array([[math.fsum(of) for of in terms[codes == i].T] for i in range(3)])
    drift = what.drift(budgets_of(np.bincount(codes)))
    for found in (turned, added.reshape(whole.shape)):
        apart = np.linalg.norm((found - whole).reshape(3, -1), axis=1)
        assert (apart <= 2 * drift).all()
    if what.on_grid or isinstance(what, ColumnSums):
        np.testing.assert_array_equal(turned, whole)


@pytest.mark.parametrize("name", [n for n in SUMS if isinstance(SUMS[n][0], CellCounts)])
def test_counts_of_persons_are_the_means_of_their_counts(name, monkeypatch):
    """To the last bit, also of a person whose rows are counted in several pieces."""
    (what, work, _), (rows, codes) = SUMS[name], records()
    of_row = np.minimum(np.arange(len(rows)) // 2, 30) + 100 * codes
    read = of_rows(name, rows, np.zeros(len(rows), int))
    of_row = np.unique(of_row, return_inverse=True)[1]
    data = SiloData.from_codes(rows[:, :D], read.y, codes, 3, of_row=of_row, exposure=read.exposure)
    whole = what.of_persons(data, work)
    np.testing.assert_array_equal(whole, BoundedSum.of_persons(what, data, work))
    monkeypatch.setattr(_sums, "_MOST_CELLS", 5 * D)
    np.testing.assert_array_equal(whole, what.of_persons(data, work))
    assert whole.any() and (whole <= data.people.counts.reshape(-1, *[1] * len(what.shape))).all()


@pytest.mark.parametrize("kind", [HazardScores, HazardCurvature])
def test_sums_of_hazards_tell_nothing_of_how_many_records_others_have(kind):
    """To the last bit: a person is summed beside others, and how many rows it has is secret."""
    pilot, cuts = np.append(PARAMS[:D], np.sin(np.arange(8))), tuple(np.arange(1, 8) / 8)
    what = kind(pilot, True, cuts=cuts)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first, codes = rng.integers(1, 12, 2), np.repeat(np.arange(5), rng.integers(1, 12, 5))
        rows, times = rng.normal(size=(len(codes), D)), rng.uniform(-1, 1, len(codes))
        both = []
        for n in first:
            X, y = rng.normal(size=(n, D)), rng.uniform(-1, 1, n)
            silos = np.append(np.zeros(n, int), 1 + codes)
            data = SiloData.from_codes(np.vstack([X, rows]), np.append(y, times), silos, 6)
            both.append(exact_sums(what, data, work=SURVIVAL)[1:])
        np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("name", ["cut_score", "cut_curvature", "scale"])
@pytest.mark.parametrize("value", [0, -1, 0.0, np.inf, np.nan])
def test_limits_of_sums_at_a_pilot_are_positive(name, value):
    """Letters may hold whole numbers where floats are meant."""
    what = PilotScores(PARAMS, True, **{name: value})
    with pytest.raises(ValueError, match="must be positive"):
        what.check(D, 2, WORK)


@NAMES
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_whole_silos_mean_moves_no_further_than_a_record(name, neighbours):
    what, work, _ = SUMS[name]
    if work is not None:
        pytest.skip("nothing is calibrated where whole silos are protected")
    rows, codes = records()
    with np.errstate(all="ignore"):
        means = exact_sums(what, of_rows(name, rows, codes), unit="silo").reshape(3, -1)
        n = np.bincount(codes)[:, None]
        sums = exact_sums(what, of_rows(name, rows, codes)).reshape(3, -1)
        np.testing.assert_allclose(means, sums / n, atol=2.0**-26)
    slack = 2.0**-25 * means.shape[1]
    assert np.linalg.norm(means, axis=1).max() <= what.radius + slack
    assert distances(means).max() <= what.diameter + slack


def plan_of(budgets, n=1, mu=0.7):
    return SumPlan(budgets, "test", (np.broadcast_to(mu, budgets.mu.shape) * 1.0,) * n)


@pytest.mark.every
@NAMES
@pytest.mark.parametrize("protected", PROTECTED, ids="-".join)
def test_noise_is_what_the_price_needs(name, protected):
    """The multiplier that is charged times what a unit moves, with a margin for the grid."""
    what, unit = SUMS[name][0], protected[0]
    budgets = budgets_of([50, 20, 30], [0.7, 0.9, 0.4], *protected)
    assert (budgets.spends <= budgets.mu).all()
    plan = SumPlan(budgets, "test", (budgets.spends * 0.5, budgets.spends * 0.2), failure=1e-7)
    reach = what.diameter if protected[2] == "replace" else what.radius
    for silo in range(3):
        first, second, failure = plan.composition(silo)
        assert failure == (Approximate(0.0, 1e-7), 2)
        for number, (event, times) in enumerate((first, second)):
            least = event.noise_multiplier * reach / (2 if protected[2] == "replace" else 1)
            std = plan.noised(number, what).std[silo]
            if budgets.shares_noise:  # of three shares two are priced
                std *= math.sqrt(2 / 3)
            assert times == 1 and isinstance(event, Gaussian)
            assert least < std < 1.001 * least
    assert unit == "silo" or (budgets.units == [50, 20, 30]).all()
    exact = SumPlan(budgets, "test", (np.full(3, np.inf),) * 2, failure=1e-7)
    assert exact.composition(0) == ((Exact(), 2),)
    assert not exact.noised(1, what).std.any()


def test_a_sum_that_may_be_repeated_costs_the_dearest_twice():
    """With noise of its own: a failed attempt's letters may all have met."""
    budgets = budgets_of([50, 50, 50], 2.0, trust="secagg", spare=1)
    plan = SumPlan(budgets, "test", (np.full(3, 1.0), np.full(3, 2.0)))
    assert plan.squared.tolist() == [9.0] * 3
    assert plan.composition() == ((Gaussian(2.0), 1), (Gaussian(1.0), 2))
    again = plan.question(0, SUMS["scores"][0], WORK, failed=1)
    assert again.number == 1 and (again.mu == 1.0).all()


@pytest.mark.parametrize("protected", PROTECTED, ids="-".join)
@pytest.mark.parametrize("name", ["counts", "moments", "rows", "from outside"])
def test_noise_of_the_mean_is_as_planned(name, protected):
    """Chi-square tests of the variance over 150 releases, false alarms below 1e-7 each.

    Releases are independent: a noise that is used twice would show as a smaller difference.
    """
    what, rows, codes = SUMS[name][0], records()[0], np.arange(90) % 3
    budgets = budgets_of(np.bincount(codes), [0.7, 0.9, 0.4], *protected)
    plan = SumPlan(budgets, "test", (budgets.spends,) * 150)
    with np.errstate(all="ignore"):
        federation = LocalFederation(of_rows(name, rows, codes), streams_for(1))
        sent = [plan.question(i, what).mean(federation, streams_for(2)) for i in range(150)]
        each = plan.question(0, what).each(federation, streams_for(2))
    drawn = np.array(sent).reshape(150, -1)
    scale = plan.noise(0, what) * np.ravel(np.broadcast_to(1.0, what.shape))
    total = np.square((drawn - drawn.mean(axis=0)) / scale).sum()
    low, high = chi2.ppf([5e-8, 1 - 5e-8], 149 * drawn.shape[1])
    assert low < total < high
    apart = np.square(np.diff(drawn, axis=0) / scale).sum() / 2
    assert apart > chi2.ppf(1e-9, 149 * drawn.shape[1]) / 2
    weights = budgets.weights / budgets.units
    if budgets.as_one:
        np.testing.assert_allclose(each[0] / budgets.units.sum(), sent[0], rtol=1e-9)
    else:
        np.testing.assert_allclose(np.tensordot(weights, each, 1), sent[0], rtol=1e-9, atol=1e-12)


def test_what_was_not_planned_is_not_asked():
    plan = plan_of(budgets_of([4, 5]), n=2)
    for number, what in ((2, Raw()), (-1, Raw()), (0, "everything"), (0, None)):
        with pytest.raises(ValueError, match=f"no sum number {number} for the test"):
            plan.question(number, what)
    other = SiloData.from_codes(np.zeros((9, D)), np.zeros(9), np.arange(9) % 2, 2)
    with pytest.raises(ValueError, match="silo sizes in the plan"):
        plan.question(0, Raw()).mean(LocalFederation(other, streams_for(0)), streams_for(0))


def test_the_drift_of_many_records_is_paid_for():
    """Sums of numbers that float64 cannot add exactly: the noise knows how far off they may be."""
    budgets = budgets_of([2 * 10**8])
    few, many = Raw().drift(budgets_of([100])), Raw().drift(budgets)
    assert 0 < few < 1e-6 < many < 0.1 * Raw().radius * 2e8
    assert plan_of(budgets).noised(0, Raw()).std > 2 * Raw().radius / 0.7 + 2 * many
    persons = budgets_of([2 * 10**8], unit="person")  # each a mean, to which others are added
    drift = Raw().drift(persons) + 4e16 * 2.0**-53 * Raw().radius
    assert plan_of(persons).noised(0, Raw()).std > 2 * (Raw().radius + drift) / 0.7


def test_the_error_of_a_persons_mean_is_in_both_factors_of_its_product():
    what, budgets = PilotScores(PARAMS, True, products="persons"), budgets_of([90], unit="person")
    assert what.drift(budgets) > 1.99 * replace(what, products="records").drift(budgets) > 0


@pytest.mark.parametrize("silos", [[0], [0, 1, 1]])
def test_each_silo_answers_once(silos):
    asked = plan_of(budgets_of([4, 5])).question(0, Raw())
    federation = SimpleNamespace(ask=lambda asked: [(np.array(silos), np.zeros((len(silos), D)))])
    with pytest.raises(ValueError, match="answer exactly once"):
        asked.each(federation, streams_for(0))


@dataclass(frozen=True)
class Mixing(Raw):
    """What a record adds depends on who is beside it."""

    def terms(self, X, y):
        return X - X.mean(axis=0)


@dataclass(frozen=True)
class Keeping(Raw):
    """What a record adds depends on who was there before it."""

    seen: list = field(default_factory=list)

    def terms(self, X, y):
        self.seen.append(X.sum())
        return X * 0 + len(self.seen)


@pytest.mark.parametrize("kind", [Mixing, Keeping])
def test_a_sum_from_outside_cannot_mix_records(kind):
    """Each is shown alone, to an object that has seen nothing."""
    rows = np.array([[0.1, 0.2, 0.3], [0.4, 0.0, 0.1], [0.0, 0.2, 0.1]])
    alone = sum(kind()._piece(row[None], np.zeros(1)) for row in rows)
    assert (kind()._piece(rows, np.zeros(3)) == alone).all()


@pytest.mark.parametrize(("base", "name"), [
    (Raw, "weight"), (Raw, "answers"), (Raw, "_std"), (CellCounts, "of_persons"),
    (scaling.Bins, "places"),
])  # fmt: skip
def test_a_sum_from_outside_does_not_say_how_it_is_noised(base, name):
    with pytest.raises(TypeError, match=f"must not define {name}, which the price depends on"):
        type("Heavy", (base,), {name: 100.0, "__module__": __name__, "radius": 1.0})


TURNED = np.array([[-1.0, 0.0, 10.0, 1.0, 20.0]])
UNFIT = {
    "edges that fall": (scaling.Bins(np.arange(D) == 0, 90, TURNED), "increasing bin edges"),
    "edges of NaN": (scaling.Bins(np.arange(D) == 0, 90, TURNED * np.nan), "increasing bin edges"),
    "a length below zero": (scaling.SecondMoments(np.zeros(D), -1.0, True), "does not fit"),
    "a shift without end": (scaling.Below(PARAMS, np.inf), "must be a finite number"),
    "few parameters": (scaling.Below(PARAMS[1:], 0.1), "needs a model"),
}


@pytest.mark.every
@pytest.mark.parametrize("case", UNFIT)
def test_numbers_with_which_a_sum_has_no_bound_are_refused(case):
    """The bin of a record would depend on the one before; a row at the center would be NaN."""
    what, words = UNFIT[case]
    with pytest.raises(ValueError, match=words):
        what.check(D, None, LEVELS)
