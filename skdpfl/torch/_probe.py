"""What is found out about a module on made-up rows, before it sees any record."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import nn

from skdpfl.torch._layout import Params
from skdpfl.torch._refusals import refuse_mixing
from skdpfl.torch._tape import Call, Tape


class Findings(NamedTuple):
    """How gradients are computed, and what a record takes.

    ``watched``: hooks see the gradients of Linear and Conv2d layers; ``maps``: vmap works.
    ``numbers`` pass the layers or are formed; ``work`` is the number of multiplications by weights,
    those of a convolution counted at each position.
    """

    watched: bool
    maps: bool
    numbers: int
    work: int


def probe(module: nn.Module, names: Collection[str], n_features: int) -> Findings:
    """Return the findings for a module in double precision; raise if it mixes records.

    Hooks do not see a layer whose weights are used in another way, or whose first axis is not that
    of records: their gradients of made-up rows then differ from those of single records.
    """
    rows = torch.rand((3, n_features), generator=_made_up(), dtype=torch.float64)
    refuse_mixing(module, rows)
    params = {name: p.detach() for name, p in module.named_parameters()}
    want = _gradients(Tape(module, names, watched=False, maps=False), params, rows)

    def agrees(tape: Tape) -> bool:
        try:
            found = _gradients(tape, params, rows)
        except RuntimeError:  # what vmap does not support; layers that see records elsewhere
            return False
        pairs = ((found[name], want[name]) for name in names)
        return all(f.shape == w.shape and torch.allclose(f, w, atol=1e-10) for f, w in pairs)

    maps = agrees(Tape(module, names, watched=False))
    tape = Tape(module, names, maps=maps)
    watched = agrees(tape)
    tape.forward(params, rows)
    passing = sum(2 * (c.entered.numel() + c.left.numel()) for c in tape.calls) // len(rows)
    formed = sum(params[name].numel() for name in names)
    work = formed + sum(_repeated(tape, call) for call in tape.calls if watched)
    return Findings(watched, maps, passing + formed, work)


def last_layer(module: nn.Module) -> str | None:
    """Return the path of the last layer, if raw predictions are linear in its parameters."""
    if not isinstance(module, nn.Sequential) or type(module[-1]) is not nn.Linear:
        return None
    return str(len(module) - 1)


def _repeated(tape: Tape, call: Call) -> int:
    """Return the multiplications of a record by a layer's weights after the first by each."""
    weight = tape.layers[call.path].get_parameter("weight")
    positions = call.left[0].numel() // len(weight)
    return (positions - 1) * weight.numel()


def _gradients(tape: Tape, params: Params, rows: torch.Tensor) -> Params:
    """Return the gradients (n, .) of made-up slopes, by parameter."""
    raw = tape.forward(params, rows)
    slopes = torch.randn(raw.shape, generator=_made_up(), dtype=raw.dtype)
    found = {name: p.new_zeros((len(rows), p.numel())) for name, p in params.items()}
    for part in tape.parts(params, rows, raw, slopes):
        if part.left is None:
            found[part.names[0]] = part.right
            continue
        weight = torch.einsum("no,ni->noi", part.right, part.left).reshape(len(rows), -1)
        for name, g in zip(part.names, (weight, part.right), strict=False):
            found[name] = g
    return found


def _made_up() -> torch.Generator:
    return torch.Generator().manual_seed(0)
