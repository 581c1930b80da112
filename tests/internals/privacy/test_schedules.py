"""Noise that decays: factors beside the formula, and their rounding to few levels."""

import numpy as np
import pytest

from skdpfl.privacy.public_numbers import MAX_LEVELS, noise_factors


def test_decay_by_rounds():
    factors = noise_factors(("round", 0.25, 1), (2, 1, 3))
    expected = [[1.0, 1.0], [0.5], [0.25] * 3]
    assert [f.tolist() for f in factors] == [pytest.approx(e) for e in expected]


def test_decay_by_steps_starts_after_round_start_and_goes_on_over_rounds():
    factors = noise_factors(("step", 0.25, 1), (2, 2, 3, 1))
    expected = [[1.0, 1.0], [1.0, 0.5], [0.25, 0.125, 1 / 16], [1 / 32]]
    assert [f.tolist() for f in factors] == [pytest.approx(e) for e in expected]


@pytest.mark.parametrize("schedule", [("round", 0.9, 1), ("step", 0.9, 0)])
def test_few_levels_below_the_schedule(schedule):
    exact = 0.9 ** (0.5 * np.arange(200))
    rounded = np.concatenate(noise_factors(schedule, (1,) * 200))
    spacing = exact[-1] ** (1 / (MAX_LEVELS - 1))
    assert len(np.unique(rounded)) == MAX_LEVELS == 64
    assert (rounded <= exact * (1 + 1e-9)).all()
    assert (rounded > exact * spacing * (1 - 1e-9)).all()
    assert rounded[0] == 1.0
    assert rounded[-1] == pytest.approx(exact[-1])
