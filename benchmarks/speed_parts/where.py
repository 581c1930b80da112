"""Where a fit's processor time goes, part by part.

A part's time is what passes inside its function and not inside another part's: functions are
wrapped by a clock while a fit runs. A clock's own call costs a third of a microsecond.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from unittest.mock import patch

from benchmarks.speed_parts.workloads import Data, Sizes, fit_w1, fit_w2, fit_w3

PARTS = {
    "matrix products": [
        "skdpfl.models._products.NumpyProducts.raw",
        "skdpfl.models._products.NumpyProducts.sums",
        "skdpfl.models._products.CompiledProducts.raw",
        "skdpfl.models._products.CompiledProducts.sums",
    ],
    "loss and clipping": [
        "skdpfl.models._linear.LinearModel.clipped_gradient_sums",
    ],
    "noise": [
        "skdpfl.federation._gradient.NoiseMaker._noise",
        "skdpfl.privacy.randomness.normals.units",
        "skdpfl.federation._gradient.NoiseMaker._draw",
    ],
    "exact release": [
        "skdpfl.privacy.release.noised_sum.snapped_release",
    ],
    "drawing batches": [
        "skdpfl.federation._batches.Batches.draw",
        "skdpfl.federation._batches.Batches.together",
    ],
    "gathering rows": [
        "skdpfl.federation._data.SiloData.at",
        "skdpfl.federation._batches.GroupBatches._all",
        "skdpfl.models._products.Records.gathered",
    ],
    "local steps": ["skdpfl.federation._local.LocalFederation._walk"],
    "rounds": ["skdpfl.estimators._training.run"],
    "reading and checking": ["skdpfl.estimators._base.FederatedEstimator._read"],
    "plan and price": [
        "skdpfl.estimators._training.make_plan",
        "skdpfl.privacy.plan.PrivacyPlan.spent",
    ],
    "the rest": ["skdpfl.estimators._base.FederatedEstimator.fit"],
}


class Clock:
    """Exclusive times of nested calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._last = 0.0

    def wrap(self, part: str, function: Callable) -> Callable:
        """Return the function with its time booked to a part."""

        @wraps(function)
        def wrapped(*args, **kw):
            self._book()
            self._open.append(part)
            try:
                return function(*args, **kw)
            finally:
                self._book()
                self._open.pop()

        return wrapped

    def _book(self) -> None:
        now = time.process_time()
        if self._open:
            self.seconds[self._open[-1]] += now - self._last
        self._last = now


@contextmanager
def clocked() -> Iterator[Clock]:
    """Put the clock into all parts for a while."""
    clock = Clock()
    with ExitStack() as stack:
        for part, targets in PARTS.items():
            for target in targets:
                patcher = patch(target, autospec=False)
                original = patcher.get_original()[0]
                stack.enter_context(patch(target, clock.wrap(part, original)))
        yield clock


def profile(data: list[Data], sizes: Sizes) -> str:
    """Return a table: the parts' shares of each workload's processor time."""
    fits = {
        "W1": partial(fit_w1, data[0], sizes, 3),
        "W2": partial(fit_w2, data[1]),
        "W3": partial(fit_w3, data[2], sizes),
    }
    shares = {}
    for name, fit in fits.items():
        fit()
        with clocked() as clock:
            for _ in range(20 if name == "W2" else 2):
                fit()
        total = sum(clock.seconds.values())
        shares[name] = {part: clock.seconds[part] / total for part in PARTS}
    lines = ["| part | " + " | ".join(fits) + " |", "|---" * (1 + len(fits)) + "|"]
    for part in PARTS:
        lines.append(f"| {part} | " + " | ".join(f"{shares[n][part]:.0%}" for n in fits) + " |")
    return "\n".join(lines)
