"""Reading the silo of each row: every way to name them, every way to get it wrong."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpfl.silos import read_persons, read_silos, split_silo_column, without_column

IDS = ["b", "a", "b", "c", "a"]
FORMS = {
    "list": IDS,
    "objects": np.array(IDS, dtype=object),
    "series": pd.Series(IDS),
    "other index": pd.Series(IDS, index=[10, 11, 12, 13, 14]),
    "unused categories": pd.Categorical(IDS, categories=["z", "c", "b", "a"]),
    "categorical series": pd.Series(pd.Categorical(IDS, categories=["z", "c", "b", "a"])),
    "frame": pd.DataFrame({"g": IDS}),
    "polars": pl.Series(IDS),
    "polars enum": pl.Series(IDS, dtype=pl.Enum(["z", "c", "b", "a"])),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_alike(form):
    silos = read_silos(FORMS[form], 5)
    assert silos.codes.tolist() == [1, 0, 1, 2, 0]
    assert silos.ids.tolist() == ["a", "b", "c"]
    assert silos.sizes.tolist() == [2, 2, 1]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ([3, 1, 3], [1, 3]),
        ([2.5, 1.0, 2.5], [1.0, 2.5]),
        (pd.Series([3, 1, 3], dtype="Int64"), [1, 3]),
        (pd.to_datetime(["2026-01-02", "2026-01-01", "2026-01-02"]), None),
        ([3, "a", 3], [3, "a"]),
    ],
)
def test_ids_of_any_kind(given, ids):
    silos = read_silos(given, 3)
    assert silos.codes[0] == silos.codes[2] != silos.codes[1]
    if ids is not None:
        assert silos.ids.tolist() == ids


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("far", [False, True])
def test_integers_are_read_by_their_values(dtype, far):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    ids = np.array([high, low if far else high - 3, high, high - 1], dtype)
    silos = read_silos(ids, 4)
    assert silos.codes.tolist() == [2, 0, 2, 1]
    assert silos.ids.tolist() == sorted(set(ids.tolist()))


WRONG = {
    "a string": ("hospital", r"got the string 'hospital'.*silo_column='hospital'"),
    "a number": (3, r"one id per row.*got 3"),
    "a mapping": ({"a": [1, 2]}, "one id per row"),
    "too few": (IDS[:4], r"X has 5 rows, silos 4"),
    "a table": (np.zeros((5, 2)), r"one-dimensional, got shape \(5, 2\)"),
    "a scalar array": (np.array("abc"), "one-dimensional"),
    "None": ([None, "a", "b", "c", "a"], r"1 missing value"),
    "NaN": ([np.nan, 1.0, 2.0, np.nan, 1.0], r"2 missing value"),
    "a missing category": (pd.Categorical(["a", None, "b", "c", "a"]), r"1 missing value"),
    "null in polars": (pl.Series(["a", None, "b", "c", "a"]), r"1 missing value"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_names_no_silo_for_each_row_is_an_error(what):
    silos, message = WRONG[what]
    with pytest.raises(ValueError, match=message):
        read_silos(silos, 5)


# ---- from a column ------------------------------------------------------------------------------

FRAMES = {
    "pandas": pd.DataFrame({"x": [1.0, 2.0], "hospital": ["a", "b"], "z": [3.0, 4.0]}),
    "polars": pl.DataFrame({"x": [1.0, 2.0], "hospital": ["a", "b"], "z": [3.0, 4.0]}),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_the_column_is_taken_out(frame):
    X, silos = split_silo_column(FRAMES[frame], None, "hospital")
    assert list(X.columns) == ["x", "z"]
    assert type(X) is type(FRAMES[frame])
    assert read_silos(silos, 2).ids.tolist() == ["a", "b"]
    assert list(FRAMES[frame].columns) == ["x", "hospital", "z"]
    assert list(without_column(FRAMES[frame], "hospital").columns) == ["x", "z"]
    assert without_column(X, "hospital") is X


@pytest.mark.parametrize(
    ("X", "silos", "column", "message"),
    [
        (FRAMES["pandas"], ["a", "b"], "hospital", "give one of the two"),
        (np.zeros((2, 2)), None, "hospital", r"needs a DataFrame, got ndarray.*set_output"),
        (FRAMES["pandas"], None, "clinic", r"'clinic' is not a column of X.*'hospital'"),
        (FRAMES["polars"], None, "clinic", r"'clinic' is not a column of X.*'hospital'"),
        (FRAMES["polars"].lazy(), None, "hospital", r"give frame\.collect\(\)"),
        (
            FRAMES["pandas"].add_prefix("passthrough__"),
            None,
            "hospital",
            r"'passthrough__hospital'.*\. ColumnTransformer\(verbose_feature_names_out=False\)",
        ),
    ],
)
def test_wrong_columns(X, silos, column, message):
    with pytest.raises(ValueError, match=message):
        split_silo_column(X, silos, column)


def test_records_are_told_apart_by_their_labels():
    silos = np.array(["a", "b", "b", "c"])
    frame = pd.DataFrame({"x": range(4)}, index=[10, 11, 12, 13])
    turned, rolled = [2, 0, 3, 1], [1, 2, 3, 0]
    whole = read_silos(silos, 4, frame).digest()
    assert read_silos(silos[turned], 4, frame.iloc[turned]).digest() == whole
    # the same codes in the same places, but records have changed silos
    assert read_silos(silos, 4, frame.iloc[rolled]).digest() != whole
    assert read_silos(silos, 4, frame.set_axis(list("wxyz"))).digest() != whole
    counted = frame.reset_index(drop=True)
    unlabelled = read_silos(silos, 4, counted.to_numpy())
    assert read_silos(silos, 4, counted).digest() == unlabelled.digest()


TEXTS = {
    "one letter": ["b", "a", "b"],
    "none": ["", "a", "", "b"],
    "many letters": ["x" * 40 + "y", "x" * 40 + "z", "x" * 41, "x" * 40 + "y"],
    "other alphabets": ["Köln", "北京", "Köln", "北", "köln"],
}


@pytest.mark.parametrize("dtype", ["U", "S", ">U", "O"])
@pytest.mark.parametrize("text", TEXTS)
def test_ids_of_fixed_width_are_read_letter_by_letter(text, dtype):
    ids = np.array(TEXTS[text])
    if dtype == "S":
        ids = np.char.encode(ids, "utf-8")
    elif dtype != "U":
        ids = ids.astype(ids.dtype.newbyteorder(">") if dtype == ">U" else object)
    for values in (ids, ids[::-1], np.repeat(ids, 2)[::2]):
        read = read_silos(values, len(values))
        assert read.ids.tolist() == sorted(set(values.tolist()))
        assert read.ids[read.codes].tolist() == values.tolist()


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series(["a", np.nan, "b"], dtype=object).map(str),
        np.array(["a", np.nan, "b"]),
        ["a", "None", "b"],
        pd.Series(["a", "<NA>", "b"], dtype="string"),
    ],
)
def test_missing_ids_that_became_text_are_warned_of(ids):
    with pytest.warns(UserWarning, match="missing value converted to text"):
        assert len(read_silos(ids, 3).ids) == 3
    assert len(read_silos(["a", "nancy", "b"], 3).ids) == 3  # warnings are errors


@pytest.mark.parametrize("kind", [list, pd.Series, pd.Index, pd.Categorical])
def test_no_person_or_silo_is_read_as_two(kind):
    """read_csv mixes numbers and text in a long column that has both."""
    with pytest.raises(ValueError, match="ids of several types, text among them"):
        read_persons(kind([7, "7", "8a", 9]), 4)
    assert len(read_persons(kind(["7", "7", "8a", "9"]), 4).ids) == 3
    assert len(read_persons(kind([7, 7.0, 8, 9.5]), 4).ids) == 3
    assert len(read_persons(kind([np.str_("7"), "7", "8a", "9"]), 4).ids) == 3
    with pytest.raises(ValueError, match=r"silos has both (7 and '7'|'7' and 7)"):
        read_silos(kind([7, "7", "8a", 9]), 4)


@pytest.mark.slow
def test_what_a_cost_names_an_assignment_by_is_no_function_of_labels():
    """A digest of labels alone would tell the last one to whoever knows the others."""
    frame = pd.DataFrame({"x": range(4)}, index=["ann", "bob", "cyd", "dan"])
    ids = np.array([0, 0, 1, 1])
    here = read_silos(ids, 4, frame).assignment()
    assert here == read_silos(ids[::-1], 4, frame[::-1]).assignment()
    script = (
        "import numpy, pandas; from skdpfl.silos import read_silos;"
        "frame = pandas.DataFrame(dict(x=range(4)), index=['ann', 'bob', 'cyd', 'dan']);"
        "read = read_silos(numpy.array([0, 0, 1, 1]), 4, frame);"
        "print(read.digest(), read.assignment())"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    digest, there = ran.stdout.split()
    assert digest == read_silos(ids, 4, frame).digest() and there != here
