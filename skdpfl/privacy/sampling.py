"""Sampling of the records of a step, and of the silos of a round.

One object draws and prices: a sampling's ``draw`` and its ``composition`` read the same rate. ``n``
is a silo's number of records (public), ``z`` the noise multiplier of a step.

    sampling            a step's batch                  normaliser     pays for T steps
    Everyone            all n records                   n              T Gaussian(z)
    PoissonSampling(q)  each with probability q         q n            T PoissonGaussian(z, q)
    WithoutReplacement  b = max(1, round(q n)) of n     b              T FixedSizeGaussian(z, b / n)
    WithReplacement     b = max(1, round(q n)) draws    b              T WithReplacementGaussian(z)
    Disjoint(T)         the t-th of T equal parts       floor(n / T)   1 Gaussian(smallest z)
    Halving(k, T)       all of the phase's part         first part's   longest phase Gaussian(z)

The normaliser is public: never the size that was realised, which stays secret under Poisson.

The silos of a round (its cohort) are drawn from a stream of their own, before any data are read::

    cohort      a round's silos                                            a silo's rounds
    balanced    without replacement: equal numbers of rounds, up to one    T m / M
    uniform     m = max(1, round(l M)) of M, independent each round        Binomial(T, m / M)
    poisson     each with probability l, independent; may be empty         Binomial(T, l)

Under unit="record" the schedule may be public and each silo pays for the rounds it is in. Under
unit="silo" it is secret: it is drawn inside the run and never returned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skdpfl.privacy import events
from skdpfl.privacy.randomness.streams import Stream

#: (noise multiplier, how many steps had it)
Levels = Sequence[tuple[float, int]]


@dataclass(frozen=True)
class Sampling:
    """How the records of a step are drawn. Subclasses are frozen and picklable."""

    def expected_size(self, n: int) -> float:
        """Return the public normaliser of a step's sum."""
        raise NotImplementedError

    def largest_batch(self, n: int) -> int:
        """Return the largest batch of a silo of ``n`` records."""
        return int(self.expected_size(n))

    def draw(self, stream: Stream, n: int, n_steps: int) -> list[np.ndarray | slice]:
        """Draw the batches of ``n_steps`` consecutive steps, as indices into the silo's rows."""
        raise TypeError("Parts are drawn once for the whole fit: use deal().")

    def composition(self, n: int, levels: Levels) -> events.Composition:
        """Return the releases of a silo of ``n`` records over all its steps."""
        raise NotImplementedError


@dataclass(frozen=True)
class Everyone(Sampling):
    """Every record takes part in every step."""

    def expected_size(self, n: int) -> float:
        return float(n)

    def draw(self, stream: Stream, n: int, n_steps: int) -> list[np.ndarray | slice]:
        return [slice(0, n)] * n_steps

    def composition(self, n: int, levels: Levels) -> events.Composition:
        return events.compose((events.Gaussian(z), count) for z, count in levels)


@dataclass(frozen=True)
class PoissonSampling(Sampling):
    """Each record takes part in each step independently with probability ``rate``.

    A batch of more than ``largest_batch`` records is truncated to it. By Bernstein's inequality one
    such batch has a probability below 2^-100, whatever the records are: that is the total variation
    between this sampling and the ideal one, and far below any delta.
    """

    rate: float

    def expected_size(self, n: int) -> float:
        return self.rate * n

    def largest_batch(self, n: int) -> int:
        tail, variance = 100 * np.log(2), n * self.rate * (1 - self.rate)
        above = tail / 3 + np.sqrt(tail**2 / 9 + 2 * variance * tail)
        return min(n, int(np.ceil(n * self.rate + above)))

    def draw(self, stream: Stream, n: int, n_steps: int) -> list[np.ndarray | slice]:
        most = self.largest_batch(n)
        return [stream.poisson_sample(n, self.rate)[:most] for _ in range(n_steps)]

    def composition(self, n: int, levels: Levels) -> events.Composition:
        return events.compose((events.PoissonGaussian(z, self.rate), count) for z, count in levels)


@dataclass(frozen=True)
class _FixedSize(Sampling):
    """Batches of fixed size, fresh in each step. Priced under replace-one only."""

    rate: float

    def batch_size(self, n: int) -> int:
        """Return b = max(1, round(rate n)), the same for each step."""
        return min(n, max(1, round(self.rate * n)))

    def expected_size(self, n: int) -> float:
        return float(self.batch_size(n))


@dataclass(frozen=True)
class WithoutReplacement(_FixedSize):
    """A uniform batch of fixed size, fresh in each step. Priced under replace-one only."""

    def draw(self, stream: Stream, n: int, n_steps: int) -> list[np.ndarray | slice]:
        size = self.batch_size(n)
        return [stream.subset(n, size) for _ in range(n_steps)]

    def composition(self, n: int, levels: Levels) -> events.Composition:
        rate = self.batch_size(n) / n
        return events.compose((events.FixedSizeGaussian(z, rate), count) for z, count in levels)


@dataclass(frozen=True)
class WithReplacement(_FixedSize):
    """Independent uniform draws, fresh in each step: a record may be drawn more than once.

    A record that is drawn k times moves the sum k times as far, so this costs more than a batch
    without replacement; the proof is in :mod:`skdpfl.privacy.pricing.loss_pairs`. Priced under
    replace-one only.
    """

    def draw(self, stream: Stream, n: int, n_steps: int) -> list[np.ndarray | slice]:
        size = self.batch_size(n)
        return [np.sort(stream.integers(0, n, (size,))) for _ in range(n_steps)]

    def composition(self, n: int, levels: Levels) -> events.Composition:
        size = self.batch_size(n)
        return events.compose(
            (events.WithReplacementGaussian(z, size / n, size), count) for z, count in levels
        )


@dataclass(frozen=True)
class Disjoint(Sampling):
    """One pass: the records are split once, at random, into ``n_parts`` equal parts.

    Formal guarantee
    ----------------
    The map record -> part is drawn without looking at the data, so, given it, one record enters
    one step only and every other step's output (conditional on the earlier ones) has the same law
    under both neighbours: parallel composition, the price of the one step the record is in. Over
    unequal noise levels the smallest multiplier is charged, since the record may be anywhere.
    """

    n_parts: int

    def part_size(self, n: int) -> int:
        """Return floor(n / n_parts); the remainder is left out, whatever its values."""
        return n // self.n_parts

    def expected_size(self, n: int) -> float:
        return float(self.part_size(n))

    def deal(self, stream: Stream, n: int) -> np.ndarray:
        """Return the parts as an index array of shape (n_parts, part_size)."""
        size = self.part_size(n)
        return stream.permutation(n)[: size * self.n_parts].reshape(self.n_parts, size)

    def composition(self, n: int, levels: Levels) -> events.Composition:
        present = [z for z, count in levels if count]
        return events.compose([(events.Gaussian(min(present)), 1)] if present else [])


@dataclass(frozen=True)
class Halving(Sampling):
    """Phases on disjoint parts of the records, each half as large as the one before.

    The ``n_steps`` steps fall into ``n_phases`` phases of equal length, the last one with what
    remains. A phase reads all of its part in every step. The normaliser is the first part's size.

    Formal guarantee
    ----------------
    A record pays for the longest phase only: its steps, each a sum over the whole part.

    *Proof.* The records are split once, at random, without looking at the data, so condition on the
    split (divergences are jointly convex). The replaced record is in one part or in none. In every
    step of another phase the output given the earlier ones has the same law under both neighbours;
    in the steps of its own phase it is a Gaussian release of a sum that moves by at most twice the
    clip norm, chosen by earlier outputs. Adaptive composition prices those; no phase has more of
    them than the longest one, and with unequal noise the smallest multiplier is charged. A silo
    that answers fewer steps than there are pays for no more than it answers; further releases
    (spare rounds) may all be in one phase and are added.
    """

    n_phases: int
    n_steps: int

    @property
    def starts(self) -> np.ndarray:
        """The first step of each phase."""
        return np.arange(self.n_phases) * (self.n_steps // self.n_phases)

    @property
    def longest(self) -> int:
        """The number of steps of the longest phase, the last one."""
        return self.n_steps - int(self.starts[-1])

    def expected_size(self, n: int) -> float:
        return float((n >> self.n_phases) << (self.n_phases - 1))

    def deal(self, stream: Stream, n: int) -> np.ndarray:
        """Return the parts as an index array of 2^k - 1 rows; see :meth:`part`."""
        unit, count = n >> self.n_phases, (1 << self.n_phases) - 1
        return stream.permutation(n)[: unit * count].reshape(count, unit)

    def part(self, dealt: np.ndarray, step: int) -> np.ndarray:
        """Return the records of a step: half, a quarter, ... of the rows of :meth:`deal`."""
        phase = min(step // (self.n_steps // self.n_phases), self.n_phases - 1)
        last = (1 << self.n_phases) - (1 << (self.n_phases - 1 - phase))
        first = last - (1 << (self.n_phases - 1 - phase))
        return dealt[first:last].ravel()

    def composition(self, n: int, levels: Levels) -> events.Composition:
        present = [(z, count) for z, count in levels if count]
        total = sum(count for _, count in present)
        most = min(total, self.longest + max(0, total - self.n_steps))
        return events.compose(
            [(events.Gaussian(min(z for z, _ in present)), most)] if present else []
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
