"""A module of PyTorch with flat parameters."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from skdpfl.losses import Loss
from skdpfl.models import Maps, Model, NetworkRules
from skdpfl.privacy.randomness.streams import Stream
from skdpfl.torch._blocks import Blocks, blocks_for, cut, filled
from skdpfl.torch._fitted import FittedModule, drawn, maps_of
from skdpfl.torch._layout import Layout, Params
from skdpfl.torch._made_up import made_up
from skdpfl.torch._probe import last_layer, probe
from skdpfl.torch._refusals import refuse_layers, refuse_single
from skdpfl.torch._sums import factors_of, full_precision, one_thread
from skdpfl.torch._tape import Tape

#: numbers held at once for records' gradients, and records that predictions are made for at once
_AT_ONCE, _PREDICTED = 2**24, 1024


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
        module = drawn(self.factory, 0)
        refuse_layers(module)
        self._layout = Layout(module)
        self._last = last_layer(module, self._layout.shapes)
        exact = copy.deepcopy(module).double()
        refuse_single(exact, self.n_features)
        self._found = probe(exact, self._layout.shapes, self.n_features)
        self._module, self._threads = module, threading.local()
        self._blocks: dict[np.dtype, Blocks] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what the module is made from."""
        return {"factory": self.factory, "device": str(self.device)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["factory"], torch.device(state["device"]))  # type: ignore[misc]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self._layout.size

    @property
    def rules(self) -> NetworkRules:
        """Steps and clip norms of networks."""
        return NetworkRules()

    @property
    def architecture(self) -> str:
        """Layers and shapes of parameters: functions of one name may make other modules."""
        return f"{self._module} {self._layout.shapes}"

    @property
    def numbers_per_record(self) -> int:
        """Features, what passes the layers, and gradients that are formed."""
        return self.n_features + self._found.numbers

    @property
    def work_per_record(self) -> int:
        """Multiplications by weights; a convolution uses its weights at each position."""
        return self._found.work

    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the weights that the factory draws, from a seed of the stream."""
        if stream is None:
            raise ValueError("A network starts at random weights: give a stream.")
        module = drawn(self.factory, int(stream.words(1)[0]) >> 1)
        return self._layout.joined(dict(module.named_parameters()), dtype)

    def penalty_mask(self) -> NDArray:
        """Return 0 for intercepts and scales (parameters of one axis), and 1 for others."""
        return self._layout.mask(lambda name, shape: len(shape) > 1)

    def output_mask(self) -> NDArray | None:
        """Return 1 for the last layer, where it is the last of a Sequential and linear."""
        if self._last is None:
            return None
        return self._layout.mask(lambda name, shape: name.rpartition(".")[0] == self._last)

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k)."""
        shape = np.broadcast_shapes(params.shape[:-1], X.shape[:-2])
        params = np.broadcast_to(params, (*shape, self.size))
        X = np.broadcast_to(X, (*shape, *X.shape[-2:]))
        out = np.empty((*shape, X.shape[-2], self.n_outputs), params.dtype)
        for i in np.ndindex(shape):
            tape = self._tape(params.dtype)
            given = self._layout.split(params[i], self.device)
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
        with np.errstate(all="ignore"), full_precision(self.device), one_thread():
            for i in np.ndindex(shape):
                given = self._layout.split(params[i], self.device)
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
        """Return the clipped sum of a chunk, block by block."""
        total = np.zeros(self.size, X.dtype)
        blocks = self._blocks_of(X.dtype)
        with blocks.products():
            for rows, size in cut(len(X), blocks.sizes):
                weights = np.zeros(size, X.dtype)
                weights[: rows.stop - rows.start] = shares[rows]
                some = filled(X[rows], size), filled(y[rows], size), filled(norms[rows], size)
                total += self._block(given, *some, weights, loss, clip_norm)
        return total

    def _blocks_of(self, dtype: np.dtype) -> Blocks:
        """Return how records are cut into blocks, tried on made-up ones once for a dtype."""
        if dtype not in self._blocks:
            like = {"dtype": _torch_dtype(dtype), "device": self.device}
            most = max(1, _AT_ONCE // self.numbers_per_record)
            given, rows, slopes = made_up(self._module, self._layout.shapes, self.n_features)
            given = {name: value.to(**like) for name, value in given.items()}
            self._blocks[dtype] = blocks_for(
                self._tape(dtype), given, rows.to(**like), slopes.to(**like), most
            )
        return self._blocks[dtype]

    def _block(
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
        f = self._tensor(shares if factors is None else factors * shares)
        sums = {name: total for part in parts for name, total in part.sums(f)}
        return self._layout.joined(sums, X.dtype)

    def fitted_attributes(
        self, params: NDArray, maps: Maps, *, is_classifier: bool
    ) -> dict[str, Any]:
        """Return ``module_``, which takes records and gives predictions in their own units."""
        module = copy.deepcopy(self._module).to(_torch_dtype(params.dtype))
        with torch.no_grad():
            for name, value in self._layout.split(params, torch.device("cpu")).items():
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

    def _tape(self, dtype: DTypeLike) -> Tape:
        """Return this thread's copy of the module."""
        kept: dict[np.dtype, Tape] | None = getattr(self._threads, "tapes", None)
        if kept is None:
            kept = self._threads.tapes = {}
        kind = np.dtype(dtype)
        if kind not in kept:
            module = copy.deepcopy(self._module).to(self.device, _torch_dtype(kind))
            kept[kind] = Tape(module, self._layout.shapes, *self._found[:3])
        return kept[kind]


def _pieces(n: int, most: int) -> list[slice]:
    return [slice(start, start + most) for start in range(0, n, max(1, most))]


def _torch_dtype(dtype: DTypeLike) -> torch.dtype:
    return torch.float32 if np.dtype(dtype) == np.float32 else torch.float64
