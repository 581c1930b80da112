"""The releases about a person who has rows in several silos (unit "person").

With k = ``silos_per_person`` a person pays for the releases of the k silos that cost most together.

Formal guarantee
----------------
*Trust "silo".* Between neighbours the rows of one person change, in at most k silos. Each silo's
messages have the law of its own releases given the messages of all others, whatever those are, so
the transcript is the adaptive composition of the k silos' releases.

*Trust "server", "secagg".* With e_i = w_i / (q_i n_i), silo i's term moves the noised sum by at
most D C e_i. Let E be the sum of the k largest e_i. Noise of variance s^2 has the law of a sum of
independent noises: one of variance s^2 e_i / E for each silo of the person, and the rest, since
these variances sum to at most s^2. So what is released is a function (the sum) of k sums with that
noise, each sampled in its own silo, and costs at most their composition: silo i's sum has the
multiplier s sqrt(e_i / E) / (C e_i). For plain Gaussians this is mu^2 = sum_i (D C e_i)^2 / (s^2
e_i / E) <= (D C E / s)^2: the k largest moves, added. In a round without some of these silos noise
is left over.

*Which k.* For plain Gaussians those with the largest mu^2. Otherwise a silo whose releases dominate
those of all others comes first (:mod:`skdpfl.privacy.pricing.releases`); if there is none,
releases that dominate all silos' stand for each of the k.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from skdpfl._distinct import distinct
from skdpfl.privacy.events import Composition, Exact, Gaussian, compose
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.pricing.releases import dominates
from skdpfl.privacy.public_numbers import PublicNumbers

#: the releases of a silo (by its number) at a noise multiplier
OfSilo = Callable[[PublicNumbers, Mechanism, int, float], Composition]


def of_person(
    plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray, of_silo: OfSilo
) -> Composition:
    """Return the releases about a person at the silos' noise multipliers ``z`` (n_silos,)."""
    exposure, k = mechanism.exposure(plan), min(plan.silos_per_person, plan.n_silos)
    if exposure is not None:  # the parts of one noise
        z = z * np.sqrt(exposure / np.sort(exposure)[-k:].sum())
    if not z.all():
        return ((Exact(), 1),)
    first, group = distinct(z, plan.rates, plan.levels[1], plan.setup_codes)
    counts = np.minimum(np.bincount(group), k).tolist()
    each = [of_silo(plan, mechanism, i, float(z[i])) for i in first.tolist()]
    chosen = _costliest(list(zip(each, counts, strict=True)), k)
    if chosen is None:
        chosen = [(_dominating(plan, mechanism, z), k)]
    return compose((event, n * count) for parts, count in chosen for event, n in parts)


def _costliest(
    silos: list[tuple[Composition, int]], k: int
) -> list[tuple[Composition, int]] | None:
    """Return the k silos that cost most together, as releases and counts; None if not known."""
    if all(_is_gaussian(releases) for releases, _ in silos):
        silos = sorted(silos, key=lambda silo: -_squared_mu(silo[0]))
    else:
        silos = sorted(
            silos, key=lambda silo: -sum(dominates(silo[0], other) for other, _ in silos)
        )
        if not all(dominates(a[0], b[0]) for a, b in pairwise(silos)):
            return None
    chosen = []
    for releases, count in silos:
        chosen.append((releases, min(count, k)))
        k -= chosen[-1][1]
    return chosen


def _is_gaussian(releases: Composition) -> bool:
    return all(isinstance(event, Gaussian) for event, _ in releases)


def _squared_mu(releases: Composition) -> float:
    """Return mu^2 of plain Gaussians, over D^2."""
    gaussians = ((event, count) for event, count in releases if isinstance(event, Gaussian))
    return sum(count / event.noise_multiplier**2 for event, count in gaussians)


def _dominating(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> Composition:
    """Return releases that cost at least as much as those of every silo."""
    setups = list(dict.fromkeys(map(plan.setup_of, range(plan.n_silos))))
    if len(setups) > 1 and not all(map(_is_gaussian, setups)):
        raise ValueError(
            "The silos' releases in addition to training differ, so which silos cost a person most "
            "is not known: use silos_per_person=1, or silos with equal budgets."
        )
    least, most = float(z.min()), plan.levels[1].max(axis=0).tolist()
    pairs = zip(plan.levels[0].tolist(), most, strict=True)
    n = int(plan.known_sizes[int(plan.rates.argmax())])
    levels = [(least * factor, int(count)) for factor, count in pairs]
    training = mechanism.composition(plan, least, n, levels)
    return compose([*max(setups, key=_squared_mu), *training])
