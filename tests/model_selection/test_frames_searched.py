"""Searches take frames with text and gaps: levels are found in each run, within the one budget."""

import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.model_selection import DPRandomizedSearchCV
from tests.estimators.test_frames import DECLARED, raw

KINDS = {"smoker": "flag"}


def search(trust, declared):
    model = ISRLDPClassifier(trust=trust, max_categories=4, n_rounds=3, feature_bounds=declared)
    return DPRandomizedSearchCV(model, {"alpha": [0.0, 0.1]}, n_iter=2, epsilon=6.0, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trust", "declared"), [("silo", KINDS), ("silo", DECLARED), ("server", KINDS)]
)
def test_a_frame_is_searched_in_one_budget(trust, declared):
    frame, y, silos = raw(2000)
    found = search(trust, declared).fit(frame, y, silos=silos)
    assert found.privacy_spent_.epsilon <= 6
    assert found.best_estimator_.schema_["ward"].levels == ("heart", "lung", "skin")
    assert found.predict(frame).shape == y.shape
