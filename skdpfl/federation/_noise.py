"""The noise of gradients, drawn by the plan's mechanism for each silo and step.

noise = grid * units,   units of shape (size,) or, for a stack, (n_silos, size)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skdpfl.federation._ahead import Ahead
from skdpfl.federation._base import Work
from skdpfl.federation._gradient import Noise
from skdpfl.privacy.mechanisms import GradientTerms
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import NoisedSum


class NoiseMaker:
    """Draws the noise of the plan: that of each silo, times the factor of the step."""

    def __init__(self, work: Work, terms: GradientTerms, streams: Streams) -> None:
        assert terms.noised is not None
        size, plan = work.model.size, work.plan
        self._work, self._noised = work, terms.noised
        self._by_factor: dict[float, NoisedSum] = {}
        self._last: tuple[np.ndarray, float, NoisedSum] | None = None
        self._none = terms.noised.std == 0  # silos whose own budget is infinite
        self._some_none = bool(self._none.any())
        self._source = plan.mechanism.noise(plan, streams, size, terms.noised.dtype)
        # a mechanism with state draws its steps in order
        self._ahead = Ahead(self._draw, size) if plan.mechanism.fresh_noise else None

    def of_silos(self, silos: np.ndarray, round: int, stop: int) -> Callable[[int], Noise]:
        """Return the noise of several silos, which stay together up to step ``stop`` of the fit."""
        numbers = self._work.plan.step_numbers(round)

        def noise(step: int) -> Noise:
            number = numbers[step]
            if self._ahead is None:
                units = self._draw(silos, range(number, number + 1))[0]
            else:
                units = self._ahead.get(silos, number, stop)
            return self._noise(round, step, silos, units)

        return noise

    def state(self, silo: int) -> dict[str, np.ndarray]:
        """Return the state of a silo's noise that later steps need."""
        return self._source.state(silo)

    def restore(self, silo: int, state: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`state` returned."""
        self._source.restore(silo, state)

    def _noise(self, round: int, step: int, silos: np.ndarray, units: np.ndarray) -> Noise:
        """Return the noise with these units (n, size)."""
        factor = float(self._work.plan.factors[round][step])
        if self._some_none:
            units = units * ~self._none[silos, None]
        last = self._last  # threads may replace it
        if last is None or last[0] is not silos or last[1] != factor:
            if factor not in self._by_factor:
                self._by_factor[factor] = self._noised.scaled(factor)
            self._last = last = silos, factor, self._by_factor[factor].of(silos)
        return Noise(units, last[2])

    def _draw(self, silos: np.ndarray, steps: range) -> np.ndarray:
        units = self._source.units(silos, steps)
        expected = len(steps), len(silos), self._work.model.size
        if units.shape != expected:
            raise ValueError(
                f"{type(self._source).__name__}.units must return shape {expected} (steps, silos, "
                f"size), got {units.shape}."
            )
        return units
