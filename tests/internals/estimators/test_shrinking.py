"""Shrinking the coefficients of curves: what it removes, what it keeps, and what it assumes."""

import numpy as np
import pytest

from skdpfl.algorithms.average_noise import average_responses
from skdpfl.estimators import _training


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("n_last", [None, 7, 10**30])
def test_responses_are_those_of_a_loop(momentum, n_last):
    n, rate, slope = 20, 0.3, 0.4
    for sent in (0, 5, 15, 19):
        x, v, path = 0.0, 0.0, [0.0]
        for k in range(n):
            v = momentum * v + slope * x + (k == sent)
            x -= rate * v
            path.append(x)
        mean = np.mean(path[n // 2 + 1 :] if n_last is None else path[1:][-n_last:])
        found = average_responses(np.array([slope]), n, rate, momentum, n_last)[sent, 0]
        assert found == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("clip", [0.3, 0.7, 2.0])
def test_slopes_are_those_of_a_simulation(clip):
    rng = np.random.default_rng(0)
    raw = 0.4 + 1.5 * rng.normal(size=200_000)
    p = 1 / (1 + np.exp(-raw))
    y = rng.random(raw.size) < p
    wrong = abs(y - p)
    slope, squared = _training._of_labels(1.5, 0.4, clip)
    assert squared == pytest.approx(np.square(np.minimum(wrong, clip)).mean(), rel=0.02)
    assert slope == pytest.approx((p * (1 - p) * (wrong < clip)).mean(), rel=0.05)
    residual = abs(rng.normal(size=raw.size)) * np.sqrt(1 - 0.36)
    slope, squared = _training._of_numbers(0.6, 0.0, clip)
    assert squared == pytest.approx(np.square(np.minimum(residual, clip)).mean(), rel=0.02)
    assert slope == pytest.approx((residual <= clip).mean(), rel=0.05)
