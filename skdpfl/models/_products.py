"""The linear model's two matrix products, for one silo, a stack of equal silos, or a list of them.

Shapes (k' >= k: zero columns are added because they make products faster; they are not read)::

    X         (..., n, d)    for several silos at once: (S, n, d), or a list of S (n_i, d)
    by_class  (..., k', n)   raw = X W + b, then slopes s_j, one row a class: reductions over
                             classes run along contiguous records
    sums      (..., k', d + intercept)    sum_j s_j a_j^T
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from skdpfl.models._rows import products_by_class, products_of_stack

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
