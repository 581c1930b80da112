"""Adaptive clipping and joint releases: sensitivities by brute force, prices, convergence."""

import itertools
import math

import numpy as np
import pytest

from skdpfl.privacy.accounting import price_delta, price_epsilon
from skdpfl.privacy.events import Gaussian, PoissonGaussian
from skdpfl.privacy.mechanisms.quantile import (
    AdaptiveClip,
    LogHistogram,
    joint_noise_multiplier,
    numerator_noise_multiplier,
    split_noise_multiplier,
)

DISTANCE = {"replace": 2.0, "add_remove": 1.0}


def farthest(contributions, neighbours):
    """The largest distance between two neighbours' sums: zero-out, or any two contributions."""
    if neighbours == "add_remove":
        return max(np.linalg.norm(a) for a in contributions)
    return max(np.linalg.norm(a - b) for a, b in itertools.combinations(contributions, 2))


def messages(clip_norm):
    """Clipped messages of every kind that could be extreme, in two dimensions."""
    radii = clip_norm * np.linspace(0, 1, 11)
    angles = np.linspace(0, 2 * math.pi, 24, endpoint=False)
    return [r * np.array([math.cos(a), math.sin(a)]) for r in radii for a in angles]


@pytest.mark.parametrize("neighbours", DISTANCE)
@pytest.mark.parametrize(("z1", "z2"), [(1.0, 1.0), (3.0, 0.7), (0.5, 40.0)])
def test_message_and_bit_are_one_release(neighbours, z1, z2):
    """Guarantee: in units of the noise no two neighbours are farther apart than the joint z says.

    A bit does not follow from the clipped message: both bits are tried with every message.
    """
    clip, adaptive = 1.7, AdaptiveClip()
    both = adaptive.bits(np.array([0.0, 2 * clip]), clip)
    std = np.array([z1 * clip, z1 * clip, adaptive.noise_std(z2)])
    contributions = [np.append(x, b) / std for x in messages(clip) for b in both]
    allowed = DISTANCE[neighbours] / joint_noise_multiplier(z1, z2)
    found = farthest(contributions, neighbours)
    assert found <= allowed * (1 + 1e-12)
    assert found == pytest.approx(allowed, rel=1e-9), "attained: nothing is given away"


@pytest.mark.parametrize("neighbours", DISTANCE)
@pytest.mark.parametrize(("z1", "z2"), [(1.0, 1.0), (3.0, 0.7), (0.5, 40.0)])
def test_mean_and_numerator_are_one_release(neighbours, z1, z2):
    clip = 1.7
    std = z2 * clip**2 / DISTANCE[neighbours]
    assert numerator_noise_multiplier(std, clip, neighbours) == pytest.approx(z2)
    contributions = [np.append(x / (z1 * clip), x @ x / std) for x in messages(clip)]
    allowed = DISTANCE[neighbours] / joint_noise_multiplier(z1, z2)
    assert farthest(contributions, neighbours) <= allowed * (1 + 1e-12)
    if neighbours == "add_remove":
        assert farthest(contributions, neighbours) == pytest.approx(allowed, rel=1e-9)


@pytest.mark.parametrize("z2", [1.0, 0.7])
def test_centred_numerator_is_safe_under_sampled_replacement(z2):
    """A sampled replacement needs every contribution within 1/z of nothing: so it is centred."""
    clip, z1 = 1.7, 2.0
    std = z2 * clip**2 / 2
    z = joint_noise_multiplier(z1, z2)
    centred = [np.append(x / (z1 * clip), (x @ x - clip**2 / 2) / std) for x in messages(clip)]
    assert farthest(centred, "add_remove") <= 1 / z * (1 + 1e-12)
    raw = [np.append(x / (z1 * clip), x @ x / std) for x in messages(clip)]
    assert farthest(raw, "add_remove") > 1 / z, "without centring the price would be too low"


def test_joint_event_costs_more_than_two_sampled_events():
    """One cohort, two sums: 4.48 and not 2.58 (z1 = z2 = 1, q = 0.01, 1,000 rounds, 1e-5)."""
    joint = ((PoissonGaussian(joint_noise_multiplier(1.0, 1.0), 0.01), 1000),)
    apart = ((PoissonGaussian(1.0, 0.01), 2000),)
    assert price_epsilon(joint, 1e-5, "add_remove") == pytest.approx(4.48, abs=0.02)
    assert price_epsilon(apart, 1e-5, "add_remove") == pytest.approx(2.58, abs=0.03)


def test_joint_event_equals_two_events_without_sampling():
    joint = ((Gaussian(joint_noise_multiplier(2.0, 3.0)), 1),)
    apart = ((Gaussian(2.0), 1), (Gaussian(3.0), 1))
    assert price_delta(joint, 1.0, "replace") == pytest.approx(price_delta(apart, 1.0, "replace"))


def test_joint_of_extremes():
    assert joint_noise_multiplier(2.0, math.inf) == 2.0
    assert joint_noise_multiplier(math.inf, math.inf) == math.inf
    assert joint_noise_multiplier(0.0, 5.0) == 0.0
    assert joint_noise_multiplier(1e-200, 1e200) == pytest.approx(1e-200)


@pytest.mark.parametrize("z", [-1.0, math.nan])
def test_joint_refuses_bad_noise(z):
    with pytest.raises(ValueError, match="noise multipliers must be at least 0"):
        joint_noise_multiplier(1.0, z)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_split_is_the_inverse_of_joint(share):
    main, small = split_noise_multiplier(3.0, share)
    assert joint_noise_multiplier(main, small) == pytest.approx(3.0, rel=1e-12)
    assert (3.0 / small) ** 2 == pytest.approx(share)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_split_refuses_bad_shares(share):
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
        split_noise_multiplier(3.0, share)


# ------------------------------------------------------------------------------- adaptive clip


def test_one_update_by_hand():
    adaptive = AdaptiveClip(quantile=0.5, learning_rate=0.2)
    norms = np.array([0.1, 1.0, 1.5, np.nan])
    assert adaptive.bits(norms, 1.0).tolist() == [0.5, 0.5, -0.5, 0.5]
    # three of four below: share 3/4
    assert adaptive.update(1.0, 1.0, 4.0) == pytest.approx(math.exp(-0.2 * 0.25))
    # the public number of silos normalises, not the number of bits
    assert adaptive.update(1.0, 1.0, 8.0) == pytest.approx(math.exp(-0.2 * 0.125))


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("start", [1e-3, 1.0, 1e3])
def test_the_clip_norm_finds_the_quantile(quantile, start):
    """From far away, without noise and with noise 10 on the sum of 1,000 bits, within 15 %."""
    rng = np.random.default_rng(0)
    norms = np.exp(rng.standard_normal(1000))
    target = np.quantile(norms, quantile)
    adaptive = AdaptiveClip(quantile)
    for noise in (0.0, 10.0):
        clip = start
        for _ in range(600):
            total = adaptive.bits(norms, clip).sum() + noise * rng.standard_normal()
            clip = adaptive.update(clip, total, 1000)
        assert abs(math.log(clip / target)) < 0.15


def test_noise_cannot_run_away():
    adaptive = AdaptiveClip()
    assert adaptive.update(1.0, 1e9, 10) == pytest.approx(math.exp(-0.1))
    assert adaptive.update(1.0, -1e9, 10) == pytest.approx(math.exp(0.1))


@pytest.mark.parametrize("bad", [{"quantile": 0.0}, {"quantile": 1.5}, {"learning_rate": 0.0}])
def test_adaptive_clip_refuses(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        AdaptiveClip(**bad)


# ------------------------------------------------------------------------------- histogram


@pytest.mark.parametrize("neighbours", DISTANCE)
def test_histogram_is_priced_by_its_sensitivity(neighbours):
    histogram = LogHistogram(0.5, 8.0)
    std = 3.0
    rows = histogram.one_hot(np.geomspace(0.1, 100, 40)) / std
    allowed = DISTANCE[neighbours] / histogram.noise_multiplier(std, neighbours)
    assert farthest(rows, neighbours) == pytest.approx(allowed, rel=1e-12)


def test_histogram_bins_by_hand():
    histogram = LogHistogram(1.0, 8.0)
    assert histogram.edges.tolist() == [1.0, 2.0, 4.0, 8.0]
    rows = histogram.one_hot(np.array([0.0, 1.0, 1.1, 8.0, 9.0, np.inf]))
    assert rows.argmax(axis=1).tolist() == [0, 0, 1, 3, 4, 0]
    assert rows.sum(axis=1).tolist() == [1.0] * 6


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_histogram_finds_the_quantile_within_a_bin(quantile):
    rng = np.random.default_rng(1)
    norms = np.exp(rng.standard_normal(2000))
    histogram = LogHistogram(2.0**-6, 2.0**6, bins_per_octave=2)
    counts = histogram.one_hot(norms).sum(axis=0)
    noisy = counts + 10.0 * rng.standard_normal(len(counts))
    answer = histogram.quantile(noisy, 2000, quantile)
    assert abs(math.log2(answer / np.quantile(norms, quantile))) < 0.75


@pytest.mark.parametrize("bad", [{"low": 0.0}, {"low": 9.0, "high": 2.0}, {"bins_per_octave": 0}])
def test_histogram_refuses(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        LogHistogram(**bad)
