"""Records' gradients and their clipped sums, from the layers' inputs and output gradients.

Shapes (one silo; T positions of a convolution, or of a sequence)::

    a  (n, [T,] h)     what enters a layer (of a convolution: its patches)
    s  (n, [T,] h')    the gradient of record j's loss in what the layer gives out
    G  (n, P_l)        the gradient of record j in the layer's parameters, sum_t s_t (a_t, 1)^T

``s`` comes from one backward pass, which computes no gradients of parameters. There are three ways:

- *ghost*: a Linear layer that each record passes once. Its norm is |(a, 1)| |s|, its clipped sum
  one product; G is not formed.
- *formed*: convolutions and layers passed more than once. G is formed, layer by layer: terms of
  positions may cancel, so that norms of a and s do not bound the rounding of their sum.
- *mapped*: all other parameters, and all parameters of modules that are no stack. G by
  ``torch.func.vmap`` of the gradient of one record, or, where a module cannot be mapped, record by
  record.

Formal guarantee
----------------
That of `Model.clipped_gradient_sum`. *Proof.* The module's output for a record depends on that
record only: a stack keeps records apart (:mod:`skdpfl.torch._probe`); any other module is run for
one record, under ``vmap`` on a copy for each block, where no code can read a record's values (an
operation's own rule for ``vmap``, if the user wrote one, is theirs to prove), or in a loop, on a
copy for each record. Copies share no storage: parameters and buffers are copied, too. So row j of
every a, s and G depends on record j only, and its bits depend neither on its place nor on the
number of records (:mod:`skdpfl.torch._blocks`). Norms of stored numbers are summed in float64 and
rounded once; `skdpfl.models.clip_factors` turns them into a factor f with ``|f G_j| <= C``, all
layers jointly (a formed layer has norms 1 and |G_j|). Ghost layers add up products of stored (a, 1)
and f s, the others of f and stored G: one product for each record and coordinate, added up in some
order, at most ``chunk`` of them before chunks are. Products are in the full precision of their
dtype (a lower one that is set for torch is refused). Where a norm, a slope or the target is not
finite, the record's rows are set to zero, before clipping.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd

from skdpfl.models import clip_factors, underflow
from skdpfl.torch._fitted import Params
from skdpfl.torch._products import use_linear_rows

_CONVOLUTIONS = nn.Conv1d, nn.Conv2d, nn.Conv3d

# vmap warns, each time, of an operation that it has no rule for
warnings.filterwarnings("ignore", "There is a performance drop because we have not yet")


class Call(NamedTuple):
    """One pass through a layer: its input and output."""

    path: str
    entered: torch.Tensor
    left: torch.Tensor


class Alone:
    """A module that each record passes on a copy of its own, parameters and buffers included.

    ``forward`` returns raw predictions (n, k), and ``parts`` the gradients after it, for the slopes
    of the raw predictions; ``raw`` returns raw predictions alone.
    """

    #: whether records are run in a loop
    alone = True

    def __init__(self, module: nn.Module, names: Collection[str]) -> None:
        self.plain, self.names = copy.deepcopy(module), list(names)
        for name, parameter in self.plain.named_parameters():
            parameter.requires_grad_(name in self.names)
        self._passed: list[tuple[torch.Tensor, list[torch.Tensor]]] = []

    def forward(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions, and keep what leads to them."""
        with torch.enable_grad():
            self._passed = list(self._pass(params, X))
        return torch.stack([raw.detach() for raw, _ in self._passed])

    @torch.no_grad()
    def raw(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions alone."""
        return torch.stack([raw for raw, _ in self._pass(params, X)])

    def _pass(
        self, params: Params, X: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, list[torch.Tensor]]]:
        """Yield each record's raw predictions and the parameters of its own copy."""
        module = copy.deepcopy(self.plain)
        with torch.no_grad():
            for name in self.names:
                module.get_parameter(name).copy_(params[name])
        for x in X:
            own = copy.deepcopy(module)
            (raw,) = own(x[None].clone())
            raw = raw.to(x.dtype)  # another dtype of one would become that of all, stacked
            yield raw, [own.get_parameter(name) for name in self.names]

    def parts(
        self, params: Params, X: torch.Tensor, raw: torch.Tensor, slopes: torch.Tensor
    ) -> list[GradientPart]:
        """Return the gradients after :meth:`forward`."""
        passed, self._passed = self._passed, []
        rows = [_of_record(*each, s) for each, s in zip(passed, slopes, strict=True)]
        columns = zip(self.names, zip(*rows, strict=True), strict=True)
        return [
            GradientPart((name,), None, torch.stack(each).reshape(len(X), -1))
            for name, each in columns
        ]


def _of_record(
    raw: torch.Tensor, parameters: list[torch.Tensor], slopes: torch.Tensor
) -> Sequence[torch.Tensor]:
    """Return a record's gradient in each parameter."""
    if not raw.requires_grad:  # it depends on none of them
        return [torch.zeros_like(p) for p in parameters]
    return torch.autograd.grad(raw, parameters, slopes, materialize_grads=True)


class Mapped:
    """A module under ``torch.func.vmap``: a copy for each block, parameters included."""

    alone = False

    def __init__(self, module: nn.Module, names: Collection[str]) -> None:
        self.plain, self.mapped = copy.deepcopy(module).requires_grad_(False), list(names)

    def forward(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions."""
        return self.raw(params, X)

    @torch.no_grad()
    def raw(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions."""
        return vmap(partial(_of_one, copy.deepcopy(self.plain), params))(X)

    def parts(
        self, params: Params, X: torch.Tensor, raw: torch.Tensor, slopes: torch.Tensor
    ) -> list[GradientPart]:
        """Return the gradients in mapped parameters."""
        module = copy.deepcopy(self.plain)
        mine = {name: params[name] for name in self.mapped}
        others = {name: value for name, value in params.items() if name not in mine}

        def value(mine: Params, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            return (_of_one(module, {**others, **mine}, x) * s).sum()

        each = vmap(grad(value), in_dims=(None, 0, 0))(mine, X, slopes) if mine else {}
        return [
            GradientPart((name,), None, gradients.detach().reshape(len(X), -1))
            for name, gradients in each.items()
        ]


def _of_one(module: nn.Module, params: Params, x: torch.Tensor) -> torch.Tensor:
    """Return the raw predictions of a single record."""
    own = {name: value.clone() for name, value in params.items()}
    raw: torch.Tensor = functional_call(module, own, (x[None].clone(),))[0]
    return raw


class Stacked(Mapped):
    """A plain stack, with hooks that record the layers' inputs and output gradients.

    Linear layers and convolutions have hooks, other parameters are mapped. On a CPU convolutions of
    images give their channels next to each other in memory: pooling and other convolutions then
    take less time.
    """

    def __init__(self, module: nn.Module, names: Collection[str]) -> None:
        super().__init__(module, names)
        self.module = copy.deepcopy(self.plain)
        self.layers = watched_layers(self.module, names)
        self.on_cpu = all(p.device.type == "cpu" for p in self.module.parameters())
        if self.on_cpu:
            use_linear_rows(self.module)
        self.calls: list[Call] = []
        for path, layer in self.layers.items():
            layer.register_forward_hook(self._hook(path))
        # known now: a layer at two paths has no parameters any more once the module was called
        self.names = {path: _names(path, layer) for path, layer in self.layers.items()}
        seen = {name for names in self.names.values() for name in names}
        self.mapped = [name for name in names if name not in seen]

    def _hook(self, path: str) -> Callable[..., torch.Tensor]:
        def watch(
            layer: nn.Module, entered: tuple[torch.Tensor], left: torch.Tensor
        ) -> torch.Tensor:
            if not left.requires_grad:
                left.requires_grad_()
            self.calls.append(Call(path, entered[0].detach(), left))
            together = self.on_cpu and isinstance(layer, nn.Conv2d)
            order = torch.channels_last if together else torch.preserve_format
            # changes of the copy in place do not change the inputs that were seen
            return left.clone(memory_format=order)

        return watch

    def forward(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions, and record the layers' inputs and outputs."""
        self.calls = []
        with torch.enable_grad():
            raw: torch.Tensor = functional_call(self.module, params, (X.clone(),))
        return raw

    @torch.no_grad()
    def raw(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions alone."""
        output: torch.Tensor = functional_call(self.plain, params, (X,))
        return output

    def parts(
        self, params: Params, X: torch.Tensor, raw: torch.Tensor, slopes: torch.Tensor
    ) -> list[GradientPart]:
        """Return the gradients after :meth:`forward`."""
        calls, self.calls = self.calls, []
        gradients: list[GradientPart] = []
        if calls:
            outputs = [call.left for call in calls]
            with torch.enable_grad():
                by_output = torch.autograd.grad(raw, outputs, slopes, allow_unused=True)
            by_layer: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
            for call, s in zip(calls, by_output, strict=True):
                if s is not None:
                    by_layer.setdefault(call.path, []).append((call.entered, s))
            for path, passes in by_layer.items():
                gradients += _of_layer(self.names[path], self.layers[path], passes)
        return gradients + super().parts(params, X, raw, slopes)


#: a module in one thread
Tape = Alone | Mapped
#: ways to compute records' gradients, the fastest first
WAYS: dict[str, type[Tape]] = {
    "stacked": Stacked, "mapped": Mapped, "alone": Alone,
}  # fmt: skip


def watched_layers(module: nn.Module, names: Collection[str]) -> dict[str, nn.Module]:
    """Return the layers with hooks by path; their parameters are trained and used there only."""
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
        pairs = [_of_conv(layer, *seen) for seen in passes]
    else:
        kernel, pairs = None, [_of_rows(*seen) for seen in passes]
    weight, bias = pairs[0] if len(pairs) == 1 else map(sum, zip(*pairs, strict=True))
    parts = [GradientPart(names[:1], None, weight, kernel), GradientPart(names[1:], None, bias)]
    return parts[: len(names)]


def _of_rows(entered: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients (n, .) of a Linear layer that acts on several rows of a record."""
    a, s = entered.reshape(len(s), -1, entered.shape[-1]), s.reshape(len(s), -1, s.shape[-1])
    return torch.bmm(s.transpose(1, 2), a).reshape(len(s), -1), s.sum(1)


def _of_conv(
    layer: _ConvNd, entered: torch.Tensor, s: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients (n, .) of a convolution, from its input patches."""
    n, g, positions = len(s), layer.groups, s[0, 0].numel()
    patches = _patches(layer, entered, s.shape[2:]).reshape(n * g, positions, -1)
    s = s.reshape(n, layer.out_channels, positions)
    out = s.reshape(n * g, -1, positions)
    return torch.bmm(out, patches).reshape(n, -1), s.sum(2)


def _patches(layer: _ConvNd, entered: torch.Tensor, places: tuple[int, ...]) -> torch.Tensor:
    """Return the patches (n, groups, *places, *kernel, channels) as a view; F.unfold is slower.

    Channels come last, so that a copy is fast.
    """
    margins = [margin for margin in reversed(layer.padding) for _ in range(2)]
    padded = F.pad(entered, margins).movedim(1, -1).contiguous()
    record, *axes, channel = padded.stride()
    steps = [d * step for d, step in zip(layer.dilation, axes, strict=True)]
    moves = [d * step for d, step in zip(layer.stride, axes, strict=True)]
    channels = layer.in_channels // layer.groups
    shape = len(padded), layer.groups, *places, *layer.kernel_size, channels
    return padded.as_strided(shape, (record, channels * channel, *moves, *steps, channel))


#: numbers that are squared at once, few enough to stay near the processor
_SQUARED = 2**16


class GradientPart(NamedTuple):
    """Records' gradients in one or two parameters, flat and in their order.

    For a ghost layer ``left`` is a (n, h) and ``right`` s (n, h'); for others ``right`` is G and
    ``left`` None. ``names``: the parameters; a ghost layer may have an intercept. ``kernel``: the
    shape of a convolution's weights in G, channels last.
    """

    names: tuple[str, ...]
    left: torch.Tensor | None
    right: torch.Tensor
    kernel: tuple[int, ...] | None = None

    def squared_norms(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both factors of the squared norm, (n,) each, in the dtype of the numbers."""
        right = _squared(self.right, 0.0)
        if self.left is None:
            return torch.ones_like(right), right
        return _squared(self.left, float(len(self.names) == 2)), right

    def longest(self) -> int:
        """Return the number of terms of the longest sum in a norm."""
        return max(self.right.shape[1], 0 if self.left is None else self.left.shape[1] + 1)

    def rows(self, rows: slice) -> GradientPart:
        """Return the part of some records."""
        left = None if self.left is None else self.left[rows]
        return self._replace(left=left, right=self.right[rows])

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
    squared = [(a.numpy(), d.numpy()) for a, d in (part.squared_norms() for part in parts)]
    good = finite.copy()
    for pair in squared:
        for norms in pair:
            good &= np.isfinite(norms)
    squared = [(np.where(good, a, 1), np.where(good, d, 1)) for a, d in squared]
    return clip_factors(squared, clip_norm, max(part.longest() for part in parts)), good


def _squared(values: torch.Tensor, constant: float) -> torch.Tensor:
    """Return |row|^2 + constant, computed in float64, plus a bound of what underflow loses."""
    some = len(values) if values.is_cuda else max(1, _SQUARED // values.shape[1])
    wide = (v.to(torch.float64, copy=True) for v in values.split(some))
    total = torch.cat([v.mul_(v).sum(1) for v in wide])
    kind = np.dtype(str(values.dtype).removeprefix("torch."))
    return total.add_(constant + underflow(kind, values.shape[1])).to(values.dtype)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Raise unless products of float32 are formed in float32; no autocast within."""
    if _is_lowered():
        raise RuntimeError(
            "torch is set to a lower precision for float32 products, which clipping does not allow "
            'for. Call torch.set_float32_matmul_precision("highest") before the fit.'
        )
    with torch.autocast(device.type, enabled=False):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use the calling thread only, since several would split a block.

    Threads are for silos (``n_jobs``), and results must not depend on the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_lowered() -> bool:
    """Whether matrix products are set to TF32 or bfloat16, on any device."""
    backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    return any(backend.fp32_precision not in ("none", "ieee") for backend in backends)
