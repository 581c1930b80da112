"""Modules that cannot be trained record by record: refused by name, with the way out."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

#: outputs of made-up rows, together and one by one, agree to this
_TOLERANCE = 1e-8


def refuse_layers(module: nn.Module) -> None:
    """Raise for the first layer that mixes records, remembers them, or draws numbers of its own."""
    for path, layer in module.named_modules():
        where = f"{type(layer).__name__}{f' (layer {path!r})' if path else ''}"
        if isinstance(layer, _BatchNorm):
            raise ValueError(
                f"{where} mixes records: a record's output depends on the others in the batch, so "
                "no clip bounds what it changes. Use torch.nn.GroupNorm, or LayerNorm, which "
                "normalise each record by itself."
            )
        if isinstance(layer, _NormBase) and layer.track_running_stats:
            raise ValueError(
                f"{where} keeps statistics of the records it has seen, which nothing pays for. Use "
                "track_running_stats=False, or torch.nn.GroupNorm."
            )
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise ValueError(
                f"{where} draws random numbers that random_state does not know. Leave it out: "
                "clipping and noise regularise already."
            )


def refuse_mixing(module: nn.Module, rows: torch.Tensor) -> None:
    """Raise if made-up rows have other outputs together than one by one, or change a buffer."""
    before = [buffer.clone() for buffer in module.buffers()]
    with torch.no_grad():
        together = module(rows)
        apart = torch.cat([module(row[None]) for row in rows])
    if not torch.allclose(together, apart, rtol=_TOLERANCE, atol=_TOLERANCE):
        raise ValueError(
            f"{type(module).__name__} mixes records, or is random: made-up rows have other outputs "
            "together than one by one. A record's output may depend on that record only "
            "(normalise by torch.nn.GroupNorm; keep the first axis for records)."
        )
    for old, new in zip(before, module.buffers(), strict=True):
        if not torch.equal(old, new):
            raise ValueError(
                f"{type(module).__name__} changes its buffers when it is called: it keeps "
                "statistics of the records, which nothing pays for."
            )
