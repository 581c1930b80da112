"""Where the noise is: one class per row of what goes together.

    unit     trust    class            noised                              released by
    any      any      NoPrivacy        nothing (epsilon = inf)             -
    record   silo     SiloGradients    each silo's clipped gradient sums   each silo
    record   server   ServerGradients  the cohort's weighted sum of those  the server
    silo     silo     SiloMessages     each silo's clipped message         each silo
    silo     silo     PrivUnitMessages its direction and its norm          each silo
    silo     server   ServerMessages   the sum of clipped messages         the server

What a mechanism is stands in ``base``; the rows that protect records in ``records``, those that
protect whole silos in ``whole_silos`` and ``privunit_messages``, those behind a shuffler in
``shuffler``.

Formal guarantee
----------------
Every noised sum S is released as ``gamma (rint(S / gamma) + N)`` with integer noise N
(:mod:`skdpfl.privacy.randomness.grid`), a Gaussian mechanism on a query of L2 sensitivity at most
``sensitivity(S) + gamma sqrt(size)``, rounding errors of S included. Records are clipped to a norm
that much smaller, so the priced multiplier is met exactly
(:mod:`skdpfl.privacy.mechanisms.precision`).
"""

from __future__ import annotations

from skdpfl.privacy.mechanisms.base import (
    Aggregate,
    GradientTerms,
    Mechanism,
    NoPrivacy,
    Statistics,
)
from skdpfl.privacy.mechanisms.learnt_clip import LearntClip
from skdpfl.privacy.mechanisms.privunit_messages import PrivUnitMessages
from skdpfl.privacy.mechanisms.records import ServerGradients, SiloGradients
from skdpfl.privacy.mechanisms.whole_silos import ServerMessages, SiloMessages, WholeMessages

__all__ = [
    "MECHANISMS",
    "Aggregate",
    "GradientTerms",
    "LearntClip",
    "Mechanism",
    "NoPrivacy",
    "PrivUnitMessages",
    "ServerGradients",
    "ServerMessages",
    "SiloGradients",
    "SiloMessages",
    "Statistics",
    "WholeMessages",
]

#: the rows of the table that exist without further machinery
MECHANISMS: dict[tuple[str, str], Mechanism] = {
    ("record", "silo"): SiloGradients(),
    ("record", "server"): ServerGradients(),
    ("silo", "silo"): SiloMessages(),
    ("silo", "server"): ServerMessages(),
}
