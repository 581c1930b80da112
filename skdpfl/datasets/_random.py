"""One way from a `random_state` to a NumPy generator; simulation only, nothing private."""

from numbers import Integral

import numpy as np


def as_generator(random_state) -> np.random.Generator:
    """Give a Generator from None, an int, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        "random_state must be None, an int >= 0, a RandomState or a Generator, "
        f"got {random_state!r}"
    )
