"""What enters the layers of a fully connected network, and what leaves them backwards.

Notation is that of :mod:`skdpfl.models._network`. Every function here but :func:`outer_sums` acts
on rows: row j of its result depends on row j of records, and on the weights.

Formal guarantee. With ``exact``, that holds bit for bit: neither the number of rows nor a row's
place changes it. *Proof.* Products are those of :mod:`skdpfl.models._rows`; activations and losses
act on single numbers or sum over a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skdpfl.models._activations import Activation
from skdpfl.models._rows import row_products

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
