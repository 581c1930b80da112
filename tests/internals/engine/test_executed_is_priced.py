"""More of tests/engine/test_executed_is_priced.py: what only private names show."""

from collections import Counter
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.engine import run
from skdpfl.federation import _batches, _budgets
from skdpfl.federation._batches import NoiseMaker
from skdpfl.models import LinearModel
from skdpfl.privacy.events import FixedSizeGaussian, Gaussian, PoissonGaussian
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import (
    Disjoint,
    Everyone,
    PoissonSampling,
    WithoutReplacement,
    draw_cohorts,
)
from tests.engine.reference import Setting
from tests.engine.settings import federation_of, plan_of, problem, run_rounds, work_of
from tests.engine.test_delivery import Delivering

N_ROUNDS = 5


class Releases:
    """Notes, for each silo, the noise over the clip norm of every gradient that left it."""

    def __init__(self, monkeypatch, p, s, **kw):
        self.noise = {i: [] for i in range(len(p.silos))}
        original = NoiseMaker._noise

        def noise(maker, round, step, silos, units):
            drawn = original(maker, round, step, silos, units)
            std = drawn.noised.grid * 2.0**36 / maker._work.plan.clip_norm
            for i, z in zip(np.ravel(silos).tolist(), std.tolist(), strict=True):
                self.noise[i].append(z)
            return drawn

        monkeypatch.setattr(NoiseMaker, "_noise", noise)
        run_rounds("fedavg", p, s, federation=federation_of(p), **kw)
        monkeypatch.undo()


def events(sampling, z, n):
    """The event of one step, as the privacy page names it."""
    if isinstance(sampling, PoissonSampling):
        return PoissonGaussian(z, sampling.rate)
    if isinstance(sampling, WithoutReplacement):
        return FixedSizeGaussian(z, max(1, round(sampling.rate * n)) / n)
    return Gaussian(z)


@st.composite
def fits(draw):
    """A small fit: silos, cohorts, local steps, sampling, noises and a noise schedule."""
    n_silos = draw(st.integers(1, 5))
    sizes = tuple(draw(st.lists(st.integers(2, 9), min_size=n_silos, max_size=n_silos)))
    cohort = draw(st.sampled_from(["all", "balanced", "uniform", "poisson"]))
    cohorts = None
    if cohort != "all":
        stream = streams_for(draw(st.integers(0, 99))).stream("cohorts")
        fraction = draw(st.sampled_from([0.2, 0.5, 0.8]))
        cohorts = list(draw_cohorts(cohort, fraction, n_silos, N_ROUNDS, stream))
    sampling = draw(st.sampled_from([Everyone(), PoissonSampling(0.3), WithoutReplacement(0.5)]))
    levels = draw(st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=n_silos, max_size=n_silos))
    steps = draw(st.lists(st.integers(1, 3), min_size=N_ROUNDS, max_size=N_ROUNDS))
    schedule = draw(st.sampled_from([None, ("round", 0.8, 2), ("step", 0.9, 1), ("round", 1.0, 0)]))
    weights = np.full(n_silos, 1 / n_silos)
    s = Setting(N_ROUNDS, steps, 0.1, 0.7, levels, weights, sampling, cohorts)
    return problem(sizes=sizes, d=2), s, schedule


@settings(max_examples=60)
@given(fits())
def test_every_gradient_that_left_a_silo_is_priced(case):
    p, s, schedule = case
    with pytest.MonkeyPatch.context() as patch:
        ran = Releases(patch, p, s, noise_schedule=schedule)
    plan = plan_of(p, s, noise_schedule=schedule)
    groups = plan.groups()
    for i, (_, y) in enumerate(p.silos):
        executed = Counter(events(s.sampling, rounded(z), len(y)) for z in ran.noise[i])
        priced: Counter = Counter()
        for event, count in groups.compositions[groups.of_silo[i]]:
            priced[replace(event, noise_multiplier=rounded(event.noise_multiplier))] += count
        assert executed == priced


def rounded(z):
    return float(f"{z:.12g}")


@pytest.mark.parametrize("cohorts", [None, [[0], [0, 1], [1], [0, 1], [0]]])
def test_one_pass_is_priced_as_one_release_of_the_least_noise(monkeypatch, cohorts):
    p = problem(sizes=(24, 31), d=2)
    s = Setting(5, [2] * 5, 0.1, 0.7, [1.0, 1.0], np.full(2, 0.5), Disjoint(10), cohorts=cohorts)
    rows = {0: [], 1: []}
    from skdpfl.federation._batches import Batches

    draw = Batches.draw
    monkeypatch.setattr(
        Batches, "draw", lambda b, i, t: rows[i].append(draw(b, i, t)) or rows[i][-1]
    )
    ran = Releases(monkeypatch, p, s, noise_schedule=("round", 0.5, 2))
    plan = plan_of(p, s, noise_schedule=("round", 0.5, 2))
    groups = plan.groups()
    for i in (0, 1):
        ((event, count),) = groups.compositions[groups.of_silo[i]]
        assert (type(event), count) == (Gaussian, 1)
        assert event.noise_multiplier == pytest.approx(min(ran.noise[i]), rel=1e-12)
        used = np.concatenate(rows[i])
        assert len(np.unique(used)) == len(used)  # no record is read twice
        assert {len(r) for r in rows[i]} == {(24, 31)[i] // 10}


def note_clip_norms(patch, name, asked):
    """Let a method of linear models note the clip norms that it is called with."""
    original = getattr(LinearModel, name)

    @wraps(original)  # in whose module it counts as part of the package: silos stay stacked
    def noting(*args, clip_norm, **kw):
        asked.extend(np.ravel(clip_norm).tolist())
        return original(*args, clip_norm=clip_norm, **kw)

    patch.setattr(LinearModel, name, noting)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_silo_clips_to_the_norm_that_its_own_noise_pays_for(monkeypatch, dtype, together):
    """More noise, a wider grid, and so a smaller norm: silos of little noise have a larger one."""
    if not together:
        monkeypatch.setattr(_batches, "GROUP", 1)
    p = problem(sizes=(5, 7, 6))
    s = Setting(1, [1], 0.1, 0.7, [0.5, 500.0, 20.0], np.full(3, 1 / 3))
    work = work_of("minibatch", p, s, dtype)
    asked = []
    for name in ("clipped_gradient_sum", "clipped_gradient_sums"):
        note_clip_norms(monkeypatch, name, asked)
    run(work, federation_of(p, dtype), streams_for(0))
    terms = work.plan.mechanism.gradient_terms(work.plan, work.model.size, work.dtype)
    assert len(set(terms.clip.tolist())) == 3
    assert asked == terms.clip.tolist()
    assert terms.clip.max() < 0.7


SIZES = (5, 90, 2, 6, 33, 7, 400, 12, 1, 64, 9)


N = len(SIZES)


RNG = np.random.default_rng(0)


#: how n messages are delivered: lists of places
DELIVERIES = {
    "one by one, reversed": lambda n: [[i] for i in range(n - 1, -1, -1)],
    "one by one, shuffled": lambda n: [[i] for i in RNG.permutation(n)],
    "in threes, shuffled": lambda n: np.array_split(RNG.permutation(n), -(-n // 3)),
    "the last first": lambda n: [list(range(n // 2, n)), list(range(n // 2))],
}


def model(deliver, dtype, cohorts):
    p = problem(sizes=SIZES, k=3)
    weights = np.array(SIZES) / sum(SIZES)
    s = Setting(5, [2] * 5, 0.4, 0.8, [0.5] * N, weights, cohorts=cohorts)
    federation = federation_of(p, dtype)
    if deliver is not None:
        federation = Delivering(federation, deliver)
    return run(work_of("scaffold", p, s, dtype), federation, streams_for(0)).params


@pytest.mark.parametrize("at_once", [2**16, 50])
@pytest.mark.parametrize("cohorts", [None, [[0, 3, 4, 9], [1], [2, 3, 6, 7, 10], [], [5, 8]]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("deliver", DELIVERIES.values(), ids=list(DELIVERIES))
def test_the_order_of_delivery_changes_no_bit(monkeypatch, deliver, dtype, cohorts, at_once):
    """In one piece, and in pieces of four silos (of 12 numbers each)."""
    monkeypatch.setattr(_budgets, "NUMBERS_A_PRODUCT", at_once)
    assert np.array_equal(model(deliver, dtype, cohorts), model(None, dtype, cohorts))
