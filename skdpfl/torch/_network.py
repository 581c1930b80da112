"""A module of PyTorch with flat parameters."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import nn

from skdpfl.losses import Loss
from skdpfl.models import Maps, Model
from skdpfl.privacy.randomness.streams import Stream
from skdpfl.torch._fitted import FittedModule, maps_of
from skdpfl.torch._refusals import refuse_layers, refuse_mixing
from skdpfl.torch._sums import factors_of, full_precision
from skdpfl.torch._tape import Params, Tape

#: numbers held at once for records' gradients, and records that predictions are made for at once
_AT_ONCE, _PREDICTED = 2**24, 1024
#: weights are drawn by torch's global generator, one module at a time
_DRAWING = threading.Lock()


class TorchNetwork(Model):
    """A module with flat parameters, in the order of its ``named_parameters``.

    Parameters
    ----------
    factory : callable
        Returns a new module for records (n, n_features); has ``n_features`` and ``n_outputs``.
    device : torch.device
        Where gradients are computed.
    """

    def __init__(self, factory: Any, device: torch.device) -> None:
        self.factory, self.device = factory, device
        self.n_features, self.n_outputs = factory.n_features, factory.n_outputs
        self._prepare()

    def _prepare(self) -> None:
        module = _drawn(self.factory, 0)
        refuse_layers(module)
        self._shapes = {
            name: tuple(p.shape) for name, p in module.named_parameters() if p.requires_grad
        }
        if not self._shapes:
            raise ValueError("The module has no parameter that requires a gradient.")
        self._last = _last_layer(module)
        exact = copy.deepcopy(module).double()
        rows = torch.rand((3, self.n_features), generator=_made_up(), dtype=torch.float64)
        refuse_mixing(exact, rows)
        self._module = module
        self._watched, self._maps, self._numbers = _tried(exact, self._shapes, rows)
        self._threads = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what the module is made from."""
        return {"factory": self.factory, "device": str(self.device)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["factory"], torch.device(state["device"]))  # type: ignore[misc]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(map(_count, self._shapes.values()))

    @property
    def numbers_per_record(self) -> int:
        """Features, what passes the layers, and gradients that are formed."""
        return self.n_features + self._numbers

    @property
    def work_per_record(self) -> int:
        """Parameters, and what passes the layers."""
        return self.size + self._numbers

    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the weights that the factory draws, from a seed of the stream."""
        if stream is None:
            raise ValueError("A network starts at random weights: give a stream.")
        module = _drawn(self.factory, int(stream.words(1)[0]) >> 1)
        parts = dict(module.named_parameters())
        with torch.no_grad():
            flat = torch.cat([parts[name].reshape(-1) for name in self._shapes])
        return flat.numpy().astype(dtype)

    def penalty_mask(self) -> NDArray:
        """Return 0 for intercepts and scales (parameters of one axis), and 1 for others."""
        masks = [np.full(_count(s), len(s) > 1, float) for s in self._shapes.values()]
        return np.concatenate(masks)

    def output_mask(self) -> NDArray | None:
        """Return 1 for the last layer, where it is the last of a Sequential and linear."""
        if self._last is None:
            return None
        ours = [name.rpartition(".")[0] == self._last for name in self._shapes]
        counts = [_count(shape) for shape in self._shapes.values()]
        return np.repeat(np.array(ours, float), counts)

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k)."""
        shape = np.broadcast_shapes(params.shape[:-1], X.shape[:-2])
        params = np.broadcast_to(params, (*shape, self.size))
        X = np.broadcast_to(X, (*shape, *X.shape[-2:]))
        out = np.empty((*shape, X.shape[-2], self.n_outputs), params.dtype)
        for i in np.ndindex(shape):
            tape = self._tape(params.dtype)
            given = self._split(params[i])
            with torch.no_grad():
                for rows in _pieces(X.shape[-2], _PREDICTED):
                    z = torch.func.functional_call(tape.plain, given, (self._tensor(X[i][rows]),))
                    out[i][rows] = z.cpu().numpy()
        return out

    def clipped_gradient_sum(
        self,
        params: NDArray,
        X: NDArray,
        y: NDArray,
        loss: Loss,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray | None = None,
        weights: NDArray | None = None,
        chunk: int | None = None,
    ) -> NDArray:
        """See `Model.clipped_gradient_sum`; the proof is in :mod:`skdpfl.torch._sums`."""
        if squared_norms is None:
            squared_norms = self.squared_row_norms(X)
        n = X.shape[-2]
        shape = np.broadcast_shapes(params.shape[:-1], X.shape[:-2], np.shape(clip_norm))
        params = np.broadcast_to(params, (*shape, self.size))
        clips = np.broadcast_to(clip_norm, shape)
        X = np.broadcast_to(X, (*shape, *X.shape[-2:]))
        shares = np.ones(n, params.dtype) if weights is None else weights
        y, norms, shares = (np.broadcast_to(v, (*shape, n)) for v in (y, squared_norms, shares))
        out = np.zeros((*shape, self.size), params.dtype)
        with np.errstate(all="ignore"), full_precision(self.device):
            for i in np.ndindex(shape):
                given = self._split(params[i])
                for rows in _pieces(n, chunk or n):
                    some = X[i][rows], y[i][rows], norms[i][rows], shares[i][rows]
                    out[i] += self._chunk(given, *some, loss, float(clips[i]))
        return out

    def _chunk(
        self,
        given: Params,
        X: NDArray,
        y: NDArray,
        norms: NDArray,
        shares: NDArray,
        loss: Loss,
        clip_norm: float,
    ) -> NDArray:
        """Return the clipped sum of a chunk, in pieces that memory holds."""
        total = np.zeros(self.size, X.dtype)
        at_once = max(2, _AT_ONCE // self.numbers_per_record)
        for rows in _pieces(len(X), at_once):
            total += self._piece(
                given, X[rows], y[rows], norms[rows], shares[rows], loss, clip_norm
            )
        return total

    def _piece(
        self,
        given: Params,
        X: NDArray,
        y: NDArray,
        norms: NDArray,
        shares: NDArray,
        loss: Loss,
        clip_norm: float,
    ) -> NDArray:
        tape, records = self._tape(X.dtype), self._tensor(X)
        raw = tape.forward(given, records)
        slopes = loss.gradient(y, raw.detach().cpu().numpy(), squared_norms=norms)
        parts = tape.parts(given, records, raw, self._tensor(slopes))
        finite = np.isfinite(norms) & np.isfinite(slopes).all(axis=-1)
        if y.dtype.kind == "f":
            finite &= np.isfinite(y)
        if not parts:  # raw predictions depend on no parameter
            return np.zeros(self.size, X.dtype)
        factors, good = factors_of(parts, clip_norm, finite)
        if not good.all():
            keep = self._tensor(good)[:, None]
            parts = [part.masked(keep) for part in parts]
        shares = shares.astype(X.dtype, copy=False)
        f = self._tensor(shares if factors is None else factors * shares)
        sums = {name: total for part in parts for name, total in part.sums(f)}
        zeros = {name: np.zeros(_count(shape)) for name, shape in self._shapes.items()}
        flat = [sums[n].cpu().numpy() if n in sums else zeros[n] for n in self._shapes]
        return np.concatenate(flat).astype(X.dtype, copy=False)

    def fitted_attributes(
        self, params: NDArray, maps: Maps, *, is_classifier: bool
    ) -> dict[str, Any]:
        """Return ``module_``, which takes records and gives predictions in their own units."""
        module = copy.deepcopy(self._module).to(_torch_dtype(params.dtype))
        with torch.no_grad():
            for name, value in self._split(params, on=torch.device("cpu")).items():
                module.get_parameter(name).copy_(value)
        fitted = FittedModule(self.factory, module, maps_of(maps, self.n_features))
        return {"module_": fitted.to(self.device)}

    def raw_of_fitted(self, attributes: Mapping[str, Any], X: NDArray) -> NDArray:
        """Return raw predictions by the fitted module."""
        module = attributes["module_"]
        like = next(module.parameters())
        out = []
        with torch.no_grad():
            for rows in _pieces(len(X), _PREDICTED):
                out.append(module(torch.tensor(X[rows]).to(like)).cpu().numpy())
        return np.concatenate(out)

    def _tensor(self, values: NDArray) -> torch.Tensor:
        return torch.tensor(values, device=self.device)

    def _split(self, params: NDArray, on: torch.device | None = None) -> Params:
        """Return the parameters by name, as tensors."""
        flat, at, parts = torch.tensor(params, device=on or self.device), 0, {}
        for name, shape in self._shapes.items():
            parts[name] = flat[at : at + _count(shape)].reshape(shape)
            at += _count(shape)
        return parts

    def _tape(self, dtype: DTypeLike) -> Tape:
        """Return this thread's copy of the module."""
        kept: dict[np.dtype, Tape] | None = getattr(self._threads, "tapes", None)
        if kept is None:
            kept = self._threads.tapes = {}
        kind = np.dtype(dtype)
        if kind not in kept:
            module = copy.deepcopy(self._module).to(self.device, _torch_dtype(kind))
            kept[kind] = Tape(module, self._shapes, self._watched, self._maps)
        return kept[kind]


def _drawn(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a module whose weights torch's global generator draws from a seed."""
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return factory()


def _made_up() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _tried(
    module: nn.Module, shapes: dict[str, tuple[int, ...]], rows: torch.Tensor
) -> tuple[bool, bool, int]:
    """Return whether hooks see all gradients, vmap works, and numbers that pass per record.

    Hooks do not see a layer whose weights are used in another way, or whose first axis is not that
    of records: their gradients of made-up rows then differ from those of single records.
    """
    params = {name: p.detach() for name, p in module.named_parameters()}
    want = _gradients(Tape(module, shapes, watched=False, maps=False), params, rows)

    def agrees(tape: Tape) -> bool:
        try:
            found = _gradients(tape, params, rows)
        except RuntimeError:  # what vmap does not support; layers that see records elsewhere
            return False
        pairs = ((found[name], want[name]) for name in shapes)
        return all(f.shape == w.shape and torch.allclose(f, w, atol=1e-10) for f, w in pairs)

    maps = agrees(Tape(module, shapes, watched=False))
    tape = Tape(module, shapes, maps=maps)
    watched = agrees(tape)
    tape.forward(params, rows)
    numbers = sum(2 * (c.entered.numel() + c.left.numel()) for c in tape.calls) // len(rows)
    formed = sum(map(_count, shapes.values()))
    return watched, maps, numbers + formed


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


def _last_layer(module: nn.Module) -> str | None:
    """Return the path of the last layer, if raw predictions are linear in its parameters."""
    if not isinstance(module, nn.Sequential) or type(module[-1]) is not nn.Linear:
        return None
    return str(len(module) - 1)


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=int))


def _pieces(n: int, most: int) -> list[slice]:
    return [slice(start, start + most) for start in range(0, n, max(1, most))]


def _torch_dtype(dtype: DTypeLike) -> torch.dtype:
    return torch.float32 if np.dtype(dtype) == np.float32 else torch.float64
