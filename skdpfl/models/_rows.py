"""Products of records and weights, in which no record depends on another, bit for bit.

Formal guarantee. Row j of X W is the same, bit for bit, for any number of rows and at any place
among them. This is not automatic. BLAS computes the last rows of a product in another way, so that
their last bits tell how many rows there are; and at an edge of ReLU or of a clipped residual a last
bit changes a gradient by O(clip norm). How many records a step drew is secret, and amplification by
sampling compares a batch with the same batch and one more record: the others' gradients must not
change. *Proof.* In C each number is one chain of operations over the features, the same for all
rows (``dots.h``, ``tiles.h``). Where nothing is compiled, rows are multiplied in blocks of a fixed
size, the last one filled up, so that no kernel is chosen by their number; made-up rows are tried at
all places of a block first, for the numbers of features and outputs. If places differ, each row is
multiplied by itself.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skdpfl._compiled import products as compiled

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
        compiled.few(X, edges, flat, out)
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
