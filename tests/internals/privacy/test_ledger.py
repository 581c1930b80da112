"""More of tests/privacy/test_ledger.py: what only private names show."""

import errno
import fcntl
import json
import math
import os
import shutil
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from benchmarks.ledger import EPSILON
from skdpfl.exceptions import BudgetExceeded, LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.events import Approximate, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.spending import book, filters
from skdpfl.privacy.spending.book import Budget, Damaged, Entry, read, written
from skdpfl.privacy.spending.filters import RenyiFilter, failure_share, filter_order, renyi_budget
from tests.privacy.test_ledger import cost, gaussian
from tests.privacy.test_ledger_file import SMALL, full, path


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.02, 1e-5), (0.3, 1e-9), (1.0, 1e-5), (8.0, 0.1), (300.0, 1e-2)]
)
def test_the_order_admits_most_and_its_budget_is_the_conversion(epsilon, delta):
    """exp((a - 1) (D - epsilon)) (1 - 1/a)^(a - 1) / a = delta (Canonne, Kamath and Steinke)."""

    def least_noise(log_above):  # mu^2 / 2 of the Gaussian that uses the budget of order a
        a = 1 + math.exp(log_above)
        return -renyi_budget(epsilon, delta, a) / a

    a = filter_order(epsilon, delta)
    best = minimize_scalar(least_noise, bounds=(-4, 9), method="bounded", options={"xatol": 1e-6})
    assert least_noise(math.log(a - 1)) <= best.fun * (1 - 1e-5)
    budget = renyi_budget(epsilon, delta, a)
    back = (a - 1) * (budget - epsilon) + (a - 1) * math.log1p(-1 / a) - math.log(a)
    assert back == pytest.approx(math.log(delta), rel=1e-9)
    assert renyi_budget(epsilon, 0.0, a) == -math.inf


@pytest.mark.parametrize("first", [0.0, 0.05, 0.2])
def test_the_share_of_delta_for_failures_does_not_depend_on_later_fits(first):
    """Paths that fail much and paths that fail little have the same Renyi budget."""
    delta = 1e-5
    share = failure_share(delta, first * delta)
    assert share == (delta / 10 if first <= 0.1 else delta / 2)
    start = (Approximate(0.0, first * delta), 1)

    def left(*failures):
        with PrivacyLedger(3.0, delta) as ledger:
            ledger.charge("first", cost(start))
            for f in failures:
                ledger.charge("later", cost((Gaussian(100.0), 1), (Approximate(0.0, f), 1)))
            costs = [entry.spent for entry in ledger.entries]
        rule = RenyiFilter(3.0, delta)
        return rule._filling(rule.taken(costs)).budget

    room = share - first * delta
    order = filter_order(3.0, delta)
    for failures in [(), (0.0,), (room / 3, room / 3), (0.99 * room,)]:
        assert left(*failures) == renyi_budget(3.0, delta - share, order)
    with pytest.raises(BudgetExceeded, match="failure probabilities"):
        left(0.9 * room, 0.2 * room)


def test_what_is_not_a_number_is_not_within_the_budget(monkeypatch):
    rule = RenyiFilter(1.0, 1e-5)
    monkeypatch.setattr(filters, "renyi", lambda *args: (math.nan, 0.0))
    with pytest.raises(BudgetExceeded):
        rule.admit(rule.taken([gaussian(0.01)]), gaussian(0.01))
    monkeypatch.setattr(filters, "renyi", lambda *args: (0.0, math.nan))
    with pytest.raises(BudgetExceeded):
        rule.admit(rule.taken([gaussian(0.01)]), gaussian(0.01))


def test_the_gaussian_filter_wastes_nothing_and_refuses_other_fits():
    """Squares of mu add up to that of the budget; what is no Gaussian mechanism is refused."""
    quarter = gaussian(gaussian_mu(2.0, 1e-5) / 2 * 0.9999)
    with PrivacyLedger(2.0, method="gaussian") as ledger:
        ledger.charge("quarter", quarter)
        with pytest.raises(BudgetExceeded):
            ledger.charge("sampled", cost((PoissonGaussian(50.0, 0.01), 1)))
        for _ in range(3):
            ledger.charge("quarter", quarter)
        with pytest.raises(BudgetExceeded):
            ledger.charge("more", gaussian(gaussian_mu(2.0, 1e-5) / 20))


__all__ = ["full", "path"]  # fixtures
#: a fit whose entry is longer than the next one
LONG = "last" * 400


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
def test_what_a_budget_admits_a_larger_one_admits(delta):
    """The guarantee after a raise: orders fall and budgets grow with epsilon."""
    epsilons = np.geomspace(0.01, 100, 60)
    orders = [filter_order(e, delta) for e in epsilons]
    assert all(a >= b for a, b in pairwise(orders))
    for left in (0.9 * delta, 0.5 * delta):
        budgets = [renyi_budget(e, left, a) for e, a in zip(epsilons, orders, strict=True)]
        assert all(a <= b for a, b in pairwise(budgets))


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 5, 9])
def test_every_flipped_bit_is_seen(full, n):
    """All bits of the header, and of some entries."""
    data = bytearray(full.read_bytes())
    lines = bytes(data).splitlines(keepends=True)
    start = sum(map(len, lines[:n]))
    for position in range(start, start + min(len(lines[n]), 160)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(Damaged):
                read(bytes(data))
            data[position] ^= 1 << bit
    assert read(bytes(data)).budget.epsilon == EPSILON


def test_an_entry_that_this_version_does_not_know_is_refused():
    body = written(Budget(1.0)).splitlines()[1]
    for change in ({"kind": "gift"}, {"epsilon": -1.0}, {"extra": 1}, {"method": []}, {"id": None}):
        plain = json.loads(body) | change
        if change == {"id": None}:
            del plain["id"]
        line = journal_line(plain)
        with pytest.raises(Damaged, match="entry 1"):
            read(line)


def test_a_settled_fit_was_charged_once():
    fit = Entry("fit", SMALL)
    for before in ([], [fit, fit]):
        with pytest.raises(Damaged, match="charged before, once"):
            read(written(Budget(1.0), *before, fit._replace(settled=True)))


def journal_line(plain):
    """Return a file of one entry, with digests that fit."""
    data = book._json(plain)
    return book._header(1, book._digest(data)) + data


def test_who_waits_too_long_is_told(full, monkeypatch):
    monkeypatch.setattr(book, "PATIENCE", 0.05)
    with PrivacyLedger(path=full) as ledger, open(full) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="another process held it"):
            ledger.charge("more", SMALL)
        fcntl.flock(held, fcntl.LOCK_UN)
        ledger.charge("more", SMALL)


def test_a_file_that_is_replaced_before_it_is_locked_gets_the_entry(full, monkeypatch):
    copy, flock = shutil.copy(full, f"{full}.copy"), fcntl.flock

    def late(*args):
        if os.path.exists(copy):
            os.replace(copy, full)
        flock(*args)

    with PrivacyLedger(path=full) as ledger:
        monkeypatch.setattr(fcntl, "flock", late)
        ledger.charge("more", SMALL)
    assert len(PrivacyLedger(path=full).entries) == 9


@pytest.mark.every
@pytest.mark.parametrize("kept", [1, 40, 79, 100, 1500, None])
@pytest.mark.parametrize("opened", [True, False])
def test_an_entry_that_its_writer_did_not_finish(full, kept, opened):
    """A whole one counts although the header lacks it, a part of one does not; both heal."""
    before = full.read_bytes()
    with PrivacyLedger(path=full) as ledger:
        ledger.charge(LONG, SMALL)
    line = full.read_bytes()[len(before) :]
    cut = before + (line if kept is None else line[:kept] + b"\0" * (kept == 100))
    full.write_bytes(before)
    with PrivacyLedger(path=full) as ledger:
        if not opened:
            assert len(ledger.entries) == 8
        full.write_bytes(cut)
        assert len(ledger.entries) == 8 + (kept is None)
        ledger.charge("after", SMALL)
        ledger.charge("after that", SMALL)
    names = [entry.name for entry in PrivacyLedger(path=full).entries]
    assert names[8:] == [LONG] * (kept is None) + ["after", "after that"]
    for wrong in (b"x", line + b"{", line + line, b"\n", line[:50] + b"\n"):
        full.write_bytes(before + wrong)
        with pytest.raises(LedgerError, match="No fit is admitted"):
            PrivacyLedger(path=full)


@pytest.mark.parametrize("call", range(4))
def test_a_disk_that_fails_on_the_way_leaves_what_was_there(full, call, monkeypatch):
    """Line, its way to the disk, header, its way to the disk."""
    left = [call]

    def failing(original):
        def run(*args):
            left[0] -= 1
            if left[0] == -1:
                raise OSError(errno.EIO, "Input/output error")
            return original(*args)

        return run

    before = full.read_bytes()
    with PrivacyLedger(path=full) as ledger:
        monkeypatch.setattr(os, "pwrite", failing(os.pwrite))
        monkeypatch.setattr(os, "fsync", failing(os.fsync))
        with pytest.raises(LedgerError, match="cannot be written: Input/output error"):
            ledger.charge("more", SMALL)
        assert full.read_bytes() == before
        ledger.charge("more", SMALL)
    assert len(PrivacyLedger(path=full).entries) == 9
