"""Four hospitals on this computer, by Flower: three fits, two with a hospital that is killed.

    python examples/flower/demo.py OUT           or   make flower-demo OUT=dir

starts a SuperLink, and a gate and a SuperNode for each hospital, on the loopback interface, fits
ISRL-DP, DP-SCAFFOLD, and ISRL-DP with noise that the hospitals share in masked sums, kills one
hospital's gate and SuperNode in the first and the last fit without warning, starts them again, and
compares the models with those of one process: they are the same, bit for bit. Then it measures
Flower's own empty round. Everything ends with this script.
"""

import argparse
import json
import os
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
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
ESTIMATORS = ("ISRLDPClassifier", "DPScaffoldClassifier", "ISRLDPClassifier-secagg")
BIN = Path(sys.executable).parent
#: the hospital that is killed, after it has answered so often in a fit, and in which fits
VICTIM, ANSWERS, KILLED = "va", 2, (ESTIMATORS[0], ESTIMATORS[2])
#: seconds before a SuperNode that ended is started again
PAUSE = 15
#: what each hospital's operator writes down; here the records are public, and the noise follows
#: from a seed, so that the models can be compared with those of one process
TOML = """
socket = "socket"

[records]
name = "{name}"
file = "records.csv"
features = {features}
target = "ill"
classes = [0, 1]

[terms]
epsilon = 3.0
delta = 1e-4
allow_simulation = true

[ledger]                  # three fits of at most 3, no fourth
file = "ledger"
epsilon = 6.5
delta = 1e-4

[roster]
key = "key"
silos = {{ {roster} }}

[log]
file = "gate.log"
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Deployment:
    """A SuperLink and four SuperNodes; all of them end with the block."""

    def __init__(self, out, secure=False):
        self.out, self.port, self.keys = out, free_port(), out / "keys" if secure else None
        self.link, self.nodes, self.pids = None, {}, {name: [] for name in HOSPITALS}
        self.gates = {}
        self.started = {}
        self.environment = os.environ | {
            "FLWR_HOME": str(out / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
        }
        (out / "flower").mkdir(mode=0o700, exist_ok=True)
        trust = f'root-certificates = "{self.keys}/ca.crt"' if secure else "insecure = true"
        config = f'[superlink.demo]\naddress = "127.0.0.1:{self.port}"\n{trust}\n'
        (out / "flower" / "config.toml").write_text(config)
        if secure:
            keys.write(self.keys, "127.0.0.1", HOSPITALS)

    def __enter__(self):
        self.start_link()
        for name in HOSPITALS:
            if self.keys:
                self.flwr("supernode", "register", self.keys / f"{name}.pub", "demo")
            self.start_gate(name)
            self.start_node(name)
        return self

    def start_link(self):
        command = ["flower-superlink", *self.link_security, "--host", "127.0.0.1"]
        command += ["--port", self.port, "--disable-runtime-dependency-installation"]
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
        log = (self.out / "logs" / f"{name}.log").open("ab")
        words = [str(BIN / command[0]), *map(str, command[1:])]
        options = {"env": self.environment, "stdout": log, "stderr": log, "start_new_session": True}
        with log:
            return subprocess.Popen(words, **options)

    def start_gate(self, name):
        """Start a hospital's own service, with its records and its ledger."""
        file = self.out / "hospitals" / name / "hospital.toml"
        self.gates[name] = self.start(
            f"{name}-gate", ["python", "-m", "skdpfl", "silo", "serve", file]
        )

    def start_node(self, name):
        config = f'socket="{self.out}/hospitals/{name}/socket"'
        command = ["flower-supernode", *self.node_security(name)]
        command += ["--superlink", f"127.0.0.1:{self.port}"]
        command += ["--host", "127.0.0.1", "--port", free_port(), "--node-config", config]
        self.nodes[name] = self.start(name, command)
        self.pids[name].append(self.nodes[name].pid)
        self.started[name] = time.monotonic()

    def start_ended_nodes(self):
        """Start SuperNodes again that ended, as an operator's supervisor does.

        With keys, Flower lets a SuperNode in again once the old one missed two heartbeats, a
        minute; until then the new one is refused, and ends.
        """
        for name, node in self.nodes.items():
            if node.poll() is not None and time.monotonic() - self.started[name] > PAUSE:
                self.start_node(name)

    def kill_node(self, name):
        """End a SuperNode and the gate at once, as a power cut would."""
        for process in (self.gates[name], self.nodes[name]):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(self, estimator, rounds, patience, meanwhile=lambda: None):
        """Have ``flwr run`` fit an estimator; return its report once it is there."""
        report = self.out / f"{estimator}.json"
        report.unlink(missing_ok=True)
        config = f'estimator="{estimator}" rounds={rounds} out="{self.out}"'
        self.flwr("run", HERE, "demo", "--run-config", config)
        end = time.monotonic() + patience
        while not report.exists():
            if time.monotonic() > end or self.link.poll() is not None:
                raise SystemExit(f"{estimator} did not end in {patience} s: see {self.out}/logs")
            meanwhile()
            self.start_ended_nodes()
            time.sleep(0.1)
        time.sleep(0.5)
        return json.loads(report.read_text())

    def __exit__(self, *_):
        for process in [*self.nodes.values(), *self.gates.values(), self.link]:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for_port(port, patience=60):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("The SuperLink did not start; see its log.")


class Killer:
    """Kills a hospital in each fit, once it has answered a few times, and starts it again."""

    def __init__(self, deployment):
        self.deployment, self.restarts, self._due = deployment, 0, None

    def before(self, fit):
        """Kill in this fit, if at all."""
        had = answers(self.deployment.out, VICTIM)
        self._due = had + ANSWERS if fit in KILLED else None

    def __call__(self):
        if self._due is not None and answers(self.deployment.out, VICTIM) >= self._due:
            self.deployment.kill_node(VICTIM)
            self.restarts, self._due = self.restarts + 1, None
            self.deployment.start_gate(VICTIM)
            self.deployment.start_node(VICTIM)


def write_records(out):
    """Write each hospital's records to a file of its own."""
    from skdpfl.datasets import fetch_heart_disease
    from skdpfl.remote import new_silo_key, public_key

    heart, private = fetch_heart_disease(), {name: new_silo_key() for name in HOSPITALS}
    roster = ", ".join(f'{name} = "{public_key(key)}"' for name, key in private.items())
    names = [str(name) for name in heart.feature_names]
    for name in HOSPITALS:
        folder, mine = out / "hospitals" / name, heart.silos == name
        folder.mkdir(mode=0o700, parents=True)
        table = pd.DataFrame(np.asarray(heart.data)[mine], columns=names)
        table = table.assign(ill=np.asarray(heart.target)[mine])
        table.to_csv(folder / "records.csv", index=False)
        (folder / "key").write_text(private[name])  # skdpfl silo key makes one
        text = TOML.format(name=name, features=json.dumps(names), roster=roster)
        (folder / "hospital.toml").write_text(text)
        for path in folder.iterdir():
            path.chmod(0o600)


def answers(out, name):
    """Return how many answers a hospital's memory counts."""
    count = out / "hospitals" / name / "ledger.count"
    return int(count.read_text().split()[0]) if count.exists() else 0


def compare(out, estimators, rounds):
    """Compare with fits in this process; return the silos' prices there."""
    sys.path.insert(0, str(HERE))
    import server

    from skdpfl.datasets import fetch_heart_disease

    heart, same = fetch_heart_disease(), {}
    for name in estimators:
        model = server.model({"estimator": name, "rounds": rounds})
        model.fit(heart.data, heart.target, silos=heart.silos)
        with np.load(out / f"{name}.npz") as there:
            same[name] = bool(
                np.array_equal(model.coef_, there["coef"])
                and np.array_equal(model.intercept_, there["intercept"])
            )
    return same


def charged(out):
    """Return what each hospital's ledger holds: the cost of each fit, once."""
    from skdpfl.privacy import PrivacyLedger

    found = {}
    for name in HOSPITALS:
        ledger = PrivacyLedger(path=out / "hospitals" / name / "ledger", must_exist=True)
        found[name] = [(e.name.split(",")[0], e.spent.epsilon) for e in ledger.entries]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=0, help="fewer rounds (0: all)")
    parser.add_argument("--estimators", nargs="*", default=ESTIMATORS, choices=ESTIMATORS)
    parser.add_argument("--secure", action="store_true", help="with TLS and keys of SuperNodes")
    parser.add_argument("--patience", type=float, default=900, help="seconds for a fit")
    asked = parser.parse_args()
    out = asked.out.resolve()
    if (out / "hospitals").exists():
        raise SystemExit(f"{out} has hospitals of an earlier run; give another folder.")
    (out / "logs").mkdir(parents=True, exist_ok=True)
    write_records(out)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    seconds = {}
    with Deployment(out, asked.secure) as deployment:
        killer = Killer(deployment)
        for name in asked.estimators:
            killer.before(name)
            report = deployment.run(name, asked.rounds, asked.patience, killer)
            if "error" in report:
                raise SystemExit(f"{name}: {report['error']}")
            seconds[name] = report["seconds per round"]
            print(f"{name}: {np.median(seconds[name]):.2f} s a round", flush=True)
        refused = deployment.run(asked.estimators[0], asked.rounds, asked.patience)
        print(f"once more: {refused.get('error')}", flush=True)
        empty = deployment.run("empty", 5, asked.patience)
        seconds["Flower, empty"] = empty["seconds per round"]
        print(f"Flower's empty round: {np.median(seconds['Flower, empty']):.2f} s")
    result = {
        "pids": deployment.pids,
        "restarts": killer.restarts,
        "seconds per round": seconds,
        "refused": refused.get("error"),
        "charged": charged(out),
        "bit-identical": compare(out, asked.estimators, asked.rounds),
    }
    (out / "run.json").write_text(json.dumps(result, indent=1))
    print(json.dumps({k: v for k, v in result.items() if k != "seconds per round"}))
    if not all(result["bit-identical"].values()):
        raise SystemExit("The models differ from those of one process.")
    for name, entries in result["charged"].items():
        once = [fit for fit, _ in entries] == [each.split("-")[0] for each in asked.estimators]
        if not once or any(epsilon > 3 for _, epsilon in entries):
            raise SystemExit(f"The ledger of {name} does not count each fit once: {entries}")
    if "SilosMissing" not in str(result["refused"]) and len(asked.estimators) == 3:
        raise SystemExit("A fit beyond the hospitals' budgets was not refused.")


if __name__ == "__main__":
    main()
