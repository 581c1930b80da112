"""Records from files as other countries and databases write them."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from skdpfl import ISRLDPClassifier, SiloAdapted
from skdpfl.__main__ import main
from skdpfl.service import _tables
from skdpfl.service._settings import BadFile, read_settings
from skdpfl.service._tables import read_records
from tests.remote.silos_here import problem
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
    with pytest.raises(BadFile, match="text, not numbers"):  # of thousands?
        read_records(read_settings(north.path))


def test_a_parquet_file_has_the_same_numbers(tmp_path):
    """Also a folder of files; other columns, and their text, are not read."""
    pytest.importorskip("pyarrow")
    north = settings(tmp_path, "records.parquet")
    path = tmp_path / "north" / "records.parquet"
    given = frame().assign(note="text").set_index("a")
    given.to_parquet(path, row_group_size=7)
    assert_same(read_records(north))
    path.unlink()
    path.mkdir()
    for name, rows in (("2", given.iloc[20:]), ("1", given.iloc[:20])):
        rows.to_parquet(path / f"{name}.parquet")
    assert_same(read_records(north))
    frame().assign(a="text").to_parquet(path / "1.parquet")
    with pytest.raises(BadFile, match="'a' has text, not numbers"):
        read_records(north)
    for each in path.iterdir():
        each.unlink()
    with pytest.raises(BadFile, match="it has no rows"):
        read_records(north)


def assert_same(records):
    assert np.array_equal(records.X, frame()[FEATURES])
    assert (records.y == frame().ill).all()


def test_rows_are_read_in_blocks_into_a_file_without_a_name(tmp_path, monkeypatch):
    """Gaps are counted in all; nobody finds a copy of the numbers, killed or not."""
    monkeypatch.setattr(_tables, "_ROWS", 7)
    north = settings(tmp_path, "records.csv")
    records = read_records(north)
    assert_same(records)
    assert isinstance(records.X.base, np.memmap) and not records.X.flags.writeable
    assert {path.name for path in north.path.parent.iterdir()} == {"hospital.toml", "records.csv"}
    spoilt = frame()
    spoilt.loc[[3, 40], "b"] = np.nan
    spoilt.to_csv(tmp_path / "north" / "records.csv", index=False)
    with pytest.raises(BadFile, match="the column 'b' has 2 missing values"):
        read_records(north)


LIMITED = """
import resource, sys, warnings
from skdpfl import ISRLDPClassifier
from skdpfl.federation import Schema
from skdpfl.remote import Courier, RemoteFederation
from skdpfl.service._serve import make_gate
from skdpfl.service._settings import read_settings

class One(Courier):
    def __init__(self, file):
        self.gate = make_gate(read_settings(file))
    def deliver(self, letters):
        return {name: self.gate.answer(letter) for name, letter in letters.items()}

def fit(file, n):
    model = ISRLDPClassifier(3.0, model="linear", feature_bounds=(-4, 4), classes=[0, 1])
    model.set_params(n_rounds=3, random_state=0)
    facts = Schema({"north": n}, n_features=80, dtype="float32")
    return model.fit_federation(RemoteFederation(One(file), facts, classes=[0, 1]), facts)

warnings.simplefilter("ignore")
small, large, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
fit(small, 3000)  # imports and tables
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
limit = 1024 * int(status["VmData"].split()[0]) + n * 80 * 4 // 2
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
print(fit(large, n).coef_.size)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits count mapped files elsewhere")
def test_a_gate_serves_a_dataset_of_twice_its_memory(tmp_path):
    """320 MB of numbers in row groups; the process may allocate half of that."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import ParquetWriter

    names, rng, files, n = [f"x{i}" for i in range(80)], np.random.default_rng(0), [], 1_000_000
    for folder, rows in (("small", 3000), ("large", n)):
        (tmp_path / folder).mkdir()
        there = settings(tmp_path / folder, "records.parquet", 'dtype = "float32"').path
        text = there.read_text().replace(json.dumps(FEATURES), json.dumps(names))
        there.write_text(text)
        fields = [*((name, pa.float32()) for name in names), ("ill", pa.int64())]
        with ParquetWriter(there.parent / "records.parquet", pa.schema(fields)) as file:
            for _ in range(0, rows, 50_000):
                X = rng.standard_normal((min(rows, 50_000), 80), dtype=np.float32)
                columns = [*X.T, (X[:, 0] > 0).astype(np.int64)]
                file.write_table(pa.table([pa.array(c) for c in columns], schema=pa.schema(fields)))
        (there.parent / "records.parquet").chmod(0o600)
        files.append(str(there))
    # allocators that reserve no memory which they do not use, nor some for each thread
    alone = {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = os.environ | alone | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", LIMITED, *files, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["80"], done.stderr


# ---- ``skdpfl silo predict``: a hospital's own part is fitted and used where its records are -----


@pytest.fixture
def hospital(tmp_path):
    return Hospital(tmp_path / "hospital")


def joint(named=True):
    X, y, silos = problem()
    X = pd.DataFrame(X, columns=FEATURES) if named else X
    return ISRLDPClassifier(3.0, feature_bounds=(-9, 9), random_state=0).fit(X, y, silos=silos)


def predict(hospital, model, *words, rows=None):
    hospital.write("model.json", json.dumps(model.to_dict()) if model else "{}")
    hospital.write("rows.csv", (frame() if rows is None else rows).to_csv(index=False))
    names = (str(hospital.folder / name) for name in ("model.json", "rows.csv", "to.csv"))
    assert main(["silo", "predict", str(hospital.file), *names, *words]) == 0
    return pd.read_csv(hospital.folder / "to.csv")


def test_new_rows_are_predicted_some_at_a_time(hospital, monkeypatch):
    """As many as are read in a block, however long the file is."""
    whole, seen, predict_some = predict(hospital, joint()), [], SiloAdapted.predict

    def watched(self, rows, **given):
        seen.append(len(rows))
        return predict_some(self, rows, **given)

    monkeypatch.setattr(_tables, "_ROWS", 7)
    monkeypatch.setattr(SiloAdapted, "predict", watched)
    pd.testing.assert_frame_equal(predict(hospital, joint()), whole)
    assert (max(seen), sum(seen)) == (7, len(whole))


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("head", ["intercept", "ridge", "none"])
def test_predictions_are_those_of_the_silo_with_its_own_part(hospital, capsys, named, head):
    model, own = joint(named), frame()
    found = predict(hospital, model, "--head", head)
    X = own[FEATURES] if named else own[FEATURES].to_numpy()
    here = SiloAdapted(model, None if head == "none" else head).fit_heads(X, own.ill)
    silos = np.zeros(len(X), int)
    assert (found["prediction"] == here.predict(X, silos=silos)).all()
    shares = found[["probability of 0", "probability of 1"]]
    np.testing.assert_allclose(shares, here.predict_proba(X, silos=silos), rtol=1e-6)
    alone = (hospital.folder / "to.csv").stat().st_mode & 0o077
    assert alone == 0  # for nobody else
    assert "must not leave this silo" in capsys.readouterr().out
