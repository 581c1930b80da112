"""Standard normals as integers on a grid, by integer arithmetic alone.

::

    N = 2^14 D + U1 + U2 + U3 - 24574              a normal is N / 2^20      (UNIT_BITS)
    F = 2^16 N + U4 + U5 - 65535                   a normal is F / 2^36      (FINE_BITS)

    U1, U2, U3  uniform on 0..2^14 - 1         U4, U5  uniform on 0..2^16 - 1
    D           P(D = k) ~ exp(-(k + 2^-15)^2 / 2 s^2),  s^2 = (2^40 - Var(U1 + U2 + U3)) / 2^28

so that E N = 0 and Var N = 2^40. D is read off the inverse of its distribution function: one
table look-up by 16 random bits settles 99 % of the draws, 6 more bits nearly all others, 42 more
the rest. No floating point: the same bits give the same normals on every machine.

Why not floating-point normals: their law has gaps and steps. With 32-bit Box-Muller in float32 no
pair of normals lies between the circles of radius 3.4e-4 and 4.9e-4, and rounding float32 normals
to a grid of 2^-16 makes even multiples about 1 % likelier than odd ones. Over tens of thousands of
coordinates and thousands of releases that tells neighbouring data apart, however exact the sum.

Formal guarantee. Let g be the Gaussian of standard deviation 2^20 sampled on the integers, whose
likelihood ratios under a shift are those of the continuous one, and h = 2^14 / 2^20. Since the sum
of the three U is the quadratic B-spline, p(n) = P(N = n) interpolates a Gaussian sampled 64 times
per standard deviation, and Poisson's summation formula gives, with x = n / 2^20,

    p(n) = g(n) (1 + e(n)),    |e(n)| <= 2.5 (h / 2 pi)^3 |He3(x)| + 1e-10 (1 + He4(x)^2)^(1/2)
                                      <= 4e-8 |He3(x)| + ...      (checked against exact sums)

where the first term oscillates with period 2^14. Between neighbouring sums, Delta apart (in units),
the privacy loss therefore differs from the Gaussian's by sum_i e(n_i - Delta_i) - e(n_i): terms
independent over coordinates and releases, together of standard deviation at most
2^20 rms(e') = 2e-5 times that of the Gaussian loss itself, whatever the number of coordinates
and of releases. Ten such deviations move epsilon by less than 2e-4 mu, mu the Gaussian-DP
parameter of the whole fit. Cutting D's distribution at 64 bits costs 4e-17 of total variation a
normal and ends the tail at 9.1 standard deviations (P = 1e-19).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from typing import NamedTuple

import numpy as np

UNIT_BITS = 20
FINE_BITS = 36

_FIELD_BITS = 14
_FIELD = np.uint16((1 << _FIELD_BITS) - 1)
_LEFT = np.uint16(_FIELD_BITS)
_TWO, _FOUR, _SIX = np.uint16(2), np.uint16(4), np.uint64(6)
_OFFSET = 3 * int(_FIELD) // 2
_FLAG = 1 << 28

#: (row, count) -> that many further words of that row
More = Callable[[int, int], np.ndarray]


class _Steps(NamedTuple):
    """The distribution function of D, times 2^64, and what its first 16 bits tell."""

    bounds: np.ndarray
    """uint64, sorted: D + shift = how many bounds are <= a uniform 64-bit word."""
    first: np.ndarray
    """(65536,) for each 16-bit word: the number of bounds in the intervals under its own."""
    edge: np.ndarray
    """(65536,) the next 6 bits of the only bound in its interval; -1 if there are several."""
    table: np.ndarray
    """(65536,) 2^14 D - 24574 where the word settles D, else the flag; int32."""
    shift: int


def n_words(n: int, fine: bool) -> int:
    """Return how many 64-bit words ``n`` normals take."""
    return n + (n + 1) // 2 if fine else n


def units(words: np.ndarray, n: int, more: More) -> np.ndarray:
    """Return (S, n) int32 normals in units of 2^-20 from (S, >= n) words."""
    lanes = words.view(np.uint16)
    fields = lanes[:, : 3 * n] & _FIELD
    sums = fields[:, :n]
    sums += fields[:, n : 2 * n]
    sums += fields[:, 2 * n :]
    result = _steps().table.take(lanes[:, 3 * n : 4 * n], mode="wrap")
    result += sums
    flat = result.reshape(-1)
    flagged = np.flatnonzero(flat > _FLAG // 2)
    if len(flagged):
        flat[flagged] += _correction(lanes, n, flagged, more)
    return result


def refine(words: np.ndarray, n: int, coarse: np.ndarray) -> np.ndarray:
    """Return (S, n) int64 normals in units of 2^-36 from ``coarse`` ones and words n onwards."""
    rest = words[:, n:].view(np.uint32)[:, :n]
    result = coarse.astype(np.int64)
    result <<= FINE_BITS - UNIT_BITS
    result += rest & np.uint32(0xFFFF)
    result += rest >> np.uint32(16)
    result -= 0xFFFF
    return result


def _correction(lanes: np.ndarray, n: int, flagged: np.ndarray, more: More) -> np.ndarray:
    """Return what to add where 16 bits did not settle D: by the 6 bits the fields leave over."""
    steps = _steps()
    rows, columns = np.divmod(flagged, n) if len(lanes) > 1 else (None, flagged)
    a, b, c, index = (_gather(lanes, rows, columns + i * n) for i in range(4))
    a >>= _LEFT
    b >>= _LEFT
    c >>= _LEFT
    b <<= _TWO
    c <<= _FOUR
    a |= b
    a |= c
    edge = steps.edge.take(index)
    digits = steps.first.take(index)
    digits += a > edge
    open_ = np.flatnonzero((edge < 0) | (edge == a))
    if len(open_):
        known = index[open_].astype(np.uint64) << _SIX | a[open_]
        fresh = _fresh(rows, open_, more) >> np.uint64(22)
        digits[open_] = np.searchsorted(steps.bounds, known << np.uint64(42) | fresh, side="right")
    digits <<= _FIELD_BITS
    digits -= (steps.shift << _FIELD_BITS) + _OFFSET + _FLAG
    return digits


def _gather(lanes: np.ndarray, rows: np.ndarray | None, columns: np.ndarray) -> np.ndarray:
    """Return lanes[rows, columns]; without rows there is only one."""
    return lanes[0].take(columns) if rows is None else lanes[rows, columns]


def _fresh(rows: np.ndarray | None, chosen: np.ndarray, more: More) -> np.ndarray:
    """Return one fresh word for each chosen normal, read row by row."""
    if rows is None:
        return more(0, len(chosen))
    owners, counts = np.unique(rows[chosen], return_counts=True)
    return np.concatenate([more(int(r), int(k)) for r, k in zip(owners, counts, strict=True)])


@cache
def _steps() -> _Steps:
    """Build the tables once, in 192-bit integers, so the same on every machine."""
    masses, shift = _masses()
    total, below, bounds = sum(masses), 0, []
    for mass in masses[:-1]:
        below += mass
        bounds.append(min((below << 64) // total, 2**64 - 1))
    steps = np.array(bounds, dtype=np.uint64)
    cells = (steps >> np.uint64(48)).astype(np.intp)
    inside = np.bincount(cells, minlength=1 << 16)
    first = np.searchsorted(cells, np.arange(1 << 16)).astype(np.int32)
    edge = np.zeros(1 << 16, np.int32)
    edge[cells] = (steps >> np.uint64(42)).astype(np.int64) & 63
    edge[inside > 1] = -1
    settled = (first - shift << _FIELD_BITS) - _OFFSET
    table = np.where(inside > 0, _FLAG, settled).astype(np.int32)
    return _Steps(steps, first, edge, table, shift)


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
