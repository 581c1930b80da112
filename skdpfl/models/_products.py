"""Products of records and weights, in which no record and no silo depends on another, bit for bit.

Shapes (k' >= k and n' >= n: zero columns make products faster and are not read)::

    X         (..., n, d)    for several silos at once: (S, n, d), a list of S (n_i, d), or rows of
                             one table, one silo after the other
    by_class  (..., k', n')  raw = X W + b, then slopes s_j, one row a class: reductions over
                             classes run along contiguous records
    sums      (..., k', d + intercept)    sum_j s_j a_j^T; of groups (S, P), flat

Formal guarantee
----------------
*Records.* Row j of X W is the same, bit for bit, for any number of rows and at any place among
them. This is not automatic. BLAS computes the last rows of a product in another way, so that their
last bits tell how many rows there are; and at an edge of ReLU or of a clipped residual a last bit
changes a gradient by O(clip norm). How many records a step drew is secret, and amplification by
sampling compares a batch with the same batch and one more record: the others' gradients must not
change. *Proof.* In C each number is one chain of operations over the features, the same for all
rows (``dots.h``, ``tiles.h``). Where nothing is compiled, rows are multiplied in blocks of a fixed
size, the last one filled up, so that no kernel is chosen by their number; made-up rows are tried at
all places of a block first, for the numbers of features and outputs. If places differ, each row is
multiplied by itself.

*Silos.* A silo's part of either product depends on its own records, parameters and slopes only:
products are formed silo by silo, by NumPy or in C. A record of zeros with slope zero does not
change the compiled products. NumPy copies the records of a silo to remove one that is not finite,
and may then add the others in another order; the rounding bounds hold for every order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skdpfl._compiled import products as compiled
from skdpfl.models._clipping import zero_unless

#: rows that are multiplied at once where nothing is compiled
BLOCK = 16
#: outputs that `few` takes; with more, products in C are faster than BLAS (0.25 to 1 of its time,
#: 0.65 to 1 without AVX-512)
FEW = 4


def products_by_class(X: NDArray, edges: NDArray, weights: NDArray, out: NDArray) -> None:
    """Write raw predictions without intercepts into ``out`` (k, n).

    X (n, d) are the records, those of silo s from edges[s] to edges[s + 1]; weights (S, d, k).
    """
    (n, d), k, kind = X.shape, len(out), out.dtype
    if compiled is None or kind.char not in "fd":
        _by_numpy(np.ascontiguousarray(X, kind), edges, weights, out)
        return
    X, flat = _in_lines(X, kind), _in_lines(weights.reshape(-1, d * k), kind)
    if k <= FEW:
        compiled.few(X, np.arange(n), edges, flat, out, False)
        return
    compiled.raw(X, np.arange(n), edges, flat, out, None, False)


def _by_numpy(X: NDArray, edges: NDArray, weights: NDArray, out: NDArray) -> None:
    weights = np.ascontiguousarray(weights, out.dtype)
    products = _in_blocks if _places_are_alike(*weights.shape[1:], out.dtype) else _by_output
    (n, d), silos = X.shape, len(weights)
    if silos and n % silos == 0 and (edges == np.arange(silos + 1) * (n // silos)).all():
        stack = products(X.reshape(silos, n // silos, d), weights)
        out[:, :n] = stack.reshape(n, len(out)).T
        return
    for W, (a, b) in zip(weights, pairwise(edges.tolist()), strict=True):
        out[:, a:b] = products(X[None, a:b], W[None])[0].T


def _in_blocks(X: NDArray, weights: NDArray) -> NDArray:
    """Return X W, (S, n, k), by products of BLOCK rows each."""
    (silos, n, d), k = X.shape, weights.shape[-1]
    last = n % BLOCK
    whole = X[:, : n - last].reshape(silos, -1, BLOCK, d) if n > last else X[:, None, :0]
    products = np.matmul(whole, weights[:, None]).reshape(silos, n - last, k)
    if not last:
        return products
    filled = np.zeros((silos, BLOCK, d), X.dtype)
    filled[:, :last] = X[:, n - last :]
    return np.concatenate([products, np.matmul(filled, weights)[:, :last]], axis=1)


def _by_output(X: NDArray, weights: NDArray) -> NDArray:
    """Return X W, (S, n, k), by products of each row and a contiguous vector."""
    each = np.ascontiguousarray(np.moveaxis(weights, 2, 0))
    return np.stack([np.einsum("sjd,sd->sj", X, w) for w in each], axis=-1)


@lru_cache(maxsize=256)
def _places_are_alike(d: int, k: int, kind: np.dtype) -> bool:
    """Try whether made-up rows have the same bits at all places of a block."""
    made_up = np.random.default_rng(0)
    rows, W = made_up.normal(size=(5, d)).astype(kind), made_up.normal(size=(1, d, k)).astype(kind)
    orders = [np.arange(BLOCK) % 5, np.arange(1, 3 * BLOCK) % 5]
    found = [_in_blocks(rows[order][None], W)[0] for order in orders]
    want = found[0][:5]
    return all(np.array_equal(f, want[order]) for f, order in zip(found, orders, strict=True))


def _in_lines(table: NDArray, kind: np.dtype) -> NDArray:
    """Return a table whose rows lie in one line each, copied if necessary."""
    if table.dtype == kind and table.strides[1] == kind.itemsize and table.flags.aligned:
        return table
    return np.array(table, kind, order="C")


def row_products(X: NDArray, weights: NDArray) -> NDArray:
    """Return X W, (..., n, h) of (..., n, d) and (..., d, h)."""
    return np.ascontiguousarray(products_of_stack(X, weights).swapaxes(-1, -2))


def products_of_stack(X: NDArray, weights: NDArray, height: int = 0) -> NDArray:
    """Return (X W)^T, (..., k, n) of (..., n, d) and (..., d, k); rows up to height are zero."""
    silos, (n, d), k = X.shape[:-2], X.shape[-2:], weights.shape[-1]
    if weights.ndim > 2 and weights.shape[:-2] != silos:
        silos = np.broadcast_shapes(silos, weights.shape[:-2])
        X = np.broadcast_to(X, (*silos, n, d))
        weights = np.broadcast_to(weights, (*silos, d, k))
    kind = X.dtype if X.dtype == weights.dtype else np.result_type(X, weights)
    each, count = weights.reshape(-1, d, k), math.prod(silos)
    alike = len(each) if weights.ndim > 2 else 1  # silos, or all records as those of one
    out = np.empty((max(k, height), count * n), kind)
    edges = _edges(alike, count * n // max(1, alike))
    products_by_class(X.reshape(-1, d), edges, each, out[:k] if height > k else out)
    if height > k:
        out[k:] = 0
    if not silos or len(out) == 1:
        return out.reshape(*silos, len(out), n)
    return np.ascontiguousarray(np.moveaxis(out.reshape(-1, *silos, n), 0, -2))


@lru_cache(maxsize=64)
def _edges(count: int, n: int) -> NDArray:
    """Return the edges of silos of n records each."""
    edges = np.arange(count + 1) * n
    edges.setflags(write=False)
    return edges


#: several silos' features: (S, n, d), or a list of (n_i, d)
Features = NDArray | list[NDArray]

#: most columns that :func:`spare_columns` asks for
SPARE = 3
#: records whose features are converted to another dtype at once
CONVERTED = 2048


def in_one_piece(X: NDArray) -> NDArray:
    """Return features as matrices that BLAS multiplies directly, copied if necessary.

    For other layouts NumPy uses another order of summation, and so does BLAS for narrow matrices
    with gaps between rows. A copy, made when some record is not finite, would then change the last
    bits of the result.
    """
    (n, d), (down, along) = X.shape[-2:], X.strides[-2:]
    by_record = along == X.itemsize and down == d * X.itemsize
    by_feature = down == X.itemsize and along >= n * X.itemsize
    return X if by_record or by_feature else np.ascontiguousarray(X)


def edges_of(X: Features) -> list[int]:
    """Return the start of each silo's records, and the end of the last."""
    return [0, *accumulate(len(x) for x in X)]


def spare_columns(n_records: int, n_features: int, n_outputs: int) -> int:
    """Return the number of zero columns that make an (n, d) by (d, k) product faster.

    It pays from 5 left-over columns on (:func:`_left_over`), except for products so small that the
    copies cost more.
    """
    return _left_over(n_outputs) if n_records * n_features * n_outputs > 2**20 else 0


def _left_over(n_outputs: int) -> int:
    """Return how many columns are missing to a multiple of eight, if they are few.

    Matrix kernels process 8 or more columns at a time: 47 take a third longer than 48 (measured
    with OpenBLAS).
    """
    spare = -n_outputs % 8
    return spare if spare <= SPARE else 0


def raw_by_class(X: NDArray, weights: NDArray, intercept: NDArray | None) -> NDArray:
    """Return the raw predictions (..., k', n)."""
    n_outputs = weights.shape[-1]
    height = n_outputs + spare_columns(X.shape[-2], X.shape[-1], n_outputs)
    out = products_of_stack(X, weights, height)
    if intercept is not None:
        out[..., :n_outputs, :] += intercept[..., None]
    return out


def raws_by_class(X: Features, weights: NDArray, intercept: NDArray | None, n: int) -> NDArray:
    """Return the raw predictions of several silos, (k', n); columns past theirs are zero."""
    n_outputs, edges = weights.shape[-1], edges_of(X)
    by_class = np.empty((n_outputs + _left_over(n_outputs), n), weights.dtype)
    by_class[n_outputs:] = 0
    by_class[:, edges[-1] :] = 0
    raw = by_class[:n_outputs]
    if isinstance(X, np.ndarray) and X.dtype == weights.dtype:
        products_by_class(X.reshape(-1, X.shape[-1]), np.array(edges), weights, raw)
    else:
        for x, w, a in zip(X, weights, edges, strict=False):
            for i in range(0, len(x), CONVERTED):  # converted, if necessary
                some = x[i : i + CONVERTED]
                at = slice(a + i, a + i + len(some))
                products_by_class(some, np.array((0, len(some))), w[None], raw[:, at])
    if intercept is not None:
        raw[:, : edges[-1]] += np.repeat(intercept.T, np.diff(edges), axis=1)
    return by_class


def sums_over_records(
    X: Features, by_class: NDArray, intercept: bool, chunk: int | None
) -> NDArray:
    """Return each silo's sum_j s_j a_j^T, (S, k', d + intercept), from its columns (k', n)."""
    edges = edges_of(X)
    if isinstance(X, np.ndarray):
        apart = by_class[:, : edges[-1]].reshape(len(by_class), *X.shape[:2])
        return sum_over_records(X, apart.swapaxes(0, 1), intercept, chunk)
    parts = (by_class[:, a:b] for a, b in pairwise(edges))
    each = zip(X, parts, strict=True)
    return np.stack([sum_over_records(x, part, intercept, chunk) for x, part in each])


def sum_over_records(X: NDArray, by_class: NDArray, intercept: bool, chunk: int | None) -> NDArray:
    """Return sum_j s_j a_j^T for slopes (..., k', n), at most ``chunk`` records at a time."""
    n = by_class.shape[-1]
    if chunk is None or n <= chunk:
        return _product(X, by_class, intercept)
    count = -(-n // chunk)
    edges = [n * i // count for i in range(count + 1)]
    total = _product(X[..., : edges[1], :], by_class[..., : edges[1]], intercept)
    for start, stop in pairwise(edges[1:]):
        total += _product(X[..., start:stop, :], by_class[..., start:stop], intercept)
    return total


def _product(X: NDArray, by_class: NDArray, intercept: bool) -> NDArray:
    """Return sum_j s_j a_j^T in one matrix product."""
    n_features = X.shape[-1]
    if n_features == 1:  # BLAS adds in another order where the matrix is part of a larger one
        by_class = np.ascontiguousarray(by_class)
    out = np.empty((*by_class.shape[:-1], n_features + intercept), by_class.dtype)
    np.matmul(by_class, X, out=out[..., :n_features])
    if intercept:
        np.add.reduce(by_class, axis=-1, out=out[..., -1])
    return out


def flat(sums: NDArray, n_outputs: int) -> NDArray:
    """Return sums (..., k', d + intercept) as flat parameters (..., P)."""
    by_feature = sums[..., :n_outputs, :].swapaxes(-1, -2)
    return by_feature.reshape(*sums.shape[:-2], -1)


#: bytes that the compiled products keep together
LINE = 64


@dataclass(frozen=True, eq=False)
class Records:
    """Records of several silos: some rows of a table (N, d), in any order or as a slice.

    Silo s has the rows from edges[s] to edges[s + 1] of them; ``edges`` (S + 1,) are int64.
    """

    table: NDArray
    rows: NDArray | slice
    edges: NDArray

    @classmethod
    def in_turn(cls, table: NDArray, lengths: Iterable[int]) -> Records:
        """Return the records of silos stored one after the other, ``lengths`` of each."""
        edges = np.array([0, *accumulate(lengths)], dtype=np.int64)
        return cls(table, slice(0, int(edges[-1])), edges)

    @classmethod
    def of_silos(cls, table: NDArray, each: Sequence[NDArray | slice]) -> Records:
        """Return the records with each silo's rows; adjacent slices are one."""
        lengths = [r.stop - r.start if isinstance(r, slice) else len(r) for r in each]
        edges = np.array([0, *accumulate(lengths)], dtype=np.int64)
        slices = [r for r in each if isinstance(r, slice)]
        if len(slices) == len(each) and all(a.stop == b.start for a, b in pairwise(slices)):
            return cls(table, slice(slices[0].start, slices[-1].stop), edges)
        parts = [np.arange(r.start, r.stop) if isinstance(r, slice) else r for r in each]
        return cls(table, parts[0] if len(parts) == 1 else np.concatenate(parts), edges)

    @cached_property
    def lengths(self) -> NDArray:
        """The silos' numbers of records."""
        return self.edges[1:] - self.edges[:-1]

    @cached_property
    def index(self) -> NDArray:
        """The row numbers, int64."""
        if isinstance(self.rows, slice):
            return np.arange(self.rows.start, self.rows.stop, dtype=np.int64)
        return np.ascontiguousarray(self.rows, np.int64)

    def copied(self) -> Records:
        """Return the records side by side; slices are not copied."""
        X = self.gathered()
        return Records(X, slice(0, len(X)), self.edges)

    def gathered(self) -> NDArray:
        """Return the records (n, d); slices are not copied."""
        if isinstance(self.rows, slice):
            return self.table[self.rows]
        return self.table.take(self.rows, axis=0, mode="clip")


class GroupProducts(Protocol):
    """Both products of one group, the second after the first."""

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        """Return raw predictions (k', n_columns) of parameters (S, P)."""

    def drop_unless(self, good: NDArray) -> None:
        """Set the records that are not good to zero in the sums."""

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        """Return sums (S, P) of slopes, at most ``chunk`` records at a time."""


def group_products(records: Records, n_outputs: int, intercept: bool) -> GroupProducts:
    """Return the fastest products available."""
    make = NumpyProducts if compiled is None else CompiledProducts
    return make(records, n_outputs, intercept)


def is_quick() -> bool:
    """Return whether :func:`group_products` takes few calls for any number of silos.

    If not, it accepts records of another dtype than parameters, and converts some at a time. The
    result does not depend on how many.
    """
    return compiled is not None


class NumpyProducts:
    """Gathers the records; sums are formed by BLAS, silo by silo."""

    def __init__(self, records: Records, n_outputs: int, intercept: bool) -> None:
        X, silos = records.gathered(), len(records.edges) - 1
        alike = silos > 1 and (records.lengths == records.lengths[0]).all()
        each = [X[a:b] for a, b in pairwise(records.edges.tolist())]
        self._X: Features = [in_one_piece(x) for x in each]
        if alike:
            self._X = in_one_piece(X.reshape(silos, -1, X.shape[-1]))
        self._n_outputs, self._intercept = n_outputs, intercept

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        n_weights = params.shape[-1] - self._intercept * self._n_outputs
        weights = params[:, :n_weights].reshape(len(params), -1, self._n_outputs)
        intercept = params[:, n_weights:] if self._intercept else None
        return raws_by_class(self._X, weights, intercept, n_columns)

    def drop_unless(self, good: NDArray) -> None:
        each = zip(self._X, pairwise(edges_of(self._X)), strict=True)
        # arrays of other silos are kept: products of a copy may differ in the last bits
        self._X = [x if good[a:b].all() else zero_unless(good[a:b], x) for x, (a, b) in each]

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        sums = sums_over_records(self._X, by_class, self._intercept, chunk)
        return flat(sums, self._n_outputs)


class CompiledProducts:
    """Reads the records in place; with more than FEW outputs the second product reads a copy."""

    def __init__(self, records: Records, n_outputs: int, intercept: bool) -> None:
        self._n_outputs, self._intercept = n_outputs, intercept
        self._table, self._rows, self._edges = records.table, records.index, records.edges
        in_lines = self._table.strides[1] == self._table.itemsize
        if not (in_lines and self._table.flags.aligned):
            self._hold(records.gathered())

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        if params.strides[1] != params.itemsize:
            params = np.ascontiguousarray(params)
        n, lanes = len(self._rows), LINE // self._table.itemsize
        by_class = np.empty((self._n_outputs, n_columns), self._table.dtype)
        by_class[:, n:] = 0
        where = self._table, self._rows, self._edges, params, by_class
        if self._n_outputs <= FEW:
            compiled.few(*where, self._intercept)
            return by_class
        wide = -(-(self._table.shape[1] + self._intercept) // lanes) * lanes
        self._copy = np.empty(wide * n + lanes, self._table.dtype)
        compiled.raw(*where, self._copy, self._intercept)
        return by_class

    def drop_unless(self, good: NDArray) -> None:
        n, size = len(self._rows), (self._table.shape[1] + self._intercept) * self._n_outputs
        self._hold(zero_unless(good[:n], self._table.take(self._rows, axis=0, mode="clip")))
        if self._n_outputs > FEW:  # for its copy
            self.raw(np.zeros((len(self._edges) - 1, size), self._table.dtype), n)

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        d, intercept, at_once = self._table.shape[1], self._intercept, chunk or len(self._rows) or 1
        out = np.empty((len(self._edges) - 1, (d + intercept) * self._n_outputs), by_class.dtype)
        if self._n_outputs <= FEW:
            where = self._table, self._rows, self._edges
            compiled.few_sums(*where, out, by_class, intercept, at_once)
        else:
            compiled.sums(self._copy, self._edges, by_class, out, d, intercept, at_once)
        return out

    def _hold(self, X: NDArray) -> None:
        """Replace the records by the rows of ``X``."""
        X = X if X.flags.c_contiguous and X.flags.aligned else np.array(X, order="C")
        self._table, self._rows = X, np.arange(len(X), dtype=np.int64)
