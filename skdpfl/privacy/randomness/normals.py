"""Standard normals as integers on a grid, by integer arithmetic alone.

::

    N = 2^14 D + U1 + U2 + U3 - 24574              a normal is N / 2^20      (UNIT_BITS)
    F = 2^16 N + U4 + U5 - 65535                   a normal is F / 2^36      (FINE_BITS)

    U1, U2, U3  uniform on 0..2^14 - 1         U4, U5  uniform on 0..2^16 - 1
    D           P(D = k) ~ exp(-(k + 2^-15)^2 / 2 s^2),  s^2 = (2^40 - Var(U1 + U2 + U3)) / 2^28

so that E N = 0 and Var N = 2^40. D is drawn from a table of 65,536 slots: each value k fills
floor(2^16 P(D = k)) of them. The remaining 0.4 % of slots lead to a second draw, from the remaining
probabilities, with 64 fresh bits, and 64 more where these do not decide. No floating point is used:
the same bits give the same normals on every machine, in C (:mod:`skdpfl._compiled`) or NumPy.

Floating-point normals have gaps and steps in their distribution. With 32-bit Box-Muller in float32
no pair of normals lies between the circles of radius 3.4e-4 and 4.9e-4, and rounding float32
normals to a grid of 2^-16 makes even multiples about 1 % likelier than odd ones. Over tens of
thousands of coordinates and thousands of releases this distinguishes neighbouring data, even if the
sum is exact.

Formal guarantee. Let g be the Gaussian of standard deviation 2^20 sampled on the integers, whose
likelihood ratios under a shift are those of the continuous one, and h = 2^14 / 2^20. Since the sum
of the three U is the quadratic B-spline, p(n) = P(N = n) interpolates a Gaussian sampled 64 times
per standard deviation, and Poisson's summation formula gives, with x = n / 2^20,

    p(n) = g(n) (1 + e(n)),    |e(n)| <= 2.5 (h / 2 pi)^3 |He3(x)| + 1e-10 (1 + |He4(x)|)
                                      <= 4e-8 |He3(x)| + ...      (compared with exact sums)

where the first term oscillates with period 2^14. Between neighbouring sums, Delta apart (in units),
the privacy loss therefore differs from the Gaussian's by sum_i e(n_i - Delta_i) - e(n_i): terms
independent over coordinates and releases, together of standard deviation at most
2^20 rms(e') < 2.3e-5 times that of the Gaussian loss itself, whatever the number of coordinates
and of releases. Ten such deviations (which are exceeded with probability 2e-23) change epsilon by
less than 3e-4 mu, mu the Gaussian-DP parameter of the whole fit. The clip norm is slightly lower
than the priced one, which covers this (:mod:`skdpfl.privacy.release`). The loss of a sampled
release is a function of the unsampled one, log(1 - q + q e^l): it reduces the change by the
deviation and the change by the lower clip norm by the same factor, so that to first order the same
holds. F interpolates N's law linearly, which adds e of at most 2e-13 (1 + x^2) and 5e-7 to the
2.3e-5. Rounding the second draw to 2^-128 costs less than 1e-37 of total variation for each normal,
and the tail is cut at 12.4 standard deviations (P = 3e-35). Both add up over a fit's normals, 1e-22
for 1e12 of them: with the 2e-23 above, what no epsilon covers is far below any delta that can be
asked for in practice.

One stream or a stack of them are drawn by the same code, with the same numbers: ``silos`` (S,),
words (S, count), normals (S, n).
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from skdpfl._compiled import noise as compiled
from skdpfl.privacy.randomness.words import REFINED, Silos, WordSource, WorkSpace, bucket

UNIT_BITS = 20
FINE_BITS = 36

_FIELD_BITS = 14
_FIELD = np.uint16((1 << _FIELD_BITS) - 1)
_OFFSET = 3 * int(_FIELD) // 2
_SLOTS = 1 << 16
_EXTRA_BITS = FINE_BITS - UNIT_BITS
_AGAIN = 1 << 28
_LOW = np.uint32(0xFFFF)

#: flat indices of normals in (S, n) -> one fresh word for each, in sequence for each row; True: one
#: more for those that the first ones do not decide
Fresh = Callable[[np.ndarray, bool], np.ndarray]


class _Law(NamedTuple):
    """The tables for drawing D, as 2^14 D - 24574."""

    table: np.ndarray
    """(65536,) int32: the value of each slot; _AGAIN in the slots that need a second draw."""
    bounds: np.ndarray
    """uint64 (2, n), sorted: the index of the second draw is the number of bounds, whose upper and
    lower halves these are, that are at most a fresh number of two words."""
    seconds: np.ndarray
    """int64: what a second draw adds to _AGAIN."""


def n_words(n: int, fine: bool) -> int:
    """Return how many 64-bit words ``n`` normals take."""
    return n + (n + 1) // 2 if fine else n


_work = WorkSpace(np.int32)


def fill(words: np.ndarray, out: np.ndarray) -> None:
    """Write (S, n) normals into ``out`` from (S, n_words) words; call :func:`finish` afterwards.

    int32: in units of 2^-20. int64: in units of 2^-36. The words are overwritten.
    """
    if compiled is not None:
        compiled.normals(words, _law().table, out)
        return
    n = out.shape[1]
    lanes = words.view(np.uint16)
    # the slot is written directly into the result if its type is right
    place = out if out.dtype == np.int32 else _work.rows(*out.shape)
    _law().table.take(lanes[:, 3 * n : 4 * n], mode="wrap", out=place)
    fields = lanes[:, : 3 * n]
    fields &= _FIELD
    sums = fields[:, :n]
    sums += fields[:, n : 2 * n]
    sums += fields[:, 2 * n :]
    np.add(place, sums, out=out)
    if out.dtype == np.int64:
        out <<= _EXTRA_BITS
        rest = words[:, n:].view(np.uint32)[:, :n]
        out += rest & _LOW
        out += rest >> np.uint32(16)
        out -= 0xFFFF


def finish(out: np.ndarray, fresh: Fresh) -> None:
    """Make the second draws of (S, n) normals; ``out`` is contiguous."""
    law, flat = _law(), out.reshape(-1)
    again = _wants_another(flat).nonzero()[0]
    if len(again):
        upper, lower = law.bounds
        words = fresh(again, False)
        places, tied = (upper.searchsorted(words, side) for side in ("left", "right"))
        if len(open := (places < tied).nonzero()[0]):
            more = fresh(again[open], True)
            ends = zip(places[open].tolist(), tied[open].tolist(), more, strict=True)
            places[open] = [a + lower[a:b].searchsorted(word, "right") for a, b, word in ends]
        flat[again] += law.seconds.take(places) << (_EXTRA_BITS if out.dtype == np.int64 else 0)


def _wants_another(filled: np.ndarray) -> np.ndarray:
    return filled > (_AGAIN // 2 << (_EXTRA_BITS if filled.dtype == np.int64 else 0))


@cache
def _law() -> _Law:
    """Build the tables once, in 192-bit integers, so the same on every machine."""
    masses, place = _masses()
    total = sum(masses)
    slots = [mass * _SLOTS // total for mass in masses]
    missing = [mass * _SLOTS - n * total for mass, n in zip(masses, slots, strict=True)]
    rest = sum(missing)
    bounds = [min((below << 128) // rest, 2**128 - 1) for below in accumulate(missing[:-1])]
    halves = [[bound >> 64 for bound in bounds], [bound & 2**64 - 1 for bound in bounds]]
    values = np.arange(-place, len(masses) - place) * (1 << _FIELD_BITS) - _OFFSET
    table = np.full(_SLOTS, _AGAIN, np.int32)
    table[: sum(slots)] = np.repeat(values, slots)
    return _Law(table, np.array(halves, dtype=np.uint64), values - _AGAIN)


def _masses() -> tuple[list[int], int]:
    """Return masses proportional to exp(-(k + 2^-15)^2 / 2 s^2), and the place of k = 0.

    By mass(k + 1) / mass(k) = q^(2k + 1 + 2^-14), q = exp(-1 / 2 s^2), down to 2^-112.
    """
    with localcontext() as context:
        context.prec = 70
        field = Decimal(1 << _FIELD_BITS)
        log_q = -1 / (2 * (Decimal(2) ** (2 * UNIT_BITS) - (field**2 - 1) / 4) / field**2)
        square = int((2 * log_q).exp() * 2**192)
        sides = []
        for sign in (1, -1):
            ratio = int((log_q * (1 + sign / field)).exp() * 2**192)
            side = [1 << 192]
            while side[-1] >> 80:
                side.append(side[-1] * ratio >> 192)
                ratio = ratio * square >> 192
            sides.append(side)
    above, under = sides
    return under[:0:-1] + above, len(under) - 1


#: normals are drawn in pieces of this many: part of the definition of a stream
_NORMALS_A_PIECE = 1 << 16
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
        rounds = range(round, round + 1)
        fresh = partial(_fresh, source, purpose, some, rounds, REFINED + draw, n)
        finish(group, fresh)
    return out


def _fill(
    source: WordSource, purpose: str, silos: Silos, round: int, draw: int, out: np.ndarray
) -> None:
    """Fill (S, n) with unfinished normals; several silos at once if they fit into a piece."""
    n, fine = out.shape[1], out.dtype == np.int64
    rows = max(1, _NORMALS_A_PIECE // max(n, 1))
    for i in range(0, len(silos), rows):
        for k, start in enumerate(range(0, n, _NORMALS_A_PIECE)):
            piece = out[i : i + rows, start : start + _NORMALS_A_PIECE]
            count = n_words(piece.shape[1], fine)
            words = source.words(purpose, silos[i : i + rows], round, draw + k, count, scratch=True)
            fill(words, piece)


def units_of_rounds(
    source: WordSource, purpose: str, silos: np.ndarray, rounds: range, n: int, dtype: np.dtype
) -> np.ndarray:
    """Return (R, S, n): the first draws of several rounds, short ones at once."""
    if len(rounds) == 1:
        return units(source, purpose, silos, rounds[0], 0, n, dtype)[None]
    if n > _NORMALS_A_PIECE:
        return np.stack([units(source, purpose, silos, r, 0, n, dtype) for r in rounds])
    out = np.empty((len(rounds), len(silos), n), np.int64 if dtype == np.float64 else np.int32)
    count = n_words(n, dtype == np.float64)
    words = source.words_of_rounds(purpose, silos, rounds, count)
    rows = len(rounds) * len(silos)
    fill(words.reshape(rows, count), out.reshape(rows, n))
    finish(out.reshape(rows, n), partial(_fresh, source, purpose, silos, rounds, REFINED, n))
    return out


def _fresh(
    source: WordSource,
    purpose: str,
    silos: Silos,
    rounds: range,
    draw: int,
    n: int,
    places: np.ndarray,
    more: bool,
) -> np.ndarray:
    """Return one word for each flat place, rising, in (R, S, n): the first of silos' draws."""
    purpose = f"{purpose}, more" if more else purpose
    row_of_place = places // n
    new = row_of_place[1:] != row_of_place[:-1]
    ends = np.concatenate([[0], np.flatnonzero(new) + 1, [len(places)]])
    rows, counts = row_of_place[ends[:-1]], ends[1:] - ends[:-1]
    who, when = np.asarray(silos)[rows % len(silos)], rounds.start + rows // len(silos)
    words = np.empty((len(rows), counts.max()), np.uint64)
    # one bucket at a time, see words.py: a silo's words must not depend on the others
    buckets = np.array([bucket(count) for count in range(counts.max() + 1)])[counts]
    for size in set(buckets.tolist()):
        like = buckets == size
        width = int(counts[like].max())
        words[like, :width] = source.words_at(purpose, who[like], when[like], draw, width)
    return words[np.arange(words.shape[1]) < counts[:, None]]


def n_pieces(n: int) -> int:
    """Return how many draws ``n`` normals take."""
    return -(-n // _NORMALS_A_PIECE)


def floats(units: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return normals as floats; exact in float64, and in float32 up to 16 standard deviations."""
    bits = UNIT_BITS if dtype == np.float32 else FINE_BITS
    floats = units.astype(dtype)
    floats *= dtype.type(2.0**-bits)
    return floats
