"""``SecureAggregation``: noise that silos share, and how many of them may work with the server."""

from typing import Any

from skdpfl._arguments import check_count
from skdpfl._surface import Described


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
