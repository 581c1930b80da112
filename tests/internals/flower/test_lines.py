"""Letters by lines that apps open to the server: the same model, and messages where one fails."""

import socket
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.supercore.task_identity import TaskIdentity

from skdpfl.flower import FlowerCourier
from skdpfl.flower._client import served
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


def until_killed(invitation, ask):
    with suppress(OSError):
        served(invitation, ask)


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
            threading.Thread(target=until_killed, args=args, daemon=True).start()
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


def test_a_line_is_for_who_was_invited_once(tmp_path, port):
    here = Here(tmp_path, problem())
    courier = FlowerCourier(Grid(here), timeout=5.0, line=f"127.0.0.1:{port}")
    courier._invited[b"a token"] = 1
    invitation, heard = courier._door[0] | {"token": b"a token"}, []

    def answer(letter):
        heard.append(letter)
        return here.gate("north").answer(letter)

    assert not served(invitation | {"token": b"another"}, answer)
    threading.Thread(target=served, args=(invitation, answer), daemon=True).start()
    while not courier._lines:
        time.sleep(0.01)
    assert not served(invitation, answer) and len(heard) == 3
    courier.close()
    assert not served(invitation, answer) and len(heard) == 3


def test_an_invitation_does_not_expire_while_its_line_is_open(port):
    """Nodes reply to it when the line has ended; Flower refuses replies to what has expired."""
    with_lines = FlowerCourier(Grid(None), timeout=5.0, line=f"127.0.0.1:{port}")
    assert with_lines._question(1).metadata.ttl > 3600
    with_lines.close()
    assert FlowerCourier(Grid(None), timeout=5.0)._question(1).metadata.ttl == 5.0
