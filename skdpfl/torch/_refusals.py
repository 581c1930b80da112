"""Modules that cannot be trained record by record are refused by name, with the way out."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from skdpfl.torch._made_up import made_up_generator

#: outputs of made-up rows, together and one by one, agree to this
TOLERANCE = 1e-8


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
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
            raise ValueError(
                f"{where} with max_norm changes the weights that a record looks up, and so what "
                "other records get. Leave max_norm out."
            )
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise ValueError(
                f"{where} draws random numbers that random_state does not know. Leave it out: "
                "clipping and noise regularise already."
            )


def refuse_single(module: nn.Module, n_features: int) -> None:
    """Raise if a module, made double precision, computes in single precision only."""
    rows = torch.rand((3, n_features), generator=made_up_generator(), dtype=torch.float64)
    try:
        with torch.no_grad():
            kind = copy.deepcopy(module)(rows.clone()).dtype
        if kind == rows.dtype:
            return
        reason = f"it makes {kind} of torch.float64"
    except RuntimeError as error:
        try:
            with torch.no_grad():
                copy.deepcopy(module).float()(rows.float())
        except RuntimeError:  # for another reason
            raise error from None
        reason = str(error)
    raise ValueError(
        f"{type(module).__name__} computes in single precision only: {reason}. It has to take the "
        "dtype of the records: in forward, make tensors by x.new_zeros(...) or dtype=x.dtype, and "
        "leave out float() and half()."
    )


def refuse_mixing(module: nn.Module, rows: torch.Tensor) -> None:
    """Raise if made-up rows have other outputs together than one by one, or change the state."""
    before = [tensor.clone() for tensor in (*module.buffers(), *module.parameters())]
    with torch.no_grad():
        together = module(rows.clone())
        apart = torch.cat([module(row[None].clone()) for row in rows])
    if together.shape != apart.shape:
        raise ValueError(
            f"{type(module).__name__} makes {tuple(together.shape)} of {len(rows)} records and "
            f"{tuple(apart.shape)} of the same one by one: keep the first axis for records "
            "(squeeze() removes it from a single record)."
        )
    if not torch.allclose(together, apart, rtol=TOLERANCE, atol=TOLERANCE):
        raise ValueError(
            f"{type(module).__name__} mixes records, or is random: made-up rows have other outputs "
            "together than one by one. A record's output may depend on that record only "
            "(normalise by torch.nn.GroupNorm; keep the first axis for records)."
        )
    now = (*module.buffers(), *module.parameters())
    if not all(torch.equal(old, new) for old, new in zip(before, now, strict=True)):
        raise ValueError(
            f"{type(module).__name__} changes its buffers or parameters when it is called: it "
            "keeps what depends on the records, which nothing pays for."
        )
