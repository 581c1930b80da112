"""What is protected, and what is released: one small frozen class for each kind of release.

An event *describes* a release; :mod:`skdpfl.privacy.accounting` *prices* it. A new mechanism needs
its event here; unknown events are refused.

Noise convention (the same everywhere in this package)::

    noise_multiplier z = (std of the noise on the clipped *sum*) / clip_norm

so that, in the direction of the differing record, a release is one of the pairs

    replace      N(0, z^2) against N(2, z^2)        one record (or silo) is replaced
    add_remove   N(0, z^2) against N(1, z^2)        its contribution is set to zero

``SecureAggregation``: noise that silos share, and how many of them may work with the server.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from skdpfl._arguments import check_count
from skdpfl._surface import Described

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


def promised(to: Any) -> dict[str, Any]:
    """Return what a plan, budgets or a cost promises, in the words that costs are stated by."""
    colluding = to.colluding if to.trust == "secagg" else None
    words = {"unit": to.unit, "trust": to.trust, "neighbours": to.neighbours}
    return words | {"colluding": colluding}


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


class SecureAggregation(Described):
    """What ``trust=`` takes: silos share the noise of sums that nobody can look into.

    Masks that cancel in a sum hide each silo's message, so the server reads sums only. Each silo of
    a round of c adds noise of sigma / sqrt(c - t): less by sqrt(c - t) than what it would need
    alone, and enough if ``t`` of the others tell the server all they know. The sum has
    sqrt(c / (c - t)) times the noise of a trusted server. ``trust="secagg"`` is one with the
    defaults.

    In ``fit`` this is a simulation of silos that each draw their own share, with the bits that
    silos elsewhere give; whoever has all records in one place is trusted anyway.

    Parameters
    ----------
    colluding : int, default=1
        t, the number of other silos of a round that may work with the server. Each round needs
        more silos than that. 0: the server is curious, but no silo helps it.
    spare_rounds : int, default=0
        How many rounds that fail, because a silo did not answer, may be run again, with fresh
        noise and batches. Each is priced as one more round of every silo, in ``fit`` as well: a
        server could pretend a failure, and have both sums. With 1 or more, one sum of each kind
        beside the rounds (scales, temperature, curves, what a transformer learns) may be asked for
        again, too, and its dearest is priced twice.

    See Also
    --------
    skdpfl.privacy.PrivacySpent : Its ``colluding`` says what a fit's guarantee holds against.

    Notes
    -----
    **Formal guarantee.** The server and any ``colluding`` silos together learn of the other silos'
    records no more than a Gaussian mechanism of the priced noise tells, as far as masks and
    signatures hold: :mod:`skdpfl.privacy.mechanisms.shared`. A silo that adds no noise, or less, is
    one of those that are counted: with one more than ``colluding`` of them nothing is promised.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.privacy import SecureAggregation
    >>> sizes = dict.fromkeys("abcdefgh", 500)
    >>> one, two = ISRLDPClassifier(trust="secagg"), ISRLDPClassifier(
    ...     trust=SecureAggregation(colluding=2)
    ... )
    >>> [round(c.plan_for(silo_sizes=sizes, n_features=5).excess_of_shares, 2) for c in (one, two)]
    [1.07, 1.15]
    """

    def __init__(self, colluding: int = 1, spare_rounds: int = 0) -> None:
        self.colluding = colluding
        self.spare_rounds = spare_rounds

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, SecureAggregation)
        return same and self.get_params() == other.get_params()  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


def read_trust(trust: Any) -> tuple[Any, int, int]:
    """Return the name of a trust, its number of colluding silos and its spare rounds."""
    if isinstance(trust, str) and trust == "secagg":
        trust = SecureAggregation()
    if not isinstance(trust, SecureAggregation):
        return trust, 0, 0
    check_count("colluding", trust.colluding, low=0)
    check_count("spare_rounds", trust.spare_rounds, low=0)
    return "secagg", int(trust.colluding), int(trust.spare_rounds)


def trust_name(trust: Any) -> Any:
    """Return the name of a trust; what is none of ours as it is."""
    return read_trust(trust)[0]
