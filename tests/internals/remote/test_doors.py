"""Doors under few descriptors and little memory: who holds them does not keep others out."""

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from skdpfl.__main__ import main
from skdpfl.remote import Hello, ask_gate, connected, pack, receive, send, unpack
from skdpfl.remote._terms import LIMITS
from tests.remote.hostile_letters import memory
from tests.service.hospital import Hospital

ROOT, MB = Path(__file__).parents[3], 2**20


SCRIPT = """
import os, socket, sys, threading, time
from skdpfl.remote import Doorway, receive, send
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen(512)

def meet(line, short):
    with line:
        send(line, receive(line, seconds=2.0, idle=2.0))

hoard = []
threading.Thread(target=Doorway(door, meet, (8, 4, 1)).serve, daemon=True).start()
print("ready", flush=True)
for word in sys.stdin:
    if word == "hoard\\n":
        try:
            while True:
                hoard.append(os.dup(0))
        except OSError as error:
            print(error.errno, flush=True)
    else:
        for each in hoard:
            os.close(each)
        print(len(hoard), flush=True)
"""


@pytest.fixture
def door(tmp_path):
    """A process with 256 descriptors and a doorway, and the path of its socket."""
    path = str(tmp_path / "door")
    command = ["sh", "-c", f'ulimit -n 256; exec "{sys.executable}" -c "$0" "$1"', SCRIPT, path]
    options = {"env": os.environ | {"PYTHONPATH": str(ROOT)}, "text": True}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process, path
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def echoed(path, patience=20.0):
    """Return whether a letter comes back, within some attempts."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with suppress(OSError), connected(path) as line:
            send(line, b"a letter", seconds=5)
            if receive(line, seconds=5, idle=5) == b"a letter":
                return True
        time.sleep(0.1)
    return False


def tell(process, word):
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def test_a_door_without_descriptors_waits_for_some(door):
    """One error in accept closed the server's port for good."""
    process, path = door
    assert echoed(path)
    assert tell(process, "hoard") == 24  # EMFILE
    with connected(path) as line:
        time.sleep(0.5)
        assert tell(process, "free") > 100
        send(line, b"a letter")
        assert receive(line) == b"a letter"  # the same connection
    assert echoed(path)


def idle(stack, path, count):
    """Open connections that say nothing."""
    for _ in range(count):
        line = stack.enter_context(socket.socket(socket.AF_UNIX))
        line.settimeout(5)
        with suppress(OSError):
            line.connect(path)


def more_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))


@pytest.mark.slow
def test_a_gate_under_limits_says_that_it_is_well(tmp_path, capsys):
    """With 256 descriptors and 256 MB: idle lines, slow letters, announced and real large ones."""
    more_descriptors()
    north = Hospital(tmp_path / "hospital")
    limits = {resource.RLIMIT_NOFILE: 256}
    north.start(preexec_fn=lambda: [resource.setrlimit(k, (v, v)) for k, v in limits.items()])
    try:
        north.wait()
        before = memory("VmRSS", north.process.pid)
        with ExitStack() as stack:
            idle(stack, north.socket, 1100)
            for _ in range(40):
                slow = stack.enter_context(socket.socket(socket.AF_UNIX))
                with suppress(OSError):
                    slow.connect(north.socket)
                    slow.send((1000).to_bytes(8, "little") + b"x")
            assert main(["silo", "status", str(north.file)]) == 0
            assert "serving at" in capsys.readouterr().out
        with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as line:
            line.connect(north.socket)
            line.sendall((LIMITS.offer_bytes + 1).to_bytes(8, "little"))
            for _ in range(64):
                line.sendall(bytes(MB))
        large = threading.Thread(target=lambda: [letter(north.socket) for _ in range(3)])
        others = [threading.Thread(target=letter, args=(north.socket,)) for _ in range(8)]
        for thread in (large, *others):
            thread.start()
        for thread in (large, *others):
            thread.join()
        assert unpack(ask_gate(north.socket, pack(Hello()))).name == "north"
        assert memory("VmHWM", north.process.pid) - before < 256 * MB
    finally:
        north.stop()


def letter(path):
    """Bring a letter of the largest size, which is none."""
    with suppress(OSError):
        ask_gate(path, bytes(LIMITS.offer_bytes), timeout=60)


@pytest.mark.parametrize("name", ["remote.Hello", "remote.\\u0048ello"])
def test_a_letter_that_asks_for_a_signature_is_not_brought(name):
    """Whichever way it is spelt: only the first letter of a line may."""
    asks = pack(Hello("other:7443 00ff"))
    old = b'"remote.Hello"'
    new = f'"{name}"'.encode()
    length = int.from_bytes(asks[8:12], "little") + len(new) - len(old)
    asks = asks[:8] + length.to_bytes(4, "little") + asks[12:].replace(old, new)
    assert unpack(asks) == Hello("other:7443 00ff")
    with pytest.raises(PermissionError, match="signature"):
        ask_gate("/tmp/no-gate.socket", asks)
    with pytest.raises(FileNotFoundError):
        ask_gate("/tmp/no-gate.socket", pack(Hello()))
