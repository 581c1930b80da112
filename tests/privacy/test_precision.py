"""The arithmetic that is chosen for sums, and numbers of plans that decide it."""

import dataclasses

import numpy as np
import pytest

from skdpfl.privacy.release import GradientSums, choose_precision
from tests.guaranteed import plan_of

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
SUMS = GradientSums(
    records=np.array([200, 50]), batches=np.array([40, 10]), std=np.array([3.0, 2.0]),
    least=1.0, most=1.0, clip_norm=0.5, size=10, neighbours="replace", apart=np.zeros(2),
)  # fmt: skip


@pytest.mark.parametrize(
    ("sums", "dtype", "release", "chosen"),
    [
        (SUMS, SINGLE, SINGLE, (SINGLE, SINGLE)),
        (SUMS, SINGLE, DOUBLE, (SINGLE, DOUBLE)),
        (SUMS, DOUBLE, SINGLE, (DOUBLE, DOUBLE)),
        # steps of 2^-20 of so much noise are coarse beside the clip norm
        (SUMS._replace(std=np.array([1e5, 1e5])), SINGLE, SINGLE, (SINGLE, DOUBLE)),
        # sums of so many do not fit beside so little noise
        (SUMS._replace(std=np.array([1e-3, 1e-3])), SINGLE, SINGLE, (SINGLE, DOUBLE)),
        # single precision rounds too much where every record counts
        (SUMS._replace(batches=np.array([10**7, 10]), records=np.array([10**7, 50])),
         SINGLE, SINGLE, (DOUBLE, DOUBLE)),
    ],
)  # fmt: skip
def test_the_coarsest_arithmetic_that_is_fine_enough(sums, dtype, release, chosen):
    precision, noised = choose_precision(sums, dtype, release)
    assert (precision.products, precision.release) == chosen
    assert (noised.clip < 0.5).all() and noised.clip.min() > 0.495
    np.testing.assert_array_equal(noised.std, sums.std)


def test_the_widest_grid_and_the_least_noise_decide():
    _, plain = choose_precision(SUMS, SINGLE)
    _, wider = choose_precision(SUMS._replace(std=4 * SUMS.std), SINGLE)
    _, later = choose_precision(SUMS._replace(most=4.0), SINGLE)
    np.testing.assert_allclose(later.clip, wider.clip, rtol=1e-12)
    assert (later.clip < plain.clip).all()
    precision, _ = choose_precision(SUMS._replace(least=1e-3), SINGLE)
    assert precision.release == DOUBLE  # as with so little noise in every step


def test_underflow_of_tiny_sums_is_paid_for():
    """All numbers times a power of two: the same, but for what underflows in float32."""
    scale = 2.0**-104
    tiny = SUMS._replace(std=scale * SUMS.std, clip_norm=scale * SUMS.clip_norm)
    (one, plain), (other, scaled) = choose_precision(SUMS, SINGLE), choose_precision(tiny, SINGLE)
    assert (one.products, one.release) == (other.products, other.release) == (SINGLE, SINGLE)
    assert (scaled.clip / scale < plain.clip).all()
    np.testing.assert_allclose(scaled.clip / scale, plain.clip, rtol=1e-2)


def two_silos(steps):
    return plan_of(
        silo_sizes=np.array([30, 40]), steps=steps, clip_norm=1.0, noise_multiplier=3.0, delta=1e-5
    )


@pytest.mark.parametrize("start", [0, 1])
def test_the_least_and_the_most_noise_of_a_schedule(start):
    plan = two_silos((1, 2, 1))
    assert plan.factor_range == (1.0, 1.0)
    late = dataclasses.replace(plan, noise_schedule=("round", 0.25, start))
    assert late.factor_range == pytest.approx((0.5 ** (3 - start), 0.5 ** (1 - start)))
