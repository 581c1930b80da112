"""Four hospitals on this computer, by NVFlare: three fits, each with something that is killed.

    python examples/nvflare/demo.py OUT          or   make nvflare-demo OUT=dir

needs no data and no network. It writes records of four synthetic hospitals, has NVFlare provision a
server and four sites (startup kits with certificates), starts them and a gate for each hospital, on
the loopback interface, and fits

    ISRL-DP                                 a site is killed with its gate: the job is aborted,
                                            and submitted again when the site is back
    DP-SCAFFOLD                             the server's job is killed, and submitted again
    ISRL-DP, noise that hospitals share     a hospital's gate is killed: the job goes on

with ``kill -9``. A fit that is submitted again goes on from its journal. The models are those of
one process, bit for bit, and each ledger has each fit once. A fourth fit is refused. At the sites a
job can run nothing but the executor that carries letters. All ends with this script.
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

import numpy as np
from nvflare.fuel.flare_api.flare_api import new_secure_session

HERE = Path(__file__).parent
FACTS_FOLDER = HERE.parent / "flower"  # the same study by another engine
sys.path.insert(0, str(FACTS_FOLDER))

import trial  # noqa: E402
from study import SIZES  # noqa: E402
from trial import BIN, answers, end, free_port, say  # noqa: E402

HOSPITALS = tuple(SIZES)
#: what is fitted, and what is killed meanwhile, after the hospital VICTIM has answered so often
FITS = {
    "ISRLDPClassifier": "site",
    "DPScaffoldClassifier": "server's job",
    "ISRLDPClassifier-secagg": "gate",
}
VICTIM, ANSWERS, ADMIN = "west", 3, "admin@study.org"
PROJECT = """
api_version: 3
name: study
builders:
- path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  args: {{template_file: [master_template.yml]}}
- path: nvflare.lighter.impl.static_file.StaticFileBuilder
  args: {{config_folder: config}}
- path: nvflare.lighter.impl.cert.CertBuilder
- path: nvflare.lighter.impl.signature.SignatureBuilder
participants:
- {{name: server, type: server, org: study, default_host: localhost, fed_learn_port: {port}}}
- {{name: {admin}, type: admin, org: study, role: project_admin}}
"""
#: a site's own rules: an admin may do what a fit needs; no job may bring code
RIGHTS = dict.fromkeys(("submit_job", "manage_job", "view"), "any") | {"byoc": "none"}
RULES = {"format_version": "1.0", "permissions": {"project_admin": RIGHTS}}


class Deployment:
    """A server, and four hospitals' gates and sites; all of them end with the block."""

    def __init__(self, out):
        self.out, self.port, self.session = out, free_port(), None
        self.server, self.sites, self.gates = None, {}, {}
        self.pids = {name: [] for name in HOSPITALS}
        self.kits = out / "poc" / "study" / "prod_00"
        self.environment = os.environ | {
            "HOME": str(out),  # where NVFlare keeps its settings
            "NVFLARE_POC_WORKSPACE": str(out / "poc"),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(HERE), str(FACTS_FOLDER), str(HERE.parents[1])]),
            "OMP_NUM_THREADS": "1",
        }
        (out / "logs").mkdir(mode=0o700)

    def __enter__(self):
        self.provision()
        self.start_server()
        for name in HOSPITALS:
            self.start_gate(name)
            self.start_site(name)
        os.environ["HOME"] = str(self.out)
        self.session = new_secure_session(ADMIN, str(self.kits / ADMIN), timeout=60)
        self.wait_for_sites()
        return self

    def provision(self):
        """Have NVFlare make a startup kit for each, and give sites their own rules."""
        text = PROJECT.format(port=self.port, admin=ADMIN)
        text += "".join(f"- {{name: {each}, type: client, org: study}}\n" for each in HOSPITALS)
        project = self.out / "project.yml"
        project.write_text(text)
        command = [BIN / "nvflare", "poc", "prepare", "-i", project]
        options = {"env": self.environment, "stdin": subprocess.DEVNULL, "check": True}
        with (self.out / "logs" / "provision.log").open("wb") as log:
            subprocess.run(command, stdout=log, stderr=log, **options)
        for name in HOSPITALS:
            gate = str(self.out / "hospitals" / name / "socket")
            only = ["skdpfl.nvflare.GateExecutor"]
            rules = {"class_allow_list": only, "allow_log_streaming": False, "skdpfl_gate": gate}
            self.change(name, rules)
            rights = self.kits / name / "local" / "authorization.json"
            rights.write_text(json.dumps(RULES))
        self.change("server", {"class_allow_list": ["controller.Study"]})

    def change(self, name, entries):
        """Write entries into the file in which a site says what is allowed there."""
        local = self.kits / name / "local"
        file = local / "resources.json"
        source = file if file.exists() else local / "resources.json.default"
        file.write_text(json.dumps(json.loads(source.read_text()) | entries))

    def start(self, name, command):
        return trial.start(command, self.out / "logs" / f"{name}.log", self.environment)

    def start_server(self):
        command = ["/bin/bash", self.kits / "server" / "startup" / "sub_start.sh", "--once"]
        self.server = self.start("server", command)
        trial.wait_for_port(self.port)

    def start_gate(self, name):
        self.gates[name] = self.start(f"{name}-gate", trial.gate_command(self.out, name))

    def start_site(self, name):
        command = ["/bin/bash", self.kits / name / "startup" / "sub_start.sh", "--once"]
        self.sites[name] = self.start(name, command)
        self.pids[name].append(self.sites[name].pid)

    def wait_for_sites(self, patience=120):
        last = time.monotonic() + patience
        while time.monotonic() < last:
            there = {client.name for client in self.session.get_connected_client_list()}
            if there >= set(HOSPITALS):
                return
            time.sleep(0.5)
        raise SystemExit(f"Only {sorted(there)} are connected; see {self.out}/logs.")

    def submit(self, report, config):
        """Submit a job: two files of settings, and no code."""
        folder = self.out / "jobs" / report
        workflow = {"id": "fit", "path": "controller.Study"}
        workflow["args"] = config | {"out": str(self.out), "report": report}
        executor = {"path": "skdpfl.nvflare.GateExecutor", "args": {}}
        files = {
            "meta.json": {
                "name": report,
                "resource_spec": {},
                "min_clients": len(HOSPITALS),
                "deploy_map": {"server": ["server"], "site": list(HOSPITALS)},
            },
            "server/config/config_fed_server.json": {"format_version": 2, "workflows": [workflow]},
            "site/config/config_fed_client.json": {
                "format_version": 2,
                "executors": [{"tasks": ["*"], "executor": executor}],
            },
        }
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))
        return self.session.submit_job(str(folder))

    def kill(self, what, job):
        """End processes at once, as a power cut would; start again what a supervisor would.

        Return whether the job has to be submitted again.
        """
        say(f"kill -9: the {what}")
        if what == "server's job":
            os.kill(process_of(self.out, "runner_process", job), signal.SIGKILL)
            return True
        end(self.gates[VICTIM])
        if what == "site":
            end(self.sites[VICTIM])
            self.session.abort_job(job)
            self.start_site(VICTIM)
        self.start_gate(VICTIM)
        return what == "site"

    def run(self, estimator, rounds, patience, victim=None, report=None):
        """Fit an estimator, while something is killed; return its report once it is there."""
        report, config = report or estimator, {"estimator": estimator, "rounds": rounds}
        path, due = self.out / f"{report}.json", answers(self.out, VICTIM) + ANSWERS
        looked, job = time.monotonic(), self.submit(report, config)
        last = looked + patience
        while not path.exists():
            if time.monotonic() > last or self.server.poll() is not None:
                raise SystemExit(f"{report} did not end in {patience} s: see {self.out}/logs")
            if victim and answers(self.out, VICTIM) >= due:
                if self.kill(victim, job):
                    self.wait_until_ended(job)
                    path.unlink(missing_ok=True)  # the report of the job that was aborted
                    self.wait_for_sites()
                    job = self.submit(report, config)
                victim = None
            if time.monotonic() - looked > 5:
                looked, status = time.monotonic(), self.session.get_job_status(job)
                if str(status).startswith("FINISHED") and not path.exists():
                    raise SystemExit(f"{report}: {status}; see {self.out}/logs/server.log")
            time.sleep(0.02)
        if victim:
            raise SystemExit(f"{report} ended before the {victim} was killed; give more --rounds.")
        return json.loads(path.read_text())

    def wait_until_ended(self, job, patience=120):
        last = time.monotonic() + patience
        while time.monotonic() < last:
            if str(self.session.get_job_status(job)).startswith("FINISHED"):
                return
            time.sleep(0.5)
        raise SystemExit(f"The job {job} did not end.")

    def __exit__(self, *_):
        if self.session is not None:
            self.session.close()
        for process in [*self.sites.values(), *self.gates.values(), self.server]:
            if process is not None and process.poll() is None:
                end(process)


def process_of(home, *words):
    """Return the number of a process of this deployment, by words of its command."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            mine = f"HOME={home}\0" in (each / "environ").read_text()
            command = (each / "cmdline").read_text()
            if mine and all(word in command for word in words):
                return int(each.name)
    raise SystemExit(f"There is no process {words}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--patience", type=float, default=300, help="seconds for a fit")
    asked = parser.parse_args()
    out, rounds, seconds = asked.out.resolve(), asked.rounds, {}
    if (out / "hospitals").exists():
        raise SystemExit(f"{out} has hospitals of an earlier run; give another folder.")
    trial.write_records(out)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    with Deployment(out) as deployment:
        say("a server, four gates and four sites are started")
        for name, victim in FITS.items():
            say(f"a job: {name}, {rounds} rounds")
            report = deployment.run(name, rounds, asked.patience, victim)
            if "error" in report:
                raise SystemExit(f"{name}: {report['error']}")
            seconds[name] = report["seconds per round"]
            say(f"{name}: {np.median(seconds[name]):.2f} s a round")
        again = deployment.run(next(iter(FITS)), rounds, asked.patience, report="again")
        say(f"once more: {again.get('error')}")
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
