"""Tests of a module on made-up rows, before it sees any record.

Modules that cannot be trained record by record are refused, with an error that names an
alternative.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from skdpfl._warnings import warn
from skdpfl.torch._fitted import Params
from skdpfl.torch._tape import Call, Tape, watched_layers

#: outputs of made-up rows, together and one by one, agree to this
TOLERANCE = 1e-8


def refuse_layers(module: nn.Module) -> None:
    """Raise for the first layer that mixes records, keeps statistics of them, or is random."""
    for path, layer in module.named_modules():
        where = f"{type(layer).__name__}{f' (layer {path!r})' if path else ''}"
        if isinstance(layer, _BatchNorm):
            raise ValueError(
                f"{where} mixes records: a record's output depends on the others in the batch, so "
                "clipping does not bound its effect. Use torch.nn.GroupNorm or LayerNorm, which "
                "normalise each record by itself."
            )
        if isinstance(layer, _NormBase) and layer.track_running_stats:
            raise ValueError(
                f"{where} keeps statistics of the records, which the privacy cost does not cover. "
                "Use track_running_stats=False, or torch.nn.GroupNorm."
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
            raise ValueError(
                f"{where} with max_norm changes weights when a record uses them, and so the "
                "results of other records. Leave max_norm out."
            )
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise ValueError(
                f"{where} draws random numbers that random_state does not control. Leave it out: "
                "clipping and noise already regularise."
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
        "dtype of the records: in forward, make tensors by x.new_zeros(...) or dtype=x.dtype, and "
        "leave out float() and half()."
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
            f"records, but {tuple(apart.shape)} for the same one by one: keep the first axis for "
            "records (squeeze() removes it from a single record)."
        )
    if not torch.allclose(together, apart, rtol=TOLERANCE, atol=TOLERANCE):
        raise ValueError(
            f"{type(module).__name__} mixes records, or is random: outputs of made-up rows differ "
            "together and one by one. A record's output may depend on that record only (normalise "
            "by torch.nn.GroupNorm; keep the first axis for records)."
        )
    now = (*module.buffers(), *module.parameters())
    if not all(torch.equal(old, new) for old, new in zip(before, now, strict=True)):
        raise ValueError(
            f"{type(module).__name__} changes its buffers or parameters when it is called. They "
            "would depend on the records, which the privacy cost does not cover; leave them "
            "unchanged in forward."
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
#: what PyTorch raises where vmap has no rule, or a branch needs a number
_UNSUPPORTED = RuntimeError, TypeError, ValueError, IndexError, AttributeError
#: how far parameters without a gradient are moved, to see whether predictions change
_CHANGE = 1e-4


class Findings(NamedTuple):
    """How gradients are computed, and the memory and work for a record.

    ``together``: the module is known not to mix records, else each one passes it alone.
    ``watched``: hooks see the gradients of Linear layers and convolutions; ``maps``: vmap works;
    ``channels_last``: convolutions may change the memory order of their results. ``numbers`` is the
    number of values per record, in layers and gradients; ``work`` is the number of multiplications
    by weights, for convolutions at each position.
    """

    watched: bool
    maps: bool
    channels_last: bool
    together: bool
    numbers: int
    work: int


def probe(
    module: nn.Module, names: Collection[str], n_features: int, together: bool = True
) -> Findings:
    """Return the findings for a module in double precision; raise if it mixes records.

    If a layer's weights are used outside it, or its first axis is not that of records, gradients by
    hooks differ from those of single records on made-up rows. Parameters are changed in place: if
    they start at zero (gates, last layers), nothing before them could be tested. ``together``:
    whether the module is known not to mix records.
    """
    rows = made_up_rows(module, n_features)
    refuse_mixing(module, rows)
    move(module, names, rows)
    refuse_mixing(module, rows)
    params = {name: p.detach() for name, p in module.named_parameters()}
    formed = sum(params[name].numel() for name in names)
    rows = rows[-max(3, _FORMED // formed) :]
    want = _one_by_one(module, params, names, rows)
    _warn_of_untrained(module, rows, [name for name in names if not want[name].any()])

    def agrees(tape: Tape) -> bool:
        try:
            found = _gradients(tape, params, rows)
            raw = tape.raw(params, rows.clone())
        except _UNSUPPORTED:  # by vmap; layers that see records elsewhere
            return False
        if not torch.allclose(raw, apart, atol=1e-10):
            return False
        pairs = ((found[name], want[name]) for name in names)
        return all(f.shape == w.shape and torch.allclose(f, w, atol=1e-10) for f, w in pairs)

    apart = Tape(module, names, maps=False, together=False).raw(params, rows)
    maps = agrees(Tape(module, names, watched=False, together=together))
    tape = Tape(module, names, maps=maps)
    watched = channels_last = agrees(tape)
    if not watched:  # it may read results by their order in memory, as view() does
        tape = Tape(module, names, maps=maps, channels_last=False)
        watched = agrees(tape)
    tape.forward(params, rows)
    passing = sum(2 * (c.entered.numel() + c.left.numel()) for c in tape.calls) // len(rows)
    work = formed + sum(_repeated(module, call) for call in tape.calls if watched)
    return Findings(watched and together, maps, channels_last, together, passing + formed, work)


def _one_by_one(
    module: nn.Module, params: Params, names: Collection[str], rows: torch.Tensor
) -> Params:
    """Return the gradients of made-up rows, computed record by record."""
    try:
        return _gradients(Tape(module, names, watched=False, maps=False), params, rows)
    except RuntimeError as error:
        error.add_note(
            "Gradients of single records could not be computed. If forward uses "
            "torch.utils.checkpoint, leave it out: it would run forward again with other weights."
        )
        raise


def _warn_of_untrained(module: nn.Module, rows: torch.Tensor, names: Collection[str]) -> None:
    """Warn of parameters whose gradients are zero although predictions depend on them."""
    generator, moving = made_up_generator(), []
    with torch.no_grad():
        before = module(rows.clone())
        for name in names:
            parameter = module.get_parameter(name)
            kept = parameter.clone()
            change = torch.randn(kept.shape, generator=generator, dtype=kept.dtype)
            parameter.copy_(kept + _CHANGE * change)
            if not torch.allclose(module(rows.clone()), before, TOLERANCE, TOLERANCE):
                moving.append(name)
            parameter.copy_(kept)
    if moving:
        warn(
            f"{type(module).__name__} does not train {', '.join(moving)}: predictions depend on "
            "these parameters, but gradients do not reach them (detach(), no_grad(), or "
            "checkpoint(use_reentrant=True) in forward), while noise does. Let gradients pass, or "
            "freeze the parameters by requires_grad_(False)."
        )


def last_layer(module: nn.Module, names: Collection[str]) -> str | None:
    """Return the path of the last layer, if raw predictions are linear in its parameters.

    All its parameters are trained, and used there only.
    """
    if type(module).forward is not nn.Sequential.forward:
        return None
    *_, path = module._modules
    return path if type(watched_layers(module, names).get(path)) is nn.Linear else None


def _repeated(module: nn.Module, call: Call) -> int:
    """Return the number of a record's multiplications by a layer's weights beyond one for each."""
    weight = module.get_submodule(call.path).get_parameter("weight")
    positions = call.left[0].numel() // len(weight)
    return (positions - 1) * weight.numel()


def _gradients(tape: Tape, params: Params, rows: torch.Tensor) -> Params:
    """Return the gradients (n, .) of made-up slopes, by parameter."""
    raw = tape.forward(params, rows)
    slopes = torch.randn(raw.shape, generator=made_up_generator(), dtype=raw.dtype)
    found = {name: p.new_zeros((len(rows), p.numel())) for name, p in params.items()}
    for part in tape.parts(params, rows, raw, slopes):
        if part.left is None:
            found[part.names[0]] = part.in_order(part.right)
            continue
        weight = torch.einsum("no,ni->noi", part.right, part.left).reshape(len(rows), -1)
        for name, g in zip(part.names, (weight, part.right), strict=False):
            found[name] = g
    return found
