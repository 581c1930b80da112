"""Products of records and weights, in which no record depends on another, bit for bit.

Formal guarantee. Row j of X W is the same, bit for bit, for any number of rows and at any place
among them. This is not automatic. BLAS computes the last rows of a product in another way, so that
their last bits tell how many rows there are; and at an edge of ReLU or of a clipped residual a last
bit changes a gradient by O(clip norm). How many records a step drew is secret, and amplification by
sampling compares a batch with the same batch and one more record: the others' gradients must not
change. *Proof.* Each number is one chain of operations over the features, the same for all rows:
in C (``dots.h``, ``tiles.h``), or by NumPy's ``einsum`` of each row and a contiguous vector.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skdpfl._compiled import products as compiled

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
        compiled.few(X, edges, flat, out)
        return
    compiled.raw(X, np.arange(n), edges, flat, out, None, False)


def _by_numpy(X: NDArray, edges: NDArray, weights: NDArray, out: NDArray) -> None:
    by_output = np.array(weights.transpose(2, 0, 1), out.dtype, order="C")
    (n, d), silos = X.shape, len(weights)
    if silos and n % silos == 0 and (edges == np.arange(silos + 1) * (n // silos)).all():
        stack = X.reshape(silos, n // silos, d)
        for row, each in zip(out, by_output, strict=True):
            row[:n] = np.einsum("sjd,sd->sj", stack, each).reshape(n)
        return
    for s, (a, b) in enumerate(pairwise(edges.tolist())):
        for row, each in zip(out, by_output, strict=True):
            np.einsum("jd,d->j", X[a:b], each[s], out=row[a:b])


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
