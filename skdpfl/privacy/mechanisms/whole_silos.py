"""Silo unit: each silo's message is one flat vector, clipped as a whole and noised.

Silo i's message x_i in R^size becomes ::

    D_i = clip_C(x_i)                          zero if x_i is not finite
    q_i = |D_i|^2 / C - C                      if the algorithm reads squared norms
    b_i = +-sqrt(BIT) C, + if |x_i| <= C       if the clip norm is learnt (adaptive clipping)
    e_i = (D_i, q_i, b_i)
    R   = C sqrt(1 + BIT), or C without b_i

    trust   class             release                                            neighbours
    silo    SiloMessages      (D_i, b_i) + N(0, (z R)^2 I)           each silo   replace
    silo    PrivUnitMessages  r_hat V / m and its level, 1/z-DP      each silo   replace
    server  ServerMessages    sum_i w_i e_i + N(0, (z R max w)^2 I)  the server  zero-out

The server divides by the *expected* weight of a cohort, never by the realised one: the cohort and
its size are secret. The class of the second row is in ``privunit``.

**Adaptive clipping.** The clip norm of messages may follow a quantile of their norms::

    C_(r+1) = min(H, C_r exp(-rate_r ([share_r]_0^1 - quantile)))
    rate_r  = max(last, first / (1 + r / 2)) / (1 + (s / 0.3)^2)

``share_r`` is the released share of messages within C_r, ``s`` the standard deviation of its noise,
a public number. Shares are clipped to [0, 1]. Rates decrease, so that a start that is wrong by a
factor of ten is corrected within a few rounds and C is stable later; noisier shares have less
effect. H is a public upper bound: where noise drives the model away, messages grow, and C must not
grow with them without bound, since the noise grows with C.

Formal guarantee
----------------
**One release.** |e_i| <= R for any data of the silo. Without b_i this is |D|^2 + q^2 <= C^2: with
v = |D|^2 / C^2 in [0, 1] the left side is C^2 (v + (1 - v)^2) = C^2 (1 - v (1 - v)). So mean and
mean squared norm, which are sums over the same cohort, are one Gaussian release with the multiplier
z of the mean alone: centred at C^2, the squared norm costs nothing, under either relation, sampled
or not. (In general two sums over one cohort cost 1/z^2 = 1/z_1^2 + 1/z_2^2. This is the cost of the
bit: z_1 = z R / C and z_2 = z R / (sqrt(BIT) C).) With weights, the sum over i of (w_i / max w)
e_i has terms of norm at most R.

**Rounding.** A sum S is released as ``gamma (rint(S / gamma) + N)`` with integer noise N
(:mod:`skdpfl.privacy.release`); C is reduced so that the sensitivity, rounding errors included, is
the priced one.

**All rounds.** Given all earlier releases, a round's release depends on silo i through e_i only
(bit for bit: :mod:`skdpfl.federation._local`), which is in the ball of radius R for any data, drawn
records, memory and earlier participation of i. Under trust="server" with Poisson cohorts, the
participation of i is drawn independently in each round: its share of the round is (1 - l) N(0) + l
N(v), where v has some distribution on the ball that depends on i's secret state. By joint convexity
of the hockey-stick divergence, in both directions, this is dominated by the pair with v fixed at
norm R, for every such distribution: secret memory does not invalidate amplification, and the
rounds' pairs compose. Cohorts of a known size (uniform, balanced) get no amplification; in a
balanced schedule a silo is charged for the largest number of rounds it can be in. The clip norm of
a round and all server computations are functions of earlier releases.

Noise shared by silos: each silo's share in a masked sum, and the price.
------------------------------------------------------------------------
    unit     trust    class            noised                              released by
    record   secagg   SharedGradients  the cohort's weighted sum of those  the masks' sum
    silo     secagg   SharedMessages   the sum of clipped messages         the masks' sum

With s the noise of the sum over C (without the colluding silos' shares), of c silos in a round each
adds noise of ``s C / sqrt(c - t)`` to its weighted message, in whole numbers on a common grid
(:mod:`skdpfl.privacy.release`). ::

    record   s = max_i z_i w_i / (q_i n_i)         whole silos, with R as there   s = z max_i w_i

Formal guarantee
----------------
Against the server together with any t silos, a round is the Gaussian mechanism with the multiplier
z of :class:`ServerGradients` or :class:`ServerMessages`, for every other silo in the round: at
least c - t shares are unknown to them, including that silo's own. They see the cohorts, so sampling
of silos gives no amplification; sampled records are as secret as with any other trust. A failed
attempt is a release as well: ``spare_rounds`` of them are priced in addition to the rounds, for
every silo.

**Whole silos: the relation.** Under zero-out a silo's e_i becomes 0 and its noise stays: the sum
changes by w_i e_i, at most max w R, as with a trusted server. Under replacement it changes by up to
twice as much. The server and colluding silos see which silos answer, so participation is not
hidden; the guarantee is that a silo's answer could have come from other data. That is replacement,
the meaning of ``neighbours="auto"`` here, as with ``trust="silo"``. (``neighbours="add_remove"``
guarantees that the answer could have been zeros, at half the sensitivity.)
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpfl._arguments import check_share
from skdpfl.privacy.events import Composition, Gaussian, PoissonGaussian, compose
from skdpfl.privacy.mechanisms.base import (
    Aggregate,
    GradientTerms,
    Mechanism,
    Senders,
    Statistics,
    clip_rows,
    squared_norms,
)
from skdpfl.privacy.mechanisms.records import ServerGradients, n_sums
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import (
    DOUBLE,
    MOST_NORMALS,
    NORMALS,
    NoisedSum,
    SharedNoise,
    check_honest,
    noised_sum,
    relative_error,
    shared_noise,
)
from skdpfl.privacy.sampling import Levels

#: change of log C in the first round, and in late ones, for an error of one in the share
FIRST_RATE, LAST_RATE = 2.0, 0.2
#: standard deviation of the noise on the share at which the rate is halved
NOISE = 0.3


@dataclass(frozen=True)
class LearntClip:
    """Adaptive clipping of Andrew et al. (NeurIPS 2021) with decreasing rates and an upper bound.

    Parameters
    ----------
    highest : float
        H, in the units of messages.
    quantile : float, default=0.5
        The target share of messages that are not clipped.
    """

    highest: float
    quantile: float = 0.5

    def __post_init__(self) -> None:
        check_share("quantile", self.quantile)

    def update(self, clip_norm: float, share: float, noise: float, round: int) -> float:
        """Return the clip norm of the round after ``round``."""
        rate = max(LAST_RATE, FIRST_RATE / (1 + round / 2)) / (1 + (noise / NOISE) ** 2)
        share = min(1.0, max(0.0, share))
        return min(self.highest, clip_norm * math.exp(-rate * (share - self.quantile)))


#: squared norm of adaptive clipping's bit over C^2: the noise on messages grows by 1 %
BIT = 0.02


@dataclass(frozen=True)
class WholeMessages(Mechanism):
    """Base class of the mechanisms for whole silos.

    Parameters
    ----------
    squared_norms : bool, default=False
        Whether the algorithm reads the mean squared norm of the clipped messages.
    clipping : LearntClip, optional
        How the clip norm is learnt; None: it is constant.
    """

    squared_norms: bool = False
    clipping: LearntClip | None = None

    @property
    def n_extra(self) -> int:
        return int(self.squared_norms) + int(self.clipping is not None)

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return compose((Gaussian(level), count) for level, count in levels)

    def keep(self, plan: PublicNumbers, messages: np.ndarray, clip_norm: float) -> np.ndarray:
        clip = self.noised(plan, clip_norm, messages.shape[-1]).clip
        return clip_rows(messages.astype(DOUBLE), clip)

    def noise_norm(self, plan: PublicNumbers, size: int) -> float:
        """Return the root mean square norm of the noise on the first round's mean message."""
        return self.noise_on_mean(plan) * float(np.sqrt(size))

    def noised(self, plan: PublicNumbers, clip_norm: float, size: int) -> NoisedSum:
        """Return the noised sum of a round in which messages are clipped to ``clip_norm``."""
        raise NotImplementedError

    def next_clip_norm(
        self, plan: PublicNumbers, clip_norm: float, unclipped: float, round: int
    ) -> float:
        if self.clipping is None:
            return clip_norm
        return self.clipping.update(clip_norm, unclipped, self.noise_on_share(plan), round)

    def noise_on_share(self, plan: PublicNumbers) -> float:
        """Return the standard deviation of the noise on the released share of unclipped messages.

        The noise of the bit is that of any coordinate of the mean, in units of 2 sqrt(BIT) C.
        """
        return self.noise_on_mean(plan) / (2 * float(np.sqrt(BIT)) * plan.clip_norm)

    @property
    def _radius(self) -> float:
        """R / C."""
        return 1.0 if self.clipping is None else float(np.sqrt(1 + BIT))

    def _noised(
        self, plan: PublicNumbers, clip_norm: float, size: int, n_silos: int, most: float
    ) -> NoisedSum:
        """Return the noised sum of ``n_silos`` messages of total weight at most ``most``.

        Clipping takes size + 6 operations and q as many, counted for every coordinate. Weighting,
        summation and the grid take n_silos + 3 more.
        """
        radius = clip_norm * self._radius
        std, operations = float(plan.noise_multiplier[0]) * radius, 2 * (size + 6) + n_silos + 3
        noised = noised_sum(
            radius, std, size + 2, plan.neighbours, terms=most, operations=operations
        )
        return noised if radius == clip_norm else noised._replace(clip=noised.clip / self._radius)

    def _bits(self, kept: np.ndarray, clip: float) -> np.ndarray:
        """Return b_i (n, 1), or nothing (n, 0)."""
        if self.clipping is None:
            return np.zeros((len(kept), 0))
        # clipped messages have norm C up to rounding
        inside = np.sqrt(squared_norms(kept)) < clip * (1 - 1e-9)
        return np.where(inside, 1.0, -1.0)[:, None] * (np.sqrt(BIT) * clip)

    def _share(self, extra: np.ndarray, clip: float) -> float:
        """Return the share of messages that were not clipped, from the mean bit (the last)."""
        if self.clipping is None:
            return float("nan")
        return float(extra[-1]) / (2 * np.sqrt(BIT) * clip) + 0.5


@dataclass(frozen=True)
class SiloMessages(WholeMessages):
    """Server not trusted: each silo clips and noises its whole message.

    The mean squared norm is post-processing: a silo adds ``|c_i|^2 - size (z R)^2``, a function of
    the noised message.
    """

    serves = ("silo", "silo")

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        each = plan.weights * plan.noise_multiplier * plan.clip_norm * self._radius
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))

    def noised(self, plan: PublicNumbers, clip_norm: float, size: int) -> NoisedSum:
        return self._noised(plan, clip_norm, size, 0, 1.0)

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        size = kept.shape[-1]
        noised = self.noised(plan, by.clip_norm, size)
        exact = np.hstack([kept, self._bits(kept, noised.clip)])
        units = by.keys.units_block("message", by.silos, by.round, exact.shape[1:], DOUBLE)
        sent = noised.added(exact, units)
        if not self.squared_norms:
            return sent
        debiased = squared_norms(sent[:, :size]) - size * noised.std**2
        return np.insert(sent, size, debiased, axis=1)

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        norm = within(float(extra[0]), clip_norm) if self.squared_norms else float("nan")
        return Statistics(norm, self._share(extra, _kept_clip(clip_norm)))


@dataclass(frozen=True)
class ServerMessages(WholeMessages):
    """Server trusted: noise once, on the sum of the clipped messages."""

    serves = ("silo", "server")

    def n_releases(self, plan: PublicNumbers) -> int:
        return plan.n_rounds

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        if plan.shares_noise or plan.cohort != "poisson" or plan.silo_fraction >= 1:
            return super().composition(plan, z, n, levels)
        rate = plan.silo_fraction
        return compose((PoissonGaussian(level, rate), count) for level, count in levels)

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        std = float(plan.noise_multiplier[0] * plan.largest_weight) * plan.clip_norm
        return std * self._radius / plan.silo_fraction * plan.excess_of_shares

    def noised(self, plan: PublicNumbers, clip_norm: float, size: int) -> NoisedSum:
        most = plan.total_weight / plan.largest_weight  # in units of the largest weight
        return self._noised(plan, clip_norm, size, plan.n_silos, most)

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        if not self.n_extra:
            return kept
        clip = self.noised(plan, by.clip_norm, kept.shape[-1]).clip
        bits = self._bits(kept, clip)
        if not self.squared_norms:
            return np.hstack([kept, bits])
        return np.column_stack([kept, squared_norms(kept) / clip - clip, bits])

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        largest, width = plan.largest_weight, aggregate.total.size
        noised = self.noised(plan, aggregate.clip_norm, width - self.n_extra)
        units = keys.units_ahead("aggregate", range(round, plan.n_rounds), width, DOUBLE)
        return noised.added(aggregate.total / largest, units) * (largest / aggregate.divisor)

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        norm, clip = float("nan"), _kept_clip(clip_norm)
        if self.squared_norms:
            norm = within(clip * (float(extra[0]) + clip), clip_norm)
        return Statistics(norm, self._share(extra, clip))


def _kept_clip(clip_norm: float) -> float:
    """Return the reduced C, up to the grid's step and rounding, which do not matter here."""
    return clip_norm * (1 - NORMALS)


def within(estimate: float, clip_norm: float) -> float:
    """Clip an estimate of a mean squared norm to its range, which is post-processing."""
    return min(max(estimate, 0.0), clip_norm**2)


#: operations on a silo's sum: normaliser, weight, the grid's step, and one to spare
_OPERATIONS = 4


@dataclass(frozen=True)
class SharedGradients(ServerGradients):
    """Record unit: silos add weighted gradients and shares of the noise to a masked sum."""

    serves = ("record", "secagg")
    shared = True

    def check(self, plan: PublicNumbers) -> None:
        super().check(plan)
        _check_shares(plan)

    def errors_apart(self, plan: PublicNumbers) -> np.ndarray:
        return relative_error((_OPERATIONS, DOUBLE)) * plan.largest_batches * plan.clip_norm

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        # raise before the first round where a total does not fit
        self._shared(plan, plan.factor_range[0], int(plan.cohort_sizes.max()))
        return super().gradient_terms(plan, size, dtype)

    def noise_in(self, plan: PublicNumbers, round: int, among: int) -> SharedNoise:
        """Return each silo's share of the noise in a round with a given number of silos."""
        return self._shared(plan, float(plan.factors[round][0]), among)

    def _shared(self, plan: PublicNumbers, factor: float, among: int) -> SharedNoise:
        bound = float(plan.record_shares @ plan.largest_batches) * plan.clip_norm
        return shared_noise(self._std(plan) * factor, among, plan.colluding, bound)

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        noise = self.noise_in(plan, by.round, by.among)
        units = by.keys.units_block("share", by.silos, by.round, kept.shape[1:], DOUBLE)
        return noise.steps(kept * plan.weights[by.silos, None], units)

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        noise = self.noise_in(plan, round, aggregate.among)
        return noise.total(aggregate.total) / aggregate.divisor


@dataclass(frozen=True)
class SharedMessages(ServerMessages):
    """Whole silos: each adds its clipped message and a share of the noise to a masked sum."""

    serves = ("silo", "secagg")
    shared = True

    def check(self, plan: PublicNumbers) -> None:
        super().check(plan)
        _check_shares(plan)

    def n_releases(self, plan: PublicNumbers) -> int:
        return n_sums(plan)

    def noised(self, plan: PublicNumbers, clip_norm: float, size: int) -> NoisedSum:
        """Return a silo's noised sum, which has its clip norm, in units of the largest weight."""
        return self._noised(plan, clip_norm, size, _OPERATIONS, 1.0)

    def noise_in(self, plan: PublicNumbers, clip_norm: float, among: int) -> SharedNoise:
        """Return each silo's share of the noise in a round, in units of the largest weight."""
        std = float(plan.noise_multiplier[0]) * clip_norm * self._radius
        return shared_noise(std, among, plan.colluding, among * clip_norm * self._radius)

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        exact = super().send(plan, kept, by)
        noise = self.noise_in(plan, by.clip_norm, by.among)
        units = by.keys.units_block("share", by.silos, by.round, exact.shape[1:], DOUBLE)
        return noise.steps(exact * (plan.weights[by.silos, None] / plan.largest_weight), units)

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        noise = self.noise_in(plan, aggregate.clip_norm, aggregate.among)
        return noise.total(aggregate.total) * (plan.largest_weight / aggregate.divisor)


def _check_shares(plan: PublicNumbers) -> None:
    """Raise unless the noise of the sum is as priced, even without the colluding silos' shares."""
    if plan.colluding < 0 or plan.spare_rounds < 0:
        raise ValueError("colluding and spare_rounds must be 0 or more.")
    if plan.silo_fraction < 1 and plan.schedule is None:
        raise ValueError(
            'trust="secagg" reveals to the server which silos take part in a round, so a plan with '
            "silo_fraction below 1 needs a schedule."
        )
    check_honest(int(plan.cohort_sizes.min()), plan.colluding)
    normals = float(plan.n_silos) * (plan.size or 1) * (plan.n_rounds + plan.spare_rounds)
    if normals > MOST_NORMALS:
        raise ValueError(
            f"The fit draws {normals:.2g} noise values, more than the {MOST_NORMALS:.0g} that "
            "prices cover: use fewer rounds, or a smaller model."
        )
