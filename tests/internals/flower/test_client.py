"""A silo's app: what goes wrong in it is no word of a Flower message."""

import socket
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from skdpfl.flower import client_app, gate_app
from skdpfl.flower._client import content_of, letter_in
from skdpfl.remote import Hello, pack, receive, send, unpack
from skdpfl.remote._letters import Refusal
from tests.internals.remote.test_silence import LOADS, SECRET


@pytest.fixture(autouse=True)
def a_run():
    """Messages are made inside a run."""
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1


def asked(load):
    """Return what a server gets of a silo whose records are read by ``load``."""
    app = client_app(lambda config: load(), ledger=lambda config: None)
    message = Message(content_of(pack(Hello())), dst_node_id=1, message_type="query")
    return app(message, SimpleNamespace(node_config={"hospital": "north"}))


@pytest.mark.parametrize("load", LOADS, ids=lambda f: f.__name__)
def test_records_that_cannot_be_read_leave_no_word(load):
    """Flower sends the words of an exception to the server; none gets as far."""
    reply = asked(load)
    assert not reply.has_error()
    assert isinstance(unpack(letter_in(reply)), Refusal)
    assert SECRET.encode() not in letter_in(reply)


class Context:
    def __init__(self, **config):
        self.node_config = config


def test_an_app_carries_letters_to_a_gate(tmp_path):
    """And, where there is none, no word of it: the letter is sent again later."""
    path, app = tmp_path / "socket", gate_app()
    hello = Message(content_of(pack(Hello())), dst_node_id=1, message_type="query")
    assert letter_in(app(hello, Context(socket=str(path)))) == b""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        heard = []

        def answer():
            with door.accept()[0] as line:
                heard.append(receive(line))
                send(line, b"an answer")

        gate = threading.Thread(target=answer)
        gate.start()
        assert letter_in(app(hello, Context(socket=str(path)))) == b"an answer"
        gate.join()
    assert heard == [pack(Hello())]
