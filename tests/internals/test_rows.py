"""Tables that are converted are converted into C order, with the values scikit-learn reads."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.validation import check_array

from skdpfl import table
from skdpfl.federation import _data as federation_data
from skdpfl.table import numbers_in_rows

INTEGERS = np.random.default_rng(0).integers(-50, 50, (30, 4))


def frame(*dtypes):
    return pd.DataFrame({f"c{i}": INTEGERS[:, i].astype(t) for i, t in enumerate(dtypes)})


def split(dtype):
    table = frame(dtype)
    for i in range(1, 4):
        table[f"c{i}"] = INTEGERS[:, i].astype(dtype)
    return table


CONVERTED = {
    "float32, float64": lambda: frame("f4", "f8"),
    "float16, int8": lambda: frame("f2", "i1"),
    "bool": lambda: frame("?", "?"),
    "integers": lambda: frame("i8", "i8", "i8"),
    "columns apart": lambda: split("f4"),
    "integers by column": lambda: np.asfortranarray(INTEGERS),
    "polars": lambda: _polars("Float32", "Float32"),
    "polars, in pieces": lambda: _polars("Float64", "Float64", pieces=2),
    "polars, two dtypes": lambda: _polars("Float32", "Int64"),
}
KEPT = {
    "one table": lambda: pd.DataFrame(INTEGERS.astype("f4")),
    "integers by row": lambda: INTEGERS,
    "text": lambda: frame("f8").assign(c1="a"),
    "nullable": lambda: frame("f8").assign(c1=pd.array(INTEGERS[:, 1], dtype="Int64")),
    "polars with gaps": lambda: _polars("Float32", "Int64", gap=True),
    "a list": INTEGERS.tolist,
}


def _polars(*dtypes, gap=False, pieces=1):
    pl = pytest.importorskip("polars")
    columns = {f"c{i}": INTEGERS[:, i].tolist() for i in range(len(dtypes))}
    if gap:
        columns["c1"][3] = None
    whole = pl.DataFrame(columns).cast({f"c{i}": getattr(pl, t) for i, t in enumerate(dtypes)})
    return pl.concat([whole] * pieces, rechunk=False)


def read(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check_array(X, dtype=[np.float64, np.float32])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(table, "SMALL_TABLE", 0)
    monkeypatch.setattr(federation_data, "NUMBERS", 28)
    monkeypatch.setattr(federation_data, "TILE", 7)


@pytest.mark.parametrize("case", CONVERTED)
def test_what_is_converted_is_what_scikit_learn_reads(case):
    X = CONVERTED[case]()
    got, wanted = numbers_in_rows(X), read(X)
    table = read(got)
    assert table.dtype == wanted.dtype
    assert np.array_equal(table, wanted)
    assert table.flags.c_contiguous
    assert got is not X
    assert np.may_share_memory(np.asarray(got), table)  # scikit-learn copies no more
    if hasattr(X, "columns"):
        assert list(got.columns) == list(X.columns)
    if isinstance(X, pd.DataFrame):
        assert got.index is X.index


@pytest.mark.parametrize("case", KEPT)
def test_other_tables_are_left_alone(case):
    X = KEPT[case]()
    assert numbers_in_rows(X) is X
