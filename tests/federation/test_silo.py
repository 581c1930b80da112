"""One silo is an object: alone, saved and restored it sends what it sends among others."""

import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import skdpfl
from skdpfl.algorithms import FedExp
from skdpfl.engine import rounds, run
from skdpfl.federation import LocalFederation, Question, Schema, Silo, SiloData
from skdpfl.privacy.events import Gaussian, compose
from skdpfl.privacy.mechanisms import SiloGradients
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import StepNoise
from skdpfl.privacy.sampling import Disjoint, PoissonSampling, draw_cohorts
from tests.engine.settings import federation_of, problem, work_of
from tests.federation.apart import Apart
from tests.federation.test_local import setting


@pytest.mark.parametrize("n_features", [3, 700, 9000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_silo_with_wide_records_sends_the_same_bits(dtype, n_features):
    """Norms of records do not depend on where in a table the records stand."""
    p, s = problem(sizes=(3, 4, 7), d=n_features), setting(z=[1.0] * 3, weights=np.full(3, 1 / 3))
    work = work_of("fedavg", p, s, dtype)
    together = run(work, federation_of(p, dtype, shuffle=True), streams_for(0))
    apart = run(work, Apart(federation_of(p, dtype)), streams_for(0))
    assert np.array_equal(together.params, apart.params)


class Differences(StepNoise):
    """Each step's noise takes back that of the step before."""

    def __init__(self, streams, size):
        self.streams, self.size, self.last = streams, size, {}

    def units(self, silos, steps):
        return np.array([[self.next(silo, step) for silo in silos.tolist()] for step in steps])

    def next(self, silo, step):
        before = self.last.get(silo, np.zeros(self.size, np.int64))
        self.last[silo] = self.streams.stream("differences", silo, step).units(self.size, float)
        return self.last[silo] - before

    def state(self, silo):
        return {"last": self.last[silo]} if silo in self.last else {}

    def restore(self, silo, state):
        self.last[silo] = state["last"]


@dataclass(frozen=True)
class Correlated(SiloGradients):
    """Noise with a state of its own; what it would cost is of no account here."""

    def noise(self, plan, streams, size, dtype):
        return Differences(streams, size)

    def composition(self, plan, z, n, levels):
        return compose((Gaussian(level), count) for level, count in levels)


SILO = {"unit": "silo", "epsilon": 8.0}
#: estimators with all that silos keep, and one of every mechanism
FITS = {
    "minibatch": ("ISRLDPClassifier", {}),
    "exact": ("ISRLDPClassifier", {"epsilon": np.inf}),
    "exact batches": ("DPScaffoldClassifier", {"epsilon": np.inf, "sampling_rate": 0.3}),
    "disjoint": ("ISRLDPClassifier", {"sampling": "disjoint"}),
    "disjoint, some silos": ("ISRLDPRegressor", {"sampling": "disjoint", "silo_fraction": 0.5}),
    "disjoint steps": ("DPFedAvgRegressor", {"sampling": "disjoint", "local_steps": 2}),
    "budgets": ("ISRLDPClassifier", {"epsilon": {0: 0.5, 1: 1.0, 2: 2.0, 3: np.inf}}),
    "momentum": ("DPFedAvgClassifier", {"momentum": 0.5, "local_steps": 3}),
    "scaffold": ("DPScaffoldRegressor", {"local_steps": 3}),
    "warm start": ("DPScaffoldClassifier", {"warm_start_rounds": 2, "local_steps": 3}),
    "correlated noise": ("DPFederatedClassifier", {"mechanism": Correlated(), "epsilon": 8.0}),
    "some silos": ("DPScaffoldClassifier", {"silo_fraction": 0.5, "local_steps": 3}),
    "private scales": ("DPScaffoldClassifier", {"scaling": "private", "epsilon": 8.0}),
    "server": ("ISRLDPClassifier", {"trust": "server"}),
    "shuffler": ("ISRLDPClassifier", {"trust": "shuffler", "n_rounds": 2}),
    "silo": ("DPScaffoldClassifier", SILO),
    "silo server": ("DPScaffoldClassifier", SILO | {"trust": "server"}),
    "secret cohorts": ("DPScaffoldClassifier", SILO | {"trust": "server", "silo_fraction": 0.5}),
    "exp": ("DPFedEXPClassifier", {"trust": "server"}),
    "long rows": ("DPFederatedRegressor", SILO | {"algorithm": FedExp(0.5, 3, squared_row=1.2)}),
    "privunit": ("DPFedEXPClassifier", {"mechanism": "privunit", "epsilon": 8.0}),
    "learnt clip": ("DPFedAvgClassifier", SILO | {"clip_norm": "auto"}),
}


def records(kind):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(160, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=160)
    silos = rng.choice(4, size=160, p=[0.4, 0.3, 0.2, 0.1])
    if "Classifier" in kind:
        y = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    return X, y, silos


@pytest.mark.parametrize("name", FITS)
def test_a_fit_of_silos_elsewhere_is_the_same_fit(name):
    """The estimator never sees records: it knows a schema."""
    kind, options = FITS[name]
    if options.get("epsilon") == np.inf:
        options = options | {"learning_rate": 0.5}
    X, y, silos = records(kind)
    model = getattr(skdpfl, kind)(n_rounds=5, random_state=3).set_params(**options)
    if "Classifier" in kind:
        model.set_params(classes=[2, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        here = clone(model).fit(X, y, silos=silos)
        sizes = dict(enumerate(np.bincount(silos).tolist()))
        codes = y if "Regressor" in kind else y.astype(np.int8)
        records_ = SiloData.from_codes(X, codes, silos, 4)
        apart = Apart(LocalFederation(records_, streams_for(3)))
        there = model.fit_federation(apart, Schema(sizes, 5))
    assert np.array_equal(here.coef_, there.coef_)
    assert np.array_equal(here.intercept_, there.intercept_)
    assert here.privacy_spent_.epsilon == there.privacy_spent_.epsilon
    assert np.array_equal(here.predict(X), there.predict(X))


# ---- a run that stops and goes on ---------------------------------------------------------------


@pytest.mark.parametrize("sampling", [PoissonSampling(0.5), Disjoint(9)], ids=str)
@pytest.mark.parametrize("algorithm", ["minibatch", "fedavg", "scaffold"])
def test_a_run_goes_on_from_saved_silos_and_progress(algorithm, sampling):
    p = problem(sizes=(12, 9, 20, 31))
    cohorts = list(draw_cohorts("balanced", 0.5, 4, 6, streams_for(1).stream("cohorts")))
    steps = [1] * 6 if algorithm == "minibatch" else [3, 1, 2, 3, 2, 3]
    s = setting(
        sampling, n_rounds=6, steps=steps, z=[1.0] * 4, weights=np.full(4, 0.25), cohorts=cohorts
    )
    s.momentum = 0.0 if algorithm == "scaffold" else 0.5
    work = work_of(algorithm, p, s)
    whole = [now.params for now in rounds(work, federation_of(p), streams_for(0))]
    for stop in range(1, 6):
        before = federation_of(p)
        *_, now = zip(range(stop), rounds(work, before, streams_for(0)), strict=False)
        states = [Silo(before, i).save() for i in range(4)]
        progress, work_again = pickle.loads(pickle.dumps((now[1], work)))
        after = federation_of(p)
        after.start(work_again)
        for i, state in enumerate(states):
            Silo(after, i).restore(state)
        rest = [n.params for n in rounds(work_again, after, streams_for(0), after=progress)]
        assert len(rest) == 6 - stop
        assert np.array_equal(rest, whole[stop:])


# ---- what a silo refuses ------------------------------------------------------------------------


def alone(work, p, i, seed=0):
    X, y = p.silos[i]
    silo = Silo.alone(i, X, y, len(p.silos), streams_for(seed))
    silo.start(work)
    return silo


def test_a_silo_answers_each_round_once_and_in_order():
    p, s = problem(), setting(z=[1.0] * 4, weights=np.full(4, 0.25))
    work = work_of("fedavg", p, s)
    silo, shared = alone(work, p, 1), np.zeros(p.size)
    silo.round(1, shared)
    for again in (0, 1):
        with pytest.raises(ValueError, match="once and in order"):
            silo.round(again, shared)
    restored = alone(work, p, 1)
    restored.restore(silo.save())
    with pytest.raises(ValueError, match="once and in order"):
        restored.round(1, shared)
    assert np.array_equal(restored.round(2, shared), silo.round(2, shared))


class Noise(Question):
    """Nothing but the noise of this number."""

    purpose = "sums"

    def __init__(self, number):
        self.number = number

    def answers(self, data, streams):
        silos = np.flatnonzero(data.sizes)
        yield silos, streams.uniform_block(self.purpose, silos, self.number, (3,))


def test_a_silo_answers_each_question_once_and_in_order():
    """The noise of an answer follows from the question's number: another question would show it."""
    p, s = problem(), setting(z=[1.0] * 4, weights=np.full(4, 0.25))
    X, y = p.silos[1]
    silo = Silo.alone(1, X, y.astype(int), 4, streams_for(0))
    first = silo.answer(Noise(1))
    assert first.shape == (3,)
    for again in (0, 1):
        with pytest.raises(ValueError, match=f"got number {again}"):
            silo.answer(Noise(again))
    silo.start(work_of("fedavg", p, s))
    restored = alone(work_of("fedavg", p, s), p, 1)
    restored.restore(silo.save())
    with pytest.raises(ValueError, match="got number 1 again"):
        restored.answer(Noise(1))
    assert not np.array_equal(restored.answer(Noise(2)), first)


def test_a_silo_answers_only_what_it_pays_for():
    p = problem()
    s = setting(z=[1.0] * 4, weights=np.full(4, 0.25), cohorts=[[0, 1], [0], [1], [0, 1]])
    silo, shared = alone(work_of("fedavg", p, s), p, 1), np.zeros(p.size)
    with pytest.raises(ValueError, match="not scheduled in round 1"):
        silo.round(1, shared)
    for none in (-1, 4):
        with pytest.raises(ValueError, match="4 rounds"):
            silo.round(none, shared)
    silo.round(0, shared)
    s = setting(z=None, weights=np.full(4, 0.25))
    unit = {"unit": "silo", "trust": "silo", "silo_fraction": 0.5, "cohort": "balanced"}
    work = work_of("fedavg", p, s, noise_multiplier=1.0, mechanism=None, clip_norm=1.0, **unit)
    silo = alone(work, p, 1)
    for r in range(2):  # of four rounds a silo is dealt two
        silo.round(r, shared, 1.0)
    with pytest.raises(ValueError, match="has answered the 2 rounds"):
        silo.round(2, shared, 1.0)


def test_a_state_fits_one_silo_its_records_and_its_fit():
    p = problem(sizes=(8, 8, 8, 8))
    s = setting(Disjoint(9), weights=np.full(4, 0.25), z=[1.0] * 4)
    work = work_of("scaffold", p, s)
    silo = alone(work, p, 0)
    silo.round(0, work.algorithm.broadcast(work.algorithm.init(np.zeros(p.size))))
    saved = silo.save()
    alone(work, p, 0).restore(saved)
    with pytest.raises(ValueError, match="another silo"):
        alone(work, p, 1).restore(saved)
    with pytest.raises(ValueError, match="another random_state"):
        alone(work, p, 0, seed=1).restore(saved)
    with pytest.raises(ValueError, match="another model"):
        alone(work_of("fedavg", p, s), p, 0).restore(saved)
    X, y = p.silos[0]
    other = Silo.alone(0, X[::-1], y[::-1], 4, streams_for(0))
    with pytest.raises(ValueError, match="before restore"):
        other.restore(saved)
    other.start(work)
    with pytest.raises(ValueError, match="order, have changed"):
        other.restore(saved)
    with pytest.raises(ValueError, match="for one fit"):
        other.start(work)
    with pytest.raises(ValueError, match="silo sizes in the plan"):
        Silo.alone(0, X[1:], y[1:], 4, streams_for(0)).start(work)
    with pytest.raises(ValueError, match="at least one"):
        Silo.alone(0, X[:0], y[:0], 4, streams_for(0))


def test_silos_under_secret_streams_go_on_with_fresh_ones():
    """Nothing of a secret is saved; the deal is."""
    p, s = problem(sizes=(18, 18)), setting(Disjoint(9), weights=np.full(2, 0.5), z=[1.0] * 2)
    s.steps, s.n_rounds = [1, 2, 2, 3], 4
    work = work_of("fedavg", p, s)
    silo = alone(work, p, 0, None)
    first = silo.round(0, np.zeros(p.size))
    saved = silo.save()
    assert str(saved["seed"]) == ""
    restored = alone(work, p, 0, None)
    restored.restore(saved)
    assert np.array_equal(restored.save()["deal"], saved["deal"])
    assert not np.array_equal(restored.round(1, np.zeros(p.size)), first)


@pytest.mark.parametrize("cohort", ["balanced", "poisson", "uniform"])
def test_a_secret_deal_of_silos_is_not_dealt_again(cohort):
    """A silo that a second deal chose once more would pay for fewer rounds than it is in."""
    p, s = problem(), setting(z=None, weights=np.full(4, 0.25))
    silo = {"unit": "silo", "trust": "silo", "silo_fraction": 0.5, "cohort": cohort}
    work = work_of("fedavg", p, s, noise_multiplier=1.0, mechanism=None, clip_norm=1.0, **silo)
    federation = federation_of(p)
    first = next(rounds(work, federation, streams_for(None)))
    again = rounds(work, federation, streams_for(None), after=first)
    if cohort == "balanced":
        with pytest.raises(ValueError, match="cannot be continued"):
            next(again)
    else:
        assert next(again).n_rounds == 2
