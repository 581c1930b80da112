"""Letters by Flower: silos are found by name, again after a restart, and nothing waits forever."""

import time

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.supercore.task_identity import TaskIdentity
from sklearn.base import clone

from skdpfl.flower import FlowerCourier
from skdpfl.flower._client import content_of, letter_in
from skdpfl.models import Additive
from skdpfl.remote import SilosMissing
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem


@pytest.fixture(autouse=True)
def a_run():
    """Messages are made inside a run."""
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1


class Metadata:
    def __init__(self, reply_to):
        self.reply_to_message_id = reply_to


class Reply:
    """What a grid gives back."""

    def __init__(self, reply_to, letter):
        self.metadata, self.content = Metadata(reply_to), content_of(letter)

    def has_error(self):
        return False


class Grid:
    """Silos behind nodes; a node can be dead, and its silo then runs on another one."""

    def __init__(self, here):
        self.here, self.nodes = here, dict(enumerate(NAMES))
        self.dead, self.deaf, self.replies, self.count = set(), set(), {}, 0

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        assert len(messages)  # Flower reads them twice, and refuses none
        ids = []
        for message in messages:
            self.count += 1
            ids.append(str(self.count))
            node = message.metadata.dst_node_id
            if node in self.deaf:
                self.deaf.discard(node)  # one message is lost
            elif node not in self.dead:
                answer = self.here.gate(self.nodes[node]).answer(letter_in(message))
                self.replies[ids[-1]] = Reply(ids[-1], answer)
        return ids

    def pull_messages(self, ids):
        return [self.replies.pop(i) for i in list(ids) if i in self.replies]


CURVES = {"model": Additive(4), "feature_bounds": (-4, 4)}


@pytest.mark.parametrize("options", [{}, CURVES], ids=["linear", "curves"])
def test_a_fit_by_messages_is_that_of_one_process(tmp_path, options):
    data = problem()
    here = Here(tmp_path, data)
    grid = Grid(here)
    here.deliver = FlowerCourier(grid, timeout=5.0).deliver
    asked = estimator(calibrate=False, **options)
    model = fit_elsewhere(asked, here)
    assert np.array_equal(model.coef_, fit_here(clone(asked), data).coef_)
    assert model.coef_.shape[1] > 4 or not options


def test_a_silo_that_moved_to_another_node_gets_its_letter_there(tmp_path):
    grid = Grid(Here(tmp_path, problem()))
    courier = FlowerCourier(grid, timeout=5.0)
    assert set(courier.deliver(dict.fromkeys(NAMES, b"?"))) == set(NAMES)
    grid.dead.add(1)
    grid.nodes[77] = NAMES[1]
    assert set(courier.deliver(dict.fromkeys(NAMES, b"?"))) == set(NAMES)


def test_two_silos_of_one_name_are_told_apart(tmp_path):
    """Letters would go to whichever spoke last."""
    here, twin = Here(tmp_path, problem()), Here(tmp_path / "twin", problem())
    grid = Grid(here)
    courier = FlowerCourier(grid, timeout=5.0)
    courier.deliver(dict.fromkeys(NAMES, b"?"))
    gate = here.gate
    here.gate = lambda name: twin.gate(NAMES[1]) if name == "twin" else gate(name)
    grid.nodes[77] = "twin"
    with pytest.raises(SilosMissing, match="Two silos have the name 'north'"):
        courier.deliver(dict.fromkeys(NAMES, b"?"))


def test_a_gate_that_is_there_later_is_found(tmp_path):
    """Its SuperNode says who it is, and gets letters, as soon as the gate answers."""
    here = Here(tmp_path, problem())
    gate, count = here.gate, []

    class Nobody:
        def answer(self, letter):
            return b""

    def later(name):
        count.append(name)
        return Nobody() if name == NAMES[1] and count.count(name) in (1, 3) else gate(name)

    here.gate = later
    courier, begin = FlowerCourier(Grid(here), timeout=20.0), time.monotonic()
    assert set(courier.deliver(dict.fromkeys(NAMES, b"?"))) == set(NAMES)
    assert 5 < time.monotonic() - begin < 15


def test_nothing_waits_longer_than_its_time(tmp_path):
    grid = Grid(Here(tmp_path, problem()))
    grid.dead.add(0)
    begin = time.monotonic()
    came = FlowerCourier(grid, timeout=1.0).deliver(dict.fromkeys(NAMES, b"?"))
    assert set(came) == set(NAMES[1:]) and time.monotonic() - begin < 5
    for wrong in (0, float("inf")):
        with pytest.raises(ValueError, match="finite number of seconds"):
            FlowerCourier(grid, timeout=wrong)
