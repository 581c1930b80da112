"""The law of the integer normals, computed exactly and compared with the Gaussian's.

Nothing here is statistical: the tables and the spline give each probability.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from skdpfl.privacy.randomness import normals as _normals

M, S = 1 << 14, 2.0**20
H = M / S


def law_of_d():
    """Return the values of D and their probabilities, from the tables that draws use."""
    law = _normals._law()
    values = law.seconds + _normals._AGAIN
    d = (values + _normals._OFFSET) // M
    slots = np.zeros(len(d))
    filled, counts = np.unique(law.table[law.table != _normals._AGAIN], return_counts=True)
    slots[np.searchsorted(values, filled)] = counts
    edges = [0, *((int(up) << 64) + int(low) for up, low in law.bounds.T), 2**128]
    second = np.array([float(b - a) for a, b in pairwise(edges)]) / 2.0**128
    again = np.mean(law.table == _normals._AGAIN)
    return d, slots / 65536 + again * second


def spline():
    """Return P(U1 + U2 + U3 = v), v = 0 ... 3 (2^14 - 1): counts below 2^42, exact in float64."""
    triangle = np.concatenate([np.arange(1, M + 1), np.arange(M - 1, 0, -1)]).astype(float)
    sums = np.cumsum(np.pad(triangle, (0, M - 1)))
    sums[M:] -= np.cumsum(np.pad(triangle, (0, M - 1)))[:-M]
    return sums / float(M) ** 3


D, P = law_of_d()
B = spline()


def probability(n):
    """Return P(N = n), n integers: three neighbouring values of D reach each n."""
    top, inside = np.divmod(n + _normals._OFFSET, M)
    total = np.zeros(n.shape)
    for j in range(3):
        v, k = inside + j * M, top - j - D[0]
        fits = (v < len(B)) & (k >= 0) & (k < len(D))
        total += np.where(fits, P[np.clip(k, 0, len(D) - 1)] * B[np.minimum(v, len(B) - 1)], 0)
    return total


def gaussian(n):
    return np.exp(-0.5 * (n / S) ** 2) / (S * math.sqrt(2 * math.pi))


def error(n):
    return probability(n) / gaussian(n) - 1


@pytest.mark.parametrize("x", [0, 0.5, 1, math.sqrt(3), 2, 3, 4, 5, 6, 7])
def test_each_probability_is_as_stated(x):
    """Formal guarantee: |e(n)| <= 2.5 (h / 2 pi)^3 |He3| + 1e-10 (1 + |He4|), over 3 periods."""
    n = int(x * S) + np.arange(-M, 2 * M, 7)
    t = n / S
    bound = 2.5 * (H / (2 * math.pi)) ** 3 * np.abs(t**3 - 3 * t)
    bound = bound.max() + 1e-10 * (1 + np.abs(t**4 - 6 * t**2 + 3)).max()
    for sign in (1, -1):
        assert np.abs(error(sign * n)).max() <= bound


def test_the_loss_is_nearly_the_gaussians():
    """Formal guarantee: 2^20 rms(e') < 2.3e-5: what Delta adds to the loss, over Delta / 2^20."""
    n = np.arange(-int(6 * S), int(6 * S), 61)
    weight = probability(n)
    slope = (error(n + 4) - error(n - 4)) / 8 * S
    assert math.sqrt((slope**2 * weight).sum() / weight.sum()) < 2.3e-5
    # and large shifts are bounded by the size of e itself, at least as small in comparison
    rms = math.sqrt((error(n) ** 2 * weight).sum() / weight.sum())
    assert 2 * rms < 2.3e-5 * H


@pytest.mark.parametrize("x", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
def test_tails_have_the_right_weight(x):
    # at 5.77 and 6.66 standard deviations 24- and 32-bit uniforms have nothing left
    above = np.append(np.cumsum(B[::-1])[::-1], 0)  # P(V >= v)
    least = np.clip(int(x * S) + _normals._OFFSET + 1 - M * D, 0, len(B))
    beyond = (P * above[least]).sum()
    # the grid's first point beyond x S is half a step beyond where the rounded Gaussian's tail is
    expected = stats.norm.sf((int(x * S) + 0.5) / S)
    assert beyond == pytest.approx(expected, rel=2e-5 if x < 10 else 3e-5)


def words(lanes):
    """Return (1, n) words from four equally long lists: three fields and the slot."""
    return np.array(lanes, dtype=np.uint16).reshape(1, -1).view(np.uint64)


def normals(lanes, fresh, more=(), dtype=np.int32):
    out = np.empty((1, len(lanes[0])), dtype)
    _normals.fill(words(lanes), out)

    def drawn(places, again):
        return np.array(more if again else fresh, dtype=np.uint64)[: len(places)]

    _normals.finish(out, drawn)
    return out[0]


def test_the_far_tail_is_reached_through_the_second_draw():
    zeros, again = [0] * 3, [65535] * 3
    got = normals([zeros, zeros, zeros, again], [0, 2**63, 2**64 - 1], [0, 2**64 - 1]) / S
    assert got[0] < -12 and got[2] > 12  # P = 1e-33
    assert abs(got[1]) < 0.1


def test_a_word_that_does_not_decide_is_followed_by_another():
    """The second draw has 128 bits: a tail of 2^-64 in each of 1e12 normals would be seen."""
    law = _normals._law()
    rng, last = np.random.default_rng(0), len(law.bounds[0]) - 1
    for i in [0, 1, last - 1, last, *rng.integers(0, last, 20)]:
        upper, lower = (int(half[i]) for half in law.bounds)
        below, at = (
            normals([[0], [0], [0], [65535]], [upper], [word])[0] for word in (lower - 1, lower)
        )
        assert below == law.seconds[i] + _normals._AGAIN
        assert at == law.seconds[i + 1] + _normals._AGAIN
        if upper < 2**64 - 1:
            assert normals([[0], [0], [0], [65535]], [upper + 1], [0])[0] >= at
