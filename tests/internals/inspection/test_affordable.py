"""More of tests/inspection/test_affordable.py: what only private names show."""

import pytest

from skdpfl import ISRLDPRegressor
from skdpfl.inspection import affordable_features
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from tests.inspection.test_affordable import SIZES


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_it_is_what_the_formula_of_the_page_says(epsilon, trust):
    reg = ISRLDPRegressor(epsilon=epsilon, delta=1e-5, trust=trust, scaling=None)
    by_hand = gaussian_mu(epsilon, 1e-5) * 1800 / 10 / (6**0.5 if trust == "silo" else 1)
    found = affordable_features(reg, silo_sizes=SIZES)
    assert found + 1 == pytest.approx(by_hand, rel=0.05, abs=1)
