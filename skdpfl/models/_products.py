"""Products of records and weights, in which no record and no silo depends on another, bit for bit.

A batch is a :class:`Records`: rows of one table, one silo after the other. Shapes (k' >= k:
additional rows of zeros make products faster)::

    X         (n, d)     the records, silo s's from edges[s] to edges[s + 1]
    by_class  (k', n)    raw = X W + b, then slopes s_j, one row a class: reductions over classes
                         run along contiguous records
    sums      (S, P)     sum_j s_j a_j^T of each silo, flat

Formal guarantee
----------------
*Records.* Row j of X W is the same, bit for bit, for any number of rows and at any place among
them. This is not automatic. BLAS computes the last rows of a product differently, so that their
last bits depend on the number of rows; and at the kink of a ReLU or of a clipped residual a last
bit changes a gradient by O(clip norm). How many records a step drew is secret, and amplification by
sampling compares a batch with the same batch and one more record: the others' gradients must not
change. *Proof.* In C each number is one chain of operations over the features, the same for all
rows (``dots.h``, ``tiles.h``). Without compiled code, rows are multiplied in blocks of a fixed
size, the last one of a silo padded, so that the kernel does not depend on their number. First,
made-up rows are tested at all positions of a block, for the numbers of features and outputs. If
positions differ, each row is multiplied separately.

*Silos.* A silo's part of either product depends on its own records, parameters and slopes only:
which operations form it follows from its own number of records. Sums of few records are rows of one
sparse product, each of which adds its own terms in turn. A record of zeros with slope zero
does not change the compiled products. NumPy copies records to remove one that is not finite; the
rounding bounds hold for every order of addition.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skdpfl._compiled import products as compiled
from skdpfl.models._clipping import zero_unless
from skdpfl.models._expanded import BEYOND, ExpandedTable

#: rows that are multiplied at once where nothing is compiled
BLOCK = 16
#: outputs that `few` takes; with more, products in C are faster than BLAS (0.25 to 1 of its time,
#: 0.65 to 1 without AVX-512)
FEW_OUTPUTS = 4
#: records of a silo that are added one after the other where nothing is compiled; more, by BLAS
SHORT_SUM = 64


def products_by_class(X: NDArray, edges: NDArray, weights: NDArray, out: NDArray) -> None:
    """Write raw predictions without intercepts into ``out`` (k, n), for weights (S, d, k)."""
    (n, d), k, kind = X.shape, len(out), out.dtype
    if compiled is None or kind.char not in "fd":
        _by_numpy(np.ascontiguousarray(X, kind), edges, np.ascontiguousarray(weights, kind), out)
        return
    X, flat = _in_lines(X, kind), _in_lines(weights.reshape(-1, d * k), kind)
    compiled.raw(X, np.arange(n), edges, flat, out, None, False)


#: records whose row numbers are in memory at once
_IN_ONE_CALL = 2**16


def products_within(
    X: NDArray, coef: NDArray, intercept: NDArray, low: NDArray, high: NDArray
) -> NDArray | None:
    """Return what X, cut to [low, high], gives for ``coef`` (k, d) and ``intercept`` (k,): (n, k).

    Each row's bits are its own, in any layout. None: this is compiled for few outputs, of the dtype
    of X, only.
    """
    kind, (k, d), n = X.dtype, coef.shape, len(X)
    alike = coef.dtype == intercept.dtype == kind and kind.char in "fd"
    if compiled is None or k > FEW_OUTPUTS or not alike:
        return None
    limits, flat = np.zeros((2, d + BEYOND), kind), np.concatenate([coef.T.ravel(), intercept])
    limits[:, :d] = low, high
    out, rows = np.empty((k, n), kind), np.arange(min(n, _IN_ONE_CALL))
    for start in range(0, n, _IN_ONE_CALL):
        some = _in_lines(X[start : start + _IN_ONE_CALL], kind)
        where = some, rows[: len(some)], np.array([0, len(some)]), flat[None]
        compiled.raw(*where, out[:, start : start + len(some)], None, True, limits.ravel())
    return out.T


def _by_numpy(X: NDArray, edges: NDArray, weights: NDArray, out: NDArray) -> None:
    (d, k), kind = weights.shape[1:], out.dtype
    products = _in_blocks if _places_are_alike(d, k, kind) else _by_output
    for silos, rows, n in of_one_length(edges):
        out[:, rows] = products(X[rows].reshape(-1, n, d), weights[silos]).reshape(-1, k).T


def of_one_length(edges: NDArray) -> Iterator[tuple[Any, Any, int]]:
    """Yield silos of equal length, their records, and the length; without empty silos."""
    lengths = edges[1:] - edges[:-1]
    if len(lengths) and (lengths == lengths[0]).all():
        if lengths[0]:
            yield slice(None), slice(0, int(edges[-1])), int(lengths[0])
        return
    for n in set(lengths.tolist()) - {0}:
        silos = np.flatnonzero(lengths == n)
        start = int(edges[silos[0]])
        if len(silos) == 1:
            yield silos, slice(start, start + n), n
        else:
            yield silos, (edges[silos, None] + np.arange(n)).ravel(), n


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
    """Test whether made-up rows have the same bits at all positions of a block."""
    made_up = np.random.default_rng(0)
    rows, W = made_up.normal(size=(5, d)).astype(kind), made_up.normal(size=(1, d, k)).astype(kind)
    orders = [np.arange(BLOCK) % 5, np.arange(1, 3 * BLOCK) % 5]
    results = [_in_blocks(rows[order][None], W)[0] for order in orders]
    want = results[0][:5]
    return all(np.array_equal(f, want[order]) for f, order in zip(results, orders, strict=True))


def _in_lines(table: NDArray, kind: np.dtype) -> NDArray:
    """Return a table with contiguous rows, copied if necessary."""
    if table.dtype == kind and table.strides[1] == kind.itemsize and table.flags.aligned:
        return table
    return np.array(table, kind, order="C")


def row_products(X: NDArray, weights: NDArray, edges: NDArray | None = None) -> NDArray:
    """Return X W, (n, h), for weights (d, h) of all records or (S, d, h) of the silos."""
    if weights.ndim == 2:
        weights, edges = weights[None], np.array([0, len(X)])
    assert edges is not None
    out = np.empty((weights.shape[-1], len(X)), np.result_type(X, weights))
    products_by_class(X, edges, weights, out)
    return np.ascontiguousarray(out.T)


#: most rows of zeros that make a product faster
SPARE = 3


def _left_over(n_outputs: int) -> int:
    """Return the number of outputs missing to a multiple of eight, if small.

    Matrix kernels process 8 or more at a time: 47 take a third longer than 48 (measured with
    OpenBLAS).
    """
    spare = -n_outputs % 8
    return spare if spare <= SPARE else 0


def sum_over_records(X: NDArray, by_class: NDArray, intercept: bool, chunk: int | None) -> NDArray:
    """Return silos' sum_j s_j a_j^T, (..., k', d + intercept), ``chunk`` records at a time."""
    n = by_class.shape[-1]
    count = 1 if chunk is None else max(1, -(-n // chunk))
    edges = [n * i // count for i in range(count + 1)]
    cuts = starmap(slice, pairwise(edges))
    parts = (_product(X[..., c, :], by_class[..., c], intercept) for c in cuts)
    total = next(parts)
    for part in parts:
        total += part
    return total


def _product(X: NDArray, by_class: NDArray, intercept: bool) -> NDArray:
    """Return sum_j s_j a_j^T in one matrix product."""
    d = X.shape[-1]
    out = np.empty((*by_class.shape[:-1], d + intercept), by_class.dtype)
    np.matmul(by_class, X, out=out[..., :d])
    if intercept:
        np.add.reduce(by_class, axis=-1, out=out[..., -1])
    return out


#: bytes that the compiled products keep together
LINE = 64


@dataclass(frozen=True, eq=False)
class Records:
    """Records of several silos: some rows of a table (N, d), in any order or as a slice.

    Silo s has those from edges[s] to edges[s + 1]; ``edges`` (S + 1,) are int64.
    """

    table: NDArray | ExpandedTable
    rows: NDArray | slice
    edges: NDArray

    @classmethod
    def in_turn(cls, table: NDArray, lengths: Iterable[int]) -> Records:
        """Return the records of silos stored one after the other, with these ``lengths``."""
        edges = np.array([0, *accumulate(lengths)], dtype=np.int64)
        return cls(table, slice(0, int(edges[-1])), edges)

    @classmethod
    def of_silos(cls, table: NDArray | ExpandedTable, each: Sequence[NDArray | slice]) -> Records:
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

    @property
    def index(self) -> NDArray:
        """The row numbers, int64."""
        rows = self.rows
        return self._counted if isinstance(rows, slice) else np.ascontiguousarray(rows, np.int64)

    @cached_property
    def _counted(self) -> NDArray:
        """The numbers of the rows of a slice."""
        assert isinstance(self.rows, slice)
        return np.arange(self.rows.start, self.rows.stop, dtype=np.int64)

    @cached_property
    def members(self) -> Any:
        """A sparse matrix (S, n) with room for a number of each record in its silo's row."""
        n = int(self.edges[-1])
        return csr_array((np.empty(n), np.arange(n), self.edges), shape=(len(self.lengths), n))

    def copied(self) -> Records:
        """Return the records as a contiguous copy; slices are not copied."""
        X = self._own()
        return Records(X, slice(0, len(X)), self.edges)

    def gathered(self) -> NDArray:
        """Return the records (n, d); slices of arrays are not copied."""
        X = self._own()
        return X.dense() if isinstance(X, ExpandedTable) else X

    def _own(self) -> NDArray | ExpandedTable:
        if isinstance(self.rows, slice):
            return self.table[self.rows]
        return self.table.take(self.rows, axis=0, mode="clip")


class Descent(NamedTuple):
    """Gradient steps of several silos: see `skdpfl.algorithms.Gradient.descent`.

    ``divisor`` (S,) of the sums, ``penalty`` (P,) the factors of the parameters, ``correction``
    (S, P) or (P,); their dtype is that of the records.
    """

    n_steps: int
    divisor: NDArray
    penalty: NDArray | None
    correction: NDArray | None
    rate: float
    momentum: float


class NumpyProducts:
    """Both products of one group, the second after the first, of records that are gathered.

    Sums of many records are formed by BLAS, silo by silo.
    """

    def __init__(self, records: Records, n_outputs: int, intercept: bool) -> None:
        self._X, self._edges = np.ascontiguousarray(records.gathered()), records.edges
        self._n_outputs, self._intercept, self._records = n_outputs, intercept, records

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        """Return raw predictions (k', n_columns) of parameters (S, P), or of the same (P,)."""
        k, n = self._n_outputs, len(self._X)
        by_class = np.zeros((k + _left_over(k), n_columns), params.dtype)
        n_weights, edges = self._X.shape[1] * k, self._edges
        alike = params.ndim == 1  # records of all silos as those of one
        each, ends = (params[None], edges[[0, -1]]) if alike else (params, edges)
        weights = each[:, :n_weights].reshape(len(each), -1, k)
        products_by_class(self._X, ends, weights, by_class[:k, :n])
        if self._intercept:
            tail = each[:, n_weights:].T
            by_class[:k, :n] += tail if alike else tail.repeat(self._records.lengths, axis=1)
        return by_class

    def drop_unless(self, good: NDArray) -> None:
        """Set the records that are not good to zero in the sums."""
        self._X = zero_unless(good[: len(self._X)], self._X)

    def with_edges(self, edges: NDArray) -> NumpyProducts:
        """Return the products with sums between other edges."""
        other = copy.copy(self)
        other._edges, other._records = edges, replace(self._records, edges=edges)
        return other

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        """Return sums (S, P) of slopes, at most ``chunk`` records at a time."""
        k, edges, lengths = self._n_outputs, self._edges, self._records.lengths
        n, d = self._X.shape
        most = min(SHORT_SUM, chunk or SHORT_SUM) if self._n_outputs <= FEW_OUTPUTS else 0
        out = np.zeros((len(lengths), len(by_class), d + self._intercept), by_class.dtype)
        short = lengths <= most
        if short.any():
            members = self._records.members
            for c, slopes in enumerate(by_class[:k, :n]):
                members.data = slopes
                out[:, c, :d] = members @ self._X
                if self._intercept and n:
                    some = np.flatnonzero(lengths)
                    out[some, c, d] = np.add.reduceat(slopes, edges[some])
        for silos, rows, m in () if short.all() else of_one_length(edges):
            if m > most:
                # in one layout: BLAS adds in another order where a matrix is part of a larger one
                slopes = by_class[:, rows].reshape(len(by_class), -1, m).swapaxes(0, 1)
                X = self._X[rows].reshape(-1, m, d)
                out[silos] = sum_over_records(
                    X, np.ascontiguousarray(slopes), self._intercept, chunk
                )
        return out[:, :k].swapaxes(1, 2).reshape(len(out), -1)


class CompiledProducts:
    """The same, of records in place; with more than FEW_OUTPUTS the second product reads a copy."""

    def __init__(self, records: Records, n_outputs: int, intercept: bool) -> None:
        self._n_outputs, self._intercept = n_outputs, intercept
        self._rows, self._edges, table = records.index, records.edges, records.table
        self._dtype, self._width, self._records = table.dtype, table.shape[1], records
        self._copy: NDArray | None = None
        self._table: NDArray | tuple[Any, ...]
        if isinstance(table, ExpandedTable):
            self._table = table.for_compiled()
        else:
            self._table = table
            if not (table.strides[1] == table.itemsize and table.flags.aligned):
                self._hold(records.gathered())

    def step(
        self,
        params: NDArray,
        y: NDArray,
        *,
        limits: NDArray,
        link: int,
        weights: NDArray | None = None,
        chunk: int | None = None,
        descent: Descent | None = None,
    ) -> NDArray:
        """Return the sums (S, P) of one output's slopes in one pass; of a descent, where it leads.

        Slopes, by their ``link`` (see products.pyi), are cut to ``limits``. They are 0 where
        anything is not finite or the limit is NaN, whatever the record holds.
        """
        kind = self._dtype
        params = self._of_each(params)
        y = y if y.dtype == kind and y.flags.c_contiguous else np.ascontiguousarray(y, kind)
        out = np.empty(params.shape, kind)
        arguments = (
            self._table,
            self._rows,
            self._edges,
            params,
            out,
            y,
            limits if limits.dtype == kind else limits.astype(kind),
            None if weights is None else np.ascontiguousarray(weights, kind),
            self._intercept,
            chunk or max(1, len(self._rows)),
            link,
        )
        if descent is None:
            compiled.step(*arguments)
            return out
        correction = descent.correction
        each = None if correction is None else self._of_each(correction)
        n_steps, divisor, penalty, _, rate, momentum = descent
        compiled.descent(*arguments, n_steps, divisor, penalty, each, rate, momentum)
        return out

    def persons(
        self,
        params: NDArray,
        y: NDArray,
        *,
        limits: NDArray,
        link: int,
        edges: NDArray,
        norms: NDArray | None,
        clip: NDArray,
        mean: bool,
        chunk: int | None,
    ) -> NDArray:
        """Return the sums (S, P) of persons' slopes of one output; see products.pyi."""
        kind = self._dtype
        params = self._of_each(params)
        out = np.empty(params.shape, kind)
        compiled.persons(
            self._table,
            self._rows,
            self._edges,
            params,
            out,
            np.ascontiguousarray(y, kind),
            limits.astype(kind, copy=False),
            None,
            self._intercept,
            chunk or max(1, len(self._rows)),
            link,
            np.ascontiguousarray(edges, np.int64),
            None if norms is None else norms.astype(kind, copy=False),
            np.ascontiguousarray(clip, kind),
            mean,
        )
        return out

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        params = self._of_each(params)
        n, lanes = len(self._rows), LINE // self._dtype.itemsize
        by_class = np.empty((self._n_outputs, n_columns), self._dtype)
        by_class[:, n:] = 0
        if self._n_outputs > FEW_OUTPUTS:
            wide = -(-(self._width + self._intercept) // lanes) * lanes
            self._copy = np.empty(wide * n + lanes, self._dtype)
        where = self._table, self._rows, self._edges, params, by_class
        compiled.raw(*where, self._copy, self._intercept)
        return by_class

    def drop_unless(self, good: NDArray) -> None:
        if self._n_outputs <= FEW_OUTPUTS:  # records of slope 0 are not read
            return
        n, size = len(self._rows), (self._width + self._intercept) * self._n_outputs
        self._hold(zero_unless(good[:n], self._records.gathered()))
        self.raw(np.zeros((len(self._edges) - 1, size), self._dtype), n)  # for its copy

    def with_edges(self, edges: NDArray) -> CompiledProducts:
        other = copy.copy(self)
        other._edges = np.ascontiguousarray(edges, np.int64)
        return other

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        d, intercept, at_once = self._width, self._intercept, chunk or len(self._rows) or 1
        out = np.empty((len(self._edges) - 1, (d + intercept) * self._n_outputs), by_class.dtype)
        if self._n_outputs <= FEW_OUTPUTS:
            where = self._table, self._rows, self._edges
            compiled.row_sums(*where, out, by_class, intercept, at_once)
        else:
            compiled.sums(self._copy, self._edges, by_class, out, d, intercept, at_once)
        return out

    def _of_each(self, params: NDArray) -> NDArray:
        """Return the parameters of each silo (S, P)."""
        if params.ndim == 1:
            return params[None].repeat(len(self._edges) - 1, axis=0)
        return params if params.strides[1] == params.itemsize else np.ascontiguousarray(params)

    def _hold(self, X: NDArray) -> None:
        """Replace the records by the rows of ``X``."""
        X = X if X.flags.c_contiguous and X.flags.aligned else np.array(X, order="C")
        self._table, self._rows = X, np.arange(len(X), dtype=np.int64)


def reads_in_place(n_outputs: int) -> bool:
    """Whether products for so many outputs store no copy of the records' columns."""
    return compiled is not None and n_outputs <= FEW_OUTPUTS


def group_products(
    records: Records, n_outputs: int, intercept: bool
) -> NumpyProducts | CompiledProducts:
    """Return the fastest products available."""
    make = NumpyProducts if compiled is None else CompiledProducts
    return make(records, n_outputs, intercept)
