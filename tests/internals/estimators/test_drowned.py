"""More of tests/estimators/test_drowned.py: what only private names show."""

import re
import warnings

import numpy as np
import pytest

from skdpfl import DPScaffoldClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.choosing._noise_level import cost_of_decay
from skdpfl.privacy.public_numbers import noise_factors


@pytest.mark.parametrize("schedule", [("round", 0.9, 2), ("step", 0.97, 0), ("round", 0.7, 10)])
def test_what_decay_costs_is_what_plans_pay_for_it(schedule):
    """The mean of the steps' noise variances, at one budget, with and without decay."""
    steps, rms = (2,) * 15, []
    for each in (None, schedule):
        model = DPScaffoldClassifier(
            1.0, n_rounds=15, local_steps=2, sampling_rate=1.0, noise_schedule=each, scaling=None
        )
        plan = model.plan_for(silo_sizes=[400] * 5, n_features=5)
        noise = plan.noise_multiplier.max() * np.concatenate(noise_factors(each, steps))
        rms.append(float(np.sqrt(np.square(noise).mean())))
    assert cost_of_decay(schedule, steps) == pytest.approx(rms[1] / rms[0], rel=0.02)


def advice(epsilon, n=870, d=39, n_silos=6, kind=ISRLDPClassifier, **kw):
    """What a fit of this shape is told before any record is read; "" if nothing."""
    X = np.random.default_rng(0).normal(size=(n, d))
    y = X[:, 0] > 0 if kind is ISRLDPClassifier else X[:, 0]
    with warnings.catch_warnings(record=True) as said, pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(kind, "_run", None)
        with pytest.raises(TypeError):
            kind(epsilon, delta=1e-5, **kw).fit(X, y, silos=np.arange(n) % n_silos)
    return "".join(str(each.message) for each in said if "will drown" in str(each.message))


def number(pattern, text):
    return float(re.search(pattern, text)[1].replace(",", ""))


@pytest.mark.parametrize("kind", [ISRLDPClassifier, ISRLDPRegressor])
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_who_follows_the_advice_is_warned_no_more(kind, epsilon):
    kw = {"kind": kind, "scaling": None}
    said = advice(epsilon, **kw)
    needed = number(r"an epsilon of about ([\d.,]+)", said)
    assert not advice(needed, **kw)
    assert advice(0.9 * needed, **kw)
    records = number(r"about ([\d,]+) records", said)
    assert not advice(epsilon, n=int(records), **kw)
    assert advice(epsilon, n=int(0.9 * records), **kw)
