"""The ledger's file: what it holds, and that it fails closed wherever it is not what it was."""

import errno
import json
import math
import os
import pickle
import resource
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

from benchmarks.ledger import attack, changes, full_ledger, gaussian_fit
from skdpfl import DPFedEXPClassifier, ISRLDPClassifier
from skdpfl.exceptions import BudgetExceeded, LedgerError, PrivacyLeakWarning
from skdpfl.privacy import PrivacyLedger

X = np.random.default_rng(0).normal(size=(60, 3))
y = np.arange(60) % 2
SMALL = gaussian_fit(1e-4)


def model(epsilon=0.5, **params):
    return ISRLDPClassifier(epsilon, delta=1e-5, scaling=None, n_rounds=2, **params)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def full(path):
    full_ledger(path)
    return path


# ---- what it holds ---------------------------------------------------------------------------


def test_the_file_is_text_for_its_owner_with_chained_lines(full):
    assert stat.S_IMODE(full.stat().st_mode) == 0o600
    header, *entries = map(json.loads, full.read_text().splitlines())
    assert (header["format"], header["version"], header["count"]) == ("skdpfl-ledger", 1, 10)
    assert [entry["kind"] for entry in entries] == ["budget", "budget", *["fit"] * 8]
    assert entries[0]["epsilon"] == 1.0 and entries[1]["reason"] == "for the attack"
    assert entries[2]["spent"]["compositions"][0]["events"][0]["event"] == "Gaussian"
    assert os.listdir(full.parent) == [full.name]
    full.chmod(0o640)  # somebody shares it with a group: it stays shared
    with pytest.warns(PrivacyLeakWarning, match=r"Other users may read .*\(mode 640\)"):
        ledger = PrivacyLedger(path=full)
    with ledger:
        ledger.charge("more", SMALL)
    assert stat.S_IMODE(full.stat().st_mode) == 0o640


FITS = {
    "plain": (ISRLDPClassifier, {}),
    "sampled": (ISRLDPClassifier, {"sampling_rate": 0.3}),
    "own budgets": (ISRLDPClassifier, {"epsilon": {0: 0.5, 1: 1.0, 2: math.inf}}),
    "seeded": (ISRLDPClassifier, {"random_state": 3}),
    "shuffled": (ISRLDPClassifier, {"trust": "shuffler"}),
    "zeroed": (ISRLDPClassifier, {"neighbours": "add_remove"}),
    "whole silos": (DPFedEXPClassifier, {"trust": "server"}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:trust="shuffler" gains', "ignore:Hiding a whole silo")
@pytest.mark.parametrize(("kind", "params"), FITS.values(), ids=FITS)
def test_what_is_read_is_what_a_fit_cost(kind, params, path):
    params = {"epsilon": 0.5, "delta": 1e-5, "n_rounds": 2, "scaling": None} | params
    with PrivacyLedger(path=path):
        fitted = kind(**params).fit(X, y, silos=np.arange(60) % 3)
    (entry,) = PrivacyLedger(path=path).entries
    assert entry.name == kind.__name__
    assert entry.spent == fitted.privacy_spent_


# ---- the budget that is in it ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({"epsilon": 20.0}, "epsilon=2.0, not epsilon=20.0"),
        ({"epsilon": 1.0}, "epsilon=2.0, not epsilon=1.0"),
        ({"epsilon": 2.0, "delta": 1e-3}, "delta=1e-05, not delta=0.001"),
        ({"method": "renyi"}, "method='gaussian', not method='renyi'"),
        ({"neighbours": "add_remove"}, "neighbours='replace', not neighbours='add_remove'"),
    ],
)
def test_another_budget_is_refused(asked, wrong, path):
    opened = {"epsilon": 2.0, "method": "gaussian", "neighbours": "replace"}
    with PrivacyLedger(**opened, path=path):
        pass
    with pytest.raises(LedgerError, match=rf"ledger.jsonl.*{wrong}.*raise_budget"):
        PrivacyLedger(**asked, path=path)
    for same in ({}, opened, {"epsilon": 2}, {"delta": 1e-5}):
        again = PrivacyLedger(**same, path=path)
        assert (again.epsilon, again.delta, again.method) == (2.0, 1e-5, "gaussian")
        assert again.neighbours == "replace"


def test_a_budget_that_another_session_made_meanwhile_holds(path):
    early = PrivacyLedger(50.0, path=path)
    with PrivacyLedger(1.0, path=path):
        pass
    with pytest.raises(LedgerError, match=r"epsilon=1[.]0, not epsilon=50[.]0"), early:
        pass


def test_a_budget_is_raised_on_purpose(path):
    with PrivacyLedger(1.0, path=path) as ledger:
        model(0.9).fit(X, y)
        for wrong in (1.0, 0.5, -1, None, "2", math.inf):
            with pytest.raises(ValueError, match="epsilon must be"):
                ledger.raise_budget(wrong, reason="more")
        with pytest.raises(ValueError, match="reason must be a string"):
            ledger.raise_budget(2.0, reason="")
        with pytest.raises(BudgetExceeded):
            model(0.9).fit(X, y)
        ledger.raise_budget(4.0, reason="the board agreed")
        model(0.9).fit(X, y)
        assert ledger.epsilon == 4.0
    again = PrivacyLedger(4.0, path=path)
    assert [(b.epsilon, b.reason) for b in again.budgets] == [
        (1.0, "opened"),
        (4.0, "the board agreed"),
    ]
    assert len(again.entries) == 2
    with pytest.raises(LedgerError, match=r"epsilon=4[.]0, not epsilon=1[.]0"):
        PrivacyLedger(1.0, path=path)


def test_a_record_gets_a_budget_that_counts_what_was_fitted(path):
    with PrivacyLedger(path=path) as ledger:
        model(1.0).fit(X, y)
    with pytest.raises(LedgerError, match=r"epsilon=None, not epsilon=1[.]1"):
        PrivacyLedger(1.1, path=path)
    with PrivacyLedger(path=path) as ledger:
        ledger.raise_budget(1.1, reason="from now on")
        with pytest.raises(BudgetExceeded):
            model(1.0).fit(X, y)


def test_a_settled_fit_makes_no_later_one_of_its_name_cheaper(path):
    """Neither while the ledger is open nor where its file is read again."""
    with PrivacyLedger(4.0, 1e-5, path=path) as ledger:
        ledger.charge("fit", gaussian_fit(0.4))
        ledger.charge("other", gaussian_fit(0.1))
        ledger.settle("fit", gaussian_fit(0.05))
        ledger.charge("fit", gaussian_fit(0.4))
        left = ledger.remaining
        with pytest.raises(ValueError, match="must have one fit named"):
            ledger.settle("fit", gaussian_fit(0.05))
    again = PrivacyLedger(path=path, must_exist=True)
    assert [entry.settled for entry in again.entries] == [True, False, False]
    costs = [entry.spent.epsilon for entry in again.entries]
    assert costs == [gaussian_fit(mu).epsilon for mu in (0.05, 0.1, 0.4)]
    assert again.remaining == left


def test_a_file_that_must_exist(path):
    with pytest.raises(LedgerError, match="is gone"):
        PrivacyLedger(2.0, path=path, must_exist=True)
    assert not path.exists()
    with PrivacyLedger(2.0, path=path):
        pass
    assert PrivacyLedger(2.0, path=path, must_exist=True).entries == []
    with pytest.raises(ValueError, match="needs the path"):
        PrivacyLedger(2.0, must_exist=True)


# ---- a file that is not what it was ----------------------------------------------------------


@pytest.mark.slow
def test_damaged_files_are_refused_in_words(tmp_path):
    """A tenth of ``python benchmarks/ledger.py``."""
    table = attack(tmp_path, 30)
    assert len(table) == 6
    assert {end for ends in table.values() for end in ends} == {"ledger error"}


@pytest.mark.slow
def test_every_damage_is_refused_while_the_ledger_is_open(full):
    data = full.read_bytes()
    with PrivacyLedger(path=full) as ledger:
        for kind, changed in changes(data, 40, seed=1):
            if changed == data:
                continue
            full.write_bytes(changed)
            with pytest.raises(LedgerError, match=r"ledger.jsonl.*No fit is admitted"):
                ledger.charge(kind, SMALL)
            assert repr(ledger) == "PrivacyLedger(epsilon=2, delta=1e-05; unreadable)"
        full.write_bytes(data)
        ledger.charge("as it was", SMALL)


def test_a_file_that_vanishes_while_open_admits_nothing(path):
    with pytest.raises(LedgerError, match="is gone"), PrivacyLedger(1.5, path=path) as ledger:
        model(0.5).fit(X, y)
        path.unlink()
        for _ in range(3):
            with pytest.raises(LedgerError, match=r"ledger.jsonl.*is gone.*Restore it"):
                model(0.5).fit(X, y)
    assert ledger.closed and not path.exists()
    with pytest.raises(LedgerError, match="is gone"):
        ledger.entries  # noqa: B018


def test_the_block_s_own_error_comes_first(path):
    with pytest.raises(ZeroDivisionError), PrivacyLedger(1.5, path=path):
        path.unlink()
        1 / 0  # noqa: B018


def test_a_temporary_file_that_vanishes_admits_nothing_in_copies_either():
    with pytest.raises(LedgerError), PrivacyLedger(1.5) as ledger:
        copy = pickle.loads(pickle.dumps(ledger))
        os.unlink(ledger.record)
        with pytest.raises(LedgerError, match="is gone"):
            model(0.5).fit(X, y)
        with pytest.raises(LedgerError, match="lost its file"):
            copy.charge("fit", SMALL)


def test_an_older_copy_or_another_ledger_is_refused_while_open(full, tmp_path):
    older = full.read_bytes()
    with PrivacyLedger(path=full) as ledger:
        ledger.charge("more", SMALL)
        latest = full.read_bytes()
        other = tmp_path / "other"
        full_ledger(other)
        for put in (older, other.read_bytes()):
            full.write_bytes(put)
            with pytest.raises(LedgerError, match="another ledger or an older copy"):
                ledger.charge("more", SMALL)
        full.write_bytes(latest)


def test_a_second_name_is_refused(full, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    os.link(full, full.with_suffix(".copy"))
    with PrivacyLedger(path=full) as ledger, pytest.raises(LedgerError, match="second name"):
        ledger.charge("more", SMALL)


# ---- paths, disks, locks ---------------------------------------------------------------------


def test_paths_that_hold_no_ledger(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("no ledger\n")
    (tmp_path / "empty").touch()
    for name, wrong in {
        ".": "directory",
        "pipe": "not a regular file",
        "text": "is not a skdpfl-ledger",
        "empty": "is empty",
        "missing/file": "does not exist",
        "text/file": "does not exist",
    }.items():
        with pytest.raises(LedgerError, match=wrong), PrivacyLedger(1.0, path=tmp_path / name):
            pass
    for path in ("", b"", 3, "a\0b", ["x"]):
        with pytest.raises(ValueError, match="path must be a string"):
            PrivacyLedger(1.0, path=path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_may_not_be_written_can_be_read(full):
    full.parent.chmod(0o500)
    try:
        with PrivacyLedger(path=full) as ledger:
            assert len(ledger.entries) == 8
            with pytest.raises(LedgerError, match=r"Permission denied.*Give this user the right"):
                ledger.charge("more", SMALL)
    finally:
        full.parent.chmod(0o700)


def test_a_full_disk_refuses_the_fit_and_keeps_the_ledger(full):
    before, limits = full.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    with PrivacyLedger(path=full) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
        try:
            with pytest.raises(LedgerError, match=r"cannot be written: File too large"):
                ledger.charge("more", SMALL)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert full.read_bytes() == before
        assert os.listdir(full.parent) == [full.name]
        ledger.charge("more", SMALL)


@pytest.mark.parametrize("call", ["fsync", "pwrite"])
def test_errors_of_the_disk_are_in_words(full, call, monkeypatch):
    def failing(*args, **kwargs):
        raise OSError(errno.EIO, "Input/output error")

    with PrivacyLedger(path=full) as ledger:
        monkeypatch.setattr(os, call, failing)
        with pytest.raises(LedgerError, match="cannot be written: Input/output error"):
            ledger.charge("more", SMALL)
        monkeypatch.undo()
        ledger.charge("more", SMALL)


# ---- several at once -------------------------------------------------------------------------


@pytest.mark.slow
def test_no_process_loses_another_s_entry(path):
    def charge(ledger, k):
        for i in range(20):
            ledger.charge(f"{k}.{i}", gaussian_fit(1e-6))

    with PrivacyLedger(5.0, path=path) as ledger:
        Parallel(n_jobs=2)(delayed(charge)(ledger, k) for k in range(4))
    names = [entry.name for entry in ledger.entries]
    assert sorted(names) == sorted(f"{k}.{i}" for k in range(4) for i in range(20))


def test_threads_share_a_ledger(path):
    with PrivacyLedger(5.0, path=path) as ledger:
        errors = []

        def charge():
            try:
                for _ in range(20):
                    ledger.charge("fit", gaussian_fit(1e-6))
                    assert ledger.entries
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=charge) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    assert len(ledger.entries) == 80


@pytest.mark.parametrize("epsilons", [(9.0, 0.7), (0.7, 9.0)])
def test_where_one_ledger_refuses_none_is_charged(epsilons, tmp_path):
    # paths give the order in which they are asked
    outer, inner = (PrivacyLedger(e, path=tmp_path / f"{i}") for i, e in enumerate(epsilons))
    with outer, inner:
        model(0.5).fit(X, y)
        with pytest.raises(BudgetExceeded):
            model(0.6).fit(X, y)
        assert (len(outer.entries), len(inner.entries)) == (1, 1)


def test_a_ledger_that_is_not_open_is_not_charged(path):
    ledger = PrivacyLedger(1.0)
    with pytest.raises(LedgerError, match="is not open"):
        ledger.charge("fit", SMALL)
    with ledger:
        pass
    with pytest.raises(LedgerError, match="is not open"):
        ledger.charge("fit", SMALL)


# ---- killed processes ------------------------------------------------------------------------

#: kills a process just before its n-th call of the operating system that changes something
CRASHES = """
import os, signal, sys
from pathlib import Path
import benchmarks.ledger as attacks
from skdpfl.privacy import PrivacyLedger

CALLS = ("open", "link", "unlink", "replace", "fsync", "chmod", "pwrite", "ftruncate")

def die_at(n):
    left = [n]
    def counted(call):
        def run(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)
        return run
    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))

n, done = 0, False
while not done:
    path = Path(sys.argv[1]) / f"{n}.jsonl"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        die_at(n)
        with PrivacyLedger(3.0, path=path) as ledger:
            os.write(write, b"o")
            for _ in range(3):
                ledger.charge("fit", attacks.gaussian_fit(0.01))
                os.write(write, b"c")
        os._exit(0)
    os.close(write)
    done = os.waitpid(child, 0)[1] == 0
    shown = os.read(read, 10)
    os.close(read)
    if path.exists():
        ledger = PrivacyLedger(3.0, path=path)
        assert len(ledger.entries) >= shown.count(b"c"), (n, shown)
        if path.stat().st_nlink == 1:  # killed between two names: refused in words
            with ledger:
                ledger.charge("after", attacks.gaussian_fit(0.01))
            assert len(ledger.entries) >= shown.count(b"c") + 1
    else:
        assert not shown
    n += 1
print(n)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_step_has_paid_for_what_it_showed(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(CRASHES), str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    assert int(done.stdout) > 20


def test_two_ledgers_on_one_file_count_once(path):
    with PrivacyLedger(1.0, path=path) as outer, PrivacyLedger(path=path) as inner:
        model().fit(X, y)
    assert len(outer.entries) == len(inner.entries) == 1
