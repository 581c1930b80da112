"""Records from files as other countries and databases write them."""

import re
import sqlite3

import numpy as np
import pandas as pd
import pytest

from skdpfl.service._settings import BadFile, read_settings
from skdpfl.service._tables import read_records
from tests.service.hospital import FEATURES, ROOT, Hospital, frame


def settings(folder, file, more=""):
    north = Hospital(folder / "north")
    text = north.file.read_text().replace('file = "records.csv"', f'file = "{file}"\n{more}')
    north.write("hospital.toml", text)
    return read_settings(north.file)


def german(table, path, **options):
    table.rename(columns={"a": "größe"}).to_csv(path, index=False, sep=";", **options)


LATIN = 'separator = ";"\ndecimal = ","\nencoding = "latin-1"'


def test_a_csv_file_of_another_country_has_the_same_numbers(tmp_path):
    north = settings(tmp_path, "records.csv", LATIN)
    path = tmp_path / "north" / "records.csv"
    german(frame(), path, decimal=",", encoding="latin-1")
    text = north.path.read_text().replace('["a", ', '["größe", ')
    north.path.write_text(text)
    there = read_records(read_settings(north.path))
    assert np.array_equal(there.X, frame()[FEATURES])
    german(frame(), path, decimal=".", encoding="latin-1")
    with pytest.raises(BadFile, match="text instead of numbers"):  # of thousands?
        read_records(read_settings(north.path))


def test_a_parquet_file_has_the_same_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    north = settings(tmp_path, "records.parquet")
    frame().to_parquet(tmp_path / "north" / "records.parquet")
    there = read_records(north)
    assert np.array_equal(there.X, frame()[FEATURES])
    assert (there.y == frame().ill).all()


def test_the_query_of_the_page_finds_one_row_a_person(tmp_path):
    """It is plain SQL, so SQLite runs it, too."""
    (query,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/hospitals.md").read_text(), re.DOTALL)
    with sqlite3.connect(tmp_path / "omop.sqlite") as base:
        base.executescript("""
            create table person (person_id int, year_of_birth int, gender_concept_id int);
            create table measurement
                (person_id int, measurement_concept_id int, value_as_number real);
            create table condition_occurrence (person_id int, condition_concept_id int);
            insert into person values (1, 1950, 8532), (2, 1980, 8507), (3, 1990, 8507);
            insert into measurement values
                (1, 3004249, 120), (1, 3004249, 140), (1, 9, 1),
                (2, 3004249, 110), (2, 3004249, 999);
            insert into condition_occurrence values (1, 201826), (1, 201826), (2, 7);
        """)
        found = pd.read_sql_query(query, base)
    base.close()
    assert found.columns.tolist() == ["age", "female", "pressure", "ill"]
    assert np.array_equal(found, [[76, 1, 130, 1], [46, 0, 110, 0]])
