"""SCAFFOLD where whole silos are protected: memory without noise, and how far that drifts."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.algorithms import Scaffold, whole_silo_control_rate
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import NORMALS
from tests.engine.settings import Watched
from tests.guaranteed import plan_of

M, N, D, T, K, RATE = 200, 6, 5, 80, 5, 0.3


def problem(spread=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, N, D))
    y = np.einsum("mnd,md->mn", X, 1 + spread * rng.normal(size=(M, D)))
    return X, y


def fit(algorithm, X, y, trust="silo", z=1.0, clip=0.5, seed=0):
    plan = plan_of(
        silo_sizes=None, silo_ids=pd.RangeIndex(M), steps=(K,) * T, clip_norm=clip,
        noise_multiplier=z, delta=1e-5, unit="silo", trust=trust,
    )  # fmt: skip
    model = LinearModel(D, 1, False)
    work = Work(model, SquaredError(), algorithm, plan, np.dtype(float))
    data = SiloData.from_codes(X.reshape(-1, D), y.ravel(), np.repeat(np.arange(M), N), M)
    federation = Watched(LocalFederation(data, streams_for(seed)))
    return run(work, federation, streams_for(seed)), federation


@pytest.mark.parametrize("trust,z", [("silo", 50.0), ("server", 5.0)])
@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_memory_is_made_of_clipped_messages_without_noise(trust, z, rate):
    """One round from c = c_i = 0: c_i = -rate clip(message) / (K eta), of norm C rate/(K eta)."""
    X, y = problem()
    _, federation = fit(Scaffold(RATE, K, control_rate=rate), X, y, trust, z)
    first = federation.memories[0]
    exact = -np.array([moves(X[i], y[i], np.zeros(D)) for i in range(M)])
    kept = 0.5 * (1 - NORMALS)
    exact *= np.minimum(1, kept / np.linalg.norm(exact, axis=1))[:, None]
    np.testing.assert_allclose(first, rate * exact / (K * RATE), rtol=1e-6, atol=1e-9)
    if trust == "silo":  # what was sent is mostly noise
        assert np.linalg.norm(federation.sent[0], axis=1).min() > 10 * 0.5


def moves(X, y, start):
    w = start
    for _ in range(K):
        w = w - RATE * X.T @ (X @ w - y) / N
    return w - start


def test_the_rate_for_whole_silos():
    assert whole_silo_control_rate(100, 1.0, 0.0) == 1.0
    assert whole_silo_control_rate(100, 1.0, 1e-3) == 1.0
    assert whole_silo_control_rate(100, 1.0, 0.02) == pytest.approx(0.15)
    assert whole_silo_control_rate(100, 1.0, 0.2) == pytest.approx(0.06)
    assert whole_silo_control_rate(100, 0.1, 0.2) == pytest.approx(0.6)
    assert whole_silo_control_rate(100, 1.0, 2.0) == pytest.approx(0.3 / 20)
