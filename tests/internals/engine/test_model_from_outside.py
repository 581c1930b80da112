"""More of tests/engine/test_model_from_outside.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.federation import LocalFederation, SiloData, _batches
from skdpfl.models import MLP
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import Everyone, PoissonSampling, WithoutReplacement
from tests.engine.test_model_from_outside import SIZES, D, OneLayer, by_hand, records, work_of

SAMPLINGS = {
    "everyone": Everyone(),
    "poisson": PoissonSampling(0.6),
    "without replacement": WithoutReplacement(0.5),
}


def messages(work, X, y):
    """The silos' messages of the first round, at the model's own starting point."""
    streams, codes = streams_for(5), np.repeat(np.arange(len(SIZES)), SIZES)
    start = work.model.init(streams.stream("init"))
    federation = LocalFederation(SiloData.from_codes(X, y, codes, len(SIZES)), streams)
    federation.start(work)
    out = np.zeros((len(SIZES), work.model.size))
    for silos, sent in federation.round(0, start, np.arange(len(SIZES)), work.plan.clip_norm):
        out[silos] = sent
    return out


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("kind", [OneLayer(), MLP((4, 3), "tanh")], ids=["outside", "inside"])
def test_messages_hold_the_sums_by_hand_and_noise(monkeypatch, kind, sampling, trust, together):
    if not together:
        monkeypatch.setattr(_batches, "GROUP", 1)
    model, (X, y) = kind.build(D, 1), records(SIZES.sum())
    work = work_of(model, sampling, trust=trust)
    # the same noise, and no record that counts
    moved = messages(work, X, y) - messages(work, X, np.full_like(y, np.nan))
    streams = streams_for(5)
    start = work.model.init(streams.stream("init"))
    ends = np.cumsum(SIZES)
    for i, (n, end) in enumerate(zip(SIZES, ends, strict=True)):
        drawn = sampling.draw(streams.stream("batch", i, 0), n, 1)[0]
        own = np.arange(end - n, end)[drawn]
        want = by_hand(model, start, X[own], y[own], work.loss, work.plan.clip_norm)
        # rounding is paid for by a clip norm that is smaller by less than a part in 1000
        np.testing.assert_allclose(
            moved[i] * sampling.expected_size(n), want, rtol=1e-3, atol=1e-3 * work.plan.clip_norm
        )
