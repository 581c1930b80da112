"""RowTransformer: any function, one row at a time; no row sees another."""

import functools
import pickle

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

from skdpfl.preprocessing import RowTransformer

rng = np.random.default_rng(0)
X = rng.uniform(1, 2, (60, 3))
D = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(60) + 100)
D["when"] = pd.date_range("2024-01-01", periods=60)
D["word"] = ["one", "two", None] * 20


@pytest.mark.parametrize(
    "func", [np.log, lambda Z: Z[:, :2] / Z[:, 2:], lambda Z: Z[:, 0], lambda Z: Z.sum(1)]
)
def test_arrays_come_out_as_from_the_function_on_all_rows(func):
    expected = np.asarray(func(X)).reshape(len(X), -1)
    assert np.array_equal(RowTransformer(func).fit_transform(X), expected)


def season(D):
    return pd.DataFrame({"month": D["when"].dt.month, "none": D["word"].isna()})


def test_frames_come_out_as_from_the_function_on_all_rows():
    found = RowTransformer(season).fit_transform(D)
    pd.testing.assert_frame_equal(found, season(D).astype(float))
    step = RowTransformer(season, feature_names_out=["x", "y"]).fit(D)
    assert list(step.transform(D)) == list(step.get_feature_names_out()) == ["x", "y"]
    again = pickle.loads(pickle.dumps(clone(step).fit(D)))
    pd.testing.assert_frame_equal(again.transform(D), step.transform(D))
    words = RowTransformer(lambda D: D[["word"]].fillna("none")).fit_transform(D)
    assert words["word"].tolist() == ["one", "two", "none"] * 20


def test_it_is_a_part_of_a_column_transformer():
    columns = ColumnTransformer(
        [
            ("season", RowTransformer(season), ["when", "word"]),
            ("log", RowTransformer(np.log, feature_names_out="one-to-one"), ["a", "b"]),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    found = columns.fit_transform(D)
    assert list(found) == ["month", "none", "a", "b"] and (found.index == D.index).all()
    assert np.array_equal(found["a"], np.log(D["a"]))
    plain = RowTransformer(np.log, feature_names_out="one-to-one").set_output(transform="pandas")
    assert list(plain.fit_transform(X)) == ["x0", "x1", "x2"]
    unnamed = RowTransformer(np.log).set_output(transform="pandas")
    assert list(unnamed.fit_transform(X)) == ["x0", "x1", "x2"]
    for step in (unnamed, plain):
        frame = step.set_output(transform="polars").fit_transform(polars.DataFrame({"a": X[:, 0]}))
        assert isinstance(frame, polars.DataFrame) and frame.columns == ["a"]


def test_what_a_function_finds_in_a_table_is_one_row():
    seen = RowTransformer(lambda Z: np.array([[len(Z), Z.base is None]])).fit_transform(X)
    assert (seen == 1).all()
    one = RowTransformer(lambda D: pd.DataFrame({"n": [len(D)], "i": D.index})).fit_transform(D)
    assert (one["n"] == 1).all() and (one["i"] == 0).all()
    gaps = D[["a"]].where(D["a"] > 1.5)
    assert RowTransformer(lambda D: D.fillna(D.mean())).fit_transform(gaps).equals(gaps)


def keeping():
    """Yield functions that keep something of one row for the next."""
    seen, total, counts = [], 0.0, np.zeros(1)

    def appends(row):
        seen.append(row.copy())
        return row - np.mean(seen, axis=0)

    def default(row, before=[]):  # noqa: B006
        before.append(1)
        return row * len(before)

    def counter(row):
        nonlocal total
        total += 1
        return row * total

    def everywhere(row):
        global SEEN
        SEEN = row
        return row

    def attribute(row):
        attribute.before = row
        return row

    def array(row):
        counts[0] += row[0, 0]
        return row + counts

    put = seen.append

    def builtin(row):
        put(row)
        return row

    def calls(row):
        return array(row)

    class Running:
        def __init__(self):
            self.sum = 0.0

        def __call__(self, row):
            self.sum = self.sum + row
            return self.sum

        def method(self, row):
            return self(row)

    class Shared:
        before = []  # noqa: RUF012

        def __call__(self, row):
            self.before.append(row)
            return row

    numbers = (i for i in range(10**6))
    noise = np.random.default_rng(0)
    yield from (appends, default, counter, everywhere, attribute, array, builtin, calls, MODULE)
    yield from (Running(), Running().method, Shared(), functools.partial(appends))
    yield lambda row: row + next(numbers)
    yield lambda row: row + noise.random()
    yield lambda row: row + np.random.random()  # noqa: NPY002


BEFORE = {}


def MODULE(row):
    return row - BEFORE.setdefault("first", row)


@pytest.mark.parametrize("func", [*keeping()], ids=lambda f: getattr(f, "__name__", "an object"))
def test_a_function_that_keeps_something_is_refused(func):
    with pytest.raises(ValueError, match=r"one row could affect|it mixes rows|mixes rows"):
        RowTransformer(func).fit_transform(X)


def test_constants_and_caches_are_not_kept():
    codes, scale = {"one": 1.0, "two": 2.0}, np.array([[2.0]])
    lookup = pd.DataFrame({"rate": [0.1, 0.2]}, index=["one", "two"])

    @functools.lru_cache
    def slow(word):
        return codes.get(word, 0.0)

    def func(D):
        rate = lookup["rate"].get(D["word"].iloc[0], 0.0)
        return slow(D["word"].iloc[0]) * scale + rate

    found = RowTransformer(func).fit_transform(D[["word"]])
    assert found[:3, 0].tolist() == [2.1, 4.2, 0.0]


def test_neither_warnings_nor_types_follow_from_a_row():
    X = np.array([[4.0], [-4.0], [-np.inf]])
    assert np.array_equal(  # NumPy would warn of the last two
        RowTransformer(lambda row: np.log(row) - np.log(row)).fit_transform(X),
        [[0.0], [np.nan], [np.nan]],
        equal_nan=True,
    )
    roots = RowTransformer(np.emath.sqrt).fit_transform(X)
    assert roots.dtype == float and roots[0] == 2 and np.isnan(roots[1:]).all()


def test_what_one_row_gives_out_does_not_change_anothers_type():
    mixed = RowTransformer(lambda Z: ["text"] if Z[0, 0] > 1.9 else Z[:, :1])
    found = mixed.fit_transform(X)
    assert found.dtype == object and all(type(v) is float for v in found[X[:, 0] <= 1.9, 0])
    whole = RowTransformer(lambda Z: np.array([[2**53 + 1]]) if Z[0, 0] > 1.5 else Z[:, :1])
    a, b = whole.fit_transform(X), whole.fit_transform(X[X[:, 0] <= 1.5])
    assert a.dtype == b.dtype == float
    zeros = pd.DataFrame({"z": [0.0, -0.0, 0.0, -0.0]})
    signs = RowTransformer(lambda D: np.signbit(D)).fit_transform(zeros)
    assert signs.to_numpy().ravel().tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("func", "words"),
    [
        (lambda Z: np.ones((2, 1)), r"got shape \(2, 1\)"),
        (lambda Z: Z[:, :1] if Z[0, 0] > 1.5 else Z, "different columns for different rows"),
    ],
)
def test_a_function_that_gives_back_something_else_than_a_row(func, words):
    with pytest.raises(ValueError, match=words):
        RowTransformer(func).fit_transform(X)
    with pytest.raises(TypeError, match="must be a function"):
        RowTransformer("log").fit(X)


def dtypes_and_levels(row):
    kinds = [str(dtype) for dtype in row.dtypes]
    return pd.DataFrame({"kinds": [" ".join(kinds)], "values": [repr(row.to_numpy().tolist())]})


@pytest.mark.parametrize("kind", ["numpy", "nullable", "polars"])
def test_no_other_record_decides_the_types_that_a_row_has(kind):
    """A gap made whole numbers floats, and a rare level changed the codes of all other rows."""
    rows = {"n": [1, 2, 3], "f": [True, False, True], "w": ["b", "c", "b"]}
    gaps = {"n": [1, None, 3], "f": [True, None, True], "w": ["b", None, "b"]}
    if kind == "polars":
        kinds = polars.Categorical, polars.Enum(["x", "a rare one"])
        frames = [polars.DataFrame(rows | {"c": polars.Series(list("xxx"), dtype=kinds[0])})]
        frames += [polars.DataFrame(gaps | {"c": polars.Series(list("xxx"), dtype=kinds[1])})]
    else:
        frames = [pd.DataFrame(rows | {"c": pd.Categorical(["x", "y", "x"])})]
        frames += [pd.DataFrame(gaps | {"c": pd.Categorical(["x", "a rare one", "x"])})]
        frames = [each.convert_dtypes() if kind == "nullable" else each for each in frames]
    found = [RowTransformer(dtypes_and_levels).fit_transform(frame) for frame in frames]
    first, other = (frame.iloc[[0, 2]] for frame in found)
    pd.testing.assert_frame_equal(first, other)
    assert first["kinds"][0] == "float64 object object object"
    assert first["values"][0] == "[[1.0, True, 'b', 'x']]"
    with pytest.raises(ValueError, match="AttributeError"):
        RowTransformer(lambda row: row["c"].cat.codes).fit_transform(frames[0])
