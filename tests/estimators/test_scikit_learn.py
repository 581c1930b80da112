"""scikit-learn's own checks, for every estimator, with metadata routing off and on."""

import pytest
import sklearn
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import skdpfl
from tests.estimators.fits import ESTIMATORS

#: as they are made, for the slow tests; few rounds, which no check asks more of, for the others
EVERY = [getattr(skdpfl, name)() for name in ESTIMATORS]
SHORT = [clone(estimator).set_params(n_rounds=10) for estimator in EVERY]
#: a weight of 2 is not a record twice: divisors are public, and sizes are counted without weights
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": "normalisers are public"}

# without bounds and with a few dozen records the library says what it would need
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.every
@parametrize_with_checks(SHORT, expected_failed_checks=lambda estimator: EXPECTED)
def test_checks(estimator, check):
    check(estimator)


@pytest.mark.wide
@parametrize_with_checks(EVERY, expected_failed_checks=lambda estimator: EXPECTED)
def test_checks_with_routing(estimator, check):
    with sklearn.config_context(enable_metadata_routing=True):
        check(estimator)
