"""Servers that do as they like: whatever is asked, each release leaves once and is paid before.

Letters of several fits are sent in any order, repeated, changed and mixed, to a silo that may be
killed at any write and whose files have any dates. What has left it is then compared with what was
planned and with its ledger.
"""

import dataclasses
import hashlib
import os
import threading
from collections import defaultdict

import numpy as np
import pytest

from skdpfl.models import MLP
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Gate, SiloRecords, WireError, pack, unpack
from skdpfl.remote._letters import Agreement, Answer, Ask, Offer
from tests.remote.silos_here import Here, Killed, estimator, fit_elsewhere, problem, with_plan

FITS = {
    "scales, rounds, temperature": {"n_rounds": 2, "feature_bounds": (-4, 4)},
    "dealt batches": {"sampling": "disjoint", "n_rounds": 3, "scaling": None, "calibrate": False},
    "a network": {"model": MLP((2,)), "n_rounds": 2, "scaling": None, "calibrate": False},
}


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """What one silo is sent in each of three fits."""
    found = []
    for i, options in enumerate(FITS.values()):
        here = Here(tmp_path_factory.mktemp(f"fit{i}"), problem())
        fit_elsewhere(estimator(random_state=None, **options), here)
        found.append([unpack(letter) for name, letter in here.letters if name == "north"])
    return found


class Server:
    """Sends letters to a silo, remembers what left it, and kills it now and then."""

    def __init__(self, folder, seed, patch):
        X, y, silos = problem()
        self.records = SiloRecords("north", X[silos == 1], y[silos == 1], classes=[0, 1])
        self.path, self.rng, self.left = folder / "north.ledger", np.random.default_rng(seed), {}
        self.agreed: dict = {}
        self.kill, replace = False, os.replace

        def killed(source, target):
            if self.kill and str(target).endswith(".fit"):
                before = self.rng.random() < 0.5
                if not before:
                    replace(source, target)
                raise Killed
            replace(source, target)

        patch.setattr(os, "replace", killed)

    def send(self, letter):
        """Send a letter; keep the bytes of what leaves, by what they answer."""
        ledger = PrivacyLedger(9.0, 1e-3, path=self.path)
        self.kill = self.rng.random() < 0.15
        try:
            data = Gate(self.records, ledger).answer(pack(letter))
        except Killed:
            return None
        finally:
            self.kill = False
        answer = unpack(data)
        if isinstance(answer, Answer):
            place = answer.fit, answer.purpose, answer.number
            self.left.setdefault(place, set()).add(data)
        if isinstance(answer, Agreement):
            offer = hashlib.sha256(pack(letter)).hexdigest()
            self.agreed.setdefault(answer.fit, set()).add(offer)
        return answer

    def change_dates(self):
        """The clock was wrong, or a backup was unpacked: dates mean nothing."""
        for path in self.path.parent.rglob("*"):
            when = float(self.rng.uniform(0, 4e9))
            os.utime(path, (when, when))


def changed(letter, rng):
    """Return a letter with something else in one place."""
    if isinstance(letter, Offer):
        choices = [{"estimator": "b"}, {"index": 7}, {"seed": 1}, {"task": None}]
        z = letter.row.plan.noise_multiplier * rng.choice([0.5, 2.0])
        choices.append({"row": with_plan(letter.row, noise_multiplier=z)})
    else:
        choices = [{"number": int(rng.integers(-1, 5))}, {"clip_norm": 7.0}, {"task": None}]
        choices.append(
            {"purpose": str(rng.choice(["scales", "round", "temperature", "shift", "score"]))}
        )
        if isinstance(letter.content, np.ndarray):
            choices.append({"content": letter.content + rng.normal()})
    return dataclasses.replace(letter, **choices[rng.integers(len(choices))])


def some(seeds, fast):
    return [s if s < fast else pytest.param(s, marks=pytest.mark.slow) for s in range(seeds)]


@pytest.mark.parametrize("seed", some(12, 3))
def test_each_release_leaves_once_and_is_paid_before(monkeypatch, tmp_path, letters, seed):
    server = Server(tmp_path, seed, monkeypatch)
    rng, planned, done = server.rng, set(), defaultdict(int)
    for fit in letters:
        planned |= {(a.fit, a.purpose, a.number) for a in fit if isinstance(a, Ask)}
    for _ in range(90):
        which = int(rng.integers(len(letters)))
        fit, next_one = letters[which], done[which]
        move = rng.random()
        if move < 0.55:  # as it should be
            letter = fit[min(next_one, len(fit) - 1)]
            if isinstance(server.send(letter), Answer | Agreement):
                done[which] = max(next_one, min(next_one, len(fit) - 1) + 1)
        elif move < 0.75:  # any letter again, or too early
            server.send(fit[rng.integers(len(fit))])
        elif move < 0.95:
            server.send(changed(fit[rng.integers(len(fit))], rng))
        else:
            server.change_dates()
    assert server.left  # something was answered
    assert all(len(answers) == 1 for answers in server.left.values())
    rounds = {place for place in server.left if place[1] == "round"}
    assert {place for place in server.left if place[1] != "round"} <= planned
    assert rounds <= planned
    entries = PrivacyLedger(path=server.path, must_exist=True).entries
    assert len({entry.name for entry in entries}) == len(entries)
    begun = {fit for fit, _, _ in server.left}
    assert len(entries) >= len(begun)
    for fit in begun & server.agreed.keys():  # an agreement may be lost when the silo is killed
        # one that waits is forgotten when it is old, and another one agreed to: it was not paid
        offers = tuple(server.agreed[fit])
        assert sum(any(o in entry.name for o in offers) for entry in entries) == 1


def test_two_processes_of_one_silo_answer_as_one(tmp_path, letters):
    """The same and another letter at once, to gates that know nothing of each other."""
    first = next(letter for letter in letters[1] if isinstance(letter, Ask))
    X, y, silos = problem()
    records = SiloRecords("north", X[silos == 1], y[silos == 1], classes=[0, 1])

    def gate():
        return Gate(records, PrivacyLedger(9.0, 1e-3, path=tmp_path / "north.ledger"))

    assert isinstance(unpack(gate().answer(pack(letters[1][0]))), Agreement)
    other = dataclasses.replace(first, content=first.content + 1)
    asked, came = [pack(first), pack(other)] * 3, []
    threads = [threading.Thread(target=lambda d=d: came.append(gate().answer(d))) for d in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = {data for data in came if isinstance(unpack(data), Answer)}
    assert len(answers) == 1 and len(came) == 6
    entries = PrivacyLedger(path=tmp_path / "north.ledger", must_exist=True).entries
    assert len(entries) == 1


@pytest.mark.parametrize("seed", some(6, 1))
def test_bytes_that_were_changed_bring_no_second_release(monkeypatch, tmp_path, letters, seed):
    """Bits of letters that were flipped on their way: an answer, a refusal, never an exception."""
    server = Server(tmp_path, seed, monkeypatch)
    rng, sent = server.rng, [letter for fit in letters for letter in fit]
    for letter in letters[0][:3]:
        server.send(letter)
    for _ in range(60):
        data = bytearray(pack(sent[rng.integers(len(sent))]))
        for _ in range(int(rng.integers(1, 4))):
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        gate = Gate(server.records, PrivacyLedger(9.0, 1e-3, path=server.path))
        reply = gate.answer(bytes(data))
        answer = unpack(reply)
        if isinstance(answer, Answer):
            place = answer.fit, answer.purpose, answer.number
            server.left.setdefault(place, set()).add(reply)
    assert all(len(answers) == 1 for answers in server.left.values())
    with pytest.raises(WireError):
        unpack(bytes(3))
