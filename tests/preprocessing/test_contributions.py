"""What one record can do to a message: sensitivities as the plan prices them, whatever it holds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.federation import SiloData
from skdpfl.scaling._ball import Ball, contributions
from skdpfl.scaling._bounds import read_feature_bounds, read_target_bounds
from skdpfl.scaling._choice import plan_scaling
from skdpfl.scaling._contributions import CountsOn, MomentsIn, RowsIn
from skdpfl.scaling._magnitudes import MagnitudeGrid
from skdpfl.scaling._messages import Look
from skdpfl.scaling._moments import DIAMETER, RADIUS, A, B, Boxes, levels

WILD = [0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan, 1e9, 2.0**-20]
GRIDS = [MagnitudeGrid(1.0), MagnitudeGrid(1.5)]
ANY = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(WILD)


def test_points_of_the_curve_are_no_further_apart_than_the_diameter():
    u = np.linspace(-1, 1, 1001)
    points = np.stack([u, A * u * u - A * B])
    apart = np.hypot(*(points[:, :, None] - points[:, None, :]))
    assert DIAMETER * (1 - 1e-12) <= apart.max() <= DIAMETER
    assert RADIUS * (1 - 1e-12) <= np.hypot(*points).max() <= RADIUS


@given(
    st.lists(ANY, min_size=2, max_size=2),
    st.floats(-1e300, 1e300),
    st.floats(1e-300, 1e300),
)
def test_contributions_stay_on_the_curve_whatever_the_values(values, center, half):
    boxes = Boxes(np.array([center]), np.array([half]))
    columns = np.array(values)[:, None]
    phi = MomentsIn(boxes)(columns, np.arange(2), 2)[:, 0]
    assert np.abs(levels(columns, boxes)).max() <= 4096
    assert np.linalg.norm(phi[0] - phi[1]) <= DIAMETER
    assert (np.linalg.norm(phi, axis=1) <= RADIUS).all()
    np.testing.assert_array_equal(phi * 2.0**27, np.rint(phi * 2.0**27))


@given(
    st.lists(st.lists(ANY, min_size=3, max_size=3), min_size=2, max_size=2),
    st.floats(-1e300, 1e300),
    st.floats(1e-300, 1e300),
)
def test_rows_stay_in_their_ball_whatever_the_values(values, center, half):
    ball = Ball(3)
    boxes = Boxes(np.full(3, center), np.full(3, half))
    a, b = np.moveaxis(contributions(np.array(values), boxes, ball), -1, 0)
    assert np.linalg.norm(a, axis=1).max() <= ball.radius
    assert np.linalg.norm(b, axis=1).max() <= ball.squares and b.min() >= 0
    assert np.hypot(np.linalg.norm(a[0] - a[1]), np.linalg.norm(b[0] - b[1])) <= ball.diameter
    for entries in (a, b):
        np.testing.assert_array_equal(entries * 2.0**20, np.rint(entries * 2.0**20))


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_every_value_has_exactly_one_bin(grid):
    rng = np.random.default_rng(0)
    values = np.concatenate([WILD, np.exp(rng.uniform(-80, 80, 500)) * rng.choice([-1, 1], 500)])
    bins = grid.bins(values)
    assert bins.min() >= 0 and bins.max() < grid.n_bins
    sums = CountsOn(grid)(values[:, None], np.zeros(len(values), int), 1)
    assert sums.sum() == len(values) and sums.shape == (1, 1, grid.n_bins)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_bins_lie_between_their_edges(grid):
    values = np.array([-3e4, -0.7, 3e-5, 0.01, 0.99, 1.01, 2.0, 5.3, 1e5])
    bins, edges = grid.bins(values), grid.edges
    assert len(edges) == grid.n_bins
    assert (edges[bins] <= values).all() and (values < edges[bins + 1]).all()
    assert grid.bins(np.array([1.0]))[0] == grid.n_bins - 1
    assert (grid.bins(np.array([0.0, np.nan, np.inf, 1e-9])) == grid.n_positive).all()


def plans():
    """One plan per kind of release, unit, trust and relation; budgets infinite: exact sums."""
    bounds = read_feature_bounds((-1, 1), 3)
    target = read_target_bounds((0, 10))
    settings_ = [
        ("record", "silo", "replace"),
        ("record", "silo", "add_remove"),
        ("record", "server", "replace"),
        ("silo", "silo", "replace"),
        ("silo", "server", "add_remove"),
    ]
    for (unit, trust, neighbours), known in itertools.product(settings_, (True, False)):
        yield plan_scaling(
            silo_sizes=[4, 3],
            n_features=3,
            mu=np.inf,
            feature_bounds=bounds if known else None,
            target_bounds=target if known else None,
            has_target=True,
            unit=unit,
            trust=trust,
            neighbours=neighbours,
        )


def label(plan):
    s = plan.setting
    return f"{s.unit}-{s.trust}-{s.neighbours}-{plan.features}"


ROWS = st.lists(st.lists(ANY, min_size=4, max_size=4), min_size=3, max_size=3)
CODES = np.array([0, 1, 0, 1, 0, 1, 0])


def data(rows=None, where=()):
    X = np.random.default_rng(1).uniform(-1, 1, (7, 4))
    for row, values in zip(where, rows or (), strict=False):
        X[row] = values
    return X


def exact_sums(plan, release, X):
    """The silos' exact sums (means for unit "silo"), flattened per silo."""
    boxes = Boxes(np.array([0.0, 0.0, 0.0, 5.0]), np.array([1.0, 1.0, 1.0, 5.0]))
    of = CountsOn(release.grid) if release.is_counts else MomentsIn(boxes)
    of = of if release.ball is None else RowsIn(boxes, release.ball)
    data = SiloData.from_codes(X[:, :3], X[:, 3], CODES, 2)
    sums = np.concatenate([block for _, block in Look(plan, release, of, 0).exact_sums(data)])
    sums = sums.reshape(2, -1)
    return sums.sum(axis=0) if plan.setting.at_server else sums[1]


def furthest(plan, release):
    """How far apart two records' contributions are at most, worked out anew."""
    weights = plan.weights(release)
    if release.ball is None:
        return release.diameter * np.linalg.norm(weights)
    d = release.ball.n_features  # 2 R, sqrt(2) Q, and the target's phi
    return np.sqrt(4 * 0.64 * d + 2 * 0.49 * d + (2 * weights[d:]) @ (2 * weights[d:]))


@pytest.mark.parametrize("plan", list(plans()), ids=label)
@settings(max_examples=40)
@given(rows=ROWS)
def test_a_unit_moves_a_message_by_at_most_the_sensitivity(plan, rows):
    where = np.flatnonzero(CODES == 1)  # silo 1 is the unit, or its first record
    where = where if plan.setting.unit == "silo" else where[:1]
    for release in plan.releases:
        moved = exact_sums(plan, release, data(rows, where)) - exact_sums(plan, release, data())
        slack = 1e-12 if plan.setting.unit == "silo" else 0.0
        assert np.linalg.norm(moved) <= furthest(plan, release) + slack
        if plan.setting.neighbours == "replace":
            assert plan.sensitivity(release) == pytest.approx(furthest(plan, release))


@pytest.mark.parametrize("plan", list(plans()), ids=label)
def test_the_sensitivity_is_attained(plan):
    """By the rows (-1, ..) and (1, ..): were it smaller, the promise would be broken here."""
    where = np.flatnonzero(CODES == 1)
    where = where if plan.setting.unit == "silo" else where[:1]
    low, high = np.array([-1.0, -1.0, -1.0, 0.0]), np.array([1.0, 1.0, 1.0, 10.0])
    for release in plan.releases:
        if release.ball is not None:
            continue
        ends = [exact_sums(plan, release, data([row] * len(where), where)) for row in (low, high)]
        moved = np.linalg.norm(ends[1] - ends[0])
        if plan.setting.neighbours == "replace":
            assert moved == pytest.approx(plan.sensitivity(release))
        else:  # one contribution's norm
            assert plan.sensitivity(release) == pytest.approx(
                release.radius * np.linalg.norm(plan.weights(release))
            )
            assert moved <= 2 * plan.sensitivity(release)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_the_sensitivity_to_a_row_is_nearly_attained(neighbours):
    """Opposite long rows: 2 R apart; a row alone: both its parts are as long as they may be."""
    plan = plan_scaling(silo_sizes=[4, 3], n_features=3, mu=np.inf, neighbours=neighbours,
                        feature_bounds=read_feature_bounds((-1, 1), 3))  # fmt: skip
    release, boxes = plan.moments[1], Boxes(np.zeros(3), np.ones(3))
    one, other = contributions(np.array([[9.0, 0, 0], [0, -9.0, 9.0]]), boxes, release.ball)
    far = np.linalg.norm(one - other) if neighbours == "replace" else np.linalg.norm(one)
    parts = {"replace": np.sqrt(2) * release.ball.norm, "add_remove": release.ball.norm}
    assert far == pytest.approx(parts[neighbours], rel=1e-5)
    assert far <= plan.sensitivity(release) <= 1.3 * far


def test_sums_are_exact_so_the_order_of_records_does_not_show():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(100_000, 3)) * 10.0 ** rng.integers(-9, 9, (100_000, 3))
    boxes = Boxes(np.array([0.1, 0, 0]), np.array([1.0, 7, 3]))
    codes = np.zeros(len(columns), int)
    for sums in (MomentsIn(boxes), RowsIn(boxes, Ball(2))):
        one = sums(columns, codes, 1)
        np.testing.assert_array_equal(one, sums(columns[rng.permutation(len(columns))], codes, 1))
        np.testing.assert_array_equal(one * 2.0**27, np.rint(one * 2.0**27))
