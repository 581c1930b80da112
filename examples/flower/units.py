"""The services as the systemd units have them, each as its own user, and an app that would read.

    python examples/flower/units.py OUT

as root; OUT is new, in a folder that others can enter, and users that are missing are made. It
takes the commands and users of ``systemd/*.service`` and the hospital's ``hospital.toml``, puts
their folders under OUT, starts the three services on this computer, with TLS and keys, and says
what the operator's commands say. Then it has ``flwr run`` start an app of somebody's own on the
SuperNode, which tries to read each of the hospital's files, list its folders, look into the gate's
process, and use its socket.
"""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import keys
import numpy as np
import pandas as pd

HERE = Path(__file__).parent
GATE, LINK, NODE = "skdpfl-gate", "flower-superlink", "flower-supernode"
#: what anybody could ship; it reports what it could read, by name
SPY = """
import json
import os
import time
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()


def tried(path):
    try:
        size = len(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())
        return f"{size} bytes, or files"
    except OSError as error:
        return type(error).__name__


@client.query()
def read(message, context):
    from skdpfl.remote import Hello, ask_gate, pack, unpack

    paths = list(message.content.config_records["paths"]["paths"])
    found = {path: tried(path) for path in paths}
    found["user"] = str(os.getuid())
    found["gate"] = repr(unpack(ask_gate(context.node_config["socket"], pack(Hello()))))
    return Message(RecordDict({"found": ConfigRecord(found)}), reply_to=message)


@server.main()
def main(grid, context):
    config = context.run_config
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(1)
    paths = RecordDict({"paths": ConfigRecord({"paths": config["paths"].split("|")})})
    ask = Message(paths, dst_node_id=nodes[0], message_type="query")
    for reply in grid.send_and_receive([ask]):
        found = dict(reply.content.config_records["found"])
        with open(config["out"] + ".part", "w") as file:
            json.dump(found, file)
        os.rename(config["out"] + ".part", config["out"])
"""
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "an-app-of-ones-own"
version = "1.0.0"
license = "BSD-3-Clause"
dependencies = ["flwr>=1.41,<1.43"]

[tool.flwr.app]
publisher = "somebody"

[tool.flwr.app.components]
serverapp = "spy:server"
clientapp = "spy:client"

[tool.flwr.app.config]
paths = ""
out = ""
"""


class Units:
    """What the units say, under another root; their processes end with the block."""

    def __init__(self, out):
        self.out, self.processes, self.made, self.port = out, {}, [], free_port()
        self.python, self.path = programs(out)
        self.units = {u.stem: u.read_text() for u in (HERE / "systemd").glob("*.service")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for name in self.made:
            subprocess.run(["userdel", "--force", name], check=False, capture_output=True)

    def user(self, unit):
        """Return a unit's user; it is made if it is not there."""
        name = re.search(r"^User=(.*)$", self.units[unit], re.MULTILINE)[1]
        try:
            return pwd.getpwnam(name)
        except KeyError:
            subprocess.run(["useradd", "--system", "--no-create-home", name], check=True)
            self.made.append(name)
            return pwd.getpwnam(name)

    def here(self, text):
        """Return a text with the folders of the services under this root."""
        text = re.sub(r"(?<![\w.])/(etc|var/lib|run|mnt)/", rf"{self.out}/\1/", text)
        text = text.replace("server.example.org:8000", f"127.0.0.1:{self.port}")
        return str(self.port) if text == "8000" else text

    def folder(self, name, unit, mode=0o700):
        """Make a folder as systemd does, the unit's user's."""
        path, user = self.out / name, self.user(unit)
        path.mkdir(parents=True)
        path.chmod(mode)
        os.chown(path, user.pw_uid, user.pw_gid)
        return path

    def command(self, unit, key="ExecStart"):
        """Return a command of a unit."""
        text = self.units[unit].replace("\\\n", " ")
        line = re.search(rf"^{key}=(.*)$", text, re.MULTILINE)[1]
        words = [w.strip("'") for w in re.findall(r"'[^']*'|\S+", line)]
        program = str(self.path / Path(words[0]).name)
        return [program, *map(self.here, words[1:])]

    def options(self, unit):
        """Return a unit's user and environment for a process."""
        user, said = self.user(unit), {}
        for line in re.findall(r"^Environment=(.*)$", self.units[unit], re.MULTILINE):
            said |= dict(word.split("=") for word in self.here(line).split())
        places = f"{self.path}{os.pathsep}/usr/bin{os.pathsep}/bin"
        said |= {"PATH": places, "PYTHONPATH": self.python, "PYTHONDONTWRITEBYTECODE": "1"}
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return who | {"env": said, "cwd": self.out, "umask": 0o077}

    def give(self, unit, path, text):
        """Write a file that a unit's user alone can read."""
        path.write_text(text)
        path.chmod(0o600)
        os.chown(path, self.user(unit).pw_uid, self.user(unit).pw_gid)

    def start(self, unit, *more):
        """Start a unit's command as its user."""
        command = [*self.command(unit), *map(str, more)]
        print(f"as {self.user(unit).pw_name}: {Path(command[0]).name} {' '.join(command[1:4])} ...")
        with (self.out / f"{unit}.log").open("ab") as log:
            options = {"stdout": log, "stderr": log, "start_new_session": True}
            self.processes[unit] = subprocess.Popen(command, **options, **self.options(unit))

    def run_command(self, unit, key):
        """Run another command of a unit; return what it prints."""
        program, *words = self.command(unit, key)
        return self.run(unit, Path(program).name, *words)

    def run(self, unit, program, *words):
        """Run a command as a unit's user; return what it prints."""
        command = [str(self.path / program), *map(str, words)]
        options = {"text": True, "capture_output": True, "check": False, "timeout": 300}
        done = subprocess.run(command, **options, **self.options(unit))
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def programs(out):
    """Return a Python path, and a folder of programs, that other users can read.

    Where they may not enter the folder of this interpreter, the system's of the same version runs
    the same packages. Status 77 where there is none.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = [str(HERE.parents[1]), *(p for p in sys.path if p.endswith("site-packages"))]
    path = os.pathsep.join(packages)
    for python in (sys.executable, f"/usr/bin/{version}"):
        others = {"user": "nobody", "extra_groups": [], "cwd": "/", "env": {"PYTHONPATH": path}}
        try:
            words = [python, "-c", "import flwr, skdpfl"]
            subprocess.run(words, check=True, capture_output=True, **others)
            break
        except (OSError, subprocess.CalledProcessError):
            continue
    else:
        print("Other users can read no interpreter with these packages: nothing was started.")
        raise SystemExit(77)
    folder, own = out / "opt" / "bin", Path(sys.executable).parent
    folder.mkdir(parents=True)
    for program in [*own.glob("flower-*"), *own.glob("flwr*"), own / "skdpfl"]:
        (folder / program.name).write_text(
            f"#!{python}\n{program.read_text().partition(chr(10))[2]}"
        )
        (folder / program.name).chmod(0o755)
    for name in ("python", "python3"):
        (folder / name).symlink_to(python)
    return path, folder


def write_hospital(units):
    """Put the hospital's files where the gate looks for them; return all that is secret."""
    etc = units.folder("etc/skdpfl", GATE)
    for name, mode in (("var/lib/skdpfl", 0o700), ("run/skdpfl", 0o755), ("mnt/other", 0o700)):
        units.folder(name, GATE, mode)
    rng = np.random.default_rng(0)
    age, pressure = rng.integers(20, 90, 303), rng.normal(130, 20, 303).round(1)
    table = pd.DataFrame({"age": age, "pressure": pressure, "ill": 1 * (age + pressure > 190)})
    units.give(GATE, etc / "records.csv", table.to_csv(index=False))
    text, roster = (HERE / "hospital.toml").read_text().split("[roster.silos]")
    log = roster.partition("[log]")[2]
    units.give(GATE, etc / "hospital.toml", units.here(f"{text}\n[log]{log}"))
    key = units.run(GATE, "skdpfl", "silo", "key", etc / "hospital.toml")
    units.give(GATE, etc / "hospital.toml", units.here(f"{text}[roster.silos]\n{key}[log]{log}"))
    return etc / "hospital.toml"


def write_keys(units):
    """Write certificates and keys, each file where its unit looks for it."""
    made = units.out / "keys"
    keys.write(made, "127.0.0.1", ["north"])
    for name, unit, files in (
        ("etc/superlink", LINK, ("ca.crt", "server.pem", "server.key")),
        ("etc/flower", NODE, ("ca.crt", "north")),
    ):
        folder = units.folder(name, unit)
        for file in files:
            units.give(unit, folder / file, (made / file).read_text())
    for name, unit in (("var/lib/superlink", LINK), ("var/lib/flower", NODE)):
        units.folder(name, unit)
    trust = f'root-certificates = "{units.out}/etc/superlink/ca.crt"'
    config = f'[superlink.study]\naddress = "127.0.0.1:{units.port}"\n{trust}\n'
    units.give(LINK, units.out / "var/lib/superlink/config.toml", config)
    public = units.out / "var/lib/superlink/north.pub"
    units.give(LINK, public, (made / "north.pub").read_text())
    shutil.rmtree(made)
    return public


def spied(units, file):
    """Return what an app of somebody's own finds out on the SuperNode."""
    app = units.folder("var/lib/superlink/app", LINK)
    units.give(LINK, app / "spy.py", SPY)
    units.give(LINK, app / "pyproject.toml", PROJECT)
    state = units.out / "var/lib/skdpfl"
    paths = [file.parent, state, units.out / "mnt/other", *file.parent.iterdir(), *state.rglob("*")]
    gate = Path("/proc", str(units.processes[GATE].pid))
    paths += [units.out / "mnt/other/north.count", gate / "mem", gate / "environ"]
    found = units.out / "var/lib/superlink/found.json"
    config = f'paths="{"|".join(map(str, paths))}" out="{found}"'
    units.run(LINK, "flwr", "run", app, "study", "--run-config", config)
    wait(found.exists, "the app's report")
    return json.loads(found.read_text())


def wait(until, what, patience=300):
    last = time.monotonic() + patience
    while not until():
        if time.monotonic() > last:
            raise SystemExit(f"{what} is not there after {patience} s; see the logs.")
        time.sleep(0.2)


def main():
    if len(sys.argv) != 2 or os.getuid() != 0:
        raise SystemExit(__doc__)
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True)
    out.chmod(0o755)
    with Units(out) as units:
        file, public = write_hospital(units), write_keys(units)
        print(units.run_command(GATE, "ExecStartPre"), end="", flush=True)
        units.start(GATE)
        wait((out / "run/skdpfl/north.socket").exists, "the gate's socket")
        units.start(LINK)
        wait(lambda: answers(units.port), "the SuperLink")
        units.run(LINK, "flwr", "supernode", "register", public, "study")
        units.start(NODE, "--host", "127.0.0.1", "--port", free_port())
        for command in ("status", "pending", "ledger"):
            print(units.run(GATE, "skdpfl", "silo", command, file), end="", flush=True)
        found = spied(units, file)
        gate, node = units.user(GATE), units.user(NODE)
        ended = [name for name, process in units.processes.items() if process.poll() is not None]
    print(f"an app of somebody's own, user {found['user']} ({node.pw_name}):")
    for path, what in found.items():
        if path.startswith("/"):
            print(f"  {what:16} {path.removeprefix(str(out))}")
    print(f"  the gate says    {found['gate']}")
    read = {what for path, what in found.items() if path.startswith("/")}
    if read != {"PermissionError"} or int(found["user"]) != node.pw_uid != gate.pw_uid or ended:
        raise SystemExit(f"It should have read nothing, and nothing have ended: {ended}")


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
