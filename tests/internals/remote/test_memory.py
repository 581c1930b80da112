"""Ledger, fits and count of a silo: an old copy of one of them is noticed, whatever comes next."""

import os
import shutil
from itertools import combinations

import numpy as np
import pytest

from skdpfl.exceptions import LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Gate, SiloRecords, unpack
from skdpfl.remote._letters import Agreement, Answer, Refusal
from skdpfl.remote._memory import SiloStore
from tests.remote.hostile_letters import letters_of_a_fit, with_field
from tests.remote.silos_here import Killed, problem

PARTS = ("ledger", "folder", "count")


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    return letters_of_a_fit(tmp_path_factory.mktemp("fit"))


class Silo:
    """A silo whose files can be copied and put back; each letter meets a new Gate."""

    def __init__(self, home, budget=1e9):
        X, y, silos = problem()
        self.records = SiloRecords("north", X[silos == 1], y[silos == 1], classes=[0, 1])
        self.home, self.budget = home, budget
        self.home.mkdir(exist_ok=True)
        ledger = home / "north.ledger"
        self.paths = {"ledger": ledger, "folder": home / "fits", "count": home / "count"}

    def gate(self):
        ledger = PrivacyLedger(self.budget, 1e-3, path=self.paths["ledger"])
        folder, count = self.paths["folder"], self.paths["count"]
        return Gate(self.records, ledger, folder=folder, counter=count)

    def tell(self, letters, fit, n):
        """Tell it the next ``n`` letters of a fit; return the last answer."""
        for _ in range(n):
            answer = self.gate().answer(with_field(next(letters), "v", "fit", value=fit))
        return unpack(answer)

    def copy(self, to):
        shutil.copytree(self.home, to)

    def put_back(self, copy, parts):
        for part in parts:
            path, old = self.paths[part], copy / self.paths[part].name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(old, path) if old.is_dir() else shutil.copy(old, path)


SOME = [each for n in (1, 2) for each in combinations(PARTS, n)]


@pytest.mark.parametrize("parts", SOME, ids="+".join)
@pytest.mark.parametrize("next_one", ["a new fit", "the old fit", "the newer fit"])
def test_a_copy_from_before_a_fit_is_noticed(tmp_path, letters, parts, next_one):
    """Of one file or of two: the third one tells."""
    silo = Silo(tmp_path / "home")
    first, second, third = (iter(letters) for _ in range(3))
    silo.tell(first, "first", 3)
    silo.copy(tmp_path / "copy")
    assert isinstance(silo.tell(second, "second", 4), Answer)
    silo.put_back(tmp_path / "copy", parts)
    again = {"a new fit": (third, "third"), "the old fit": (first, "first")}
    answer = silo.tell(*again.get(next_one, (second, "second")), 1)
    assert isinstance(answer, Refusal) and "ledger cannot be used" in answer.reason


@pytest.mark.parametrize("parts", [("folder",), ("count",), ("ledger", "folder")], ids="+".join)
def test_a_copy_from_within_a_fit_is_noticed(tmp_path, letters, parts):
    """The ledger did not change; the silo would draw noise again for what it has answered."""
    silo = Silo(tmp_path / "home")
    fit = iter(letters)
    silo.tell(fit, "first", 3)
    silo.copy(tmp_path / "copy")
    silo.tell(fit, "first", 2)
    silo.put_back(tmp_path / "copy", parts)
    assert "ledger cannot be used" in silo.tell(iter(letters[3:]), "first", 1).reason


def test_five_fits_do_not_run_on_the_budget_of_one(tmp_path, letters):
    """Each time the ledger is put back as it was at the beginning."""
    silo = Silo(tmp_path / "home", budget=3.5)
    silo.gate()
    silo.copy(tmp_path / "copy")
    answers = []
    for number in range(5):
        fit = iter(letters)
        answers.append([silo.tell(fit, str(number), 1), silo.tell(fit, str(number), 1)])
        silo.put_back(tmp_path / "copy", ["ledger"])
    kinds = [[type(a) for a in each] for each in answers]
    assert kinds == [[Agreement, Answer], *[[Refusal, Refusal]] * 4]


@pytest.mark.parametrize("text", ["", "3", "a b", "-1 0", "1 2 3"])
def test_a_count_that_is_none_ends_everything(tmp_path, caplog, letters, text):
    silo = Silo(tmp_path / "home")
    silo.tell(iter(letters), "first", 3)
    silo.paths["count"].write_text(text)
    with pytest.raises(LedgerError, match="is damaged"):
        silo.gate()
    silo.paths["count"].unlink()
    assert "ledger cannot be used" in silo.tell(iter(letters), "second", 1).reason
    assert "write '2 1' into it" in caplog.text
    silo.paths["count"].write_text("2 2")  # of one fit more than the ledger has
    assert "ledger cannot be used" in silo.tell(iter(letters), "second", 1).reason
    silo.paths["count"].write_text("2 1")
    assert isinstance(silo.tell(iter(letters), "second", 2), Answer)


@pytest.mark.parametrize("after", range(6))
def test_a_process_that_is_killed_at_any_write_goes_on(monkeypatch, tmp_path, letters, after):
    """Each file is written or not; the next process finds files that belong together."""
    silo = Silo(tmp_path / "home")
    fit = iter(letters)
    silo.tell(fit, "first", 1)
    ask = with_field(next(fit), "v", "fit", value="first")
    replace, left = os.replace, [after // 2]

    def killed(source, target):
        if not left[0]:
            if after % 2:
                replace(source, target)
            raise Killed
        left[0] -= 1
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        try:
            sent = silo.gate().answer(ask)
        except Killed:
            sent = None
    assert (sent is None) == (after < 4)  # the answer, the count; the ledger is appended to
    again = silo.gate().answer(ask)
    assert isinstance(unpack(again), Answer) and sent in (None, again)
    assert silo.gate().answer(ask) == again
    assert isinstance(silo.tell(fit, "first", 1), Answer)
    assert len(PrivacyLedger(path=silo.paths["ledger"], must_exist=True).entries) == 1


@pytest.mark.parametrize("change", ["a number", "a label", "the order"])
def test_a_fit_does_not_go_on_with_other_records(tmp_path, letters, change):
    """Nor is it paid for, where they changed before its first question."""
    for told in (1, 3):
        silo = Silo(tmp_path / f"home{told}")
        fit = iter(letters)
        silo.tell(fit, "first", told)
        X, y = silo.records.X.copy(), silo.records.y.copy()
        if change == "a number":
            X[0, 0] += 1e-9
        elif change == "a label":
            y[0] = 1 - y[0]
        else:
            X, y = X[::-1].copy(), y[::-1].copy()
        silo.records = SiloRecords("north", X, y, classes=[0, 1])
        assert "have changed since it agreed" in silo.tell(fit, "first", 1).reason
        ledger = PrivacyLedger(path=silo.paths["ledger"], must_exist=True)
        assert len(ledger.entries) == (told > 1)


@pytest.mark.parametrize("agreed", [1, 2])
def test_two_gates_with_one_ledger_answer_a_fit_once(tmp_path, letters, agreed):
    """Each has a folder and a count of its own, and would draw the paid releases again."""
    one, other = Silo(tmp_path / "one"), Silo(tmp_path / "other")
    other.paths["ledger"] = one.paths["ledger"]
    mine, theirs = iter(letters), iter(letters)
    assert isinstance(other.tell(theirs, "first", 1), Agreement)
    assert isinstance(one.tell(mine, "first", 1 + agreed), Answer)
    for _ in range(2):
        assert "by another gate" in other.tell(theirs, "first", 1).reason
    assert isinstance(one.tell(mine, "first", 1), Answer)
    assert len(PrivacyLedger(path=one.paths["ledger"], must_exist=True).entries) == 1


def test_an_offer_that_was_paid_for_is_kept(tmp_path):
    """The process was killed before its answer: without the offer, no fit is gone on with."""
    store = SiloStore(tmp_path)
    store.write("fit", {"offer": np.zeros(1, np.uint8), "n_answers": 0})
    (file,) = store.files()
    os.utime(file.path, (0, 0))
    store.make_room({file.offer})
    assert store.files() == [file]
    store.make_room(set())
    assert not store.files()


def test_a_ledger_or_a_mark_that_is_gone(tmp_path, letters):
    silo = Silo(tmp_path / "home")
    silo.tell(iter(letters), "first", 3)
    (silo.paths["folder"] / "mark").unlink()
    with pytest.raises(LedgerError, match="old copy"):
        silo.gate()
    shutil.rmtree(silo.paths["folder"])
    silo.paths["ledger"].unlink()
    with pytest.raises(LedgerError, match="is missing"):
        silo.gate()


@pytest.mark.every
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"asked": 1.5}', '{"asked": 1.5, "yes": "no"}', '{"asked": "", "yes": null}'],
)
def test_a_damaged_question_is_asked_anew_and_is_no_yes(tmp_path, text):
    store, offer = SiloStore(tmp_path), b"an offer"
    assert store.verdict(offer, {"fit": "a"}) is None
    ((digest, _),) = store.questions().items()
    (tmp_path / f"{digest}.asked").write_text(text)
    assert not store.questions()
    assert store.verdict(offer, {"fit": "a"}) is None and store.questions().keys() == {digest}
