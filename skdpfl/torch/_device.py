"""Where records' gradients are computed: on the CPU, or on a device that keeps their table.

To a device each table goes once, while its array lives: for the whole fit, unless the fit makes the
rows of each batch anew. A step sends parameters, row numbers and targets, and brings back one sum.
Slopes of the log loss and the squared error, norms, clip factors and sums are computed there;
slopes of other losses on the CPU, from a block's raw predictions.

Formal guarantee. That of :mod:`skdpfl.torch._tape`. *Proof.* Norms are those of the numbers that
are summed, as the device stores them. Factors are those of `skdpfl.models.clip_factors`, with the
same margin, which allows for 16 roundings a layer in double precision; square root, product,
hypotenuse and quotient there have errors of at most 2 units in the last place each. Products are
formed in the dtype of their numbers: TF32 is refused for matrices and turned off for convolutions.
Records that fill a block have the weight zero. A record's numbers are zero where its norms, slopes,
features or target are not finite.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from skdpfl.losses import LogLoss, Loss, SquaredError, Weighted
from skdpfl.models import clip_margin
from skdpfl.torch._blocks import filled
from skdpfl.torch._tape import GradientPart, factors_of, full_precision, one_thread

#: torch's settings of a process are one caller's at a time
_SETTINGS = threading.Lock()


class Block(NamedTuple):
    """Records of a block: features where they are computed, and the rest.

    ``finite``: whether norm and target are. ``shares``: the weights. ``sent``: the target and
    weights of a loss whose slopes are computed on the device; None: on the CPU.
    """

    X: torch.Tensor
    y: NDArray
    norms: NDArray
    finite: Any
    shares: Any
    sent: dict[str, torch.Tensor] | None = None

    def taken(self, order: NDArray, good: NDArray) -> Block:
        """Return the records in this order, and weight zero where they are not good."""
        there, mine = torch.from_numpy(order).to(self.X.device), isinstance(self.shares, np.ndarray)
        finite = self.finite[order if mine else there]
        shares = self.shares * (good if mine else torch.from_numpy(good).to(self.X.device))
        sent = self.sent and {name: values[there] for name, values in self.sent.items()}
        return Block(self.X[there], self.y[order], self.norms[order], finite, shares, sent)


class DrawnRecords(NamedTuple):
    """Records of a silo: some rows of a table (None: all), and a target, norm and weight each.

    ``kept``: whether the table is the fit's, and may be asked for again.
    """

    X: NDArray
    rows: NDArray | None
    y: NDArray
    norms: NDArray
    shares: NDArray
    kept: bool = False


#: the records of each block, and its size
Cuts = Iterable[tuple[slice, int]]


class Host:
    """The CPU: slopes and factors by NumPy, bit for bit as in other models."""

    #: numbers of records' gradients held at once
    at_once = 2**24
    #: whether there is a memory of its own, with tables in it and blocks of several chunks
    is_apart = False

    def tensor(self, values: NDArray) -> torch.Tensor:
        """Return a copy as a tensor."""
        return torch.tensor(values)

    def array(self, values: torch.Tensor) -> NDArray:
        """Return a tensor as an array."""
        return values.detach().numpy()

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Use products in full precision, and one thread."""
        with full_precision(torch.device("cpu")), one_thread():
            yield

    def blocks(self, records: DrawnRecords, loss: Loss, cuts: Cuts) -> Iterator[Block]:
        """Yield the blocks that these cuts lead to, filled up by repeats of weight zero."""
        X = records.X if records.rows is None else records.X[records.rows]
        for rows, size in cuts:
            y, norms = filled(records.y[rows], size), filled(records.norms[rows], size)
            weights = np.zeros(size, X.dtype)
            weights[: rows.stop - rows.start] = records.shares[rows]
            yield Block(self.tensor(filled(X[rows], size)), y, norms, _finite(y, norms), weights)

    def slopes(self, loss: Loss, block: Block, raw: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the slopes of raw predictions (n, k), and which records are finite."""
        slopes = loss.gradient(block.y, raw.detach().numpy(), squared_norms=block.norms)
        return self.tensor(slopes), block.finite & np.isfinite(slopes).all(axis=-1)

    def clipped(
        self, parts: list[GradientPart], clip_norm: float, finite: NDArray, shares: NDArray
    ) -> tuple[list[GradientPart], torch.Tensor]:
        """Return the parts, zero where records are not finite, and factors times weights."""
        factors, good = factors_of(parts, clip_norm, finite)
        if not good.all():
            parts = [part.masked(self.tensor(good)[:, None]) for part in parts]
        return parts, self.tensor(shares if factors is None else factors * shares)


class Device:
    """A device of torch that keeps tables; ``tensor`` and ``array`` are all that passes."""

    at_once, is_apart = 2**28, True

    def __init__(self, name: str) -> None:
        self.device = torch.device(name)
        #: by id: an array that is alive, and its rows
        self._tables: dict[int, tuple[weakref.ref[NDArray], torch.Tensor]] = {}

    def tensor(self, values: NDArray) -> torch.Tensor:
        """Send an array."""
        return torch.tensor(values, device=self.device)

    def array(self, values: torch.Tensor) -> NDArray:
        """Bring a tensor back."""
        return values.detach().cpu().numpy()

    def table(self, X: NDArray) -> torch.Tensor | None:
        """Return the rows of an array, sent once while it lives; None: there is little room."""
        cached = self._tables.get(id(X))
        if cached is None or cached[0]() is not X:
            if X.nbytes > self._room():
                return None
            key, tables = id(X), self._tables
            cached = weakref.ref(X, lambda _: tables.pop(key, None)), self.tensor(X)
            tables[key] = cached
        return cached[1]

    def blocks(self, records: DrawnRecords, loss: Loss, cuts: Cuts) -> Iterator[Block]:
        """Yield the blocks that these cuts lead to, filled up by repeats of weight zero."""
        cuts = list(cuts)
        if not cuts:
            return
        numbers = np.arange(len(records.y))
        order = np.concatenate([filled(numbers[rows], size) for rows, size in cuts])
        ends = np.cumsum([size for _, size in cuts])
        weights = np.zeros(len(order), records.X.dtype)
        for (rows, size), end in zip(cuts, ends, strict=True):
            start = end - size
            weights[start : start + rows.stop - rows.start] = records.shares[rows]
        y, norms = records.y[order], records.norms[order]
        finite, shares = self.tensor(_finite(y, norms)), self.tensor(weights)
        sent, index = self.targets(y, loss), order
        if records.rows is not None:
            index = records.rows[order]
        table = self.table(records.X) if records.kept else None
        if table is not None:
            there = self.tensor(index)
        for end, (_, size) in zip(ends, cuts, strict=True):
            own = slice(end - size, end)
            X = self.tensor(records.X[index[own]]) if table is None else table[there[own]]
            targets = sent and {name: values[own] for name, values in sent.items()}
            yield Block(X, y[own], norms[own], finite[own], shares[own], targets)

    def _room(self) -> float:
        """Return how many bytes of a table are kept: half of what is free."""
        if self.device.type != "cuda":
            return math.inf
        return torch.cuda.mem_get_info(self.device)[0] / 2

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Use products in full precision, and convolutions that give the same bits again."""
        cudnn = torch.backends.cudnn
        kinds = cudnn.conv, cudnn.rnn
        with _SETTINGS, full_precision(self.device), one_thread():
            before = cudnn.deterministic, [kind.fp32_precision for kind in kinds]
            try:
                cudnn.deterministic = True
                for kind in kinds:
                    kind.fp32_precision = "ieee"
                yield
            finally:
                cudnn.deterministic = before[0]
                for kind, precision in zip(kinds, before[1], strict=True):
                    kind.fp32_precision = precision

    def targets(self, y: NDArray, loss: Loss) -> dict[str, torch.Tensor] | None:
        """Send what slopes need; None: they are computed on the CPU."""
        if type(loss) is Weighted:
            inner = self.targets(y["target"], loss.loss)
            return inner and inner | {"weight": self.tensor(y["weight"])}
        return {"target": self.tensor(y)} if type(loss) in _SLOPES else None

    def slopes(self, loss: Loss, block: Block, raw: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the slopes of raw predictions (n, k), and which records are finite."""
        raw = raw.detach()
        if block.sent is None:
            own = loss.gradient(block.y, self.array(raw), squared_norms=block.norms)
            slopes = self.tensor(own)
        else:
            plain = loss.loss if type(loss) is Weighted else loss
            slopes = _SLOPES[type(plain)](raw, block.sent["target"][:, None])
            if "weight" in block.sent:
                slopes *= block.sent["weight"][:, None]
        return slopes, block.finite & slopes.isfinite().all(1)

    def clipped(
        self,
        parts: list[GradientPart],
        clip_norm: float,
        finite: torch.Tensor,
        shares: torch.Tensor,
    ) -> tuple[list[GradientPart], torch.Tensor]:
        """Return the parts, zero where records are not finite, and factors times weights."""
        squared = [part.squared_norms() for part in parts]
        for pair in squared:
            for norms in pair:
                finite = finite & norms.isfinite()
        longest = max(part.longest() for part in parts)
        parts = [part.masked(finite[:, None]) for part in parts]
        if clip_norm == math.inf:
            return parts, shares
        squared = [(a.where(finite, 1), d.where(finite, 1)) for a, d in squared]
        factors = _factors(squared, clip_norm, longest)
        return parts, factors * shares


def place_of(device: str) -> Host | Device:
    """Return where gradients are computed, for a device's name."""
    return Host() if torch.device(device).type == "cpu" else Device(device)


def _factors(
    squared: list[tuple[torch.Tensor, torch.Tensor]], clip_norm: float, longest: int
) -> torch.Tensor:
    """Return `skdpfl.models.clip_factors` of a finite clip norm."""
    norms: torch.Tensor | None = None
    for entering, slopes in squared:
        own = entering.double().sqrt() * slopes.double().sqrt()
        norms = own if norms is None else torch.hypot(norms, own)
    assert norms is not None
    like = squared[0][1]
    kind = np.dtype(str(like.dtype).removeprefix("torch."))
    bound = torch.full_like(norms, clip_norm / clip_margin(len(squared), longest, kind))
    factors = (bound / norms).clamp(max=1).to(like.dtype)
    # not where a factor is subnormal, or no number
    return factors.where(factors >= float(np.finfo(kind).tiny), 0)


def _of_log_loss(raw: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return p - y of two classes, p - e_y of more."""
    if raw.shape[1] == 1:
        return raw.sigmoid() - y.to(raw)
    return raw.softmax(1) - (y == torch.arange(raw.shape[1], device=raw.device)).to(raw)


def _of_squared_error(raw: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return raw - y."""
    return raw - y.to(raw)


#: losses whose slopes are computed on a device, from raw predictions (n, k) and targets (n, 1)
_SLOPES = {LogLoss: _of_log_loss, SquaredError: _of_squared_error}


def _finite(y: NDArray, norms: NDArray) -> NDArray:
    """Return which records have a finite norm and target."""
    finite: NDArray = np.isfinite(norms)
    return finite & np.isfinite(y) if y.dtype.kind == "f" else finite
