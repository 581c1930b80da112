"""Matrix products on a CPU whose bits do not depend on the number of rows.

Each number is one chain of operations (:mod:`skdpfl.models._products`). Linear layers use
:class:`LinearRows`. Products in functions and in layers such as LSTM are replaced by
:class:`RowProducts`, which checks every operation and takes time for each. :class:`SeenOperations`
reports which other operations may depend on a record's position.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from skdpfl.models import row_products

#: dtypes of matrices whose products are computed so
_DTYPES = torch.float32, torch.float64
#: bytes of a piece: two of the largest registers
_PIECE_BYTES = 128
#: functions of each number that are rounded once, so in one way ("add" without ``alpha``), and
#: others that lack the tag
_ROUNDED_ALIKE = frozenset((
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "relu", "threshold", "threshold_backward",
    "leaky_relu", "hardtanh", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "where",
    "sgn", "sign", "floor", "ceil", "round", "trunc", "clone", "fill", "masked_fill",
))  # fmt: skip
_UNTAGGED = frozenset({"glu", "elu_backward", "softplus_backward", "mish_backward"})


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a b."""
    if not a.numel():  # a part of the records that is empty
        return a.new_zeros(len(a), b.shape[1])
    a, b = (v.detach().resolve_neg() for v in (a, b))
    return torch.from_numpy(row_products(a.numpy(), b.numpy()))


class LinearRows(torch.autograd.Function):
    """x W^T + b, and the gradient in x; gradients in parameters are not needed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
        """Return the output of the layer."""
        ctx.save_for_backward(weight)
        left = product(x.reshape(-1, x.shape[-1]), weight.T)
        if bias is not None:
            left += bias
        return left.reshape(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradient in x."""
        (weight,) = ctx.saved_tensors
        (s,) = slopes
        back = product(s.reshape(-1, len(weight)), weight)
        return back.reshape(*s.shape[:-1], weight.shape[1]), None, None


def _forward(layer: nn.Linear, input: torch.Tensor) -> Any:
    return LinearRows.apply(input, layer.weight, layer.bias)  # type: ignore[no-untyped-call]


def use_linear_rows(module: nn.Module) -> None:
    """Make a module's Linear layers use these products, in place."""
    for layer in module.modules():
        if type(layer) is nn.Linear:
            layer.forward = partial(_forward, layer)  # type: ignore[method-assign]


class RowProducts(TorchDispatchMode):
    """A mode with these matrix products; ``used``: whether there were any."""

    def __init__(self) -> None:
        super().__init__()
        self.used = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        """Return what an operation gives."""
        options, aten = kwargs or {}, torch.ops.aten
        if func is aten.mm.default and args[0].dtype in _DTYPES:
            self.used = True
            return product(*args)
        if func is aten.addmm.default and not options and args[0].dtype in _DTYPES:
            self.used = True
            return product(*args[1:]).add_(args[0])
        if func is aten.bmm.default and len(args[0]) == 1 and args[0].dtype in _DTYPES:
            self.used = True
            return product(args[0][0], args[1][0])[None]
        result: torch.Tensor = func(*args, **options)
        return result


class SeenOperations(RowProducts):
    """A mode that also records operations: ``results`` has the shapes and dtypes of their results.

    PyTorch computes many functions in pieces of two registers, and the remainder at the end
    differently, with last bits that sometimes differ.
    """

    def __init__(self) -> None:
        super().__init__()
        self.results: list[tuple[Any, tuple[int, ...], torch.dtype, bool]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        """Return what an operation gives."""
        result = super().__torch_dispatch__(func, types, args, kwargs)
        scaled = (kwargs or {}).get("alpha", 1) != 1
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self.results.append((func, tuple(value.shape), value.dtype, scaled))
        return result

    def has_ends(self, size: int) -> bool:
        """Whether such a function of ``size`` records has a remainder."""
        return any(
            dtype.is_floating_point
            and math.prod(shape) % size == 0
            and math.prod(shape) * dtype.itemsize % _PIECE_BYTES
            and (scaled or _is_by_pieces(func))
            for func, shape, dtype, scaled in self.results
        )


def _is_by_pieces(func: Any) -> bool:
    """Whether an operation is an elementwise function whose rounding may differ."""
    name = func.overloadpacket.__name__.rstrip("_")
    pointwise = torch.Tag.pointwise in func.tags or name in _UNTAGGED
    return pointwise and name not in _ROUNDED_ALIKE
