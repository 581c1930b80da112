r"""Clipped sums of records' gradients, from what enters and leaves the layers of a module.

Shapes (one silo; T positions of a convolution, or of a sequence)::

    a  (n, [T,] h)     what enters a layer (of a convolution: its patches)
    s  (n, [T,] h')    the gradient of record j's loss in what the layer gives out
    G  (n, P_l)        the gradient of record j in the layer's parameters, sum_t s_t (a_t, 1)^T

``s`` comes from one backward pass that computes no gradient of a parameter. Three ways:

- *ghost*: a Linear layer that each record passes once. Its norm is |(a, 1)| |s|, its clipped sum
  one product; G is not formed.
- *formed*: convolutions and layers passed more than once. G is formed, layer by layer: terms of
  positions may cancel, so that norms of a and s do not bound the rounding of their sum.
- *mapped*: all other parameters. G by ``torch.func.vmap`` of the gradient of one record, or, where
  a module cannot be mapped, record by record.

Formal guarantee
----------------
That of `Model.clipped_gradient_sum`. *Proof.* The module's output for a record depends on that
record only (refused otherwise), so row j of every a, s and G does, and its bits depend neither on
its place nor on the number of records (:mod:`skdpfl.torch._blocks`). Norms of
stored numbers are summed in float64 and rounded once; `skdpfl.models.clip_factors` turns them into
a factor f with ``|f G_j| <= C``, all layers jointly (a formed layer has norms 1 and |G_j|). Ghost
layers add up products of stored (a, 1) and f s, the others of f and stored G: one product for each
record and coordinate, added up in some order, at most ``chunk`` of them before chunks are. Products
are in the full precision of their dtype (a lower one that is set for torch is refused). Where a
norm, a slope or the target is not finite, the record's rows are set to zero, before clipping.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from skdpfl.models import clip_factors, underflow

#: numbers that are squared at once, few enough to stay near the processor
_SQUARED = 2**16


class GradientPart(NamedTuple):
    """Records' gradients in one or two parameters, flat and in their order.

    ``left`` is a (n, h), ``right`` s (n, h') of a ghost layer; of others ``right`` is G and
    ``left`` None. ``names``: the parameters; a ghost layer may have an intercept. ``kernel``: the
    shape of a convolution's weights in G, channels last.
    """

    names: tuple[str, ...]
    left: torch.Tensor | None
    right: torch.Tensor
    kernel: tuple[int, ...] | None = None

    def squared_norms(self) -> tuple[NDArray, NDArray]:
        """Return both factors of the squared norm, (n,) each, in the dtype of the numbers."""
        right = _squared(self.right, 0.0)
        if self.left is None:
            return np.ones_like(right), right
        return _squared(self.left, float(len(self.names) == 2)), right

    def longest(self) -> int:
        """Return the number of terms of the longest sum in a norm."""
        return max(self.right.shape[1], 0 if self.left is None else self.left.shape[1] + 1)

    def masked(self, good: torch.Tensor) -> GradientPart:
        """Return the part with zeros for records that are not good."""
        zero = self.right.new_zeros(())
        left = None if self.left is None else torch.where(good, self.left, zero)
        return self._replace(left=left, right=torch.where(good, self.right, zero))

    def in_order(self, gradients: torch.Tensor) -> torch.Tensor:
        """Return formed gradients (..., P_l) in the order of the parameter."""
        if self.kernel is None:
            return gradients
        shape = gradients.shape
        apart = gradients.reshape(*shape[:-1], *self.kernel)
        return apart.movedim(-1, len(shape)).reshape(shape)

    def sums(self, factors: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield each parameter's sum of f G, flat."""
        if self.left is None:
            yield self.names[0], self.in_order(factors @ self.right)
            return
        slopes = self.right * factors[:, None]
        yield self.names[0], (slopes.T @ self.left).reshape(-1)
        if len(self.names) == 2:
            yield self.names[1], slopes.sum(0)


def factors_of(
    parts: list[GradientPart], clip_norm: float, finite: NDArray
) -> tuple[NDArray | None, NDArray]:
    """Return each record's clip factor (None: no clipping), and which records are finite."""
    squared = [part.squared_norms() for part in parts]
    good = finite.copy()
    for pair in squared:
        for norms in pair:
            good &= np.isfinite(norms)
    squared = [(np.where(good, a, 1), np.where(good, d, 1)) for a, d in squared]
    return clip_factors(squared, clip_norm, max(part.longest() for part in parts)), good


def _squared(values: torch.Tensor, constant: float) -> NDArray:
    """Return |row|^2 + constant, computed in float64, plus a bound of what underflow loses."""
    some = len(values) if values.is_cuda else max(1, _SQUARED // values.shape[1])
    wide = (v.to(torch.float64, copy=True) for v in values.split(some))
    total = torch.cat([v.mul_(v).sum(1) for v in wide]).cpu().numpy()
    kind = np.dtype(str(values.dtype).removeprefix("torch."))
    total += constant + underflow(kind, values.shape[1])
    return total.astype(kind)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Raise unless products of float32 are formed in float32; no autocast within."""
    if _is_lowered():
        raise RuntimeError(
            "Products of float32 are set to a lower precision, which no clip norm allows for. Call "
            'torch.set_float32_matmul_precision("highest") before the fit (or set the backends\' '
            'fp32_precision to "ieee").'
        )
    with torch.autocast(device.type, enabled=False):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute on the calling thread alone: others would share a block between records.

    Threads are for silos (``n_jobs``), and results must not depend on cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_lowered() -> bool:
    """Tell whether matrix products are set to TF32 or bfloat16, on any device."""
    try:  # since torch 2.9; asking in the old way then raises where the new one was used
        backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
        return any(backend.fp32_precision not in ("none", "ieee") for backend in backends)
    except AttributeError:
        return torch.get_float32_matmul_precision() != "highest"
