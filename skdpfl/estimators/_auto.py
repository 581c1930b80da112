"""What "auto" chooses, from public numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdpfl.estimators._checks import is_auto
from skdpfl.estimators._facts import Facts

#: a silo's step reads about this many records of large silos
BATCH = 2_000


#: rounds of a fit
ROUNDS = 50


def rounds(value: Any, default: int = ROUNDS) -> int:
    """Return the number of rounds."""
    return default if is_auto(value) else int(value)


def sampling_rate(value: Any, facts: Facts) -> float:
    """Return the share of its records that a silo's step reads: all while silos are small."""
    if not is_auto(value):
        return float(value)
    if facts.public_sizes is None:  # one rate for all, and sizes are protected
        return 1.0
    typical = float(np.median(facts.silo_sizes))
    return 1.0 if typical <= 2 * BATCH else BATCH / typical


def clip_norm(value: Any, facts: Facts) -> float:
    """Return the norm that gradients are clipped to."""
    return 1.0 if is_auto(value) else float(value)


def learning_rate(value: Any, facts: Facts, local_steps: int) -> float:
    """Return the step on the average clipped gradient."""
    return 0.5 if isinstance(value, str) else float(value)
