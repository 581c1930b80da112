"""TLS and SuperNode authentication, as the page writes them down: who is let in, and who is not."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

HERE = Path(__file__).parents[2] / "examples" / "flower"
#: seconds until SuperNodes have spoken to the SuperLink, or will not
PATIENCE = 120


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import demo

    yield demo
    for name in ("demo", "keys"):
        sys.modules.pop(name, None)


def online(deployment):
    """Return how many SuperNodes the SuperLink speaks to."""
    command = [str(Path(sys.executable).parent / "flwr"), "supernode", "list", "demo"]
    said = subprocess.run(
        [*command, "--format", "json"],
        env=deployment.environment,
        capture_output=True,
        check=True,
        timeout=120,
    )
    nodes = json.loads(said.stdout)["nodes"]
    return sum(node["status"] == "online" for node in nodes)


@pytest.mark.slow
def test_nodes_without_a_key_or_with_another_certificate_are_not_let_in(demo, tmp_path):
    (tmp_path / "logs").mkdir()
    deployment = demo.Deployment(tmp_path, secure=True)
    try:
        deployment.start_link()
        register = "supernode", "register"
        for name in ("east", "south"):
            deployment.flwr(*register, deployment.keys / f"{name}.pub", "demo")
        deployment.start_node("east")  # as it should be
        deployment.start_node("north")  # its key was not registered
        other = tmp_path / "other"
        demo.keys.write(other, "127.0.0.1", ["nobody"])
        right = deployment.node_security
        deployment.node_security = lambda name: [
            *("--root-certificates", other / "ca.crt"),
            *("--auth-supernode-private-key", deployment.keys / name),
        ]
        deployment.start_node("south")  # it trusts another authority
        deployment.node_security = lambda name: ["--insecure"]
        deployment.start_node("west")  # no TLS, no key
        deployment.node_security = right
        end = time.monotonic() + PATIENCE
        while not online(deployment):
            assert time.monotonic() < end, "the registered SuperNode is not let in"
        refused = ("north", "south", "west")
        while not all(_gave_up(deployment, name) for name in refused):
            assert time.monotonic() < end, [_log(deployment, name)[-600:] for name in refused]
            time.sleep(0.5)
        assert online(deployment) == 1
        for key in (*deployment.keys.iterdir(), *other.iterdir()):
            assert key.stat().st_mode & 0o077 == 0
    finally:
        deployment.__exit__()


def _log(deployment, name):
    return (deployment.out / "logs" / f"{name}.log").read_text()


def _gave_up(deployment, name):
    """Whether a SuperNode ended, or says that it cannot speak to the SuperLink."""
    said = _log(deployment, name)
    ended = deployment.nodes[name].poll() is not None
    return ended or "failed, retrying" in said or "refused" in said.lower()
