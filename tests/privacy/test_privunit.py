"""PrivUnit, ScalarDP and the message made of both: exact privacy, unbiased, error as stated.

Statistical tests compare a mean with its expectation at 6 standard errors or more, computed from
the stated variance: false alarms below 2e-9 for one number, below 1e-6 for each test as a whole.
"""

import math
import zlib

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln

from skdpfl.privacy.mechanisms.privunit import (
    N_UNIFORMS,
    PrivUnitMechanism,
    ScalarDP,
    largest_error,
    privunit,
    split_epsilon,
)

CAPS = [(1, 2.0), (2, 1.0), (3, 4.0), (50, 4.0), (500, 6.0), (36_895, 5.0), (10**6, 8.0)]
SMALL_CAPS = [c for c in CAPS if c[0] <= 500]


class Draws:
    """A stream of random numbers as the mechanisms see it."""

    def __init__(self, name):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.random, self.normal = rng.random, rng.standard_normal


def stream(name):
    return Draws(name)


def unit(d, seed=1):
    v = np.random.default_rng(seed).standard_normal(d)
    return v / np.linalg.norm(v)


def cap_mass(gamma, d):
    """The share of the sphere with <v, u> >= gamma, by quadrature of its density."""
    log_c = gammaln(d / 2) - gammaln((d - 1) / 2) - 0.5 * math.log(math.pi)

    def density(angle):  # t = cos(angle)
        return math.exp(log_c + (d - 2) * math.log(math.sin(angle))) if angle else float(d == 2)

    return quad(density, 0.0, math.acos(gamma), epsabs=0, epsrel=1e-10, limit=500)[0]


# ------------------------------------------------------------------------------- PrivUnit


@pytest.mark.parametrize(("d", "epsilon"), [c for c in CAPS if 2 <= c[0] < 10**5])
def test_density_ratio_is_exactly_exp_epsilon(d, epsilon):
    """Guarantee: p/q against (1-p)/(1-q), with the cap's mass from an independent integral."""
    cap = privunit(epsilon, d)
    q, p = cap_mass(cap.gamma, d), cap.probability
    assert q == pytest.approx(cap.mass, rel=1e-7)
    ratio = (p / q) / ((1 - p) / (1 - q))
    assert math.log(ratio) == pytest.approx(epsilon, abs=1e-6)
    assert p > q, "the cap around the input must be the likelier side"


@pytest.mark.parametrize(("d", "epsilon"), SMALL_CAPS)
def test_both_sides_are_drawn_as_often_as_promised(d, epsilon):
    """What is priced is what is drawn: the share in the cap is p, seen from elsewhere at most it.

    From the opposite input the same set has mass (1-p)/(1-q) * q if the caps are disjoint.
    """
    cap, n = privunit(epsilon, d), 40_000 if d < 100 else 10_000
    s = stream(f"sides {d}")
    u = unit(d)
    points = cap.randomise(np.tile(u, (n, 1)), s.random((n, 2)), s.normal((n, d))) * cap.scale
    t = points @ u
    for observed, probability in (
        ((t >= cap.gamma).sum(), cap.probability),
        ((t <= -cap.gamma).sum(), (1 - cap.probability) / (1 - cap.mass) * cap.mass),
    ):
        # the grid may carry points over the edge: at most this share of them
        edge = (np.abs(np.abs(t) - cap.gamma) < 4 * cap.grid).sum()
        law = stats.binom(n, probability)
        assert law.ppf(1e-8) - edge <= observed <= law.ppf(1 - 1e-8) + edge


@pytest.mark.parametrize(
    ("d", "epsilon"), [(3, 4.0), (50, 4.0), pytest.param(500, 6.0, marks=pytest.mark.slow)]
)
def test_uniform_on_each_side(d, epsilon):
    """Given the side, <V, u> has the sphere's own law (Kolmogorov-Smirnov, p-value above 1e-7)."""
    cap, n = privunit(epsilon, d), 20_000
    s = stream(f"uniform {d}")
    u = unit(d)
    uniforms = s.random((n, 2))
    points = cap.randomise(np.tile(u, (n, 1)), uniforms, s.normal((n, d))) * cap.scale
    t = points @ u
    a = (d - 1) / 2
    law = stats.beta(a, a, loc=-1, scale=2)
    inside = uniforms[:, 0] < cap.probability
    for side, low, high in ((inside, cap.gamma, 1.0), (~inside, -1.0, cap.gamma)):
        f0, f1 = law.cdf([low, high])
        rank = (law.cdf(t[side]) - f0) / (f1 - f0)
        assert stats.kstest(rank, "uniform").pvalue > 1e-7
    # across the input nothing is preferred: the mean of the rest is zero in every coordinate
    across = points - t[:, None] * u
    assert np.abs(across.mean(axis=0)).max() < 7 * math.sqrt(1 / d / n)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "epsilon"), SMALL_CAPS)
def test_privunit_is_unbiased_and_has_the_stated_error(d, epsilon):
    cap, n = privunit(epsilon, d), 20_000
    s = stream(f"mean {d}")
    u = unit(d)
    messages = cap.randomise(np.tile(u, (n, 1)), s.random((n, 2)), s.normal((n, d)))
    along = messages @ u
    assert abs(along.mean() - 1.0) < 6 * along.std() / math.sqrt(n)
    error = np.square(messages - u).sum(axis=1)
    room = 6 * error.std() / math.sqrt(n) + 2e-3 * cap.mean_squared_error
    assert abs(error.mean() - cap.mean_squared_error) < room
    assert np.linalg.norm(messages, axis=1) == pytest.approx(1 / cap.scale, rel=2e-3)


def test_messages_lie_on_the_grid():
    """The last bits of the arithmetic do not leave the silo."""
    cap = privunit(3.0, 20)
    s = stream("grid")
    messages = cap.randomise(np.tile(unit(20), (50, 1)), s.random((50, 2)), s.normal((50, 20)))
    steps = messages * cap.scale / cap.grid
    assert np.abs(steps - np.rint(steps)).max() < 1e-6
    assert math.log2(cap.grid) == int(math.log2(cap.grid))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 21.0, math.inf, math.nan])
def test_privunit_refuses_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, 20\]"):
        privunit(epsilon, 5)
    with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, 20\]"):
        split_epsilon(epsilon, 5)
    with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, 20\]"):
        ScalarDP(epsilon, 1.0)


def test_privunit_refuses_bad_dimension():
    with pytest.raises(ValueError, match="dimension"):
        privunit(1.0, 0)


# ------------------------------------------------------------------------------- ScalarDP

SCALARS = [ScalarDP(0.5, 1.0), ScalarDP(2.0, 3.0), ScalarDP(6.0, 0.1), ScalarDP(2.0, 1.0, 5)]


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_transition_ratio_is_exactly_exp_epsilon(scalar):
    """Guarantee: the worst ratio over outputs and pairs of inputs, rounding included."""
    matrix = scalar.transition
    assert matrix.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    x = np.linspace(0, scalar.n_levels, 101)
    low = np.minimum(np.floor(x).astype(int), scalar.n_levels - 1)
    rows = (1 - (x - low))[:, None] * matrix[low] + (x - low)[:, None] * matrix[low + 1]
    worst = (rows.max(axis=0) / rows.min(axis=0)).max()
    assert math.log(worst) == pytest.approx(scalar.epsilon, abs=1e-9)


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_estimates_are_unbiased_by_enumeration(scalar):
    for i, row in enumerate(scalar.transition):
        level = i * scalar.step
        assert row @ scalar.numbers == pytest.approx(level, abs=1e-12)
        assert row @ scalar.squares == pytest.approx(level**2, abs=1e-12)


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_levels_are_drawn_with_the_stated_probabilities(scalar):
    """Chi-square over the levels, p-value above 1e-7; and the second moment as stated."""
    n, value = 40_000, 0.37 * scalar.bound
    levels = scalar.randomise(np.full(n, value), stream(str(scalar)).random((n, 3)))
    x = value / scalar.step
    low = int(x)
    expected = (1 - x + low) * scalar.transition[low] + (x - low) * scalar.transition[low + 1]
    observed = np.bincount(levels, minlength=scalar.n_levels + 1)
    assert stats.chisquare(observed, n * expected).pvalue > 1e-7
    assert expected @ scalar.numbers**2 == pytest.approx(float(scalar.second_moment(value)))


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_scalar_refuses_bad_bounds(bound):
    with pytest.raises(ValueError, match=r"bound must be a number in \(0, inf\)"):
        ScalarDP(1.0, bound)


# ------------------------------------------------------------------------------- the message

MECHANISM = PrivUnitMechanism(4.0, 2.0, 1.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "norm", [0.4, 1.5, *(pytest.param(v, marks=pytest.mark.slow) for v in (0.0, 40.0))]
)
def test_message_is_unbiased_for_the_clipped_vector(norm):
    """To one per cent of C, and within 6 standard errors, for vectors below and above C."""
    d, n = 10, 200_000
    u = unit(d)
    s = stream(f"message {norm}")
    uniforms, normals = s.random((n, N_UNIFORMS)), s.normal((n, d))
    messages, squares = MECHANISM.randomise(np.tile(norm * u, (n, 1)), uniforms, normals)
    clipped = min(norm, 1.5) * u
    mean = messages.mean(axis=0)
    sd = math.sqrt(float(MECHANISM.mean_squared_error(min(norm, 1.5), d)) / d / n)
    assert np.abs(mean - clipped).max() < 8 * sd
    assert abs(mean @ u - clipped @ u) < 0.01 * 1.5
    error = np.square(messages - clipped).sum(axis=1)
    stated = float(MECHANISM.mean_squared_error(min(norm, 1.5), d))
    assert abs(error.mean() - stated) < 6 * error.std() / math.sqrt(n) + 2e-3 * stated
    x = min(norm, 1.5) / MECHANISM.norm_randomiser.step
    excess = MECHANISM.norm_randomiser.step**2 * (x % 1) * (1 - x % 1)
    wanted = min(norm, 1.5) ** 2 + excess
    assert abs(squares.mean() - wanted) < 6 * squares.std() / math.sqrt(n)


def test_messages_without_a_norm_count_as_zero():
    vectors = np.array([[np.nan, 1.0], [np.inf, 0.0], [0.0, 0.0]])
    s = stream("bad")
    uniforms, normals = s.random((3, N_UNIFORMS)), s.normal((3, 2))
    out = MECHANISM.randomise(vectors, uniforms, normals)
    zero, squares_of_zero = MECHANISM.randomise(np.zeros((3, 2)), uniforms, normals)
    assert np.isfinite(out.messages).all()
    assert np.array_equal(out.messages, zero)
    assert np.array_equal(out.squared_norms, squares_of_zero)


@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 50), (6.0, 500), (12.0, 36_895)])
def test_split_adds_up_and_no_other_split_is_better(epsilon, d):
    direction, norm = split_epsilon(epsilon, d)
    assert direction + norm == pytest.approx(epsilon, rel=1e-12)
    best = largest_error(direction, norm, d)
    for share in np.linspace(0.05, 0.95, 19):
        assert best <= largest_error((1 - share) * epsilon, share * epsilon, d) * (1 + 1e-9)
    for share in norm / epsilon + np.linspace(-0.02, 0.02, 21):
        assert best <= largest_error((1 - share) * epsilon, share * epsilon, d) * (1 + 1e-7)


@pytest.mark.parametrize("dimension", [1, 2, 3, 64, 65, 10_000])
def test_messages_are_rounded_to_a_power_of_two_below_a_thousandth_of_a_coordinate(dimension):
    grid = privunit(2.0, dimension).grid
    assert math.frexp(grid)[0] == 0.5
    assert 2**-11 < grid * math.sqrt(dimension) <= 2**-10


@pytest.mark.parametrize(("d", "epsilon"), [c for c in CAPS if c[0] > 1])
def test_the_cap_is_optimal(d, epsilon):
    """At the optimum gamma equals m (the derivative of m in gamma vanishes exactly there)."""
    cap = privunit(epsilon, d)
    assert cap.gamma == pytest.approx(cap.scale, rel=1e-4)
