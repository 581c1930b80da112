"""More of tests/preprocessing/test_dp_pca.py: what only private names show."""

from fractions import Fraction

import numpy as np
import pytest

from skdpfl.federation import SiloData
from skdpfl.scaling._centre_sums import SecondMoments, cut
from tests.made_sums import exact_sums
from tests.preprocessing.test_dp_pca import RELATIONS


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
