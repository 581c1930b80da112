"""Random streams, one for each (purpose, silo, round), secret unless a seed is given.

::

    streams = streams_for(random_state)          None: cryptographic; an int: a simulation
    stream  = streams.stream("noise", silo=3, round=7)
    stream.units(shape)                          (*shape,) normals as integers on a grid
    streams.units_block("noise", silos, 7, shape)          (S, *shape), the streams' first draws

A stream depends on (seed or secret, purpose, silo, round) only, and its k-th draw depends on the
stream, k and the request. So ``n_jobs``, the order of silos and the stacking of draws never change
a number, and different purposes (noise, batches, schedule) never share one.

``random_state=None`` draws a secret from the operating system; numbers cannot be predicted or
repeated. An integer makes a *simulation*: anyone who knows it knows the noise. A NumPy generator
provides one integer for a simulation.

**Samples** of records have the distributions that are accounted for: a probability q is rounded to
T / 2^64, T = floor(2^64 q) (exact for every float64 q >= 2^-11, else at most 2^-64 too small), and
compared as ``word < T``. Uniform choices use rejection sampling.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from skdpfl.privacy.randomness.normals import floats, n_pieces, units, units_of_rounds
from skdpfl.privacy.randomness.words import (
    LIMIT,
    REFINED,
    MovedWords,
    Silos,
    SimulationWords,
    WordSource,
    secure_words,
)

#: count -> that many fresh words
Next = Callable[[int], np.ndarray]

#: up to this many records one word is drawn for each; beyond, one byte, and a word for ties
WORDS_UP_TO = 4096


def threshold(q: float) -> int:
    """Return floor(2^64 q) for q < 1."""
    return int(q * 2.0**64)


def poisson(n: int, q: float, next_words: Next) -> np.ndarray:
    """Return the sorted indices of a Poisson sample of ``n`` at probability q."""
    if q <= 0 or n == 0:
        return np.empty(0, np.intp)
    if q >= 1:
        return np.arange(n)
    if n <= WORDS_UP_TO:
        return np.flatnonzero(next_words(n) < np.uint64(threshold(q)))
    if q < 2**-6:
        return _by_gaps(n, q, next_words)
    return _by_bytes(n, threshold(q), next_words)


def _by_bytes(n: int, limit: int, next_words: Next) -> np.ndarray:
    """Compare first bytes, and 56 bits more for ties: same distribution as full 64-bit words."""
    chances = next_words((n + 7) // 8).view(np.uint8)[:n]
    first, rest = limit >> 56, limit & (1 << 56) - 1
    chosen = chances < np.uint8(first)
    ties = np.flatnonzero(chances == np.uint8(first))
    if len(ties):
        chosen[ties] = next_words(len(ties)) >> np.uint64(8) < np.uint64(rest)
    return np.flatnonzero(chosen)


def _by_gaps(n: int, q: float, next_words: Next) -> np.ndarray:
    """Draw geometric gaps between chosen records, exact to about 1e-15 in probability."""
    pieces, last = [], -1
    while last < n:
        expected = (n - last) * q
        words = next_words(int(expected + 6 * expected**0.5) + 16)
        # log of a uniform on (0, 1]; 2^-65 keeps it finite
        gaps = np.log(words * 2.0**-64 + 2.0**-65) / np.log1p(-q)
        # a gap beyond n ends the sample: clip it before it overflows
        steps = np.minimum(gaps, n).astype(np.int64) + 1
        pieces.append(last + steps.cumsum())
        last = int(pieces[-1][-1])
    indices = np.concatenate(pieces)
    return indices[: indices.searchsorted(n)]


def subset(n: int, b: int, next_words: Next) -> np.ndarray:
    """Return ``b`` of ``n`` indices, sorted, every subset equally likely."""
    if 8 * b >= n:
        return np.sort(np.argpartition(next_words(n), b - 1)[:b]) if 0 < b < n else np.arange(b)
    # the first b distinct values of a sequence of uniform indices
    chosen = np.empty(0, np.int64)
    while len(chosen) < b:
        chosen = np.concatenate([chosen, integers(n, b - len(chosen) + 8, next_words)])
        _, first = np.unique(chosen, return_index=True)
        chosen = chosen[np.sort(first)]
    return np.sort(chosen[:b])


def permutation(n: int, next_words: Next) -> np.ndarray:
    """Return a uniform permutation of 0..n-1 (two keys are equal with probability n^2 / 2^65)."""
    return np.argsort(next_words(n))


def integers(width: int, count: int, next_words: Next) -> np.ndarray:
    """Return ``count`` uniform integers on 0..width-1."""
    words = next_words(count)
    fair = (1 << 64) // width * width
    if fair < 1 << 64:
        while len(unfair := np.flatnonzero(words >= np.uint64(fair))):
            words[unfair] = next_words(len(unfair))
    return (words % np.uint64(width)).astype(np.int64)


def uniforms(words: np.ndarray) -> np.ndarray:
    """Return uniforms on [0, 1) from the first 53 bits of words."""
    return (words >> np.uint64(11)) * 2.0**-53


def below(words: np.ndarray, sizes: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return which of each silo's first ``sizes`` words (..., S, count) fall below its rate."""
    limits = [threshold(q) if q < 1 else 2**64 - 1 for q in rates.tolist()]
    chosen = words < np.array(limits, dtype=np.uint64)[:, None]
    if (rates == 1).any():
        chosen[..., rates == 1, :] = True
    if (sizes < words.shape[-1]).any():
        chosen &= np.arange(words.shape[-1]) < sizes[:, None]
    return chosen


def alike(sizes: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Yield (rows, width) whose draws are read at once, and (one row, 0) for a large silo."""
    small = np.flatnonzero((sizes > 0) & (sizes <= WORDS_UP_TO))
    powers = np.ceil(np.log2(np.maximum(sizes[small], 4))).astype(np.int64)
    for power in np.flatnonzero(np.bincount(powers)).tolist():
        rows = small[powers == power]
        width = int(sizes[rows].max())
        step = 1 << 20 - power
        for i in range(0, len(rows), step):
            yield rows[i : i + step], width
    for row in np.flatnonzero(sizes > WORDS_UP_TO):
        yield np.array([row]), 0


#: so many numbers are drawn ahead
_NUMBERS_AHEAD = 1 << 12
Shape = int | tuple[int, ...]


class Stream:
    """The random numbers of one (purpose, silo, round), drawn one after the other."""

    __slots__ = ("_draws", "_purpose", "_round", "_silo", "_source")

    def __init__(self, source: WordSource, purpose: str, silo: int, round: int) -> None:
        _check_address(silo, round)
        self._source, self._purpose, self._silo, self._round = source, purpose, silo, round
        self._draws = 0

    def words(self, count: int) -> np.ndarray:
        """Return the next ``count`` uniform 64-bit words."""
        draw = self._next(1)
        return self._source.words(self._purpose, (self._silo,), self._round, draw, count)[0]

    def random(self, shape: Shape = ()) -> np.ndarray:
        """Return uniforms on [0, 1), multiples of 2^-53."""
        shape = _as_shape(shape)
        return uniforms(self.words(math.prod(shape))).reshape(shape)

    def units(self, shape: Shape = (), dtype: DTypeLike = np.float32) -> np.ndarray:
        """Return standard normals as integers, to be released in ``dtype``.

        For float32: int32 in units of 2^-20. For float64: int64 in units of 2^-36.
        """
        shape = _as_shape(shape)
        draw = self._next(n_pieces(math.prod(shape)))
        address = self._source, self._purpose, (self._silo,), self._round, draw
        return units(*address, math.prod(shape), np.dtype(dtype)).reshape(shape)

    def normal(self, shape: Shape = (), dtype: DTypeLike = np.float64) -> np.ndarray:
        """Return standard normals: :meth:`units` as floats."""
        return floats(self.units(shape, dtype), np.dtype(dtype))

    def poisson_sample(self, n: int, q: float) -> np.ndarray:
        """Return the sorted indices of a Poisson sample: each of ``n``, with probability ``q``."""
        return poisson(n, float(q), self.words)

    def subset(self, n: int, b: int) -> np.ndarray:
        """Return ``b`` of ``n`` indices, sorted, every subset equally likely."""
        return subset(n, b, self.words)

    def permutation(self, n: int) -> np.ndarray:
        """Return a uniform permutation of 0..n-1."""
        return permutation(n, self.words)

    def integers(self, low: int, high: int, size: Shape = ()) -> np.ndarray:
        """Return uniform integers from ``low`` to ``high`` - 1, int64."""
        size = _as_shape(size)
        return (low + integers(high - low, math.prod(size), self.words)).reshape(size)

    def _next(self, count: int) -> int:
        """Reserve the next ``count`` draws; return the number of the first."""
        draw = self._draws
        self._draws += count
        if self._draws > REFINED:
            raise OverflowError(
                f"A stream gives at most {REFINED} draws; use a stream for each round or purpose."
            )
        return draw


class Streams:
    """All streams of one fit. Made by :func:`streams_for`."""

    def __init__(self, source: WordSource) -> None:
        self._source = source
        #: what was drawn ahead: rounds and their units
        self._ahead: dict[tuple[str, int, np.dtype], tuple[range, np.ndarray]] = {}
        self._claimed: set[str] = set()

    def claim(self, user: str) -> None:
        """Register the user of these streams; raise for a second fit, which would repeat the noise.

        Two fits with the same noise together have no privacy. Simulations repeat their noise
        anyway.
        """
        if user in self._claimed and not self.is_simulation:
            raise ValueError(
                f"Secret random streams are for one fit: a second one of {user} would add the same "
                "noise again. Make new ones, streams_for(None)."
            )
        self._claimed.add(user)

    @property
    def seed(self) -> int | None:
        """The simulation's seed; None when the numbers are secret."""
        return self._source.seed

    @property
    def is_simulation(self) -> bool:
        """Whether the numbers follow from a seed, which others could know."""
        return self.seed is not None

    def of_silo(self, silo: int) -> Streams:
        """Return streams in which this silo is number 0, for a silo that runs alone."""
        return Streams(MovedWords(self._source, silo))

    def stream(self, purpose: str, silo: int = 0, round: int = 0) -> Stream:
        """Return a new stream."""
        return Stream(self._source, purpose, silo, round)

    def units_block(
        self, purpose: str, silos: Silos, round: int, shape: Shape, dtype: DTypeLike = np.float32
    ) -> np.ndarray:
        """Return (len(silos), *shape): the :meth:`Stream.units` of all silos' fresh streams."""
        return self.units_blocks(purpose, silos, range(round, round + 1), shape, dtype)[0]

    def units_blocks(
        self, purpose: str, silos: Silos, rounds: range, shape: Shape, dtype: DTypeLike = np.float32
    ) -> np.ndarray:
        """Return (len(rounds), len(silos), *shape): the :meth:`units_block` of several rounds."""
        who, shape = _as_silos(silos, max(rounds)), _as_shape(shape)
        n, dtype = math.prod(shape), np.dtype(dtype)
        blocks = units_of_rounds(self._source, purpose, who, rounds, n, dtype)
        return blocks.reshape(len(rounds), len(who), *shape)

    def units_ahead(self, purpose: str, rounds: range, n: int, dtype: np.dtype) -> np.ndarray:
        """Return the (n,) :meth:`Stream.units` of the first round's fresh stream.

        Those of the next rounds are drawn at the same time, since a draw of few numbers takes as
        long as one of many. Addressing makes the numbers the same as in separate draws.
        """
        key, first = (purpose, n, dtype), rounds.start
        ahead, block = self._ahead.get(key, (range(0), np.empty(0)))
        if first not in ahead:
            ahead = rounds[: max(1, _NUMBERS_AHEAD // max(1, n))]
            block = self.units_blocks(purpose, (0,), ahead, n, dtype)[:, 0]
            self._ahead[key] = ahead, block
        return block[first - ahead.start]

    def normal_block(
        self, purpose: str, silos: Silos, round: int, shape: Shape, dtype: DTypeLike = np.float64
    ) -> np.ndarray:
        """Return (len(silos), *shape): the normals of all silos' fresh streams."""
        return floats(self.units_block(purpose, silos, round, shape, dtype), np.dtype(dtype))

    def uniform_block(self, purpose: str, silos: Silos, round: int, shape: Shape) -> np.ndarray:
        """Return (len(silos), *shape): the uniforms of all silos' fresh streams."""
        who, shape = _as_silos(silos, round), _as_shape(shape)
        words = self._source.words(purpose, who, round, 0, math.prod(shape))
        return uniforms(words).reshape(len(who), *shape)

    def poisson_mask_blocks(
        self,
        purpose: str,
        silos: Silos,
        rounds: range,
        n_max: int,
        sizes: ArrayLike,
        rates: ArrayLike,
    ) -> np.ndarray:
        """Return (len(rounds), len(silos), n_max) booleans: which records Poisson samples hold.

        Row (r, s) marks ``stream(purpose, silos[s], r).poisson_sample(sizes[s], rates[s])``.
        """
        who = _as_silos(silos, max(rounds))
        lengths = np.broadcast_to(np.asarray(sizes, dtype=np.int64), len(who))
        chances = np.broadcast_to(np.asarray(rates, dtype=np.float64), len(who))
        mask = np.zeros((len(rounds), len(who), n_max), bool)
        for rows, width in alike(lengths):
            if width:
                words = self._source.words_of_rounds(purpose, who[rows], rounds, width)
                block = below(words, lengths[rows], chances[rows])
                if block.shape == mask.shape:
                    return block
                mask[:, rows, :width] = block
                continue
            for marked, round in zip(mask[:, rows[0]], rounds, strict=True):
                large = self.stream(purpose, int(who[rows[0]]), round)
                marked[large.poisson_sample(int(lengths[rows[0]]), chances[rows[0]])] = True
        return mask


def streams_for(random_state: object) -> Streams:
    """Return the streams of a scikit-learn ``random_state``.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        None: cryptographic streams under a fresh secret. An int of 0 or more: a simulation that
        repeats exactly. A NumPy generator: a simulation from one integer drawn from it.
    """
    if random_state is None:
        return Streams(secure_words())
    if isinstance(random_state, np.random.RandomState):
        return Streams(SimulationWords(int(random_state.randint(0, 2**63, dtype=np.int64))))
    if isinstance(random_state, np.random.Generator):
        return Streams(SimulationWords(int(random_state.integers(0, 2**63))))
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return Streams(SimulationWords(int(random_state)))
    raise ValueError(
        "random_state must be None, an integer of 0 or more, a numpy RandomState or Generator, "
        f"got {random_state!r}."
    )


def _as_shape(shape: Shape) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (int(shape),)


def _as_silos(silos: Silos, round: int) -> np.ndarray:
    who = np.asarray(silos, dtype=np.int64)
    for silo in (who.min(), who.max()) if len(who) else ():
        _check_address(int(silo), round)
    return who


def _check_address(silo: int, round: int) -> None:
    if not 0 <= silo < LIMIT:
        raise ValueError(f"silo must lie in [0, 2^32), got {silo!r}.")
    if not 0 <= round < LIMIT:
        raise ValueError(f"round must lie in [0, 2^32), got {round!r}.")
