"""The confidence that an audit claims: bounds are too large as seldom as it says."""

from dataclasses import replace

import numpy as np
import pytest

from skdpfl.federation import LocalFederation
from skdpfl.inspection.audits.judging import AuditSetting, Trials, judged
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from tests.guaranteed import cost_of

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
