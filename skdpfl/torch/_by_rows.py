"""Modules that do not mix records, by checking all their operations.

A module's forward may treat rare values differently: ``torch.where(x == 0, x.mean(0), x)``, or a
branch on ``x.max()``. No test on made-up rows finds that. So a whole batch passes a module only if
its graph is known: PyTorch's tracer runs ``forward`` once, symbolically, and records its
operations; branches on values cannot be traced. Every operation must be in the lists here, with
records on the first axis of inputs and outputs. The fit then runs that graph, not the original
code. All other modules see one record at a time (:class:`skdpfl.torch._tape.Tape`): under
``torch.func.vmap``, or in a loop.

Formal guarantee. Row j of a known graph's result is a function of row j of the records. *Proof.* By
induction over its operations. Each one listed acts on single numbers, or along axes that are not
the first, or on numbers of one record; the axes are checked on made-up rows of two different
numbers, and shapes do not depend on values. Layers count by their exact class, without hooks.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F
from torch.nn.modules import module as _all

from skdpfl._apart import GENERATED

#: layers that act on single numbers
_POINTWISE = (
    nn.CELU, nn.Dropout, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh,
    nn.Identity, nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU,
    nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink,
    nn.Threshold,
)  # fmt: skip
#: layers that act within a record, and the number of axes that they need for it
_WITHIN: dict[type[nn.Module], int] = {
    nn.Linear: 2, nn.Embedding: 1, nn.GroupNorm: 2,
    nn.Conv1d: 3, nn.Conv2d: 4, nn.Conv3d: 5,
    nn.ConvTranspose1d: 3, nn.ConvTranspose2d: 4, nn.ConvTranspose3d: 5,
    nn.InstanceNorm1d: 3, nn.InstanceNorm2d: 4, nn.InstanceNorm3d: 5,
    nn.AvgPool1d: 3, nn.AvgPool2d: 4, nn.AvgPool3d: 5,
    nn.MaxPool1d: 3, nn.MaxPool2d: 4, nn.MaxPool3d: 5,
    nn.AdaptiveAvgPool1d: 3, nn.AdaptiveAvgPool2d: 4, nn.AdaptiveAvgPool3d: 5,
    nn.AdaptiveMaxPool1d: 3, nn.AdaptiveMaxPool2d: 4, nn.AdaptiveMaxPool3d: 5,
    nn.ZeroPad2d: 4, nn.ReflectionPad2d: 4, nn.ReplicationPad2d: 4, nn.PixelShuffle: 4,
}  # fmt: skip
_EXACT_AXES = {kind for kind, axes in _WITHIN.items() if axes > 2}
#: functions of single numbers, and the names of methods; other arguments are constants
_FUNCTIONS = frozenset((
    torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.log, torch.log1p, torch.sqrt, torch.abs,
    torch.square, torch.neg, torch.sin, torch.cos, torch.clamp, torch.erf, torch.pow, operator.neg,
    operator.pow, F.relu, F.relu6, F.gelu, F.silu, F.mish, F.elu, F.selu, F.celu, F.leaky_relu,
    F.softplus, F.softsign, F.hardtanh, F.hardswish, F.hardsigmoid, F.logsigmoid, F.tanhshrink,
    F.tanh, F.sigmoid,
))  # fmt: skip
_METHODS = frozenset((
    "relu", "tanh", "sigmoid", "exp", "log", "log1p", "sqrt", "abs", "square", "neg", "sin", "cos",
    "clamp", "erf", "pow", "contiguous", "clone",
))  # fmt: skip
#: of two numbers each
_PAIRS = frozenset((
    operator.add, operator.sub, operator.mul, operator.truediv, operator.iadd, operator.imul,
    torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum,
))  # fmt: skip
_PAIR_METHODS = frozenset({"add", "sub", "mul", "div"})
#: along axes that are given by name or as the second argument
_ALONG = frozenset(
    (torch.mean, torch.sum, torch.softmax, torch.log_softmax, F.softmax, F.log_softmax)
)
_ALONG_METHODS = frozenset({"mean", "sum", "softmax", "log_softmax", "amax", "amin"})
_HOOKS = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
_PLAIN = (int, float, bool, str, type(None), torch.dtype)


class _MayMix(Exception):
    """An operation that may mix records."""


def by_rows(module: nn.Module, rows: torch.Tensor) -> nn.Module | None:
    """Return a module with the same results that does not mix records; None if that is unknown.

    It is the module itself if all its code is PyTorch's, else the graph of its operations. ``rows``
    are made-up records, in the dtype of the module.
    """
    if any(_is_changed(layer) for layer in module.modules()):
        return None
    if _is_leaf(module):
        return None if by_rows(nn.Sequential(module), rows) is None else module
    try:
        traced = fx.GraphModule(module, _Tracer().trace(module), type(module).__name__)
        for n in (3, 5):
            _Rows(copy.deepcopy(traced), n).run(rows.repeat(2, 1)[:n].clone())
        with torch.no_grad():
            same = torch.equal(traced(rows.clone()), copy.deepcopy(module)(rows.clone()))
    except Exception:  # whatever user code raises where it meets no numbers: nothing is known
        return None
    if not same or _state(traced) != _state(module):
        return None
    return traced if _has_own_code(module) else module


def _has_own_code(module: nn.Module) -> bool:
    """Whether a module has code other than known layers and Sequential."""
    if _is_leaf(module):
        return False
    if not isinstance(module, nn.Sequential):
        return True
    kinds = type(module).__mro__
    own = {name for kind in kinds[: kinds.index(nn.Sequential)] for name in vars(kind)}
    return bool(own - GENERATED) or any(map(_has_own_code, module.children()))


def _state(module: nn.Module) -> set[str]:
    return {name for name, _ in (*module.named_parameters(), *module.named_buffers())}


def _is_changed(layer: nn.Module) -> bool:
    """Whether a layer was changed by hooks, or by a method set on the object."""
    if any(getattr(layer, f"_{kind}") or getattr(_all, f"_global_{kind}") for kind in _HOOKS):
        return True
    return any(callable(v) and hasattr(type(layer), name) for name, v in vars(layer).items())


def _is_leaf(layer: nn.Module) -> bool:
    kinds = (*_WITHIN, *_POINTWISE, *_SPECIAL)
    return type(layer) in kinds


class _Tracer(fx.Tracer):
    """A tracer that enters all modules except known layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _is_leaf(m)


class _Rows(fx.Interpreter):
    """An interpreter that runs a graph on ``n`` made-up records, and raises if records may mix.

    ``marks``: "rows" of what has records on its first axis, "n" of their number, "shape" of a
    shape of rows, "layer" of a layer's several results; constants have none.
    """

    def __init__(self, module: fx.GraphModule, n: int) -> None:
        super().__init__(module)
        self.n, self.marks = n, {}  # type: ignore[var-annotated]

    def run_node(self, n: fx.Node) -> Any:
        """Run an operation, and mark its result."""
        given = [self.env[a] if isinstance(a, fx.Node) else a for a in n.args]
        result = super().run_node(n)
        mark = self._mark(n, given)
        if mark == "rows" and not (isinstance(result, torch.Tensor) and _has_rows(result, self.n)):
            raise _MayMix(str(n))
        self.marks[n] = mark
        return result

    def _mark(self, n: fx.Node, given: list[Any]) -> str | None:
        if n.op == "placeholder":
            return "rows"
        if n.op == "get_attr":
            if str(n.target).startswith("_tensor_constant"):
                raise _MayMix(str(n))
            return None
        if n.op == "output":
            return self._of(n.args[0])
        first = self._of(n.args[0]) if n.args else None
        if n.op == "call_module":
            return self._layer(n, given)
        if n.op == "call_method" and first == "rows":
            return self._called(n, str(n.target), given)
        if n.op == "call_function":
            return self._function(n, given)
        raise _MayMix(str(n))

    def _of(self, arg: Any) -> str | None:
        return self.marks.get(arg) if isinstance(arg, fx.Node) else None

    def _others_are_plain(self, n: fx.Node) -> bool:
        rest = (*n.args[1:], *n.kwargs.values())
        return all(_is_plain(a) for a in rest)

    def _layer(self, n: fx.Node, given: list[Any]) -> str:
        layer = self.module.get_submodule(str(n.target))
        if type(layer) in _SPECIAL:
            marks = [self._of(a) for a in n.args]
            kwargs = all(_is_plain(a) for a in n.kwargs.values())
            if kwargs and all(m == "rows" for m in marks) and _SPECIAL[type(layer)](layer, given):
                return "layer" if type(layer) is nn.MultiheadAttention else "rows"
            raise _MayMix(str(n))
        if len(n.args) != 1 or n.kwargs or self._of(n.args[0]) != "rows":
            raise _MayMix(str(n))
        axes, need = given[0].ndim, _WITHIN.get(type(layer), 1)
        if axes < need or (type(layer) in _EXACT_AXES and axes != need):
            raise _MayMix(str(n))
        return "rows"

    def _function(self, n: fx.Node, given: list[Any]) -> str | None:
        f, first = n.target, self._of(n.args[0]) if n.args else None
        if f in _FUNCTIONS and first == "rows" and self._others_are_plain(n):
            return "rows"
        if f in _PAIRS:
            return self._pair(n, given)
        if f in _ALONG and first == "rows":
            return self._along(n, given)
        weights = not any(map(self._of, n.args[1:])) and not n.kwargs
        if f is F.linear and first == "rows" and weights and given[0].ndim > 1:
            return "rows"
        if f is torch.flatten and first == "rows":
            return self._called(n, "flatten", given)
        if f is torch.cat and isinstance(n.args[0], list | tuple):
            return self._joined(n)
        if f is getattr and n.args[1] == "shape" and first == "rows":
            return "shape"
        if f is operator.getitem:
            return self._item(n, given)
        if f is len and first == "rows":
            return "n"
        raise _MayMix(str(n))

    def _called(self, n: fx.Node, name: str, given: list[Any]) -> str | None:
        """Return the mark of a method of rows."""
        axes = given[0].ndim
        if name in _METHODS and self._others_are_plain(n):
            return "rows"
        if name in _PAIR_METHODS:
            return self._pair(n, given)
        if name in _ALONG_METHODS:
            return self._along(n, given)
        if name == "flatten" and self._others_are_plain(n):
            start = n.kwargs.get("start_dim", n.args[1] if len(n.args) > 1 else 0)
            if isinstance(start, int) and start % axes:
                return "rows"
        if name == "size" and n.args[1:] == (0,) and not n.kwargs:
            return "n"
        if name in ("view", "reshape") and not n.kwargs:
            sizes = n.args[1] if isinstance(n.args[1], tuple | list) else n.args[1:]
            if all(isinstance(s, int) or self._of(s) == "n" for s in sizes):
                return "rows"  # of as many rows as before, in their order: checked on the result
        if name in ("transpose", "permute") and self._others_are_plain(n) and not n.kwargs:
            dims = n.args[1] if isinstance(n.args[1], tuple | list) else n.args[1:]
            fixed = dims[0] % axes == 0 if name == "permute" else all(d % axes for d in dims)  # type: ignore[operator,index,union-attr]
            if fixed:
                return "rows"
        if name == "unsqueeze" and len(n.args) == 2 and isinstance(n.args[1], int):
            inner = n.args[1] % (axes + 1)
            if inner:
                return "rows"
        raise _MayMix(str(n))

    def _pair(self, n: fx.Node, given: list[Any]) -> str:
        """Check an operation on two tables of rows, or on one and a constant."""
        if len(n.args) != 2 or n.kwargs:
            raise _MayMix(str(n))
        marks = [self._of(a) for a in n.args]
        axes = max(v.ndim for v, m in zip(given, marks, strict=True) if m == "rows")
        for arg, value, mark in zip(n.args, given, marks, strict=True):
            if mark == "rows" and value.ndim == axes:
                continue
            if mark is None and not isinstance(arg, fx.Node) and _is_plain(arg):
                continue
            constant = mark is None and isinstance(value, torch.Tensor)
            if constant and (value.ndim < axes or (value.ndim == axes and value.shape[0] == 1)):
                continue
            raise _MayMix(str(n))
        return "rows"

    def _along(self, n: fx.Node, given: list[Any]) -> str:
        """Check an operation along given axes, none of which is the first."""
        dims = n.kwargs.get("dim", n.args[1] if len(n.args) > 1 else None)
        each = dims if isinstance(dims, tuple | list) else (dims,)
        inner = all(isinstance(d, int) and d % given[0].ndim for d in each)
        if not (each and inner and self._others_are_plain(n)):
            raise _MayMix(str(n))
        return "rows"

    def _joined(self, n: fx.Node) -> str:
        parts: Any = n.args[0]
        dim = n.kwargs.get("dim", n.args[1] if len(n.args) > 1 else 0)
        axes = {self.env[p].ndim for p in parts if self._of(p) == "rows"}
        all_rows = all(self._of(p) == "rows" for p in parts)
        if all_rows and len(axes) == 1 and isinstance(dim, int) and dim % axes.pop():
            return "rows"
        raise _MayMix(str(n))

    def _item(self, n: fx.Node, given: list[Any]) -> str | None:
        index: Any = n.args[1]
        mark = self._of(n.args[0])
        if mark == "shape" and isinstance(index, int):
            return "n" if index == 0 else None
        if mark == "layer" and index == 0:
            return "rows"
        if mark == "rows" and isinstance(index, tuple) and index[:1] == (slice(None),):
            whole = all(i is None or isinstance(i, int | slice) for i in index)
            if whole and _no_nodes(index):
                return "rows"
        raise _MayMix(str(n))


def _has_rows(value: torch.Tensor, n: int) -> bool:
    return value.ndim >= 1 and value.shape[0] == n


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _no_nodes(index: tuple[Any, ...]) -> bool:
    ends = [e for i in index if isinstance(i, slice) for e in (i.start, i.stop, i.step)]
    return all(map(_is_plain, ends))


# ---- layers whose axes follow from how they were made -------------------------------------------


def _by_dim(name: str) -> Callable[[Any, list[Any]], bool]:
    def check(layer: Any, given: list[Any]) -> bool:
        dim = getattr(layer, name)
        return len(given) == 1 and isinstance(dim, int) and dim % given[0].ndim != 0

    return check


def _normalises(layer: Any, given: list[Any]) -> bool:
    return len(given) == 1 and len(layer.normalized_shape) < given[0].ndim


def _attends(layer: Any, given: list[Any]) -> bool:
    return len(given) == 3 and layer.batch_first and all(v.ndim == 3 for v in given)


def _encodes(layer: Any, given: list[Any]) -> bool:
    inside = (*_POINTWISE, nn.Linear, nn.LayerNorm, nn.MultiheadAttention)
    usual = all(
        type(m) in inside or m is layer or type(m).__name__ == "NonDynamicallyQuantizableLinear"
        for m in layer.modules()
    )
    known = layer.activation in (F.relu, F.gelu) or type(layer.activation) in _POINTWISE
    return (
        usual and known and layer.self_attn.batch_first and len(given) == 1 and given[0].ndim == 3
    )


_SPECIAL: dict[type[nn.Module], Callable[[Any, list[Any]], bool]] = {
    nn.Flatten: _by_dim("start_dim"),
    nn.Unflatten: _by_dim("dim"),
    nn.Softmax: _by_dim("dim"),
    nn.LogSoftmax: _by_dim("dim"),
    nn.GLU: _by_dim("dim"),
    nn.LayerNorm: _normalises,
    nn.MultiheadAttention: _attends,
    nn.TransformerEncoderLayer: _encodes,
}
