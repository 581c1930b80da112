"""Blocks of a fixed number of records, in which a record's bits do not depend on its place.

How many records a step drew is secret, and amplification by sampling compares a batch with the same
batch and one more record: no bit of the others' gradients may change. But PyTorch's libraries
choose their kernels by the number of rows, and compute the last rows of a product in another way.

Formal guarantee. The gradient of a record is the same, bit for bit, whatever other records there
are. *Proof.* Records are computed in blocks of a size that is known beforehand, the last one filled
up with records of weight zero, so no kernel is chosen by their number. Within a block: on a CPU the
product of two matrices is one chain of operations for each number of the result
(:class:`RowProducts`); everything else, and on other devices all of it, is tried on made-up records
at each place of a block, for the module, dtype, device and sizes that are used. What depends on a
place is an order of operations, not the values: other bits of some of these results show it. Where
places differ, records are computed one by one.

Several sizes are used if they agree, too, in all bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from skdpfl.models import row_products
from skdpfl.torch._layout import Params
from skdpfl.torch._tape import Tape

#: records of a block, the largest first; smaller ones are for what is left
SIZES = (128, 64, 32, 16, 8)


class RowProducts(TorchDispatchMode):
    """Products of matrices whose numbers do not depend on how many rows there are."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        """Return what an operation gives."""
        given, aten = kwargs or {}, torch.ops.aten
        if func is aten.mm.default:
            return _product(*args)
        if func is aten.addmm.default and not given:
            return _product(*args[1:]).add_(args[0])
        if func is aten.bmm.default and len(args[0]) == 1:
            return _product(args[0][0], args[1][0])[None]
        result: torch.Tensor = func(*args, **given)
        return result


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(row_products(a.detach().numpy(), b.detach().numpy()))


def exact_products(device: torch.device) -> AbstractContextManager[Any]:
    """Return what products are computed in."""
    return RowProducts() if device.type == "cpu" else nullcontext()


def sizes_for(
    tape: Tape, params: Params, rows: torch.Tensor, slopes: torch.Tensor, most: int
) -> tuple[int, ...]:
    """Return the sizes of blocks that give made-up records the same bits at all places.

    ``most``: records that memory holds at once.
    """
    m, sizes = len(rows), [size for size in SIZES if size <= most] or [most]

    def agrees(size: int, want: list[torch.Tensor]) -> bool:
        for shift in range(2):
            order = (torch.arange(size) + shift) % m
            found = _bits(tape, params, rows[order], slopes[order])
            if not all(torch.equal(f, w[order]) for f, w in zip(found, want, strict=True)):
                return False
        return True

    while sizes:
        order = torch.arange(sizes[0]) % m
        want = [bits[:m] for bits in _bits(tape, params, rows[order], slopes[order])]
        alike = [size for size in sizes if agrees(size, want)]
        if alike[:1] == sizes[:1]:
            return tuple(alike)
        sizes = sizes[1:]
    return (1,)


def _bits(
    tape: Tape, params: Params, rows: torch.Tensor, slopes: torch.Tensor
) -> list[torch.Tensor]:
    """Return what is computed for a block, as whole numbers."""
    with exact_products(rows.device):
        raw = tape.forward(params, rows)
        parts = tape.parts(params, rows, raw, slopes)
    values = [raw.detach()]
    for part in parts:
        values += [part.right] if part.left is None else [part.left, part.right]
        values += [torch.from_numpy(norms) for norms in part.squared_norms()]
    kind = {torch.float32: torch.int32, torch.float64: torch.int64}
    return [v.detach().cpu().contiguous().view(kind[v.dtype]) for v in values]


def cut(n: int, sizes: tuple[int, ...]) -> Iterator[tuple[slice, int]]:
    """Yield the records of each block, and its size: the smallest that takes what is left."""
    for start in range(0, n, sizes[0]):
        left = min(sizes[0], n - start)
        yield slice(start, start + left), min(size for size in sizes if size >= left)


def filled(values: np.ndarray, size: int) -> np.ndarray:
    """Return a block's values, the first one repeated at its end."""
    if len(values) == size:
        return values
    return np.concatenate([values, np.repeat(values[:1], size - len(values), axis=0)])
