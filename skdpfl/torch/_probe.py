"""What is found out about a module before it sees any record, on made-up rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import nn

from skdpfl._warnings import warn
from skdpfl.torch._layout import Params
from skdpfl.torch._made_up import made_up_generator, made_up_rows, move
from skdpfl.torch._refusals import TOLERANCE, refuse_mixing
from skdpfl.torch._tape import Call, Tape, watched_layers

#: numbers in the gradients of made-up rows, unless three rows have more
_FORMED = 2**22
#: how far parameters without a gradient are moved, to see whether predictions change
_CHANGE = 1e-4


class Findings(NamedTuple):
    """How gradients are computed, and what a record takes.

    ``watched``: hooks see the gradients of Linear layers and convolutions; ``maps``: vmap works;
    ``channels_last``: convolutions may change the order of their results in memory. ``numbers``
    pass the layers or are formed; ``work`` is the number of multiplications by weights, those of a
    convolution counted at each position.
    """

    watched: bool
    maps: bool
    channels_last: bool
    numbers: int
    work: int


def probe(module: nn.Module, names: Collection[str], n_features: int) -> Findings:
    """Return the findings for a module in double precision; raise if it mixes records.

    Hooks do not see a layer whose weights are used in another way, or whose first axis is not that
    of records: their gradients of made-up rows then differ from those of single records. Parameters
    are moved, in place: where they start at zero (gates, last layers), nothing would be seen of
    what is behind them.
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
        except RuntimeError:  # what vmap does not support; layers that see records elsewhere
            return False
        pairs = ((found[name], want[name]) for name in names)
        return all(f.shape == w.shape and torch.allclose(f, w, atol=1e-10) for f, w in pairs)

    maps = agrees(Tape(module, names, watched=False))
    tape = Tape(module, names, maps=maps)
    watched = channels_last = agrees(tape)
    if not watched:  # it may read results by their order in memory, as view() does
        tape = Tape(module, names, maps=maps, channels_last=False)
        watched = agrees(tape)
    tape.forward(params, rows)
    passing = sum(2 * (c.entered.numel() + c.left.numel()) for c in tape.calls) // len(rows)
    work = formed + sum(_repeated(module, call) for call in tape.calls if watched)
    return Findings(watched, maps, channels_last, passing + formed, work)


def _one_by_one(
    module: nn.Module, params: Params, names: Collection[str], rows: torch.Tensor
) -> Params:
    """Return the gradients of made-up rows, computed record by record."""
    try:
        return _gradients(Tape(module, names, watched=False, maps=False), params, rows)
    except RuntimeError as error:
        error.add_note(
            "Gradients of single records could not be computed. If forward uses "
            "torch.utils.checkpoint, leave it out: it would run again with other weights."
        )
        raise


def _warn_of_untrained(module: nn.Module, rows: torch.Tensor, names: Collection[str]) -> None:
    """Warn of parameters that predictions depend on, of those whose gradients are zero."""
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
            "keep them as they are by requires_grad_(False)."
        )


def last_layer(module: nn.Module, names: Collection[str]) -> str | None:
    """Return the path of the last layer, if raw predictions are linear in its parameters.

    All of them are trained, and used there only.
    """
    if type(module).forward is not nn.Sequential.forward:
        return None
    *_, path = module._modules
    return path if type(watched_layers(module, names).get(path)) is nn.Linear else None


def _repeated(module: nn.Module, call: Call) -> int:
    """Return the multiplications of a record by a layer's weights after the first by each."""
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
