"""More of tests/privacy/test_random_plans.py: what only private names show."""

from skdpfl import ISRLDPClassifier
from skdpfl.privacy import plan as noise
from skdpfl.privacy.pricing.price import price_epsilon


def test_noise_that_some_group_could_not_afford_is_raised(monkeypatch):
    """If a price were not monotone, the silos that were not looked at would still be priced."""
    plan = ISRLDPClassifier(
        1.0,
        n_rounds=6,
        silo_fraction=0.5,
        cohort="uniform",
        random_state=0,
        scaling=None,
        calibrate=False,
    ).plan_for(silo_sizes=[100] * 5, n_features=4)
    (least, *_), counts = plan.noise_multiplier, plan.levels[1].sum(axis=1)
    assert counts.min() < counts.max()

    def odd(composition, delta, neighbours):
        released = sum(n for _, n in composition)
        return price_epsilon(composition, delta, neighbours) * (2 if released < counts.max() else 1)

    monkeypatch.setattr(noise, "price_epsilon", odd)
    raised = plan.calibrated(1.0)
    assert raised.noise_multiplier[0] > 1.01 * least
    for composition in raised.groups().compositions:
        assert odd(composition, plan.delta[0], plan.neighbours) <= 1.0
