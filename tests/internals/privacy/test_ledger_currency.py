"""A ledger speaks of its own epsilon alone: spent, refused, left; in words, tables and a shell."""

import os
import re
import stat
import warnings

import pytest

from skdpfl.exceptions import BudgetExceeded, PrivacyLeakWarning
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from tests.guaranteed import cost_of


def costs(*events, neighbours="replace"):
    return cost_of(
        unit="record",
        trust="silo",
        neighbours=neighbours,
        delta=1e-5,
        compositions=[((event, 1),) for event in events],
    )


def gaussian(epsilon, delta=1e-5, neighbours="replace"):
    change = 2 if neighbours == "replace" else 1
    return costs(Gaussian(change / gaussian_mu(epsilon, delta)), neighbours=neighbours)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("method", ["renyi", "gaussian"])
@pytest.mark.parametrize("past", [[], [1.0], [0.3] * 5, [1.0, 0.2, 1.5]])
def test_what_remains_is_the_largest_epsilon_that_is_admitted(method, past, neighbours):
    with PrivacyLedger(3.0, 1e-5, method=method) as ledger:
        for i, epsilon in enumerate(past):
            ledger.charge(f"fit {i}", gaussian(epsilon, neighbours=neighbours))
        left = ledger.remaining
        assert 0 < left <= 3
        with pytest.raises(BudgetExceeded):
            ledger.check(gaussian(1.001 * left, neighbours=neighbours))
        ledger.charge("last", gaussian(left, neighbours=neighbours))
        assert ledger.table()["spent"].iloc[-1] == pytest.approx(3.0, rel=1e-3)


def test_a_refusal_says_epsilons_and_what_still_fits():
    with PrivacyLedger(3.0, 1e-5) as ledger:
        for _ in range(2):
            ledger.charge("fit", gaussian(1.2))
        with pytest.raises(BudgetExceeded) as refused:
            ledger.charge("third", gaussian(2.0))
    said = str(refused.value)
    assert "Renyi" not in said and "order" not in said and "mu" not in said.split()
    spent, made, own, fits = (
        float(re.search(pattern, said).group(1))
        for pattern in (
            r": ([\d.]+) of 3 is spent",
            r"would make it ([\d.]+);",
            r"by itself it costs epsilon=([\d.]+)\.",
            r"largest epsilon that still fits is ([\d.]+), for a fit of full batches",
        )
    )
    table = ledger.table()
    assert spent == pytest.approx(table["spent"].iloc[-1], rel=0.01) and made > 3 > spent
    assert own == pytest.approx(2.0, rel=0.01)
    assert fits == pytest.approx(ledger.remaining, rel=0.01)
    assert f"2 fits, {spent:g} is spent, {fits:g} fits" in repr(ledger)


def test_nothing_more_fits_when_failures_are_used_up():
    with PrivacyLedger(3.0, 1e-5) as ledger:
        ledger.charge("fit", costs(Approximate(0.1, 4e-6)))
        with pytest.raises(BudgetExceeded, match="would make it inf"):
            ledger.charge("fit", costs(Approximate(0.1, 4e-6)))
        assert 0 < ledger.remaining < 3
    with PrivacyLedger(1.0, 1e-5) as full:
        full.charge("fit", gaussian(1.0))
        with pytest.raises(BudgetExceeded, match="Nothing more fits"):
            full.charge("fit", gaussian(0.01))
        assert full.remaining == 0


@pytest.mark.skipif(os.name != "posix", reason="rights are POSIX's")
@pytest.mark.parametrize(("mode", "word"), [(0o644, "read"), (0o660, "write"), (0o600, None)])
def test_a_file_that_others_may_read_is_named(tmp_path, mode, word):
    path = tmp_path / "ledger"
    with PrivacyLedger(3.0, path=path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(mode)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with PrivacyLedger(path=path) as ledger:
            ledger.charge("fit", gaussian(0.5))
    said = [str(w.message) for w in caught if issubclass(w.category, PrivacyLeakWarning)]
    assert len(said) == (word is not None)
    assert not said or (f"Other users may {word}" in said[0] and str(path) in said[0])
