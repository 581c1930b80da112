"""The gate as a service: the same letters and bits, by other users, killed at any time."""

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from skdpfl.__main__ import main
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Introduction, SilosMissing, ask_gate, pack, unpack
from tests.remote.hostile_letters import with_field
from tests.remote.silos_here import estimator, fit_elsewhere, fit_here, problem
from tests.service.hospital import ROOT, Hospital, WithGate, same

PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}


@pytest.fixture
def hospital(tmp_path):
    found = []

    def make(**options):
        found.append(Hospital(tmp_path / f"hospital{len(found)}", **options))
        return found[-1]

    yield make
    for each in found:
        each.stop()


@pytest.mark.slow
def test_a_fit_is_that_of_one_process_also_if_the_gate_is_killed(tmp_path, hospital):
    """``kill -9`` in the middle: nothing is lost, nothing is drawn or paid twice."""
    north = hospital().start()
    first = unpack(north.wait())
    assert isinstance(first, Introduction) and first.name == "north"
    killed = []

    def kill(count):
        if count in (8, 13):
            killed.append(count)
            north.kill()

    there = fit_elsewhere(estimator(**PLAIN), WithGate(tmp_path, north, meanwhile=kill))
    assert len(killed) == 2
    assert same(there, fit_here(estimator(**PLAIN), problem()))
    entries = PrivacyLedger(path=north.folder / "north.ledger", must_exist=True).entries
    assert [entry.name.split(",")[0] for entry in entries] == ["a fit"]
    assert unpack(north.wait()) == first
    assert main(["silo", "status", str(north.file)]) == 0
    lines = [json.loads(line) for line in (north.folder / "gate.log").read_text().splitlines()]
    assert {"Introduction", "Agreement", "Answer"} <= {line.get("answer") for line in lines}
    assert stat.S_IMODE((north.folder / "gate.log").stat().st_mode) == 0o600
    north.stop()
    assert not os.path.exists(north.socket)
    assert main(["silo", "status", str(north.file)]) == 1


@pytest.mark.slow
def test_a_person_says_yes_or_no(tmp_path, hospital, capsys):
    north = hospital(terms="approval = true").start()
    north.wait()
    here = WithGate(tmp_path, north)
    with pytest.raises(
        SilosMissing, match="north: A person at this silo has to approve the fit first"
    ):
        fit_elsewhere(estimator(**PLAIN), here, n_attempts=1, requester="ann", purpose="study 7")
    offer = here.letters[-1][1]
    command = ["silo", "pending", str(north.file)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "'a fit'" in said and "0 fits, nothing spent" in said
    number = said.split()[0]
    shown = dict(line.split(None, 1) for line in said.splitlines() if line.startswith(" "))
    assert {shown[k] for k in ("requester", "purpose")} == {"'ann'", "'study 7'"}
    assert (shown["rounds"], shown["classes"]) == ("3", "[0, 1]") and shown["epsilon"] > "2.9"
    parts = {"loss": "LogLoss", "model": "LinearModel", "algorithm": "MinibatchSGD"}
    assert all(word in shown[k] for k, word in parts.items())
    assert shown["offer"] == repr(unpack(offer).agreed.hex()[:16])
    with pytest.raises(SystemExit, match="no fit, or more"):
        main(["silo", "approve", str(north.file), "ffff"])
    assert main(["silo", "approve", str(north.file), number]) == 0
    assert main(command) == 0 and "No fit waits" in capsys.readouterr().out
    assert type(unpack(ask_gate(north.socket, offer))).__name__ == "Agreement"
    with pytest.raises(SilosMissing, match="has to approve"):  # each fit is a question of its own
        fit_elsewhere(estimator(**PLAIN), here, n_attempts=1)
    main(command)
    main(["silo", "refuse", str(north.file), capsys.readouterr().out.split()[0]])
    hostile = with_field(offer, "v", "fit", value="\x1b[2Jfine")
    assert type(unpack(ask_gate(north.socket, hostile))).__name__ == "Waiting"
    main(command)
    assert "\x1b" not in capsys.readouterr().out
    assert "refused the fit" in unpack(ask_gate(north.socket, here.letters[-1][1])).reason


# ---- users --------------------------------------------------------------------------------------

READER = """
import json, os, sys
folder, socket = sys.argv[1:3]
found = {}
for path in [folder, *sys.argv[4:]]:
    try:
        found[path] = os.listdir(path) if os.path.isdir(path) else len(open(path, "rb").read())
    except OSError as error:
        found[path] = type(error).__name__
try:
    from skdpfl.remote import Hello, ask_gate, pack, unpack
    found["gate"] = unpack(ask_gate(socket, pack(Hello()))).name
except OSError as error:
    found["gate"] = type(error).__name__
for pid in sys.argv[3].split():
    for what in ("mem", "environ", "cwd"):
        try:
            at = f"/proc/{pid}/{what}"
            found[at] = os.readlink(at) if what == "cwd" else len(open(at, "rb").read(10))
        except OSError as error:
            found[at] = type(error).__name__
print(json.dumps(found))
"""


#: becomes another user after everything was imported, which others may not be allowed to read
BECOME = """
import os, sys
import skdpfl.__main__, skdpfl.service.commands
from skdpfl.remote import *
uid, gid, *rest = sys.argv[1:]
os.setgroups([])
os.setgid(int(gid))
os.setuid(int(uid))
sys.argv = ["-", *rest]
"""


def as_user(user, code, *words, **options):
    """Start a program as another user."""
    ids = str(user.pw_uid), str(user.pw_gid)
    command = [sys.executable, "-c", BECOME + code, *ids, *map(str, words)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, cwd="/", text=True, **options)


@pytest.fixture
def guarded():
    """A hospital whose gate is one user's, and whose letters another one brings."""
    gate = pwd.getpwnam("daemon")
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    (top / "run").mkdir()
    north = Hospital(
        top / "hospital",
        socket="../run/socket",
        roster=f'users = [{pwd.getpwnam("nobody").pw_uid}, "nobody"]',
    )
    north.socket = str(top / "run" / "socket")
    for path in (top / "run", north.folder, *north.folder.iterdir()):
        os.chown(path, gate.pw_uid, gate.pw_gid)
    north.folder.chmod(0o755)  # even where the folder can be listed
    text = north.file.read_text().replace("allow_simulation = true", "")
    north.file.write_text(text)
    code = "skdpfl.__main__.main(['silo', 'serve', sys.argv[1]])"
    north.process = as_user(gate, code, north.file)
    try:
        end = time.monotonic() + 60
        while not os.path.exists(north.socket):
            assert time.monotonic() < end and north.process.poll() is None
            time.sleep(0.05)
        yield north
    finally:
        north.stop()
        shutil.rmtree(top)


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
def test_an_app_of_ones_own_reads_no_file_of_a_hospital(guarded):
    """Whatever program a run brings, as the SuperNode's user: it can bring letters, no more."""
    secret = [path for path in guarded.folder.rglob("*") if path != guarded.file]
    assert {p.name for p in secret} >= {"records.csv", "north.ledger", "north.ledger.fits", "mark"}
    words = guarded.folder, guarded.socket, guarded.process.pid, *secret
    for name in ("nobody", "bin"):
        user = pwd.getpwnam(name)
        reader = as_user(user, READER, *words, stdout=subprocess.PIPE)
        said = reader.communicate(timeout=180)[0]
        found = json.loads(said)
        assert all(found[str(path)] == "PermissionError" for path in secret), found
        assert all(v == "PermissionError" for k, v in found.items() if k.startswith("/proc"))
        assert len([k for k in found if k.startswith("/proc")]) == 3
        assert (found["gate"] == "north") == (name == "nobody")


@pytest.mark.slow
def test_answers_take_a_whole_number_of_paces(tmp_path, hospital):
    north = hospital(terms="pace = 0.4").start()
    north.wait()
    took = []
    for letter in (b"no letter", pack(3), b"no letter"):  # but health, which reads no record
        begin = time.monotonic()
        ask_gate(north.socket, letter)
        took.append(time.monotonic() - begin)
    assert all(seconds >= 0.4 for seconds in took)
