"""Attacks on a ledger's file: what a damaged file admits, and what a killed process had written.

    python benchmarks/ledger.py            # 300 bit flips, 300 truncations, 50 kills
    python benchmarks/ledger.py --quick    # a tenth of that

A file is changed (bits flipped, cut anywhere, entries left out, repeated and swapped), then opened
and charged with small fits until it refuses. All that was admitted, before and after, must be
within the budget, and every refusal one in words. Then a process that fits in a loop is killed at
random moments (SIGKILL): every fit whose result it had shown must be in the ledger, which must
still open.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from skdpfl import ISRLDPClassifier
from skdpfl.exceptions import BudgetExceeded, LedgerError
from skdpfl.privacy import Guarantee, PrivacyLedger, PrivacySpent
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_mu

EPSILON, DELTA = 2.0, 1e-5
ROOM = gaussian_mu(EPSILON, DELTA) ** 2


def gaussian_fit(mu_squared: float) -> PrivacySpent:
    """Return the cost of a fit that is Gaussian with this mu squared."""
    return PrivacySpent.from_compositions(
        Guarantee(),
        delta=DELTA,
        compositions=[((Gaussian(2 / np.sqrt(mu_squared)), 1),)],
        silo_ids=["a", "b"],
        group_of_silo=[0, 0],
    )


def full_ledger(path: Path) -> float:
    """Write a ledger of eight fits, raised once; return how much of the budget is used."""
    shares = (0.3, 0.05, 0.1, 0.2, 0.05, 0.05, 0.1, 0.1)
    with PrivacyLedger(EPSILON / 2, DELTA, method="gaussian", path=path) as ledger:
        ledger.raise_budget(EPSILON, reason="for the attack")
        for k, share in enumerate(shares):
            ledger.charge(f"fit {k}", gaussian_fit(share * ROOM))
    return sum(shares)


def changes(data: bytes, n: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield what is done to the file, and the file after it."""
    draw = random.Random(seed)
    for _ in range(n):
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        yield "bit flip", bytes(changed)
    for cut in [0, *(draw.randrange(len(data)) for _ in range(n - 1))]:
        yield "truncation", data[:cut]
    lines = data.splitlines(keepends=True)
    for k in range(len(lines)):
        yield "entry cut out", b"".join(lines[:k] + lines[k + 1 :])
        yield "entry repeated", b"".join([*lines[: k + 1], *lines[k:]])
        if k:
            yield (
                "entries swapped",
                b"".join([*lines[: k - 1], lines[k], lines[k - 1], *lines[k + 1 :]]),
            )
            yield "last entries cut off", b"".join(lines[:k])


def admitted(path: Path, asked: dict[str, float], most: int = 25) -> tuple[float, str]:
    """Charge a ledger until it refuses; return the share of the budget given, and how it ended."""
    given = 0.0
    try:
        with PrivacyLedger(path=path, **asked) as ledger:
            for _ in range(most):
                ledger.charge("more", gaussian_fit(0.04 * ROOM))
                given += 0.04
    except BudgetExceeded:
        return given, "budget exceeded"
    except LedgerError:
        return given, "ledger error"
    except Exception as error:  # what must never come: an error that is not in words
        return given, f"raw {type(error).__name__}"
    return given, "no refusal"


def attack(folder: Path, n: int) -> dict[str, Counter[str]]:
    """Return, for each kind of change, how opening and charging the file ended."""
    path = folder / "ledger.jsonl"
    used = full_ledger(path)
    data = path.read_bytes()
    table: dict[str, Counter[str]] = {}
    for kind, changed in changes(data, n):
        if changed == data:
            continue
        for asked in ({}, {"epsilon": EPSILON, "delta": DELTA}):
            path.write_bytes(changed)
            given, end = admitted(path, asked)
            over = used + given > 1 + 1e-9
            table.setdefault(kind, Counter())["over budget" if over else end] += 1
    path.write_bytes(data)
    given, end = admitted(path, {})
    assert (round(given, 9), end) == (0.04, "budget exceeded"), (given, end)
    return table


def fit_for_ever(path: Path, out: int) -> None:
    """Fit small models in a loop; write a byte after each."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    with PrivacyLedger(1000.0, path=path):
        while True:
            ISRLDPClassifier(epsilon=0.01, delta=DELTA, n_rounds=1, scaling=None).fit(X, y)
            os.write(out, b".")


def kill(path: Path, seconds: float) -> int:
    """Let a process fit, kill it so long after its first fit, return how many fits it showed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        fit_for_ever(path, write)
    os.close(write)
    shown = len(os.read(read, 1))
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(read, 2**16):
        shown += len(more)
    os.close(read)
    return shown


def kills(folder: Path, n: int, seed: int = 0) -> Counter[str]:
    """Kill a process that fits, n times on one ledger; return the counts."""
    path, draw, counts = folder / "killed.jsonl", random.Random(seed), Counter()
    for _ in range(n):
        counts["fits shown"] += kill(path, draw.uniform(0, 0.2))
        counts["kills"] += 1
        n_entries = len(PrivacyLedger(path=path, must_exist=True).entries)
        counts["under-counted"] += n_entries < counts["fits shown"]
        counts["fits in the ledger"] = n_entries
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    n, n_kills = (30, 5) if parser.parse_args().quick else (300, 50)
    with tempfile.TemporaryDirectory() as folder:
        for kind, ends in attack(Path(folder), n).items():
            print(f"{kind:22s}", ", ".join(f"{end}: {times}" for end, times in ends.items()))
        print(", ".join(f"{what}: {times}" for what, times in kills(Path(folder), n_kills).items()))


if __name__ == "__main__":
    main()
