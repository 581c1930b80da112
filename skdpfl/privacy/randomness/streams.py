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
"""

from __future__ import annotations

import math
import numbers

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from skdpfl.privacy.randomness import draws as _draws
from skdpfl.privacy.randomness import samples as _sampling
from skdpfl.privacy.randomness.secure import secure_words
from skdpfl.privacy.randomness.words import (
    LIMIT,
    REFINED,
    MovedWords,
    Silos,
    SimulationWords,
    WordSource,
)

#: so many numbers are drawn ahead
_AHEAD = 1 << 12
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
        return _draws.uniforms(self.words(math.prod(shape))).reshape(shape)

    def units(self, shape: Shape = (), dtype: DTypeLike = np.float32) -> np.ndarray:
        """Return standard normals as integers, to be released in ``dtype``.

        For float32: int32 in units of 2^-20. For float64: int64 in units of 2^-36.
        """
        shape = _as_shape(shape)
        draw = self._next(_draws.n_pieces(math.prod(shape)))
        address = self._source, self._purpose, (self._silo,), self._round, draw
        return _draws.units(*address, math.prod(shape), np.dtype(dtype)).reshape(shape)

    def normal(self, shape: Shape = (), dtype: DTypeLike = np.float64) -> np.ndarray:
        """Return standard normals: :meth:`units` as floats."""
        return _draws.floats(self.units(shape, dtype), np.dtype(dtype))

    def poisson_sample(self, n: int, q: float) -> np.ndarray:
        """Return the sorted indices of a Poisson sample: each of ``n``, with probability ``q``."""
        _check_sample(n, 0)
        if not 0 <= q <= 1:
            raise ValueError(f"q must lie in [0, 1], got {q!r}.")
        return _sampling.poisson(n, float(q), self.words)

    def subset(self, n: int, b: int) -> np.ndarray:
        """Return ``b`` of ``n`` indices, sorted, every subset equally likely."""
        _check_sample(n, b)
        return _sampling.subset(n, b, self.words)

    def permutation(self, n: int) -> np.ndarray:
        """Return a uniform permutation of 0..n-1."""
        _check_sample(n, 0)
        return _sampling.permutation(n, self.words)

    def integers(self, low: int, high: int, size: Shape = ()) -> np.ndarray:
        """Return uniform integers from ``low`` to ``high`` - 1, int64."""
        if not 0 < high - low < 1 << 63:
            raise ValueError(f"high must lie above low, got low={low!r}, high={high!r}.")
        size = _as_shape(size)
        return (low + _sampling.integers(high - low, math.prod(size), self.words)).reshape(size)

    def _next(self, count: int) -> int:
        """Reserve the next ``count`` draws; return the number of the first."""
        draw = self._draws
        self._draws += count
        if self._draws > REFINED:
            raise OverflowError(f"A stream gives {REFINED} draws; take one for each round or use.")
        return draw


class Streams:
    """All streams of one fit. Made by :func:`streams_for`."""

    def __init__(self, source: WordSource) -> None:
        self._source = source
        #: what was drawn ahead: rounds and their units
        self._ahead: dict[tuple[str, int, np.dtype], tuple[range, np.ndarray]] = {}
        self._claimed: set[str] = set()

    def claim(self, user: str) -> None:
        """Note whose noise these are; raise for a second fit, which would draw the same again.

        Two fits with one noise have no privacy together. A simulation repeats its noise anyway.
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
        return getattr(self._source, "seed", None)

    @property
    def is_simulation(self) -> bool:
        """Whether the numbers follow from a seed, which others could know."""
        return self.seed is not None

    def of_silo(self, silo: int) -> Streams:
        """Return the streams in which this silo is number 0: for one that knows no other."""
        return Streams(MovedWords(self._source, silo))

    def stream(self, purpose: str, silo: int = 0, round: int = 0) -> Stream:
        """Return a new stream."""
        return Stream(self._source, purpose, silo, round)

    def units_block(
        self, purpose: str, silos: Silos, round: int, shape: Shape, dtype: DTypeLike = np.float32
    ) -> np.ndarray:
        """Return (len(silos), *shape): the :meth:`Stream.units` of all silos' fresh streams."""
        who, shape = _as_silos(silos, round), _as_shape(shape)
        n, dtype = math.prod(shape), np.dtype(dtype)
        return _draws.units(self._source, purpose, who, round, 0, n, dtype).reshape(
            len(who), *shape
        )

    def units_blocks(
        self, purpose: str, silos: Silos, rounds: range, shape: Shape, dtype: DTypeLike = np.float32
    ) -> np.ndarray:
        """Return (len(rounds), len(silos), *shape): the :meth:`units_block` of several rounds."""
        who, shape = _as_silos(silos, max(rounds)), _as_shape(shape)
        n, dtype = math.prod(shape), np.dtype(dtype)
        blocks = _draws.units_of_rounds(self._source, purpose, who, rounds, n, dtype)
        return blocks.reshape(len(rounds), len(who), *shape)

    def units_ahead(self, purpose: str, rounds: range, n: int, dtype: np.dtype) -> np.ndarray:
        """Return the (n,) :meth:`Stream.units` of the first round's fresh stream.

        Those of the next rounds are drawn with them, as one draw of few numbers costs as much as
        one of many. Addresses make them what they would have been.
        """
        key, first = (purpose, n, dtype), rounds.start
        drawn, block = self._ahead.get(key, (range(0), np.empty(0)))
        if first not in drawn:
            drawn = rounds[: max(1, _AHEAD // max(1, n))]
            block = self.units_blocks(purpose, (0,), drawn, n, dtype)[:, 0]
            self._ahead[key] = drawn, block
        return block[first - drawn.start]

    def normal_block(
        self, purpose: str, silos: Silos, round: int, shape: Shape, dtype: DTypeLike = np.float64
    ) -> np.ndarray:
        """Return (len(silos), *shape): the normals of all silos' fresh streams."""
        return _draws.floats(self.units_block(purpose, silos, round, shape, dtype), np.dtype(dtype))

    def uniform_block(self, purpose: str, silos: Silos, round: int, shape: Shape) -> np.ndarray:
        """Return (len(silos), *shape): the uniforms of all silos' fresh streams."""
        who, shape = _as_silos(silos, round), _as_shape(shape)
        words = self._source.words(purpose, who, round, 0, math.prod(shape))
        return _draws.uniforms(words).reshape(len(who), *shape)

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
        if len(who) and (lengths.min() < 0 or lengths.max() > n_max):
            raise ValueError(f"sizes must lie in [0, n_max={n_max}], got {sizes!r}.")
        if not np.all((chances >= 0) & (chances <= 1)):
            raise ValueError(f"rates must lie in [0, 1], got {rates!r}.")
        mask = np.zeros((len(rounds), len(who), n_max), bool)
        for rows, width in _draws.alike(lengths):
            if width:
                words = self._source.words_of_rounds(purpose, who[rows], rounds, width)
                mask[:, rows, :width] = _draws.below(words, lengths[rows], chances[rows])
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


def _check_sample(n: int, b: int) -> None:
    if n < 0:
        raise ValueError(f"n must be 0 or more, got {n!r}.")
    if not 0 <= b <= n:
        raise ValueError(f"b must lie in [0, n={n}], got {b!r}.")
