"""What noise that silos share is worth: ``python benchmarks/shared_noise.py``.

Untuned models on held-out records, for three trusts at the same budget; one colluding silo. The
mean and its standard error over random splits into five parts (and, but for the hospitals, random
silos). Half a minute on one core. Data are looked for in ``$SKDPFL_DATA``.

``--gates 1000`` measures instead what a round over so many gates takes, all of them in this
process, without masks and with masks and shares: minutes.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss

from skdpfl import ISRLDPClassifier, ISRLDPRegressor, datasets, remote
from skdpfl.federation import Schema
from skdpfl.privacy import PrivacyLedger

TRUSTS = ("silo", "secagg", "server")
DELTA, TESTED = 1e-5, 5


class Case(NamedTuple):
    """A data set, the kind of silos (None: its own), a model and its budgets."""

    fetch: Callable[..., Any]
    n_silos: int | None
    model: type
    epsilons: tuple[float, ...]


CASES = {
    "insurance, ten random silos, R2": Case(
        datasets.fetch_insurance, 10, ISRLDPRegressor, (0.5, 1.0, 3.0)
    ),
    "obesity, ten random silos, accuracy": Case(
        datasets.fetch_obesity, 10, ISRLDPClassifier, (0.5, 1.0, 3.0)
    ),
    "heart disease, four hospitals, log loss": Case(
        datasets.fetch_heart_disease, None, ISRLDPClassifier, (1.0, 3.0)
    ),
}


def scores(case: Case, epsilon: float, trust: str, seeds: range) -> np.ndarray:
    """Return the held-out score of each split."""
    data = case.fetch()
    X, y, found = np.asarray(data.data), np.asarray(data.target), []
    n = len(y)
    known = {"feature_bounds": data.feature_bounds}
    if "target_bounds" in data:
        known["target_bounds"] = data.target_bounds
    for seed in seeds:
        rng = np.random.default_rng(seed)
        silos = np.asarray(data.silos) if case.n_silos is None else rng.integers(0, case.n_silos, n)
        held = rng.permutation(n) % TESTED == 0
        model = case.model(epsilon, delta=DELTA, trust=trust, random_state=seed, **known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # noise that drowns is what is shown
            model.fit(X[~held], y[~held], silos=silos[~held])
        if case.n_silos is None:
            found.append(log_loss(y[held], model.predict_proba(X[held]), labels=model.classes_))
        else:
            found.append(model.score(X[held], y[held]))
    return np.array(found)


def models(n_seeds: int) -> None:
    """Print the table."""
    print(f"| | epsilon | {' | '.join(TRUSTS)} |\n|---|---|---|---|---|")
    for name, case in CASES.items():
        for epsilon in case.epsilons:
            cells = []
            for trust in TRUSTS:
                found = scores(case, epsilon, trust, range(n_seeds))
                error = found.std(ddof=1) / math.sqrt(n_seeds)
                cells.append(f"{found.mean():.3f} ± {error:.3f}")
            print(f"| {name} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


class Gates(remote.Courier):
    """Silos in this process, each behind its gate; notes when each exchange ended."""

    def __init__(self, folder: Path, names: list[str], n_records: int, n_features: int) -> None:
        keys = {name: remote.new_silo_key() for name in names}
        terms = remote.Terms(silos={name: remote.public_key(key) for name, key in keys.items()})
        rng = np.random.default_rng(0)
        self.ended: list[float] = []
        self.gates: dict[str, remote.Gate] = {}
        for name in names:
            X, y = rng.normal(size=(n_records, n_features)), np.arange(n_records) % 2
            ledger = PrivacyLedger(10.0, 1e-3, path=folder / f"{name}.ledger")
            records = remote.SiloRecords(name, X, y, classes=[0, 1])
            self.gates[name] = remote.Gate(records, ledger, terms=terms, key=keys[name])

    def deliver(self, letters: Any) -> dict[str, bytes]:
        came = {name: self.gates[name].answer(letter) for name, letter in letters.items()}
        self.ended.append(time.perf_counter())
        return came


def round_over_gates(n_silos: int, trust: str, n_rounds: int = 7) -> float:
    """Return the median seconds of a round; the first one, in which silos start, is left out."""
    names = [f"silo {i}" for i in range(n_silos)]
    facts = Schema(silo_sizes=dict.fromkeys(names, 20), n_features=5)
    model = ISRLDPClassifier(
        3.0, delta=DELTA, n_rounds=n_rounds, trust=trust, classes=[0, 1], scaling=None,
        calibrate=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        gates = Gates(Path(folder), names, 20, 5)
        federation = remote.RemoteFederation(
            gates, facts, classes=[0, 1], estimator="a fit", masked=trust == "secagg"
        )
        model.fit_federation(federation, facts)
    return float(np.median(np.diff(gates.ended)[1 - n_rounds :]))


def over_gates(n_silos: int, n_turns: int = 2) -> None:
    """Print what a round over gates takes, in turns, and the ratio."""
    print("| gates | no masks, s | masks and shares, s | ratio |\n|---|---|---|---|")
    for _ in range(n_turns):
        plain, masked = (round_over_gates(n_silos, trust) for trust in ("silo", "secagg"))
        print(f"| {n_silos} | {plain:.2f} | {masked:.2f} | {masked / plain:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two splits")
    parser.add_argument("--gates", type=int, help="measure a round over so many gates")
    asked = parser.parse_args()
    if asked.gates:
        over_gates(asked.gates)
    else:
        models(2 if asked.quick else 5)
