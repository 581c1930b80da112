"""Random 64-bit words, each a function of the seed, or of a secret, and an address.

An address is (purpose, silo, round, draw) and a place j inside the draw::

    words(purpose, silos, round, draw, count)[s, j] = F_key(purpose)(silos[s], round, draw, j)

There is no state between calls, so the order of calls, the number of threads and the grouping of
silos never change a number. Two properties hold for every source:

* a shorter draw is the beginning of a longer one if both lie on the same side of ``SMALL_DRAW``
  words and have the same :func:`bucket` size;
* different addresses give independent words (here from a keyed Philox, or SFC64 states that it
  fills; from a cipher or a hash in the two secret sources).

**Secret words** cannot be predicted without the secret, which never leaves its object:

* ``AesWords``: AES-256 in counter mode, key = BLAKE2b(secret; purpose), counter block
  (silo, round, draw, j + 2), 32 bits each, big-endian. Needs the package ``cryptography``.
  j + 2, because Galois/counter mode counts so from an initial value (silo, round, draw): its
  ciphertext of zeros is the same counter mode, and OpenSSL computes it twice as fast.
* ``ShakeWords``: SHAKE-256 of (secret, purpose, silo, round, draw), from the standard library;
  up to thirty times slower.

Formal guarantee. The secret is 32 bytes from the operating system. AES-256 is assumed to be a
pseudo-random permutation, and no two of its inputs coincide. So the advantage in distinguishing B
blocks from uniform ones is at most that against AES plus B^2 / 2^129: below 1e-12 for 2^44 blocks
(280 TB of noise). SHAKE-256 with a secret prefix of fixed length is a pseudo-random function with
256-bit security in the sponge model.
"""

import hashlib
import os
import secrets
import struct
import threading
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, starmap
from typing import Any, NoReturn

import numpy as np

from skdpfl._compiled import noise as compiled

#: draws of at most this many words are read for many silos at once
SMALL_DRAW = 1024
#: silos and rounds fit 32 bits; draws 24, the upper half of them for rare refinements
LIMIT = 1 << 32
REFINED = 1 << 23

_CHUNK = 1 << 13

Silos = Sequence[int] | np.ndarray
Words = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


class WorkSpace(threading.local):
    """This thread's buffer: allocating memory takes longer than filling it."""

    def __init__(self, dtype: type = np.uint64) -> None:
        self._buffer: np.ndarray = np.empty(0, dtype)

    def rows(self, n: int, width: int) -> np.ndarray:
        """Return (n, width) numbers of arbitrary value, overwritten by the next call."""
        if len(self._buffer) < n * width:
            self._buffer = np.empty(n * width, self._buffer.dtype)
        return self._buffer[: n * width].reshape(n, width)


class WordSource:
    """Random words by address; see the module's docstring."""

    #: the seed of a simulation
    seed: int | None = None

    def words(
        self, purpose: str, silos: Silos, round: int, draw: int, count: int, scratch: bool = False
    ) -> Words:
        """Return (len(silos), count) words; each row is contiguous.

        With ``scratch`` they may be overwritten by this thread's next such call.
        """
        raise NotImplementedError

    def words_of_rounds(
        self, purpose: str, silos: np.ndarray, rounds: range, count: int
    ) -> np.ndarray:
        """Return (len(rounds), len(silos), count) words: the first draws of several rounds."""
        words = np.empty((len(rounds), len(silos), count), np.uint64)
        for block, round in zip(words, rounds, strict=True):
            block[...] = self.words(purpose, silos, round, 0, count, scratch=True)
        return words

    def words_at(
        self, purpose: str, silos: np.ndarray, rounds: np.ndarray, draw: int, count: int
    ) -> Words:
        """Return (len(silos), count) words, of each silo in its own of the ``rounds``, rising."""
        words = np.empty((len(silos), count), np.uint64)
        new = np.flatnonzero(rounds[1:] != rounds[:-1]) + 1
        ends = [0, *new.tolist(), len(rounds)]
        for some in starmap(slice, pairwise(ends)):
            round = int(rounds[some.start])
            words[some] = self.words(purpose, silos[some], round, draw, count, scratch=True)
        return words


def bucket(count: int) -> int:
    """Return the block size for ``count`` words, a power of two of at least 4."""
    return max(4, 1 << (int(count) - 1).bit_length())


class _Restarted(threading.local):
    """This thread's bit generators, each with the state that restarts it.

    Making one takes as long as reading a thousand words.
    """

    def __init__(self) -> None:
        philox, sfc = np.random.Philox(0), np.random.SFC64(0)
        inner = np.ones(4, np.uint64)
        state: Any = philox.state
        # an empty buffer: the next word opens the block after the counter
        state |= {"buffer": [0] * 4, "buffer_pos": 4, "has_uint32": 0, "uinteger": 0}
        self.philox = philox, state
        state = sfc.state | {"has_uint32": 0, "uinteger": 0}
        state["state"]["state"] = inner
        self.sfc = sfc, state, inner


_restarted = _Restarted()


class SimulationWords(WordSource):
    """Words that follow from an integer seed: statistically sound, not cryptographic.

    Short draws are Philox blocks with counter (silo * blocks + j, draw, round, log2 blocks), so
    that silos with consecutive numbers are consecutive in the counter and are read at once.
    Long draws are SFC64 (twice as fast), whose state is one separate Philox block.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._keys: dict[str, tuple[int, ...]] = {}
        self._work = WorkSpace()

    def __reduce__(self) -> tuple[Any, ...]:
        return SimulationWords, (self.seed,)

    def words(
        self, purpose: str, silos: Silos, round: int, draw: int, count: int, scratch: bool = False
    ) -> Words:
        if count <= SMALL_DRAW:
            return self._short(purpose, silos, round, draw, bucket(count))[:, :count]
        states = self._short(purpose, silos, round, draw, 2 * SMALL_DRAW)
        shape = len(silos), count
        rows = self._work.rows(*shape) if scratch else np.empty(shape, np.uint64)
        if compiled is not None:
            compiled.words(states, rows)
            return rows
        for row, state in zip(rows, states, strict=True):
            self._long(state, row)
        return rows

    def words_of_rounds(
        self, purpose: str, silos: np.ndarray, rounds: range, count: int
    ) -> np.ndarray:
        if count > SMALL_DRAW:
            return super().words_of_rounds(purpose, silos, rounds, count)
        size = bucket(count)
        domain, blocks, draw = size.bit_length(), size // 4, partial(self._philox, purpose)
        if (silos[1:] == silos[:-1] + 1).all():  # one run, in order
            first, n = int(silos[0]) * blocks, len(silos) * size
            each = [draw(first, 0, round, domain, n) for round in rounds]
            return np.concatenate(each).reshape(len(rounds), len(silos), size)[..., :count]
        words = np.empty((len(rounds), len(silos), count), np.uint64)
        for part in _runs(silos, size):
            low, high = int(silos[part].min()), int(silos[part].max()) + 1
            some, first, places = words[:, part], low * blocks, silos[part] - low
            for block, round in zip(some, rounds, strict=True):
                flat = draw(first, 0, round, domain, (high - low) * size)
                flat.reshape(-1, size)[:, :count].take(places, axis=0, out=block, mode="clip")
        return words

    def words_at(
        self, purpose: str, silos: np.ndarray, rounds: np.ndarray, draw: int, count: int
    ) -> Words:
        size, each_round = bucket(count), 1 + np.count_nonzero(rounds[1:] != rounds[:-1])
        if size > SMALL_DRAW or len(silos) > 2 * each_round:  # those of a round are read at once
            return super().words_at(purpose, silos, rounds, draw, count)
        blocks, domain, read = size // 4, size.bit_length(), partial(self._philox, purpose)
        each = zip(silos.tolist(), rounds.tolist(), strict=True)
        return np.array([read(i * blocks, draw, round, domain, count) for i, round in each])

    def _short(self, purpose: str, silos: Any, round: Any, draw: int, size: int) -> Words:
        """Read ``size`` Philox words for each silo; one above SMALL_DRAW means an SFC64 state."""
        width = size if size <= SMALL_DRAW else 4
        blocks = width // 4
        domain = size.bit_length()
        silos = np.asarray(silos, dtype=np.int64)
        if len(silos) == 1 or (silos[1:] == silos[:-1] + 1).all():  # one run, in order
            start = int(silos[0]) * blocks
            flat = self._philox(purpose, start, draw, round, domain, len(silos) * width)
            return flat.reshape(-1, width)
        rows = np.empty((len(silos), width), np.uint64)
        for part in _runs(silos, width):
            low, high = int(silos[part].min()), int(silos[part].max()) + 1
            flat = self._philox(purpose, low * blocks, draw, round, domain, (high - low) * width)
            rows[part] = flat.reshape(-1, width)[silos[part] - low]
        return rows

    def _philox(
        self, purpose: str, block: int, draw: int, round: Any, domain: int, count: int
    ) -> np.ndarray:
        """Return ``count`` words of the Philox whose counter starts at the given address."""
        generator, state = _restarted.philox
        # plain integers, which are read in half the time
        state["state"] = {"counter": (block, draw, round, domain), "key": self._key(purpose)}
        generator.state = state
        return generator.random_raw(count)

    def _long(self, words: np.ndarray, out: np.ndarray) -> None:
        """Fill ``out`` from SFC64 started from a state of 192 random bits."""
        generator = self._seeded(words)
        # in pieces, whose memory the allocator reuses
        for start in range(0, len(out), _CHUNK):
            piece = out[start : start + _CHUNK]
            piece[:] = generator.random_raw(len(piece))

    def _seeded(self, words: np.ndarray) -> np.random.SFC64:
        """Return this thread's SFC64, started from a state of 192 random bits."""
        generator, state, inner = _restarted.sfc
        inner[:3] = words[:3]
        generator.state = state
        return generator

    def _key(self, purpose: str) -> tuple[int, ...]:
        """Return the Philox key of a purpose: 128 bits of a hash of the seed and the purpose."""
        if purpose not in self._keys:
            text = f"skdpfl simulation {self.seed} {purpose}".encode()
            digest = hashlib.blake2b(text, digest_size=16).digest()
            self._keys[purpose] = struct.unpack("<2Q", digest)
        return self._keys[purpose]


def _runs(silos: np.ndarray, size: int) -> list[slice]:
    """Split silo numbers into runs that are read at once, with what lies in their gaps.

    Of few silos, gaps may be as long as what is read in the time that another call takes.
    """
    longest = max(8, 2048 // size) if len(silos) <= 4096 else 8
    cuts = np.flatnonzero(np.abs(silos[1:] - silos[:-1]) > longest) + 1
    edges = [0, *cuts.tolist(), len(silos)]
    return [slice(a, b) for a, b in pairwise(edges)]


class MovedWords(WordSource):
    """The words of a source, silos counted from ``first`` on."""

    def __init__(self, source: WordSource, first: int) -> None:
        self._source, self._first, self.seed = source, first, source.seed

    def words(
        self, purpose: str, silos: Silos, round: int, draw: int, count: int, scratch: bool = False
    ) -> Words:
        moved = np.asarray(silos, np.int64) + self._first
        return self._source.words(purpose, moved, round, draw, count, scratch)

    def words_of_rounds(
        self, purpose: str, silos: np.ndarray, rounds: range, count: int
    ) -> np.ndarray:
        return self._source.words_of_rounds(purpose, silos + self._first, rounds, count)


try:
    from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
except ImportError:  # the extra [secure] is not installed
    Cipher = None
else:
    if not hasattr(CipherContext, "reset_nonce"):  # older than the extra asks for
        Cipher = None

#: stacks of draws up to this many words go through the cipher in one call
_STACKED = 256
#: longer draws go through Galois/counter mode
_LONG_DRAW = 2048
_ZEROS = memoryview(bytes(1 << 17))
_FIRST = (2).to_bytes(4, "big")


class _Secret(WordSource):
    """A key drawn once; copying, pickling and use in a forked process raise an error."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._pid = os.getpid()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Secure random streams cannot be pickled or copied: two holders of one key would add "
            "the same noise twice. Draw fresh streams instead (random_state=None)."
        )

    def _key(self, purpose: str) -> bytes:
        """Return the purpose's 32-byte key."""
        if os.getpid() != self._pid:
            raise RuntimeError(
                "Secure random streams were inherited by a forked process, where they would "
                "repeat the parent's noise. Draw fresh streams instead (random_state=None)."
            )
        return hashlib.blake2b(purpose.encode(), key=self._secret, digest_size=32).digest()


class AesWords(_Secret):
    """AES-256 in counter mode."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()
        self._work = WorkSpace()

    def words(
        self, purpose: str, silos: Silos, round: int, draw: int, count: int, scratch: bool = False
    ) -> Words:
        aes, stream, blocks = self._ciphers(purpose)
        size = (count + 1) // 2 * 2
        if len(silos) > 1 and count <= _STACKED:
            return self._stacked(blocks, silos, round, draw, size)[:, :count]
        # two spare words for each row: update_into needs room for one more block
        shape = len(silos), size + 2
        rows = self._work.rows(*shape) if scratch else np.empty(shape, np.uint64)
        for row, silo in zip(rows, silos, strict=True):
            start = (int(silo) << 64 | round << 32 | draw).to_bytes(12, "big")
            if count <= _LONG_DRAW:
                stream.reset_nonce(start + _FIRST)
                stream.update_into(_ZEROS[: 8 * size], row.data.cast("B"))
            else:
                _fill(Cipher(aes, modes.GCM(start)).encryptor(), row.data.cast("B"))
        return rows[:, :count]

    def words_of_rounds(
        self, purpose: str, silos: np.ndarray, rounds: range, count: int
    ) -> np.ndarray:
        if count > _STACKED:
            return super().words_of_rounds(purpose, silos, rounds, count)
        size = (count + 1) // 2 * 2
        when = np.asarray(rounds, np.uint64)[:, None]
        return self._stacked(self._ciphers(purpose)[2], silos, when, 0, size)[..., :count]

    def words_at(
        self, purpose: str, silos: np.ndarray, rounds: np.ndarray, draw: int, count: int
    ) -> Words:
        if count > _STACKED:
            return super().words_at(purpose, silos, rounds, draw, count)
        size = (count + 1) // 2 * 2
        return self._stacked(self._ciphers(purpose)[2], silos, rounds, draw, size)[:, :count]

    def _stacked(self, cipher: Any, silos: Any, round: Any, draw: int, size: int) -> np.ndarray:
        """Encrypt the counter blocks of all silos in one call: the same words, less overhead.

        ``round`` is a number, or an array of them to go with that of the silos.
        """
        head = np.asarray(silos, dtype=np.uint64) << np.uint64(32) | np.asarray(round, np.uint64)
        counters = np.empty((*head.shape, size // 2, 2), ">u8")
        counters[..., 0] = head[..., None]
        counters[..., 1] = np.arange(size // 2, dtype=np.uint64) + np.uint64((draw << 32) + 2)
        words = np.empty(counters.size + 2, np.uint64)
        cipher.update_into(memoryview(counters.view(np.uint8).ravel()), memoryview(words).cast("B"))
        return words[:-2].reshape(*head.shape, size)

    def _ciphers(self, purpose: str) -> tuple[Any, Any, Any]:
        """Return a purpose's cipher and this thread's (counter mode, bare blocks) contexts."""
        if os.getpid() == self._pid:
            try:
                return self._local.ciphers[purpose]
            except (AttributeError, KeyError):
                pass  # this thread's first use of the purpose
        aes = algorithms.AES(self._key(purpose))
        made = (
            aes,
            Cipher(aes, modes.CTR(bytes(16))).encryptor(),
            # one block per counter, never a message: the inside of counter mode
            Cipher(aes, modes.ECB()).encryptor(),
        )
        self._local.__dict__.setdefault("ciphers", {})[purpose] = made
        return made


def _fill(encryptor: Any, out: memoryview) -> None:
    """Write the cipher's stream into ``out``, up to the slack of one block at its end."""
    # in pieces, so that the zeros stay in the processor's cache
    for start in range(0, len(out) - 16, len(_ZEROS)):
        encryptor.update_into(_ZEROS[: len(out) - 16 - start], out[start:])


class ShakeWords(_Secret):
    """SHAKE-256 as an extendable-output function, one message per draw."""

    def words(
        self, purpose: str, silos: Silos, round: int, draw: int, count: int, scratch: bool = False
    ) -> Words:
        key = self._key(purpose)
        tail = round.to_bytes(4, "big") + draw.to_bytes(3, "big")
        rows = np.empty((len(silos), count), np.uint64)
        for row, silo in zip(rows, silos, strict=True):
            sponge = hashlib.shake_256(key + int(silo).to_bytes(4, "big") + tail)
            row[:] = np.frombuffer(sponge.digest(8 * count), np.uint64)
        return rows


def secure_words() -> WordSource:
    """Return the fastest cryptographic source that is installed."""
    return ShakeWords() if Cipher is None else AesWords()
