"""The classes that may be sent between machines: by their fields only, without code.

An object is sent as the name of its class and its fields. The receiver makes an object of its own
class of that name; undeclared names, missing fields and values of the wrong type are refused.
User-defined algorithms, losses, models and mechanisms have to be declared with :func:`declare`, on
the server and at every silo.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skdpfl import algorithms, losses, models, scaling
from skdpfl.algorithms import theory
from skdpfl.federation import SiloBudgets, SumPlan
from skdpfl.privacy import sampling
from skdpfl.privacy.mechanisms import (
    LearntClip,
    PrivUnitMessages,
    SharedGradients,
    SharedMessages,
    SiloGradients,
    SiloMessages,
)
from skdpfl.remote._wire import WireError, from_bytes, to_bytes

#: the declared classes and functions by name, and the types of their fields
_BY_NAME: dict[str, Any] = {}
_FIELDS: dict[Any, dict[str, Any]] = {}


def declare(*kinds: Any) -> None:
    """Allow objects of these classes, or these functions, to be sent between machines.

    Parameters
    ----------
    *kinds : type or function
        Dataclasses, named tuples or functions, with unique names. Both sides declare them. Of a
        function only the name is sent, and stands for the receiver's function of that name.
    """
    for kind in kinds:
        sent = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
        if not (sent or isinstance(kind, types.FunctionType)):
            raise TypeError(
                "Only dataclasses, named tuples and functions can be declared; got "
                f"{kind.__name__}."
            )
        name = _name(kind)
        if _BY_NAME.setdefault(name, kind) is not kind:
            raise ValueError(f"Another class named {name!r} is already declared.")
        _FIELDS[kind] = _hints_of(kind) if sent else {}


def pack(value: Any) -> bytes:
    """Return a value as bytes.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, tuples, mappings from text, objects of declared classes.

    Returns
    -------
    bytes
        A message.
    """
    return to_bytes(value, _opened)


def unpack(data: bytes) -> Any:
    """Return the value from its bytes; raise a WireError if they are invalid.

    Parameters
    ----------
    data : bytes
        The bytes received.

    Returns
    -------
    object
        The value; lists become tuples.
    """
    return from_bytes(data, _made)


def _name(kind: Any) -> str:
    """Return the name of a class in messages: with the package for ours, else as it is."""
    packages = kind.__module__.split(".")
    ours = packages[0] == "skdpfl" and len(packages) > 1
    return f"{packages[1]}.{kind.__name__}" if ours else kind.__name__


def _opened(value: Any) -> tuple[str, dict[str, Any]]:
    kind = _kind(value)
    if _BY_NAME.get(_name(kind)) is not kind:
        raise WireError(
            f"{kind.__name__} cannot be sent between machines: declare it with "
            "skdpfl.remote.declare(...), on the server and at the silos."
        )
    return _name(kind), {name: getattr(value, name) for name in _FIELDS[kind]}


def _made(name: str, fields: dict[str, Any]) -> Any:
    kind = _BY_NAME.get(name)
    if kind is None:
        raise WireError(f"The class {name[:40]!r} is not declared here; use skdpfl.remote.declare.")
    hints = _FIELDS[kind]
    if fields.keys() != hints.keys():
        raise WireError(f"{name} must have the fields {list(hints)}.")
    for field, hint in hints.items():
        if not fits(fields[field], hint):
            raise WireError(f"{name}.{field} has the wrong type.")
    return kind if isinstance(kind, types.FunctionType) else kind(**fields)


def _kind(value: Any) -> Any:
    """Return what has to be declared for a value: its class, or a function itself."""
    return value if isinstance(value, types.FunctionType) else type(value)


def _hints_of(kind: Any) -> dict[str, Any]:
    """Return the types of a class's fields that its constructor takes."""
    hints = typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        return {f.name: hints[f.name] for f in dataclasses.fields(kind) if f.init}
    return {name: hints[name] for name in kind._fields}


def _meant_by(hint: Any) -> Any:
    """Return the type that an alias stands for, as `NDArray` from NumPy 2.5 on."""
    alias = typing.get_origin(hint) or hint
    if not hasattr(alias, "__value__"):
        return hint
    given = dict(zip(alias.__type_params__, typing.get_args(hint), strict=False))
    open_ones = getattr(alias.__value__, "__parameters__", ())
    filled = tuple(given.get(each, Any) for each in open_ones)
    return _meant_by(alias.__value__[filled] if filled else alias.__value__)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value fits a field of this type; fields of type Any are checked later."""
    hint = _meant_by(hint)
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in inside)
    if origin is typing.Literal:
        return value in inside
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inside) == 2 and inside[1] is Ellipsis:
            return all(fits(each, inside[0]) for each in value)
        return len(inside) == len(value) and all(map(fits, value, inside))
    if isinstance(origin, type) and issubclass(origin, np.ndarray):
        return isinstance(value, np.ndarray)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, tuple) and all(fits(each, inside[0]) for each in value)
    if hint is Any:
        return True
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is None or hint is type(None):
        return value is None
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return isinstance(value, hint)
    if callable(hint) and origin is not None:  # a callable, such as a projection: declared ones
        return callable(value) and _name(_kind(value)) in _BY_NAME
    return True


def _is_sent(kind: Any) -> bool:
    """Whether this is a class with fields, and not only a base class."""
    bases = algorithms.Algorithm, algorithms.GradientMethod
    return (dataclasses.is_dataclass(kind) and kind not in bases) or hasattr(kind, "_fields")


declare(*losses.LOSSES)
declare(models.LinearModel, models.Network, models.Start)
declare(models.TemperedSigmoid, *map(type, models.ACTIVATIONS.values()))
declare(*filter(_is_sent, (getattr(algorithms, name) for name in algorithms.__all__)), theory.Stage)
declare(sampling.Everyone, sampling.PoissonSampling, sampling.WithoutReplacement, sampling.Disjoint)
declare(SiloGradients, SiloMessages, PrivUnitMessages, LearntClip)
declare(SharedGradients, SharedMessages)
declare(SiloBudgets, SumPlan)
_OF_SCALING = (
    "Bins Known Levels Magnitudes Means Spreads ValueCounts ScaledMoments SecondMoments Columns "
    "Boxes LinearGrid MagnitudeGrid Counts Moments RowMoments Labels Slopes Below AffineScaling "
    "AffineTarget IdentityScaling RatioTarget SquashScaling Curve CurveScaling Expansion Histogram"
)
declare(*(getattr(scaling, name) for name in _OF_SCALING.split()))
