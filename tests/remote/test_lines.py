"""Lines by gRPC: silos dial in, both sides are known, and letters go the other way."""

import contextlib
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("grpc")

import grpc

from skdpfl.remote import (
    Hello,
    Introduction,
    LineCourier,
    LineServer,
    SilosMissing,
    dial,
    new_identity,
    new_silo_key,
    pack,
    public_key,
    sign_text,
    unpack,
)
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem

PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}
ROOT = Path(__file__).parents[2]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Study:
    """A server's port, and silos in this process that dial it."""

    def __init__(self, folder, *, timeout=20.0):
        self.address = f"127.0.0.1:{free_port()}"
        self.keys = {name: new_silo_key() for name in NAMES}
        self.here = Here(folder, problem(), keys=self.keys)
        public = {name: public_key(key) for name, key in self.keys.items()}
        self.courier = LineCourier(self.address, public, folder=folder / "tls", timeout=timeout)
        self.courier.problem = self.here.problem
        self.certificate = (folder / "tls" / "server.crt").read_bytes()
        self.open, self.lock, self.letters, self.gone = True, threading.Lock(), 0, set()

    def dial(self, name, address=None, certificate=None):
        """Open a line for a silo."""

        def answer(letter):
            with self.lock:
                self.letters += 1
                if self.letters in self.gone:
                    return b""  # its gate is being started
                return self.here.gate(name).answer(letter)

        dial(address or self.address, certificate or self.certificate, answer)

    def keep(self, name):
        """Dial again when the line ends, as the command does."""
        while self.open:
            with contextlib.suppress(ConnectionError):
                self.dial(name)
            time.sleep(0.05)

    def start(self, names=NAMES):
        for name in names:
            threading.Thread(target=self.keep, args=(name,), daemon=True).start()
        return self

    def close(self):
        self.open = False
        self.courier.close()


@pytest.fixture
def study(tmp_path):
    made = Study(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("gone", [(), (3, 9, 14)])
def test_the_model_is_that_of_one_process(study, gone):
    study.gone = set(gone)
    there = fit_elsewhere(estimator(**PLAIN), study.start().courier)
    assert (there.coef_ == fit_here(estimator(**PLAIN), problem()).coef_).all()


def test_a_line_that_breaks_is_opened_again(study):
    courier, deliver, count = study.start().courier, study.courier.deliver, []

    def breaking(letters):
        count.append(len(letters))
        if len(count) == 3:
            for line in list(courier._lines.values())[:2]:
                line.close()
        return deliver(letters)

    courier.deliver = breaking
    there = fit_elsewhere(estimator(**PLAIN), courier)
    assert (there.coef_ == fit_here(estimator(**PLAIN), problem()).coef_).all()


def test_a_silo_that_does_not_dial_in_is_named(tmp_path):
    study = Study(tmp_path, timeout=1.0).start(NAMES[:-1])
    with pytest.raises(SilosMissing, match=NAMES[-1]):
        fit_elsewhere(estimator(**PLAIN), study.courier)
    study.close()


def test_a_wrong_certificate_is_refused(study):
    with pytest.raises(ConnectionError, match=r"(?i)certificate|handshake|ssl"):
        study.dial("north", certificate=new_identity("127.0.0.1")[1])
    assert study.letters == 0  # no word has left


def test_a_certificate_for_another_host_is_refused(study):
    """It is the hospital's own, but names the server at 127.0.0.1."""
    with pytest.raises(ConnectionError, match=study.address.replace("127.0.0.1", "localhost")):
        study.dial("north", address=study.address.replace("127.0.0.1", "localhost"))
    assert study.letters == 0


@pytest.mark.parametrize("name", [NAMES[0], "nobody"])
def test_a_silo_is_known_by_its_key_alone(study, name):
    """A wrong key, or no name on the list."""

    def answer(letter):
        text = f"skdpfl line 1 {unpack(letter).challenge}"
        return pack(Introduction(name, "ab", sign_text(new_silo_key(), text)))

    with pytest.raises(ConnectionError, match="not known here"):
        dial(study.address, study.certificate, answer)


def test_a_challenge_of_another_server_is_not_passed_on(study, tmp_path):
    """Or a server that a hospital dials could pose as that hospital elsewhere."""
    other = Study(tmp_path / "other")
    other.courier._server._address = study.address  # it relays the challenge of the first
    heard = []
    with pytest.raises(ConnectionError, match="signature that is not for it"):
        dial(other.address, other.certificate, lambda letter: heard.append(letter) or b"")
    assert not heard
    other.close()


def test_nor_is_one_that_comes_later(study):
    """Each letter of a line could be the challenge of another server."""
    heard, failed = [], []

    def answer(letter):
        heard.append(unpack(letter))
        return study.here.gate("north").answer(letter)

    def dialled():
        try:
            dial(study.address, study.certificate, answer)
        except ConnectionError as error:
            failed.append(str(error))

    thread = threading.Thread(target=dialled)
    thread.start()
    end = time.monotonic() + 20
    while "north" not in study.courier._lines and time.monotonic() < end:
        time.sleep(0.05)
    assert unpack(study.courier.ask("north", pack(Hello()))).signature == ""
    with pytest.raises(ConnectionError):
        study.courier.ask("north", pack(Hello("elsewhere.example.org:7443 00ff")))
    thread.join(20)
    assert [each.challenge.partition(" ")[0] for each in heard] == [study.address, ""]
    assert "another signature" in failed[0]


def test_an_engine_that_gave_a_token_gets_no_signature(tmp_path):
    address, heard = f"127.0.0.1:{free_port()}", []
    identity = new_identity("127.0.0.1")
    server = LineServer(address, identity, lambda *_: False)
    with pytest.raises(ConnectionError, match="not known here"):
        dial(address, identity[1], lambda letter: heard.append(letter) or b"", token=b"t")
    assert heard == [pack(Hello())]
    server.close()


def test_a_server_waits_for_its_port(tmp_path):
    """The run before, which was killed, may have it for a moment."""
    address = f"127.0.0.1:{free_port()}"
    other = socket.create_server(("127.0.0.1", int(address.partition(":")[2])))
    threading.Timer(0.3, other.close).start()
    LineCourier(address, {}, folder=tmp_path).close()


def raw(address, certificate, messages):
    """Send gRPC messages as they are; return the status with which the call ends."""
    options = [("grpc.max_send_message_length", -1)]
    credentials = grpc.ssl_channel_credentials(certificate)
    with grpc.secure_channel(address, credentials, options) as channel:
        try:
            for _ in channel.stream_stream("/skdpfl/letters")(messages):
                pass
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def message(letter, size=None):
    return (len(letter) if size is None else size).to_bytes(8, "little") + letter


def test_an_answer_has_one_deadline_however_it_trickles_in():
    address, identity = f"127.0.0.1:{free_port()}", new_identity("127.0.0.1")
    lines, codes, done = queue.SimpleQueue(), queue.SimpleQueue(), threading.Event()
    server = LineServer(address, identity, lambda *known: lines.put(known[-1]) is None)

    def trickle():
        yield message(pack(Introduction("north", "ab", "")))
        yield message(b"x", 2**20)
        while not done.wait(0.1):
            yield b"x"

    thread = threading.Thread(target=lambda: codes.put(raw(address, identity[1], trickle())))
    thread.start()
    line = lines.get(timeout=20)
    with pytest.raises(ConnectionError, match="closed"):
        line.ask(b"a letter", 1.0)
    assert codes.get(timeout=20) == grpc.StatusCode.CANCELLED  # and its thread is free again
    done.set()
    thread.join()
    server.close()


SERVER = """
import sys
from skdpfl.remote import LineCourier
LineCourier(sys.argv[1], {}, folder=sys.argv[2])
print("ready", flush=True)
for line in sys.stdin:
    with open(sys.argv[2] + "/server.crt"):
        print("a file", flush=True)
"""


def peak(process):
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.slow
def test_strangers_leave_the_port_open_and_the_memory_free(tmp_path):
    """With 256 descriptors: 400 connections that say nothing, and introductions of a gigabyte."""
    address = f"127.0.0.1:{free_port()}"
    limited = f'ulimit -n 256; exec "{sys.executable}" -c "$0" {address} {tmp_path}'
    options = {"env": os.environ | {"PYTHONPATH": str(ROOT)}, "text": True}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", limited, SERVER], **pipes, **options) as process:
        assert process.stdout.readline() == "ready\n"
        certificate = (tmp_path / "server.crt").read_bytes()
        before, code = peak(process), grpc.StatusCode
        announced = [message(bytes(2**17), 2**30), *[bytes(2**17)] * 64]
        for messages, ends in ([bytes(2**26)], code.RESOURCE_EXHAUSTED), (announced, None):
            with ThreadPoolExecutor(8) as pool:
                asked = [pool.submit(raw, address, certificate, iter(messages)) for _ in range(8)]
            assert {each.result() for each in asked} <= {ends or code.UNAUTHENTICATED}
        assert peak(process) - before < 2**26
        with contextlib.ExitStack() as stack:
            for _ in range(400):
                line = stack.enter_context(socket.socket())
                line.settimeout(1)
                with contextlib.suppress(OSError):
                    line.connect(("127.0.0.1", int(address.partition(":")[2])))
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "a file\n"  # the fit's journal, for example
            end, words = time.monotonic() + 60, ""
            while "not known" not in words and time.monotonic() < end:
                try:
                    dial(address, certificate, lambda letter: b"")
                except ConnectionError as error:
                    words = str(error)
            assert "not known" in words  # it was heard, and has no name
        process.kill()
