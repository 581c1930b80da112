"""Plain stacks of PyTorch's layers: the only modules that see several records at once.

Formal guarantee. Row j of a stack's result is a function of row j of the records. *Proof.* By
induction over its layers. All code is PyTorch's: layers are of these exact classes, without hooks
or methods of their own, in Sequentials. Each acts on single numbers, or along axes that are not the
first; the axes are checked on made-up rows of two different numbers, and shapes do not depend on
values. All other modules get one record at a time (:mod:`skdpfl.torch._tape`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as _all

from skdpfl._apart import GENERATED

#: layers that act on single numbers
_POINTWISE = (
    nn.CELU, nn.Dropout, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh,
    nn.Identity, nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU,
    nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink,
    nn.Threshold,
)  # fmt: skip
#: layers that act within a record, for at least so many axes
_WITHIN: dict[type[nn.Module], int] = {nn.Linear: 2, nn.GroupNorm: 2}
#: for as many axes; with one fewer the first is no longer that of records
_OF_IMAGES: dict[type[nn.Module], int] = {
    nn.Conv1d: 3, nn.Conv2d: 4, nn.Conv3d: 5,
    nn.ConvTranspose1d: 3, nn.ConvTranspose2d: 4, nn.ConvTranspose3d: 5,
    nn.InstanceNorm1d: 3, nn.InstanceNorm2d: 4, nn.InstanceNorm3d: 5,
    nn.AvgPool1d: 3, nn.AvgPool2d: 4, nn.AvgPool3d: 5,
    nn.MaxPool1d: 3, nn.MaxPool2d: 4, nn.MaxPool3d: 5,
    nn.AdaptiveAvgPool1d: 3, nn.AdaptiveAvgPool2d: 4, nn.AdaptiveAvgPool3d: 5,
    nn.AdaptiveMaxPool1d: 3, nn.AdaptiveMaxPool2d: 4, nn.AdaptiveMaxPool3d: 5,
    nn.ZeroPad2d: 4, nn.ReflectionPad2d: 4, nn.ReplicationPad2d: 4, nn.PixelShuffle: 4,
}  # fmt: skip
#: the attribute with the axis that a layer acts along
_ALONG: dict[type[nn.Module], str] = {
    nn.Flatten: "start_dim", nn.Unflatten: "dim", nn.Softmax: "dim", nn.LogSoftmax: "dim",
    nn.GLU: "dim",
}  # fmt: skip
_LAYERS = (*_POINTWISE, *_WITHIN, *_OF_IMAGES, *_ALONG, nn.LayerNorm)
_HOOKS = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")


def is_stack(module: nn.Module, rows: torch.Tensor) -> bool:
    """Whether a module is a plain stack; ``rows`` are made-up records in its dtype."""
    tensors = (*module.parameters(), *module.buffers())
    if any(map(_is_changed, module.modules())) or not all(map(_is_plain, tensors)):
        return False
    layers = list(_layers(module))
    if not all(type(layer) in _LAYERS for layer in layers):
        return False
    with torch.no_grad():
        return all(_keep_apart(layers, rows.repeat(2, 1)[:n]) for n in (3, 5))


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of a Sequential, in turn; anything else as it is."""
    if not isinstance(module, nn.Sequential):
        yield module
        return
    kinds = type(module).__mro__
    own = {name for kind in kinds[: kinds.index(nn.Sequential)] for name in vars(kind)}
    if own - GENERATED:
        yield module
        return
    for child in module:
        yield from _layers(child)


def _keep_apart(layers: list[nn.Module], z: torch.Tensor) -> bool:
    """Whether each layer keeps records on the first axis, and acts along others."""
    n = len(z)
    for layer in layers:
        if not _acts_within(layer, z.ndim):
            return False
        z = layer(z.clone())
        if z.ndim < 1 or len(z) != n:
            return False
    return True


def _acts_within(layer: Any, axes: int) -> bool:
    kind = type(layer)
    if kind in _OF_IMAGES:
        return axes == _OF_IMAGES[kind]
    if kind in _ALONG:
        dim = getattr(layer, _ALONG[kind])
        return isinstance(dim, int) and dim % axes != 0
    if kind is nn.LayerNorm:
        return len(layer.normalized_shape) < axes
    return axes >= _WITHIN.get(kind, 1)


def _is_changed(layer: nn.Module) -> bool:
    """Whether a layer was changed by hooks, or by a method set on the object."""
    if any(getattr(layer, f"_{kind}") or getattr(_all, f"_global_{kind}") for kind in _HOOKS):
        return True
    return any(callable(v) and hasattr(type(layer), name) for name, v in vars(layer).items())


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether operations on a tensor are PyTorch's."""
    return type(tensor) in (torch.Tensor, nn.Parameter)
