"""Records from files as other countries and databases write them."""

import numpy as np
import pytest

from skdpfl.service._settings import BadFile, read_settings
from skdpfl.service._tables import read_records
from tests.service.hospital import FEATURES, Hospital, frame


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
