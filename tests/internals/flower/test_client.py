"""A silo's app: what goes wrong in it is no word of a Flower message."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from skdpfl.flower import client_app
from skdpfl.flower._client import content_of, letter_in
from skdpfl.remote import Hello, pack, unpack
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
