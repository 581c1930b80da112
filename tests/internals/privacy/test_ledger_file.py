"""More of tests/privacy/test_ledger_file.py: what only private names show."""

import fcntl
import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ledger import EPSILON
from skdpfl._durable import beside
from skdpfl.exceptions import LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.spending import journal
from skdpfl.privacy.spending.book import Book, Budget, Damaged, read
from skdpfl.privacy.spending.filters import filter_order, renyi_budget
from tests.privacy.test_ledger_file import SMALL, full, path

__all__ = ["full", "path"]  # fixtures


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
def test_what_a_budget_admits_a_larger_one_admits(delta):
    """The guarantee after a raise: orders fall and budgets grow with epsilon."""
    epsilons = np.geomspace(0.01, 100, 60)
    orders = [filter_order(e, delta) for e in epsilons]
    assert all(a >= b for a, b in pairwise(orders))
    for left in (0.9 * delta, 0.5 * delta):
        budgets = [renyi_budget(e, left, a) for e, a in zip(epsilons, orders, strict=True)]
        assert all(a <= b for a, b in pairwise(budgets))


@pytest.mark.parametrize("n", [0, 1, 5, 9])
def test_every_flipped_bit_is_seen(full, n):
    """All bits of the header, and of some entries."""
    data = bytearray(full.read_bytes())
    lines = bytes(data).splitlines(keepends=True)
    start = sum(map(len, lines[:n]))
    for position in range(start, start + min(len(lines[n]), 120)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(Damaged):
                read(bytes(data))
            data[position] ^= 1 << bit
    assert read(bytes(data)).budget.epsilon == EPSILON


def test_an_entry_that_this_version_does_not_know_is_refused():
    book = Book().adding(Budget(1.0))
    for change in ({"kind": "gift"}, {"epsilon": -1.0}, {"extra": 1}, {"method": []}, {"id": None}):
        plain = json.loads(book.body) | change
        if change == {"id": None}:
            del plain["id"]
        line = journal_line(plain)
        with pytest.raises(Damaged, match="entry 1"):
            read(line)


def journal_line(plain):
    """Return a file of one entry, with digests that fit."""
    from skdpfl.privacy.spending import book

    data = book._json(plain)
    return book._header(1, book._digest(data)) + data


def test_who_waits_too_long_is_told(full, monkeypatch):
    monkeypatch.setattr(journal, "PATIENCE", 0.05)
    with PrivacyLedger(path=full) as ledger, open(full) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="another process held it"):
            ledger.charge("more", SMALL)
        fcntl.flock(held, fcntl.LOCK_UN)
        ledger.charge("more", SMALL)


def test_what_a_killed_writer_left_is_in_nobody_s_way(full):
    Path(beside(full, "new")).write_bytes(b"half a ledg")
    with PrivacyLedger(path=full) as ledger:
        ledger.charge("more", SMALL)
    assert os.listdir(full.parent) == [full.name]
