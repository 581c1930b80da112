"""What is no number is refused by name, like a number out of range."""

import re

import numpy as np
import pytest

from skdpfl.privacy import epsilon_of, n_steps_for, noise_multiplier_for

GOOD = {
    epsilon_of: {"noise_multiplier": 2.0, "sampling_rate": 0.5, "n_steps": 3, "delta": 1e-5},
    noise_multiplier_for: {"epsilon": 2.0, "sampling_rate": 0.5, "n_steps": 3, "delta": 1e-5},
    n_steps_for: {"epsilon": 2.0, "noise_multiplier": 9.0, "sampling_rate": 0.5, "delta": 1e-5},
}
RANGES = {
    "epsilon": "in (0, inf",
    "delta": "in (0, 1)",
    "noise_multiplier": "in [0, inf]",
    "sampling_rate": "in (0, 1]",
    "n_steps": "in [1, 1e+09]",
}


@pytest.mark.parametrize("value", ["auto", "1", None, {"a": 1.0}, [1.0], True, 1j, np.nan, -1])
@pytest.mark.parametrize(
    ("function", "name"), [(f, name) for f, good in GOOD.items() for name in good]
)
def test_not_a_number(function, name, value):
    wanted = f"{name} must be a number {RANGES[name]}", f"; got {value!r}."
    with pytest.raises(ValueError, match=".*".join(map(re.escape, wanted))):
        function(**(GOOD[function] | {name: value}))


@pytest.mark.parametrize("function", GOOD)
def test_numpys_numbers_are_numbers(function):
    numpys = {key: np.asarray(value)[()] for key, value in GOOD[function].items()}
    assert function(**numpys) == function(**GOOD[function])
