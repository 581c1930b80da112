"""sampling="with_replacement": what is drawn, what is summed, and what it costs."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from skdpfl import ISRLDPRegressor
from skdpfl.federation._batches import Batches
from skdpfl.privacy import epsilon_of
from skdpfl.privacy.events import WithReplacementGaussian
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import WithReplacement
from tests.estimators.fits import data

WITH = {"sampling": "with_replacement"}


def true_delta(epsilon, z, n, batch):
    """One step, the larger of two examples: k copies of a record at 1, replaced by one at -1.

    All other records are at 0, or at -1: sums of k and -k, or of 2 k and 0 beside the rest.
    """
    x = np.linspace(-60, 60, 200_001)
    k = np.arange(min(batch, 12) + 1)
    law = binom(batch, 1 / n).pmf(k)

    def mixture(shift):
        return norm.pdf(x[:, None], shift * k, z) @ law

    pairs = (mixture(1), mixture(-1)), (mixture(2), mixture(0)), (mixture(0), mixture(2))
    gaps = [np.maximum(0, p - np.exp(epsilon) * q).sum() for p, q in pairs]
    return float(max(gaps) * (x[1] - x[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("z", "n", "batch"), [(1.0, 50, 10), (3.0, 20, 10), (0.7, 50, 5)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_the_price_of_a_step_covers_the_worst_records(z, n, batch, delta):
    """That of a batch without replacement does not; a margin is what the proof loses."""
    given = {"noise_multiplier": z, "sampling_rate": batch / n, "n_steps": 1, "delta": delta}
    epsilon = epsilon_of(**given, **WITH, batch=batch)
    without = epsilon_of(**given, sampling="without_replacement")
    assert true_delta(epsilon, z, n, batch) <= delta * (1 + 1e-3)
    assert true_delta(without, z, n, batch) > 1.01 * delta and without < epsilon
    assert true_delta(0.4 * epsilon, z, n, batch) > delta


def test_more_copies_than_are_counted_have_their_share_of_delta():
    """Three copies of one of 10^12 records: there is noise for two of them, even less often."""
    z, n, batch, epsilon, t = 0.15, 1e12, 3, 600.0, 5.6
    event = WithReplacementGaussian(z, batch / n, batch)
    # records at 2 and at 0 beside others at 0, sums above t; the log of Q's part counts P's
    true = n**-3 * norm.sf(t, 6, z) - np.exp(epsilon + norm.logsf(t, 0, z))
    assert 0.9e-36 < true <= price_delta(((event, 1),), epsilon, "replace") < 1e-14
    assert price_epsilon(((event, 1),), true, "replace") >= epsilon
    large = ((WithReplacementGaussian(3.0, 0.1, 10**5), 1),)
    assert price_epsilon(large, 1e-12, "replace") < 20  # no digits of so many draws are lost


def test_draws_are_independent_and_uniform():
    """40,000 draws of 8 records: a share's deviation is 0.0017; six of them are allowed."""
    sampling, stream = WithReplacement(0.5), streams_for(0).stream("batch", 0)
    drawn = np.array(sampling.draw(stream, 8, 10_000))
    assert drawn.shape == (10_000, 4) and sampling.expected_size(8) == 4.0
    np.testing.assert_allclose(np.bincount(drawn.ravel()) / drawn.size, 1 / 8, atol=0.01)
    twice = (np.diff(drawn, axis=1) == 0).any(axis=1).mean()
    assert twice == pytest.approx(1 - 7 * 6 * 5 / 8**3, abs=0.03)


def test_a_record_that_is_drawn_twice_counts_twice(monkeypatch):
    X, y, silos = data("ISRLDPRegressor", n=60, seed=2)
    drawn, draw = {}, Batches.draw

    def keeping(self, silo, step):
        return drawn.setdefault((silo, step), draw(self, silo, step))

    monkeypatch.setattr(Batches, "draw", keeping)
    model = ISRLDPRegressor(
        np.inf, **WITH, sampling_rate=0.8, n_rounds=1, learning_rate=1.0, average=False,
        fit_intercept=False, scaling=None, random_state=0,
    ).fit(X, y, silos=silos)  # fmt: skip
    want = np.zeros(X.shape[1])
    for i in range(silos.max() + 1):
        rows = np.flatnonzero(silos == i)[drawn[i, 0]]
        want += (silos == i).mean() * (y[rows, None] * X[rows]).mean(axis=0)
        assert len(np.unique(rows)) < len(rows)
    np.testing.assert_allclose(model.coef_, want, rtol=1e-9)
