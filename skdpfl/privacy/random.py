"""Random streams: one per (purpose, silo, round), cryptographic unless a seed is given.

First working interface; the bits behind it will change.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence

import numpy as np


class Stream:
    """The random numbers of one (purpose, silo, round)."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._position = 0

    def words(self, count: int) -> np.ndarray:
        """Return the next ``count`` 64-bit words."""
        block = hashlib.shake_256(self._key + self._position.to_bytes(8, "little"))
        self._position += count
        return np.frombuffer(block.digest(8 * count), np.uint64)

    def random(self, shape=()) -> np.ndarray:
        """Return float64 uniforms on [0, 1), 53 bits."""
        w = self.words(math.prod(np.atleast_1d(np.asarray(shape, int)).tolist()))
        return ((w >> np.uint64(11)) * 2.0**-53).reshape(shape)

    def normal(self, shape=(), dtype=np.float64) -> np.ndarray:
        """Return standard normals."""
        n = math.prod(np.atleast_1d(np.asarray(shape, int)).tolist())
        w = self.words(2 * n).reshape(2, n)
        radius = np.sqrt(-2.0 * np.log((w[0] + 0.5) * 2.0**-64))
        return (radius * np.cos(w[1] * (2.0**-63 * np.pi))).astype(dtype).reshape(shape)

    def poisson_sample(self, n: int, q: float) -> np.ndarray:
        """Return the sorted indices of a Poisson sample: each of n with probability q."""
        return np.flatnonzero(self.random(n) < q)

    def subset(self, n: int, b: int) -> np.ndarray:
        """Return the sorted indices of a uniform subset of size b."""
        return np.sort(self.permutation(n)[:b])

    def permutation(self, n: int) -> np.ndarray:
        """Return a uniform permutation of range(n)."""
        return np.argsort(self.random(n), kind="stable")

    def integers(self, low: int, high: int, size=()) -> np.ndarray:
        """Return uniform integers on [low, high)."""
        return low + np.floor(self.random(size) * (high - low)).astype(np.int64)


class Streams:
    """All streams of one fit."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self._secret = (
            secrets.token_bytes(32)
            if seed is None
            else hashlib.shake_256(f"simulation {seed}".encode()).digest(32)
        )

    @property
    def is_simulation(self) -> bool:
        """Whether the numbers follow from a seed."""
        return self.seed is not None

    def stream(self, purpose: str, silo: int = 0, round: int = 0) -> Stream:
        """Return a fresh stream at its beginning."""
        return Stream(self._secret + f"{purpose}\0{silo}\0{round}\0".encode())

    def normal_block(
        self, purpose: str, silos: Sequence[int], round: int, shape, dtype=np.float64
    ) -> np.ndarray:
        """Return the stacked normals of several silos' streams."""
        return np.stack([self.stream(purpose, s, round).normal(shape, dtype) for s in silos])

    def uniform_block(self, purpose: str, silos: Sequence[int], round: int, shape) -> np.ndarray:
        """Return the stacked uniforms of several silos' streams."""
        return np.stack([self.stream(purpose, s, round).random(shape) for s in silos])

    def poisson_mask_block(
        self, purpose: str, silos: Sequence[int], round: int, n_max: int, sizes, rates
    ) -> np.ndarray:
        """Return (len(silos), n_max) booleans: which records each silo's Poisson sample holds."""
        mask = np.zeros((len(silos), n_max), bool)
        for row, silo, n, q in zip(
            mask, silos, sizes, np.broadcast_to(rates, len(silos)), strict=True
        ):
            row[:n] = self.stream(purpose, silo, round).random(int(n)) < q
        return mask


def streams_for(random_state) -> Streams:
    """Return the streams of a scikit-learn ``random_state``."""
    if random_state is None:
        return Streams(None)
    if isinstance(random_state, np.random.RandomState):
        return Streams(int(random_state.randint(0, 2**31 - 1)))
    if isinstance(random_state, np.random.Generator):
        return Streams(int(random_state.integers(0, 2**63)))
    return Streams(int(random_state))
