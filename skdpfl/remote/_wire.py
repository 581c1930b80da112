"""Serialisation of the values that machines send each other.

::

    bytes = "skdpflw" | version (1 byte) | length of the header (4 bytes) | header | arrays

The header is JSON; the arrays' numbers follow it, little-endian, one array after the other. Values
may be numbers, text, tuples, mappings from text, arrays of the types in ``DTYPES``, and objects of
declared classes (:mod:`skdpfl.remote._declared`), field by field. Reading runs no code except the
constructors of declared classes, and gives a value or a :class:`WireError`. Time and memory are
proportional to the message, up to ``LIMITS``.
"""

import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

MAGIC, VERSION = b"skdpflw", 1
DTYPES = {"<f8", "<f4", "<i8", "<i4", "|i1", "|u1", "|b1"}
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_START = struct.Struct("<7sBI")

#: object -> (name, fields), and back
Fields = dict[str, Any]
Open = Callable[[Any], tuple[str, Fields]]
Make = Callable[[str, Fields], Any]


class Limits(NamedTuple):
    """Limits on the size of letters before a fit is charged; larger ones are refused with a reason.

    Each line has a test in ``tests/remote/test_limits.py``.
    """

    #: bytes of a message, and of an offer; those before its arrays; commas, colons, brackets there
    message_bytes: int = 2**30
    offer_bytes: int = 2**25
    header_bytes: int = 2**22
    header_parts: int = 2**18
    #: how deep values are nested
    depth: int = 24
    #: bytes of an array of text, all of whose entries take as much as the longest one
    text_bytes: int = 2**22
    #: letters of the name of a fit, a silo, an estimator, a label
    name: int = 200
    #: letters of the purpose of a fit
    purpose: int = 2000
    #: labels of a fit
    classes: int = 10_000
    #: rounds of a fit, and gradient steps in all of them
    rounds: int = 50_000
    steps: int = 500_000
    #: releases of a fit beside its rounds
    releases: int = 64
    #: fits that were agreed to and not begun: the oldest are forgotten
    waiting_offers: int = 64
    waiting_bytes: int = 2**30
    waiting_days: int = 30
    #: fits in a silo's ledger; then its operator begins another one
    fits: int = 10_000


LIMITS = Limits()


class WireError(ValueError):
    """Bytes that are not a message of this version, or a value that cannot be sent."""


def to_bytes(value: Any, opened: Open) -> bytes:
    """Return a value as bytes; ``opened`` names a declared object and its fields."""
    arrays: list[np.ndarray] = []
    values = _packed(value, arrays, opened, 0)
    header = json.dumps(values, allow_nan=False, separators=(",", ":")).encode()
    blocks = [a.astype(a.dtype.newbyteorder("<"), copy=False).tobytes() for a in arrays]
    data = b"".join([_START.pack(MAGIC, VERSION, len(header)), header, *blocks])
    if len(data) > LIMITS.message_bytes:
        most = LIMITS.message_bytes
        raise WireError(f"The message has {len(data):,} bytes; at most {most:,} can be sent.")
    _check_header(header)
    return data


def from_bytes(data: bytes, make: Make) -> Any:
    """Return the value from its bytes; ``make`` makes a declared object from its fields."""
    try:
        return _read(data, make)
    except WireError:
        raise
    except Exception as error:  # a constructor of a declared class may raise anything
        raise WireError(f"The bytes are not a message of version {VERSION}.") from error


def _read(data: bytes, make: Make) -> Any:
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
    header = json.loads(text.decode(), parse_constant=_refuse_constant)
    reader = _Arrays(memoryview(data)[start:])
    value = _unpacked(header, reader, make, 0)
    if reader.left:
        raise WireError(f"The message has {reader.left} bytes too many.")
    return value


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


def _packed(value: Any, arrays: list[np.ndarray], opened: Open, depth: int) -> Any:
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
        return {"d": {k: _packed(v, arrays, opened, depth + 1) for k, v in items}}
    if isinstance(value, list) or type(value) is tuple:
        return [_packed(v, arrays, opened, depth + 1) for v in value]
    name, fields = opened(value)
    inside = {k: _packed(v, arrays, opened, depth + 1) for k, v in fields.items()}
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


def _unpacked(node: Any, arrays: _Arrays, make: Make, depth: int) -> Any:
    """Return the value of a part of the header."""
    if depth > LIMITS.depth:
        raise WireError("The message is nested too deep.")
    if isinstance(node, list):
        return tuple(_unpacked(v, arrays, make, depth + 1) for v in node)
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
        return {k: _unpacked(v, arrays, make, depth + 1) for k, v in node["d"].items()}
    if kinds == ("o", "v") and isinstance(node["o"], str):
        fields = {k: _unpacked(v, arrays, make, depth + 1) for k, v in node["v"].items()}
        return make(node["o"], fields)
    raise WireError("The message holds a value of an unknown kind.")
