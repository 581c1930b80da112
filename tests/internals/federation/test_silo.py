"""More of tests/federation/test_silo.py: what only private names show."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.algorithms import FedAvg
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work, _batches, _local
from skdpfl.losses import LogLoss
from skdpfl.models import LinearModel
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import (
    Disjoint,
    Everyone,
    PoissonSampling,
    WithoutReplacement,
    draw_cohorts,
)
from tests.engine.settings import federation_of, problem, work_of
from tests.federation.apart import Apart
from tests.federation.test_local import setting
from tests.guaranteed import plan_of
from tests.internals.federation.test_local import SAMPLINGS

SIZES = (5, 9, 2, 6, 30, 70, 6)


N = len(SIZES)


def case(sampling=None, **kw):
    """Options of a fit of seven silos of unlike sizes, in four rounds."""
    return setting(sampling, **{"z": [1.0] * N, "weights": np.array(SIZES) / sum(SIZES), **kw})


@pytest.mark.parametrize("group", [_batches.GROUP, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize(("algorithm", "k"), [("minibatch", 1), ("fedavg", 3), ("scaffold", 13)])
def test_a_silo_alone_sends_the_same_bits(monkeypatch, algorithm, k, sampling, dtype, group):
    monkeypatch.setattr(_batches, "GROUP", group)
    p = problem(sizes=SIZES, k=k, alpha=0.1)
    disjoint = isinstance(sampling, Disjoint)
    steps = {} if algorithm != "minibatch" or disjoint else {"steps": [1] * 4}
    s = case(sampling, **steps)
    work, local = work_of(algorithm, p, s, dtype), federation_of(p, dtype, shuffle=True)
    together = run(work, local, streams_for(0))
    apart = run(work, Apart(federation_of(p, dtype)), streams_for(0))
    assert np.array_equal(together.params, apart.params)


@pytest.mark.parametrize("how", ["balanced", "uniform", "poisson", "everyone"])
@pytest.mark.parametrize("seed", range(3))
def test_a_silo_that_is_rebuilt_for_every_round_never_uses_a_record_twice(monkeypatch, how, seed):
    from skdpfl.federation._batches import Batches

    rng = np.random.default_rng(seed)
    sizes, steps = (50, 43, 60, 71), rng.integers(1, 4, 8).tolist()
    p, cohorts = problem(sizes=sizes), None
    if how != "everyone":
        cohorts = list(draw_cohorts(how, 0.5, 4, 8, streams_for(seed).stream("cohorts")))
    used = np.zeros(4, int)
    for cohort, k in zip(cohorts or [np.arange(4)] * 8, steps, strict=True):
        used[cohort] += k
    sampling = Disjoint(int(used.max()))
    s = setting(
        sampling, n_rounds=8, steps=steps, z=[1.0] * 4, weights=np.full(4, 0.25), cohorts=cohorts
    )
    drawn = {i: [] for i in range(4)}
    draw = Batches.draw

    def noted(self, silo, step):
        drawn[silo].append(draw(self, silo, step))
        return drawn[silo][-1]

    monkeypatch.setattr(Batches, "draw", noted)
    run(work_of("fedavg", p, s), Apart(federation_of(p)), streams_for(0))
    for i, rows in drawn.items():
        assert len(rows) == used[i]
        read = np.concatenate([*rows, np.zeros(0, int)])
        assert len(read) == used[i] * (sizes[i] // sampling.n_parts)
        assert len(np.unique(read)) == len(read)


# ---- under unit="silo" no bit of a silo's message depends on another silo ------------------------

D = 6
#: sizes of the silos that are looked at; the first silo's, which is to be hidden, comes before
OTHERS = (40, 33, 40, 1, 39, 2, 40, 300, 33, 1)
LAYOUTS = {
    "rows": lambda X: X,
    "columns": np.asfortranarray,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "mixed": lambda X: X,
}


def records(size, seed, k):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, D)), rng.integers(0, max(2, k), size=size)


def first_silo(size, value=None, k=1):
    X, y = records(size, 10_000 + size, k)
    return (X if value is None else np.full_like(X, value)), y


def messages(first, sampling, dtype, k, layout, cohort=None, transform=None):
    """Each silo's message of a round whose long steps would make much of a last bit."""
    silos = [first, *(records(n, seed, k) for seed, n in enumerate(OTHERS))]
    X, y = (np.concatenate(part) for part in zip(*silos, strict=True))
    codes = np.repeat(np.arange(len(silos)), [len(s) for _, s in silos])
    if layout == "mixed":
        places = np.concatenate([np.arange(len(s)) for _, s in silos])
        order = np.argsort(places % 7, kind="stable")
        X, y, codes = X[order], y[order], codes[order]
    plan = plan_of(
        silo_sizes=None,
        silo_ids=pd.RangeIndex(len(silos)),
        steps=(6,),
        clip_norm=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
        unit="silo",
        trust="server",
        neighbours="add_remove",
        sampling=sampling,
        cohort="poisson",
        silo_fraction=0.5,
    )
    model = LinearModel(D, k)
    work = Work(model, LogLoss(), FedAvg(50.0, 6), plan, np.dtype(dtype))
    X = LAYOUTS[layout](X.astype(dtype))
    data = SiloData.from_codes(X, y, codes, len(silos), transform)
    federation = LocalFederation(data, streams_for(0))
    federation.start(work)
    out = np.zeros((len(silos), model.size))
    everyone = np.arange(len(silos)) if cohort is None else cohort
    with np.errstate(all="ignore"):
        for who, sent in federation.round(0, model.init(dtype=dtype), everyone, 1.0):
            out[who] = sent
    return out[1:]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sampling",
    [Everyone(), PoissonSampling(0.3), PoissonSampling(0.8), WithoutReplacement(0.4)],
    ids=str,
)
@pytest.mark.parametrize("group", [2**23, 3000, 1])
def test_no_bit_tells_of_another_silo(monkeypatch, group, sampling, dtype, k, layout):
    """Not of its size, which comes near the others' and far from them, nor of wild records."""
    monkeypatch.setattr(_batches, "GROUP", group)
    numbers = sampling, dtype, k, layout
    before = messages(first_silo(40, k=k), *numbers)
    assert np.abs(before).max() > 0
    changed = [first_silo(n, k=k) for n in (1, 2, 63, 5000)]
    for first in [*changed, first_silo(40, 1e30, k)]:
        assert np.array_equal(messages(first, *numbers), before)
    absent = np.arange(1, 1 + len(OTHERS))
    assert np.array_equal(messages(first_silo(40, k=k), *numbers, absent), before)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 3])
def test_no_bit_tells_who_takes_part_where_batches_are_transformed(monkeypatch, k, layout):
    """Silos that stand together are read as they are, others are gathered."""
    monkeypatch.setattr(_local, "LARGE_DATA", 0)
    numbers = first_silo(40, k=k), Everyone(), np.float64, k, layout
    everyone = messages(*numbers, transform=np.negative)
    some = np.array([1, 3, 5, 8])
    assert np.array_equal(messages(*numbers, some, np.negative)[some - 1], everyone[some - 1])
