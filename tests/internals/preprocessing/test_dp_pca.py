"""More of tests/preprocessing/test_dp_pca.py: what only private names show."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from skdpfl.federation import LocalFederation, SiloBudgets, SiloData
from skdpfl.preprocessing._second_moments import (
    PIECE,
    MomentsPlan,
    SecondMoments,
    cut,
    noisy_moments,
)
from skdpfl.privacy.randomness.streams import streams_for
from tests.preprocessing.test_dp_pca import PROTECTED, RELATIONS, data


def plan_of(unit="record", trust="silo", neighbours="replace", *, mean=True, d=3, R=1.0, n=(4, 3)):
    setting = SiloBudgets(np.array(n), np.full(len(n), 0.7), unit, trust, neighbours)
    return MomentsPlan(setting, R, np.zeros(d), mean)


def exact_sum(plan, X, codes=None):
    codes = np.zeros(len(X), int) if codes is None else codes
    data = SiloData.from_codes(X, np.zeros(len(X)), codes, codes.max() + 1)
    return SecondMoments(plan)._sum(data, 0)


def angle(R, t, b):
    """Two rows of norm R whose product is -t b^2."""
    c = -t * b**2 / R**2
    return np.array([R, 0, 0]), R * np.array([c, np.sqrt(1 - c**2), 0])


@pytest.mark.parametrize("R", [1.0, 3.0])
@pytest.mark.parametrize("mean", [True, False], ids=["mean", "no mean"])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_worst_neighbours_attain_the_sensitivity_and_none_exceeds_it(neighbours, mean, R):
    plan = plan_of(neighbours=neighbours, mean=mean, R=R)
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
    assert max(moved) <= plan.sensitivity * (1 + 1e-14)
    assert max(moved) >= plan.sensitivity * (1 - 1e-12)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_whole_silo_moves_its_mean_no_more_than_a_record_would(neighbours):
    plan = plan_of("silo", neighbours=neighbours)
    x, y = angle(1.0, 1.0, plan.lift)
    one, other = (exact_sum(plan, np.tile(row, (n, 1))) for row, n in ((x, 3), (y, 9)))
    moved = np.linalg.norm(one - other if neighbours == "replace" else one)
    assert plan.sensitivity * (1 - 1e-12) <= moved <= plan.sensitivity * (1 + 1e-14)


def test_rows_are_cut_below_the_norm_in_exact_arithmetic():
    rows = np.random.default_rng(0).normal(size=(20, 50)) * np.logspace(-3, 100, 20)[:, None]
    for row in cut(rows, np.zeros(50), 0.3):
        assert sum(Fraction(v) ** 2 for v in row.tolist()) <= Fraction(0.3) ** 2
    short = np.full((1, 3), 0.1)
    np.testing.assert_array_equal(cut(short, np.zeros(3), 1.0), short)
    assert not cut(np.array([[np.nan, 1], [np.inf, 1], [1e200, 1]]), np.zeros(2), 1.0).any()


@pytest.mark.filterwarnings("ignore:Noise alone:UserWarning")
@pytest.mark.parametrize("protects", [PROTECTED[0], PROTECTED[2], PROTECTED[4]], ids="-".join)
def test_the_noise_is_what_it_is_said_to_be(protects):
    """Two-sided chi-square tests, false alarms below 1e-7 each; rows of zeros give noise only."""
    names = dict(zip(("unit", "trust", "neighbours"), protects, strict=True))
    X = np.zeros((60, 80))
    plan = MomentsPlan(
        SiloBudgets(np.full(5, 12), np.full(5, 0.7), **names), 1.0, np.zeros(80), True
    )
    streams = streams_for(1)
    silos = SiloData.from_codes(X, np.zeros(60), np.arange(60) % 5, 5)
    federation = LocalFederation(silos, streams)
    found = noisy_moments(plan, federation, streams)
    beside = found.second[np.triu_indices(80, 1)] / plan.noise_of_matrix
    diagonal = found.second.diagonal() / (plan.noise_of_matrix * np.sqrt(2))
    mean = found.mean / (plan.noise_of_matrix / plan.lift)
    for values in (beside, diagonal, mean):
        low, high = chi2.ppf([5e-8, 1 - 5e-8], values.size)
        assert low < (values**2).sum() < high
    np.testing.assert_array_equal(found.second, found.second.T)


def test_a_silos_message_depends_on_no_other_silo():
    X = data(200)
    plan = plan_of(d=12, n=(100, 100))

    def message(X, codes):
        streams = streams_for(0)
        silos = SiloData.from_codes(X, np.zeros(200), codes, 2)
        return {int(s[0]): m for s, m in SecondMoments(plan).answers(silos, streams)}[0]

    codes = np.repeat([0, 1], 100)
    mixed = np.argsort(np.random.default_rng(0).permutation(200) % 2, kind="stable")
    back = np.argsort(mixed)
    other = X.copy()
    other[100:] = 1e9
    np.testing.assert_array_equal(message(X, codes), message(other, codes))
    np.testing.assert_array_equal(message(X, codes), message(X[back], codes[back]))


def test_records_beyond_a_piece_are_added():
    X = np.zeros((PIECE + 5, 2))
    X[-1] = 1, 0
    assert exact_sum(plan_of(d=2, mean=False), X)[0] == pytest.approx(1)
