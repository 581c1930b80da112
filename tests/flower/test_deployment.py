"""The files for systemd and Docker: read by their own tools; programs know their options."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("flwr")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
HERE = ROOT / "examples" / "flower"
IMAGE = (ROOT / "examples" / "Containerfile").read_text()
UNITS = sorted((HERE / "systemd").glob("*.service"))
SYSTEMD = shutil.which("systemd-analyze")


def compose():
    return yaml.safe_load((HERE / "compose.yaml").read_text())


def words(unit):
    """Return the words of a unit's command."""
    text = unit.read_text().replace("\\\n", " ")
    return re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1].split()


@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.stem)
def test_systemd_reads_a_unit(tmp_path, unit):
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"/opt/\w+/bin/[\w-]+", "/bin/true", unit.read_text()))
    said = subprocess.run([SYSTEMD, "verify", copy], check=False, capture_output=True, text=True)
    assert said.returncode == 0 and not said.stderr, said.stderr


def options_of(program):
    command = Path(sys.executable).parent / program
    said = subprocess.run([command, "--help"], check=True, capture_output=True, text=True)
    return set(re.findall(r"--[a-z-]+", said.stdout))


def test_programs_know_the_options_of_the_files():
    known = {name: options_of(name) for name in ("flower-superlink", "flower-supernode")}
    commands = [words(unit) for unit in UNITS]
    commands += [service["command"] for service in compose()["services"].values()]
    n = 0
    for command in commands:
        program = Path(command[0]).name
        if program in known:
            asked = {word.split("=")[0] for word in command if word.startswith("--")}
            assert asked and asked <= known[program], asked - known[program]
            n += 1
        else:
            assert program == "skdpfl" and command[1:3] == ["silo", "serve"]
    assert n == 5 and len(commands) == 8


def mounts(service):
    return {volume.split(":")[0] for volume in service["volumes"]}


def test_a_gate_shares_a_socket_with_its_supernode_and_nothing_with_others():
    services = compose()["services"]
    gates = {name: each for name, each in services.items() if name.endswith("-gate")}
    assert len(gates) == 2
    for name, gate in gates.items():
        hospital = name.removesuffix("-gate")
        assert gate["network_mode"] == "none" and "ports" not in gate
        assert gate["read_only"] and gate["cap_drop"] == ["ALL"]
        for other, service in services.items():
            if other != name:
                shared = mounts(gate) & mounts(service)
                assert shared == ({f"{hospital}-run"} if other == f"{hospital}-node" else set())
                assert service["user"] != gate["user"] or other in gates


def test_the_image_has_the_users_and_folders_of_the_services():
    """A volume belongs to root, and its service ends, where the image has no folder for it."""
    users = {
        name: uid for uid, name in re.findall(r"useradd --uid (\d+).*? (\w+)(?: &&|$)", IMAGE, re.M)
    }
    folders = {
        path: users[name] for name, path in re.findall(r"install -d -o (\w+) .*? (/\S+)", IMAGE)
    }
    seen = set()
    for service in compose()["services"].values():
        uid = service["user"].partition(":")[0]
        assert uid in users.values()
        for volume, path in (words.split(":")[:2] for words in service["volumes"]):
            if not volume.startswith("."):
                assert folders[path] == uid or volume.endswith("-run")
                seen.add(path)
    assert seen == folders.keys()


def test_the_image_is_made_of_what_there_is():
    steps = [line.split(None, 1) for line in IMAGE.splitlines() if line and line[0] != "#"]
    assert [step for step, _ in steps] == ["FROM", "ARG", "RUN", "COPY", "RUN", "RUN", "RUN"]
    for step, words in steps:
        if step == "RUN":
            subprocess.run(["sh", "-n", "-c", words], check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.search(r"^ARG EXTRAS=(.*)$", IMAGE, re.MULTILINE)[1].split(",")
    assert set(extras) <= project["optional-dependencies"].keys() and "skdpfl" in project["scripts"]


def test_of_several_wheels_the_newest_that_fits_is_installed(tmp_path):
    """Its line by the shell and by pip, whose last step is shown and not taken."""
    (tmp_path / "wheels").mkdir()
    for version, tag in (("0.9.0", "py3-none"), ("0.10.0", "py3-none"), ("0.11.0", "cp27-cp27m")):
        name = tmp_path / "wheels" / f"skdpfl-{version}-{tag}-any.whl"
        with zipfile.ZipFile(name, "w") as file:
            text = f"Metadata-Version: 2.1\nName: skdpfl\nVersion: {version}\n"
            file.writestr(f"skdpfl-{version}.dist-info/METADATA", text)
            file.writestr(f"skdpfl-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    shown = f'case $1 in install) echo "$@";; *) exec "{sys.executable}" -m pip "$@";; esac\n'
    (tmp_path / "pip").write_text(f"#!/bin/sh\n{shown}")
    (tmp_path / "pip").chmod(0o700)
    (line,) = re.findall(r"^RUN (pip .*)$", IMAGE, re.MULTILINE)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "EXTRAS": "grpc"}
    command = ["sh", "-c", line.replace("/tmp/", f"{tmp_path}/")]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert "/skdpfl-0.10.0-py3-none-any.whl[grpc]" in said.stdout.splitlines()[-1]
    assert not list(tmp_path.glob("wheel*"))


def test_docker_reads_the_file():
    """Docker's plug-in, or the program of before, which Debian has."""
    for compose_of in (["docker", "compose"], ["docker-compose"]):
        asked = [*compose_of, "version"]
        if (
            shutil.which(compose_of[0])
            and not subprocess.run(asked, capture_output=True).returncode
        ):
            break
    else:
        pytest.skip("docker compose is not installed")
    command = [*compose_of, "-f", HERE / "compose.yaml", "config"]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    assert set(yaml.safe_load(said.stdout)["services"]) == set(compose()["services"])
