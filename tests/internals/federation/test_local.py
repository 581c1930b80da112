"""More of tests/federation/test_local.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.federation import _batches, _local
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


@pytest.mark.parametrize("order", ["sorted", "mixed"])
def test_batches_drawn_for_many_silos_are_those_of_each(monkeypatch, order):
    """Cut ones among them: at most three of a silo's records, of which twelve are expected."""
    monkeypatch.setattr(PoissonSampling, "largest_batch", lambda self, n: 3)
    p, n = problem(sizes=(20, 0, 31, 5)), 4
    s = setting(PoissonSampling(0.6), z=[1.0] * n, weights=np.full(n, 1 / n))
    federation = federation_of(p, shuffle=order == "mixed")
    federation.start(work_of("fedavg", p, s))
    for step, draw in enumerate(federation._groups.of(np.arange(n), range(4), 5)):
        (group,) = draw()
        rows = np.split(group.records.index, group.records.edges[1:-1])
        for silo, mine in enumerate(rows):
            drawn = federation._groups._batches.draw_rows(silo, step)
            assert mine.tolist() == drawn.tolist()


def test_where_features_are_cast_no_bit_tells_whether_data_are_in_order(monkeypatch):
    """Single precision data, products in double precision: the last of 2049 is cast by itself."""
    double = release.Precision(release.DOUBLE, 4096, release.DOUBLE)
    monkeypatch.setattr(release, "_candidates", lambda *_: iter([double]))
    sizes, k = (2049, 2050, 300), 6
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
        got.append(group_products(group.records, k, True).raw(params, sum(sizes)))
    assert got[0].dtype == np.float64
    assert np.array_equal(*got)
