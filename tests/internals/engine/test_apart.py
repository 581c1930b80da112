"""More of tests/engine/test_apart.py: what only private names show."""

import numpy as np
import pytest

from skdpfl import DPFederatedClassifier
from skdpfl.algorithms import (
    MinibatchSGD,
)
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy.mechanisms import mechanism_for
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import Everyone
from tests.engine.test_apart import (
    SIZES,
    AboveMean,
    Normalised,
    Remembers,
    RunningMean,
    records,
)
from tests.guaranteed import plan_of


def work_of(algorithm, sizes=SIZES, loss=None, d=3, n_rounds=2, sampling=None, model=None):
    plan = plan_of(
        silo_sizes=sizes, steps=tuple(algorithm.n_gradients(r) for r in range(n_rounds)),
        clip_norm=1.0, noise_multiplier=np.full(len(sizes), 1e-3), delta=np.full(len(sizes), 1e-5),
        sampling=sampling or Everyone(), mechanism=mechanism_for("record", "silo"),
    )  # fmt: skip
    model = LinearModel(d, 1) if model is None else model
    return Work(model, loss or SquaredError(), algorithm, plan, np.dtype(float))


def messages(work, X, y, codes, n_jobs=None):
    """Each silo's message in the first round at zero."""
    n_silos = int(codes.max()) + 1
    federation = LocalFederation(SiloData.from_codes(X, y, codes, n_silos), streams_for(0), n_jobs)
    federation.start(work)
    out = np.empty((n_silos, work.model.size))
    shared = work.algorithm.broadcast(work.algorithm.init(np.zeros(work.model.size)))
    for silos, found in federation.round(0, shared, np.arange(n_silos), np.inf):
        out[silos] = found
    return out


@pytest.mark.parametrize("sizes", [SIZES, 40_000 + SIZES], ids=["stacked", "grouped"])
@pytest.mark.parametrize("algorithm", [Normalised(0.5), Remembers({})], ids=["axis", "kept"])
def test_a_record_changes_no_other_silos_message(algorithm, sizes):
    X, y, codes = records(sizes)
    before = messages(work_of(algorithm, sizes), X, y, codes)
    X[0], y[0] = 100.0, -100.0
    after = messages(work_of(algorithm, sizes), X, y, codes)
    assert (before[0] != after[0]).any()
    np.testing.assert_array_equal(before[1:], after[1:])


@pytest.mark.parametrize("loss", [AboveMean(), RunningMean([])], ids=["mean", "kept"])
def test_a_record_changes_a_silos_sum_by_two_clip_norms_at_most(loss):
    X, y, codes = records()
    X[:] = np.sign(X)
    before = messages(work_of(MinibatchSGD(1.0), loss=loss), X, y, codes)
    y[0] *= -1e6  # moves the mean: all gradients of the batch would turn round
    after = messages(work_of(MinibatchSGD(1.0), loss=loss), X, y, codes)
    change = np.linalg.norm(before - after, axis=1) * SIZES
    assert change[0] <= 2 + 1e-2  # and the same noise
    assert not change[1:].any()


def test_declared_attacks_are_refused_before_anything_is_paid():
    X, y, codes = records()
    declared = type("Declared", (Normalised,), {"stackable": True})(0.5)
    clf = DPFederatedClassifier(2.0, algorithm=declared, n_rounds=3, scaling=None, random_state=0)
    with pytest.raises(ValueError, match="Declared mixes silos"):
        clf.fit(X, y > 0, silos=codes)
    with pytest.raises(ValueError, match="mixes silos"):
        clf.plan_for(silo_sizes=SIZES, n_features=3)
    loss = type("Batch", (AboveMean,), {"stackable": True})()
    federation = LocalFederation(SiloData.from_codes(X, y, codes, 4), streams_for(0))
    with pytest.raises(ValueError, match="Batch mixes records"):
        run(work_of(MinibatchSGD(1.0), loss=loss), federation, streams_for(0))
