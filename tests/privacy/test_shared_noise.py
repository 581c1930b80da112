"""Noise that silos share: the sum of rounded normals costs no more than the normal of its variance.

The claim, its constants and its proof are in docs/proofs.rst, "Noise that silos share". Lengths are
in steps of the grid; no chance is involved.
"""

import math
from functools import reduce

import numpy as np
import pytest
from scipy.interpolate import BSpline
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


def test_the_laws_are_whole():
    """Nothing is cut off, or the curves above would be too low."""
    for s in SHARES:
        for h in (1, 7, 20):
            law = law_of_sum([s] * h)
            k = np.arange(law.size) - law.size // 2
            assert law.sum() == pytest.approx(1, abs=1e-13)
            one = rounded_normal(s)
            places = np.arange(one.size) - one.size // 2
            assert law @ k**2 == pytest.approx(h * (one @ places**2), rel=1e-12)


# ---- the steps of the proof -------------------------------------------------------------------


def spline(h):
    """U^h, the density of the sum of h uniforms on [-1/2, 1/2]."""
    return BSpline.basis_element(np.arange(h + 1) - h / 2, extrapolate=False)


@pytest.mark.parametrize("h", [1, 2, 3, 6, 20])
def test_integer_shifts_of_the_spline_sum_to_one(h):
    """(i): it is a law of answers, whatever the real number that is rounded."""
    y = np.linspace(-0.499, 0.499, 101)
    values = np.nan_to_num([spline(h)(k - y) for k in range(-h, h + 1)])
    assert (values >= -1e-15).all()
    np.testing.assert_allclose(values.sum(axis=0), 1, rtol=1e-12)


def rounded_at_random(s, h, k):
    """(phi_{s sqrt h} * U^h)(k), by its Fourier transform; ``k`` is an array."""
    t = np.linspace(0, 40 / (s * math.sqrt(h)), 200_001)
    transform = np.exp(-h * (s * t) ** 2 / 2) * np.sinc(t / (2 * np.pi)) ** h
    return np.trapezoid(transform * np.cos(np.multiply.outer(k, t)), t) / np.pi


@pytest.mark.parametrize(("s", "h"), [(0.5, 2), (0.7, 3), (1.5, 4), (3.0, 2)])
def test_the_rounding_of_a_normal_at_random_has_that_law(s, h):
    """(ii): a mixture of the answers over the normal, by quadrature."""
    y = np.linspace(-h / 2 - 14 * s * math.sqrt(h), h / 2 + 14 * s * math.sqrt(h), 400_001)
    density = np.exp(-(y**2) / (2 * h * s**2)) / math.sqrt(2 * math.pi * h * s**2)
    places = np.arange(-3, 4)
    mixed = [np.trapezoid(density * np.nan_to_num(spline(h)(k - y)), y) for k in places]
    np.testing.assert_allclose(mixed, rounded_at_random(s, h, places), atol=1e-7)


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


@pytest.mark.slow
@pytest.mark.parametrize("h", [2, 6])
def test_from_two_steps_on_the_two_laws_are_one(h):
    law = law_of_sum([2.0] * h)
    k = np.arange(law.size) - law.size // 2
    near = np.abs(k) <= 30
    np.testing.assert_allclose(law[near], rounded_at_random(2.0, h, k[near]), atol=1e-13)
