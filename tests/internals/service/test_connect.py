"""A hospital dials a server on another host: two network namespaces, or loopback without root."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grpc")

from skdpfl.remote import new_identity, new_silo_key, public_key
from tests.remote.silos_here import estimator, fit_here, problem
from tests.service.hospital import Hospital

ROOT = Path(__file__).parents[3]
PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}
#: the server's host; silos other than "north" are in its process
SERVER = """
import sys
from pathlib import Path
from skdpfl.remote import LineCourier
from tests.remote.silos_here import Here, estimator, fit_elsewhere, problem

class Study(Here):
    def deliver(self, letters):
        there = {n: v for n, v in letters.items() if n == "north"}
        here = super().deliver({n: v for n, v in letters.items() if n != "north"})
        return here | line.deliver(there)

address, key, folder = sys.argv[1:]
line = LineCourier(address, {"north": key}, folder=folder, timeout=100.0)
print("ready", flush=True)
(Path(folder) / "silos").mkdir()
study = Study(Path(folder) / "silos", problem())
model = fit_elsewhere(estimator(calibrate=False, scaling=None, n_rounds=3), study)
print(model.coef_.tobytes().hex(), flush=True)
"""


@pytest.fixture
def hosts():
    """Yield the server's address, and what runs a command on each host."""
    names = [f"skdpfl-{os.getpid()}-{end}" for end in "sh"]
    try:
        for words in (
            *(f"netns add {name}" for name in names),
            f"link add s-{os.getpid()} netns {names[0]} type veth peer h netns {names[1]}",
            f"-n {names[0]} address add 10.77.0.1/24 dev s-{os.getpid()}",
            f"-n {names[0]} link set s-{os.getpid()} up",
            f"-n {names[1]} address add 10.77.0.2/24 dev h",
            f"-n {names[1]} link set h up",
        ):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        yield "10.77.0.1:7443", *(["ip", "netns", "exec", name] for name in names)
    except (OSError, subprocess.CalledProcessError):  # no root, no ip
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        yield address, [], []
    finally:
        with suppress(OSError):
            for name in names:
                subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.mark.slow
def test_a_hospital_dials_out_and_a_wrong_certificate_is_refused(tmp_path, hosts):
    address, at_server, at_hospital = hosts
    key, environment = new_silo_key(), os.environ | {"PYTHONPATH": str(ROOT)}
    north = Hospital(tmp_path / "north", roster='key = "north.key"')
    north.write("north.key", key)
    command = [*at_server, sys.executable, "-c", SERVER, address, public_key(key), str(tmp_path)]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    dialled = None
    try:
        north.start().wait()
        assert server.stdout.readline() == "ready\n"
        (tmp_path / "wrong.crt").write_bytes(new_identity(address.rpartition(":")[0])[1])
        silo = [*at_hospital, sys.executable, "-m", "skdpfl", "silo", "connect", address]
        silo += ["--socket", north.socket, "--certificate"]
        refused = subprocess.run(
            [*silo, tmp_path / "wrong.crt", "--once"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert refused.returncode == 1 and "CERTIFICATE_VERIFY_FAILED" in refused.stderr
        dialled = subprocess.Popen([*silo, tmp_path / "server.crt"], env=environment)
        coef = np.frombuffer(bytes.fromhex(server.stdout.readline()))
    finally:
        north.stop()
        for process in filter(None, (server, dialled)):
            process.kill()
            process.wait()
        server.stdout.close()
    assert (coef == fit_here(estimator(**PLAIN), problem()).coef_.ravel()).all()
