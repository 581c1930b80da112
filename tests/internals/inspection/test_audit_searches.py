"""More of tests/inspection/test_audit_searches.py: what only private names show."""

import numpy as np
import pytest

from skdpfl import DPFedAvgClassifier, ISRLDPRegressor
from skdpfl.inspection.audits import audit
from skdpfl.model_selection import _randomized
from skdpfl.privacy import audit_epsilon
from tests.inspection.test_audit_searches import KW, apart, search


def quiet_scores(patch, share):
    """Scores with a share of the noise that is paid for."""
    divide = _randomized.divide_budget

    def divided(*args):
        budget = divide(*args)
        return budget._replace(score_noise=budget.score_noise / share)

    patch.setattr(_randomized, "divide_budget", divided)


SEARCHES = {
    "silo": search(),
    "server": search("server"),
    "whole silos": search(kind=DPFedAvgClassifier, unit="silo"),
    "regressor": search(kind=ISRLDPRegressor, target_bounds=(-1, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_scores_without_noise_are_known_exactly(name, monkeypatch):
    """The attack computes what a search publishes; so each guess is right where it can be."""
    laws, judge = [], audit.judged_numbers

    def judged(seen, law, coins, *args):
        laws.append((np.array(law), np.array(coins)))
        return judge(seen, law, coins, *args)

    monkeypatch.setattr(audit, "judged_numbers", judged)
    quiet_scores(monkeypatch, 1e6)
    data = apart()
    if name == "whole silos":
        data["silos"] = np.arange(120) // 4
    audit_epsilon(SEARCHES[name], n_fits=12, **KW | data)
    ((law, coins),) = laws
    assert ((law > 0) == coins)[law != 0].all()
    assert np.count_nonzero(np.abs(law) > 1e-6) >= 4
