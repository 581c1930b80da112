"""Draws of one stream or of a stack of streams, by the same code and with the same numbers.

Shapes: ``silos`` (S,), words (S, count), normals (S, n).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from skdpfl.privacy.randomness import normals as _normals
from skdpfl.privacy.randomness import samples as _sampling
from skdpfl.privacy.randomness.words import REFINED, Silos, WordSource, bucket

#: normals are drawn in pieces of this many: part of the definition of a stream
_PIECE = 1 << 16
#: about so many normals are finished at once
_FINISHED = 1 << 18


def units(
    source: WordSource, purpose: str, silos: Silos, round: int, draw: int, n: int, dtype: np.dtype
) -> np.ndarray:
    """Return (S, n) normals in units."""
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}.")
    out = np.empty((len(silos), n), np.int64 if dtype == np.float64 else np.int32)
    most = max(1, _FINISHED // max(n, 1))
    for i in range(0, len(silos), most):
        some, group = silos[i : i + most], out[i : i + most]
        _fill(source, purpose, some, round, draw, group)
        fresh = partial(_fresh, source, purpose, some, round, REFINED + draw, n)
        _normals.finish(group, fresh)
    return out


def _fill(
    source: WordSource, purpose: str, silos: Silos, round: int, draw: int, out: np.ndarray
) -> None:
    """Fill (S, n) with unfinished normals; several silos at once if they fit into a piece."""
    n, fine = out.shape[1], out.dtype == np.int64
    rows = max(1, _PIECE // max(n, 1))
    for i in range(0, len(silos), rows):
        for k, start in enumerate(range(0, n, _PIECE)):
            piece = out[i : i + rows, start : start + _PIECE]
            count = _normals.n_words(piece.shape[1], fine)
            words = source.words(purpose, silos[i : i + rows], round, draw + k, count, scratch=True)
            _normals.fill(words, piece)


def units_of_rounds(
    source: WordSource, purpose: str, silos: np.ndarray, rounds: range, n: int, dtype: np.dtype
) -> np.ndarray:
    """Return (R, S, n): the first draws of several rounds, short ones at once."""
    if n > _PIECE or len(rounds) == 1:
        each = [units(source, purpose, silos, round, 0, n, dtype) for round in rounds]
        return np.stack(each)
    out = np.empty((len(rounds), len(silos), n), np.int64 if dtype == np.float64 else np.int32)
    count = _normals.n_words(n, dtype == np.float64)
    words = source.words_of_rounds(purpose, silos, rounds, count)
    rows = len(rounds) * len(silos)
    _normals.fill(words.reshape(rows, count), out.reshape(rows, n))
    for r in _normals.unfinished(out):
        _normals.finish(out[r], partial(_fresh, source, purpose, silos, rounds[r], REFINED, n))
    return out


def _fresh(source, purpose, silos, round, draw, n, places, more) -> np.ndarray:
    """Return one word for each flat place in (S, n): the first words of those silos' draws."""
    purpose = f"{purpose}, more" if more else purpose
    if len(silos) == 1 or len(places) == 1:
        row = int(places[0]) // n
        return source.words(purpose, silos[row : row + 1], round, draw, len(places))[0]
    counts = np.bincount(places // n, minlength=len(silos))
    rows = np.flatnonzero(counts)
    counts, who = counts[rows], np.asarray(silos)[rows]
    words = np.empty((len(rows), counts.max()), np.uint64)
    # one bucket at a time, see words.py: a silo's words must not depend on the others
    buckets = np.array([bucket(count) for count in counts.tolist()])
    for size in set(buckets.tolist()):
        like = buckets == size
        width = int(counts[like].max())
        words[like, :width] = source.words(purpose, who[like], round, draw, width)
    return words[np.arange(words.shape[1]) < counts[:, None]]


def n_pieces(n: int) -> int:
    """Return how many draws ``n`` normals take."""
    return -(-n // _PIECE)


def floats(units: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return normals as floats; exact in float64, and in float32 up to 16 standard deviations."""
    bits = _normals.UNIT_BITS if dtype == np.float32 else _normals.FINE_BITS
    floats = units.astype(dtype)
    floats *= dtype.type(2.0**-bits)
    return floats


def uniforms(words: np.ndarray) -> np.ndarray:
    """Return uniforms on [0, 1) from the first 53 bits of words."""
    return (words >> np.uint64(11)) * 2.0**-53


def below(words: np.ndarray, sizes: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return which of each silo's first ``sizes`` words (..., S, count) fall below its rate."""
    limits = [_sampling.threshold(q) if q < 1 else 2**64 - 1 for q in rates.tolist()]
    chosen = words < np.array(limits, dtype=np.uint64)[:, None]
    chosen[..., rates == 1, :] = True
    chosen &= np.arange(words.shape[-1]) < sizes[:, None]
    return chosen


def alike(sizes: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Yield (rows, width) whose draws are read at once, and (one row, 0) for a large silo."""
    small = np.flatnonzero((sizes > 0) & (sizes <= _sampling.WORDS_UP_TO))
    buckets = 1 << np.ceil(np.log2(np.maximum(sizes[small], 4))).astype(np.int64)
    for size in np.unique(buckets):
        rows = small[buckets == size]
        width = int(sizes[rows].max())
        step = max(1, (1 << 20) // int(size))
        for i in range(0, len(rows), step):
            yield rows[i : i + step], width
    for row in np.flatnonzero(sizes > _sampling.WORDS_UP_TO):
        yield np.array([row]), 0
