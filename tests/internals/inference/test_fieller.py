"""Newton steps from noisy sums, and Fieller's interval: the arithmetic alone."""

import numpy as np
import pytest
from scipy.stats import binom

from skdpfl.federation import SiloData, SumPlan, Work
from skdpfl.inference import HazardScores, NewtonStep, PilotScores
from skdpfl.inference._fieller import packed, unpacked
from skdpfl.inference._plan import from_events
from skdpfl.losses import LogLoss
from skdpfl.models import LinearModel
from skdpfl.remote import Refused
from skdpfl.remote._letters import Facts
from skdpfl.remote._row import validate_question
from tests.made_sums import budgets_of


def made_step(rng, n=600, m=12, score_noise=6.0, curvature_noise=9.0):
    """A linear problem of m silos with a known truth, and noisy sums at a pilot."""
    truth, pilot = np.array([1.0, -0.5, 0.2]), np.array([0.6, -0.2, 0.0])
    X = rng.normal(size=(m, n // m, 3))
    y = X @ truth + rng.normal(size=(m, n // m))
    scores = np.einsum("mnk,mn->mk", X, y - X @ pilot)
    curvatures = np.einsum("mnk,mnl->mkl", X, X)
    noise = rng.normal(size=(m, 6)) * curvature_noise / np.sqrt(m)
    curvatures = curvatures + np.array([unpacked(own, 3) for own in noise])
    scores = scores + rng.normal(size=(m, 3)) * score_noise / np.sqrt(m)
    both = scores.sum(axis=0), curvatures.sum(axis=0)
    step = NewtonStep(pilot, *both, score_noise, curvature_noise)
    return truth, step, NewtonStep(pilot, *both, score_noise, curvature_noise,
                                   each=(scores, curvatures))  # fmt: skip


@pytest.mark.slow
def test_intervals_cover_and_p_values_are_uniform():
    """400 problems: each rate within 5.4 deviations, so false alarms are below 1e-6 in all.

    Without the noise of the curvature, or of the score, coverage is below .90.
    """
    rng, covered, p, n = np.random.default_rng(0), [], [], 400
    c = np.array([1.0, 1.0, 0.0])
    for _ in range(n):
        truth, *steps = made_step(rng)
        found = [own.interval(c, 0.9, null=c @ truth) for own in steps]
        covered.append([own.lower <= c @ truth <= own.upper for own in found])
        p.append([own.p for own in found])
        for own in found:  # the test and the interval are one
            assert (own.p >= 0.1 - 1e-6) == (own.lower <= c @ truth <= own.upper)
    low, high = binom.ppf([3e-8, 1 - 3e-8], n, 0.9)
    rates = np.sum(covered, axis=0)
    assert low <= rates[0] <= high
    assert 0.87 * n < rates[1] <= high  # replicates: the mean's law is that of t approximately
    assert np.abs(np.mean(np.array(p)[:, 0] < 0.3) - 0.3) < 5.4 * np.sqrt(0.21 / n)


def test_what_noise_hides_has_no_interval():
    rng = np.random.default_rng(2)
    _, step, _ = made_step(rng, n=60, curvature_noise=300.0)
    assert "hides the curvature" in step.refused
    one = NewtonStep(np.zeros(1), np.array([3.0]), np.array([[4.0]]), 1.0, 3.0)
    assert not one.refused and one.interval([1.0], 0.95).upper == np.inf


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_what_columns_determine_has_no_interval_without_noise(scale):
    """Its eigenvalue is 0 but for rounding, of either sign."""
    column = np.random.default_rng(0).normal(size=50)
    rows = np.column_stack([column, column, column / 3]) * scale
    step = NewtonStep(np.zeros(3), np.ones(3), rows.T @ rows, 0.0, 0.0)
    assert "determine each other" in step.refused
    rows[:, 1:] += scale * np.random.default_rng(1).normal(size=(50, 2))
    assert not NewtonStep(np.zeros(3), np.ones(3), rows.T @ rows, 0.0, 0.0).refused


def test_packing_keeps_distances():
    matrix = np.arange(9.0).reshape(3, 3)
    matrix = matrix + matrix.T
    assert np.array_equal(unpacked(packed(matrix.copy()), 3), matrix)
    assert np.linalg.norm(packed(matrix.copy())) == pytest.approx(np.linalg.norm(matrix))


@pytest.mark.parametrize("n_each", [7, 90])  # summed together, and one by one
@pytest.mark.parametrize("kind", [PilotScores, HazardScores])
def test_a_persons_outer_product_is_that_of_the_mean(kind, n_each):
    """However many records there are; it is in the set that is priced."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20 * n_each, 3)) * 10.0 ** rng.integers(-2, 3, (20 * n_each, 1))
    X[5] = np.nan
    y = (rng.random(len(X)) < 0.5).astype(np.int8)
    data = SiloData.from_codes(X, y, np.repeat(np.arange(20), n_each), 20)
    work = Work(LinearModel(3, 1), LogLoss(), None, None, np.dtype(float))
    known = np.array([1.0, -2.0, 0.5, 0.3]), True
    what, scores = (kind(*known, cut_score=0.7, products=of) for of in ("persons", "none"))
    found, means = np.zeros((20, 10)), np.zeros((20, 4))
    for silos, sums in what.sums(data, work):
        found[silos] = sums / n_each
    for silos, sums in scores.sums(data, work):
        means[silos] = sums / n_each
    expected = [packed(np.outer(mean, mean)) for mean in means]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)
    apart = np.linalg.norm(found[:, None] - found, axis=-1)
    assert np.linalg.norm(found, axis=1).max() <= what.radius and apart.max() <= what.diameter


@pytest.mark.parametrize("unit", ["record", "silo"])
def test_products_of_means_are_for_persons(unit):
    """Of records, one would move the product of its silo's mean by 2.8 times the diameter."""
    plan = SumPlan(budgets_of([200], unit=unit), "intervals", (np.ones(1),))
    known, facts = (np.zeros(4), True), Facts(3, None, (0, 1), "float64", 200)
    work = Work(LinearModel(3, 1), LogLoss(), None, None, np.dtype(float))
    validate_question(plan, 0, PilotScores(*known, products="records"), facts, work)
    with pytest.raises(Refused, match='means are for unit="person"'):
        validate_question(plan, 0, PilotScores(*known, products="persons"), facts, work)


def test_slopes_step_is_that_from_the_events_hazard():
    """A binary column with rates 3 and 1: (p - x) O is the score there, p (1 - p) O the slope."""
    events, at_risk = np.array([30.0, 90.0]), np.array([200.0, 200.0])
    found = []
    for hazard in (0.03, 0.3, 3.0):
        expected = hazard * at_risk
        left, x = events - expected, np.array([0.0, 1.0])
        curvature = np.array([[expected[1], expected[1]], [expected[1], expected.sum()]])
        own = NewtonStep(np.zeros(2), np.array([left @ x, left.sum()]), curvature, 1.0, 2.0)
        step = from_events(own, 1)
        assert step.score_noise == 1 and step.curvature_noise == pytest.approx(0.6 / hazard)
        found.append((step.estimate[0], step.covariance[0, 0]))
    assert np.array(found)[:, 0] == pytest.approx([1.0] * 3)  # (90 - 30) / 60
    assert max(found)[1] < 0.2
    hidden = NewtonStep(np.zeros(2), np.array([0.0, -9.0]), np.eye(2), 1.0, 0.0)
    assert "hides" in from_events(hidden, 1).refused
