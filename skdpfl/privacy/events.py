"""What is protected, and what is released: one small frozen class for each kind of release.

An event *describes* a release; :mod:`skdpfl.privacy.accounting` *prices* it. A new mechanism needs
its event here; unknown events are refused.

Noise convention (the same everywhere in this package)::

    noise_multiplier z = (std of the noise on the clipped *sum*) / clip_norm

so that, in the direction of the differing record, a release is one of the pairs

    replace      N(0, z^2) against N(2, z^2)        one record (or silo) is replaced
    add_remove   N(0, z^2) against N(1, z^2)        its contribution is set to zero
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Unit = Literal["record", "silo"]
#: trust models, from the strongest protection to the weakest
Trust = Literal["silo", "secagg", "shuffler", "server"]
Neighbours = Literal["replace", "add_remove"]


def change_of(neighbours: str) -> int:
    """Return D: how far one record (or silo) moves a sum, in norms of a term."""
    if neighbours not in get_args(Neighbours):
        raise ValueError(f"neighbours={neighbours!r}: must be 'replace' or 'add_remove'.")
    return 2 if neighbours == "replace" else 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Protected:
    """What is protected, against whom, under which relation; all of it public.

    ``silo_sizes`` (n_silos,) are the numbers of records, None where they are protected; ``delta``
    (n_silos,) each silo's delta, None where the budget is stated otherwise. Under
    ``trust="secagg"``, ``colluding`` silos may work with the server, and ``spare_rounds`` are
    priced with the others. Plans and requests are subclasses.
    """

    silo_sizes: np.ndarray | None = None
    delta: np.ndarray = None  # type: ignore[assignment]
    unit: Unit = "record"
    trust: Trust = "silo"
    neighbours: Neighbours = "replace"
    colluding: int = 0
    spare_rounds: int = 0

    @property
    def change(self) -> int:
        """D: how far one unit moves a sum, in norms of a term."""
        return change_of(self.neighbours)

    @property
    def shares_noise(self) -> bool:
        """Whether silos share the noise of a sum that nobody can look into."""
        return self.trust == "secagg"

    @property
    def hides_silos(self) -> bool:
        """Whether whole silos are protected: their messages are clipped, not records' gradients."""
        return self.unit == "silo"


@dataclass(frozen=True)
class Event:
    """Base class of releases."""


@dataclass(frozen=True)
class Exact(Event):
    """The exact value was released: no privacy."""


@dataclass(frozen=True)
class Gaussian(Event):
    """A clipped sum over *all* records, or one pass over disjoint batches, plus noise."""

    noise_multiplier: float


@dataclass(frozen=True)
class PoissonGaussian(Event):
    """A clipped sum over a Poisson sample (each record with probability ``sampling_rate``)."""

    noise_multiplier: float
    sampling_rate: float


@dataclass(frozen=True)
class FixedSizeGaussian(Event):
    """A clipped sum over a uniform batch without replacement, ``sampling_rate`` = batch / n.

    Priced under the replace-one relation only.
    """

    noise_multiplier: float
    sampling_rate: float


@dataclass(frozen=True)
class Approximate(Event):
    """Any release known to be (epsilon, delta)-DP under the relation it is priced in.

    ``delta=0`` is a pure local randomiser (PrivUnit, randomised response); ``epsilon=0`` a
    procedure that fails with probability ``delta`` and reveals nothing otherwise
    (propose-test-release).
    """

    epsilon: float
    delta: float = 0.0


@dataclass(frozen=True)
class Profile(Event):
    """Any release with a known privacy profile: ``deltas[j]`` bounds delta at ``epsilons[j]``.

    The bounds must hold for both directions of the relation. ``epsilons`` increases; between two
    points the (larger) delta of the smaller epsilon is used.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]


#: A whole fit: each distinct event with the number of times it was released.
Composition = tuple[tuple[Event, int], ...]


def compose(parts: Iterable[tuple[Event, int]]) -> Composition:
    """Merge equal events, in order of first occurrence; the price does not depend on the order."""
    counts: dict[Event, int] = {}
    for event, count in parts:
        if not (count >= 0 and count % 1 == 0):
            raise ValueError(f"An event cannot be released {count} times.")
        if count:
            counts[event] = counts.get(event, 0) + int(count)
    return tuple(counts.items())
