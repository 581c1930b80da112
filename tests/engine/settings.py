"""Small problems and their fits by the engine, for comparison with the reference."""

from __future__ import annotations

import numpy as np

from skdpfl.algorithms import FedAvg, MinibatchSGD, Scaffold
from skdpfl.engine import run
from skdpfl.federation import Federation, LocalFederation, SiloData, Work
from skdpfl.losses import LogLoss, SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy import PrivacyPlan
from skdpfl.privacy.mechanisms import NoPrivacy, mechanism_for
from skdpfl.privacy.randomness.streams import streams_for
from tests.engine.reference import Problem, Setting
from tests.guaranteed import plan_of as made_plan

LOSSES = {"log_loss": LogLoss, "squared_error": SquaredError}


def problem(loss="log_loss", k=1, sizes=(5, 9, 2, 6), d=3, alpha=0.0, seed=0):
    """Silos with different means, about half of whose gradients are clipped at norm 1."""
    rng = np.random.default_rng(seed)
    silos = []
    for n in sizes:
        X = rng.normal(rng.normal(size=d), 1, (n, d))
        y = rng.normal(size=n) if loss == "squared_error" else rng.integers(0, max(2, k), n)
        silos.append((X, y.astype(float) if k == 1 else y))
    return Problem(silos, loss, k, alpha)


def plan_of(p: Problem, s: Setting, **kw) -> PrivacyPlan:
    """The plan that the setting describes."""
    private = s.z is not None or s.on_sum is not None
    trust = "server" if s.on_sum is not None else "silo"
    sizes = np.array([len(y) for _, y in p.silos])
    options = {
        "silo_sizes": sizes,
        "steps": tuple(s.steps),
        "clip_norm": s.clip if private else np.inf,
        "noise_multiplier": np.zeros(len(sizes)) if s.z is None else np.asarray(s.z, float),
        "delta": np.full(len(sizes), 1e-5),
        "trust": trust,
        "sampling": s.sampling,
        "weights": s.weights,
        "schedule": None if s.cohorts is None else tuple(np.asarray(c, int) for c in s.cohorts),
        "mechanism": mechanism_for("record", trust) if private else NoPrivacy(),
    }
    plan = made_plan(**(options | kw))
    if s.on_sum is None:
        return plan
    return plan.with_noise(s.on_sum / (s.clip * plan.record_shares))


def algorithm_of(name: str, s: Setting):
    """The package's algorithm with the setting's hyper-parameters."""
    if name == "minibatch":
        return MinibatchSGD(s.lr, s.momentum)
    if name == "fedavg":
        return FedAvg(s.lr, tuple(s.steps), s.global_lr, s.momentum)
    return Scaffold(s.lr, tuple(s.steps), s.global_lr, s.warm)


def work_of(name: str, p: Problem, s: Setting, dtype=np.float64, **kw) -> Work:
    """Everything the engine needs but the data."""
    model = LinearModel(p.silos[0][0].shape[1], p.k, True)
    plan = plan_of(p, s, gradients_only=name == "minibatch", **kw)
    loss = LOSSES[p.loss]()
    return Work(model, loss, algorithm_of(name, s), plan, np.dtype(dtype), p.alpha)


def federation_of(
    p: Problem, dtype=np.float64, n_jobs=None, shuffle=False, seed=0
) -> LocalFederation:
    """The silos' records, in the silos' order or mixed (each silo's own order kept)."""
    X = np.concatenate([X for X, _ in p.silos]).astype(dtype)
    y = np.concatenate([y for _, y in p.silos])
    y = y.astype(dtype) if p.loss == "squared_error" else y.astype(int)
    codes = np.repeat(np.arange(len(p.silos)), [len(y) for _, y in p.silos])
    if shuffle:
        order = np.argsort(np.random.default_rng(1).random(len(y)))
        order = order[np.argsort(codes[order], kind="stable")]  # by silo ...
        mixed = np.random.default_rng(2).permutation(len(y))
        place = np.empty(len(y), int)
        for i in range(len(p.silos)):  # ... and each silo's rows in their own order again
            place[codes == i] = np.sort(mixed[codes == i])
        back = np.argsort(place)
        X, y, codes = X[back], y[back], codes[back]
    data = SiloData.from_codes(X, y, codes, len(p.silos))
    return LocalFederation(data, streams_for(seed), n_jobs)


def run_rounds(name: str, p: Problem, s: Setting, dtype=np.float64, *, federation=None, **kw):
    """The models after each round."""
    models = []
    federation = federation_of(p, dtype, seed=s.seed) if federation is None else federation
    run(
        work_of(name, p, s, dtype, **kw),
        federation,
        streams_for(s.seed),
        average=False,
        on_round=lambda r, params: models.append(params.copy()),
    )
    return np.array(models)


class Watched(Federation):
    """A federation whose silos' messages and memories can be looked at, after each round."""

    n_silos = 0

    def __init__(self, federation):
        self.inner, self.memories, self.sent = federation, [], []

    n_silos = property(lambda self: self.inner.n_silos)

    def start(self, work):
        self.inner.start(work)

    def round(self, *args):
        for silos, messages in self.inner.round(*args):
            self.sent.append(messages)
            yield silos, messages
        self.memories.append(self.inner.states.memory[np.arange(self.n_silos)])
