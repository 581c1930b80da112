"""The space that is searched: its points are drawn from public numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.model_selection import ParameterGrid, ParameterSampler

from skdpfl._warnings import warn
from skdpfl.privacy.randomness.streams import Streams


@dataclass(frozen=True)
class Space:
    """A mapping from parameters to lists or distributions, or several of them."""

    distributions: Any

    @property
    def names(self) -> set[str]:
        """The parameters that are searched over."""
        return {name for part in self._parts for name in part}

    @property
    def n_points(self) -> int:
        """The number of points of a grid of lists; 0 if some parameter has a distribution."""
        if any(hasattr(values, "rvs") for part in self._parts for values in part.values()):
            return 0
        return len(ParameterGrid(self.distributions))

    def warn_of_repeats(self, count: int) -> None:
        """Warn where a grid has fewer points than there are runs, each of which is paid for."""
        if 0 < self.n_points < count:
            warn(
                f"param_distributions has {self.n_points} point(s), so n_iter={count} tries some "
                f"again and pays again. n_iter={self.n_points} leaves more to each fit."
            )

    @property
    def _parts(self) -> list[Any]:
        whole = self.distributions
        return [whole] if isinstance(whole, Mapping) else list(whole)

    def draw(self, count: int, seed: int, *, distinct: bool) -> list[dict[str, Any]]:
        """Return ``count`` points: none again before all others were drawn, or independent ones."""
        if distinct and self.n_points:
            once = min(count, self.n_points)
            points = list(ParameterSampler(self.distributions, once, random_state=seed))
            return [points[i % once] for i in range(count)]
        seeds = range(seed, seed + count)
        return [next(iter(ParameterSampler(self.distributions, 1, random_state=s))) for s in seeds]


def seed_from(streams: Streams, purpose: str, number: int) -> int | None:
    """Return a seed that follows from the search's; None where its numbers are secret."""
    if not streams.is_simulation:
        return None
    return int(streams.stream(purpose, number).integers(0, 2**31, ()))
