"""The scalers in scikit-learn's world."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpfl.preprocessing import DPMinMaxScaler, DPStandardScaler

SCALERS = [
    DPStandardScaler(),
    DPStandardScaler(feature_bounds=(-10, 10)),
    DPMinMaxScaler(),
    DPMinMaxScaler(feature_bounds=(-10, 10)),
]


@pytest.mark.filterwarnings("ignore:The scales of:UserWarning")
@parametrize_with_checks(SCALERS)
def test_scikit_learn(estimator, check):
    check(estimator)
