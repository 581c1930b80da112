"""What one record adds to the columns' sums: the lemmas behind them."""

from fractions import Fraction

import numpy as np
import pytest

from skdpfl.federation import SiloData
from skdpfl.scaling import Boxes, Columns, Counts, LinearGrid, MagnitudeGrid, RowMoments
from skdpfl.scaling._centre_sums import SecondMoments, cut
from skdpfl.scaling._moments import DIAMETER, RADIUS, A, B, contributions
from tests.made_sums import exact_sums
from tests.preprocessing.test_dp_pca import RELATIONS

WILD = [0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan, 1e9, 2.0**-20]
GRIDS = [MagnitudeGrid(), LinearGrid(0, 10), LinearGrid(-1e308, 1e308, 3)]


def test_points_of_the_curve_are_no_further_apart_than_the_diameter():
    u = np.linspace(-1, 1, 1001)
    points = np.stack([u, A * u * u - A * B])
    apart = np.hypot(*(points[:, :, None] - points[:, None, :]))
    assert DIAMETER * (1 - 1e-12) <= apart.max() <= DIAMETER
    assert RADIUS * (1 - 1e-12) <= np.hypot(*points).max() <= RADIUS


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_the_sensitivity_to_a_row_is_nearly_attained(neighbours):
    """Opposite long rows: 2 R apart; a row alone: both its parts are as long as they may be."""
    rows = RowMoments(Columns(np.ones(3, bool), False), Boxes(np.zeros(3), np.ones(3)))
    records = np.array([[9.0, 0, 0], [0, -9.0, 9.0]])
    one, other = contributions(records, rows.boxes, rows.ball).swapaxes(0, 1)
    far = np.linalg.norm(one - other) if neighbours == "replace" else np.linalg.norm(one)
    parts = {"replace": np.sqrt(2) * rows.ball.norm, "add_remove": rows.ball.norm}
    assert far == pytest.approx(parts[neighbours], rel=1e-5)
    assert far <= (rows.diameter if neighbours == "replace" else rows.radius) <= 1.3 * far


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_every_value_has_exactly_one_bin(grid):
    rng = np.random.default_rng(0)
    values = np.concatenate([WILD, np.exp(rng.uniform(-80, 80, 500)) * rng.choice([-1, 1], 500)])
    bins = grid.bins(values)
    assert bins.min() >= 0 and bins.max() < grid.n_bins
    data = SiloData(np.empty((len(values), 0)), values, np.array([0, len(values)]))
    _, sums = next(Counts(Columns(np.zeros(0, bool), True), grid).sums(data, None))
    assert sums.sum() == len(values) and sums.shape == (1, 1, grid.n_bins)
    if isinstance(grid, LinearGrid):
        ends = grid.bins(np.array([-np.inf, np.inf, np.nan]))
        assert ends.tolist() == [0, grid.n_bins - 1, grid.n_bins // 2]


@pytest.mark.parametrize("grid", GRIDS[:1], ids=repr)
def test_bins_lie_between_their_edges(grid):
    values = np.array([-3e4, -0.7, 3e-5, 0.01, 0.99, 1.01, 2.0, 5.3, 1e5])
    bins, edges = grid.bins(values), grid.edges
    assert len(edges) == grid.n_bins
    assert (edges[bins] <= values).all() and (values < edges[bins + 1]).all()
    assert grid.bins(np.array([1.0]))[0] == grid.n_bins - 1
    assert (grid.bins(np.array([0.0, np.nan, np.inf, 1e-9])) == grid.n_positive).all()


def moments(mean=True, d=3, R=1.0, n_silos=1):
    return SecondMoments(np.zeros(d), R, mean, n_silos)


def exact_sum(what, X, unit="record"):
    codes = np.zeros(len(X), int)
    return exact_sums(what, SiloData.from_codes(X, np.zeros(len(X)), codes, 1), unit)[0]


def reach(what, neighbours):
    return what.diameter if neighbours == "replace" else what.radius


def angle(R, t, b):
    """Two rows of norm R whose product is -t b^2."""
    c = -t * b**2 / R**2
    return np.array([R, 0, 0]), R * np.array([c, np.sqrt(1 - c**2), 0])


@pytest.mark.parametrize("R", [1.0, 3.0])
@pytest.mark.parametrize("mean", [True, False], ids=["mean", "no mean"])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_worst_neighbours_attain_the_sensitivity_and_none_exceeds_it(neighbours, mean, R):
    plan = moments(mean, R=R)
    rng = np.random.default_rng(0)
    rest = rng.normal(size=(5, 3))
    worst = angle(R, 1.0, plan.lift)
    rows = [*worst, *(angle(R, t, plan.lift)[1] for t in (-1.0, 0.5, 2.0)), np.zeros(3)]
    rows += [[1e300, 1e300, 0], [3e38, -1, 0], [1e-200, 0, 0], *rng.normal(size=(20, 3))]
    sums = [exact_sum(plan, np.vstack([rest, row])) for row in rows]
    if neighbours == "add_remove":
        zeroed = exact_sum(plan, rest)
        moved = [np.linalg.norm(s - zeroed) for s in sums]
    else:
        moved = [np.linalg.norm(s - t) for s in sums for t in sums]
    assert max(moved) <= reach(plan, neighbours) * (1 + 1e-14)
    assert max(moved) >= reach(plan, neighbours) * (1 - 1e-12)


def test_rows_are_cut_below_the_norm_in_exact_arithmetic():
    rows = np.random.default_rng(0).normal(size=(20, 50)) * np.logspace(-3, 100, 20)[:, None]
    for row in cut(rows, np.zeros(50), 0.3):
        assert sum(Fraction(v) ** 2 for v in row.tolist()) <= Fraction(0.3) ** 2
    short = np.full((1, 3), 0.1)
    np.testing.assert_array_equal(cut(short, np.zeros(3), 1.0), short)
    assert not cut(np.array([[np.nan, 1], [np.inf, 1], [1e200, 1]]), np.zeros(2), 1.0).any()
