"""Cryptographic words: unpredictable without the secret, which never leaves this object.

Two sources with the same addresses as :mod:`skdpfl.privacy.randomness.words`:

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

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from typing import NoReturn

import numpy as np

from skdpfl.privacy.randomness.words import Silos, Words, WorkSpace, round_by_round

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
_LONG = 2048
_ZEROS = memoryview(bytes(1 << 17))
_FIRST = (2).to_bytes(4, "big")


class _Secret:
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
            if count <= _LONG:
                stream.reset_nonce(start + _FIRST)
                stream.update_into(_ZEROS[: 8 * size], row.data.cast("B"))
            else:
                _fill(Cipher(aes, modes.GCM(start)).encryptor(), row.data.cast("B"))
        return rows[:, :count]

    def words_of_rounds(
        self, purpose: str, silos: np.ndarray, rounds: range, count: int
    ) -> np.ndarray:
        if count > _STACKED:
            return round_by_round(self, purpose, silos, rounds, count)
        size = (count + 1) // 2 * 2
        when = np.asarray(rounds, np.uint64)[:, None]
        return self._stacked(self._ciphers(purpose)[2], silos, when, 0, size)[..., :count]

    def _stacked(self, cipher, silos, round, draw, size) -> np.ndarray:
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

    def _ciphers(self, purpose: str):
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


def _fill(encryptor, out: memoryview) -> None:
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

    def words_of_rounds(
        self, purpose: str, silos: np.ndarray, rounds: range, count: int
    ) -> np.ndarray:
        return round_by_round(self, purpose, silos, rounds, count)


def secure_words() -> AesWords | ShakeWords:
    """Return the fastest cryptographic source that is installed."""
    return ShakeWords() if Cipher is None else AesWords()
