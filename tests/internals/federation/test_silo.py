"""More of tests/federation/test_silo.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.engine import run
from skdpfl.federation import _batches
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

SIZES = (5, 9, 2, 6, 30, 70, 6)


N = len(SIZES)


def case(sampling=None, **kw):
    """Options of a fit of seven silos of unlike sizes, in four rounds."""
    return setting(sampling, **{"z": [1.0] * N, "weights": np.array(SIZES) / sum(SIZES), **kw})


SAMPLINGS = [
    Everyone(),
    PoissonSampling(0.6),
    PoissonSampling(0.05),
    WithoutReplacement(0.4),
    Disjoint(2),
]


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
