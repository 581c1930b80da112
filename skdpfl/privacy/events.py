"""Events: one frozen class for each kind of release; and what a plan protects.

An event *describes* a release; :mod:`skdpfl.privacy.accounting` *prices* it. A new mechanism needs
its event here; unknown events are refused.

Noise convention (the same everywhere in this package)::

    noise_multiplier z = (std of the noise on the clipped *sum*) / clip_norm

so that, in the direction of the differing record, a release is one of the pairs

    replace      N(0, z^2) against N(2, z^2)        one record (or silo) is replaced
    add_remove   N(0, z^2) against N(1, z^2)        its contribution is set to zero

``SecureAggregation`` sets how many silos may collude with the server if silos share noise.
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
    """Return D, the sensitivity of a sum to one record (or silo), over the norm of a term."""
    if neighbours not in get_args(Neighbours):
        raise ValueError(f"neighbours must be 'replace' or 'add_remove'; got {neighbours!r}.")
    return 2 if neighbours == "replace" else 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Protected:
    """What is protected, against whom, and under which relation; all fields are public.

    ``silo_sizes`` (n_silos,) are the numbers of records, None if they are protected; ``delta``
    (n_silos,) is each silo's delta, None if the budget is stated otherwise. With
    ``trust="secagg"``, ``colluding`` silos may collude with the server, and ``spare_rounds`` are
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
        """D, the sensitivity of a sum to one unit, over the norm of a term."""
        return change_of(self.neighbours)

    @property
    def shares_noise(self) -> bool:
        """Whether silos share the noise of a masked sum."""
        return self.trust == "secagg"

    @property
    def hides_silos(self) -> bool:
        """Whether whole silos are protected: their messages are clipped, not records' gradients."""
        return self.unit == "silo"


def promised(to: Any) -> dict[str, Any]:
    """Return the guarantee of a plan, budgets or a cost as the fields of a PrivacySpent."""
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
    """Secure aggregation, as a value of ``trust``: silos share the noise of masked sums.

    Masks that cancel in a sum hide each silo's message, so the server sees sums only. In a round of
    c silos each adds noise of ``sigma / sqrt(c - t)``, where sigma is the noise that it would need
    alone. That suffices if up to ``t`` of the others reveal all they know to the server. The sum
    has ``sqrt(c / (c - t))`` times the noise of a trusted server. ``trust="secagg"`` stands for the
    defaults.

    In ``fit``, each silo's share is simulated, with the same bits as from remote silos; whoever has
    all records in one place is trusted anyway.

    Parameters
    ----------
    colluding : int, default=1
        t, the number of other silos of a round that may collude with the server. Each round needs
        more silos than that. 0: the server is curious, but no silo helps it.
    spare_rounds : int, default=0
        How many failed rounds, in which a silo did not answer, may be repeated, with fresh noise
        and batches. Each is priced as one more round of every silo, also in ``fit``: a server could
        pretend a failure to obtain both sums. With 1 or more, one sum of each other kind (scales,
        temperature, curves, sums of a transformer) may be repeated too, and the most expensive of
        each kind is priced twice.

    See Also
    --------
    skdpfl.privacy.PrivacySpent : Its ``colluding`` says what a fit's guarantee holds against.

    Notes
    -----
    **Formal guarantee.** As far as masks and signatures hold, the server and any ``colluding``
    silos together learn no more of the other silos' records than a Gaussian mechanism with the
    priced noise reveals: :mod:`skdpfl.privacy.mechanisms.shared`. A silo that adds no noise, or too
    little, counts as colluding. With more than ``colluding`` such silos there is no guarantee.

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
    """Return the name of a trust; invalid values are returned unchanged."""
    return read_trust(trust)[0]
