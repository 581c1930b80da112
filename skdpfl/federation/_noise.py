"""The noise of gradients: one stream for each silo and step, as whole units of a grid.

noise = grid * units,   units of shape (size,) or, for a stack, (n_silos, size)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skdpfl.federation._ahead import Ahead
from skdpfl.federation._base import Work
from skdpfl.federation._gradient import Noise
from skdpfl.privacy.mechanisms import GradientTerms
from skdpfl.privacy.mechanisms.precision import grids


class NoiseMaker:
    """Draws the noise that the plan asks for: ``terms.std`` times the factor of the step."""

    def __init__(self, work: Work, terms: GradientTerms) -> None:
        assert terms.std is not None and terms.precision is not None
        self._work, self._std, self._release = work, terms.std, terms.precision.release
        self._grids: dict[float, np.ndarray] = {}
        self._none = terms.std == 0  # silos whose own budget is infinite
        self._ahead = Ahead(self._draw, work.model.size)

    def of_silos(self, silos: np.ndarray, round: int, stop: int) -> Callable[[int], Noise]:
        """Return several silos' noise; the silos stay together up to step ``stop`` of the fit."""
        numbers, column = self._work.plan.step_numbers(round), silos[:, None]

        def noise(step: int) -> Noise:
            return self._noise(round, step, column, self._ahead.get(silos, numbers[step], stop))

        return noise

    def _noise(self, round: int, step: int, silos: int | np.ndarray, units: np.ndarray) -> Noise:
        """Put the grid of a silo, or of silos (n, 1), to their units."""
        factor = float(self._work.plan.factors[round][step])
        if factor not in self._grids:
            clip_norm = self._work.plan.clip_norm
            self._grids[factor] = grids(self._std * factor, clip_norm, self._release)
        if self._none.any():
            units = units * ~self._none[silos]
        return Noise(units, self._grids[factor][silos])

    def _draw(self, silos: np.ndarray, steps: range) -> np.ndarray:
        size = (self._work.model.size,)
        return self._work.streams.units_blocks("noise", silos, steps, size, self._release)
