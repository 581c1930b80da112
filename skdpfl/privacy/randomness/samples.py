"""Samples of records from random 64-bit words, with the distributions that are accounted for.

A probability q is rounded to T / 2^64, T = floor(2^64 q) (exact for every float64 q >= 2^-11, else
at most 2^-64 too small), and compared as ``word < T``. Uniform choices use rejection sampling.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
    found, last = [], -1
    while last < n:
        expected = (n - last) * q
        words = next_words(int(expected + 6 * expected**0.5) + 16)
        # log of a uniform on (0, 1]; 2^-65 keeps it finite
        gaps = np.log(words * 2.0**-64 + 2.0**-65) / np.log1p(-q)
        # a gap beyond n ends the sample: clip it before it overflows
        steps = np.minimum(gaps, n).astype(np.int64) + 1
        found.append(last + np.cumsum(steps))
        last = int(found[-1][-1])
    indices = np.concatenate(found)
    return indices[indices < n]


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
