"""The door for data: columns of ids are taken out, each row has one silo and one person."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpfl import ISRLDPClassifier
from skdpfl._declarations import encoding_of
from skdpfl.federation import SiloData
from skdpfl.models import Additive, ExpandedTable
from skdpfl.scaling._curves import edges_of
from skdpfl.table import Table
from tests.estimators.test_frames import DECLARED, raw

SILOS = ["b", "a", "b", "b", "a", "a"]
PEOPLE = ["ann", "ann", "bob", "ann", "cid", "cid"]
FRAME = pd.DataFrame({"age": np.arange(6.0), "smoker": 3 * [True, False], "g": SILOS, "id": PEOPLE})


def read(X, silos=None, **how):
    def numbers(features, y):
        return np.asarray(features, dtype=float), y

    return Table.read(X, np.arange(6), silos, validate=numbers, **how)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, "arguments"])
def test_owners_of_rows_are_read_and_are_no_features(kind):
    if kind == "arguments":
        table = read(FRAME[["age", "smoker"]], SILOS, persons=pd.Series(PEOPLE))
    else:
        table = read(kind(FRAME.to_dict("list")), silo_column="g", person_column="id")
    assert table.X.tolist() == FRAME[["age", "smoker"]].astype(float).to_numpy().tolist()
    assert list(table.features.columns) == ["age", "smoker"]
    assert table.kinds == ("number", "flag") and table.indicators.tolist() == [False, True]
    assert table.silos.ids.tolist() == ["a", "b"] and table.silos.sizes.tolist() == [3, 3]
    assert table.persons.ids.tolist() == ["ann", "bob", "cid"]
    of_row, sizes = table.persons.in_silos(table.silos)
    assert of_row.tolist() == [2, 0, 3, 2, 1, 1]  # a: ann, cid; b: ann, bob
    assert sizes.tolist() == [2, 2] and table.persons.most_silos(table.silos) == 2


def test_how_many_rows_a_person_has_changes_no_public_number():
    more = pd.concat([FRAME, FRAME.iloc[[2] * 40]])
    one, many = (
        Table.read(each, silo_column="g", person_column="id", validate=lambda X, y: (X, y))
        for each in (FRAME, more)
    )
    sizes = [each.persons.in_silos(each.silos)[1].tolist() for each in (one, many)]
    assert sizes[0] == sizes[1] and many.silos.sizes[1] == one.silos.sizes[1] + 40


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"persons": PEOPLE[:5]}, "one id per row: X has 6 rows, persons 5"),
        ({"persons": [*PEOPLE[:5], None]}, r"persons has 1 missing value.* give each row a person"),
        ({"persons": "id"}, "set person_column='id'"),
        ({"persons": PEOPLE, "person_column": "id"}, "Both persons and person_column='id'"),
        ({"person_column": "who"}, "person_column='who' is not a column of X"),
        ({"persons": pd.Series(PEOPLE, index=[5, 4, 3, 2, 1, 0])}, r"persons.loc\[X.index\]"),
    ],
)
def test_persons_that_cannot_be_read(how, words):
    with pytest.raises(ValueError, match=words):
        read(FRAME if "person_column" in how else FRAME[["age"]], **how)


class Halves:
    """A map that is declared by a user."""

    def transform(self, values):
        return values / 2


@pytest.mark.parametrize("map_of", ["from outside", "curves of levels"])
def test_any_map_of_a_frame_gets_all_columns(map_of):
    """Scales map values and levels apart; others map whole rows, also a server's other curves."""
    frame, y, silos = raw(40)
    schema = encoding_of(frame, DECLARED, 20, ())
    table = ExpandedTable.of_parts(schema.parts(frame), schema, 40)
    features = Halves()
    if map_of == "curves of levels":
        options = {"n_rounds": 2, "random_state": 0, "feature_bounds": DECLARED}
        model = ISRLDPClassifier(30.0, model=Additive(3, interactions=[(0, 2)]), **options)
        features = model.fit(*raw()[:2]).scaling_
        curves = features.curves
        other = replace(curves.curves[1], column=3, edges=edges_of(0.0, 1.0))
        features = replace(features, curves=replace(curves, curves=(curves.curves[0], other)))
    data = SiloData.from_codes(table, y, silos, 4).mapped(features, None, None)
    for read in (data, data.by_row().with_cells(), data.in_order()):
        X = read.at(read.rows_of(1, slice(None)))[0]
        np.testing.assert_array_equal(X, features.transform(schema.encode(frame[silos == 1])))
