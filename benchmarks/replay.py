"""Replays fits on neighbouring data: does any sum tell more of one record than was priced?

::

    python benchmarks/replay.py                 # every case once
    python benchmarks/replay.py --seeds 40      # an hour
    python benchmarks/replay.py --only DPPCA
    python benchmarks/replay.py --random 1000   # and as many random combinations of settings

The first fit is recorded: every noised sum that it released, in order. The second fit has one
record (or one silo) replaced by a hostile one, and is handed the first fit's released numbers in
place of its own. What it computes from them, and from public numbers, must then be the same to the
last bit; the sums before noise may differ by as much as was priced:

    other calls, shapes, grids, noise, divisors, another model       a leak without any noise
    another warning or error, another letter from a silo's gate      likewise
    more than one silo's row of a sum differs                        silos are mixed
    |S - S'| / deviation above 2 / z (replaced) or 1 / z (zeroed)    a release is underpriced
    sum of (|S - S'| / deviation)^2 above the plan's                 so is the whole fit

z are the noise multipliers that ``privacy_spent_`` lists. Where only the lack of a silo is priced
(whole silos at the server) a replaced one is one lacking and one more, so 2 / z as well. A search
prices records that fits read and those that scores read apart: one of both has to hold. Coins
(batches, cohorts) follow from the integer seed and are the same in both fits.

Whole silos have other numbers of records, too. Five releases are counted otherwise. What silos hide
in a common sum is added up before its noise, of which a colluding silo's share does not count. A
record's shuffled message is a share of its silo's sum: z is that of one message, and K of them have
sqrt(K) times its noise. Bits behind a shuffler are noised by a binomial draw: it is recorded, and
the shift of a sum has to be one that the protocol was priced for. A message by PrivUnit has no sum:
what is recorded is which randomiser took it, whose epsilon is to be what was priced, and that one
silo's message alone was another one. That the randomisers keep their epsilon is tested by their
laws (tests/privacy/test_privunit.py). Counts of names are compared name by name; a name that one
side alone has must have a count of 1, so that the threshold, whose delta is priced, hides it.
Batches with replacement, which may hold a record twice, and masks of silos elsewhere, whose keys
are drawn by chance, are not replayed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import itertools
import math
import pickle
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skdpfl
from skdpfl import inspection, preprocessing
from skdpfl.federation import Schema
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.models import MLP
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy import release as released
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.mechanisms import ShuffledGradients, ShuffledSums
from skdpfl.privacy.mechanisms.privunit import PrivUnitMechanism
from skdpfl.privacy.release import SharedNoise
from skdpfl.remote import Courier, Gate, RemoteFederation, SiloRecords, Terms
from skdpfl.scaling._value_counts import ColumnCounts, ValueCounts

#: deviations of the noise in units of the grid, by the sum's dtype
UNITS = {"float32": 2.0**released.UNIT_BITS, "float64": 2.0**released.FINE_BITS}
#: what rounding of the comparison itself may add
SLACK = 1 + 1e-9


#: how many of three silos may tell their noise in a common sum
COLLUDING = 1


#: what gives out numbers, as it is without being watched
Release = Callable[..., Any]


class Released(NamedTuple):
    """One noised sum: before noise, what it was divided and rounded by, and what came out.

    ``deviation`` is that of the noise; minus an epsilon for messages that were randomised.
    """

    exact: np.ndarray
    public: tuple[bytes, ...]
    deviation: np.ndarray
    result: Any
    names: tuple[Any, ...] = ()


@dataclass
class Replay:
    """Sums in the order of their release; ``before`` are those whose results are handed out."""

    before: list[Released] | None = None
    sums: list[Released] = field(default_factory=list)
    hidden: list[np.ndarray] = field(default_factory=list)

    def note(self, exact: Any, public: Any, deviation: Any, result: np.ndarray) -> None:
        """Add a release; ``result`` becomes that of the recorded fit."""
        if self.before is not None and len(self.sums) < len(self.before):
            kept = self.before[len(self.sums)].result
            if kept.shape == result.shape:
                np.copyto(result, kept)
        told = tuple(np.asarray(value).tobytes() for value in public)
        self.sums.append(Released(exact, told, np.asarray(deviation), np.array(result)))

    def release(
        self, original: Release, exact: np.ndarray, units: np.ndarray, gamma: Any
    ) -> np.ndarray:
        """Note a sum and return its release, or that of the recorded fit."""
        exact_before = np.array(exact)
        deviation = np.asarray(gamma, dtype=float) * UNITS[exact.dtype.name]
        result = original(exact, units, gamma)
        self.note(exact_before, (exact_before.shape, units, gamma), deviation, result)
        return result

    def rows(
        self, original: Release, rows: released.GridRows, exact: np.ndarray, units: np.ndarray
    ) -> np.ndarray:
        """Note sums that are rows, and return their release, or that of the recorded fit."""
        exact_before = np.array(exact)
        deviation = rows.grids[:, None].astype(float) * UNITS[exact.dtype.name]
        result = original(rows, exact, units)
        self.note(exact_before, (exact_before.shape, units, *rows), deviation, result)
        return result

    def named(
        self, original: Release, counts: ValueCounts, question: Any, streams: Any
    ) -> Callable[[int, ColumnCounts, int], ColumnCounts]:
        """Return what notes a column's counts, and gives out those of the recorded fit."""
        std = counts.noised(question.plan.budgets, question.mu).std
        giver = original(counts, question, streams)

        def give(silo: int, counted: ColumnCounts, column: int) -> ColumnCounts:
            number = len(self.sums)
            names, exact = counted.names, np.array(counted.counts)
            if self.before is not None and number < len(self.before):
                names, result = self.before[number].names, self.before[number].result
                exact = _aligned(names, self.before[number].exact, counted)
            else:
                result = giver(silo, counted, column)
                del self.sums[number:]  # the same sum, without its names
            deviation = np.asarray(std[silo])
            self.sums.append(Released(exact, (), deviation, result, names))
            return result

        return give

    def bits(
        self, original: Release, shuffled: ShuffledSums, plan: Any, aggregate: Any, *when: Any
    ) -> np.ndarray:
        """Note a sum of bits, in the priced Gaussian's deviations."""
        protocol = shuffled._run(plan, when[0])
        ones = np.rint(aggregate.total * (float(plan.expected_sizes.sum()) / protocol.unit))
        result = original(shuffled, plan, aggregate, *when)
        deviation = protocol.largest_shift * protocol.noise_multiplier / 2
        self.note(ones, (repr(protocol), aggregate.divisor), deviation, result)
        return result

    def share(
        self, original: Release, noise: SharedNoise, sums: np.ndarray, units: np.ndarray
    ) -> np.ndarray:
        """Keep what a silo hides in a common sum, before noise."""
        self.hidden.append(np.rint(sums / noise.grid) * noise.grid)
        return original(noise, sums, units)

    def total(self, original: Release, noise: SharedNoise, steps: np.ndarray) -> np.ndarray:
        """Note a common sum: its noise is what enough silos add, if the others tell theirs."""
        exact = sum(each.reshape(-1, *steps.shape).sum(axis=0) for each in self.hidden)
        self.hidden = []
        honest = noise.std * math.sqrt(noise.n_silos - COLLUDING)
        result = np.array(original(noise, steps))
        self.note(exact, (noise.std, noise.grid, noise.n_silos), honest, result)
        return result

    def randomised(
        self, original: Release, randomiser: PrivUnitMechanism, vectors: np.ndarray, *drawn: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Note messages by PrivUnit: a silo's is moved by all of its epsilon, or not at all."""
        given = np.array(vectors)
        both = np.column_stack(original(randomiser, vectors, *drawn))
        epsilon = randomiser.epsilon_direction + randomiser.epsilon_norm
        self.note(given, (repr(randomiser), *drawn), np.full((1, 1), -epsilon), both)
        return both[:, :-1].copy(), both[:, -1].copy()


def _aligned(names: tuple[Any, ...], before: np.ndarray, counted: ColumnCounts) -> np.ndarray:
    """Return the counts by ``names``; what has no name in one of both must be one record's."""
    now = dict(zip(map(repr, counted.names), counted.counts.tolist(), strict=True))
    counts = []
    for name, recorded in zip(names, before.tolist(), strict=True):
        alone = recorded if recorded == 1 else math.nan  # NaN is no change that was priced
        counts.append(now.pop(repr(name), alone))
    return np.array(counts) + (0.0 if all(count == 1 for count in now.values()) else math.nan)


@contextmanager
def replaying(before: list[Released] | None = None) -> Iterator[Replay]:
    """Record all noised sums, wherever they are released."""
    replay = Replay(before)
    importers = [module for name, module in list(sys.modules.items()) if name.startswith("skdpfl")
                 and vars(module).get("snapped_release") is released.snapped_release]  # fmt: skip
    releases = [(module, "snapped_release", replay.release) for module in importers]
    releases += [
        (released.GridRows, "release", replay.rows),
        (ValueCounts, "giver", replay.named),
        (ShuffledSums, "release", replay.bits),
        (SharedNoise, "steps", replay.share),
        (SharedNoise, "total", replay.total),
        (PrivUnitMechanism, "randomise", replay.randomised),
    ]
    with ExitStack() as patches:
        for holder, name, note in releases:
            noted = noting(note, getattr(holder, name))
            patches.enter_context(mock.patch.object(holder, name, noted))
        yield replay


def noting(note: Callable[..., Any], original: Release) -> Release:
    """Return a release that is noted; as a function it may be a method."""
    return lambda *args, **kwargs: note(original, *args, **kwargs)


class Data(NamedTuple):
    """What is fitted: records, their silos, and weights where a neighbour lacks a record."""

    X: Any
    y: np.ndarray
    silos: np.ndarray
    weights: np.ndarray | None = None
    persons: np.ndarray | None = None


class Pair(NamedTuple):
    """Two neighbouring data sets and the silo in which they differ."""

    data: Data
    neighbour: Data
    silo: int


@dataclass(frozen=True)
class Case:
    """An estimator, or a function of the data; what is predicted; which data are neighbours."""

    name: str
    estimator: Any
    kind: str = "two"
    zeroed: bool = False

    def fit(self, data: Data) -> Any:
        """Return it fitted; a function is called."""
        if callable(self.estimator):
            return self.estimator(data)
        model = clone(self.estimator)
        more = {} if data.weights is None else {"sample_weight": data.weights}
        more |= {} if data.persons is None else {"persons": data.persons}
        return model.fit(data.X, data.y, silos=data.silos, **more)


class Outcome(NamedTuple):
    """All that leaves a fit beside its noised sums."""

    model: Any
    public: bytes
    warnings: list[str]
    error: str

    @classmethod
    def of(cls, case: Case, data: Data) -> Outcome:
        """Fit, and keep what comes out of it; an error is an output, too."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model, error = case.fit(data), ""
            except ValueError as raised:
                model, error = None, str(raised)
        # that one seed served two tables is said to who holds both
        texts = [str(each.message) for each in caught if "random_state" not in str(each.message)]
        return cls(model, pickle.dumps(model), texts, error)


def judged(case: Case, pair: Pair) -> list[str]:
    """Return what is wrong: nothing, where one record's influence is what was priced."""
    with replaying() as first:
        one = Outcome.of(case, pair.data)
    with replaying(first.sums) as second:
        other = Outcome.of(case, pair.neighbour)
    faults = []
    if one.error != other.error:
        return [f"an error tells of the record: {one.error or other.error}"]
    if one.error:
        raise ValueError(one.error)
    if one.warnings != other.warnings:
        faults.append(f"warnings differ: {sorted(set(one.warnings) ^ set(other.warnings))}")
    if len(first.sums) != len(second.sums):
        faults.append(f"{len(first.sums)} sums, on the neighbour {len(second.sums)}")
    moved: list[float] = []
    sent: list[float] = []
    for number, (before, after) in enumerate(zip(first.sums, second.sums, strict=False)):
        if before.public != after.public:
            faults.append(f"sum {number}: shape, noise, grid or divisor depend on the data")
            break
        change = np.abs(before.exact.astype(float) - after.exact.astype(float))
        if before.deviation.ndim:
            rows = np.flatnonzero(change.reshape(len(change), -1).any(axis=1))
            if len(rows) > 1:
                faults.append(f"sum {number}: {len(rows)} silos' rows differ")
        if np.all(before.deviation < 0):  # a silo's message by PrivUnit
            sent.append(float(-before.deviation.max()) if change.any() else 0.0)
            continue
        ratio = np.divide(change, before.deviation, out=np.zeros_like(change), where=change != 0)
        moved.append(float(np.linalg.norm(ratio)))
    if one.public != other.public:
        faults.append("the model depends on the record beside its noised sums")
    found = [
        overpriced(np.array(moved), sums) + overpriced(np.array(sent), messages)
        for sums, messages in allowed(one.model, pair)
    ]
    return faults + min(found, key=len)


def cost_of(model: Any) -> Any:
    """Return what a model, a display or a frame cost."""
    return model.attrs["privacy_spent"] if hasattr(model, "attrs") else model.privacy_spent_


def allowed(model: Any, pair: Pair) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the priced changes of sums, over their deviations, and the epsilons of messages."""
    spent = cost_of(model).to_dict()
    compositions = spent["compositions"]
    if spent["per_silo"] is not None:
        at = [str(s) for s in spent["per_silo"]["silo"]].index(str(pair.silo))
        compositions = [compositions[spent["per_silo"]["composition"][at]]]
    change = 1.0 if pair.data.weights is not None else 2.0
    if spent["trust"] == "shuffler" and type(model.plan_.mechanism) is ShuffledGradients:
        plan, at = model.plan_, list(model.silo_ids_).index(pair.silo)
        factors, counts = plan.levels
        each = plan.noise_multiplier[at] * np.sqrt(plan.expected_sizes[at]) * factors
        setup = [each for each in plan.setup_of(at) if isinstance(each[0], Gaussian)]
        moved = [change / e.noise_multiplier for e, n in setup for _ in range(n)]
        yield np.append(np.repeat(change / each, counts[at]), moved), np.zeros(0)
        return
    for composition in compositions:
        events = composition["events"]
        noised = [event for event in events if "noise_multiplier" in event]
        sums = [change / event["noise_multiplier"] for event in noised]
        sent = [event for event in events if event["event"] == "Approximate"]
        yield (
            np.repeat(sums, [event["count"] for event in noised]),
            np.repeat([event["epsilon"] for event in sent], [event["count"] for event in sent]),
        )


def overpriced(moved: np.ndarray, priced: np.ndarray) -> list[str]:
    """Return whether one sum, or all of them, moved by more than was priced."""
    faults = []
    if not np.isfinite(moved).all():
        return ["counts of a name that one side alone has are those of several records"]
    if moved.size and moved.max() > SLACK * priced.max(initial=0.0):
        faults.append(f"a sum moved by {moved.max():.4g} deviations, priced {priced.max():.4g}")
    if (moved**2).sum() > SLACK * (priced**2).sum():
        total, most = np.sqrt((moved**2).sum()), np.sqrt((priced**2).sum())
        faults.append(f"all sums moved by {total:.4g} deviations, priced {most:.4g}")
    return faults


FAMILIES = ("ISRLDP", "DPScaffold", "DPFedAvg", "DPFedEXP")
BOUNDS = {"feature_bounds": (-4, 4)}
SHUFFLED = BOUNDS | {"trust": "shuffler"}
ROBUST = BOUNDS | {"inference": "intervals", "covariance": "robust"}
PERSONS: dict[str, Any] = {"unit": "person"}
#: settings of all families that know them
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "bounds": BOUNDS,
    "wide bounds": {"feature_bounds": (-400, 400), "epsilon": 100.0},
    "wide bounds, server": {"feature_bounds": (-400, 400), "trust": "server", "epsilon": 50.0},
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
    "intervals": BOUNDS | {"inference": "intervals", "epsilon": 30.0},
    "intervals robust": ROBUST | {"epsilon": 30.0, "trust": "secagg"},
    "whole silos": {"unit": "silo", "epsilon": 8.0},
    "whole silos, server": {"unit": "silo", "trust": "server", "epsilon": 8.0},
    "shuffler": SHUFFLED | {"n_rounds": 4},
    "shuffled batches": SHUFFLED
    | {"n_rounds": 4, "sampling": "without_replacement", "sampling_rate": 0.5},
    "shuffled sums": SHUFFLED | {"solver": "accelerated", "sampling": "disjoint"},
    "PrivUnit": {"mechanism": "privunit", "epsilon": 8.0, "n_rounds": 3},
    "additive": BOUNDS | {"model": "additive", "epsilon": 8.0},
    "additive server": BOUNDS | {"model": "additive", "trust": "server"},
    "shared noise": BOUNDS | {"trust": "secagg", "n_rounds": 5},
    "shared noise, curves": BOUNDS | {"trust": "secagg", "model": "additive"},
    "whole silos, shared noise": {"unit": "silo", "trust": "secagg", "epsilon": 8.0},
    "persons": PERSONS | BOUNDS,
    "persons, sums": PERSONS | {"contribution": "sum", "clip_norm": 0.7, "scaling": None},
    "persons, scaling": PERSONS | {"scaling": "private", "epsilon": 8.0},
    "persons, batches": PERSONS | {"n_rounds": 6, "sampling_rate": 0.3},
    "persons, server": PERSONS | BOUNDS | {"trust": "server"},
    "persons, shared noise": PERSONS | BOUNDS | {"trust": "secagg"},
    "persons, curves": PERSONS | BOUNDS | {"model": "additive", "epsilon": 8.0},
    "persons, zeroed": PERSONS | BOUNDS | {"neighbours": "add_remove"},
    "cut": {"clip_features": True, "feature_bounds": (-1, 1)},
    "shares": BOUNDS | {"classes": {0: 0.5, 1: 0.5}},
    "network": BOUNDS | {"model": MLP((5,)), "n_rounds": 6},
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
                fits = kind != "three" or not {"classes", "inference"} & set(settings)  # of two
                if fits and set(settings) <= set(make().get_params()):
                    estimator = make(random_state=3).set_params(**settings)
                    yield Case(f"{family} {kind} {name}", estimator, kind, zeroes(estimator))
    for name, estimator in OTHERS.items():
        yield Case(name, estimator)
    if importlib.util.find_spec("torch"):
        yield from modules()


def modules() -> Iterator[Case]:
    """Yield fits of PyTorch's modules: layers that take stacks, and code that sees one record."""
    from skdpfl.torch import TorchModel

    for family, made in itertools.product(FAMILIES[:3], ("layers", "normed", "mixing")):
        model = TorchModel(partial(torch_module, made))
        how = BOUNDS | {"n_rounds": 4, "random_state": 3, "model": model}
        for trust in ("silo", "server")[: 1 + (family == "ISRLDP")]:
            make = getattr(skdpfl, f"{family}Classifier")
            yield Case(f"{family} torch {made} {trust}", make(**how, trust=trust))


def torch_module(made: str, d: int, k: int) -> Any:
    """Return a network, perhaps one whose code looks at more than a record if it is let."""
    import torch
    from torch import nn

    class Mixing(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.where(x > 3.5, x.mean(0, keepdim=True), x)

    between = {"layers": [], "normed": [nn.GroupNorm(2, 6)], "mixing": [Mixing()]}[made]
    return nn.Sequential(nn.Linear(d, 6), *between, nn.Tanh(), nn.Linear(6, k))


#: transformers and searches
OTHERS: dict[str, Any] = {
    "DPStandardScaler": preprocessing.DPStandardScaler(2.0, random_state=3),
    "DPStandardScaler bounds": preprocessing.DPStandardScaler(2.0, **BOUNDS, random_state=3),
    "DPMinMaxScaler": preprocessing.DPMinMaxScaler(2.0, **BOUNDS, random_state=3),
    "DPSimpleImputer": preprocessing.DPSimpleImputer(2.0, **BOUNDS, random_state=3),
    "DPSimpleImputer median": preprocessing.DPSimpleImputer(
        2.0, strategy="median", **BOUNDS, random_state=3
    ),
    "DPPCA": preprocessing.DPPCA(2, 2.0, random_state=3),
    "DPSplineTransformer": preprocessing.DPSplineTransformer(2.0, **BOUNDS, random_state=3),
    "DPRandomizedSearchCV": DPRandomizedSearchCV(
        skdpfl.ISRLDPClassifier(n_rounds=4, **BOUNDS),
        {"alpha": [0.0, 0.1, 1.0]},
        n_iter=3,
        epsilon=4.0,
        random_state=3,
    ),
    "search of steps": DPRandomizedSearchCV(
        make_pipeline(
            preprocessing.DPSimpleImputer(**BOUNDS),
            skdpfl.ISRLDPClassifier(n_rounds=4, **BOUNDS),
        ),
        {"isrldpclassifier__alpha": [0.0, 0.1]},
        n_iter=2,
        epsilon=8.0,
        random_state=3,
    ),
}


def whose(data: Data) -> dict[str, Any]:
    """Return whose each row is, as functions are told."""
    told = {"silos": data.silos}
    return told if data.persons is None else told | {"persons": data.persons, "unit": "person"}


def look(ask: Callable[..., Any], **how: Any) -> Callable[[Data], Any]:
    """Return what asks for private statistics of a table, or of its first column."""
    of_table = ask in (inspection.describe, inspection.quantile, inspection.correlation)

    def asked(data: Data) -> Any:
        frame = pd.DataFrame(data.X, columns=list("abcd"))
        what = frame if of_table else frame["a"].round() if "categories" in how else frame["a"]
        return ask(what, epsilon=2.0, random_state=3, **whose(data), **how)

    return asked


class Shown(NamedTuple):
    """The numbers of a picture, and their cost."""

    numbers: bytes
    privacy_spent_: Any


def scored(display: Any) -> Callable[[Data], Any]:
    """Return what draws private scores of a model that was fitted on other records."""

    def draw(data: Data) -> Any:
        import matplotlib.pyplot as plt

        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 4))
        model = skdpfl.ISRLDPClassifier(8.0, **BOUNDS, random_state=0)
        shown = display.from_estimator(
            model.fit(X, (X[:, 0] > 0) * 1), data.X, data.y, epsilon=2.0, silos=data.silos,
            random_state=3,
        )  # fmt: skip
        plt.close("all")
        drawn = vars(shown).items()  # text and axes are objects of matplotlib's
        arrays = {k: np.array(v) for k, v in drawn if np.asarray(v).dtype.kind in "fiu"}
        return Shown(pickle.dumps(arrays), shown.privacy_spent)

    return draw


def counted(**how: Any) -> Callable[[Data], Any]:
    """Return what fits rates: the exposure is a number of the record."""

    def fit(data: Data) -> Any:
        exposure = np.clip(np.abs(data.X[:, 1]), 1e-3, 1e12)
        model = skdpfl.ISRLDPRegressor(**({"epsilon": 2.0, "random_state": 3} | how))
        return model.fit(data.X, data.y * 1.0, silos=data.silos, exposure=exposure)

    return fit


def survived(data: Data) -> np.ndarray:
    """Return events and times, both numbers of the record."""
    y = np.zeros(len(data.y), [("event", bool), ("time", float)])
    y["event"], y["time"] = data.y > 0, np.clip(np.abs(data.X[:, 2]), 0, 1e12)
    return y


def surviving(**how: Any) -> Callable[[Data], Any]:
    """Return what fits survival times."""

    def fit(data: Data) -> Any:
        known = {"epsilon": 2.0, "random_state": 3, "target_bounds": (0, 2), "n_rounds": 6}
        told = whose(data)
        known |= {"unit": told.pop("unit", "record")} | how
        return skdpfl.ISRLDPSurvival(**known).fit(data.X, survived(data), **told)

    return fit


def curves(**how: Any) -> Callable[[Data], Any]:
    """Return what estimates survival curves."""

    def estimate(data: Data) -> Any:
        known = {"epsilon": 2.0, "random_state": 3, "target_bounds": (0, 2), "silos": data.silos}
        by = None if "trust" in how else np.where(data.X[:, 3] > 0, "a", "b")
        return inspection.kaplan_meier(survived(data), by=by, **(known | how))

    return estimate


OTHERS |= {
    "survival": surviving(),
    "survival, shared noise": surviving(trust="secagg", **BOUNDS, breaks=[0.5]),
    "survival, server": surviving(trust="server", scaling=None, breaks=20),
    "survival, persons": surviving(contribution="sum", breaks=[0.5]),
    "survival, intervals, persons": surviving(**ROBUST, epsilon=60.0, breaks=2),
    "survival curves": curves(trust="secagg"),
    "survival curves by groups": curves(epsilon=40.0),
    "rates": counted(loss="poisson"),
    "rates, shared noise": counted(loss="negative_binomial", trust="secagg", n_rounds=5),
    "rates, server": counted(loss="tweedie", trust="server", **BOUNDS),
    "describe": look(inspection.describe),
    "describe bounds": look(inspection.describe, **BOUNDS),
    "quantile": look(inspection.quantile, **BOUNDS),
    "correlation": look(inspection.correlation, **BOUNDS),
    "histogram": look(inspection.histogram, **BOUNDS),
    "value_counts": look(inspection.value_counts, categories=[-1.0, 0.0, 1.0]),
    "DPRocCurveDisplay": scored(inspection.DPRocCurveDisplay),
    "DPConfusionMatrixDisplay": scored(inspection.DPConfusionMatrixDisplay),
}


def worded(ask: Callable[[pd.DataFrame, Data], Any]) -> Callable[[Data], Any]:
    """Return what is asked of a table of text, with gaps, and names that one record alone has."""

    def asked(data: Data) -> Any:
        cells = np.clip(np.floor(np.nan_to_num(data.X)), -2, 2).astype(int)
        words = np.array(["z", "b", "", "c", "a"], dtype=object)[cells + 2]
        words[words == ""] = None
        words[np.abs(data.X) >= 1e3] = "q"
        return ask(pd.DataFrame(words, columns=list("abcd")), data)

    return asked


def learnt(transformer: Any, X: pd.DataFrame, data: Data) -> Any:
    """Return a transformer that was fitted for records, or for persons if there are."""
    told = whose(data)
    return clone(transformer).set_params(unit=told.pop("unit", "record")).fit(X, **told)


def of_mixed(trust: str, how: dict[str, Any], X: pd.DataFrame, data: Data) -> Any:
    """Return a fit to text and a number, whose levels and range it has to find."""
    estimator = skdpfl.ISRLDPClassifier(30.0, trust=trust, random_state=3, **how)
    return estimator.fit(X[["a", "b"]].assign(e=data.X[:, 0]), data.y, silos=data.silos)


class Gates(Courier):
    """Silos behind gates in this process, and the bytes of all their answers."""

    def __init__(self, folder: Path, data: Data) -> None:
        self.answers: list[bytes] = []
        self.gates, terms = {}, Terms(delta=0.01)
        for silo in np.unique(data.silos).tolist():
            mine, name = data.silos == silo, str(silo)
            records = SiloRecords(name, data.X[mine], data.y[mine], classes=np.unique(data.y))
            ledger = PrivacyLedger(1e3, 1e-3, path=folder / name)
            self.gates[name] = Gate(records, ledger, terms=terms, allow_simulation=True)

    def deliver(self, letters: Mapping[str, bytes]) -> dict[str, bytes]:
        came = {name: self.gates[name].answer(letter) for name, letter in letters.items()}
        self.answers += came.values()
        return came


def elsewhere(estimator: Any) -> Callable[[Data], Any]:
    """Return a fit by letters only, with the bytes that each silo sends."""

    def fit(data: Data) -> Any:
        sizes = {str(silo): int((data.silos == silo).sum()) for silo in np.unique(data.silos)}
        schema, classes = Schema(silo_sizes=sizes, n_features=4), np.unique(data.y)
        model = clone(estimator).set_params(classes=classes.tolist())
        with tempfile.TemporaryDirectory() as folder:
            gates = Gates(Path(folder), data)
            federation = RemoteFederation(gates, schema, classes=classes, estimator="a fit")
            model.fit_federation(federation, schema)
        # the server draws the fit's name by chance
        answers = [re.sub(rb'"fit":"[0-9a-f]{16}"', b"", answer) for answer in gates.answers]
        return Shown(pickle.dumps((answers, model.coef_)), model.privacy_spent_)

    return fit


_CLASSIFIER = skdpfl.ISRLDPClassifier(3.0, **BOUNDS, random_state=3)
OTHERS |= {
    "elsewhere": elsewhere(_CLASSIFIER),
    "elsewhere, scales": elsewhere(skdpfl.ISRLDPClassifier(3.0, random_state=3)),
    "elsewhere, steps": elsewhere(skdpfl.DPScaffoldClassifier(3.0, random_state=3)),
    "elsewhere, curves": elsewhere(clone(_CLASSIFIER).set_params(model="additive", epsilon=8.0)),
    "DPOneHotEncoder": worded(partial(learnt, preprocessing.DPOneHotEncoder(8.0, random_state=3))),
    "DPSimpleImputer most_frequent": worded(
        partial(
            learnt, preprocessing.DPSimpleImputer(8.0, strategy="most_frequent", random_state=3)
        )
    ),
    "describe words": worded(
        lambda X, data: inspection.describe(X, epsilon=8.0, random_state=3, **whose(data))
    ),
    "levels": worded(partial(of_mixed, "silo", {})),
    "levels, server": worded(partial(of_mixed, "server", {})),
    "levels and curves": worded(partial(of_mixed, "silo", {"model": "additive", "scaling": None})),
    "levels, persons": worded(
        lambda X, data: skdpfl.ISRLDPClassifier(8.0, unit="person", random_state=3).fit(
            X.assign(e=data.X[:, 0]), data.y, silos=data.silos, persons=data.persons
        )
    ),
}
#: those that take persons in the place of records
OF_PERSONS = (
    "DPStandardScaler", "DPMinMaxScaler", "DPSimpleImputer", "DPSimpleImputer median",
    "DPSimpleImputer most_frequent", "DPOneHotEncoder", "DPPCA", "DPSplineTransformer",
    "describe", "describe bounds", "describe words", "correlation", "value_counts",
)  # fmt: skip
OTHERS |= {
    f"{name}, persons": OTHERS[name]
    if callable(OTHERS[name])
    else clone(OTHERS[name]).set_params(unit="person")
    for name in OF_PERSONS
}

SIZES = (40, 25, 31)
#: what a hostile record holds in all columns
VALUES = (0.0, 3.9, -1e3, 1e6, -1e150)


def data_of(case: Case, seed: int) -> Pair:
    """Return records of three silos, and the same with one record, or one silo, replaced."""
    rng = np.random.default_rng(seed)
    n, hostile = sum(SIZES), rng.choice(VALUES)
    X, silos = rng.normal(size=(n, 4)), rng.permutation(np.repeat(np.arange(3), SIZES))
    y: np.ndarray = X @ rng.normal(size=4) + rng.normal(size=n)
    if case.kind != "regression":
        y = np.digitize(y, np.quantile(y, [0.5] if case.kind == "two" else [0.3, 0.7]))
    if unit(case) == "person":
        return persons_of(case, rng, Data(X, y, silos), hostile)
    row = rng.integers(n)
    silo = int(silos[row])
    rows = np.flatnonzero(silos == silo) if unit(case) == "silo" else np.array([row])
    if case.zeroed:
        weights = np.ones(n)
        weights[rows] = 0.0
        X[rows] = hostile
        return Pair(Data(X, y, silos, np.ones(n)), Data(X, y, silos, weights), silo)
    other, labels = X.copy(), y.copy()
    other[rows] = hostile
    labels[rows] = -1e6 if case.kind == "regression" else y.max() - y[rows]
    X[rows] *= rng.choice([1.0, 1e3])
    data, neighbour = Data(X, y, silos), Data(other, labels, silos)
    if len(rows) > 1:  # the other silo's number of records is secret as well
        rest = np.flatnonzero(silos != silo)
        chosen = np.sort(np.append(rest, rng.choice(rows, rng.integers(len(rows), 3 * len(rows)))))
        neighbour = Data(other[chosen], labels[chosen], silos[chosen])
    return Pair(data, neighbour, silo)


#: values of settings that are combined at random
VALUES_OF: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.5, 3.0, 20.0, {0: 0.5, 1: 1.0, 2: 2.0}),
    "feature_bounds": ((-4, 4), (-400, 400)),
    "scaling": ("private", None),
    "clip_features": (True,),
    "n_rounds": (2, 5),
    "learning_rate": (0.3, 30.0),
    "clip_norm": (0.1, 7.0),
    "sampling_rate": (0.2, 0.7),
    "sampling": ("poisson", "without_replacement", "disjoint"),
    "neighbours": ("replace", "add_remove"),
    "trust": ("server", "secagg", "shuffler"),
    "silo_fraction": (0.7,),
    "alpha": (0.5,),
    "fit_intercept": (False,),
    "local_steps": (3,),
    "noise_schedule": (("step", 0.9, 2), ("linear", 0.5)),
    "warm_start_rounds": (2,),
    "momentum": (0.5,),
    "average": (True, False, 2),
    "solver": ("accelerated", "multistage", "local", "localized"),
    "unit": ("silo", "record"),
    "mechanism": ("privunit",),
    "model": ("linear", "additive", "auto", MLP((3,))),
    "loss": ("hinge", "squared_hinge", "huber", "quantile", "poisson"),
    "class_weight": ({0: 1.0, 1: 3.0},),
}


def combinations(count: int) -> Iterator[tuple[Case, int]]:
    """Yield fits of three to seven settings drawn at random; some of them are refused."""
    for seed in range(count):
        rng = np.random.default_rng([7, seed])
        kind = str(rng.choice(["two", "three", "regression"]))
        word = "Regressor" if kind == "regression" else "Classifier"
        estimator = getattr(skdpfl, f"{rng.choice(FAMILIES)}{word}")(random_state=3)
        known = sorted(set(VALUES_OF) & set(estimator.get_params()))
        chosen = rng.choice(known, rng.integers(3, 8), replace=False)
        settings = {str(k): VALUES_OF[k][rng.integers(len(VALUES_OF[k]))] for k in chosen}
        estimator.set_params(**settings)
        name = f"{type(estimator).__name__} {settings}"
        yield Case(name, estimator, kind, zeroes(estimator)), seed


def persons_of(case: Case, rng: np.random.Generator, data: Data, hostile: float) -> Pair:
    """Return records of persons with several, and the same with one person replaced.

    Person 0 has other records, 1 or 200 of them, or none that weighs anything.
    """
    n = len(data.y)
    persons = np.empty(n, int)
    for silo in range(3):
        own = data.silos == silo
        persons[own] = 1 + 1000 * silo + rng.integers(0, own.sum() // 3, own.sum())
    own = persons == persons[rng.integers(n)]
    persons[own] = 0
    data.X[own] *= rng.choice([1.0, 1e3])
    if case.zeroed:
        data.X[own] = hostile
        weights = np.where(own, 0.0, 1.0)
        before = data._replace(weights=np.ones(n), persons=persons)
        return Pair(before, before._replace(weights=weights), int(data.silos[own][0]))
    new, silo = int(rng.choice([1, 200])), data.silos[own][0]
    label = -1e6 if case.kind == "regression" else rng.integers(0, data.y.max() + 1, new)
    other = Data(
        np.concatenate([data.X[~own], np.full((new, 4), hostile)]),
        np.concatenate([data.y[~own], np.broadcast_to(label, new)]),
        np.concatenate([data.silos[~own], np.full(new, silo)]),
        None,
        np.concatenate([persons[~own], np.zeros(new, int)]),
    )
    return Pair(data._replace(persons=persons), other, int(silo))


def zeroes(estimator: Any) -> bool:
    """Return whether the neighbour lacks a record, which is given no weight."""
    if callable(estimator):
        return False
    parameters = estimator.get_params()
    of_records = parameters.get("unit", "silo") != "silo"
    return of_records and parameters["neighbours"] == "add_remove"


def unit(case: Case) -> str:
    """Return what is protected."""
    if callable(case.estimator):
        return "person" if "persons" in case.name else "record"
    parameters = case.estimator.get_params()
    return str(parameters.get("unit", "silo" if "EXP" in case.name else "record"))


def main() -> None:
    """Replay all cases on some seeds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--random", type=int, default=0, help="fits of settings drawn at random")
    options = parser.parse_args()
    wrong = fits = 0
    refused: dict[str, str] = {}
    named = ((c, seed) for c in cases() if options.only in c.name for seed in range(options.seeds))
    for case, seed in itertools.chain(named, combinations(options.random)):
        try:
            found = judged(case, data_of(case, seed))
        except ValueError as error:
            refused[str(error)[:90]] = case.name
            continue
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
