"""The privacy profile of one round of shuffled Gaussian messages: bounds at a few epsilons."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np

from skdpfl.privacy.events import Profile
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.shuffling.blanket import CELLS, blanket_delta, largest_kappa

#: Points at which a round's profile is computed.
_N_NODES = 33

#: Start and upper end of the search for the last of them.
_FIRST, _FURTHEST = 0.02, 300.0

#: More noise is priced as this much, which tells more: near it ratios differ from 1 by roundings.
_MOST_NOISE = 1e7


@lru_cache(maxsize=256)
def shuffled_profile(
    noise_multiplier: float, n_reports: int, sampling_rate: float = 1.0, *, slack: float = 1e-9
) -> Profile:
    """Return the privacy profile of one round of shuffled minibatch SGD, under replacement.

    Its deltas are upper bounds. ``noise_multiplier`` is z, the standard deviation of each message's
    noise over the clip norm; ``n_reports`` the number of messages of the round, of all silos
    together; ``sampling_rate`` g = K / n, the share of its records that the record's silo draws;
    ``slack`` the largest probability of revealed tails per round, which add up over rounds.
    """
    if not noise_multiplier > 0.0:
        raise ValueError(f"noise_multiplier must be positive, got {noise_multiplier!r}.")
    if n_reports < 1:
        raise ValueError(f"n_reports must be at least 1, got {n_reports!r}.")
    if not 0.0 < sampling_rate <= 1.0:
        raise ValueError(f"sampling_rate must be in (0, 1], got {sampling_rate!r}.")
    if not 0.0 < slack < 1.0:
        raise ValueError(f"slack must be in (0, 1), got {slack!r}.")
    if noise_multiplier == math.inf:
        return Profile((0.0,), (0.0,))

    bound = RoundBound(min(noise_multiplier, _MOST_NOISE), n_reports, slack)
    epsilons = np.linspace(0.0, *_nodes(bound))
    amplified = np.log1p(sampling_rate * np.expm1(epsilons))
    deltas = np.minimum.accumulate([bound.delta(epsilon) for epsilon in epsilons.tolist()])
    return Profile(tuple(amplified.tolist()), tuple((sampling_rate * deltas).tolist()))


def _nodes(bound: RoundBound) -> tuple[float, int]:
    """Return the last point of a profile and the number of points.

    Where the messages' own noise is all that protects, revealed tails do not matter, and the
    profile goes on: a fit that pays for them alone spends a twentieth of its delta on tails, so
    deltas that stay above 20 tails would make its price infinite.
    """
    first = last = _last_epsilon(bound)
    if bound.delta(last) <= 20.0 * bound.slack:
        return last, _N_NODES
    while last < _FURTHEST and bound.delta(last) > 2.0 * bound.slack:
        last *= 1.3
    return last, math.ceil(_N_NODES * last / first)


def _last_epsilon(bound: RoundBound) -> float:
    """Return an epsilon beyond which the bound hardly decreases."""
    slack = bound.slack

    def near(epsilon: float) -> float:  # where the revealed tails begin to matter
        return 0.4 * slack * (3.0 + math.exp(min(epsilon, 10.0)))

    last = _FIRST
    while last < _FURTHEST:
        far = max(50.0 * slack, near(1.3 * last))
        if bound.delta(1.3 * last, enough=far) <= far:
            break
        last *= 1.3
    here = 1.0 if last == _FIRST else bound.delta(last)
    while here > near(last) and last < _FURTHEST:
        before, here = here, bound.delta(1.3 * last)
        if here < 50.0 * slack and here > 0.8 * before:
            break
        last *= 1.3
    return last


class RoundBound:
    """The bound of :mod:`skdpfl.privacy.shuffling.blanket`, epsilon by epsilon.

    It is the largest of the cells' bounds. A cell's bound is at most the local guarantee at its mu,
    so cells whose local guarantee is below another cell's bound are skipped.
    """

    def __init__(self, noise_multiplier: float, n_reports: int, slack: float) -> None:
        self.n_reports, self.slack = n_reports, slack
        self._distance = slack / 4  # in total variation, of all other reports together
        self._cells = [self._cell(*ends, noise_multiplier) for ends in itertools.pairwise(CELLS)]
        self._first = len(self._cells) // 2  # the cell that was the worst the last time

    def _cell(self, low: float, high: float, noise_multiplier: float) -> tuple[float, float]:
        """Return mu and kappa of a cell."""
        beside = (1.0 + math.sqrt(1.0 - low**2)) / noise_multiplier
        others = self.n_reports - 1
        kappa = largest_kappa(beside, self._distance / others) if others else 0.0
        return 2.0 * high / noise_multiplier, kappa

    def delta(self, epsilon: float, enough: float = math.inf) -> float:
        """Return the bound; if it exceeds ``enough``, any number between the two."""
        worst, descending = 0.0, range(len(self._cells) - 1, -1, -1)
        for cell in sorted(descending, key=lambda cell: cell != self._first):
            mu, kappa = self._cells[cell]
            alone = gaussian_delta(mu, epsilon)
            if alone <= worst:
                continue
            value = min(alone, self._hidden(mu, kappa, math.exp(epsilon)))
            if value > worst:
                worst, self._first = value, cell
            if worst > enough:
                break
        return min(1.0, worst)

    def _hidden(self, mu: float, kappa: float, alpha: float) -> float:
        """Return a cell's delta, given the other reports."""
        if self.n_reports == 1:
            return 1.0
        blanket = blanket_delta(mu, kappa, self.n_reports, alpha, self.slack / 2)
        return blanket + (1.0 + alpha) * self._distance
