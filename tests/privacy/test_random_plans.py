"""Random plans: whatever is asked for, no plan costs more than its budget, and more costs more."""

import math
import random

import numpy as np
import pytest
from scipy.stats import binom

from skdpfl import DPFedAvgClassifier, DPFedEXPClassifier, DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.models import Additive
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.mechanisms.binomial import TooFewBits, dominating_gaussian
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import Disjoint, PoissonSampling

KINDS = [ISRLDPClassifier, DPScaffoldClassifier, DPFedAvgClassifier, DPFedEXPClassifier]

#: A chunk's plans, and the chunks: 600 plans with the slow ones. `python benchmarks/prices.py` runs
#: 200 chunks, 2,000 plans.
PER_CHUNK, CHUNKS = 10, 60


def draw(r):
    """An estimator, its plan, and the budgets of the silos."""
    kind, n_silos = r.choice(KINDS), r.choice([2, 3, 6])
    budgets = 10 ** r.uniform(-1.5, 1.3)
    settings = dict(
        n_rounds=r.choice([1, 2, 5, 20, 100]),
        silo_fraction=r.choice([1.0, 0.5, 0.3]),
        cohort=r.choice(["balanced", "uniform"]),
        delta=10 ** r.uniform(-9, -3),
        scaling=r.choice(["auto", None]),
        random_state=r.randrange(100),
    )
    if kind is not DPFedEXPClassifier:
        settings["sampling_rate"] = 10 ** r.uniform(-10, 0)
        settings["sampling"] = r.choice(["poisson", "poisson", "without_replacement", "disjoint"])
    if kind in (DPScaffoldClassifier, DPFedAvgClassifier):
        settings["local_steps"] = r.choice([1, 3, 20])
    estimator = kind(budgets, **settings)
    sizes = [r.choice([50, 100, 300, 1000]) for _ in range(n_silos)]
    return estimator, estimator.plan_for(silo_sizes=sizes, n_features=4)


def draw_curves(r):
    """The same with curves, whose histogram is paid for as well."""
    estimator, _ = draw(r)
    trust = "server" if isinstance(estimator, ISRLDPClassifier) else "silo"
    model = Additive(r.choice([2, 8]), r.choice([True, False]))
    estimator.set_params(model=model, feature_bounds=(0, 1), trust=r.choice([trust, "silo"]))
    plan = estimator.plan_for(silo_sizes=[r.choice([60, 900])] * 3, n_features=4)
    assert sum(times for event, times in plan.setup[0]) >= 1
    return estimator, plan


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:delta=:UserWarning")
@pytest.mark.parametrize("drawing", [draw, draw_curves])
@pytest.mark.parametrize(
    "chunk", [0, *(pytest.param(c, marks=pytest.mark.wide) for c in range(1, CHUNKS))]
)
def test_no_plan_costs_more_than_its_budget(chunk, drawing):
    r, drawn = random.Random(chunk), 0
    while drawn < PER_CHUNK:
        try:
            estimator, plan = drawing(r)
        except ValueError as error:  # scales alone cost more, or a sampling that does not go here
            assert any(word in str(error) for word in ("cannot be met", "sampling", "silo")), error
            continue
        drawn += 1
        spent = plan.spent()
        assert spent.epsilon <= estimator.epsilon, (estimator, plan.known_sizes)
        if spent.per_silo is not None:
            assert (spent.per_silo <= estimator.epsilon).all()


@pytest.mark.slow
def test_silos_that_release_less_keep_to_the_budget():
    """Steps that hardly ever sample: a silo with two of them cost less than one with one, once."""
    estimator = ISRLDPClassifier(
        0.057, n_rounds=5, silo_fraction=0.5, cohort="uniform", delta=3.2e-8, sampling_rate=3e-9,
        random_state=4,
    )  # fmt: skip
    plan = estimator.plan_for(silo_sizes=[100, 1000, 1000, 300, 1000, 300, 50], n_features=4)
    assert len(plan.groups().first) > 1
    assert (plan.spent().per_silo <= 0.057).all()


@pytest.mark.slow
def test_each_silo_keeps_to_its_own_budget():
    r, kept = random.Random(0), 0
    while kept < 1:
        try:
            estimator, plan = draw(r)
        except ValueError:
            continue
        if plan.unit == "silo" or estimator.sampling == "disjoint":
            continue
        kept += 1
        budgets = estimator.epsilon * np.exp(np.linspace(0, 1, plan.n_silos))
        spent = plan.calibrated(budgets).spent()
        assert (spent.per_silo.to_numpy() <= budgets).all()


# ---- limits of numbers: what lies on one is taken, what lies just beyond is refused by its ----


def stream():
    return streams_for(0).stream("limits")


def test_bits_that_hide_nothing_are_refused_from_twenty_deviations_on():
    """N p (1 - p) = 10^6: deviations of 1000."""
    assert dominating_gaussian(4 * 10**6, 0.5, 19_999.0, 1)[0] == pytest.approx(20.0, rel=1e-3)
    with pytest.raises(TooFewBits, match="protect nothing"):
        dominating_gaussian(4 * 10**6, 0.5, 20_001.0, 1)


def test_one_pass_deals_each_record_once():
    parts = Disjoint(3).deal(stream(), 11)
    assert parts.shape == (3, 3)
    assert len(set(parts.ravel().tolist())) == 9 and parts.max() < 11


def test_one_pass_is_one_release_at_the_least_noise_that_was_met():
    assert Disjoint(3).composition(9, [(2.0, 3), (1.5, 1), (0.5, 0)]) == ((Gaussian(1.5), 1),)
    assert Disjoint(3).composition(9, [(2.0, 0)]) == ()


@pytest.mark.parametrize("rate", [1e-4, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("n", [10, 1000, 10**6])
def test_batches_are_cut_where_2_to_the_minus_100_is_left(rate, n):
    """Exactly, by the binomial's tail; and Bernstein's inequality wastes little."""
    most = PoissonSampling(rate).largest_batch(n)
    assert binom.logsf(most, n, rate) <= -100 * math.log(2)
    least = int(binom.isf(2.0**-100, n, rate))
    assert most <= n and most - n * rate <= 1.7 * (least - n * rate) + 25

    def exponent(above):
        return above**2 / (2 * n * rate * (1 - rate) + 2 * above / 3)

    assert most == n or exponent(most - n * rate) >= 100 * math.log(2)
    assert exponent(most - 1 - n * rate) < 100 * math.log(2)
