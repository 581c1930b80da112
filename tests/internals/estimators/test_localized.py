"""solver="localized": its trajectory, what it costs, and what it does not take."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.algorithms import LocalizedSGD
from skdpfl.federation._batches import Batches
from skdpfl.privacy import SecureAggregation
from skdpfl.privacy.mechanisms.records import ShuffledSums
from skdpfl.privacy.sampling import Halving
from tests.estimators.fits import data


def taken_apart(model, X, y, silos, monkeypatch):
    """Fit; return the model, the algorithm and the records of each step of each silo."""
    algorithms, drawn = [], {}
    init, draw = LocalizedSGD.init, Batches.draw

    def keeping(self, silo, step):
        drawn[silo, step] = draw(self, silo, step)
        return drawn[silo, step]

    monkeypatch.setattr(Batches, "draw", keeping)
    monkeypatch.setattr(LocalizedSGD, "init", lambda a, p: algorithms.append(a) or init(a, p))
    return model.fit(X, y, silos=silos), algorithms[0], drawn


def loop(algorithm, gradients, size, alpha, radius):
    """The phases as they are written in skdpfl.algorithms._gradient_methods; gradients(step, w)."""
    w, step = np.zeros(size), 0
    for phase in algorithm.phases:
        center, mu = w, phase.penalty + alpha
        lengths = [stage.n_rounds for stage in phase.stages]
        lengths[-1] = phase.n_rounds - sum(lengths[:-1])
        for stage, length in zip(phase.stages, lengths, strict=True):
            ag = x = w
            for r in range(1, length + 1):
                a, e = 2 / (r + 1), 4 * stage.scale / (r * (r + 1))
                whole = e + (1 - a**2) * mu
                md = ((1 - a) * (mu + e) * ag + a * ((1 - a) * mu + e) * x) / whole
                g = gradients(step, md) + alpha * md + phase.penalty * (md - center)
                x = (a * mu * md + ((1 - a) * mu + e) * x - a * g) / (mu + e)
                move = x - center
                x = center + move * min(1.0, phase.radius / max(np.linalg.norm(move), 1e-300))
                x = x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))
                ag = a * x + (1 - a) * ag
                step += 1
            w = ag
    return w


@pytest.mark.parametrize(("alpha", "radius"), [(0.0, None), (0.2, 0.3)])
@pytest.mark.parametrize("clip_norm", ["auto", 0.3])
def test_the_trajectory_is_that_of_a_loop(alpha, radius, clip_norm, monkeypatch):
    X, y, silos = data("ISRLDPRegressor", n=420, seed=5)
    model = ISRLDPRegressor(
        np.inf, solver="localized", alpha=alpha, radius=radius, scaling=None, n_rounds=23,
        fit_intercept=False, clip_norm=clip_norm,
    )  # fmt: skip
    model, algorithm, drawn = taken_apart(model, X, y, silos, monkeypatch)
    assert model.plan_.sampling.n_phases == len(algorithm.phases) >= 2
    rows = [np.flatnonzero(silos == i) for i in range(silos.max() + 1)]
    weights = np.bincount(silos) / len(silos)

    def gradients(step, w):
        total = np.zeros_like(w)
        for i, own in enumerate(rows):
            batch = own[drawn[i, step]]
            each = (X[batch] @ w - y[batch])[:, None] * X[batch]
            if clip_norm != "auto":
                each /= np.maximum(1, np.linalg.norm(each, axis=1) / clip_norm)[:, None]
            total += weights[i] * each.mean(axis=0)
        return total

    want = loop(algorithm, gradients, X.shape[1], alpha, radius or math.inf)
    np.testing.assert_allclose(model.coef_, want, rtol=1e-9, atol=1e-11)


def test_phases_are_disjoint_halves_of_each_silo(monkeypatch):
    X, y, silos = data("ISRLDPClassifier", n=240)
    model = ISRLDPClassifier(1e4, solver="localized", scaling=None, n_rounds=11, calibrate=False)
    model, _, drawn = taken_apart(model, X, y, silos, monkeypatch)
    count = model.plan_.sampling.n_phases
    for silo, n in enumerate(np.bincount(silos)):
        phases = [drawn[silo, 0]]
        for step in range(1, 11):
            if not np.array_equal(drawn[silo, step], phases[-1]):
                phases.append(drawn[silo, step])
        assert [len(part) for part in phases] == [(n >> count) << i for i in range(count)][::-1]
        assert len(np.unique(np.concatenate(phases))) == sum(map(len, phases))


def test_the_price_is_that_of_one_phase():
    model = ISRLDPClassifier(2.0, solver="localized", scaling=None, n_rounds=11, calibrate=False)
    plan = model.plan_for(silo_sizes=[150, 200], n_features=3)
    z, steps = float(plan.noise_multiplier[0]), plan.sampling.longest
    assert plan.sampling.n_phases >= 2 and steps < 11
    one_phase = privacy_loss_distribution.from_gaussian_mechanism(
        z / 2 / math.sqrt(steps)
    )  # 2: a record is replaced
    epsilon = one_phase.get_epsilon_for_delta(plan.delta[0])
    assert plan.spent().epsilon == pytest.approx(epsilon, rel=1e-3)


def test_fewer_answers_cost_less_and_spare_ones_more():
    sampling = Halving(n_phases=3, n_steps=10)
    paid = [sampling.composition(80, [(2.0, count)])[0][1] for count in (2, 4, 10, 12)]
    assert paid == [2, 4, 4, 6]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampling": "disjoint"}, "draws its own batches"),
        ({"sampling_rate": 0.2}, "draws its own batches"),
        ({"silo_fraction": 0.5}, "needs all silos"),
        ({"trust": "shuffler"}, "takes the other solvers"),
        ({"trust": SecureAggregation(spare_rounds=1)}, "cannot repeat failed rounds"),
        ({"local_steps": 3}, "local_steps=3"),
        ({}, "at least two; the smallest has 1"),
    ],
)
def test_what_phases_cannot_do_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ISRLDPClassifier(solver="localized", **options).plan_for(silo_sizes=[50, 1], n_features=3)


@pytest.mark.parametrize("solver", ["accelerated", "multistage"])
def test_accelerated_solvers_send_sums(solver):
    given = {"solver": solver, "sampling": "disjoint", "alpha": 0.1, "n_rounds": 5}
    given["calibrate"] = False  # so that all of the budget is the rounds'
    sizes = {"silo_sizes": [60] * 8, "n_features": 6}
    plan = ISRLDPClassifier(1.0, trust="shuffler", **given).plan_for(**sizes)
    assert (plan.mechanism, plan.size) == (ShuffledSums(), 7)
    assert 0.985 <= plan.spent().epsilon <= 1.0
    server = ISRLDPClassifier(1.0, trust="server", **given).plan_for(**sizes)
    ratio = plan.mechanism.noise_on_mean(plan) / server.mechanism.noise_on_mean(server)
    assert 1.0 <= ratio < 1.05
