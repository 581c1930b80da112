"""The in-process federation: stacks, threads and chunks give the same messages."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl.federation import SiloData
from skdpfl.losses import AbsoluteError
from skdpfl.privacy.sampling import Disjoint, Everyone, PoissonSampling
from tests.engine.reference import Setting
from tests.engine.settings import federation_of, plan_of, problem, work_of

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


@pytest.mark.parametrize("bad", [1e200, np.inf])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_without_clipping_only_a_record_of_infinite_norm_is_left_out(loss, bad):
    p, messages = problem(loss, sizes=SIZES), []
    s = setting(z=None, steps=[1] * 4)
    for value in (0.5, bad):
        p.silos[2][0][0] = value
        federation, work = federation_of(p), work_of("fedavg", p, s)
        federation.start(work)
        shared, out = work.algorithm.init(np.full(p.size, 0.1)), np.zeros((5, p.size))
        for silos, sent in federation.round(0, work.algorithm.broadcast(shared), np.arange(5), 1.0):
            out[silos] = sent
        messages.append(out)
    assert np.isfinite(messages).all()
    assert [np.array_equal(*each) for each in zip(*messages, strict=True)] == [1, 1, 0, 1, 1]


def test_without_clipping_losses_that_read_norms_read_those_of_the_records():
    """Norms that others do not need are not computed."""
    p, loss = problem("squared_error", sizes=SIZES), AbsoluteError(smoothing=0.1)
    work = work_of("fedavg", p, setting(z=None, steps=[1] * 4))
    federation, work = federation_of(p), replace(work, loss=loss)
    federation.start(work)
    params, out = np.full(p.size, 0.1), np.zeros((5, p.size))
    shared = work.algorithm.broadcast(work.algorithm.init(params))
    for silos, sent in federation.round(0, shared, np.arange(5), 1.0):
        out[silos] = sent
    for message, (X, y) in zip(out, p.silos, strict=True):
        step = -0.4 * work.model.gradient_sum(params, X, y, loss) / len(y)
        np.testing.assert_allclose(message, step, rtol=1e-12)


# ---- precision ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "products", "release"),
    [
        ((50, 60), np.float32, np.float32),
        ((2500, 50), np.float32, np.float64),
        ((200_000, 50), np.float64, np.float64),
    ],
)
def test_precision_follows_the_largest_batch(sizes, products, release):
    """z = 1: single precision holds sums of 2,000 records, in chunks; double any."""
    plan = plan_of(problem(sizes=(2, 2)), setting(z=[1.0, 1.0], weights=np.full(2, 0.5)))
    plan = replace(plan, silo_sizes=np.array(sizes))
    terms = plan.mechanism.gradient_terms(plan, 10, np.dtype(np.float32))
    assert (terms.precision.products, terms.precision.release) == (products, release)
    assert (terms.clip >= 0.95 * plan.clip_norm).all()
    assert (terms.clip < plan.clip_norm).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clip_norms_pay_for_rounding_and_the_grid(dtype):
    """2 clip (1 + r) + gamma sqrt(size) = 2 clip_norm but for 4e-4, r with the largest batch."""
    p = plan_of(problem(sizes=(2, 2)), setting(z=[1.0, 3.0], weights=np.full(2, 0.5)))
    plan = replace(p, silo_sizes=np.array([400, 1000]), sampling=PoissonSampling(0.2))
    terms = plan.mechanism.gradient_terms(plan, 1000, np.dtype(dtype))
    release = terms.precision.release
    gamma = terms.noised.std * 2.0 ** (-20 if release == np.float32 else -36)
    most = plan.largest_batches.tolist()
    r = np.array([terms.precision.rounding(most[0], 400), terms.precision.rounding(most[1], 1000)])
    used = 2 * terms.clip * (1 + r) + gamma * np.sqrt(1000)
    np.testing.assert_allclose(used, 2 * plan.clip_norm * (1 - 4e-4), rtol=1e-6)
    assert plan.largest_batches[1] < 1000


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
