"""The price of a person in one silo, or in several."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.privacy import Guarantee, PrivacyPlan, PrivacySpent
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from skdpfl.privacy.sampling import PoissonSampling

M, T, DELTA = 8, 20, 1e-5


def plan_of(k, trust, z, sizes=500, **more):
    sizes = np.broadcast_to(sizes, (M,)).astype(int)
    guarantee = Guarantee("person", trust, silos_per_person=k)
    return PrivacyPlan(silo_sizes=sizes, delta=np.full(M, DELTA), steps=(1,) * T, clip_norm=1.0,
                       noise_multiplier=np.broadcast_to(z, (M,)), guarantee=guarantee,
                       gradients_only=True, **more)  # fmt: skip


def of_gaussians(mus):
    return gaussian_epsilon(float(np.linalg.norm(mus)), DELTA)


@pytest.mark.parametrize(
    ("plan", "wanted"),
    [
        (plan_of(1, "silo", 20.0), of_gaussians([2 / 20] * T)),
        (plan_of(4, "silo", 20.0), of_gaussians([2 / 10] * T)),
        (plan_of(3, "server", 30.0), of_gaussians([2 / 10] * T)),
        (plan_of(20, "silo", 20.0), of_gaussians([2 / 20] * T * M)),
        # unlike noise: the k largest mu^2; unlike sizes: the k largest moves
        (plan_of(2, "silo", 10.0 * np.arange(1, 9)), of_gaussians([2 / 10, 2 / 20] * T)),
        (
            plan_of(2, "server", 40.0 * np.arange(1, 9), 100 * np.arange(1, 9)),
            of_gaussians([2 / 40 * (1 + 1 / 2)] * T),
        ),
    ],
)
def test_gaussians(plan, wanted):
    assert plan.spent().epsilon == pytest.approx(wanted, rel=1e-6)
    assert plan.spent().unit == "person"


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_sampled_silos_are_composed(trust):
    """k silos' sampled sums; at a server each with its part of the noise."""
    k, q, z = 3, 0.1, 3.0
    event = dp_accounting.PoissonSampledDpEvent(
        q, dp_accounting.GaussianDpEvent(z / (1 if trust == "silo" else k**0.5))
    )
    judge = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    judge.compose(dp_accounting.SelfComposedDpEvent(event, T * k))
    spent = plan_of(k, trust, z, sampling=PoissonSampling(q)).spent()
    assert spent.epsilon == pytest.approx(judge.get_epsilon(DELTA), rel=0.01)
    assert spent.outsider is None


@pytest.mark.parametrize(("k", "trust"), [(1, "silo"), (4, "silo"), (3, "server"), (2, "secagg")])
@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_plans_meet_their_budget(k, trust, rate):
    """The epsilon asked for, within 1 %, scales and calibration included."""
    for kind in (ISRLDPClassifier, ISRLDPRegressor):
        est = kind(1.0, unit="person", trust=trust, silos_per_person=k, sampling_rate=rate)
        spent = est.plan_for(silo_sizes=dict.fromkeys(range(M), 4000), n_features=5).spent()
        assert 0.985 < spent.epsilon <= 1.0
        assert spent.silos_per_person == k
        assert PrivacySpent.from_dict(spent.to_dict()) == spent


def test_unlike_deltas_are_refused():
    with pytest.raises(ValueError, match="needs one delta"):
        PrivacyPlan(silo_sizes=np.array([9, 9]), delta=np.array([1e-5, 1e-6]), steps=(1,),
                    clip_norm=1.0, noise_multiplier=np.array([1.0, 1.0]),
                    guarantee=Guarantee("person", silos_per_person=2))  # fmt: skip
