"""What enters the layers of a fully connected network, and what leaves them backwards.

Notation is that of :mod:`skdpfl.models._network`. Every function here but :func:`outer_sums` acts
on rows: row j of its result depends on row j of records, and on the weights.

Formal guarantee. With ``exact``, that holds bit for bit: neither the number of rows nor a row's
place changes it. This is not automatic. BLAS computes the last rows of a product in another way,
so that their last bits tell how many rows there are, and at an edge of ReLU or of a loss a last bit
changes a gradient by O(clip norm). How many records a step drew is secret, and amplification by
sampling compares a batch with the same batch and one more record: the others' gradients must not
change. *Proof.* Compiled products are one chain of operations for each number, in the order of the
features; without them each row is multiplied by itself, by a call of the same shape. Activations
and losses act on single numbers or sum over a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skdpfl._compiled import products as compiled
from skdpfl.models._activations import Activation
from skdpfl.models._groups import LINE

#: weights (..., h_l, h_{l+1}) and intercepts (..., h_{l+1}) of a layer
Layer = tuple[NDArray, NDArray]


def forward(
    layers: Sequence[Layer], activation: Activation, X: NDArray, exact: bool = False
) -> tuple[list[NDArray], NDArray]:
    """Return what enters each layer, and the raw predictions."""
    entering, z = [], X
    product = row_products if exact else np.matmul
    for i, (weights, intercept) in enumerate(layers):
        entering.append(z if i == 0 else activation.value(z))
        z = product(entering[-1], weights)
        z += intercept[..., None, :]
    return entering, z


def backward(
    layers: Sequence[Layer], activation: Activation, entering: Sequence[NDArray], last: NDArray
) -> list[NDArray]:
    """Return the slopes s_l of all layers, in their order, exact; ``last`` are those of raw."""
    slopes = [last]
    for (weights, _), a in zip(layers[:0:-1], entering[:0:-1], strict=True):
        slopes.append(row_products(slopes[-1], np.swapaxes(weights, -1, -2)))
        slopes[-1] *= activation.slope(a)
    return slopes[::-1]


def row_products(X: NDArray, weights: NDArray) -> NDArray:
    """Return X W, (..., n, h) of (..., n, d) and (..., d, h), each row's bits its own."""
    kind = np.result_type(X, weights)
    if compiled is None or kind.char not in "fd":
        return np.matmul(X[..., None, :], weights[..., None, :, :])[..., 0, :]
    shape = np.broadcast_shapes(X.shape[:-2], weights.shape[:-2])
    (n, d), h = X.shape[-2:], weights.shape[-1]
    if weights.ndim > 2:
        weights = np.broadcast_to(weights, (*shape, d, h))
    silos = math.prod(weights.shape[:-2])
    table = np.ascontiguousarray(np.broadcast_to(X, (*shape, n, d)), kind).reshape(-1, d)
    by_unit, lanes = np.empty((h, len(table)), kind), LINE // kind.itemsize
    compiled.raw(
        table,
        np.arange(len(table)),
        np.arange(silos + 1) * (len(table) // silos),
        np.ascontiguousarray(weights, kind).reshape(silos, -1),
        by_unit,
        np.empty((-(-d // lanes) * len(table) + 1) * lanes, kind),  # room for a copy of the records
        False,
    )
    return np.ascontiguousarray(by_unit.T).reshape(*shape, n, h)


def finite(squared: Sequence[tuple[NDArray, NDArray]], y: NDArray) -> NDArray:
    """Return which records have finite norms and targets throughout, (..., n)."""
    norms = [norm for pair in squared for norm in pair]
    good = np.isfinite(norms[0])
    for norm in norms[1:]:
        good = good & np.isfinite(norm)
    return good & np.isfinite(y) if y.dtype.kind == "f" else good


def outer_sums(out: Sequence[Layer], entering: list[NDArray], slopes: list[NDArray]) -> None:
    """Write each layer's sum over records of (a_l, 1) s_l^T into ``out``."""
    for (weights, intercept), a, s in zip(out, entering, slopes, strict=True):
        np.matmul(np.swapaxes(a, -1, -2), s, out=weights)
        np.add.reduce(s, axis=-2, out=intercept)


def pieces(n: int, chunk: int | None) -> Iterator[slice]:
    """Yield slices of equal length, of at most ``chunk`` records."""
    count = 1 if chunk is None else max(1, -(-n // chunk))
    return (slice(a, b) for a, b in pairwise(n * i // count for i in range(count + 1)))
