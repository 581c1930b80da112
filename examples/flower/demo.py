"""Four hospitals on this computer, by Flower: three fits, each with something that is killed.

    python examples/flower/demo.py OUT           or   make flower-demo OUT=dir

needs no data and no network. It writes records of four synthetic hospitals, starts a SuperLink, and
a gate and a SuperNode for each hospital, on the loopback interface, and fits

    ISRL-DP                                 the SuperLink is killed, and all that it had started
    DP-SCAFFOLD                             the server's app is killed, and goes on from its journal
    ISRL-DP, noise that hospitals share     a hospital's gate and SuperNode are killed

with ``kill -9``. The models are those of one process, bit for bit, and each ledger has each fit
once. A fourth fit is refused. Then it measures Flower's own empty round. All ends with this script.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import keys
import numpy as np
import trial
from study import SIZES
from trial import BIN, answers, end, free_port, say, wait_for_port

HERE = Path(__file__).parent
HOSPITALS = tuple(SIZES)
#: what is fitted, and what is killed meanwhile, after the hospital VICTIM has answered so often
FITS = {
    "ISRLDPClassifier": "SuperLink",
    "DPScaffoldClassifier": "server's app",
    "ISRLDPClassifier-secagg": "hospital",
}
VICTIM, ANSWERS = "west", 3
#: seconds before a SuperNode that ended is started again; Flower has to miss one with keys first
PAUSE = {False: 1, True: 15}


class Deployment:
    """A SuperLink, and four hospitals' gates and SuperNodes; all of them end with the block."""

    def __init__(self, out, secure=False):
        self.out, self.port, self.keys = out, free_port(), out / "keys" if secure else None
        self.line = f"127.0.0.1:{free_port()}"
        self.link, self.nodes, self.gates, self.started = None, {}, {}, {}
        self.pids = {name: [] for name in HOSPITALS}
        self.environment = os.environ | {
            "FLWR_HOME": str(out / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
        }
        for name in ("flower", "logs"):
            (out / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        trust = f'root-certificates = "{self.keys}/ca.crt"' if secure else "insecure = true"
        config = f'[superlink.demo]\naddress = "127.0.0.1:{self.port}"\n{trust}\n'
        (out / "flower" / "config.toml").write_text(config)
        if secure:
            keys.write(self.keys, "127.0.0.1", HOSPITALS)

    def __enter__(self):
        for name in HOSPITALS:
            self.start_gate(name)
        self.start_link()
        for name in HOSPITALS:
            if self.keys:
                self.flwr("supernode", "register", self.keys / f"{name}.pub", "demo")
            self.start_node(name)
        return self

    def start_link(self):
        """Start the SuperLink; what it knows of SuperNodes and runs is in a file."""
        command = ["flower-superlink", *self.link_security, "--host", "127.0.0.1"]
        command += ["--port", self.port, "--disable-runtime-dependency-installation"]
        command += ["--database", self.out / "superlink.db"]
        self.link = self.start("superlink", command)
        wait_for_port(self.port)

    @property
    def link_security(self):
        """The SuperLink shows a certificate, and lets in SuperNodes whose keys it was told."""
        if not self.keys:
            return ["--insecure"]
        return [
            *("--ssl-ca-certfile", self.keys / "ca.crt"),
            *("--ssl-certfile", self.keys / "server.pem"),
            *("--ssl-keyfile", self.keys / "server.key"),
            "--enable-supernode-auth",
        ]

    def node_security(self, name):
        """A SuperNode checks that certificate, and shows that it has its key."""
        if not self.keys:
            return ["--insecure"]
        return [
            *("--root-certificates", self.keys / "ca.crt"),
            *("--auth-supernode-private-key", self.keys / name),
        ]

    def flwr(self, *words):
        """Run a command of Flower's, its output in a log; an error if it fails."""
        command = [str(BIN / "flwr"), *map(str, words)]
        with (self.out / "logs" / "flwr.log").open("ab") as log:
            options = {"env": self.environment, "stdout": log, "stderr": log, "timeout": 120}
            subprocess.run(command, check=True, **options)

    def start(self, name, command):
        return trial.start(command, self.out / "logs" / f"{name}.log", self.environment)

    def start_gate(self, name):
        self.gates[name] = self.start(f"{name}-gate", trial.gate_command(self.out, name))

    def start_node(self, name):
        config = f'socket="{self.out}/hospitals/{name}/socket"'
        command = ["flower-supernode", *self.node_security(name)]
        command += ["--superlink", f"127.0.0.1:{self.port}"]
        command += ["--host", "127.0.0.1", "--port", free_port(), "--node-config", config]
        self.nodes[name] = self.start(name, command)
        self.pids[name].append(self.nodes[name].pid)
        self.started[name] = time.monotonic()

    def start_ended_nodes(self):
        """Start SuperNodes again that ended, as an operator's supervisor does."""
        for name, node in self.nodes.items():
            ran = time.monotonic() - self.started[name]
            if node.poll() is not None and ran > PAUSE[self.keys is not None]:
                self.start_node(name)

    def kill(self, what):
        """End processes at once, as a power cut would; start again what a supervisor would."""
        say(f"kill -9: the {what}")
        if what == "hospital":
            for process in (self.gates[VICTIM], self.nodes[VICTIM]):
                end(process)
            self.start_gate(VICTIM)
            self.start_node(VICTIM)
            return
        if what == "SuperLink":
            end(self.link)
            self.start_link()
        else:
            os.kill(process_of(self.out / "flower", "flwr-serverapp"), signal.SIGKILL)
        self.begin()

    def begin(self):
        """Have ``flwr run`` start the app: a fit, or what is left of it."""
        config = " ".join(f"{k}={json.dumps(v)}" for k, v in self.config.items())
        self.flwr("run", HERE, "demo", "--run-config", config)

    def run(self, estimator, rounds, patience, victim=None, report=None):
        """Fit an estimator, while something is killed; return its report once it is there."""
        report = report or estimator
        self.config = {"estimator": estimator, "rounds": rounds, "out": str(self.out)}
        self.config |= {"report": report, "line": self.line}
        path, due = self.out / f"{report}.json", answers(self.out, VICTIM) + ANSWERS
        self.begin()
        last = time.monotonic() + patience
        while not path.exists():
            if time.monotonic() > last or self.link.poll() is not None:
                raise SystemExit(f"{report} did not end in {patience} s: see {self.out}/logs")
            if victim and answers(self.out, VICTIM) >= due:
                self.kill(victim)
                victim = None
            self.start_ended_nodes()
            time.sleep(0.02)
        if victim:
            raise SystemExit(f"{report} ended before the {victim} was killed; give more --rounds.")
        return json.loads(path.read_text())

    def __exit__(self, *_):
        for process in [*self.nodes.values(), *self.gates.values(), self.link]:
            if process is not None and process.poll() is None:
                end(process)


def process_of(home, word):
    """Return the number of a process of this deployment, by a word of its command."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            mine = f"FLWR_HOME={home}\0" in (each / "environ").read_text()
            if mine and word in (each / "cmdline").read_text():
                return int(each.name)
    raise SystemExit(f"There is no process {word}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--secure", action="store_true", help="with TLS and keys of SuperNodes")
    parser.add_argument("--patience", type=float, default=300, help="seconds for a fit")
    asked = parser.parse_args()
    out, rounds, seconds = asked.out.resolve(), asked.rounds, {}
    if (out / "hospitals").exists():
        raise SystemExit(f"{out} has hospitals of an earlier run; give another folder.")
    trial.write_records(out)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    with Deployment(out, asked.secure) as deployment:
        say("a SuperLink, four gates and four SuperNodes are started")
        for name, victim in FITS.items():
            say(f"flwr run: {name}, {rounds} rounds")
            report = deployment.run(name, rounds, asked.patience, victim)
            if "error" in report:
                raise SystemExit(f"{name}: {report['error']}")
            seconds[name] = report["seconds per round"]
            say(f"{name}: {np.median(seconds[name]):.2f} s a round")
        again = deployment.run(next(iter(FITS)), rounds, asked.patience, report="again")
        say(f"once more: {again.get('error')}")
        empty = deployment.run("empty", 2, asked.patience)
        seconds["Flower, empty"] = empty["seconds per round"]
        say(f"Flower's empty round: {np.median(seconds['Flower, empty']):.2f} s")
    result = {
        "pids": deployment.pids,
        "seconds per round": seconds,
        "refused": again.get("error"),
        "charged": trial.charged(out),
        "bit-identical": trial.compare(out, FITS, rounds),
    }
    (out / "run.json").write_text(json.dumps(result, indent=1))
    trial.check(result, FITS)
    say("the models are those of one process, bit for bit; each ledger has each fit once")


if __name__ == "__main__":
    main()
