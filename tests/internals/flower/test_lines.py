"""Letters by lines that apps open to the server: the same model, and messages where one fails."""

import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.supercore.task_identity import TaskIdentity

from skdpfl.flower import FlowerCourier
from skdpfl.flower._client import served
from skdpfl.flower._lines import Door, OpenLine
from skdpfl.remote import receive, send
from tests.internals.flower.test_courier import Grid
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem


@pytest.fixture(autouse=True)
def a_run():
    """Messages are made inside a run."""
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class WithLines(Grid):
    """Nodes whose apps open lines; ``dead`` ones end their line at the next letter."""

    def __init__(self, here, outside=()):
        super().__init__(here)
        self.outside, self.letters, self.turn = set(outside), [], threading.Lock()

    def push_messages(self, messages):
        plain = []
        for message in messages:
            node = message.metadata.dst_node_id
            invitation = message.content.config_records.get("line")
            if invitation is None or node in self.outside:
                plain.append(message)
                continue
            plain.append(SimpleNamespace(metadata=SimpleNamespace(dst_node_id="a line")))
            args = (dict(invitation), lambda letter, node=node: self.answer(node, letter))
            threading.Thread(target=served, args=args, daemon=True).start()
        self.dead.add("a line")
        return super().push_messages(plain)

    def answer(self, node, letter):
        with self.turn:
            self.letters.append(node)
            if node in self.dead:
                self.dead.discard(node)
                raise OSError("its process was killed")
            return self.here.gate(self.nodes[node]).answer(letter)


def fitted(tmp_path, port, **options):
    """Return a fit by lines, beside one in this process, and the grid."""
    here, options = Here(tmp_path, problem()), {"calibrate": False, "n_rounds": 5} | options
    grid = WithLines(here, **options.pop("grid", {}))
    courier = FlowerCourier(grid, timeout=20.0, line=f"127.0.0.1:{port}")
    here.deliver = options.pop("deliver", lambda courier, grid: courier.deliver)(courier, grid)
    model = fit_elsewhere(estimator(**options), here)
    courier.close()
    assert np.array_equal(model.coef_, fit_here(estimator(**options), here.problem).coef_)
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4
    return grid


def test_a_fit_by_lines_is_that_of_one_process(tmp_path, port):
    """One message each, with the invitation, carries the whole fit."""
    grid = fitted(tmp_path, port)
    assert grid.count == len(NAMES) < len(grid.letters)


def test_a_silo_that_cannot_open_a_line_gets_messages(tmp_path, port):
    grid = fitted(tmp_path, port, grid={"outside": [2]})
    assert 2 not in grid.letters and grid.count > len(NAMES) + 5


def test_an_app_that_is_killed_is_invited_again(tmp_path, port):
    """Its letter is carried once more; the gate sends what it had written down."""

    def deliver(courier, grid):
        def each(letters):
            if len(grid.letters) > 20 and not grid.dead - {"a line"} and grid.count == 4:
                grid.dead.add(1)
            return courier.deliver(letters)

        return each

    grid = fitted(tmp_path, port, deliver=deliver)
    assert grid.count == len(NAMES) + 1


def test_a_gate_that_is_there_later_is_asked_again(tmp_path, port):
    """The line stays: what is missing is the gate's answer."""
    count = []

    def deliver(courier, grid):
        gate = grid.here.gate

        def later(name):
            count.append(name)
            gone = name == NAMES[1] and count.count(name) == 4
            return SimpleNamespace(answer=lambda letter: b"") if gone else gate(name)

        grid.here.gate = later
        return courier.deliver

    begin = time.monotonic()
    grid = fitted(tmp_path, port, deliver=deliver)
    assert grid.count == len(NAMES) and time.monotonic() - begin > 3


def test_a_line_is_for_who_was_invited_once(port):
    """And only a server with the certificate of the invitation is told the token."""
    door = Door(f"127.0.0.1:{port}")
    token, invitation = door.invitation()
    assert served(invitation | {"token": b"x" * len(token)}, None)  # closed at once
    met = threading.Thread(target=served, args=(invitation, lambda letter: letter), daemon=True)
    met.start()  # says no name
    met.join()
    assert door.met.empty() and served(invitation, None)
    door.close()
    assert not served(invitation, None)
    with socket.create_server(("127.0.0.1", port)) as other:
        thread = threading.Thread(target=lambda: other.accept()[0].close())
        thread.start()
        assert not served(invitation, None)
        thread.join()
    impostor = Door(f"127.0.0.1:{port}")
    assert not served(invitation, None)
    impostor.close()


def test_letters_that_are_under_way_are_not_sent_twice(port):
    """And answers come to whoever asked last."""
    one, other = socket.socketpair()
    line, first, second = OpenLine(one, 10.0), [], []
    line.ask(b"a letter", first.append)
    assert receive(other) == b"a letter"
    line.ask(b"a letter", second.append)
    send(other, b"an answer")
    end = time.monotonic() + 10
    while not second and time.monotonic() < end:
        time.sleep(0.01)
    assert (first, second) == ([], [b"an answer"])
    line.close()
    with other:
        other.settimeout(1)
        assert other.recv(1) == b""


def test_a_door_waits_for_its_port(port):
    """The run before, which was killed, may have it for a moment."""
    other = socket.create_server(("127.0.0.1", port))
    threading.Timer(0.3, other.close).start()
    door = Door(f"127.0.0.1:{port}")
    assert served(door.invitation()[1], lambda letter: b"")
    door.close()
