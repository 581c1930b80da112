"""Run code from outside this package on one record, or one silo, at a time.

Algorithms, losses and models are called with many silos and records at once, which is fast. A mean
over the wrong axis would then mix them, and clipping would no longer bound what one record changes.
So classes from outside are called with one record (losses, models) or one silo (algorithms) at a
time, unless they set ``stackable = True``. With it, the author declares that no record and no silo
changes the results of others. :func:`skdpfl.privacy.check_independent` tests that.
"""

import copy
import dataclasses
import hashlib
import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from skdpfl._warnings import warnings_off

#: values that nothing is kept in
_PLAIN = str, bytes, bool, int, float, complex, type(None), np.generic, np.dtype
#: code, and what holds other values
_CODE, _HOLDERS = (FunctionType, type), (list, tuple, set, frozenset, dict)
#: attributes of dataclasses and of classes without code of their own; constructors see no record
GENERATED = frozenset((
    "__module__", "__qualname__", "__doc__", "__annotations__", "__annotate_func__",
    "__annotations_cache__", "__static_attributes__", "__firstlineno__", "__dict__", "__weakref__",
    "__slots__", "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__init__",
    "__post_init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__replace__",
    "__abstractmethods__", "__slotnames__", "_abc_impl", "__orig_bases__", "__parameters__",
))  # fmt: skip


def is_stackable(value: Any, unread: frozenset[str] = frozenset()) -> bool:
    """Whether an object may be called with many records and silos at once.

    This holds if its class sets ``stackable = True``; or if its code is part of this package, and
    the same holds for all objects in its attributes. ``unread`` names methods that never see a
    record or a message, so a class from outside may define them.
    """
    if isinstance(value, _PLAIN) or type(value) is np.ndarray:
        return True
    if isinstance(value, _CODE):
        return _is_ours(value)
    if isinstance(value, MethodType):
        return is_stackable(value.__func__) and is_stackable(value.__self__)
    if isinstance(value, _HOLDERS):
        held: Any = value.items() if isinstance(value, dict) else value
        return _known(type(value), unread) is not None and all(map(is_stackable, held))
    if type(value).__module__ == "builtins":  # written in C, such as np.mean's kin
        return False
    known = _known(type(value), unread)
    return known == "declared" or (known == "ours" and all(map(is_stackable, _held(value))))


def _known(kind: type, unread: frozenset[str]) -> str | None:
    """Return why a class may see many records; the first class in its MRO that says so decides."""
    for each in kind.__mro__:
        own = vars(each)
        if "stackable" in own:
            return "declared" if own["stackable"] else None
        if each.__module__ in ("builtins", "abc", "typing", "typing_extensions"):
            continue
        if _is_ours(each):
            if not _has_own_methods(each):
                return None  # a method that was replaced
        elif not all(isinstance(own[n], _PLAIN) for n in own.keys() - unread - GENERATED):
            return None
    return "ours"


#: attributes of a class of this package when its methods were last checked, and were its own
_SEEN: dict[type, dict[str, Any]] = {}


def _has_own_methods(kind: type) -> bool:
    """Whether all methods of a class of this package are code of this package."""
    if _SEEN.get(kind) == vars(kind):
        return True
    own = all(_is_ours(each) for each in vars(kind).values() if isinstance(each, FunctionType))
    if own:
        _SEEN[kind] = dict(vars(kind))
    return own


def _is_ours(what: Any) -> bool:
    """Whether code is part of this package, or generated for it by dataclasses."""
    return _is_of_ours(str(what.__module__))


@cache
def _is_of_ours(module: str) -> bool:
    return module.split(".")[0] in ("skdpfl", "dataclasses", "abc", "contextlib")


def _held(value: Any) -> Iterator[Any]:
    """Yield the objects in an object's attributes."""
    yield from getattr(value, "__dict__", {}).values()
    if dataclasses.is_dataclass(value):
        yield from (getattr(value, field.name, None) for field in dataclasses.fields(value))


#: attributes of a fitted estimator that no prediction reads, and that take long to copy
_UNREAD_FITTED = "plan_", "privacy_spent_", "_noise_error", "_as_fitted"


def anew(value: Any, fitted: Mapping[str, Any] | None = None) -> Callable[[], Any]:
    """Return a function that makes fresh copies of an object, which share nothing with it.

    ``fitted``: the attributes of a fitted estimator in it, whose cost need not be copied.
    """
    shared = [fitted[name] for name in _UNREAD_FITTED if name in fitted] if fitted else []
    return lambda: copy.deepcopy(value, {id(each): each for each in shared})


def rows_apart(
    new: Callable[[], Any], call: Callable[[Any, int], Any], n: int, fixed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return results (n, *shape of fixed) of calls for one record each, and which calls succeeded.

    Each call gets an object of its own from ``new``, and the record's number. Where it raises or
    returns another shape the result is ``fixed``. So a result is a function of its record alone,
    and no warning or error is.
    """
    out = np.repeat(fixed[None], n, axis=0)
    succeeded = np.zeros(n, bool)
    with warnings_off(), np.errstate(all="ignore"):
        for i in range(n):
            with suppress(Exception):
                answer = np.asarray(call(new(), i), out.dtype)
                succeeded[i] = answer.shape == fixed.shape
                if succeeded[i]:
                    out[i] = answer
    return out, succeeded


def attempted(call: Callable[[], Any], fixed: np.ndarray, *, raises: bool = False) -> np.ndarray:
    """Return the result of a call for one record; ``fixed`` on an error or another shape.

    An error would reveal something about the record. Trials on made-up numbers raise it.
    """
    try:
        return np.broadcast_to(np.asarray(call(), fixed.dtype), fixed.shape)
    except Exception:
        if raises:
            raise
        return fixed


# ---- what no copy holds apart --------------------------------------------------------------------

#: packages whose classes and functions keep nothing of records
_RELEASED = frozenset(sys.stdlib_module_names) | {
    "joblib", "numpy", "pandas", "scipy", "skdpfl", "sklearn", "torch",
}  # fmt: skip


def shared_state(part: Any) -> dict[str, str]:
    """Return digests of what a user's code could keep outside of an object, by name.

    That is the attributes of classes, closures, defaults, and the globals that functions name, of
    all code that the object and its attributes are made of. What cannot be pickled, and what lies
    in other modules' variables, is not seen.
    """
    states: dict[str, str] = {}
    code = _Pickler.read(part)[1]
    for each in code:  # which grows
        for name, value in _places(each):
            states[name], more = _Pickler.read(value)
            code += [new for new in more if not any(new is old for old in code)]
    return states


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the names whose digests differ, or "" if none does."""
    return ", ".join(name for name in after if after[name] != before.get(name))


def digest(value: Any) -> str:
    """Return a digest of a value and its attributes."""
    return _Pickler.read(value)[0]


def _places(code: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of what a function or a class may keep."""
    where = f"{code.__module__}.{code.__qualname__}"
    if isinstance(code, type):
        for name, value in list(vars(code).items()):
            if name not in GENERATED:
                yield f"{where}.{name}", value
        return
    parts = code.__defaults__, code.__kwdefaults__, vars(code)
    yield f"{where} (defaults)", parts
    for name, cell in zip(code.__code__.co_freevars, code.__closure__ or (), strict=True):
        yield f"{where} ({name})", getattr(cell, "cell_contents", None)
    for name in _names(code.__code__) & code.__globals__.keys():
        yield f"{code.__module__}.{name}", code.__globals__[name]


def _names(code: CodeType) -> set[str]:
    """Return the names in a function and in those within it."""
    within = (c for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*map(_names, within))


class _Pickler(pickle.Pickler):
    """A pickler by value: ``code`` lists the users' functions and classes that it meets."""

    @classmethod
    def read(cls, value: Any) -> tuple[str, list[Any]]:
        """Return the digest of a value, and the users' code in it."""
        buffer = io.BytesIO()
        pickler = cls(buffer, 4)
        pickler.code = []
        pickler.dump(value)
        return hashlib.blake2b(buffer.getbuffer(), digest_size=16).hexdigest(), pickler.code

    code: list[Any]

    def reducer_override(self, obj: Any) -> Any:
        """Return what is pickled for an object; of code and what cannot be pickled, the name."""
        if isinstance(obj, property | staticmethod | classmethod):
            wrapped = [getattr(obj, name, None) for name in ("fget", "fset", "__func__")]
            return list, (wrapped,)
        if obj is str or obj is list:
            return NotImplemented
        if isinstance(obj, FunctionType | type):
            if obj.__module__ and obj.__module__.partition(".")[0] not in _RELEASED:
                self.code.append(obj)
            return str, (f"{obj.__module__}.{obj.__qualname__}",)
        if not isinstance(obj, ModuleType):
            try:
                reduced = obj.__reduce_ex__(4)
                if isinstance(reduced, tuple):
                    return reduced
            except Exception:  # whatever a class raises that cannot be pickled
                pass
        return str, (f"{type(obj).__module__}.{type(obj).__qualname__}",)
