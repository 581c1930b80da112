"""The in-process federation: stacks, threads and chunks give the same messages."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.federation import SiloData
from skdpfl.privacy.sampling import Disjoint, Everyone, PoissonSampling
from tests.engine.reference import Setting
from tests.engine.settings import federation_of, problem, work_of

SIZES = (5, 9, 2, 6, 30)


def setting(sampling=None, **kw):
    options = {"n_rounds": 4, "steps": [3, 1, 2, 3], "lr": 0.4, "clip": 0.8, "z": [1.0] * 5}
    if isinstance(sampling, Disjoint):
        options |= {"n_rounds": 2, "steps": [1, 1]}
    options["weights"] = np.array(SIZES) / sum(SIZES)
    return Setting(**(options | {"sampling": sampling or Everyone()} | kw))


def test_a_cohorts_silos_are_yielded_once():
    p, s = problem(sizes=(3, 300, 4, 2, 50)), setting()
    federation = federation_of(p)
    work = work_of("fedavg", p, s)
    for cohort in ([0, 1, 2, 3, 4], [1, 3], [2]):
        federation.start(work)
        shared = work.algorithm.broadcast(work.algorithm.init(np.zeros(p.size)))
        parts = list(federation.round(0, shared, np.array(cohort), np.inf))
        silos = np.concatenate([part for part, _ in parts])
        assert sorted(silos.tolist()) == cohort
        assert all(len(part) == len(messages) for part, messages in parts)


def test_no_silo_reads_another_silos_records():
    """Changing one silo's records changes no other silo's message."""
    p, s = problem(sizes=SIZES), setting(PoissonSampling(0.3))
    messages = []
    for factor in (1.0, -50.0):
        p.silos[2] = (p.silos[2][0] * factor, p.silos[2][1])
        federation, work = federation_of(p), work_of("fedavg", p, s)
        federation.start(work)
        shared = work.algorithm.broadcast(work.algorithm.init(np.full(p.size, 0.1)))
        out = np.zeros((5, p.size))
        for silos, sent in federation.round(0, shared, np.arange(5), np.inf):
            out[silos] = sent
        messages.append(out)
    same = np.array_equal(messages[0][2], messages[1][2])
    assert not same
    for i in (0, 1, 3, 4):
        assert np.array_equal(messages[0][i], messages[1][i])


# ---- data and memory ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_rows_of_a_silo_are_its_rows(codes):
    _, codes = np.unique(codes, return_inverse=True)
    X = np.arange(len(codes), dtype=float)[:, None]
    data = SiloData.from_codes(X, X[:, 0], codes, codes.max() + 1)
    assert data.sizes.tolist() == np.bincount(codes).tolist()
    for i in range(codes.max() + 1):
        mine = np.flatnonzero(codes == i)
        whole = data.rows_of(i, slice(None))
        assert np.arange(len(codes))[whole].tolist() == mine.tolist()
        some = np.arange(len(mine))[::2]
        assert data.at(data.rows_of(i, some))[1].tolist() == mine[::2].tolist()
