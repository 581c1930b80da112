"""Blocks of a fixed number of records, in which bits do not depend on a record's position.

The number of records in a step is secret, and amplification by sampling compares a batch with the
same batch plus one record: no bit of the other records' gradients may change. But PyTorch's
libraries choose kernels by the number of rows, and compute the last rows of a product differently.

Formal guarantee. The gradient of a record is the same, bit for bit, whatever other records there
are. *Proof.* Records are computed in blocks of fixed sizes, the last one padded with records of
weight zero, so the kernel does not depend on their number. On a CPU one thread computes a block; a
matrix product is one chain of operations for each number of the result
(:mod:`skdpfl.torch._products`); and block sizes are such that no elementwise function has a
remainder that is computed differently. Everything else, and on other devices all of it, is tested
on made-up records at each position of a block, for the module, dtype, device and sizes in use. What
depends on a position is the order of operations, not the values, so it shows in the bits of some of
these results. If positions differ, or if operations or shapes depend on the records' values (parts
of the batch with separate layers), records are computed one by one. Several sizes are used if they
also agree in all bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from skdpfl.torch._fitted import Params
from skdpfl.torch._products import RowProducts, SeenOperations
from skdpfl.torch._tape import Tape

#: records of a block, the largest first; smaller ones are for what is left, whole
SIZES = (128, 96, 80, 64, 48, 32, 24, 16, 8)
#: and larger ones for devices, where a block of a thousand takes no longer than one of a hundred
ON_DEVICES = (1024, 256)


class Blocks(NamedTuple):
    """The sizes of blocks, and whether every operation is checked for products."""

    sizes: tuple[int, ...]
    looked_for: bool

    def products(self) -> AbstractContextManager[Any]:
        """Return the context in which a block is computed."""
        return RowProducts() if self.looked_for else nullcontext()


def blocks_for(
    tape: Tape, params: Params, rows: torch.Tensor, slopes: torch.Tensor, most: int
) -> Blocks:
    """Return block sizes for which made-up records have the same bits at all positions.

    ``most`` is the number of records that fit into memory at once.
    """
    if tape.alone:
        return Blocks((1,), False)
    on_cpu = rows.device.type == "cpu"
    m, known = len(rows), SIZES if on_cpu else (*ON_DEVICES, *SIZES[::3])
    sizes = [size for size in known if size <= most] or [most]
    looked_for = False
    if on_cpu:
        trace = _seen(tape, params, rows, slopes)
        looked_for = trace.used
        for i in range(m):
            alike = [values[[i] * m] for values in (rows, slopes)]
            if _seen(tape, params, *alike).results != trace.results:
                return Blocks((1,), looked_for)

    def bits(order: torch.Tensor) -> list[torch.Tensor]:
        with Blocks((), looked_for).products():
            return _bits(tape, params, rows[order], slopes[order])

    def has_ends(size: int) -> bool:
        order = torch.arange(size) % m
        return on_cpu and _seen(tape, params, rows[order], slopes[order]).has_ends(size)

    def agrees(size: int, want: list[torch.Tensor]) -> bool:
        for shift in range(2):
            order = (torch.arange(size) + shift) % m
            if not all(torch.equal(f, w[order]) for f, w in zip(bits(order), want, strict=True)):
                return False
        return True

    sizes = [size for size in sizes if not has_ends(size)]
    while sizes:
        want = [values[:m] for values in bits(torch.arange(sizes[0]) % m)]
        alike = [size for size in sizes if agrees(size, want)]
        if alike[:1] == sizes[:1]:
            return Blocks(tuple(alike), looked_for)
        sizes = sizes[1:]
    return Blocks((1,), looked_for)


def _seen(tape: Tape, params: Params, rows: torch.Tensor, slopes: torch.Tensor) -> SeenOperations:
    """Return the operations of a block, and their results' shapes."""
    with SeenOperations() as seen:
        _bits(tape, params, rows, slopes)
    return seen


def _bits(
    tape: Tape, params: Params, rows: torch.Tensor, slopes: torch.Tensor
) -> list[torch.Tensor]:
    """Return the results for a block, with their bits as integers."""
    raw = tape.forward(params, rows)
    values = [raw.detach()]
    if raw.device.type != "cpu":  # slopes of losses are computed there, too
        values += [values[0].softmax(1)]
    for part in tape.parts(params, rows, raw, slopes):
        values += [part.right] if part.left is None else [part.left, part.right]
        values += part.squared_norms()
    kind = {torch.float32: torch.int32, torch.float64: torch.int64}
    return [v.detach().cpu().contiguous().view(kind[v.dtype]) for v in values]


def cut(rows: slice, sizes: tuple[int, ...]) -> Iterator[tuple[slice, int]]:
    """Yield the records of each block, and its size: the largest, or the least for the rest.

    A second block of a few records would take longer than some empty rows.
    """
    start, stop = rows.start, rows.stop
    while start < stop:
        size = min((size for size in sizes if size >= stop - start), default=sizes[0])
        yield slice(start, min(stop, start + size)), size
        start += size


def filled(values: np.ndarray, size: int) -> np.ndarray:
    """Return a block's values, padded by repeats of the first."""
    if len(values) == size:
        return values
    return np.concatenate([values, np.repeat(values[:1], size - len(values), axis=0)])
