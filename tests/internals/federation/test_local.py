"""More of tests/federation/test_local.py: what only private names show."""

import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.federation import _batches, _gradient, _local
from skdpfl.federation._local import Memory
from skdpfl.models import LinearModel, Model, _products
from skdpfl.models._products import group_products
from skdpfl.privacy import release
from skdpfl.privacy.randomness import streams
from skdpfl.privacy.randomness.streams import Stream
from skdpfl.privacy.sampling import Disjoint, Everyone, PoissonSampling, WithoutReplacement
from tests.engine.settings import federation_of, problem, run_rounds, work_of
from tests.federation.test_local import SIZES, setting

SAMPLINGS = [
    Everyone(),
    PoissonSampling(0.6),
    PoissonSampling(0.05),
    WithoutReplacement(0.4),
    Disjoint(2),
]


#: how much is done at once: (numbers in a part of a batch, numbers in a group of silos)
AT_ONCE = {"parts": (10, 2**21), "groups": (2**20, 2**21), "small groups": (2**20, 500)}


@pytest.mark.parametrize("at_once", AT_ONCE.values(), ids=list(AT_ONCE))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("algorithm", ["minibatch", "fedavg", "scaffold"])
def test_the_number_of_threads_never_changes_a_bit(
    monkeypatch, algorithm, sampling, dtype, at_once
):
    monkeypatch.setattr(_local, "WORTH_THREADS", 0)
    monkeypatch.setattr(_batches, "PART", at_once[0])
    monkeypatch.setattr(_batches, "GROUP", 8 * at_once[1])
    p = problem(sizes=SIZES, k=13, alpha=0.1)
    steps = {} if algorithm != "minibatch" or isinstance(sampling, Disjoint) else {"steps": [1] * 4}
    s = setting(sampling, **steps)
    one, *several = (
        run_rounds(algorithm, p, s, dtype, federation=federation_of(p, dtype, n_jobs=n))
        for n in (1, 2, 3, 5)
    )
    for other in several:
        assert np.array_equal(one, other)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    rate=st.sampled_from([0.02, 0.2, 0.6]),
    k=st.sampled_from([1, 3, 8, 21, 23]),
    group=st.sampled_from([1, 1200, 4000, 2**23]),
    seed=st.integers(0, 2**32),
)
def test_how_large_silos_are_grouped_never_changes_a_bit(sizes, rate, k, group, seed):
    """Batches of one record and of none among them."""
    p, n = problem(sizes=tuple(sizes), k=k, seed=seed), len(sizes)
    s = setting(PoissonSampling(rate), z=[1.0] * n, weights=np.full(n, 1 / n), seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_local, "WORTH_THREADS", 0)
        whole = run_rounds("scaffold", p, s, np.float32)
        patch.setattr(_batches, "GROUP", group)
        assert np.array_equal(run_rounds("scaffold", p, s, np.float32), whole)


@pytest.mark.parametrize("name", ["KEPT", "MASKED"])
@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("sampling", [Everyone(), PoissonSampling(0.3)], ids=str)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_what_is_kept_or_drawn_ahead_changes_no_bit(monkeypatch, algorithm, sampling, order, name):
    """Of silos of unlike sizes, in rounds of one step or several."""
    sizes = (6, 19, 33, 7, 1, 16)
    p, s = problem(sizes=sizes), setting(sampling, z=[1.0] * 6, weights=np.full(6, 1 / 6))
    models = []
    for limit in (getattr(_batches, name), 0):
        monkeypatch.setattr(_batches, name, limit)
        for passes in (0, np.inf):
            monkeypatch.setattr(_local, "MANY_PASSES", passes)
            federation = federation_of(p, shuffle=order == "mixed")
            models.append(run_rounds(algorithm, p, s, federation=federation))
    assert all(np.array_equal(model, models[0]) for model in models[1:])


@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("clip", [0.2, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("algorithm", "more"),
    [("fedavg", {}), ("fedavg", {"momentum": 0.6}), ("scaffold", {}), ("scaffold", {"warm": 1})],
    ids=str,
)
def test_steps_without_noise_are_taken_at_once_or_one_by_one(
    monkeypatch, algorithm, more, dtype, clip, loss, order
):
    """With the same bits: with a penalty, and records that are not finite."""
    p, found, at_once = problem(loss, sizes=(6, 19, 33, 1, 16), d=11, alpha=0.1), [], []
    p.silos[1][0][[2, 5], [0, 3]] = np.nan, np.inf
    s = setting(Everyone(), steps=[4, 3, 1, 2], z=None, **more)
    for descent in (LinearModel.descent, Model.descent):

        def noted(*args, descent=descent, **kw):
            moved = descent(*args, **kw)
            at_once.append(moved is not None)
            return moved

        noted.__module__ = LinearModel.__module__  # a stranger sees one record at a time
        monkeypatch.setattr(LinearModel, "descent", noted)
        federation = federation_of(p, dtype, shuffle=order == "mixed")
        found.append(run_rounds(algorithm, p, s, dtype, federation=federation, clip_norm=clip))
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found).all()
    rounds = 3 - ("warm" in more)  # of several steps, from different points
    assert at_once == [_products.compiled is not None] * rounds + [False] * rounds


def test_a_descent_uses_all_gradients_of_the_round():
    """They are counted, and there is none left, nor may one be used before."""
    p, s = problem(), setting(Everyone(), z=None)
    federation, silos = federation_of(p), np.arange(4)
    federation.start(work_of("fedavg", p, s))

    def gradient():
        batches = federation._groups.of(silos, range(3), 3)
        terms = federation._terms_of(silos)
        return _gradient.PrivateGradient(federation._work, batches, None, terms, None)

    start = np.zeros(4)
    used = gradient()
    used.descent(start, 0.5)
    used.check_used()
    with pytest.raises(RuntimeError, match="declared 3 private gradients"):
        used(start)
    with pytest.raises(RuntimeError, match="declared 3 private gradients"):
        used.descent(start, 0.5)
    late = gradient()
    late(start)
    with pytest.raises(RuntimeError, match="declared 3 private gradients"):
        late.descent(start, 0.5)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
def test_batches_drawn_for_many_silos_are_those_of_each(monkeypatch, order):
    """Cut ones among them: at most three of a silo's records, of which twelve are expected."""
    monkeypatch.setattr(PoissonSampling, "largest_batch", lambda self, n: 3)
    p, n = problem(sizes=(20, 0, 31, 5)), 4
    s = setting(PoissonSampling(0.6), z=[1.0] * n, weights=np.full(n, 1 / n))
    federation = federation_of(p, shuffle=order == "mixed")
    federation.start(work_of("fedavg", p, s))
    for steps in (range(4), range(4, 5)):
        draws = federation._groups.of(np.arange(n), steps, 5)
        for step, draw in zip(steps, draws, strict=True):
            (group,) = draw()
            rows = np.split(group.records.index, group.records.edges[1:-1])
            for silo, mine in enumerate(rows):
                drawn = federation._groups._batches.draw_rows(silo, step)
                assert mine.tolist() == drawn.tolist()


@pytest.mark.parametrize("k", [1, 3, 6])
def test_where_features_are_cast_no_bit_tells_whether_data_are_in_order(monkeypatch, k):
    """Single precision data, products in double precision: the last of 2049 is cast by itself."""
    choices = import_module("skdpfl.privacy.release.noised_sum")
    double = release.Precision(release.DOUBLE, 4096, release.DOUBLE)
    monkeypatch.setattr(choices, "_candidates", lambda *_: iter([double]))
    sizes = (2049, 2050, 300)
    p, n = problem(sizes=sizes, d=13, k=k), len(sizes)
    s = setting(z=[1.0] * n, weights=np.full(n, 1 / n))
    work = work_of("fedavg", p, s, np.float32)
    params = np.random.default_rng(0).normal(size=(n, work.model.size))
    got = []
    for passes in (0, np.inf):
        monkeypatch.setattr(_local, "MANY_PASSES", passes)
        federation = federation_of(p, np.float32, shuffle=True)
        federation.start(work)
        assert (federation._data.order is None) == (passes == 0)
        (group,) = federation._groups.of(np.arange(n), range(1), 1)[0]()
        products = group_products(group.records, k, True)
        got.append(products.raw(params, sum(sizes)))
    assert got[0].dtype == np.float64
    assert np.array_equal(*got)


@settings(max_examples=30)
@given(
    n=st.integers(1, 400),
    chunk=st.integers(1, 100),
    seed=st.integers(0, 2**32),
    spread=st.floats(0, 8),
)
def test_rounding_is_bounded_in_any_order(n, chunk, seed, spread):
    """Sums of records of norm 1 in float32 chunks, against exact sums; any order of addition."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(n, 3)) * 10 ** rng.uniform(-spread, 0, (n, 1)) + rng.normal(size=3)
    g = (g / np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True))).astype(np.float32)
    total = np.zeros(3, np.float32)
    for start in range(0, n, chunk):
        part = np.zeros(3, np.float32)
        for row in g[start : start + chunk]:
            part = part + row
        total = total + part
    total = total / np.float32(0.1234)
    exact = np.array([float(sum(map(Fraction, column.tolist()))) for column in g.T])
    used = release.Precision(release.SINGLE, chunk, release.SINGLE)
    error = np.linalg.norm(total * float(np.float32(0.1234)) - exact)
    assert error <= used.rounding(n, n) * (1 + 1e-6)


def test_memory_is_only_for_silos_that_took_part():
    memory = Memory(10_000, 3, np.dtype(float))
    memory.write(np.array([7, 9000]), np.ones((2, 3)))
    assert len(memory._rows) < 10
    memory.write(np.array([9000]), np.full((1, 3), 2.0))
    assert memory.read(np.array([7, 8, 9000])).tolist() == [[1.0] * 3, [0.0] * 3, [2.0] * 3]
    assert Memory(5, 0, np.dtype(float)).read(np.arange(5)).shape == (5, 0)


@pytest.mark.slow
def test_threads_may_draw_ahead_at_once(monkeypatch):
    """Without care one of two runs breaks, as threads throw away the same oldest block."""
    monkeypatch.setattr(_gradient, "GROUPS", 2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(3):
            ahead = _gradient.Ahead(1)

            def make(silos, steps):
                return np.full((len(steps), 1), silos[0])

            def walk(first, ahead=ahead):
                silos = [np.array([first + i]) for i in range(15_000)]
                return all(ahead.get(make, who, 0, 3)[0] == who[0] for who in silos)

            with ThreadPoolExecutor(4) as pool:
                assert all(pool.map(walk, range(0, 60_000, 15_000)))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.2, 0.7])
@pytest.mark.parametrize("masked", [0, 2**20])
def test_no_bit_tells_how_many_records_another_silo_drew(monkeypatch, masked, rate, dtype, k):
    """Sampling keeps secret whether a record was drawn."""
    monkeypatch.setattr(_batches, "MASKED", masked)
    p, n = problem(sizes=(90, 80, 85, 70), d=7, k=k), 4
    s = setting(
        PoissonSampling(rate), z=[1.0] * n, weights=np.full(n, 0.25), n_rounds=1, steps=[6], lr=50
    )

    def messages():
        work = work_of("fedavg", p, s, dtype)
        federation = federation_of(p, dtype)
        federation.start(work)
        shared, out = work.algorithm.broadcast(work.algorithm.init(work.model.init(dtype))), {}
        for silos, sent in federation.round(0, shared, np.arange(n), np.inf):
            out |= dict(zip(silos.tolist(), sent, strict=True))
        return out

    before = messages()
    poisson_sample, threshold = Stream.poisson_sample, streams.below

    def all_of_silo_0(stream, n, q):
        return np.arange(n) if stream._silo == 0 else poisson_sample(stream, n, q)

    def all_of_the_first(words, sizes, rates):
        chosen = threshold(words, sizes, rates)
        chosen[..., 0, :] |= np.arange(chosen.shape[-1]) < sizes[0]
        return chosen

    monkeypatch.setattr(Stream, "poisson_sample", all_of_silo_0)
    monkeypatch.setattr(streams, "below", all_of_the_first)
    after = messages()
    assert not np.array_equal(after[0], before[0])
    for i in range(1, n):
        assert np.array_equal(after[i], before[i])
