"""Made-up rows, weights and slopes, on which modules are tried before they see any record."""

from __future__ import annotations

import copy
from collections.abc import Collection

import torch
from torch import nn

from skdpfl.torch._layout import Params

#: made-up rows that are tried at all places of a block
_TRIED = 5


def made_up_generator() -> torch.Generator:
    """Return a generator that always draws the same."""
    return torch.Generator().manual_seed(0)


def made_up_rows(module: nn.Module, n_features: int) -> torch.Tensor:
    """Return rows of numbers between 0 and 1 and, if the module takes them, wider ones.

    What treats some records in another way (a branch, an order) shows on different rows only.
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

    They hardly ever are numbers that are zero, or alike.
    """
    module = copy.deepcopy(module).double()
    rows = made_up_rows(module, n_features)[-_TRIED:]
    move(module, names, rows)
    with torch.no_grad():
        raw = module(rows.clone())
    params = {name: module.get_parameter(name).detach() for name in names}
    return params, rows, torch.randn(raw.shape, generator=made_up_generator(), dtype=raw.dtype)


def move(module: nn.Module, names: Collection[str], rows: torch.Tensor) -> None:
    """Add made-up numbers to the parameters that are trained, of about the size of weights.

    Smaller ones if predictions are not finite then: of parameters that have to be positive.
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
