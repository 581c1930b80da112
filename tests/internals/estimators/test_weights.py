"""More of tests/estimators/test_weights.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.federation import SiloData, Work
from skdpfl.losses import LogLoss
from skdpfl.models import LinearModel
from skdpfl.scaling import Slopes
from tests.estimators.fits import data
from tests.estimators.test_weights import HUGE, weights_of
from tests.made_sums import exact_sums


@pytest.mark.parametrize("weight", [*HUGE, np.inf, np.nan])
def test_the_temperature_is_cut_after_weighting(weight):
    X, y, silos = data("ISRLDPClassifier")
    work = Work(LinearModel(3, 1), LogLoss(), None, None, X.dtype)
    params, weights, cut = np.array([1.0, -2.0, 3.0, 0.5]), weights_of(), 0.9

    def sums(weights, **changed):
        given = SiloData.from_codes(X, y, silos, 4, weights=weights)
        with np.errstate(all="ignore"):
            return exact_sums(Slopes(params, 1.0, cut), given, work=work)

    new = weights.copy()
    new[7] = weight
    before, after = sums(weights), sums(new)
    assert np.isfinite(after).all()
    assert abs(after - before).max() <= 2 * cut
    assert np.array_equal(np.delete(after, silos[7]), np.delete(before, silos[7]))
    assert not np.array_equal(before, sums(None))
