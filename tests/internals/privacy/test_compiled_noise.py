"""The compiled noise is NumPy's to the last bit, and refuses what does not fit."""

import ctypes
import sys

import numpy as np
import pytest

from skdpfl._compiled import noise
from skdpfl.privacy import release
from skdpfl.privacy.randomness import normals, words
from skdpfl.privacy.randomness.words import SimulationWords
from tests.internals.test_compiled_products import SPOILT

pytestmark = pytest.mark.skipif(noise is None, reason="no compiled noise here")


def without(monkeypatch, module, call):
    """Return what ``call`` gives in C and in NumPy, in this order."""
    mine = call()
    with monkeypatch.context() as patch:
        patch.setattr(module, "compiled", None)
        return mine, call()


@pytest.mark.parametrize("count", [1025, 4096, 70_001])
@pytest.mark.parametrize("silos", [[3], [0, 1, 7, 4_000_000_000]], ids=str)
@pytest.mark.parametrize("scratch", [False, True])
def test_words_are_numpys(monkeypatch, count, silos, scratch):
    def draw():
        return SimulationWords(5).words("noise", silos, 2, 9, count, scratch=scratch).copy()

    mine, numpys = without(monkeypatch, words, draw)
    assert mine.shape == (len(silos), count)
    np.testing.assert_array_equal(mine, numpys)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("rows", "n"), [(1, 1), (3, 2), (2, 7), (1, 65_536), (5, 1001)])
def test_normals_are_numpys(monkeypatch, dtype, rows, n):
    rng = np.random.default_rng(n)
    drawn = rng.integers(0, 2**64, (rows, normals.n_words(n, dtype == np.int64)), dtype=np.uint64)

    def fill():
        out = np.empty((rows, n), dtype)
        normals.fill(drawn.copy(), out)
        return out

    np.testing.assert_array_equal(*without(monkeypatch, normals, fill))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("field", [0, 1, (1 << 14) - 1, (1 << 16) - 1])
def test_normals_of_every_slot_are_numpys(monkeypatch, dtype, field):
    """Those that want a second draw, and the outermost, with the least and the largest fields."""
    n = 1 << 16
    lanes = np.full(4 * normals.n_words(n, dtype == np.int64), field, np.uint16)
    lanes[3 * n : 4 * n] = np.arange(n)
    drawn = lanes.view(np.uint64)[None]

    def fill():
        out = np.empty((1, n), dtype)
        normals.fill(drawn.copy(), out)
        return out

    np.testing.assert_array_equal(*without(monkeypatch, normals, fill))


@pytest.mark.parametrize(("dtype", "integer"), [(np.float32, np.int32), (np.float64, np.int64)])
@pytest.mark.parametrize("divisor", [1.0, 3.7, "one a row"])
@pytest.mark.parametrize("own_grids", [False, True])
def test_releases_are_numpys(monkeypatch, dtype, integer, divisor, own_grids):
    rng = np.random.default_rng(1)
    gamma = np.array([2.0**-20, 0.7e-6, 3.1e-3, 1.0])[:, None] if own_grids else 1.3e-6
    if divisor == "one a row":
        divisor = np.array([1.0, 3.0, 0.1, 400.0])[:, None]
    whole = rng.integers(-(10**6), 10**6, (4, 1000))
    halves = rng.choice([0.0, 0.5, -0.5, 0.49999997, 0.3], (4, 1000))  # ties go to even numbers
    sums = ((whole + halves) * gamma).astype(dtype)
    sums[:, :3] = 0.0, -0.0, np.finfo(dtype).tiny
    units = rng.integers(-(2**24), 2**24, (4, 1000)).astype(integer)

    given = sums.copy()
    mine, numpys = without(
        monkeypatch, release, lambda: release.snapped_release(given, units, gamma)
    )
    assert mine.dtype == dtype
    np.testing.assert_array_equal(given, sums)
    np.testing.assert_array_equal(mine.view(integer), numpys.view(integer))
    grids, divisors = (np.resize(v, 4) for v in (gamma, divisor))
    rows = release.GridRows.of(grids, divisors, np.dtype(dtype))
    mine, numpys = without(monkeypatch, release, lambda: rows.release(sums.copy(), units))
    np.testing.assert_array_equal(mine.view(integer), numpys.view(integer))


def arguments(function):
    """Arguments that are taken, of two rows."""
    if function == "words":
        return [np.zeros((2, 4), np.uint64), np.zeros((2, 9), np.uint64)]
    if function == "normals":
        words, table = np.zeros((2, 9), np.uint64), np.zeros(1 << 16, np.int32)
        return [words, table, np.zeros((2, 9), np.int32)]
    single = np.float32
    sums, out = np.zeros((2, 9), single), np.zeros((2, 9), single)
    return [sums, np.zeros((2, 9), np.int32), np.ones(2, single), np.ones(2, single), out]


WRITTEN = {"words": 1, "normals": 2, "release": 4}
REFUSED = {
    "states of two words": ("words", 0, lambda a: a[:, :2].copy()),
    "states of C": ("words", 0, lambda a: (ctypes.c_uint64 * 4 * 2)()),
    "words in columns": ("words", 1, np.asfortranarray),
    "too few words": ("normals", 0, lambda a: a[:, :8].copy()),
    "too few words of double precision": ("normals", 2, lambda a: a.astype(np.int64)),
    "a short table": ("normals", 1, lambda a: a[:-1]),
    "sums of another type": ("release", 0, lambda a: a.astype(np.float64)),
    "units of another type": ("release", 1, lambda a: a.astype(np.int64)),
    "fewer units": ("release", 1, lambda a: a[:, :8].copy()),
    "a shorter release": ("release", 4, lambda a: a[:, :8].copy()),
}
for name, to_be_kept in WRITTEN.items():
    REFUSED[f"{name} to be kept"] = name, to_be_kept, SPOILT["to be kept"]
    for how in ("of halves", "fewer", "of other axes", "at an odd place", "no array"):
        REFUSED |= {f"{name} {i} {how}": (name, i, SPOILT[how]) for i in range(to_be_kept + 1)}


@pytest.mark.parametrize(("function", "place", "change"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(function, place, change):
    """Nothing is read or written outside an array."""
    given = arguments(function)
    getattr(noise, function)(*given)
    given[place] = change(given[place])
    with pytest.raises((ValueError, TypeError, BufferError)):
        getattr(noise, function)(*given)


@pytest.mark.parametrize("function", WRITTEN)
def test_arguments_are_let_go(function):
    """Also when the last of them is refused: their memory may then be given up."""
    given = arguments(function)
    counts = [sys.getrefcount(v) for v in given]
    for _ in range(10):
        getattr(noise, function)(*given)
        with pytest.raises((BufferError, ValueError)):
            getattr(noise, function)(*given[:-1], b"words")
    assert [sys.getrefcount(v) for v in given] == counts
