"""What an IT department audits: the chained log, who approved, junk, a full disk, reloading."""

import json
import os
import signal
import time
from dataclasses import replace

import pytest

from skdpfl.__main__ import main
from skdpfl.exceptions import LedgerError
from skdpfl.remote import (
    Hello,
    SilosMissing,
    Terms,
    ask_gate,
    new_silo_key,
    pack,
    public_key,
    unpack,
)
from skdpfl.remote._masks import requested
from skdpfl.remote._memory import AuditLog
from tests.internals.remote.test_limits import less
from tests.remote.hostile_letters import message, parts, with_field
from tests.remote.silos_here import Here, estimator, fit_elsewhere, problem
from tests.service.hospital import Hospital

PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}


class Approved(Here):
    """Silos where a person says yes to everything."""

    def gate(self, name):
        gate = super().gate(name)
        for digest in gate._memory.store.questions():
            gate._memory.store.say(digest, True, "ann")
        return gate


def audited(folder, name="north"):
    return list(AuditLog(folder / f"{name}.ledger.fits" / "audit.log").lines())


def test_the_log_has_what_was_approved_paid_and_refused(tmp_path):
    here = Approved(tmp_path, problem(), terms=Terms(approval=True))
    study = {"requester": "bob", "purpose": "study 7"}
    fit_elsewhere(estimator(**PLAIN), here, **study)
    offer = here.letters[0][1]
    here.gate("north").answer(with_field(offer, "v", "seed", value="x"))
    here.gate("north").answer(pack(3))
    lines = audited(tmp_path)
    assert [line["what"] for line in lines] == [
        "approved", "agreed", "charged", "last round", "refused", "refused",
    ]  # fmt: skip
    approved, agreed, charged, last, *_ = lines
    assert approved["who"] == "ann" and study.items() <= approved.items()
    assert agreed["n_features"] == 4 and "LogLoss" in agreed["loss"] and agreed["classes"] == [0, 1]
    assert 2.9 < charged["epsilon"] <= 3 and charged["offer"] == approved["offer"]
    assert last["rounds"] == 3
    assert len({line["fit"] for line in lines[:4]}) == 1


CHANGES = {
    "a value": lambda lines: [lines[0].replace("ann", "bob"), *lines[1:]],
    "a line less": lambda lines: [lines[0], *lines[2:]],
    "no line": lambda lines: [*lines[:2], "junk", *lines[2:]],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_log_is_noticed(tmp_path, name):
    log = AuditLog(tmp_path / "log")
    for who in ("ann", "ben", "cem"):
        log.add("approved", who=who)
    before = log.digest()
    lines = log.path.read_text().splitlines()
    log.path.write_text("\n".join(CHANGES[name](lines)) + "\n")
    with pytest.raises(LedgerError, match="was changed"):
        list(log.lines())
    log.path.write_text("\n".join(lines[:2]) + "\n")  # cut: the digest tells
    assert len(list(log.lines())) == 2 and log.digest() != before


@pytest.mark.parametrize("length", [1, 2**16 - 80, 2**16, 10**6])
def test_a_line_that_was_cut_by_a_kill_is_written_anew(tmp_path, length):
    """However long it is, or the one before: a server chose the names in it."""
    log = AuditLog(tmp_path / "log")
    log.add("one", who="x" * length)
    for what in ("two", "three"):
        with log.path.open("a") as file:
            file.write('{"n": 2, "wh' + "x" * length)
        log.add(what)
    assert [line["what"] for line in log.lines()] == ["one", "two", "three"]


KEYS = {name: new_silo_key() for name in ("ann", "bob")}
ROSTER = {name: public_key(key) for name, key in KEYS.items()}
#: what others make of an offer that ann signed
JUNK = {
    "not signed": lambda offer: pack(replace(offer, signature="")),
    "signed by another": lambda offer: pack(requested(KEYS["bob"], offer)),
    "of nobody listed": lambda offer: pack(requested(KEYS["ann"], replace(offer, requester="eve"))),
    "another price": lambda offer: with_field(pack(offer), "v", "seed", value=1),
    "the same, in other bytes": lambda offer: message(parts(pack(offer))[0], parts(pack(offer))[1]),
}


def ask(here, who, **key):
    """Return why silos do not take part yet."""
    with pytest.raises(SilosMissing) as missing:
        fit_elsewhere(estimator(**PLAIN), here, n_attempts=1, requester=who, **key)
    return str(missing.value)


def test_junk_takes_no_place_from_a_fit_that_waits(tmp_path, monkeypatch):
    """Neither before it comes nor after, not even by somebody else who may ask."""
    less(monkeypatch, waiting_offers=2)
    here = Here(tmp_path, problem(), terms=Terms(approval=True, requesters=ROSTER))
    gate, store = here.gate("north"), here.gate("north")._memory.store
    said = [ask(here, "bob", key=KEYS["bob"]) for _ in range(3)]
    assert ["Too many fits wait" in each for each in said] == [False, False, True]
    first = set(store.questions())
    assert "has to approve" in ask(here, "ann", key=KEYS["ann"])
    (mine,) = store.questions().keys() - first
    real = [data for name, data in here.letters if name == "north"][-1]
    for name, change in JUNK.items():
        letter = change(unpack(real))
        assert letter != real, name
        assert "only from requesters" in unpack(gate.answer(letter)).reason, name
    assert store.questions().keys() == first | {mine}
    assert store.questions()[mine]["signed_by"] == "ann"
    store.say(mine, True, "cem")
    assert type(unpack(gate.answer(real))).__name__ == "Agreement"


@pytest.mark.slow
def test_a_service_reloads_roster_and_log_and_leaves_no_socket(tmp_path):
    key = new_silo_key()
    roster = f'users = []\nkey = "north.key"\n\n[roster.silos]\nnorth = "{public_key(key)}"'
    north = Hospital(tmp_path / "hospital", roster=roster)
    north.write("north.key", key)
    north.start()
    try:
        north.wait()
        text = north.file.read_text()
        for new, said in (
            ('north = "00"', "not reloaded"),
            (f'east = "{"ab" * 32}"\nnorth =', "reloaded"),
        ):
            north.file.write_text(text.replace("north =", new, 1))
            (north.folder / "gate.log").rename(north.folder / "gate.log.1")
            os.kill(north.process.pid, signal.SIGHUP)
            written(north.folder, said)
            if said == "not reloaded":  # the log is still the old file
                (north.folder / "gate.log.1").rename(north.folder / "gate.log")
        assert (north.folder / "gate.log").exists()  # opened anew
        assert unpack(ask_gate(north.socket, pack(Hello()))).name == "north"
    finally:
        north.stop()
    assert not os.path.exists(north.socket)


def written(folder, what, patience=180.0):
    """Wait until a line is in a log."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        texts = [path.read_text() for path in folder.glob("gate.log*")]
        found = [json.loads(line)["what"] for text in texts for line in text.splitlines()]
        if any(each.startswith(what) for each in found):
            return
        time.sleep(0.1)
    raise TimeoutError(what)


def with_a_key(folder):
    """Return a hospital with a key and a roster."""
    key = new_silo_key()
    roster = f'key = "north.key"\n\n[roster.silos]\nnorth = "{public_key(key)}"'
    north = Hospital(folder / "hospital", roster=roster)
    north.write("north.key", key)
    return north


RIGHTS = {
    "a key for all": ("north.key", 0o666, "north.key: others can read it or write to it"),
    "a folder for all": ("", 0o777, "others can replace its files"),
    "a key for the group": ("north.key", 0o640, None),
}


@pytest.mark.parametrize("name", RIGHTS)
def test_rights_that_let_others_in_are_seen_by_check(tmp_path, name):
    path, mode, words = RIGHTS[name]
    north = with_a_key(tmp_path)
    (north.folder / "new").mkdir()
    text = north.file.read_text()
    if path == "new":  # for a ledger that is not there yet
        north.file.write_text(text.replace("north.ledger", "new/north.ledger"))
    (north.folder / path).chmod(mode)
    command = ["silo", "check", str(north.file)]
    if words is None:
        assert main(command) == 0
        return
    with pytest.raises(SystemExit, match=words):
        main(command)


def test_refusals_do_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("skdpfl.remote._memory._REFUSALS_A_DAY", 5)
    log = AuditLog(tmp_path / "log")
    for number in range(20):
        log.refused("x" * 10**6, f"reason {number}")
    assert len(list(log.lines())) == 5 and log.path.stat().st_size < 3000
