"""Audits find planted bugs, and bound what is right from below."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skdpfl import (
    DPFedAvgClassifier,
    DPFederatedClassifier,
    DPFedEXPClassifier,
    ISRLDPClassifier,
)
from skdpfl.algorithms import MinibatchSGD
from skdpfl.federation import LocalFederation, _batches
from skdpfl.inspection.audits import audit as audits_of_estimators
from skdpfl.inspection.audits.judging import AuditSetting, Trials, judged
from skdpfl.models import LinearModel
from skdpfl.privacy import audit_epsilon
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.mechanisms import SiloGradients
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from skdpfl.privacy.release import GridRows, NoisedSum
from tests.guaranteed import cost_of


def audit(estimator, n_silos=400, size=1, n_fits=4, **kw):
    kw = {"random_state": 0, "n_features": 4} | kw
    return audit_epsilon(estimator, silo_sizes=[size] * n_silos, n_fits=n_fits, **kw)


def full(n_rounds=2, z=1.0, **kw):
    return ISRLDPClassifier(None, noise_multiplier=z, n_rounds=n_rounds, scaling=None,
                            sampling_rate=1.0, delta=1e-5, **kw)  # fmt: skip


def sampled(n_rounds=100, z=2.0, rate=0.05, **kw):
    return ISRLDPClassifier(None, noise_multiplier=z, n_rounds=n_rounds, scaling=None,
                            sampling_rate=rate, delta=1e-5, **kw)  # fmt: skip


# ---- planted bugs ------------------------------------------------------------------------------


def halve(patch):
    draw = _batches.NoiseMaker._draw
    patch.setattr(_batches.NoiseMaker, "_draw", lambda *a: draw(*a) // 2)


def one_for_all(patch):
    draw = _batches.NoiseMaker._draw
    patch.setattr(_batches.NoiseMaker, "_draw", lambda *a: 0 * draw(*a) + draw(*a)[:, :1])


def clip_batches(patch):
    sums = LinearModel.clipped_gradient_sums

    def of_batches(self, params, records, y, loss, *, clip_norm, limits=None, **kw):
        total = sums(self, params, records, y, loss, clip_norm=np.inf, **kw)
        n = records.lengths[:, None]
        norms = np.linalg.norm(total, axis=-1, keepdims=True)
        return total * np.minimum(n, np.asarray(clip_norm)[..., None] * n / np.maximum(norms, 1e-9))

    of_batches.__module__ = LinearModel.__module__  # a bug of ours: a stranger sees no batch
    patch.setattr(LinearModel, "clipped_gradient_sums", of_batches)


def no_noise_on_empty(patch):
    release = GridRows.release

    def unless_empty(self, sums, units):
        return release(self, sums, units * (sums != 0).any(axis=-1, keepdims=True))

    patch.setattr(GridRows, "release", unless_empty)


BUGS = {
    "noise halved": (halve, full(), {}),
    "one noise for all silos": (one_for_all, full(), {}),
    "batches' means are clipped": (clip_batches, full(z=8.0), {"size": 10}),
    "no noise on empty batches": (no_noise_on_empty, sampled(), {}),
}
SLOW = {"no noise on empty batches"}


def some_slow(names, slow):
    return [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in names]


@pytest.mark.parametrize("name", some_slow(BUGS, SLOW))
def test_planted_bugs_are_found(name, monkeypatch):
    plant, estimator, kw = BUGS[name]
    plant(monkeypatch)
    assert audit(estimator, **kw).contradicted


# ---- what is right -----------------------------------------------------------------------------

RIGHT = {
    "full batches": (full(), {}),
    "local steps": (
        DPFedAvgClassifier(4.0, n_rounds=3, local_steps=3, scaling=None, sampling_rate=1.0), {}
    ),
    "whole silos": (DPFedEXPClassifier(4.0, n_rounds=3, scaling=None), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", some_slow(RIGHT, set(RIGHT) - {"full batches"}))
def test_bounds_come_near_what_is_reported(name):
    estimator, kw = RIGHT[name]
    found = audit(estimator, n_silos=1500, **kw)
    assert not found.contradicted
    assert 0 < found.lower_bound <= found.reported
    assert found.reported / 2 <= found.gaussian_bound <= found.reported


def test_one_run_with_many_canaries():
    found = audit(full(n_rounds=1), n_silos=300, size=20, n_features=10, n_fits=1)
    assert (found.n_trials, found.n_fits) == (3000, 1)
    assert 1 < found.lower_bound <= found.reported and not found.contradicted


class Loud(SiloGradients):
    """A mechanism that says it adds more noise than it does."""

    def gradient_terms(self, plan, size, dtype):
        return super().gradient_terms(replace(plan, noise_multiplier=plan.noise_multiplier / 4),
                                      size, dtype)  # fmt: skip


class Quiet(LocalFederation):
    """A back end whose silos add less noise than the plan says."""

    def start(self, work):
        plan = replace(work.plan, noise_multiplier=work.plan.noise_multiplier / 4)
        super().start(replace(work, plan=plan))


@pytest.mark.parametrize("what", ["algorithm", "mechanism", "back end"])
def test_parts_of_the_user(what):
    """An own algorithm is audited as any; a mechanism or a back end that is wrong is found."""
    mechanism = Loud() if what == "mechanism" else None
    estimator = DPFederatedClassifier(
        None, noise_multiplier=2.0, algorithm=MinibatchSGD(0.1), mechanism=mechanism, n_rounds=2,
        scaling=None, sampling_rate=1.0, delta=1e-5,
    )  # fmt: skip
    kw = {"back_end": Quiet} if what == "back end" else {}
    assert audit(estimator, **kw).contradicted == (what != "algorithm")


def little_noise_on_sums(patch, share):
    """A share of the noise that is added to a sum, by silos or behind the aggregate."""
    added, release = NoisedSum.added, GridRows.release
    patch.setattr(NoisedSum, "added", lambda self, s, u, **kw: added(self, s, u // share, **kw))
    patch.setattr(GridRows, "release", lambda self, s, u: release(self, s, u // share))


#: name -> (estimator, view, number of fits): what only a whole fit shows, one trial each
WHOLE_FITS = {
    "server": (full(n_rounds=1, z=3.0, trust="server"), "server", 70),


    "sums of silos": (full(n_rounds=1, z=3.0), "server", 120),

    "whole silos, FedEXP": (
        DPFedEXPClassifier(None, noise_multiplier=2.0, n_rounds=2, scaling=None, trust="server",
                           delta=1e-5), "server", 120,
    ),
}  # fmt: skip


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("weights", ["uniform", {0: 1.0, 1: 5.0, 2: 2.0}])
def test_a_whole_silo_s_canary_is_seen_as_one(trust, weights, monkeypatch):
    """Whatever its weight: 1 where it is there, 0 where not, -1 where it is turned."""
    found = []
    keep = lambda trials, *rest: found.append(trials) or judged(trials, *rest)  # noqa: E731
    monkeypatch.setattr(audits_of_estimators.judging, "judged", keep)
    estimator = DPFedAvgClassifier(
        None, noise_multiplier=1e-3, n_rounds=3, unit="silo", trust=trust, silo_weights=weights,
        clip_norm=0.5, scaling=None, delta=1e-3, average=False, local_steps=1, calibrate=False,
    )  # fmt: skip
    audit(estimator, n_silos=3, size=2, n_fits=12, view="server" if trust == "server" else "silo")
    along, coins = found[0].along, found[0].coin
    assert set(coins.tolist()) == {True, False}
    there = np.where(coins, 1.0, 0.0 if trust == "server" else -1.0)
    np.testing.assert_allclose(along, np.broadcast_to(there[:, None], along.shape), atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_FITS)
def test_whole_fits_have_teeth(name, monkeypatch):
    estimator, view, n_fits = WHOLE_FITS[name]
    kw = {"n_silos": 2, "size": 3, "n_fits": n_fits, "view": view, "confidence": 0.95}
    right = audit(estimator, **kw)
    assert right.view == view and right.n_trials == n_fits and not right.contradicted
    little_noise_on_sums(monkeypatch, 4)
    assert audit(estimator, **kw).contradicted


# ---- bounds ------------------------------------------------------------------------------------


def some_frame(n=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(n, 2)), columns=["b", "a"])
    return frame, (frame["a"] > 0.5).astype(int), np.arange(n) % 6


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"n_fits": 2.5}, "n_fits must be an integer"),
        ({"silo_sizes": [20, "x"], "n_features": 2}, r"silo_sizes\[1\] must be an integer"),
        ({"X": some_frame()[0].assign(c="text"), "y": some_frame()[1]}, "hold no numbers"),
        ({"X": some_frame()[0].mask(lambda t: t > 0.9), "y": some_frame()[1]}, "X contains NaN"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_words(given, match):
    with pytest.raises(ValueError, match=match):
        audit_epsilon(ISRLDPClassifier(4.0, n_rounds=1, scaling=None), **given)


# ---- the confidence that an audit claims: bounds are too large as seldom as it says --------------

DELTA = 1e-3


def setting(view, n_fits, confidence):
    return AuditSetting(view, n_fits, confidence, None, LocalFederation)


def gaussian(mu):
    """What is reported of a release that shifts a standard normal by mu."""
    return cost_of(
        compositions=[((Gaussian(2 / mu), 1),)], delta=DELTA, unit="record", trust="silo",
        neighbours="replace", n_releases=1,
    )  # fmt: skip


def audited(mu, claimed, n, rng, confidence, *, law):
    """Judge trials of a release of mu, among thirty numbers that say nothing."""
    coin = rng.random(n) < 0.5
    seen = rng.normal(size=(n, 31))
    seen[:, 0] += mu * coin
    none = np.zeros((n, 0))
    score = seen[:, 0] if law else None
    trials = Trials(none, none, none, seen, coin)
    return judged(trials, score, claimed, setting("model", n, confidence), rng)


@pytest.mark.slow
@pytest.mark.parametrize("law", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_bounds_are_too_large_as_seldom_as_is_said(law):
    rng, mu, n_audits, confidence = np.random.default_rng(0), 0.4, 40, 0.6
    claimed = gaussian(mu)
    assert claimed.epsilon == pytest.approx(gaussian_epsilon(mu, DELTA), rel=1e-3)
    found = [audited(mu, claimed, 120, rng, confidence, law=law) for _ in range(n_audits)]
    wrong = sum(
        a.lower_bound > a.reported or a.gaussian_bound > a.reported or a.contradicted for a in found
    )
    most = (1 - confidence) * n_audits
    assert wrong <= most + 3 * np.sqrt(most * confidence)


def test_a_release_of_twice_the_shift_is_found():
    rng = np.random.default_rng(0)
    assert audited(2.0, gaussian(1.0), 600, rng, 0.99, law=True).contradicted
    assert audited(2.0, gaussian(1.0), 1200, rng, 0.99, law=False).contradicted
    assert not audited(1.0, gaussian(1.0), 600, rng, 0.99, law=True).contradicted


def test_bounds_are_shown_rounded_down_and_costs_up():
    trials = np.zeros((4, 0))
    audit = judged(
        Trials(trials, trials, trials, np.zeros((4, 1)), np.array([True, False] * 2)), None,
        gaussian(0.4), setting("model", 4, 0.9), np.random.default_rng(0),
    )  # fmt: skip
    text = repr(replace(audit, lower_bound=1.999, reported=2.001, delta=1.21e-5))
    assert "ε ≥ 1.99, reported 2.01 at δ=1.3e-05" in text
