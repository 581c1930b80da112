"""affordable_features: a number of columns from public numbers."""

import numpy as np
import pytest

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.inspection import affordable_features
from skdpfl.models import MLP

SIZES = [300] * 6  # 1,800 records


def test_without_privacy_nothing_limits_it_and_at_least_one_column_is_named():
    assert affordable_features(ISRLDPClassifier(epsilon=np.inf), silo_sizes=SIZES) == 2**14
    assert affordable_features(ISRLDPRegressor(epsilon=0.01), silo_sizes=[20, 20]) == 1


@pytest.mark.parametrize("model", [DPFedAvgClassifier(unit="silo"), ISRLDPClassifier(model=MLP())])
def test_whole_silos_and_networks_are_refused(model):
    with pytest.raises(ValueError, match="linear models with unit"):
        affordable_features(model, silo_sizes=SIZES)
