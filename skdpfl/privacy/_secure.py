"""Cryptographic words: unpredictable without a secret that never leaves this object.

Two sources with the same addresses as :mod:`skdpfl.privacy._words`:

* ``AesWords``: AES-256 in counter mode, key = BLAKE2b(secret; purpose), counter block
  (silo: 32 bits, round: 32, draw: 24, j: 40), big-endian. Needs the package ``cryptography``.
* ``ShakeWords``: SHAKE-256 of (secret, purpose, silo, round, draw), from the standard library;
  about fifteen times slower.

Formal guarantee. The secret is 32 bytes of the operating system. AES-256 being a pseudo-random
permutation, no two of whose inputs coincide, telling B blocks from uniform ones succeeds with an
advantage of at most that against AES plus B^2 / 2^129: below 1e-12 for 2^44 blocks (280 TB of
noise). SHAKE-256 of a secret prefix of one fixed length is a pseudo-random function with 256-bit
security in the sponge model.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from skdpfl.privacy._words import Words, WorkSpace

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
except ImportError:  # the extra [secure] is not installed
    Cipher = None

#: stacks of draws up to this many words go through the cipher in one call
_STACKED = 256
_ZEROS = memoryview(bytes(1 << 15))


class _Secret:
    """A key drawn once, and refused to any copy, pickle or forked process."""

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
        self,
        purpose: str,
        silos: Sequence[int] | np.ndarray,
        round: int,
        draw: int,
        count: int,
        scratch: bool = False,
    ) -> Words:
        """Return (len(silos), count) words; each row is contiguous."""
        stream, blocks = self._ciphers(purpose)
        size = (count + 1) // 2 * 2
        if len(silos) > 1 and count <= _STACKED:
            return self._stacked(blocks, silos, round, draw, size)[:, :count]
        # two spare words a row: update_into wants room for one block more
        shape = len(silos), size + 2
        rows = self._work.rows(*shape) if scratch else np.empty(shape, np.uint64)
        tail = round.to_bytes(4, "big") + draw.to_bytes(3, "big") + bytes(5)
        for row, silo in zip(rows, silos, strict=True):
            stream.reset_nonce(int(silo).to_bytes(4, "big") + tail)
            out = memoryview(row).cast("B")
            # few zeros, so that they stay near the processor; whole blocks, so that none is kept
            for start in range(0, 8 * size, len(_ZEROS)):
                stream.update_into(_ZEROS[: 8 * size - start], out[start:])
        return rows[:, :count]

    def _stacked(self, cipher, silos, round, draw, size) -> Words:
        """Encrypt the counter blocks of all silos in one call: the same words, less overhead."""
        counters = np.empty((len(silos), size // 2, 2), ">u8")
        head = np.asarray(silos, dtype=np.uint64) << np.uint64(32) | np.uint64(round)
        counters[..., 0] = head[:, None]
        counters[..., 1] = np.arange(draw << 40, (draw << 40) + size // 2, dtype=np.uint64)
        words = np.empty(counters.size + 2, np.uint64)
        cipher.update_into(memoryview(counters.view(np.uint8).ravel()), memoryview(words).cast("B"))
        return words[:-2].reshape(len(silos), size)

    def _ciphers(self, purpose: str):
        """Return this thread's (counter mode, bare blocks) contexts for a purpose."""
        if not hasattr(self._local, "ciphers"):
            self._local.ciphers = {}
        if purpose not in self._local.ciphers or os.getpid() != self._pid:
            aes = algorithms.AES(self._key(purpose))
            self._local.ciphers[purpose] = (
                Cipher(aes, modes.CTR(bytes(16))).encryptor(),
                # one block per counter, never a message: what counter mode does inside
                Cipher(aes, modes.ECB()).encryptor(),
            )
        return self._local.ciphers[purpose]


class ShakeWords(_Secret):
    """SHAKE-256 as an extendable-output function, one message per draw."""

    def words(
        self,
        purpose: str,
        silos: Sequence[int] | np.ndarray,
        round: int,
        draw: int,
        count: int,
        scratch: bool = False,
    ) -> Words:
        """Return (len(silos), count) words; each row is contiguous."""
        key = self._key(purpose)
        tail = round.to_bytes(4, "big") + draw.to_bytes(3, "big")
        rows = np.empty((len(silos), count), np.uint64)
        for row, silo in zip(rows, silos, strict=True):
            sponge = hashlib.shake_256(key + int(silo).to_bytes(4, "big") + tail)
            row[:] = np.frombuffer(sponge.digest(8 * count), np.uint64)
        return rows


def secure_words() -> AesWords | ShakeWords:
    """Return the fastest cryptographic source that is installed."""
    return ShakeWords() if Cipher is None else AesWords()
