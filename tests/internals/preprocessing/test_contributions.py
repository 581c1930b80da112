"""What one record adds to the columns' sums: the lemmas behind them."""

from fractions import Fraction

import numpy as np
import pytest

from skdpfl.federation import SiloData
from skdpfl.scaling import Columns, Counts, LinearGrid, MagnitudeGrid
from skdpfl.scaling._centre_sums import cut

WILD = [0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan, 1e9, 2.0**-20]
GRIDS = [MagnitudeGrid(), LinearGrid(0, 10), LinearGrid(-1e308, 1e308, 3)]


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


def test_rows_are_cut_below_the_norm_in_exact_arithmetic():
    rows = np.random.default_rng(0).normal(size=(20, 50)) * np.logspace(-3, 100, 20)[:, None]
    for row in cut(rows, np.zeros(50), 0.3):
        assert sum(Fraction(v) ** 2 for v in row.tolist()) <= Fraction(0.3) ** 2
    short = np.full((1, 3), 0.1)
    np.testing.assert_array_equal(cut(short, np.zeros(3), 1.0), short)
    assert not cut(np.array([[np.nan, 1], [np.inf, 1], [1e200, 1]]), np.zeros(2), 1.0).any()
