"""Values as bytes, without code: declared classes by their fields, numbers, text and arrays.

::

    bytes = "skdpflw" | version (1 byte) | length of the header (4 bytes) | header | arrays

The header is JSON; the arrays' numbers follow it, little-endian, one array after the other. Values
may be numbers, text, tuples, mappings from text, arrays of the types in ``DTYPES``, and objects of
declared classes (:func:`declare`), as the name of the class and its fields. Reading runs no code
except the constructors of the reader's own classes of these names, and gives a value or a
:class:`WireError`: undeclared names, missing fields and values of the wrong type are refused. Time
and memory are proportional to the message, up to ``LIMITS``.
"""

import dataclasses
import json
import math
import struct
import types
import typing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MAGIC, VERSION = b"skdpflw", 1
DTYPES = {"<f8", "<f4", "<i8", "<i4", "|i1", "|u1", "|b1"}
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_START = struct.Struct("<7sBI")

#: the declared classes and functions by name, and the types of their fields
_BY_NAME: dict[str, Any] = {}
_FIELDS: dict[Any, dict[str, Any]] = {}


class Limits(NamedTuple):
    """Limits on the size of messages."""

    #: bytes of a message; those before its arrays; commas, colons and brackets there
    message_bytes: int = 2**30
    header_bytes: int = 2**22
    header_parts: int = 2**18
    #: how deep values are nested
    depth: int = 24
    #: bytes of an array of text, all of whose entries take as much as the longest one
    text_bytes: int = 2**22


LIMITS = Limits()


class WireError(ValueError):
    """Bytes that are not a message of this version, or a value that cannot be sent."""


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
    arrays: list[np.ndarray] = []
    values = _packed(value, arrays, 0)
    header = json.dumps(values, allow_nan=False, separators=(",", ":")).encode()
    blocks = [a.astype(a.dtype.newbyteorder("<"), copy=False).tobytes() for a in arrays]
    data = b"".join([_START.pack(MAGIC, VERSION, len(header)), header, *blocks])
    if len(data) > LIMITS.message_bytes:
        most = LIMITS.message_bytes
        raise WireError(f"The message has {len(data):,} bytes; at most {most:,} can be sent.")
    _check_header(header)
    return data


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
    try:
        return _read(data)
    except WireError:
        raise
    except Exception as error:  # a constructor of a declared class may raise anything
        raise WireError(f"The bytes are not a message of version {VERSION}.") from error


def header_of(data: bytes) -> Any:
    """Return a message's header as plain data; raise a WireError if there is none."""
    try:
        return _header(data)[0]
    except WireError:
        raise
    except Exception as error:  # JSON that is none, or nested too deep
        raise WireError(f"The bytes are not a message of version {VERSION}.") from error


def from_plain(hint: Any, data: Any, where: str = "") -> Any:
    """Return a value of a type from plain data (JSON, TOML); raise a ValueError that names a place.

    Parameters
    ----------
    hint : type
        A dataclass, or the type of one of its fields.
    data : object
        Mappings, lists, numbers and text. "inf" is infinity where a number is wanted.
    where : str
        The place of the data, for errors; "" is the whole file.

    Returns
    -------
    object
        The value; lists become tuples, text becomes a Path where one is wanted.
    """
    hint = _meant_by(hint)
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _from_mapping(hint, data, where)
    if origin in (typing.Union, types.UnionType):
        others = [each for each in inside if each is not type(None)]
        if data is None and len(others) < len(inside):
            return None
        if len(others) == 1:
            return from_plain(others[0], data, where)
    if origin is tuple and isinstance(data, list):
        kinds = inside[:1] * len(data) if inside[1:] == (Ellipsis,) else inside
        if len(kinds) == len(data):
            pairs = enumerate(zip(kinds, data, strict=True))
            return tuple(from_plain(kind, each, f"{where}[{i}]") for i, (kind, each) in pairs)
    if hint is float and data == "inf":
        return math.inf
    if hint is Path and isinstance(data, str):
        return Path(data)
    if not fits(data, hint):
        words = ", ".join(map(repr, inside))
        wrong = f"must be one of {words}" if origin is typing.Literal else "has the wrong type"
        raise ValueError(f"{where} {wrong}")
    try:
        return float(data) if hint is float else data
    except OverflowError:  # an integer of any length
        raise ValueError(f"{where} is too large") from None


def _from_mapping(kind: Any, data: Any, where: str) -> Any:
    """Return a dataclass from a mapping with its fields, of which some may have defaults."""
    here = where or "the file"
    if not isinstance(data, dict):
        raise ValueError(f"{here} must be a table")
    known = {each.name: each for each in dataclasses.fields(kind) if each.init}
    if others := sorted(data.keys() - known.keys()):
        raise ValueError(
            f"{here} has the unknown key {others[0]!r}; valid keys are {', '.join(sorted(known))}"
        )
    none = dataclasses.MISSING
    needed = [n for n, f in known.items() if f.default is none and f.default_factory is none]
    if lacking := [name for name in needed if name not in data]:
        raise ValueError(f"{here} lacks {', '.join(lacking)}")
    hints, at = typing.get_type_hints(kind), f"{where}." if where else ""
    values = {name: from_plain(hints[name], data[name], at + name) for name in data}
    try:
        return kind(**values)
    except ValueError as error:  # of a value that the class refuses
        raise ValueError(f"{here}: {error}") from error


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
        raise WireError(
            f"The class {name[:40]!r} is not declared here; use skdpfl.remote.declare. For those "
            "of skdpfl, server and silos need the same release."
        )
    hints = _FIELDS[kind]
    if fields.keys() != hints.keys():
        raise WireError(
            f"{name} must have the fields {list(hints)}, as it has here; server and silos need the "
            "same release of skdpfl."
        )
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
    arguments = dict(zip(alias.__type_params__, typing.get_args(hint), strict=False))
    open_ones = getattr(alias.__value__, "__parameters__", ())
    filled = tuple(arguments.get(each, Any) for each in open_ones)
    return _meant_by(alias.__value__[filled] if filled else alias.__value__)


@lru_cache(maxsize=1024)  # long letters ask it for each of their values
def _parts_of(hint: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return the type meant by a hint, with its origin and its arguments."""
    meant = _meant_by(hint)
    return meant, typing.get_origin(meant), typing.get_args(meant)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value fits a field of this type; fields of type Any are checked later."""
    hint, origin, inside = _parts_of(hint)
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


def _read(data: bytes) -> Any:
    header, start = _header(data)
    reader = _Arrays(memoryview(data)[start:])
    value = _unpacked(header, reader, 0)
    if reader.left:
        raise WireError(f"The message has {reader.left} bytes too many.")
    return value


def _header(data: bytes) -> tuple[Any, int]:
    """Return a message's header, and where its arrays begin."""
    if not isinstance(data, bytes) or not _START.size <= len(data) <= LIMITS.message_bytes:
        raise WireError(
            "A message must be bytes with a complete header, up to the largest allowed length."
        )
    magic, version, length = _START.unpack_from(data)
    if magic != MAGIC:
        raise WireError("The bytes are not a message of skdpfl.")
    if version != VERSION:
        raise WireError(
            f"The message has version {version}, this installation reads version {VERSION}; server "
            "and silos need the same release of skdpfl."
        )
    start = _START.size + length
    if start > len(data):
        raise WireError("The message ends too early.")
    text = data[_START.size : start]
    _check_header(text)
    return json.loads(text.decode(), parse_constant=_refuse_constant), start


def _check_header(header: bytes) -> None:
    """Raise unless a header is short and has few parts: a part of 2 bytes takes 100 in memory."""
    parts = sum(header.count(each) for each in b",:[{")
    if len(header) > LIMITS.header_bytes or parts > LIMITS.header_parts:
        raise WireError(
            f"The message's header has {len(header):,} bytes in {parts:,} parts; at most "
            f"{LIMITS.header_bytes:,} bytes in {LIMITS.header_parts:,} parts are read."
        )


def _refuse_constant(name: str) -> Any:
    raise WireError(f"{name} is not allowed in the header of a message.")


class _Arrays:
    """The arrays after a header, taken one by one."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        """The number of bytes that were not read."""
        return len(self._data) - self._at

    def take(self, dtype: str, shape: list[Any]) -> np.ndarray:
        """Return the next array, a copy."""
        if dtype not in DTYPES:
            raise WireError(f"Arrays of dtype {str(dtype)[:10]!r} cannot be sent.")
        if len(shape) > 4 or not all(type(n) is int and n >= 0 for n in shape):
            raise WireError("An array's shape must be a short tuple of integers of at least 0.")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > self.left:
            raise WireError("The message ends too early.")
        block = self._data[self._at : self._at + size]
        self._at += size
        values = np.frombuffer(block, np.uint8 if dtype == "|b1" else dtype)
        if dtype == "|b1" and (values > 1).any():
            raise WireError("The bytes of a bool array must be 0 or 1.")
        native = np.dtype(dtype).newbyteorder("=")
        return values.astype(native).reshape(shape)


def _packed(value: Any, arrays: list[np.ndarray], depth: int) -> Any:
    """Return a value as JSON, its arrays appended to ``arrays``."""
    if depth > LIMITS.depth:
        raise WireError("The value is nested too deep to be sent.")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"f": repr(value)}
    if isinstance(value, np.ndarray):
        return _packed_array(value, arrays)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise WireError("Only mappings whose keys are strings can be sent.")
        items = value.items()
        return {"d": {k: _packed(v, arrays, depth + 1) for k, v in items}}
    if isinstance(value, list) or type(value) is tuple:
        return [_packed(v, arrays, depth + 1) for v in value]
    name, fields = _opened(value)
    inside = {k: _packed(v, arrays, depth + 1) for k, v in fields.items()}
    return {"o": name, "v": inside}


def _packed_array(value: np.ndarray, arrays: list[np.ndarray]) -> Any:
    if value.dtype.kind == "U":
        return {"t": value.ravel().tolist(), "s": list(value.shape)}
    dtype = value.dtype.newbyteorder("<").str
    if dtype not in DTYPES:
        raise WireError(f"Arrays of dtype {value.dtype} cannot be sent.")
    arrays.append(value)
    return {"a": dtype, "s": list(value.shape)}


def _text_array(texts: Any, shape: Any) -> np.ndarray:
    """Return an array of text; in NumPy each entry takes the memory of the longest."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise WireError("Arrays of text must hold strings only.")
    width = max(map(len, texts), default=0)
    if 4 * width * len(texts) > LIMITS.text_bytes:
        raise WireError(f"Arrays of text can have at most {LIMITS.text_bytes:,} bytes.")
    return np.array(texts, dtype=np.str_).reshape(shape)


def _unpacked(node: Any, arrays: _Arrays, depth: int) -> Any:
    """Return the value of a part of the header."""
    if depth > LIMITS.depth:
        raise WireError("The message is nested too deep.")
    if isinstance(node, list):
        return tuple(_unpacked(v, arrays, depth + 1) for v in node)
    if not isinstance(node, dict):
        return node
    kinds = tuple(node)
    if kinds == ("f",):
        return _NOT_FINITE[node["f"]]
    if kinds == ("a", "s"):
        return arrays.take(node["a"], node["s"])
    if kinds == ("t", "s"):
        return _text_array(node["t"], node["s"])
    if kinds == ("d",):
        return {k: _unpacked(v, arrays, depth + 1) for k, v in node["d"].items()}
    if kinds == ("o", "v") and isinstance(node["o"], str):
        fields = {k: _unpacked(v, arrays, depth + 1) for k, v in node["v"].items()}
        return _made(node["o"], fields)
    raise WireError("The message holds a value of an unknown kind.")
