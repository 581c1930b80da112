"""What crosses between machines: bytes without code, and a reader that nothing surprises."""

import dataclasses
import json
import math
import struct
import types
import typing
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest

from skdpfl import algorithms
from skdpfl.algorithms import theory
from skdpfl.models import MLP, LinearModel, TemperedSigmoid, public
from skdpfl.remote import WireError, declare, pack, unpack
from tests.remote.silos_here import Here, estimator, fit_elsewhere, problem

ARRAYS = [
    np.arange(6, dtype=dtype).reshape(2, 3)
    for dtype in ("f8", "f4", "i8", "i4", "i1", "u1", ">f8", ">i4")
] + [np.array([True, False]), np.zeros((0, 3)), np.array(2.5), np.array(["é", ""]), np.array("x")]


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype.newbyteorder("=") == b.dtype and (a == b).all()
    return a == b and type(a) is type(b)


@pytest.mark.parametrize("value", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_come_back(value):
    assert same(value, unpack(pack(value)))


PLAIN = [
    None, True, 0, -(2**70), "", "naïve \ud800", 0.1, -0.0, math.nan, -math.inf, 5e-324, 2.0,
    (1, (2.0, "x", ()), None), {"": {"f": (1,)}, "o": {"a": 1}},
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back(value):
    assert repr(unpack(pack(value))) == repr(value)  # NaN, -0.0 and the type of numbers included


class Pair(NamedTuple):
    one: float
    other: np.ndarray


@dataclass(frozen=True)
class Own:
    rate: float
    pair: Pair | None = None


def test_declared_classes_come_back_and_others_do_not():
    with pytest.raises(WireError, match="declare"):
        pack(Own(1.0))
    declare(Pair, Own)
    declare(Own)
    back = unpack(pack(Own(0.1, Pair(math.inf, np.ones(2)))))
    assert back.rate == 0.1 and back.pair.one == math.inf and (back.pair.other == 1).all()
    with pytest.raises(ValueError, match="Another class"):
        declare(dataclass(frozen=True)(type("Own", (), {"__annotations__": {"x": int}})))
    with pytest.raises(TypeError, match="Only dataclasses"):
        declare(int)
    with pytest.raises(WireError, match="has the wrong type"):
        unpack(pack(Own("fast")))  # type: ignore[arg-type]


class Alias:
    """What `type Name[T] = value` makes from Python 3.12 on, as far as hints are read."""

    def __init__(self, name, value, *, type_params=()):
        self.__name__, self.__value__, self.__type_params__ = name, value, type_params

    def __getitem__(self, given):
        return types.GenericAlias(self, given)

    def __call__(self):
        raise TypeError("not a type")


Scalar, Item = TypeVar("Scalar", bound=np.generic), TypeVar("Item")


@pytest.mark.parametrize("alias", {Alias: 0, getattr(typing, "TypeAliasType", Alias): 1})
def test_fields_may_be_hinted_by_aliases(alias):
    """NumPy 2.5 makes `NDArray` an alias on Python 3.12 and later, where it is one."""
    array = alias("Array", np.ndarray[Any, np.dtype[Scalar]], type_params=(Scalar,))
    several = alias("Several", tuple[Item, ...], type_params=(Item,))
    hints = {
        "plain": alias("Number", alias("Inner", float)),
        "array": array[np.float64],
        "arrays": several[array[np.float64]],
        "either": array[np.float64] | None,
    }
    name = f"HintedBy{alias.__name__}"
    kind = dataclass(frozen=True)(type(name, (), {"__annotations__": hints}))
    declare(kind)
    right = {"plain": 0.5, "array": np.ones(2), "arrays": (np.ones(1),), "either": None}
    back = unpack(pack(kind(**right)))
    assert back.plain == 0.5 and (back.array == 1).all() and back.either is None
    wrong = {"plain": "x", "array": 0.5, "arrays": (np.ones(1), 0.5), "either": 0.5}
    for field, value in wrong.items():
        with pytest.raises(WireError, match=f"{field} has the wrong type"):
            unpack(pack(kind(**right | {field: value})))


BROKEN = {
    "a layer without units": lambda n: {"hidden": (0,)},
    "a negative number of units": lambda n: {"hidden": (-3,)},
    "units that are no numbers": lambda n: {"hidden": ("3",)},
    "another activation": lambda n: {"activation": LinearModel(1, 1)},
    "a start of another network": lambda n: {"hidden": (7,)},
    "a start that is none": lambda n: {"start": 3},
    "an activation that is none": lambda n: {"activation": TemperedSigmoid},
}


@pytest.mark.parametrize("name", BROKEN)
def test_networks_that_are_none_are_refused(name):
    """The bytes are written field by field, as a hostile server can."""
    weights = [np.ones((4, 2)), np.ones((2, 1))], [np.zeros(2), np.zeros(1)]
    network = MLP((2,), TemperedSigmoid(), start=public(weights)).build(4, 1)
    assert unpack(pack(network)).hidden == (2,)
    fields = {f.name: getattr(network, f.name) for f in fields_of(network)}
    broken = object.__new__(type(network))
    vars(broken).update(fields | BROKEN[name](network))
    with pytest.raises(WireError):
        unpack(pack(broken))


def changed(data, **changes):
    """Return a message with another header."""
    length = struct.unpack_from("<I", data, 8)[0]
    header = json.loads(data[12 : 12 + length]) | changes
    new = json.dumps(header).encode()
    return data[:8] + struct.pack("<I", len(new)) + new + data[12 + length :]


WRONG = {
    "empty": lambda d: b"",
    "text": lambda d: b"hello, this is no message",
    "pickle": lambda d: b"\x80\x04\x95" + d,
    "cut": lambda d: d[:-1],
    "longer": lambda d: d + b"0",
    "header cut": lambda d: d[:20],
    "longer than it says": lambda d: changed(d, s=[10**9, 10**9]),
    "negative": lambda d: changed(d, s=[-1]),
    "object array": lambda d: changed(d, a="|O"),
    "another key": lambda d: changed(d, z=1),
    "no text": lambda d: d[:12] + b"\xff" + d[13:],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_bytes_are_an_error_in_words(name):
    with pytest.raises(WireError, match=r"message|Arrays|array|NaN"):
        unpack(WRONG[name](pack(np.ones(3))))


DEEP = [0]
for _ in range(40):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value", [DEEP, object(), {1: 2}, np.array([object()]), np.array([1j])], ids=type
)
def test_what_cannot_be_sent(value):
    with pytest.raises(WireError):
        pack(value)


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """All that is said in two fits, of a linear model and of a network."""
    here = Here(tmp_path_factory.mktemp("silos"), problem())
    fit_elsewhere(estimator(n_rounds=2, feature_bounds=(-3, 3)), here)
    weights = [np.ones((4, 2)), np.ones((2, 1))], [np.zeros(2), np.zeros(1)]
    network = MLP((2,), TemperedSigmoid(), start=public(weights))
    fit_elsewhere(estimator(n_rounds=1, model=network, scaling=None), here)
    return here.letters, here.answers


def test_letters_hold_names_and_numbers_only(letters):
    """Inspect the bytes: a header of JSON that names declared classes; numbers after it."""
    for _, data in letters[0] + letters[1]:
        assert data[:7] == b"skdpflw" and data[7] == 1
        length = struct.unpack_from("<I", data, 8)[0]
        header = json.loads(data[12 : 12 + length].decode("ascii"))
        assert set(header) == {"o", "v"} and header["o"].startswith("remote.")
        assert (len(data) - 12 - length) % 4 == 0
        for word in (b"pickle", b"__reduce__", b"numpy", b"builtins", b"\x80\x04\x95"):
            assert word not in data


def test_a_silo_is_told_of_itself_only(letters):
    for name, data in letters[0]:
        for other in ("east", "north", "south", "west"):
            assert (other.encode() in data) <= (other == name)


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_were_changed_are_read_or_refused(letters, seed):
    """Whatever happens to a letter on its way: another letter, or a WireError."""
    rng, said = np.random.default_rng(seed), [d for _, d in letters[0][::5] + letters[1][::5]]
    refused = 0
    for _ in range(150):
        data = bytearray(said[rng.integers(len(said))])
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(min(len(data), 700)))
            if rng.random() < 0.5:
                data[at] = rng.choice([*b'{}[]",:-0919eE.', rng.integers(256)])
            elif rng.random() < 0.5:
                del data[at : at + int(rng.integers(1, 40))]
            else:
                data[at:at] = data[: int(rng.integers(60))]
        try:
            unpack(bytes(data))
        except WireError:
            refused += 1
    assert refused > 75


def test_every_algorithm_is_sent():
    """What is public and has fields, bases aside: nothing has to be added by hand."""
    bases = {"Algorithm", "GradientMethod"}
    kinds = [getattr(algorithms, name) for name in sorted(set(algorithms.__all__) - bases)]
    sent = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    assert len(sent) >= 8
    stages = (theory.Stage(2, 1.0),)
    phases = (theory.Phase(2, stages, 1.0, 1.0),)
    known = {"stages": stages, "phases": phases, "mean": np.zeros(2)}
    for kind in sent:
        missing = dataclasses.MISSING
        needed = [f.name for f in fields_of(kind) if f.default is f.default_factory is missing]
        value = kind(**{name: known.get(name, 0.5) for name in needed})
        again = unpack(pack(value))
        assert type(again) is kind
        assert repr(again) == repr(value)
