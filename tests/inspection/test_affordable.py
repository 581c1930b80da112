"""affordable_features: a number of columns from public numbers."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.inspection import affordable_features
from skdpfl.models import MLP

SIZES = [300] * 6  # 1,800 records


def test_labels_bear_more_and_a_larger_budget_too():
    reg, clf = (kind(epsilon=2.0, delta=1e-5) for kind in (ISRLDPRegressor, ISRLDPClassifier))
    few, more = (affordable_features(model, silo_sizes=SIZES) for model in (reg, clf))
    assert 2 * few < more < 3 * few + 3
    assert affordable_features(clf.set_params(epsilon=4.0), silo_sizes=SIZES) > 1.5 * more


def test_bounds_may_be_those_of_any_columns():
    bounds = {"feature_bounds": ([0, 1], [5, 7]), "target_bounds": (0, 1)}
    pipe = make_pipeline(PolynomialFeatures(), ISRLDPRegressor(epsilon=3.0, **bounds))
    plain = ISRLDPRegressor(epsilon=3.0, feature_bounds=(0, 1), target_bounds=(0, 1))
    assert affordable_features(pipe, silo_sizes=SIZES) == affordable_features(
        plain, silo_sizes=SIZES
    )
    assert pipe[-1].feature_bounds == bounds["feature_bounds"]


def test_without_privacy_nothing_limits_it_and_at_least_one_column_is_named():
    assert affordable_features(ISRLDPClassifier(epsilon=np.inf), silo_sizes=SIZES) == 2**14
    assert affordable_features(ISRLDPRegressor(epsilon=0.01), silo_sizes=[20, 20]) == 1


@pytest.mark.parametrize("model", [DPFedAvgClassifier(unit="silo"), ISRLDPClassifier(model=MLP())])
def test_whole_silos_and_networks_are_refused(model):
    with pytest.raises(ValueError, match="linear models with unit"):
        affordable_features(model, silo_sizes=SIZES)


@pytest.mark.slow
def test_widths_that_are_only_tried_give_no_warnings():
    shuffled = ISRLDPClassifier(3.0, trust="shuffler", n_rounds=20, scaling=None)
    with pytest.warns(UserWarning, match="gains nothing"):
        shuffled.plan_for(silo_sizes=SIZES, n_features=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert affordable_features(shuffled, silo_sizes=SIZES) >= 1
