"""The one proof of rounding: operations counted, errors measured in exact arithmetic."""

from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdpfl.privacy import release
from skdpfl.privacy.mechanisms import Aggregate, Senders, ServerMessages, SiloMessages
from skdpfl.privacy.randomness.streams import streams_for
from tests.guaranteed import plan_of

CHANGE = {"replace": 2, "add_remove": 1}
U = {np.float32: Fraction(1, 2**24), np.float64: Fraction(1, 2**53)}
floats = np.float32, np.float64


# -- one term through many operations ------------------------------------------------------------


@pytest.mark.parametrize("steps", [((1, 0),), ((300, 0),), ((64, 0), (2, 1)), ((9, 1), (3, 0))])
def test_relative_error_is_the_worst_product(steps):
    """All roundings up: (1 + u)^m (1 + u')^m' - 1. The bound is that, and less than 1 % more."""
    given = [(count, floats[double]) for count, double in steps]
    worst = Fraction(1)
    for count, dtype in given:
        worst *= (1 + U[dtype]) ** count
    bound = Fraction(release.relative_error(*given)) * (1 + Fraction(1, 10**14))
    assert worst - 1 <= bound <= (worst - 1) * Fraction(101, 100)
    # and all roundings down
    for count, dtype in given:
        worst *= ((1 - U[dtype]) / (1 + U[dtype])) ** count
    assert 1 - worst <= bound


def test_there_is_no_bound_for_too_many_operations():
    assert release.relative_error((2**24, np.float32)) == inf
    assert release.relative_error((2**24, np.float64)) < 1e-8


# -- what is taken off the clip norm -------------------------------------------------------------


@given(
    st.floats(1e-6, 1e6),
    st.floats(1e-9, 1e-3),
    st.integers(1, 1000),
    st.sampled_from(sorted(CHANGE)),
    st.floats(0, 0.01),
    st.floats(0, 0.005),
)
def test_every_part_of_the_bound_is_paid_for(clip_norm, coarse, size, neighbours, r, e):
    """D c + 2 (r c + e) + gamma sqrt(size) = (1 - 4e-4) D C, from below, in exact arithmetic.

    A rounding term taken once instead of twice, or a forgotten sqrt(size), is off by far more.
    """
    gamma, e, change = coarse * clip_norm / sqrt(size), e * clip_norm, CHANGE[neighbours]
    c = release.reduced_clip(clip_norm, gamma, size, neighbours, rounding=r, apart=e)
    moved = (change + 2 * Fraction(r)) * Fraction(c) + 2 * Fraction(e)
    moved += Fraction(gamma) * Fraction(sqrt(size))
    priced = (1 - Fraction(release.NORMALS)) * change * Fraction(clip_norm)
    assert priced * (1 - Fraction(1, 10**13)) <= moved <= priced


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("mu", [1e-3, 1.0, 30.0])
def test_noise_instead_of_a_smaller_clip_norm(mu, size):
    """The same bound solved for the noise: moved / gamma <= (1 - 4e-4) mu s / gamma."""
    sensitivity, apart = 3.0, np.array([1e-9, 0.0])
    s = release.noise_for(np.full(2, mu), sensitivity, size, apart)
    for noise, e in zip(s.tolist(), apart.tolist(), strict=True):
        moved = Fraction(sensitivity) + 2 * Fraction(e)
        moved += Fraction(noise) / 2**36 * Fraction(sqrt(size))
        priced = (1 - Fraction(release.NORMALS)) * Fraction(mu) * Fraction(noise)
        assert priced * (1 - Fraction(1, 10**13)) <= moved <= priced
    assert release.noise_for(np.array([inf]), 1.0, 3, np.zeros(1)) == 0
    with pytest.raises(release.PrecisionError, match="is too small for 100 coordinates"):
        release.noise_for(np.array([1e-11]), 1.0, 100, np.zeros(1))


@pytest.mark.parametrize("dtype", floats)
def test_underflow_loses_no_more_than_its_bound(dtype):
    """Products of n pairs below the smallest normal number, in each of four coordinates."""
    n, least = 5, np.finfo(dtype).tiny
    a, b = np.full((n, 4), least, dtype), np.full((n, 4), 0.9, dtype)
    for small in (b, a):
        computed = (a * small).sum(axis=0, dtype=dtype)
        exact = n * Fraction(float(a[0, 0])) * Fraction(float(small[0, 0]))
        lost = 2 * abs(Fraction(float(computed[0])) - exact)  # the norm of four equal ones
        assert 0 < lost <= Fraction(release.underflow(2 * n, dtype, 4))


# -- sums as they are computed -------------------------------------------------------------------


def plan_for(mechanism, n_silos=2, z=3.0, **kw):
    server = isinstance(mechanism, ServerMessages)
    options = {
        "silo_sizes": None,
        "silo_ids": np.arange(n_silos),
        "steps": (1,),
        "clip_norm": 1.0,
        "noise_multiplier": z,
        "delta": 1e-5,
        "unit": "silo",
        "trust": "server" if server else "silo",
        "neighbours": "add_remove" if server else "replace",
        "mechanism": mechanism,
    }
    return plan_of(**(options | kw))


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize("n_silos", [1, 40])
def test_a_servers_sum_moves_by_what_is_priced(n_silos, size):
    """One silo's message zeroed: the snapped sum of messages and statistics, in whole units."""
    mechanism = ServerMessages(squared_norms=True)
    weights = np.linspace(1, 2, n_silos)
    plan = plan_for(mechanism, n_silos, weights=weights / weights.sum())
    noised, rng = mechanism.noised(plan, 1.0, size), np.random.default_rng(0)
    largest = plan.largest_weight
    for _ in range(40):
        messages = rng.normal(size=(n_silos, size)) * 10.0 ** rng.uniform(-2, 2, (n_silos, 1))
        kept = mechanism.keep(plan, messages, 1.0)
        by = Senders(np.arange(n_silos), 0, streams_for(0), 1.0)
        sent = mechanism.send(plan, kept, by)
        sums = []
        for who in (np.arange(n_silos), np.arange(n_silos - 1)):  # the last weighs most
            order = rng.permutation(who)
            total = sum((plan.weights[i] * sent[i] for i in order), np.zeros(size + 1))
            zeros = np.zeros(size + 1, np.int64)
            sums.append(np.rint(noised.added(total / largest, zeros) / noised.grid))
        moved = np.linalg.norm(sums[0] - sums[1])
        assert moved <= (1 - release.NORMALS) * plan.clip_norm / noised.grid


def test_a_silos_message_moves_by_what_is_priced():
    """Two messages at the clip norm, opposite, from just below the edges between grid points."""
    size, mechanism = 400, SiloMessages()
    plan = plan_for(mechanism, z=1e4)  # a coarse grid
    noised = mechanism.noised(plan, 1.0, size)
    assert noised.clip < 1 - release.NORMALS - noised.grid * 9
    edge = np.full(size, (0.5 + 1e-9) * noised.grid)
    far = np.full(size, 1.0 / sqrt(size))
    ends = []
    for message in (edge + far, -edge - far):
        kept = mechanism.keep(plan, message[None], 1.0)
        ends.append(np.rint(noised.added(kept, np.zeros((1, size), np.int64)) / noised.grid)[0])
    moved = np.linalg.norm(ends[0] - ends[1])
    assert moved <= (1 - release.NORMALS) * 2 * plan.clip_norm / noised.grid


def test_the_servers_own_rounding_is_paid_for_by_small_silos():
    """A silo with little weight: what others' sums round to is large beside its records."""
    weights, sizes = np.array([1e-7, 1 - 1e-7]), np.array([10, 10])
    z = 5 * weights[1] / weights  # one noise for both
    plan = plan_of(
        silo_sizes=sizes,
        steps=(1,),
        clip_norm=1.0,
        noise_multiplier=z,
        delta=1e-5,
        trust="server",
        weights=weights,
    )
    taken = 1 - release.NORMALS - plan.mechanism.gradient_terms(plan, 3, np.dtype(float)).clip
    share = plan.record_shares
    error = release.relative_error((6, np.float64)) * (share @ sizes) / share
    assert error[0] > 6e-8
    np.testing.assert_allclose(taken, z * 2.0**-36 * sqrt(3) / 2 + error, atol=1e-10)


def test_silos_of_a_stack_have_their_own_grids():
    std = np.array([1.0, 3.0, 0.0])
    noised = release.NoisedSum(std, np.array([release.grid_for(s or 2.0, 0.0) for s in std]))
    sums, units = np.full((2, 4), 0.3), np.arange(8).reshape(2, 4) * 2**33
    got = noised.of(np.array([1, 0])).added(sums, units)
    for row, silo in enumerate((1, 0)):
        gamma = float(noised.grid[silo])
        np.testing.assert_array_equal(got[row], (np.rint(0.3 / gamma) + units[row]) * gamma)
    np.testing.assert_array_equal(noised.scaled(0.5).std, std / 2)
    np.testing.assert_array_equal(noised.scaled(0.5).grid, noised.grid * [0.5, 0.5, 1])


# -- how many values are given out ---------------------------------------------------------------


def test_a_server_gives_out_every_round():
    """Silos take part in half of the rounds; the server's sums are counted, not the silos'."""
    schedule = tuple(np.array(c, int) for c in ([0], [1], [0], [1], []))
    counts = {}
    for trust in ("silo", "server"):
        plan = plan_of(
            silo_sizes=np.array([5, 5]),
            steps=(1,) * 5,
            clip_norm=1.0,
            noise_multiplier=2.0,
            delta=1e-5,
            trust=trust,
            schedule=schedule,
        )
        counts[trust] = plan.spent().n_releases
    assert counts == {"silo": 2, "server": 4}
    plan = plan_for(ServerMessages(), 10, steps=(1,) * 6, cohort="balanced", silo_fraction=0.5)
    assert plan.spent().n_releases == 6
    aggregate = Aggregate(np.zeros(3), 0.5, 1.0)
    assert plan.mechanism.release(plan, aggregate, 0, streams_for(0)).all()
