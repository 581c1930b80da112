"""Events: one frozen class for each kind of release; and what a plan protects.

An event *describes* a release; :mod:`skdpfl.privacy.calibration` *prices* it. A new mechanism needs
its event here; unknown events are refused.

Noise convention (the same everywhere in this package)::

    noise_multiplier z = (std of the noise on the clipped *sum*) / clip_norm

so that, in the direction of the differing record, a release is one of the pairs

    replace      N(0, z^2) against N(2, z^2)        one record (or silo) is replaced
    add_remove   N(0, z^2) against N(1, z^2)        its contribution is set to zero

``SecureAggregation`` sets how many silos may collude with the server if silos share noise.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal, Self, get_args

from skdpfl._arguments import check_choice, check_count
from skdpfl._surface import Described

Unit = Literal["record", "person", "silo"]
#: trust models, from the strongest protection to the weakest
Trust = Literal["silo", "secagg", "shuffler", "server"]
Neighbours = Literal["replace", "add_remove"]


def change_of(neighbours: str) -> int:
    """Return D, the sensitivity of a sum to one record (or silo), over the norm of a term."""
    if neighbours not in get_args(Neighbours):
        raise ValueError(f"neighbours must be 'replace' or 'add_remove'; got {neighbours!r}.")
    return 2 if neighbours == "replace" else 1


@dataclass(frozen=True)
class Guarantee:
    """Who is protected, against whom, and under which neighbouring relation.

    Parameters
    ----------
    unit : {"record", "person", "silo"}, default="record"
        What is protected. A person is all of their rows in a silo, in any number.
    trust : {"silo", "secagg", "shuffler", "server"}, default="silo"
        Whom a person in the data trusts in addition to their own silo.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation. "add_remove" sets one contribution to zero.
    colluding : int, default=0
        With ``trust="secagg"``: how many other silos may collude with the server.
    silos_per_person : int, default=1
        With ``unit="person"``: in how many silos a person has rows at most, which is declared.

    See Also
    --------
    skdpfl.privacy.PrivacyPlan : The numbers that a guarantee is priced with.

    Examples
    --------
    >>> from skdpfl.privacy import Guarantee
    >>> Guarantee(unit="silo", trust="server", neighbours="add_remove").change
    1
    """

    unit: Unit = "record"
    trust: Trust = "silo"
    neighbours: Neighbours = "replace"
    colluding: int = 0
    silos_per_person: int = 1

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, get_args(Unit))
        check_choice("trust", self.trust, get_args(Trust))
        check_count("colluding", self.colluding, low=0)
        change_of(self.neighbours)  # raises if there is no such relation
        if self.colluding and not self.shares_noise:
            raise ValueError(f'colluding needs trust="secagg"; got trust={self.trust!r}.')
        check_count("silos_per_person", self.silos_per_person)
        if self.silos_per_person > 1 and self.unit != "person":
            raise ValueError(
                f'silos_per_person={self.silos_per_person} needs unit="person"; got '
                f"unit={self.unit!r}."
            )
        if self.unit == "person" and self.trust == "shuffler":
            raise ValueError(
                'unit="person" does not go with trust="shuffler", whose messages are of single '
                'records: the nearest is trust="silo", "secagg" or "server".'
            )

    def __str__(self) -> str:
        more = f", colluding={self.colluding}" if self.shares_noise else ""
        if self.silos_per_person > 1:
            more += f", silos_per_person={self.silos_per_person}"
        return f"unit={self.unit!r}, trust={self.trust!r}, neighbours={self.neighbours!r}{more}"

    @property
    def change(self) -> int:
        """D, the sensitivity of a sum to one unit, over the norm of a term."""
        return change_of(self.neighbours)

    @property
    def shares_noise(self) -> bool:
        """Whether silos share the noise of a masked sum."""
        return self.trust == "secagg"

    @property
    def protected(self) -> tuple[str, str, int]:
        """What two costs must have alike: unit, relation, and the silos of a person."""
        return self.unit, self.neighbours, self.silos_per_person

    @property
    def row(self) -> tuple[str, str]:
        """The row of the table of mechanisms: persons are clipped and noised as records are."""
        return ("silo" if self.unit == "silo" else "record"), self.trust

    def share_in_silo(self, n_silos: int) -> float:
        """Return the mu that one silo's sum may cost, over that of a person in several silos.

        Parameters
        ----------
        n_silos : int
            The number of silos.

        Notes
        -----
        **Formal guarantee.** k sums with independent noise that cost mu each cost sqrt(k) mu
        together (trust "silo"). In one sum of k silos a person's terms move it k times as far as
        one of them, whose cost is k mu (:mod:`skdpfl.privacy.plan`).
        """
        k = min(self.silos_per_person, n_silos)
        return 1 / math.sqrt(k) if self.trust == "silo" else 1 / k


class Guaranteed:
    """Base class of what has a ``guarantee``, whose words are read as its own."""

    guarantee: Guarantee

    unit = property(attrgetter("guarantee.unit"))
    trust = property(attrgetter("guarantee.trust"))
    neighbours = property(attrgetter("guarantee.neighbours"))
    colluding = property(attrgetter("guarantee.colluding"))
    silos_per_person = property(attrgetter("guarantee.silos_per_person"))
    change = property(attrgetter("guarantee.change"))
    shares_noise = property(attrgetter("guarantee.shares_noise"))

    def trusting(self, trust: Trust, colluding: int = 0, **changes: Any) -> Self:
        """Return the same with another trust, and other changes.

        Parameters
        ----------
        trust : {"silo", "secagg", "shuffler", "server"}
            Whom a person in the data trusts.
        colluding : int, default=0
            With "secagg": how many other silos may collude with the server.
        **changes
            Other fields.
        """
        other = replace(self.guarantee, trust=trust, colluding=colluding)
        return replace(self, guarantee=other, **changes)  # type: ignore[type-var]


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
class WithReplacementGaussian(Event):
    """A clipped sum over ``batch`` independent uniform draws from n = batch / rate records.

    Priced under the replace-one relation only.
    """

    noise_multiplier: float
    sampling_rate: float
    batch: int


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
    priced noise reveals: :mod:`skdpfl.privacy.mechanisms.whole_silos`. A silo that adds no noise,
    or too little, counts as colluding. With more than ``colluding`` such silos there is no
    guarantee.

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


def masks_of(trust: Any) -> SecureAggregation | None:
    """Return the secure aggregation that a trust stands for, if any."""
    if isinstance(trust, str) and trust == "secagg":
        return SecureAggregation()
    return trust if isinstance(trust, SecureAggregation) else None


def trust_name(trust: Any) -> Any:
    """Return the name of a trust; invalid values are returned unchanged."""
    return "secagg" if isinstance(trust, SecureAggregation) else trust


def spare_rounds_of(trust: Any) -> int:
    """Return the number of failed rounds that may be repeated."""
    masks = masks_of(trust)
    return 0 if masks is None else check_count("spare_rounds", masks.spare_rounds, low=0)


def read_guarantee(
    unit: Unit, trust: Any, neighbours: str = "auto", silos_per_person: int = 1
) -> Guarantee:
    """Return the guarantee for the values of parameters; "auto" is the usual relation."""
    masks, name = masks_of(trust), trust_name(trust)
    if neighbours == "auto":
        neighbours = "add_remove" if (unit, name) == ("silo", "server") else "replace"
    colluding = 0 if masks is None else check_count("colluding", masks.colluding, low=0)
    return Guarantee(unit, name, neighbours, colluding, silos_per_person)  # type: ignore[arg-type]
