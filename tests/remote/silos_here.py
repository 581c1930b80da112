"""Silos in this process that are reached by letters only; each letter meets a new Gate."""

from dataclasses import fields, replace

import numpy as np

import skdpfl
from skdpfl.federation import Schema
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Courier, Gate, RemoteFederation, SiloRecords, Terms, public_key

NAMES = ("east", "north", "south", "west")


class Here(Courier):
    """Silos whose state is in files; ``spoil(name, count, answer)`` may change what comes back."""

    def __init__(
        self,
        folder,
        problem,
        *,
        budget=(50.0, 1e-3),
        spoil=None,
        weights=None,
        exposure=None,
        keys=None,
        persons=None,
        **options,
    ):
        self.folder, self.problem, self.budget = folder, problem, budget
        self.spoil, self.options = spoil or (lambda name, count, answer: answer), options
        self.letters, self.answers, self.weights, self.keys = [], [], weights, keys
        self.exposure, self.persons = exposure, persons

    def gate(self, name):
        """Return a silo as a new process would make it."""
        ledger = PrivacyLedger(*self.budget, path=self.folder / f"{name}.ledger")
        options = {"allow_simulation": True} | self.options
        if self.keys is not None:
            roster = {n: public_key(key) for n, key in self.keys.items()}
            options["terms"] = replace(options.get("terms", Terms()), silos=roster)
            options["key"] = self.keys[name]
        return Gate(self.records(name), ledger, **options)

    def records(self, name):
        """Return a silo's records."""
        X, y, silos = self.problem
        mine = silos == NAMES.index(name)
        classes = [0, 1] if y.dtype.kind == "i" else None
        own = {"sample_weight": self.weights, "exposure": self.exposure, "persons": self.persons}
        own = {key: values[mine] for key, values in own.items() if values is not None}
        return SiloRecords(name, X[mine], y[mine], classes=classes, **own)

    def entries(self, name):
        """Return what a silo's ledger was charged with."""
        path = self.folder / f"{name}.ledger"
        return PrivacyLedger(path=path, must_exist=True).entries if path.exists() else []

    def deliver(self, letters):
        came = {}
        for name, letter in sorted(letters.items(), reverse=True):
            self.letters.append((name, letter))
            answer = self.gate(name).answer(letter)
            self.answers.append((name, answer))
            answer = self.spoil(name, len(self.letters), answer)
            if answer is not None:
                came[name] = answer
        return came


class Killed(BaseException):
    """The process ends here."""


def with_plan(row, **changes):
    """Return what a silo is offered with other numbers of the row, or else of its plan."""
    mine = {k: v for k, v in changes.items() if k in {f.name for f in fields(row)}}
    rest = {k: v for k, v in changes.items() if k not in mine}
    return replace(row, **mine, plan=replace(row.plan, **rest))


def problem(kind="Classifier", n=160):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4))
    y = X @ rng.normal(size=4) + rng.normal(size=n)
    silos = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
    if kind == "Classifier":
        y = np.digitize(y, np.quantile(y, [0.5]))
    if kind == "Rates":
        y = rng.poisson(np.exp(y / 4) * exposures(n)).astype(float)
    if kind == "Survival":
        events = zip(rng.random(n) < 0.7, np.exp(y / 2), strict=True)
        y = np.array(list(events), [("died", bool), ("time", float)])
    return X, y, silos


def exposures(n):
    """Return the exposures of the records of a problem of rates."""
    return np.random.default_rng(1).uniform(0.2, 20.0, n)


def schema(problem, **changes):
    X, _, silos = problem
    sizes = dict(zip(NAMES, np.bincount(silos).tolist(), strict=True))
    return Schema(**{"silo_sizes": sizes, "n_features": X.shape[1]} | changes)


def estimator(kind="ISRLDPClassifier", **options):
    common = {"epsilon": 3.0, "n_rounds": 3, "random_state": 0}
    if kind.endswith("Classifier"):
        common["classes"] = [0, 1]
    return getattr(skdpfl, kind)(**common | options)


def fit_elsewhere(model, courier, facts=None, **options):
    facts = facts or schema(courier.problem)
    federation = RemoteFederation(
        courier, facts, classes=getattr(model, "classes", None), estimator="a fit", **options
    )
    return model.fit_federation(federation, facts)


def fit_here(model, problem, **weights):
    X, y, silos = problem
    return model.fit(X, y, silos=np.array(NAMES)[silos], **weights)
