"""Records from PostgreSQL: one snapshot; a row that changes is noticed before a fit is paid."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from skdpfl.__main__ import main
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import SilosMissing
from tests.remote.silos_here import estimator, fit_elsewhere, problem
from tests.service.hospital import FEATURES, Hospital, WithGate, frame

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAMS, reason="PostgreSQL is not installed"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users"),
]


@pytest.fixture(scope="module")
def clinic():
    """A database with the records of "north", and how it is asked."""
    owner, programs = pwd.getpwnam("postgres"), PROGRAMS[-1].parent
    top = Path(tempfile.mkdtemp())
    os.chown(top, owner.pw_uid, owner.pw_gid)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def run(program, *words):
        command = [str(programs / program), *map(str, words)]
        options = {"user": owner.pw_uid, "group": owner.pw_gid, "cwd": top, "check": True}
        subprocess.run(command, capture_output=True, extra_groups=[], **options)

    run("initdb", "-D", top / "data", "--auth=trust", "--no-sync")
    options = f"-p {port} -k {top} -c listen_addresses=127.0.0.1 -c fsync=off"
    run("pg_ctl", "-D", top / "data", "-w", "-l", top / "log", "-o", options, "start")
    where = f"host=127.0.0.1 port={port} dbname=postgres user=postgres"

    def ask(text):
        command = ["psql", "--no-psqlrc", "--quiet", f"--dbname={where}", "--set=ON_ERROR_STOP=1"]
        subprocess.run(command, input=text, text=True, check=True, capture_output=True)

    columns = ", ".join(f"{name} double precision" for name in FEATURES)
    rows = frame().to_csv(index=True, header=False)
    ask(
        f"create table patients (id int, {columns}, ill int);\\copy patients from stdin csv\n{rows}"
    )
    yield where, ask
    run("pg_ctl", "-D", top / "data", "-m", "immediate", "stop")
    shutil.rmtree(top)


@pytest.fixture
def north(tmp_path, clinic):
    hospital = Hospital(tmp_path / "hospital")
    (hospital.folder / "records.csv").unlink()
    query = f"select {', '.join(FEATURES)}, ill from patients order by id"
    text = hospital.file.read_text()
    place = f'database = "{clinic[0]}"\nquery = "{query}"'
    hospital.write("hospital.toml", text.replace('file = "records.csv"', place))
    yield hospital
    hospital.stop()


@pytest.mark.parametrize("paid", [False, True], ids=["before it is paid", "between rounds"])
def test_a_row_that_changes_ends_the_fit(tmp_path, north, clinic, paid):
    """The digest of when the silo agreed is kept: a restarted gate refuses, nobody pays anew."""
    north.start().wait()

    def changed(count):
        if count == (12 if paid else 8):
            clinic[1]("update patients set a = a + 1e-9 where id = 3")
            north.kill()

    try:
        with pytest.raises(SilosMissing, match="north: The records of this silo have changed"):
            fit_elsewhere(estimator(**PLAIN), WithGate(tmp_path, north, meanwhile=changed))
    finally:
        clinic[1]("update patients set a = a - 1e-9 where id = 3")
    entries = PrivacyLedger(path=north.folder / "north.ledger", must_exist=True).entries
    assert len(entries) == paid


def test_whoever_asks_changes_nothing(north, clinic, capsys):
    """The session is read-only, and an error of the database leaves no word of its own."""
    clinic[1]("update patients set ill = 0 where id = 1")
    text = north.file.read_text()
    for query in (
        "delete from patients returning *; select 1 order by 1",
        "select 'HIV positive'::int order by 1",
    ):
        start = text.index("query = ")
        line = text[start : text.index("\n", start)]
        north.write("hospital.toml", text.replace(line, f'query = "{query}"'))
        with pytest.raises(SystemExit, match="it cannot be read") as told:
            main(["silo", "check", str(north.file)])
        assert "HIV" not in str(told.value) + "".join(capsys.readouterr())
    north.write("hospital.toml", text)
    assert main(["silo", "check", str(north.file)]) == 0
    assert f"{np.sum(problem()[2] == 1)} rows" in capsys.readouterr().out
