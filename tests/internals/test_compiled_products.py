"""The compiled products: what they compute, to the bit where promised, and what they refuse."""

import ctypes
import sys
from itertools import pairwise, product

import numpy as np
import pytest

from skdpfl._compiled import products
from skdpfl.models import CELLS, CurveColumns, ExpandedTable, Records
from skdpfl.models._products import CompiledProducts, NumpyProducts

pytestmark = pytest.mark.skipif(products is None, reason="no compiled products here")

DTYPES = [np.float32, np.float64]
#: features, outputs, the silos' numbers of records: below, at and beyond tiles and vectors
SIZES = [
    (1, 1, (1,)),
    (5, 1, (0, 1, 7)),
    (8, 8, (16, 16)),
    (16, 5, (20, 3)),
    (17, 16, (8, 9)),
    (3, 50, (30,)),
    (33, 100, (5, 64)),
    (40, 33, (3, 0)),
    (784, 47, (130, 40)),
]
every_size = pytest.mark.parametrize(("d", "k", "lengths"), SIZES, ids=str)


def problem(d, k, lengths, dtype, intercept=True, seed=0):
    """Records of several silos in mixed order, parameters and slopes."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    table = rng.standard_normal((200, d)).astype(dtype)
    rows = np.split(rng.integers(0, 200, n), np.cumsum(lengths)[:-1])
    params = rng.standard_normal((len(lengths), (d + intercept) * k)).astype(dtype)
    return Records.of_silos(table, rows), params, rng.standard_normal((k, n)).astype(dtype)


def of_each(records):
    """The row numbers of each silo."""
    return np.split(records.index, records.edges[1:-1])


def both(make, records, params, slopes, intercept=True, chunk=None):
    """Return both products, without columns and rows to spare."""
    k, n = slopes.shape
    made = make(records, k, intercept)
    raw = made.raw(params, n)[:k]
    return raw, made.sums(slopes, chunk)


def by_definition(records, params, slopes, intercept):
    """Both products in double precision."""
    raw, sums = np.zeros(slopes.shape), []
    edges = np.cumsum([0, *records.lengths])
    for i, rows in enumerate(of_each(records)):
        X = records.table[rows].astype(float)
        a = np.column_stack([X, np.ones((len(X), int(intercept)))])
        silo = slice(edges[i], edges[i + 1])
        raw[:, silo] = (a @ params[i].reshape(a.shape[1], -1).astype(float)).T
        sums.append((a.T @ slopes[:, silo].T.astype(float)).ravel())
    return raw, np.array(sums)


@every_size
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_bit_depends_on_the_width_of_vectors(d, k, lengths, dtype):
    if not products.narrow(False):
        pytest.skip("no AVX-512 here")
    records, params, slopes = problem(d, k, lengths, dtype)
    wide = both(CompiledProducts, records, params, slopes, chunk=7)
    try:
        products.narrow(True)
        narrow = both(CompiledProducts, records, params, slopes, chunk=7)
    finally:
        products.narrow(False)
    assert all(np.array_equal(a, b) for a, b in zip(wide, narrow, strict=True))


@every_size
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [CompiledProducts, NumpyProducts])
def test_products_are_those_of_the_definition(make, d, k, lengths, intercept, dtype):
    records, params, slopes = problem(d, k, lengths, dtype, intercept)
    for chunk in (None, 1, 7, 64):
        got = both(make, records, params, slopes, intercept, chunk)
        for mine, want in zip(got, by_definition(records, params, slopes, intercept), strict=True):
            assert mine.dtype == dtype
            np.testing.assert_allclose(mine, want, rtol=0, atol=200 * np.finfo(dtype).eps * d**0.5)


@pytest.mark.parametrize("d", [*range(10), 16, 17, 33])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_few_outputs_at_any_numbers_of_records_and_features(d, k, dtype):
    """Each number is that of the record alone, and nothing beyond them is written."""
    rng = np.random.default_rng(d)
    lengths = (0, 1, 9, 2, 3, 12, 4, 5)
    table = rng.standard_normal((50, d + 2)).astype(dtype)[:, 1 : d + 1]
    rows, edges = rng.integers(0, 50, sum(lengths)), np.cumsum([0, *lengths])
    params = rng.standard_normal((8, (d + 1) * k)).astype(dtype)
    for intercept in (True, False):
        flat = params if intercept else params[:, : d * k]
        out = np.full((k + 1, len(rows) + 1), 7, dtype)
        products.raw(table, rows, edges, flat, out[:k], None, intercept)
        assert (out[k] == 7).all() and (out[:, -1] == 7).all()
        of_record = np.repeat(np.arange(8), lengths)
        for j, s in enumerate(of_record):
            one, x = np.empty((k, 1), dtype), np.append(table[rows[j]], intercept).astype(float)
            alone = table[rows[j]][None], np.zeros(1, int), np.array([0, 1])
            products.raw(*alone, flat[s : s + 1], one, None, intercept)
            np.testing.assert_array_equal(one[:, 0], out[:k, j])
            want = x @ params[s].reshape(d + 1, k).astype(float)
            np.testing.assert_allclose(one[:, 0], want, rtol=0, atol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("d", [*range(10), 16, 17, 33])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_predictions_within_limits_are_those_of_features_that_were_cut_before(d, k, dtype):
    """Bit for bit; what is no number stays none, and numbers between the limits have no effect."""
    rng, n = np.random.default_rng(d), 21
    table = 3 * rng.standard_normal((n, d + 2)).astype(dtype)[:, 1 : d + 1]
    low, high = np.sort(rng.standard_normal((2, d)).astype(dtype), axis=0)
    table[3], table[4] = -np.inf, np.inf
    table[5, d // 2 :] = np.nan
    limits = np.full((2, d + 16), 99, dtype)
    limits[0, :d], limits[1, :d] = low, high
    where, params = (np.arange(n), np.array([0, n])), rng.standard_normal((1, (d + 1) * k))
    got, want = np.empty((2, k, n), dtype)
    products.raw(table, *where, params.astype(dtype), got, None, True, limits.ravel())
    cut = np.minimum(np.maximum(table, low), high)
    products.raw(cut, *where, params.astype(dtype), want, None, True)
    np.testing.assert_array_equal(got, want)
    assert np.isnan(got[:, 5]).all() == (d > 0) and np.isfinite(np.delete(got, 5, axis=1)).all()


@pytest.mark.parametrize("d", [*range(10), 16, 17, 33])
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_few_outputs_are_each_silos_own(d, k, dtype):
    """To the last bit those of the silo alone, whatever stands beside it and beyond the rows."""
    rng = np.random.default_rng(d)
    lengths = (0, 1, 9, 2, 3, 29, 8, 5)
    wide = np.full((50, d + 2), np.nan, dtype)
    table = wide[:, 1 : d + 1]
    table[:] = rng.standard_normal(table.shape)
    rows, edges = rng.integers(0, 50, sum(lengths)), np.cumsum([0, *lengths])
    slopes = rng.standard_normal((k, len(rows))).astype(dtype)
    for intercept, chunk in product((True, False), (1, 5, 8, 100)):
        out = np.full((9, (d + intercept) * k), 7, dtype)
        products.row_sums(table, rows, edges, out[:8], slopes, intercept, chunk)
        assert (out[8] == 7).all()
        for s, (a, b) in enumerate(pairwise(edges)):
            alone, ends = np.empty_like(out[:1]), np.array([0, b - a])
            mine = np.ascontiguousarray(table[rows[a:b]]), np.arange(b - a), ends
            products.row_sums(*mine, alone, slopes[:, a:b].copy(), intercept, chunk)
            np.testing.assert_array_equal(alone[0], out[s])
            X = np.column_stack([table[rows[a:b]], np.ones((b - a, int(intercept)))])
            want = (X.T.astype(float) @ slopes[:, a:b].T.astype(float)).ravel()
            np.testing.assert_allclose(out[s], want, rtol=0, atol=200 * np.finfo(dtype).eps)


def step_of(table, rows, edges, params, y, limits, weights, chunk, link):
    """The sums of `step`, and by `raw`, NumPy's slopes and `row_sums`."""
    out, raw, want = np.full_like(params, 7), np.empty((1, len(rows)), y.dtype), params.copy()
    given = y, limits, weights, True, chunk, link
    products.step(table, rows, edges, params, out, *given)
    products.raw(table, rows, edges, params, raw, None, True)
    with np.errstate(all="ignore"):
        slopes = (1 / (1 + np.exp(-raw)) if link else raw) - y
        if link == 2:
            largest = np.maximum(np.abs(slopes), 1 - np.abs(slopes))
            slopes *= np.minimum(1, limits / largest)
    slopes = np.where(np.isfinite(slopes), np.minimum(np.maximum(slopes, -limits), limits), 0)
    slopes *= 1 if weights is None else weights
    products.row_sums(table, rows, edges, want, slopes.astype(y.dtype), True, chunk)
    return out, want


@pytest.mark.parametrize("d", [0, 1, 3, 8, 17, 33])
@pytest.mark.parametrize("link", [0, 1, 2])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_step_is_both_products_and_the_slopes_between(d, link, weighted, dtype):
    """In large and small numbers; and each silo's bits are its own."""
    rng = np.random.default_rng(d)
    lengths = (0, 1, 9, 2, 3, 29, 8, 5)
    table = (rng.standard_normal((50, d + 2)) * 10.0 ** rng.uniform(-3, 2, (50, 1))).astype(dtype)
    table, edges = table[:, 1 : d + 1], np.cumsum([0, *lengths])
    rows, params = rng.integers(0, 50, edges[-1]), rng.standard_normal((8, d + 1)).astype(dtype)
    y, limits = (rng.uniform(0, 1, len(rows)).astype(dtype) for _ in range(2))
    weights = (rng.uniform(size=len(rows)) < 0.5).astype(dtype) if weighted else None
    for chunk in (1, 5, 100):
        out, want = step_of(table, rows, edges, params, y, limits, weights, chunk, link)
        scale = 100 * np.abs(table).max(initial=1) * np.finfo(dtype).eps
        np.testing.assert_allclose(out, want, rtol=0, atol=scale)
        for s, (a, b) in enumerate(pairwise(edges)):
            w = None if weights is None else weights[a:b].copy()
            alone = rows[a:b], np.array([0, b - a]), params[s : s + 1]
            own = y[a:b].copy(), limits[a:b].copy(), w, chunk, link
            np.testing.assert_array_equal(step_of(table, *alone, *own)[0][0], out[s])


@pytest.mark.parametrize("link", [0, 1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_step_does_not_read_records_that_are_not_finite(link, dtype):
    """Nor does what they hold change a bit of others: it is as if their weight were 0."""
    rng = np.random.default_rng(0)
    table, rows, edges = (
        rng.standard_normal((30, 5)).astype(dtype),
        np.arange(30),
        np.array([0, 30]),
    )
    params, y = rng.standard_normal((1, 6)).astype(dtype), np.zeros(30, dtype)
    limits, weights, bad = np.full(30, 0.4, dtype), np.ones(30, dtype), [3, 8, 17, 28, 29]
    weights[bad] = 0
    want = step_of(table, rows, edges, params, y, limits, weights, 7, link)[0]
    assert np.isfinite(want).all() and want.any()
    limits[bad[:3]], table[bad[:2]], table[bad[2], 2] = np.nan, np.nan, np.inf
    y[bad[3]], y[bad[4]] = np.nan, -np.inf
    got = step_of(table, rows, edges, params, y, limits, None, 7, link)[0]
    np.testing.assert_array_equal(got, want)
    params[:] = np.inf  # raw predictions are NaN
    assert not step_of(table, rows, edges, params, y, limits, None, 7, link)[0].any()


@pytest.mark.parametrize("link", [0, 1, 2])
@pytest.mark.parametrize("limit", [0.4, np.inf])
@pytest.mark.parametrize("momentum", [0.0, 0.7])
@pytest.mark.parametrize("more", [True, False], ids=["penalty and correction", "neither"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_descent_is_its_steps_one_by_one(link, limit, momentum, more, intercept, dtype):
    """To the last bit, of silos of any sizes and records that are not finite; and alone."""
    rng = np.random.default_rng(1)
    lengths, d, n_steps, rate = (0, 1, 9, 20, 3, 29), 21, 4, 0.3
    table = rng.standard_normal((50, d)).astype(dtype)
    table[[3, 7], [0, 5]] = np.nan, np.inf
    edges, size = np.cumsum([0, *lengths]), d + intercept
    rows, n = rng.integers(0, 50, edges[-1]), edges[-1]
    params, correction = rng.standard_normal((2, len(lengths), size)).astype(dtype)
    penalty = rng.uniform(0, 0.1, size).astype(dtype) if more else None
    divisor, correction = np.array(lengths, dtype), correction if more else None
    y, limits = rng.uniform(0, 1, n).astype(dtype), np.full(n, limit, dtype)
    limits[~np.isfinite(table[rows]).all(axis=1)] = np.nan
    by = [n_steps, divisor, penalty, correction, rate, momentum]
    given = table, rows, edges, params
    out, records = np.empty_like(params), (y, limits, None, intercept, int(n), link)
    products.descent(*given, out, *records, *by)

    moved, velocity, g = np.zeros_like(params), np.zeros_like(params), np.empty_like(params)
    with np.errstate(all="ignore"):
        for _ in range(n_steps):
            at = params + moved
            products.step(*given[:3], at, g, *records)
            v = g / divisor[:, None]
            v = v + penalty * at + correction if more else v
            velocity = momentum * velocity + v if momentum else v
            moved = moved - rate * velocity
    np.testing.assert_array_equal(out, moved)
    assert np.isfinite(out[1:]).all() and np.isnan(out[0]).all(), "0 / 0 of no records"

    for s, (a, b) in enumerate(pairwise(edges)):
        some, own, alone = slice(a, b), slice(s, s + 1), np.empty((1, size), dtype)
        by[1], by[3] = divisor[own].copy(), correction[own].copy() if more else None
        mine = y[some].copy(), limits[some].copy(), None, intercept, 100, link
        where = table, rows[some].copy(), np.array([0, b - a]), params[own]
        products.descent(*where, alone, *mine, *by)
        np.testing.assert_array_equal(alone[0], out[s])


@pytest.mark.parametrize("k", [2, 7])
@pytest.mark.parametrize("chunk", [1, 3, 8, 100])
def test_sums_are_added_up_in_chunks(chunk, k):
    """In order within a chunk, then chunk by chunk: the roundings that clip norms allow for."""
    rng = np.random.default_rng(1)
    # products of 8 bits, exact in any precision; their sum in double precision is, too
    X = rng.integers(-15, 16, (30, 20)).astype(np.float32) * np.float32(2.0) ** rng.integers(
        0, 20, (30, 1)
    ).astype(np.float32)
    slopes = rng.integers(-15, 16, (k, 30)).astype(np.float32)
    made = CompiledProducts(Records.of_silos(X, [slice(0, 30)]), k, False)
    made.raw(np.zeros((1, 20 * k), np.float32), 30)
    got = made.sums(slopes, chunk).reshape(20, k)
    parts = -(-30 // chunk)
    edges = [30 * p // parts for p in range(parts + 1)]
    total = np.zeros((20, k), np.float32)
    for start, stop in pairwise(edges):
        assert stop - start <= chunk
        inner = np.zeros((20, k), np.float32)
        for j in range(start, stop):
            inner += np.outer(X[j], slopes[:, j])
        total += inner
    np.testing.assert_array_equal(got, total)


def unaligned(array):
    """The same numbers, one byte after where they belong."""
    odd = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    odd[...] = array
    return odd


def with_gaps(array):
    """The same numbers, with a byte after each row."""
    packed = np.zeros(len(array), [("row", array.dtype, array.shape[1:]), ("gap", "i1")])["row"]
    packed[...] = array
    return packed


@pytest.mark.parametrize(
    "layout",
    [
        lambda X: X[::-1],
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        np.asfortranarray,
        lambda X: unaligned(X),
        lambda X: with_gaps(X),
    ],
    ids=["backwards", "every other column", "columns", "odd", "gaps"],
)
def test_tables_of_any_layout(layout):
    records, params, slopes = problem(19, 6, (30, 7), np.float32)
    table = layout(records.table)
    table.flags.writeable = False
    want = both(
        CompiledProducts,
        Records(table.copy(order="C"), records.rows, records.edges),
        params,
        slopes,
    )
    got = both(CompiledProducts, Records(table, records.rows, records.edges), params, slopes)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


def arguments(function):
    """Arguments that are taken: 3 records of 2 features in one silo, 2 outputs, an intercept."""
    edges, single = np.array([0, 3]), np.float32
    packed, flat, wide = (np.zeros(shape, single) for shape in (64, (1, 6), (2, 3)))
    if function == "raw":
        return [np.zeros((4, 2), single), np.array([0, 3, 1]), edges, flat, wide, packed, True]
    if function == "few":
        return [np.zeros((4, 2), single), np.array([0, 3, 1]), edges, flat, wide, None, True]
    if function == "limits":
        return [*arguments("few"), np.zeros(36, single)]
    if function == "curves":  # two values and one curve of three columns
        table = curved(4, 2, [0], 3, single).for_compiled()
        return [table, np.array([0, 3, 1]), edges, np.zeros((1, 12), single), wide, None, True]
    if function == "expand":
        table = curved(4, 2, [0], 3, single).for_compiled()
        return [table, np.array([0, 3, 1, 2]), np.array([0, 4]), np.zeros((4, 5), single)]
    if function == "row_sums":
        return [np.zeros((4, 2), single), np.array([0, 3, 1]), edges, flat, wide, True, 5]
    if function in ("step", "descent", "persons"):
        table, rows, each = np.zeros((4, 3), single), np.array([0, 3, 1]), np.zeros(3, single)
        flat = np.zeros((1, 4), single)
        step = [table, rows, edges, flat, flat.copy(), each, each, each, True, 5, True]
        more = [2, np.ones(1, single), np.zeros(4, single), flat.copy(), 0.1, 0.5]
        persons = [np.array([0, 1, 3]), None, np.ones(1, single), False]
        return step + {"step": [], "descent": more, "persons": persons}[function]
    return [packed, edges, wide, flat, 2, True, 5]


def taking(function):
    """The function that takes these arguments."""
    return getattr(products, "raw" if function in ("few", "curves", "limits") else function)


def curved(n, n_values, where, m, dtype, before=None, seed=0):
    """A table of curves of m columns each, of the values at ``where``."""
    rng, c = np.random.default_rng(seed), len(where)
    before = n_values if before is None else before
    shapes = (before,), (c * m,), (c, CELLS, m)
    columns = CurveColumns.of(*map(rng.standard_normal, shapes), where)
    cells = rng.integers(0, 256, (n, c)).astype(np.uint8)
    values = rng.standard_normal((n, n_values)).astype(dtype)
    return ExpandedTable(values, cells, columns.astype(np.dtype(dtype)))


def part_of(table, number, part):
    """A tuple with another part."""
    return (*table[:number], part, *table[number + 1 :])


@pytest.mark.parametrize("dtype", [*DTYPES, "widened"])
@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize(
    ("n_values", "where", "m", "before"),
    [(4, [2, 0, 3], 7, 3), (20, range(20), 7, 20), (3, [], 1, 2), (2, [1], 33, 1), (5, [4], 1, 5)],
)
def test_columns_of_curves_have_the_bits_of_a_table_of_all(dtype, k, n_values, where, m, before):
    """In both products and in a step; of rows in any order and as a slice, and of the only one."""
    dtype, of = (np.float64, np.float32) if dtype == "widened" else (dtype, dtype)
    table = curved(60, n_values, list(where), m, of, before)
    table.values[7] = np.nan
    dense, rng = table.by_numpy(), np.random.default_rng(1)
    d = table.shape[1]
    for column, (f, i) in enumerate(product(range(len(where)), range(m)), start=before):
        B, T = table.columns.slopes[f * m + i], table.columns.levels[f * CELLS * m :]
        want = table.values[:, list(where)[f]] * B + T[table.cells[:, f].astype(int) * m + i]
        np.testing.assert_array_equal(dense[:, column], want)
    table, dense = table.astype(np.dtype(dtype)), dense.astype(dtype)
    np.testing.assert_array_equal(table.dense(), dense)
    for rows in ([np.array([5, 0, 59, 5]), rng.integers(0, 60, 30)], [slice(3, 20), slice(20, 60)]):
        both_tables = [Records.of_silos(each, rows) for each in (table, dense)]
        np.testing.assert_array_equal(both_tables[0].gathered(), both_tables[1].gathered())
        np.testing.assert_array_equal(both_tables[0].copied().gathered(), both_tables[1].gathered())
        n = int(both_tables[0].edges[-1])
        params = rng.standard_normal((2, (d + 1) * k)).astype(dtype)
        slopes = rng.standard_normal((k, n)).astype(dtype)
        slopes[:, np.isnan(both_tables[0].gathered()).any(axis=1)] = 0
        kept = slopes if k < 5 else np.where(slopes[0] == 0, 1, slopes)  # a copy is read
        each = [both(CompiledProducts, part, params, kept, chunk=5) for part in both_tables]
        for a, b in zip(*each, strict=True):
            np.testing.assert_array_equal(a, b)
        if k == 1:
            y, limits = rng.standard_normal(n).astype(dtype), np.ones(n, dtype)
            made = [CompiledProducts(part, 1, True) for part in both_tables]
            for chunk in (1, 5, 13, None):
                a, b = (each.step(params, y, limits=limits, link=0, chunk=chunk) for each in made)
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [*DTYPES, "widened"])
@pytest.mark.parametrize("widths", [[2, 21, 1, 40], [3, 1, 7], [1], [255, 2]])
def test_columns_of_frames_are_of_many_widths(dtype, widths):
    """Vectors that are wider than a curve's columns are written over by the next ones."""
    dtype, of = (np.float64, np.float32) if dtype == "widened" else (dtype, dtype)
    rng = np.random.default_rng(0)
    levels, where = [rng.standard_normal((CELLS, m)) for m in widths], np.arange(len(widths)) % 2
    for factors, rest in ((np.zeros(0), 2), (np.zeros(0), 3), (rng.standard_normal(2), 2)):
        slopes = rng.standard_normal(sum(widths))
        columns = CurveColumns.of(factors, slopes, levels, where, rest).astype(np.dtype(of))
        cells = rng.integers(0, 256, (30, len(widths))).astype(np.uint8)
        table = ExpandedTable(rng.standard_normal((30, 3)).astype(of), cells, columns)
        assert table.shape == (30, len(factors) + sum(widths) + 3 - rest)
        table = table.astype(np.dtype(dtype))
        np.testing.assert_array_equal(table.dense(), table.by_numpy())


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def doubles_in_single_space(table):
    """A table of double precision whose columns would be cut to single precision."""
    double = curved(4, 2, [0], 3, np.float64).for_compiled()
    return part_of(double, 6, table[6])


#: what spoils any array, and which arguments are written
SPOILT = {
    "of another type": lambda a: a.astype(np.float64 if a.dtype == np.float32 else np.int32),
    "of halves": lambda a: np.ones_like(a, np.float16),
    "shorter": lambda a: a[..., :-1].copy(),
    "fewer": lambda a: a[1:].copy(),
    "of other axes": lambda a: a.ravel() if a.ndim > 1 else a[:, None],
    "at an odd place": unaligned,
    "with gaps": with_gaps,
    "to be kept": read_only,
    "no array": list,
}
WRITTEN = {"raw": (4, 5), "few": (4,), "limits": (4,), "curves": (4,), "expand": (3,)}
WRITTEN |= {"row_sums": (3,), "step": (4,), "descent": (4,), "persons": (4,), "sums": (3,)}


@pytest.mark.parametrize("function", WRITTEN)
@pytest.mark.parametrize("how", SPOILT)
def test_an_array_that_is_spoilt_is_refused(function, how):
    """Nothing is read or written outside an array; so is what is no number."""
    taking(function)(*arguments(function))
    for place, value in enumerate(arguments(function)):
        given = arguments(function)
        if isinstance(value, bool) or value is None or (function, place) == ("persons", 7):
            continue
        if isinstance(value, np.ndarray):
            given[place] = SPOILT[how](value)
            if how == "with gaps" and len(value) == 1:  # there is none in one row
                continue
            if how == "to be kept" and place not in WRITTEN[function]:
                taking(function)(*given)
                continue
        else:
            given[place] = "2"
        with pytest.raises((ValueError, TypeError, BufferError, IndexError)):
            taking(function)(*given)


@pytest.mark.parametrize("function", [name for name in WRITTEN if name != "sums"])
@pytest.mark.parametrize("rows", [[0, 4, 1], [0, -1, 1], [0, 1, 2, 3, 0]])
def test_rows_that_are_not_there_are_refused(function, rows):
    given = arguments(function)
    given[1] = np.resize(rows, len(given[1]) + (len(rows) > 3))
    with pytest.raises((ValueError, IndexError)):
        taking(function)(*given)


REFUSED = {
    "edges that do not begin with 0": ("raw", 2, lambda a: np.array([1, 3])),
    "no edges": ("raw", 2, lambda a: np.array([], dtype=np.int64)),
    "edges beyond the records": ("few", 2, lambda a: np.array([0, 4])),
    "edges beyond the slopes": ("sums", 1, lambda a: np.array([0, 4])),
    "parameters of two silos": ("raw", 3, lambda a: np.repeat(a, 2, axis=0)),
    "a table of columns": ("raw", 0, np.asfortranarray),
    "a table of C": ("raw", 0, lambda a: (ctypes.c_float * 2 * 4)()),
    "five outputs": ("few", 4, lambda a: np.zeros((5, 3), np.float32)),
    "slopes of five outputs": ("row_sums", 4, lambda a: np.zeros((5, 3), np.float32)),
    "sums of two outputs": ("step", 4, lambda a: np.zeros((1, 8), np.float32)),
    "corrections of two silos": ("descent", 14, lambda a: np.repeat(a, 2, axis=0)),
    "limits of more features": ("limits", 7, lambda a: np.zeros(38, np.float32)),
    "no limits": ("limits", 7, lambda a: None),
    "limits beside a copy": ("limits", 5, lambda a: np.zeros(64, np.float32)),
    "few chunks of nothing": ("row_sums", 6, lambda a: 0),
    "steps in chunks of nothing": ("step", 9, lambda a: 0),
    "chunks of nothing": ("sums", 6, lambda a: 0),
    "a negative number of features": ("sums", 4, lambda a: -1),
    "more features than can be counted": ("sums", 4, lambda a: 2**63 - 1),
    "no part of a table": ("curves", 0, lambda a: ()),
    "too few parts of a table": ("curves", 0, lambda a: a[:7]),
    "fewer cells than values": ("curves", 0, lambda a: part_of(a, 1, a[1][:3])),
    "cells of another type": ("curves", 0, lambda a: part_of(a, 1, a[1].astype(np.int8))),
    "cells of more curves": ("curves", 0, lambda a: part_of(a, 1, a[1].repeat(2, axis=1))),
    "fewer factors than values": ("curves", 0, lambda a: part_of(a, 3, a[3][:1])),
    "too few slopes of curves": ("curves", 0, lambda a: part_of(a, 4, a[4][:-1])),
    "too few levels": ("curves", 0, lambda a: part_of(a, 5, a[5][:-1])),
    "levels of another type": ("curves", 0, lambda a: part_of(a, 5, a[5].astype(float))),
    "a curve of no value": ("curves", 0, lambda a: part_of(a, 2, a[2] + 2)),
    "curves of more columns": ("curves", 0, lambda a: part_of(a, 2, a[2] + [0, 1])),
    "curves of fewer columns": ("curves", 0, lambda a: part_of(a, 2, a[2] - [0, 1])),
    "curves of less than no column": ("curves", 0, lambda a: part_of(a, 2, a[2] - [0, 9])),
    "a curve of a value before": ("curves", 0, lambda a: part_of(a, 2, a[2] - 1)),
    "more values before than there are": ("curves", 0, lambda a: part_of(a, 7, 3)),
    "fewer values before than none": ("curves", 0, lambda a: part_of(a, 7, -1)),
    "a number of values that is none": ("curves", 0, lambda a: part_of(a, 7, "2")),
    "too little space": ("curves", 0, lambda a: part_of(a, 6, a[6][:-1])),
    "space to be kept": ("curves", 0, lambda a: part_of(a, 6, read_only(a[6]))),
    "space of another precision": ("curves", 0, lambda a: part_of(a, 6, a[6].astype(float))),
    "space of whole numbers": ("curves", 0, lambda a: part_of(a, 6, np.zeros(9999, int))),
    "doubles in space of singles": ("expand", 0, doubles_in_single_space),
}


@pytest.mark.parametrize(("function", "place", "change"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(function, place, change):
    given = arguments(function)
    given[place] = change(given[place])
    with pytest.raises((ValueError, TypeError, BufferError, IndexError)):
        taking(function)(*given)


def test_edges_that_fall_are_refused():
    """Of two silos, the first of which would have more records than there are."""
    given = arguments("raw")
    given[2], given[3] = np.array([0, 4, 3]), np.zeros((2, 6), np.float32)
    with pytest.raises(ValueError, match="edges: must not fall"):
        products.raw(*given)


@pytest.mark.parametrize("features", [2**62 - 1, 2**60 - 1])
def test_sizes_whose_product_overflows_are_refused(features):
    """(d + 1) k is 0, or the copy's length is small, in 64 bits."""
    wide, nothing = np.ones((4, 4), np.float32), np.zeros((1, 0), np.float32)
    with pytest.raises(ValueError, match="out: must be"):
        products.sums(np.zeros(64, np.float32), np.array([0, 4]), wide, nothing, features, True, 5)


@pytest.mark.parametrize("numbers", [1, 2, 11])
@pytest.mark.parametrize("function", WRITTEN)
@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_written_lies_on_no_row_number(function, numbers, backwards):
    """Row numbers and edges are checked before they are used, and must stay what they were."""
    given, place = arguments(function), WRITTEN[function][-1]
    if (numbers > 2 and function != "persons") or np.asarray(given[numbers]).dtype != np.int64:
        return
    memory, shape, length = np.zeros(1000, np.float32), given[place].shape, 2 * len(given[numbers])
    stop = 400 + given[place].size
    written = memory[400:stop].reshape(shape)
    given[place] = written[::-1] if backwards and len(shape) == 2 else written

    def call(start):
        there = memory[start : start + length].view(np.int64)
        there[:] = given[numbers]
        taking(function)(*given[:numbers], there, *given[numbers + 1 :])

    call(400 - length)
    call(stop)
    for start in (402 - length, 400, stop - 2):
        with pytest.raises(ValueError, match="must not overlap"):
            call(start)


@pytest.mark.parametrize(("function", "place"), [("raw", 5), ("sums", 0)])
def test_arguments_are_let_go(function, place):
    """Also when the last of them is refused: their memory may then be given up."""
    given = arguments(function)
    short = [*given[:place], np.zeros(1, np.float32), *given[place + 1 :]]
    arrays = [v for v in given if isinstance(v, np.ndarray)]
    counts = [sys.getrefcount(v) for v in arrays]
    for _ in range(10):
        getattr(products, function)(*given)
        with pytest.raises(ValueError, match="packed: too short"):
            getattr(products, function)(*short)
    assert [sys.getrefcount(v) for v in arrays] == counts
