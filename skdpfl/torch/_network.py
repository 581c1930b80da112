"""PyTorch modules with flat parameters, and the class that estimators take."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import chain, pairwise, starmap
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from skdpfl._warnings import warnings_off
from skdpfl.losses import Loss
from skdpfl.models import Architecture, Maps, Model, NetworkRules, Records
from skdpfl.privacy.randomness.streams import Stream
from skdpfl.torch import _probe
from skdpfl.torch._blocks import Blocks, blocks_for, cut
from skdpfl.torch._device import Block, DrawnRecords, place_of
from skdpfl.torch._fitted import FittedModule, Layout, Params, initialised_module, maps_of
from skdpfl.torch._tape import WAYS, Tape

#: records that predictions are made for at once
_PREDICTED = 1024
#: errors that follow from sizes, not from a record, or after which a device computes no more
_SCARCE = MemoryError, torch.OutOfMemoryError, torch.AcceleratorError
#: properties of a network whose module was made
_PREPARED = {
    "_layout", "_last", "_probed", "_module", "_threads", "_blocks",
}  # fmt: skip


@dataclass(eq=False, repr=False)
class TorchNetwork(Model):
    """A module with flat parameters, in the order of its ``named_parameters``.

    For remote silos, declare this class and the factory of the module on both sides
    (:func:`skdpfl.remote.declare`): only the factory's name is sent, and each side calls its own.

    Parameters
    ----------
    module_factory : callable
        Returns a new module, as for :class:`TorchModel`.
    n_features : int
        Number of features of a record.
    n_outputs : int
        Number of raw predictions of a record.
    device : str, default="cpu"
        The device for gradients.
    """

    #: records and silos are separate here, whatever the module is
    stackable: ClassVar[bool] = True

    module_factory: Callable[..., Any]
    n_features: int
    n_outputs: int
    device: str = "cpu"

    def __post_init__(self) -> None:
        self.device = _device(self.device)
        self._place = place_of(self.device)
        self.factory = Factory(self.module_factory, self.n_features, self.n_outputs)

    def _prepare(self) -> TorchNetwork:
        """Make and probe the module, and return self."""
        module = initialised_module(self.factory, 0)
        self._layout = Layout(module)
        self._last = _probe.last_layer(module, self._layout.shapes)
        exact = copy.deepcopy(module).double()
        _probe.refuse_single(exact, self.n_features)
        self._probed = _probe.probe(exact, self._layout.shapes, self.n_features)
        if self._place.is_apart:
            _probe.refuse_on_device(exact, self._probed.way, self.n_features)
        self._module, self._threads = module, threading.local()
        self._blocks: dict[np.dtype, Blocks] = {}
        return self

    def __getattr__(self, name: str) -> Any:
        """Make the module when it is first needed, not when a letter is read."""
        if name not in _PREPARED or "_layout" in vars(self):
            raise AttributeError(name)
        return getattr(self._prepare(), name)

    def __getstate__(self) -> dict[str, Any]:
        """Return the factory and its arguments for pickling."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
        self._prepare()

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
        """Layers and shapes of parameters; factories of one name may make different modules."""
        return f"{self._module} {self._layout.shapes}"

    @property
    def fitted_by_rows(self) -> bool:
        """Whether the module is a plain stack, which does not mix records."""
        return self._probed.way == "stacked"

    @property
    def numbers_per_record(self) -> int:
        """Features, the layers' inputs and outputs, and computed gradients."""
        return self.n_features + self._probed.numbers

    @property
    def work_per_record(self) -> int:
        """Multiplications by weights; a convolution uses its weights at each position."""
        return self._probed.work

    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the initial weights that the factory draws, seeded by the stream."""
        if stream is None:
            raise ValueError("A network starts with random weights: give a stream.")
        module = initialised_module(self.factory, int(stream.words(1)[0]) >> 1)
        like = torch.empty(0, dtype=_torch_dtype(dtype))
        return self._layout.joined(dict(module.named_parameters()), like).numpy()

    def penalty_mask(self) -> NDArray:
        """Return 0 for intercepts and scales (parameters of one axis), and 1 for others."""
        return self._layout.mask(lambda name, shape: len(shape) > 1)

    def output_mask(self) -> NDArray | None:
        """Return 1 for the last layer, if it is linear and the last of a Sequential."""
        if self._last is None:
            return None
        return self._layout.mask(lambda name, shape: name.rpartition(".")[0] == self._last)

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k), computed in the dtype of X."""
        shape = np.broadcast_shapes(params.shape[:-1], X.shape[:-2])
        params = np.broadcast_to(params, (*shape, self.size))
        X = np.broadcast_to(X, (*shape, *X.shape[-2:]))
        out = np.empty((*shape, X.shape[-2], self.n_outputs), params.dtype)
        for i in np.ndindex(shape):
            tape = self._tape(X.dtype)
            tensors = self._layout.split(self._place.tensor(params[i].astype(X.dtype)))
            for rows in _pieces(X.shape[-2], _PREDICTED):
                out[i][rows] = self._raw(tape, tensors, X[i][rows])
        return out

    def _raw(self, tape: Tape, tensors: Params, X: NDArray) -> NDArray:
        """Return raw predictions (n, k); NaN for records that the module cannot take."""
        try:
            with warnings_off():
                return self._place.array(self._checked(tape.raw(tensors, self._place.tensor(X))))
        except _SCARCE:
            raise
        except Exception:  # of any kind: an error would tell of the record
            if len(X) == 1:
                return np.full((1, self.n_outputs), np.nan, X.dtype)
        return np.concatenate([self._raw(tape, tensors, X[[j]]) for j in range(len(X))])

    def _checked(self, raw: torch.Tensor) -> torch.Tensor:
        """Return raw predictions if their shape is that of records."""
        if raw.ndim != 2 or raw.shape[1] != self.n_outputs:
            raise ValueError(f"raw predictions of shape {tuple(raw.shape)}")
        return raw

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
        """See `Model.clipped_gradient_sum`; the proof is in :mod:`skdpfl.torch._tape`."""
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
        for i in np.ndindex(shape):
            records = DrawnRecords(X[i], None, y[i], norms[i], shares[i])
            out[i] = self._clipped_sum(params[i], records, loss, float(clips[i]), chunk)
        return out

    def clipped_gradient_sums(
        self,
        params: NDArray,
        records: Records,
        y: NDArray,
        loss: Loss,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray,
        chunk: int | None = None,
    ) -> NDArray:
        """See `Model.clipped_gradient_sums`; a device reads rows of its own copy of the table."""
        if not self._place.is_apart:
            return super().clipped_gradient_sums(
                params, records, y, loss, clip_norm=clip_norm, squared_norms=squared_norms,
                chunk=chunk,
            )  # fmt: skip
        assert isinstance(records.table, np.ndarray)  # only linear models have curves
        edges = records.edges.tolist()
        params = np.broadcast_to(params, (len(edges) - 1, self.size))
        clips, ones = np.broadcast_to(clip_norm, len(params)), np.ones(len(y), params.dtype)
        out = np.empty(params.shape, params.dtype)
        for i, own in enumerate(starmap(slice, pairwise(edges))):
            rows = records.index[own]
            each = DrawnRecords(
                records.table, rows, y[own], squared_norms[own], ones[own], kept=True
            )
            out[i] = self._clipped_sum(params[i], each, loss, float(clips[i]), chunk)
        return out

    def _clipped_sum(
        self,
        params: NDArray,
        records: DrawnRecords,
        loss: Loss,
        clip_norm: float,
        chunk: int | None,
    ) -> NDArray:
        """Return a silo's clipped sum, a chunk after the other."""
        place, n = self._place, len(records.y)
        with warnings_off(), np.errstate(all="ignore"), place.settings():
            flat, blocks = place.tensor(params), self._blocks_of(records.X.dtype)
            tensors, total = self._layout.split(flat), torch.zeros_like(flat)
            # on a device a block may hold several chunks
            within = place.is_apart and chunk is not None and blocks.sizes[0] % chunk == 0
            most = chunk if within else None
            for piece in _pieces(n, n if most or not chunk else chunk):
                part = torch.zeros_like(total)
                cuts = cut(piece, blocks.sizes)
                with blocks.products():
                    for block in place.blocks(records, loss, cuts):
                        part += self._block(tensors, block, loss, clip_norm, most)
                total += part
            return place.array(total)

    def _blocks_of(self, dtype: np.dtype) -> Blocks:
        """Return the blocks for records, tested on made-up ones once per dtype."""
        if dtype not in self._blocks:
            like = {"dtype": _torch_dtype(dtype), "device": self.device}
            most = max(1, self._place.at_once // self.numbers_per_record)
            named, rows, slopes = _probe.made_up(self._module, self._layout.shapes, self.n_features)
            named = {name: value.to(**like) for name, value in named.items()}
            self._blocks[dtype] = blocks_for(
                self._tape(dtype), named, rows.to(**like), slopes.to(**like), most
            )
        return self._blocks[dtype]

    def _block(
        self, tensors: Params, block: Block, loss: Loss, clip_norm: float, most: int | None
    ) -> torch.Tensor:
        """Return a block's clipped sum; records that the module cannot take count as zero.

        The others keep their places and bits: copies of one that it takes, of weight zero, replace
        these.
        """

        def is_taken(j: int) -> bool:
            try:
                alone = block.taken(np.full(size, j), np.ones(size, bool))
                self._sum(tensors, alone, loss, clip_norm, most)
            except _SCARCE:
                raise
            except Exception:
                return False
            return True

        try:
            return self._sum(tensors, block, loss, clip_norm, most)
        except _SCARCE:
            raise
        except Exception:  # of any kind: an error would tell of a record
            size = len(block.y)
            good = np.array([is_taken(j) for j in range(size)])
        if not good.any():
            return self._layout.joined({}, block.X)
        order = np.where(good, np.arange(size), good.argmax())
        return self._sum(tensors, block.taken(order, good), loss, clip_norm, most)

    def _sum(
        self, tensors: Params, block: Block, loss: Loss, clip_norm: float, most: int | None
    ) -> torch.Tensor:
        """Return a block's clipped sum, ``most`` records at a time; raise what the module does."""
        place, tape = self._place, self._tape(str(block.X.dtype).removeprefix("torch."))
        raw = self._checked(tape.forward(tensors, block.X))
        slopes, finite = place.slopes(loss, block, raw)
        parts = tape.parts(tensors, block.X, raw, slopes)
        if not parts:  # raw predictions depend on no parameter
            return self._layout.joined({}, block.X)
        parts, factors = place.clipped(parts, clip_norm, finite, block.shares)
        total = self._layout.joined({}, block.X)
        for rows in _pieces(len(block.y), most or len(block.y)):
            sums = (part.rows(rows).sums(factors[rows]) for part in parts)
            total += self._layout.joined(dict(chain.from_iterable(sums)), block.X)
        return total

    def fitted_attributes(
        self, params: NDArray, maps: Maps, *, is_classifier: bool
    ) -> dict[str, Any]:
        """Return ``module_``, which maps records to predictions in the original units."""
        module = copy.deepcopy(self._module).to(_torch_dtype(params.dtype))
        with torch.no_grad():
            for name, value in self._layout.split(torch.tensor(params)).items():
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

    def _tape(self, dtype: DTypeLike) -> Tape:
        """Return this thread's copy of the module."""
        tapes: dict[np.dtype, Tape] | None = getattr(self._threads, "tapes", None)
        if tapes is None:
            tapes = self._threads.tapes = {}
        kind = np.dtype(dtype)
        if kind not in tapes:
            module = copy.deepcopy(self._module).to(self.device, _torch_dtype(kind))
            tapes[kind] = WAYS[self._probed.way](module, list(self._layout.shapes))
        return tapes[kind]


def _pieces(n: int, most: int) -> list[slice]:
    return [slice(start, min(n, start + most)) for start in range(0, n, max(1, most))]


def _torch_dtype(dtype: DTypeLike) -> torch.dtype:
    return torch.float32 if np.dtype(dtype) == np.float32 else torch.float64


@dataclass(eq=False, repr=False)
class TorchModel(Architecture):
    """A PyTorch module, for the ``model`` of any estimator.

    Linear layers are clipped by the norms of their inputs and output gradients (ghost norms).
    Gradients of convolutions are computed record by record from the same, those of all other layers
    by ``torch.func.vmap``.

    Parameters
    ----------
    module_factory : callable
        Returns the module: without arguments, or from the numbers of features and of raw
        predictions (classes; 1 for two classes and in regressors). The module maps records (n,
        n_features) to raw predictions (n, n_outputs); images are made by ``nn.Unflatten``. The
        factory draws initial weights, seeded by ``random_state``; untrained parameters are drawn
        once for all fits. Weights that it loads must be public, like everything else in it.
    device : str, default="cpu"
        The device for gradients, such as "cuda"; on "cpu" each silo uses one thread, and the
        estimator's ``n_jobs`` runs several silos. A device keeps the table for the whole fit, if
        it fits into half of its free memory, and brings back one sum a step; noise is drawn and
        added on the CPU. A seed repeats a model bit for bit on "cpu" only. Modules that use whole
        numbers as indices (embeddings), and those that vmap cannot run, are refused on other
        devices: a record out of range would end the fit.

    See Also
    --------
    skdpfl.models.MLP : A fully connected network, without PyTorch.

    Notes
    -----
    **Formal guarantee.** A record's part of a clipped sum is a function of that record, with a norm
    of at most the clip norm, for the numbers as stored (:mod:`skdpfl.torch._tape`). Whole batches
    pass plain stacks of PyTorch's layers only (:mod:`skdpfl.torch._probe`). Any other module sees
    each record alone: under ``vmap`` or, if that is not possible or its gradients differ from the
    module's own on made-up rows, in a loop with copies of module, parameters and buffers, which is
    slower. What a module keeps in globals, closures or class attributes no copy holds apart: it is
    refused if made-up rows show it. Layers that mix records (BatchNorm) or keep statistics of them
    are refused, and so are modules that mix made-up rows. No bit of a record's part depends on how
    many other records were drawn (:mod:`skdpfl.torch._blocks`): records are computed in blocks of
    fixed sizes, or one by one if made-up rows show that the position in a block matters. A record
    that a module cannot take (a token out of range) counts as zero.

    "auto" chooses rounds, steps and clip norms by the rules of :class:`skdpfl.models.MLP`.

    The fitted attribute ``module_`` is a module for records in their original units, in evaluation
    mode. Its pickle holds arrays and the factory, which must be importable.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from torch import nn
    >>> from skdpfl import DPFedAvgClassifier
    >>> from skdpfl.torch import TorchModel
    >>> def network(n_features, n_outputs):
    ...     convolution = nn.Conv2d(1, 6, 3, stride=2)
    ...     layers = nn.Unflatten(1, (1, 8, 8)), convolution, nn.Tanh(), nn.Flatten()
    ...     return nn.Sequential(*layers, nn.Linear(54, n_outputs))
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = DPFedAvgClassifier(20.0, model=TorchModel(network), feature_bounds=(0, 16),
    ...                          local_steps=1, random_state=0)
    >>> clf.fit(X, y, silos=[i % 3 for i in range(len(y))]).score(X, y) > 0.6
    True
    """

    module_factory: Callable[..., Any]
    device: Any = "cpu"

    def build(self, n_features: int, n_outputs: int) -> TorchNetwork:
        return TorchNetwork(self.module_factory, n_features, n_outputs, self.device)._prepare()


class Factory:
    """The user's factory with the numbers of features and outputs; it checks the module."""

    def __init__(self, make: Callable[..., Any], n_features: int, n_outputs: int) -> None:
        if isinstance(make, torch.nn.Module) or not callable(make):
            raise ValueError(
                "module_factory must be a callable that returns a new torch.nn.Module."
            )
        self.make, self.n_features, self.n_outputs = make, n_features, n_outputs

    def __call__(self) -> torch.nn.Module:
        """Return a new module, in evaluation mode, with lazy layers initialised."""
        wanted = [
            p
            for p in inspect.signature(self.make).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if len(wanted) not in (0, 2):
            raise ValueError(
                "module_factory must take no arguments, or two: the numbers of features and of raw "
                f"predictions. It has {[p.name for p in wanted]!r} without defaults."
            )
        module = self.make(self.n_features, self.n_outputs) if wanted else self.make()
        if not isinstance(module, torch.nn.Module):
            raise ValueError(
                f"module_factory must return a torch.nn.Module; got {type(module).__name__}."
            )
        _probe.refuse_layers(module)
        module.eval()
        shape = (3, self.n_features)
        like = next(module.parameters(), None)
        lazy = torch.nn.parameter.is_lazy
        dtype = torch.float32 if like is None or lazy(like) else like.dtype
        try:
            with torch.no_grad():
                out = module(torch.zeros(shape, dtype=dtype))
        except (RuntimeError, ValueError, IndexError) as error:
            error.add_note(
                f"The module failed on records as rows of shape {shape}. If it takes images or "
                "sequences, begin with nn.Unflatten(1, (channels, height, width))."
            )
            raise
        if not isinstance(out, torch.Tensor):
            raise ValueError(
                f"The module must return one tensor, the raw predictions; got {type(out).__name__}."
            )
        if tuple(out.shape) != (3, self.n_outputs):
            raise ValueError(
                f"The module must return shape {(3, self.n_outputs)} for records of shape {shape}; "
                f"got {tuple(out.shape)}."
            )
        return module


def _device(device: Any) -> str:
    """Return a device's name."""
    try:
        return str(torch.device(device))
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f'device must be a device of torch, such as "cpu"; got {device!r}.'
        ) from error
