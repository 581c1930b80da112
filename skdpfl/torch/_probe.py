"""Tests of a module on made-up rows, before it sees any record.

Modules that cannot be trained record by record are refused, with an error that names an
alternative.

Plain stacks of PyTorch's layers are the only modules that see several records at once.

Formal guarantee. Row j of a stack's result is a function of row j of the records. *Proof.* By
induction over its layers. All code is PyTorch's: layers are of these exact classes, without hooks
or methods of their own, in Sequentials. Each acts on single numbers, or along axes that are not the
first; the axes are checked on made-up rows of two different numbers, and shapes do not depend on
values. All other modules get one record at a time (:mod:`skdpfl.torch._tape`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import starmap
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules import module as _all
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._python_dispatch import TorchDispatchMode

from skdpfl._apart import GENERATED, differences, shared_state
from skdpfl._warnings import warn
from skdpfl.torch._fitted import Params
from skdpfl.torch._tape import WAYS, Alone, Tape, watched_layers

#: outputs of made-up rows, together and one by one, agree to this
TOLERANCE = 1e-8


def refuse_layers(module: nn.Module) -> None:
    """Raise for the first layer or parameter that cannot be trained record by record."""
    for path, layer in module.named_modules():
        where = f"{type(layer).__name__}{f' (layer {path!r})' if path else ''}"
        for refused, reason in _REFUSED:
            if refused(layer):
                raise ValueError(f"{where} {reason}")
    for path, parameter in module.named_parameters():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"Parameter {path!r} is {parameter.dtype}: parameters must be torch.float32 or "
                "torch.float64, since clipping bounds sums in these. Call .float() in the factory."
            )
        hooks = parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None)
        if any(hooks):
            raise ValueError(
                f"Parameter {path!r} has hooks, which no gradient of a single record passes."
            )


_Refused = tuple[Callable[[Any], bool], str]
_EMBEDDINGS = nn.Embedding, nn.EmbeddingBag
#: layers that are refused, and why
_REFUSED: tuple[_Refused, ...] = (
    (
        lambda layer: isinstance(layer, _BatchNorm),
        "mixes records: a record's output depends on the others in the batch. Use "
        "torch.nn.GroupNorm or LayerNorm, which normalise each record by itself.",
    ),
    (
        lambda layer: isinstance(layer, _NormBase) and layer.track_running_stats,
        "keeps statistics of the records, which the privacy cost does not cover. Use "
        "track_running_stats=False, or torch.nn.GroupNorm.",
    ),
    (
        lambda layer: isinstance(layer, _EMBEDDINGS) and layer.max_norm is not None,
        "with max_norm changes weights when a record uses them. Leave max_norm out.",
    ),
    (
        lambda layer: isinstance(layer, _EMBEDDINGS) and layer.sparse,
        "has sparse gradients, but noise is added to every weight. Leave sparse=True out.",
    ),
    (
        lambda layer: isinstance(layer, _DropoutNd) and layer.p > 0,
        "draws random numbers that random_state does not control. Leave it out.",
    ),
    (
        lambda layer: isinstance(layer, torch.jit.ScriptModule),
        "is scripted: give the module that it was made from.",
    ),
    (
        lambda layer: isinstance(layer, nn.DataParallel | nn.parallel.DistributedDataParallel),
        "splits a batch among devices. Give the module inside it, and TorchModel(device=...).",
    ),
)


def refuse_single(module: nn.Module, n_features: int) -> None:
    """Raise if a module, made double precision, computes in single precision only."""
    rows = torch.rand((3, n_features), generator=made_up_generator(), dtype=torch.float64)
    try:
        with torch.no_grad():
            kind = copy.deepcopy(module)(rows.clone()).dtype
        if kind == rows.dtype:
            return
        reason = f"it returns {kind} for torch.float64"
    except RuntimeError as error:
        try:
            with torch.no_grad():
                copy.deepcopy(module).float()(rows.float())
        except RuntimeError:  # for another reason
            raise error from None
        reason = str(error)
    raise ValueError(
        f"{type(module).__name__} computes in single precision only: {reason}. It must use the "
        "dtype of the records: in forward, make tensors by x.new_zeros(...)."
    )


def refuse_mixing(module: nn.Module, rows: torch.Tensor) -> None:
    """Raise if outputs of made-up rows differ together and one by one, or change the state."""
    before = [tensor.clone() for tensor in (*module.buffers(), *module.parameters())]
    with torch.no_grad():
        together = module(rows.clone())
        try:
            apart = torch.cat([module(row[None].clone()) for row in rows])
        except (RuntimeError, ValueError, IndexError) as error:
            error.add_note(
                f"{type(module).__name__} takes several records together, but fails on one alone."
            )
            raise
    if together.shape != apart.shape:
        raise ValueError(
            f"{type(module).__name__} returns shape {tuple(together.shape)} for {len(rows)} "
            f"records, but {tuple(apart.shape)} for the same one by one: keep the first axis."
        )
    if not torch.allclose(together, apart, rtol=TOLERANCE, atol=TOLERANCE):
        raise ValueError(
            f"{type(module).__name__} mixes records, or is random: outputs of made-up rows differ "
            "together and one by one. A record's output may depend on that record only."
        )
    now = (*module.buffers(), *module.parameters())
    if not all(torch.equal(old, new) for old, new in zip(before, now, strict=True)):
        raise ValueError(
            f"{type(module).__name__} changes its buffers or parameters when it is called, which "
            "the privacy cost does not cover; leave them unchanged in forward."
        )


#: made-up rows that are tried at all places of a block
_TRIED = 5


def made_up_generator() -> torch.Generator:
    """Return a generator with a fixed seed."""
    return torch.Generator().manual_seed(0)


def made_up_rows(module: nn.Module, n_features: int) -> torch.Tensor:
    """Return rows of numbers between 0 and 1 and, if the module accepts them, of wider ranges.

    Code that treats some records differently (a branch, a sort) shows only on different rows.
    """
    rows = torch.rand((3, n_features), generator=made_up_generator(), dtype=torch.float64)
    wide = 3 * torch.randn((5, n_features), generator=made_up_generator(), dtype=torch.float64)
    try:
        with torch.no_grad():
            taken = bool(copy.deepcopy(module)(wide.clone()).isfinite().all())
    except (RuntimeError, ValueError, IndexError, AssertionError):  # categories, for instance
        taken = False
    return torch.cat([rows, wide]) if taken else rows


def made_up(
    module: nn.Module, names: Collection[str], n_features: int
) -> tuple[Params, torch.Tensor, torch.Tensor]:
    """Return parameters, rows and slopes of raw predictions, in double precision.

    Numbers that are zero or equal hardly ever occur.
    """
    module = copy.deepcopy(module).double()
    rows = made_up_rows(module, n_features)[-_TRIED:]
    move(module, names, rows)
    with torch.no_grad():
        raw = module(rows.clone())
    params = {name: module.get_parameter(name).detach() for name in names}
    return params, rows, torch.randn(raw.shape, generator=made_up_generator(), dtype=raw.dtype)


def move(module: nn.Module, names: Collection[str], rows: torch.Tensor) -> None:
    """Add made-up numbers of about the size of weights to the trained parameters.

    They are smaller if predictions are then not finite, as for parameters that have to be positive.
    """
    start = {name: module.get_parameter(name).detach().clone() for name in names}
    for scale in (1.0, 0.1, 0.01):
        generator = made_up_generator()
        with torch.no_grad():
            for name, old in start.items():
                size = max(1, old.numel() // max(1, len(old))) if old.ndim else 1
                change = torch.randn(old.shape, generator=generator, dtype=old.dtype)
                module.get_parameter(name).copy_(old + scale * change / size**0.5)
            if copy.deepcopy(module)(rows.clone()).isfinite().all():
                return


#: numbers in the gradients of made-up rows, unless three rows have more
_FORMED = 2**22
#: how far parameters without a gradient are moved, to see whether predictions change
_CHANGE = 1e-4
#: gradients of made-up rows are those of a loop over records to this, relative to the largest
_SAME = 1e-10


class _Watched(TorchDispatchMode):
    """Names the operations that could fail on a device for some values of a record.

    These use whole numbers or masks (as indices), check numbers, or are not PyTorch's. Where all
    records pass the same operations, those of made-up rows are all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        of_one = torch.Tag.pointwise in func.tags or func.is_view or name in _CONVERSIONS
        indexed = not of_one and any(map(_is_whole, [*args, *kwargs.values()]))
        if func.namespace != "aten" or indexed or any(word in name for word in _CHECKS):
            self.names.append(name)
        return func(*args, **kwargs)


#: operations that take whole numbers of any size, beside views and those on single numbers
_CONVERSIONS = "_to_copy", "copy_", "clone", "lift_fresh"
#: parts of the names of operations that check what numbers are
_CHECKS = "assert", "binary_cross_entropy", "multinomial", "bernoulli", "fractional_max_pool"


def _is_whole(value: Any) -> bool:
    """Whether one of these is a tensor of whole numbers, or a mask."""
    if isinstance(value, list | tuple):
        return any(map(_is_whole, value))
    return isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex())


def refuse_on_device(module: nn.Module, way: str, n_features: int) -> None:
    """Raise for modules that may fail on a device for some records.

    There such a record would end the fit, which tells of it; on the CPU it counts as zero. Layers
    of plain stacks use no number of a record as an index but those that they find themselves.
    """
    if way == "stacked":
        return
    reason = "its records may pass different operations"
    if way != "alone":
        rows = made_up_rows(module, n_features)
        with _Watched() as watched, torch.enable_grad():
            total = module(rows).sum()
            if total.requires_grad:
                total.backward()
        if not watched.names:
            return
        name = watched.names[0]
        reason = f"{name} uses whole numbers or masks, checks numbers, or is not PyTorch's"
    raise ValueError(
        f"{type(module).__name__} may fail on a device for some records, which would end the fit "
        f'and so tell of them: {reason}. Give device="cpu", where such a record counts as zero.'
    )


class Findings(NamedTuple):
    """How gradients are computed, one of :data:`WAYS`, and the memory and work for a record.

    ``numbers`` is the number of values per record, in layers and gradients; ``work`` is the number
    of multiplications by weights, for convolutions at each position.
    """

    way: str
    numbers: int
    work: int


def probe(module: nn.Module, names: Collection[str], n_features: int) -> Findings:
    """Return the findings for a module in double precision; raise if it mixes records.

    What runs a batch at once is compared, on made-up rows, with the original module: one copy for
    each record, and a backward pass in its own parameters. So whatever ``forward`` does (no_grad,
    a backward of its own, hooks on layers) is done in the fit, or the module is run in a loop.
    Parameters are changed in place: if they start at zero (gates, last layers), nothing before them
    could be tested.
    """
    rows = made_up_rows(module, n_features)
    with refuse_memory(module):
        refuse_mixing(module, rows)
        move(module, names, rows)
        refuse_mixing(module, rows)
    params = {name: module.get_parameter(name).detach().clone() for name in names}
    formed = sum(p.numel() for p in params.values())
    rows = rows[-max(3, _FORMED // formed) :]
    raw, want = _one_by_one(module, params, rows)
    _warn_of_untrained(module, rows, [name for name in names if not want[name].any()])

    def agrees(way: str) -> bool:
        try:
            tape = WAYS[way](module, names)
            gradients, together = _gradients(tape, params, rows), tape.raw(params, rows.clone())
        except Exception:  # whatever vmap has no rule for: the loop does not need it
            return False
        pairs = [(gradients[name], want[name]) for name in names]
        return all(starmap(_same, [(together, raw), *pairs]))

    if is_stack(module, rows) and agrees("stacked"):
        way = "stacked"
    else:
        way = "mapped" if not _has_rules() and agrees("mapped") else "alone"
    numbers, repeated = _sizes(module, names, rows[:1])
    return Findings(way, numbers + formed, formed + repeated)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    largest = max(1.0, float(b.abs().max()))
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=_SAME * largest)


def _has_rules() -> bool:
    """Whether the user wrote a rule for ``vmap``, which sees all records of a block."""
    kinds, usual = torch.autograd.Function.__subclasses__(), torch.autograd.Function.vmap
    for kind in kinds:
        kinds += kind.__subclasses__()
    users = (kind for kind in kinds if not kind.__module__.startswith("torch."))
    return any(kind.vmap is not usual for kind in users)


def _one_by_one(
    module: nn.Module, params: Params, rows: torch.Tensor
) -> tuple[torch.Tensor, Params]:
    """Return raw predictions and gradients of made-up rows, computed record by record."""
    tape = Alone(module, list(params))
    try:
        return tape.raw(params, rows), _gradients(tape, params, rows)
    except Exception as error:  # of whatever kind users' code and PyTorch raise
        raise ValueError(
            f"Gradients of {type(module).__name__} for single records cannot be computed: "
            f"{type(error).__name__}: {error}"
        ) from error


@contextmanager
def refuse_memory(module: nn.Module) -> Iterator[None]:
    """Raise if a module's code keeps something within, where no copy of the module is apart."""
    before = shared_state(module)
    yield
    if changes := differences(before, shared_state(module)):
        raise ValueError(
            f"{type(module).__name__} changes {changes} when it is called. Records would reach "
            "others by it, since it is not part of the module; keep nothing in forward."
        )


def _sizes(module: nn.Module, names: Collection[str], row: torch.Tensor) -> tuple[int, int]:
    """Return the number of values in watched layers, and that of multiplications by weights.

    The latter beyond one for each weight: a convolution uses its weights at each position.
    """
    module, numbers, work = copy.deepcopy(module), 0, 0

    def watch(layer: nn.Module, entered: Any, left: torch.Tensor) -> None:
        nonlocal numbers, work
        numbers += 2 * (sum(value.numel() for value in entered) + left.numel())
        weight = layer.get_parameter("weight")
        work += (left.numel() // len(weight) - 1) * weight.numel()

    for layer in watched_layers(module, names).values():
        layer.register_forward_hook(watch)
    with torch.no_grad():
        module(row.clone())
    return numbers, work


def _warn_of_untrained(module: nn.Module, rows: torch.Tensor, names: Collection[str]) -> None:
    """Warn of parameters whose gradients are zero although predictions depend on them."""
    generator, moving = made_up_generator(), []
    with torch.no_grad():
        before = module(rows.clone())
        for name in names:
            parameter = module.get_parameter(name)
            value = parameter.clone()
            change = torch.randn(value.shape, generator=generator, dtype=value.dtype)
            parameter.copy_(value + _CHANGE * change)
            if not torch.allclose(module(rows.clone()), before, TOLERANCE, TOLERANCE):
                moving.append(name)
            parameter.copy_(value)
    if moving:
        warn(
            f"{type(module).__name__} does not train {', '.join(moving)}: gradients do not reach "
            "these parameters (detach() or no_grad() in forward), while noise does. Let them pass, "
            "or freeze the parameters by requires_grad_(False)."
        )


def last_layer(module: nn.Module, names: Collection[str]) -> str | None:
    """Return the path of the last layer, if raw predictions are linear in its parameters.

    All its parameters are trained, and used there only.
    """
    if type(module).forward is not nn.Sequential.forward:
        return None
    *_, path = module._modules
    return path if type(watched_layers(module, names).get(path)) is nn.Linear else None


def _gradients(tape: Tape, params: Params, rows: torch.Tensor) -> Params:
    """Return the gradients (n, .) of made-up slopes, by parameter."""
    raw = tape.forward(params, rows)
    slopes = torch.randn(raw.shape, generator=made_up_generator(), dtype=raw.dtype)
    gradients = {name: p.new_zeros(len(rows), p.numel()) for name, p in params.items()}
    for part in tape.parts(params, rows, raw, slopes):
        if part.left is None:
            gradients[part.names[0]] = part.in_order(part.right)
            continue
        weight = torch.einsum("no,ni->noi", part.right, part.left).reshape(len(rows), -1)
        for name, g in zip(part.names, (weight, part.right), strict=False):
            gradients[name] = g
    return gradients


# ---- stacks of layers ---------------------------------------------------------------------------

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
