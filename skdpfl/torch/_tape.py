"""Per-record gradients of a module: hooks that see what enters and leaves its layers.

One :class:`Tape` belongs to one thread. It has a copy of the module of its own.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd

from skdpfl.torch._layout import Params
from skdpfl.torch._products import use_linear_rows
from skdpfl.torch._sums import GradientPart

_CONVOLUTIONS = nn.Conv1d, nn.Conv2d, nn.Conv3d

# said again and again where vmap has no rule for an operation, which it then repeats
warnings.filterwarnings("ignore", "There is a performance drop because we have not yet")


class Call(NamedTuple):
    """One pass through a layer: what entered, what it gave out."""

    path: str
    entered: torch.Tensor
    left: torch.Tensor


class Tape:
    """A module whose layers are watched.

    Parameters
    ----------
    module : Module
        Copied.
    names : collection of str
        The parameters that are trained.
    watched : bool
        Whether Linear layers and convolutions are watched; otherwise all parameters are mapped.
    maps : bool
        Whether vmap is used; otherwise the others' gradients are computed record by record.
    channels_last : bool
        Whether, on a CPU, convolutions of images give their channels next to each other in memory:
        pooling and other convolutions then take less time.
    """

    def __init__(
        self,
        module: nn.Module,
        names: Collection[str],
        watched: bool = True,
        maps: bool = True,
        channels_last: bool = True,
    ) -> None:
        self.plain = copy.deepcopy(module).requires_grad_(False)
        self.module, self.maps = copy.deepcopy(self.plain), maps
        self.layers = watched_layers(self.module, names) if watched else {}
        self.channels_last = False
        if all(p.device.type == "cpu" for p in self.module.parameters()):
            use_linear_rows(self.module)
            self.channels_last = channels_last
        self.calls: list[Call] = []
        for path, layer in self.layers.items():
            layer.register_forward_hook(self._hook(path), with_kwargs=True)
        # known now: a layer at two paths has no parameters any more once the module was called
        self.names = {path: _names(path, layer) for path, layer in self.layers.items()}
        seen = {name for names in self.names.values() for name in names}
        self.mapped = [name for name in names if name not in seen]

    def _hook(self, path: str) -> Callable[..., torch.Tensor]:
        def watch(
            layer: nn.Module, args: tuple[Any, ...], named: dict[str, Any], left: torch.Tensor
        ) -> torch.Tensor:
            if not left.requires_grad:
                left.requires_grad_()
            entered: torch.Tensor = [*args, *named.values()][0]
            self.calls.append(Call(path, entered.detach(), left))
            together = self.channels_last and isinstance(layer, nn.Conv2d)
            order = torch.channels_last if together else torch.preserve_format
            # what changes the copy in place does not change what was seen
            return left.clone(memory_format=order)

        return watch

    def forward(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions, and remember what passed the layers."""
        self.calls = []
        with torch.enable_grad():
            raw: torch.Tensor = functional_call(self.module, params, (X.clone(),))
        return raw

    def parts(
        self, params: Params, X: torch.Tensor, raw: torch.Tensor, slopes: torch.Tensor
    ) -> list[GradientPart]:
        """Return the gradients after :meth:`forward`; ``slopes`` (n, k) are those of raw."""
        calls, self.calls = self.calls, []
        found: list[GradientPart] = []
        if calls:
            outputs = [call.left for call in calls]
            with torch.enable_grad():
                given = torch.autograd.grad(raw, outputs, slopes, allow_unused=True)
            by_layer: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
            for call, s in zip(calls, given, strict=True):
                if s is not None:
                    if not len(call.entered) == len(s) == len(X):
                        raise RuntimeError(
                            f"Layer {call.path!r} was passed by {len(s)} rows for {len(X)} "
                            "records: it has to see each record in its place, on the first axis."
                        )
                    by_layer.setdefault(call.path, []).append((call.entered, s))
            for path, passes in by_layer.items():
                found += _of_layer(self.names[path], self.layers[path], passes)
        if self.mapped:
            found += self._of_mapped(params, X, slopes)
        return found

    def _of_mapped(
        self, params: Params, X: torch.Tensor, slopes: torch.Tensor
    ) -> Iterator[GradientPart]:
        """Return the gradients of all other parameters, each formed."""
        mine = {name: params[name] for name in self.mapped}
        others = {name: value for name, value in params.items() if name not in mine}

        def value(mine: Params, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            raw = functional_call(self.plain, {**others, **mine}, (x[None].clone(),))
            return (raw[0] * s).sum()

        def of_record(x: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
            leaves = {name: p.detach().requires_grad_() for name, p in mine.items()}
            with torch.enable_grad():
                found = value(leaves, x, s)
            if not found.requires_grad:  # it depends on none of them
                return tuple(map(torch.zeros_like, leaves.values()))
            return torch.autograd.grad(found, tuple(leaves.values()), materialize_grads=True)

        if self.maps:
            each = vmap(grad(value), in_dims=(None, 0, 0))(mine, X, slopes)
        else:
            rows = [of_record(x, s) for x, s in zip(X, slopes, strict=True)]
            columns = zip(*rows, strict=True)
            each = {name: torch.stack(c) for name, c in zip(mine, columns, strict=True)}
        for name, gradients in each.items():
            yield GradientPart((name,), None, gradients.detach().reshape(len(X), -1))


def watched_layers(module: nn.Module, names: Collection[str]) -> dict[str, nn.Module]:
    """Return the layers that are watched, by path: all their parameters are trained, here only."""
    owners = Counter(id(p) for l in module.modules() for p in l.parameters(recurse=False))
    return {
        path: layer
        for path, layer in module.named_modules()
        if _is_watched(layer)
        and all(owners[id(p)] == 1 for p in layer.parameters())
        and set(_names(path, layer)) <= set(names)
    }


def _names(path: str, layer: nn.Module) -> tuple[str, ...]:
    """Return the names of a layer's parameters in the module."""
    return tuple(f"{path}.{name}" if path else name for name, _ in layer.named_parameters())


def _is_watched(layer: nn.Module) -> bool:
    if "weight" not in dict(layer.named_parameters()):  # but what it is computed from
        return False
    if type(layer) is nn.Linear:
        return True
    plain = type(layer) in _CONVOLUTIONS and layer.padding_mode == "zeros"
    return plain and not isinstance(layer.padding, str)


def _of_layer(
    names: tuple[str, ...],
    layer: nn.Module,
    passes: list[tuple[torch.Tensor, torch.Tensor]],
) -> list[GradientPart]:
    if isinstance(layer, nn.Linear) and len(passes) == 1 and passes[0][0].ndim == 2:
        return [GradientPart(names, *passes[0])]
    if isinstance(layer, _CONVOLUTIONS):
        kernel = layer.out_channels, *layer.kernel_size, layer.in_channels // layer.groups
        found = [_of_conv(layer, *seen) for seen in passes]
    else:
        kernel, found = None, [_of_rows(*seen) for seen in passes]
    weight, bias = found[0] if len(found) == 1 else map(sum, zip(*found, strict=True))
    parts = [GradientPart(names[:1], None, weight, kernel), GradientPart(names[1:], None, bias)]
    return parts[: len(names)]


def _of_rows(entered: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients (n, .) of a Linear layer that acts on several rows of a record."""
    a, s = entered.reshape(len(s), -1, entered.shape[-1]), s.reshape(len(s), -1, s.shape[-1])
    return torch.bmm(s.transpose(1, 2), a).reshape(len(s), -1), s.sum(1)


def _of_conv(
    layer: _ConvNd, entered: torch.Tensor, s: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients (n, .) of a convolution, by the patches that it reads."""
    n, g, positions = len(s), layer.groups, s[0, 0].numel()
    patches = _patches(layer, entered, s.shape[2:]).reshape(n * g, positions, -1)
    s = s.reshape(n, layer.out_channels, positions)
    out = s.reshape(n * g, -1, positions)
    return torch.bmm(out, patches).reshape(n, -1), s.sum(2)


def _patches(layer: _ConvNd, entered: torch.Tensor, places: tuple[int, ...]) -> torch.Tensor:
    """Return the patches (n, groups, *places, *kernel, channels), a view: F.unfold takes longer.

    Channels are next to each other, so that a copy of it takes the least time.
    """
    margins = [margin for margin in reversed(layer.padding) for _ in range(2)]
    padded = F.pad(entered, margins).movedim(1, -1).contiguous()
    record, *axes, channel = padded.stride()
    steps = [d * step for d, step in zip(layer.dilation, axes, strict=True)]
    moves = [d * step for d, step in zip(layer.stride, axes, strict=True)]
    channels = layer.in_channels // layer.groups
    shape = len(padded), layer.groups, *places, *layer.kernel_size, channels
    return padded.as_strided(shape, (record, channels * channel, *moves, *steps, channel))
