"""Replays fits on neighbouring data: does any sum tell more of one record than was priced?

::

    python benchmarks/replay.py                 # every case once
    python benchmarks/replay.py --seeds 40      # an hour
    python benchmarks/replay.py --only DPPCA

The first fit is recorded: every noised sum that it released, in order. The second fit has one
record (or one silo) replaced by a hostile one, and is handed the first fit's released numbers in
place of its own. What it computes from them, and from public numbers, must then be the same to the
last bit; the sums before noise may differ by as much as was priced:

    other calls, shapes, grids, noise, divisors, another model       a leak without any noise
    more than one silo's row of a sum differs                        silos are mixed
    |S - S'| / deviation above 2 / z (replaced) or 1 / z (zeroed)    a release is underpriced
    sum of (|S - S'| / deviation)^2 above the plan's                 so is the whole fit

z are the noise multipliers that ``privacy_spent_`` lists. Where only the lack of a silo is priced
(whole silos at the server) a replaced one is one lacking and one more, so 2 / z as well. A search
prices records that fits read and those that scores read apart: one of both has to hold. Coins
(batches, cohorts) follow from the integer seed and are the same in both fits. Messages by PrivUnit
and shuffled ones are no noised sums and are not covered.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

import skdpfl
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.models import MLP
from skdpfl.preprocessing import (
    DPPCA,
    DPMinMaxScaler,
    DPSimpleImputer,
    DPStandardScaler,
)
from skdpfl.privacy.release import grid

#: deviations of the noise in units of the grid, by the sum's dtype
UNITS = {"float32": 2.0**grid.UNIT_BITS, "float64": 2.0**grid.FINE_BITS}
#: what rounding of the comparison itself may add
SLACK = 1 + 1e-9


class Released(NamedTuple):
    """One noised sum: before noise, what it was divided and rounded by, and what came out."""

    exact: np.ndarray
    public: tuple[bytes, ...]
    deviation: np.ndarray
    result: np.ndarray


@dataclass
class Replay:
    """Sums in the order of their release; ``before`` are those whose results are handed out."""

    before: list[Released] | None = None
    sums: list[Released] = field(default_factory=list)

    def release(
        self,
        original: Callable[..., np.ndarray],
        exact: np.ndarray,
        units: np.ndarray,
        gamma: Any,
        out: np.ndarray | None = None,
        divisor: Any = 1.0,
    ) -> np.ndarray:
        """Note a sum and return its release, or that of the recorded fit."""
        exact_before = np.array(exact)
        public = tuple(np.asarray(v).tobytes() for v in (exact.shape, units, gamma, divisor))
        deviation = np.asarray(gamma, dtype=float) * UNITS[exact.dtype.name]
        result = original(exact, units, gamma, out=out, divisor=divisor)
        if self.before is not None and len(self.sums) < len(self.before):
            kept = self.before[len(self.sums)].result
            if kept.shape == result.shape:
                np.copyto(result, kept)
        self.sums.append(Released(exact_before, public, deviation, np.array(result)))
        return result


@contextmanager
def replaying(before: list[Released] | None = None) -> Iterator[Replay]:
    """Record all noised sums, wherever they are released."""
    original, replay = grid.snapped_release, Replay(before)

    def release(*args: Any, **kwargs: Any) -> np.ndarray:
        return replay.release(original, *args, **kwargs)

    holders = [m for name, m in list(sys.modules.items()) if name.startswith("skdpfl")
               and vars(m).get("snapped_release") is original]  # fmt: skip
    for module in holders:
        module.snapped_release = release  # type: ignore[attr-defined]
    try:
        yield replay
    finally:
        for module in holders:
            module.snapped_release = original  # type: ignore[attr-defined]


class Data(NamedTuple):
    """What is fitted, with the number of the record, or the silo, that the neighbour has not."""

    X: Any
    y: np.ndarray
    silos: np.ndarray
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class Case:
    """An estimator, how it is fitted, and which data have which neighbours."""

    name: str
    estimator: Any
    kind: str = "two"
    zeroed: bool = False

    def fit(self, data: Data) -> Any:
        """Return it fitted."""
        model = clone(self.estimator)
        more = {} if data.weights is None else {"sample_weight": data.weights}
        return model.fit(data.X, data.y, silos=data.silos, **more)


def judged(case: Case, data: Data, neighbour: Data) -> list[str]:
    """Return what is wrong: nothing, where one record's influence is what was priced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with replaying() as first:
            model = case.fit(data)
        with replaying(first.sums) as second:
            again = case.fit(neighbour)
    faults = []
    if len(first.sums) != len(second.sums):
        faults.append(f"{len(first.sums)} sums, on the neighbour {len(second.sums)}")
    moved = []
    for number, (one, other) in enumerate(zip(first.sums, second.sums, strict=False)):
        if one.public != other.public:
            faults.append(f"sum {number}: shape, noise, grid or divisor depend on the data")
            break
        change = np.abs(one.exact.astype(float) - other.exact.astype(float))
        if one.deviation.ndim and one.deviation.size > 1:
            rows = np.flatnonzero(change.reshape(len(change), -1).any(axis=1))
            if len(rows) > 1:
                faults.append(f"sum {number}: {len(rows)} silos' rows differ")
        ratio = np.divide(change, one.deviation, out=np.zeros_like(change), where=change > 0)
        moved.append(float(np.linalg.norm(ratio)))
    if state(model) != state(again):
        faults.append("the model depends on the record beside its noised sums")
    found = [overpriced(np.array(moved), priced) for priced in allowed(model, data, neighbour)]
    return faults + min(found, key=len)


def state(model: Any) -> bytes:
    """Return all that a fitted model holds."""
    return pickle.dumps(model)


def allowed(model: Any, data: Data, neighbour: Data) -> Iterator[np.ndarray]:
    """Yield the priced change over the deviation of each release that may read what changed."""
    spent = model.privacy_spent_.to_dict()
    compositions = spent["compositions"]
    if spent["per_silo"] is not None:
        silo = np.asarray(data.silos)[_rows_that_differ(data, neighbour)[0]]
        at = [str(s) for s in spent["per_silo"]["silo"]].index(str(silo))
        compositions = [compositions[spent["per_silo"]["composition"][at]]]
    change = 1.0 if data.weights is not None else 2.0
    for composition in compositions:
        noised = [event for event in composition["events"] if "noise_multiplier" in event]
        moved = [change / event["noise_multiplier"] for event in noised]
        yield np.repeat(moved, [event["count"] for event in noised])


def overpriced(moved: np.ndarray, priced: np.ndarray) -> list[str]:
    """Return whether one sum, or all of them, moved by more than was priced."""
    faults = []
    if moved.size and moved.max() > SLACK * priced.max():
        faults.append(f"a sum moved by {moved.max():.4g} deviations, priced {priced.max():.4g}")
    if (moved**2).sum() > SLACK * (priced**2).sum():
        total, most = np.sqrt((moved**2).sum()), np.sqrt((priced**2).sum())
        faults.append(f"all sums moved by {total:.4g} deviations, priced {most:.4g}")
    return faults


def _rows_that_differ(data: Data, neighbour: Data) -> np.ndarray:
    """Return the rows in which two data sets differ."""
    X, other = pd.DataFrame(data.X), pd.DataFrame(neighbour.X)
    differs = ~((other == X) | (X.isna() & other.isna())).all(axis=1).to_numpy()
    differs |= np.asarray(data.y) != np.asarray(neighbour.y)
    if data.weights is not None:
        differs |= data.weights != neighbour.weights
    return np.flatnonzero(differs)


FAMILIES = ("ISRLDP", "DPScaffold", "DPFedAvg", "DPFedEXP")
#: settings of all families that know them
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "bounds": {"feature_bounds": (-4, 4)},
    "private scaling": {"scaling": "private", "epsilon": 8.0},
    "given": {"n_rounds": 5, "learning_rate": 0.3, "clip_norm": 0.7, "scaling": None},
    "batches": {"n_rounds": 6, "sampling_rate": 0.3},
    "without replacement": {"sampling": "without_replacement", "sampling_rate": 0.25},
    "disjoint": {"sampling": "disjoint", "n_rounds": 5},
    "add remove": {"neighbours": "add_remove"},
    "server": {"trust": "server"},
    "server add remove": {"trust": "server", "neighbours": "add_remove"},
    "budgets": {"epsilon": {0: 0.5, 1: 1.0, 2: 2.0}},
    "fractions": {"silo_fraction": 0.7, "n_rounds": 8},
    "penalty": {"alpha": 0.5},
    "no intercept": {"fit_intercept": False},
    "steps": {"local_steps": 4, "n_rounds": 5},
    "schedule": {"noise_schedule": ("step", 0.9, 2), "n_rounds": 5, "local_steps": 3},
    "warm": {"warm_start_rounds": 3, "n_rounds": 6},
    "momentum": {"momentum": 0.5, "n_rounds": 6},
    "accelerated": {"solver": "accelerated"},
    "multistage": {"solver": "multistage", "alpha": 0.1},
    "local": {"solver": "local"},
    "whole silos": {"unit": "silo", "epsilon": 8.0},
    "whole silos, server": {"unit": "silo", "trust": "server", "epsilon": 8.0},
    "network": {"model": MLP((5,)), "feature_bounds": (-4, 4), "n_rounds": 6},
}
LOSSES = {"two": ("hinge", "squared_hinge"), "three": (), "regression": ("huber", "quantile")}


def cases() -> Iterator[Case]:
    """Yield every fit that is replayed."""
    for family in FAMILIES:
        for kind in ("two", "three", "regression"):
            word = "Regressor" if kind == "regression" else "Classifier"
            make = getattr(skdpfl, f"{family}{word}")
            losses = {loss: {"loss": loss} for loss in LOSSES[kind]}
            for name, settings in (SETTINGS | losses).items():
                if set(settings) <= set(make().get_params()):
                    estimator = make(random_state=3).set_params(**settings)
                    yield Case(f"{family} {kind} {name}", estimator, kind, zeroes(estimator))
    for name, estimator in OTHERS.items():
        yield Case(name, estimator)


#: transformers and searches
OTHERS = {
    "DPStandardScaler": DPStandardScaler(2.0, random_state=3),
    "DPStandardScaler bounds": DPStandardScaler(2.0, feature_bounds=(-4, 4), random_state=3),
    "DPMinMaxScaler": DPMinMaxScaler(2.0, feature_bounds=(-4, 4), random_state=3),
    "DPSimpleImputer": DPSimpleImputer(2.0, feature_bounds=(-4, 4), random_state=3),
    "DPSimpleImputer median": DPSimpleImputer(
        2.0, strategy="median", feature_bounds=(-4, 4), random_state=3
    ),
    "DPPCA": DPPCA(2, 2.0, random_state=3),
    "DPRandomizedSearchCV": DPRandomizedSearchCV(
        skdpfl.ISRLDPClassifier(n_rounds=4, feature_bounds=(-4, 4)),
        {"alpha": [0.0, 0.1, 1.0]},
        n_iter=3,
        epsilon=4.0,
        random_state=3,
    ),
}
SIZES = (40, 25, 31)
#: what a hostile record holds in all columns
VALUES = (0.0, 3.9, -1e3, 1e6, -1e150)


def data_of(case: Case, seed: int) -> tuple[Data, Data]:
    """Return records of three silos, and the same with one record, or one silo, replaced."""
    rng = np.random.default_rng(seed)
    n, hostile = sum(SIZES), rng.choice(VALUES)
    X, silos = rng.normal(size=(n, 4)), rng.permutation(np.repeat(np.arange(3), SIZES))
    y: np.ndarray = X @ rng.normal(size=4) + rng.normal(size=n)
    if case.kind != "regression":
        y = np.digitize(y, np.quantile(y, [0.5] if case.kind == "two" else [0.3, 0.7]))
    row = rng.integers(n)
    rows = np.flatnonzero(silos == silos[row]) if unit(case) == "silo" else np.array([row])
    if case.zeroed:
        weights = np.ones(n)
        weights[rows] = 0.0
        X[rows] = hostile
        return Data(X, y, silos, np.ones(n)), Data(X, y, silos, weights)
    other, labels = X.copy(), y.copy()
    other[rows] = hostile
    labels[rows] = -1e6 if case.kind == "regression" else y.max() - y[rows]
    X[rows] *= rng.choice([1.0, 1e3])
    return Data(X, y, silos), Data(other, labels, silos)


def zeroes(estimator: Any) -> bool:
    """Return whether the neighbour lacks a record, which is given no weight."""
    parameters = estimator.get_params()
    of_records = parameters.get("unit", "silo") == "record"
    return of_records and parameters["neighbours"] == "add_remove"


def unit(case: Case) -> str:
    """Return what is protected."""
    parameters = case.estimator.get_params()
    return str(parameters.get("unit", "silo" if "EXP" in case.name else "record"))


def main() -> None:
    """Replay all cases on some seeds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    wrong = fits = 0
    refused: dict[str, str] = {}
    for case in cases():
        if options.only not in case.name:
            continue
        for seed in range(options.seeds):
            try:
                found = judged(case, *data_of(case, seed))
            except ValueError as error:
                refused[str(error)[:90]] = case.name
                break
            fits += 1
            wrong += bool(found)
            for fault in found:
                print(f"{case.name}, seed {seed}: {fault}", flush=True)
    for words, name in refused.items():
        print(f"refused, as {name}: {words}")
    print(f"{fits} fits replayed, {wrong} at fault")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
