"""More of tests/remote/test_limits.py: what only private names show."""

import dataclasses
import os
import socket
import threading
import time

import numpy as np
import pytest

from skdpfl import _codec
from skdpfl.encoding import EncodedColumn
from skdpfl.models import MLP
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Gate, Refused, SiloRecords, WireError, pack, receive, send, unpack
from skdpfl.remote._memory import SiloStore
from skdpfl.remote._terms import LIMITS
from tests.remote.hostile_letters import letters_of_a_fit, message, with_field
from tests.remote.silos_here import problem


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    return letters_of_a_fit(tmp_path_factory.mktemp("fit"))


@pytest.fixture
def gate(tmp_path):
    X, y, silos = problem()
    records = SiloRecords("north", X[silos == 1], y[silos == 1], classes=[0, 1])
    return Gate(records, PrivacyLedger(1e9, 1e-3, path=tmp_path / "north.ledger"))


CODEC = _codec.LIMITS


def less(monkeypatch, **limits):
    """Make limits small, where they are read."""
    for module in ("_terms", "_letters", "_memory", "_gate", "_federation"):
        monkeypatch.setattr(f"skdpfl.remote.{module}.LIMITS", LIMITS._replace(**limits))


def too_large(data, words):
    with pytest.raises(WireError, match=words):
        unpack(data)


def refused(gate, data, words):
    assert words in unpack(gate.answer(data)).reason


def message_bytes(monkeypatch, gate, letters):
    data, model = pack(np.zeros(100)), MLP((200,)).build(4, 1)
    monkeypatch.setattr(_codec, "LIMITS", CODEC._replace(message_bytes=500))
    too_large(data, "largest allowed length")
    with pytest.raises(WireError, match="at most 500 can be sent"):
        pack(np.zeros(100))
    monkeypatch.setattr(_codec, "LIMITS", CODEC._replace(message_bytes=8_000))
    offer = unpack(letters[0])
    large = dataclasses.replace(offer, task=dataclasses.replace(offer.task, model=model))
    refused(gate, pack(large), "too large to be sent")
    one, other = socket.socketpair()
    with one, other:
        thread = threading.Thread(target=send, args=(one, bytes(9_000)), daemon=True)
        thread.start()
        with pytest.raises(OSError, match="too long"):
            receive(other, most=8_000)
        thread.join()  # the socket holds all of it


def offer_bytes(monkeypatch, gate, letters):
    """Questions may be as long as the plan can need, and no longer; servers see it first."""
    data = pack(np.zeros(LIMITS.offer_bytes // 8))
    refused(gate, data, "The letter is too long")
    offer = unpack(letters[0])
    model = MLP((300_000,)).build(4, 1)
    task = dataclasses.replace(offer.task, model=model)
    assert isinstance(
        unpack(gate.answer(pack(dataclasses.replace(offer, task=task)))).epsilon, float
    )
    refused(gate, data, "answers only Hello")
    for path in gate._memory.store.folder.glob("*.offer"):
        path.unlink()  # as are old ones
    refused(gate, data, "The letter is too long")
    less(monkeypatch, offer_bytes=100)
    with pytest.raises(Refused, match="at most 100 bytes"):
        letters_of_a_fit(gate._memory.store.folder.parent)


def header_bytes(monkeypatch, gate, letters):
    too_large(message(["x" * CODEC.header_bytes]), "The message's header has")
    with pytest.raises(WireError, match="The message's header has"):
        pack("x" * CODEC.header_bytes)


def header_parts(monkeypatch, gate, letters):
    too_large(message([0] * (CODEC.header_parts + 1)), "in 262,1.. parts")
    with pytest.raises(WireError, match="parts"):
        pack([0] * (CODEC.header_parts + 1))
    assert unpack(message([0] * (CODEC.header_parts - 1)))


def depth(monkeypatch, gate, letters):
    nested = 0
    for _ in range(CODEC.depth):
        nested = [nested]
    unpack(pack(nested))
    too_large(message([nested]), "too deep")
    with pytest.raises(WireError, match="too deep"):
        pack([nested])


def text_bytes(monkeypatch, gate, letters):
    """The array is never made: each entry would have the room of the longest one."""
    count = CODEC.text_bytes // 4 // 1000
    unpack(message({"t": ["x" * 1000, *[""] * (count - 1)], "s": [count]}))
    too_large(message({"t": ["x" * 1000, *[""] * count], "s": [count + 1]}), "Arrays of text")


def name(monkeypatch, gate, letters):
    long = "x" * (LIMITS.name + 1)
    for place in (("fit",), ("estimator",), ("requester",)):
        path = "v", *place
        refused(gate, with_field(letters[0], *path, value=long), "at most 200 characters")
    labels = with_field(letters[0], "v", "facts", "v", "classes", value=["a", long])
    refused(gate, labels, "at most 200 characters")


def purpose(monkeypatch, gate, letters):
    long = "x" * (LIMITS.purpose + 1)
    refused(
        gate,
        with_field(letters[0], "v", "purpose", value=long),
        "at most 2,000 characters in its purpose",
    )


def classes(monkeypatch, gate, letters):
    many = list(range(LIMITS.classes + 1))
    data = with_field(letters[0], "v", "facts", "v", "classes", value=many)
    refused(gate, data, "at most 10,000 classes")


def levels(monkeypatch, gate, letters):
    less(monkeypatch, levels=2)
    ward = EncodedColumn("ward", "category", levels=("a", "b", "c"), width=3)
    names = "ward_a", "ward_b", "ward_c", "ward_missing"
    offer = unpack(letters[0])
    facts = dataclasses.replace(offer.facts, columns=(ward,), n_features=4, feature_names=names)
    data = pack(dataclasses.replace(offer, facts=facts))
    refused(gate, data, "kinds, ranges or levels of the fit's columns are inconsistent")


def rounds(monkeypatch, gate, letters):
    data = with_field(
        letters[0], "v", "row", "v", "plan", "v", "steps", value=[1] * (LIMITS.rounds + 1)
    )
    refused(gate, data, "at most 50,000 rounds")


def steps(monkeypatch, gate, letters):
    data = with_field(letters[0], "v", "row", "v", "plan", "v", "steps", value=[LIMITS.steps, 1])
    refused(gate, data, "at most 500,000 steps")


def releases(monkeypatch, gate, letters):
    offer = unpack(letters[0])
    first, *others = offer.row.sums
    many = dataclasses.replace(first, mus=first.mus[:1] * (LIMITS.releases + 1))
    row = dataclasses.replace(offer.row, sums=(many, *others))
    refused(gate, pack(dataclasses.replace(offer, row=row)), "at most 64 releases")


def offered(gate, letters, number):
    assert unpack(gate.answer(with_field(letters[0], "v", "fit", value=str(number)))).epsilon


def waiting_offers(monkeypatch, gate, letters):
    """Whoever was asked first is forgotten; what began stays."""
    less(monkeypatch, waiting_offers=3)
    folder = gate._memory.store.folder
    offered(gate, letters, 0)
    gate.answer(with_field(letters[1], "v", "fit", value="0"))
    for number in range(1, 6):
        offered(gate, letters, number)
        for path in folder.glob("*.offer"):  # one a second
            os.utime(path, ns=tuple(t - 10**9 for t in (path.stat().st_mtime_ns,) * 2))
    assert len(list(folder.glob("*.offer"))) == 3 and len(list(folder.glob("*.fit"))) == 1
    ask = [with_field(letters[1], "v", "fit", value=str(n)) for n in range(6)]
    refused(gate, ask[2], "has not agreed to this fit")
    assert unpack(gate.answer(ask[5])).values.size
    assert unpack(gate.answer(ask[0])).values.size


def waiting_days(monkeypatch, gate, letters):
    offered(gate, letters, 1)
    (old,) = gate._memory.store.folder.glob("*.offer")
    when = time.time() - (LIMITS.waiting_days + 1) * 86400
    os.utime(old, (when, when))
    offered(gate, letters, 2)
    assert not old.exists() and len(list(gate._memory.store.folder.glob("*.offer"))) == 1


def fits(monkeypatch, gate, letters):
    less(monkeypatch, fits=2)
    for number in range(2):
        offered(gate, letters, number)
        gate.answer(with_field(letters[1], "v", "fit", value=str(number)))
    refused(gate, with_field(letters[0], "v", "fit", value="3"), "It needs a new one")


TABLE = [
    message_bytes, header_bytes, header_parts, depth, text_bytes, offer_bytes, name, purpose,
    classes, levels, rounds, steps, releases, waiting_offers, waiting_days,
    fits,
]  # fmt: skip


@pytest.mark.parametrize("each", TABLE, ids=lambda f: f.__name__)
def test_a_limit_is_kept_in_words(monkeypatch, gate, letters, each):
    each(monkeypatch, gate, letters)


def test_pricing_does_not_keep_others_waiting(monkeypatch, gate, letters):
    """An offer is priced before the silo's lock is taken."""
    held = []
    locked = SiloStore.locked

    def seen(self):
        held.append("lock")
        return locked(self)

    monkeypatch.setattr(SiloStore, "locked", seen)
    spent = type(unpack(letters[0]).row).spent
    monkeypatch.setattr(
        "skdpfl.remote._row.Row.spent", lambda self, seed: held.append("price") or spent(self, seed)
    )
    gate.answer(letters[0])
    assert held == ["price", "lock"]
