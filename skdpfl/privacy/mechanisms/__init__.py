"""Mechanisms: which messages get noise, and from whom. There is a class for each row.

    unit     trust     class              noised                              released by
    any      any       NoPrivacy          nothing (epsilon = inf)             -
    record   silo      SiloGradients      each silo's clipped gradient sums   each silo
    record   shuffler  ShuffledGradients  each record's clipped gradient      the shuffler
    record   shuffler  ShuffledSums       each silo's sum, bit by bit         the shuffler
    record   server    ServerGradients    the cohort's weighted sum of those  the server
    record   secagg    SharedGradients    a share of it by each silo          masks, as a sum
    silo     silo      SiloMessages       each silo's clipped message         each silo
    silo     silo      PrivUnitMessages   its direction and its norm          each silo
    silo     server    ServerMessages     the sum of clipped messages         the server
    silo     secagg    SharedMessages     a share of it by each silo          masks, as a sum

Persons (``unit="person"``) have the mechanisms of records, except the shuffler's: a person's rows
in a silo give one gradient, which is clipped once.

The base class is in ``base``, mechanisms for records in ``records``, for whole silos and for noise
that silos share in ``whole_silos``, local privacy in ``privunit``.

Formal guarantee
----------------
Every noised sum S is released as ``gamma (rint(S / gamma) + N)`` with integer noise N
(:mod:`skdpfl.privacy.release`), a Gaussian mechanism on a query of L2 sensitivity at most
``sensitivity(S) + gamma sqrt(size)``, rounding errors of S included. The clip norm is reduced by
that much, so the priced multiplier is met (:mod:`skdpfl.privacy.release`).
"""

from skdpfl.privacy.mechanisms.base import (
    Aggregate,
    GradientTerms,
    Mechanism,
    NoPrivacy,
    Senders,
    Statistics,
)
from skdpfl.privacy.mechanisms.privunit import PrivUnitMessages
from skdpfl.privacy.mechanisms.records import (
    ServerGradients,
    ShuffledGradients,
    ShuffledSums,
    SiloGradients,
)
from skdpfl.privacy.mechanisms.whole_silos import (
    LearntClip,
    ServerMessages,
    SharedGradients,
    SharedMessages,
    SiloMessages,
    WholeMessages,
)

#: the default mechanism for each unit and trust
MECHANISMS: dict[tuple[str, str], Mechanism] = {
    ("record", "silo"): SiloGradients(),
    ("record", "server"): ServerGradients(),
    ("record", "secagg"): SharedGradients(),
    ("record", "shuffler"): ShuffledGradients(),
    ("silo", "silo"): SiloMessages(),
    ("silo", "server"): ServerMessages(),
    ("silo", "secagg"): SharedMessages(),
}


def mechanism_for(unit: str, trust: str) -> Mechanism:
    """Return the default mechanism of a unit and a trust; raise with the choices if none."""
    try:
        return MECHANISMS["record" if unit == "person" else unit, trust]
    except KeyError:
        rows = ", ".join(f"unit={u!r} with trust={t!r}" for u, t in MECHANISMS)
        raise ValueError(
            f"unit={unit!r} cannot be combined with trust={trust!r} here; use {rows}."
        ) from None
