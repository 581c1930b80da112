"""Which silos take part in which round; drawn from a separate stream, before any data are read.

    cohort      a round's silos                                            a silo's rounds
    balanced    without replacement: equal numbers of rounds, up to one    T m / M
    uniform     m = max(1, round(l M)) of M, independent each round        Binomial(T, m / M)
    poisson     each with probability l, independent; may be empty         Binomial(T, l)

Under unit="record" the schedule may be public and each silo pays for the rounds it is in. Under
unit="silo" it is secret: it is drawn inside the run and never returned.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.randomness.streams import Stream, Streams


def draw_cohort(plan: PublicNumbers, streams: Streams) -> Iterator[np.ndarray]:
    """Yield the cohort of each round as increasing silo indices."""
    return draw_cohorts(
        plan.cohort, plan.silo_fraction, plan.n_silos, plan.n_rounds, streams.stream("cohorts")
    )


def draw_cohorts(
    cohort: str, fraction: float, n_silos: int, n_rounds: int, stream: Stream
) -> Iterator[np.ndarray]:
    """Yield the cohort of each of ``n_rounds`` rounds."""
    size = min(n_silos, max(1, round(fraction * n_silos)))
    if cohort == "balanced":
        yield from _deal(size, n_silos, n_rounds, stream)
        return
    for _ in range(n_rounds):
        if cohort == "poisson":
            yield stream.poisson_sample(n_silos, fraction)
        else:
            yield stream.subset(n_silos, size)


def _deal(size: int, n_silos: int, n_rounds: int, stream: Stream) -> Iterator[np.ndarray]:
    """Draw ``size`` silos per round from a random permutation, and a new one when it runs out.

    The remaining silos of the old permutation take part first; none of them is drawn twice in that
    round. After any number of rounds two silos' counts differ by at most 1.
    """
    left = np.zeros(0, dtype=np.int64)
    for _ in range(n_rounds):
        hand, left = left[:size], left[size:]
        if len(hand) < size:
            pack = stream.permutation(n_silos)
            fresh = pack[~np.isin(pack, hand)]
            hand_new = fresh[: size - len(hand)]
            left = pack[~np.isin(pack, hand_new)]
            hand = np.concatenate([hand, hand_new])
        yield np.sort(hand)
