"""Noise that silos share: the sum of rounded normals costs no more than the normal of its variance.

The claim, its constants and its proof are in docs/proofs.rst, "Noise that silos share". Lengths are
in steps of the grid; no chance is involved.
"""

import math
from functools import reduce

import numpy as np
import pytest
from scipy.special import ndtr

SHARES = [2.0**k for k in range(-1, 7)]


def rounded_normal(s):
    """Probabilities of rint(N(0, s^2)) at -reach..reach, each from the nearer tail."""
    reach = math.ceil(12 * s) + 1
    k = np.arange(reach + 1)
    half = ndtr((0.5 - k) / s) - ndtr((-0.5 - k) / s)
    half[0] = 1 - 2 * ndtr(-0.5 / s)
    return np.concatenate([half[:0:-1], half])


def law_of_sum(shares):
    """The law of the sum of the silos' noises, symmetric about the middle; products are added."""
    return reduce(np.convolve, map(rounded_normal, shares))


# ---- the steps of the proof -------------------------------------------------------------------


def rounded_at_random(s, h, k):
    """(phi_{s sqrt h} * U^h)(k), by its Fourier transform; ``k`` is an array."""
    t = np.linspace(0, 40 / (s * math.sqrt(h)), 200_001)
    transform = np.exp(-h * (s * t) ** 2 / 2) * np.sinc(t / (2 * np.pi)) ** h
    return np.trapezoid(transform * np.cos(np.multiply.outer(k, t)), t) / np.pi


@pytest.mark.parametrize("h", [2, 3, 5, 9])
@pytest.mark.parametrize("s", [0.5, 0.6, 0.8, 1.0, 1.3])
def test_aliasing_is_below_its_bound(s, h):
    """(iii): each probability is within 2^(h+1) exp(-pi^2 s^2), and the bound is no worse than
    the number of mixed terms: from two steps on nothing is left that doubles can hold."""
    law = law_of_sum([s] * h)
    k = np.arange(law.size) - law.size // 2
    near = np.abs(k) <= 12
    apart = np.abs(law[near] - rounded_at_random(s, h, k[near])).max()
    assert apart <= 2 ** (h + 1) * math.exp(-((math.pi * s) ** 2)) + 1e-13
    if h == 2:
        assert apart >= 1e-3 * math.exp(-((math.pi * s) ** 2))
