"""A kit per hospital, and a consortium's roster: signed, in order, with a last day."""

import datetime
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile

import pandas as pd
import pytest

pytest.importorskip("cryptography")

from skdpfl.__main__ import main
from skdpfl.service import commands
from skdpfl.service._settings import BadFile, lines_of, read_settings, write_roster
from tests.service.hospital import ROOT, frame

DAYS = datetime.timedelta(days=30)
LATER = str(datetime.date.today() + DAYS)


@pytest.fixture
def kit(tmp_path, capsys):
    """A hospital's folder as init writes it, its line, and a roster that it joined."""
    records = tmp_path / "records.csv"
    frame().to_csv(records, index=False)
    records.chmod(0o600)
    folder = tmp_path / "north"
    more = "--records", str(records), "--target", "ill", "--classes", "0", "1"
    assert main(["silo", "init", "north", "--folder", str(folder), *more]) == 0
    (tmp_path / "north.line").write_text(capsys.readouterr().out)
    (tmp_path / "others.line").write_text(f'east = "{"ab" * 32}"\nsouth = "{"cd" * 32}"\n')
    join(tmp_path, folder, capsys)
    return folder


def sign(folder, capsys, until=LATER, lines=("north.line", "others.line")):
    """Sign a roster, and return the signer's key."""
    files = [str(folder / each) for each in lines]
    paths = "--key", str(folder / "key"), "--to", str(folder / "study.roster")
    assert main(["consortium", "roster", *files, *paths, "--until", until]) == 0
    return capsys.readouterr().out.strip()


def join(top, folder, capsys):
    signer = sign(top, capsys)
    command = ["silo", "join", str(folder / "hospital.toml"), str(top / "study.roster"), signer]
    assert main(command) == 0
    assert "east, north, south" in capsys.readouterr().out


def check(kit):
    return main(["silo", "check", str(kit / "hospital.toml")])


def test_a_new_hospital_passes_its_check(kit, capsys):
    assert check(kit) == 0
    said = capsys.readouterr().out
    assert "a person approves each" in said and "roster    east, north, south" in said
    modes = {p.name: p.stat().st_mode & 0o777 for p in (kit, *kit.rglob("*"))}
    assert modes["state"] == 0o700 and modes["run"] == modes["north"] == 0o755
    assert modes["hospital.toml"] == modes["north.key"] == 0o600
    unit = (kit / "skdpfl-gate-north.service").read_text()
    assert f"silo serve {kit}/hospital.toml" in unit and "User=skdpfl" in unit
    more = "--records", str(kit.parent / "records.csv"), "--target", "ill"
    with pytest.raises(SystemExit, match="File exists"):  # nothing is written over
        main(["silo", "init", "north", "--folder", str(kit), *more])


REFUSED = {
    "labels without --classes": ({"ill": ["yes", "no"]}, [], "'ill' has text, not numbers"),
    "other labels": ({"ill": ["yes", "no"]}, ["--classes", "Yes", "no"], "other labels than class"),
    "other numbers": ({"ill": ["0", "2"]}, ["--classes", "0", "1"], "other labels than classes"),
    "another target": ({"sick": [0, 1]}, [], "there is no column 'ill'; there are"),
    "no rows": ({"ill": []}, [], "it has no rows"),
    "text alone": ({"ill": [0, 1], "ward": ["a", "b"]}, [], "no column of numbers beside 'ill'"),
    "no port": ({"ill": [0, 1], "age": [3, 4]}, ["--server", "example.org"], "not HOST:PORT"),
    "two ports": ({"ill": [0, 1], "age": [3, 4]}, ["--server", "a:1:2"], "not HOST:PORT"),
}


def init(folder, columns, *more, separator=","):
    pd.DataFrame(columns).to_csv(folder / "r.csv", index=False, sep=separator)
    here = "--folder", str(folder / "kit"), "--records", str(folder / "r.csv"), "--target", "ill"
    return main(["silo", "init", "north", *here, "--separator", separator, *more])


@pytest.mark.parametrize("case", REFUSED)
def test_init_refuses_at_once_what_the_gate_could_not_read(tmp_path, case):
    columns, more, words = REFUSED[case]
    with pytest.raises(SystemExit, match=words):
        init(tmp_path, columns, *more)
    assert not (tmp_path / "kit").exists()


def test_init_takes_the_files_that_the_gate_takes(tmp_path):
    (tmp_path / "r.txt").write_text("ill,age\n1,2\n")
    here = "--folder", str(tmp_path / "kit"), "--records", str(tmp_path / "r.txt")
    with pytest.raises(SystemExit, match=r"records\.query must be a select"):
        main(["silo", "init", "north", *here, "--target", "ill"])


def test_init_leaves_out_columns_of_text_and_says_so(tmp_path, capsys):
    columns = {"ill": ["no", "1"], "ward": ["a", "b"], "age": ["3,5", "4"], "seen": ["2020", "x"]}
    more = "--decimal", ",", "--classes", "1", "no"
    assert init(tmp_path, columns, *more, separator=";") == 0
    assert "left out of features, as they hold text: ['ward', 'seen']" in capsys.readouterr().err
    records = read_settings(tmp_path / "kit" / "hospital.toml").records
    assert records.features == ("age",) and records.classes == ("1", "no")
    (tmp_path / "r.csv").chmod(0o600)
    assert check(tmp_path / "kit") == 0


def test_an_address_without_a_port_is_refused_where_it_is_dialled(tmp_path):
    (tmp_path / "server.crt").write_text("")
    more = "--socket", str(tmp_path / "s"), "--certificate", str(tmp_path / "server.crt"), "--once"
    with pytest.raises(SystemExit, match=r"'example\.org' is not HOST:PORT"):
        main(["silo", "connect", "example.org", *more])


def test_systemd_and_the_program_read_the_units_of_a_kit(kit, monkeypatch):
    units = sorted(kit.glob("*.service"))
    if (systemd := shutil.which("systemd-analyze")) is not None:
        said = subprocess.run([systemd, "verify", *units], capture_output=True, text=True)
        assert said.returncode == 0 and not said.stderr, said.stderr
    ran = []
    run = (lambda settings, asked: ran.append(settings.socket), *commands._COMMANDS["serve"][1:])
    monkeypatch.setitem(commands._COMMANDS, "serve", run)
    run = (lambda asked: ran.append(asked.socket), *commands._ALONE["connect"][1:])
    monkeypatch.setitem(commands._ALONE, "connect", run)
    for unit in units:
        for line in re.findall(r"^ExecStart\w*=(.*)$", unit.read_text(), re.MULTILINE):
            program, *words = shlex.split(line)
            assert os.access(program, os.X_OK) and words[:2] == ["-m", "skdpfl"]
            assert main(words[2:]) == 0
    assert ran == [kit / "run" / "north.socket"] * 2


def changed(**changes):
    def change(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


FORGERIES = {
    "another key": (changed(silos={"north": "00" * 32}), "was not signed by"),
    "a later day": (changed(until="2999-01-01"), "was not signed by"),
    "no roster": (lambda path: path.write_text("[]"), "this is not a roster"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_roster_that_was_changed_is_refused(kit, name):
    change, words = FORGERIES[name]
    change(kit.parent / "study.roster")
    with pytest.raises(SystemExit, match=words):
        check(kit)


def test_a_roster_has_a_last_day_and_gives_way_to_later_ones(kit, capsys):
    """An old file that is put back would bring a revoked key back."""
    path, top = kit.parent / "study.roster", kit.parent
    old = path.read_bytes()
    assert check(kit) == 0
    (top / "others.line").write_text(f'south = "{"cd" * 32}"\n')  # east is revoked
    sign(top, capsys)
    assert json.loads(path.read_text())["serial"] == 2
    assert check(kit) == 0 and "roster    north, south" in capsys.readouterr().out
    path.write_bytes(old)
    with pytest.raises(SystemExit, match="roster 1 was replaced by number 2"):
        check(kit)
    sign(top, capsys)
    keys = read_settings(kit / "hospital.toml").agreed.silos
    assert {key[64:] for key in keys.values()} == {f" until {LATER}"}  # while the gate runs, too
    path.unlink()
    keys = {"north": "00" * 32}
    with pytest.raises(BadFile, match="valid until"):  # it is read again
        write_roster(path, top / "key", keys, str(datetime.date.today() - DAYS))
    with pytest.raises(SystemExit, match="was valid until"):
        check(kit)


@pytest.mark.parametrize("line", ["east", 'east = "ab"', f'= "{"ab" * 32}"', 'east = ""'])
def test_a_line_without_a_key_is_not_signed(kit, line):
    (kit.parent / "bad.line").write_text(line + "\n")
    with pytest.raises(BadFile, match="a line is not NAME"):
        lines_of([kit.parent / "bad.line"])


def test_deeply_nested_settings_are_refused_in_words(tmp_path):
    path = tmp_path / "hospital.toml"
    path.write_text("socket = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(BadFile, match="recursion"):
        read_settings(path)


def test_a_key_is_replaced_without_a_gap(kit, capsys):
    """The old one is used until the new one is on the roster."""
    file = str(kit / "hospital.toml")
    assert main(["silo", "key", file, "--new"]) == 0
    (kit.parent / "north.line").write_text(capsys.readouterr().out)
    assert check(kit) == 0  # by the old one
    sign(kit.parent, capsys)
    assert check(kit) == 0
    lines = (kit / "state" / "north.key").read_text().split()
    assert len(lines) == 2
    (kit / "state" / "north.key").write_text(lines[0])
    with pytest.raises(SystemExit, match="another key for this silo"):
        check(kit)


@pytest.mark.slow
def test_three_hospitals_from_nothing_to_a_joint_model():
    """Eleven commands, as ``examples/consortium.sh`` has them; as root by separate users."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    command = ["bash", str(ROOT / "examples" / "consortium.sh")]
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)  # others have to come in
        options = {"env": environment, "capture_output": True, "text": True, "timeout": 600}
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"localhost:{probe.getsockname()[1]}"
        done = subprocess.run([*command, f"{top}/study", address], check=False, **options)
    assert done.returncode == 0, done.stderr
    assert ("each hospital" in done.stdout) == (os.getuid() == 0)
    assert "A joint model of east, north, south" in done.stdout
