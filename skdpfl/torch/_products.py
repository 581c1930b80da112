"""Products of matrices on a CPU whose numbers do not depend on how many rows there are.

Each number is one chain of operations (:mod:`skdpfl.models._rows`). Linear layers compute theirs by
:class:`LinearRows`. Others, of functions and of layers such as LSTM, are found by
:class:`RowProducts`, which looks at every operation and takes time for each.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from skdpfl.models import row_products


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a b."""
    return torch.from_numpy(row_products(a.detach().numpy(), b.detach().numpy()))


class LinearRows(torch.autograd.Function):
    """x W^T + b, and the gradient in x; none in parameters, which are not asked for."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
        """Return what leaves the layer."""
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
    """Have a module's Linear layers compute their products so, in place."""
    for layer in module.modules():
        if type(layer) is nn.Linear:
            layer.forward = partial(_forward, layer)  # type: ignore[method-assign]


class RowProducts(TorchDispatchMode):
    """Within it all products of matrices are computed so; ``used``: there were some."""

    def __init__(self) -> None:
        super().__init__()
        self.used = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        """Return what an operation gives."""
        given, aten = kwargs or {}, torch.ops.aten
        if func is aten.mm.default:
            self.used = True
            return product(*args)
        if func is aten.addmm.default and not given:
            self.used = True
            return product(*args[1:]).add_(args[0])
        if func is aten.bmm.default and len(args[0]) == 1:
            self.used = True
            return product(args[0][0], args[1][0])[None]
        result: torch.Tensor = func(*args, **given)
        return result
