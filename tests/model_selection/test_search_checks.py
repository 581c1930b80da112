"""scikit-learn's own checks of estimators, on searches."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpfl import ISRLDPClassifier
from skdpfl.model_selection import DPRandomizedSearchCV

CLIPS = {"clip_norm": [0.5, 1.0]}


def search(estimator):
    return DPRandomizedSearchCV(estimator, CLIPS, n_iter=2, epsilon=5.0, random_state=0)


# checks feed a few dozen records, sometimes wild ones
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


@parametrize_with_checks([search(ISRLDPClassifier(n_rounds=3))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_names_and_logarithms():
    X = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (200, 2)), columns=["a", "b"])
    model = ISRLDPClassifier(n_rounds=3, feature_bounds=(-1, 1))
    fitted = search(model).fit(X, X["a"] > 0)
    assert np.allclose(fitted.predict_log_proba(X), np.log(fitted.predict_proba(X)))
    hinge = search(ISRLDPClassifier(loss="hinge", n_rounds=3, feature_bounds=(-1, 1)))
    assert not hasattr(hinge.fit(X, X["a"] > 0), "predict_log_proba")
