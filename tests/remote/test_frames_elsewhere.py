"""Frames of silos elsewhere are encoded there, by what is declared of their columns."""

import numpy as np
import pytest

from skdpfl.federation import Schema
from skdpfl.remote import Refused, SiloRecords, SilosMissing
from tests.estimators.test_frames import DECLARED, raw
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here

#: what the server says of columns; ranges of numbers and dates are the estimator's
COLUMNS = DECLARED | {"age": "number", "seen": "date"}


class Frames(Here):
    """Silos that hold frames."""

    declared = DECLARED

    def records(self, name):
        frame, y, silos = self.problem
        mine = silos == NAMES.index(name)
        return SiloRecords(name, frame[mine], y[mine], classes=[0, 1], columns=self.declared)


def problem():
    frame, y, silos = raw()
    return frame, y.astype(int), silos


def facts(columns=COLUMNS):
    return Schema(dict.fromkeys(NAMES, 100), columns=columns)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ISRLDPClassifier", "DPFedAvgClassifier"])
def test_frames_elsewhere_give_the_same_model(kind, tmp_path):
    known = fit_here(estimator(kind, feature_bounds=DECLARED), problem())
    model = estimator(kind, feature_bounds=DECLARED)
    model = fit_elsewhere(model, Frames(tmp_path, problem()), facts())
    np.testing.assert_array_equal(model.coef_, known.coef_)
    assert model.schema_ == known.schema_
    assert model.privacy_spent_.epsilon == known.privacy_spent_.epsilon
    frame = problem()[0]
    np.testing.assert_array_equal(model.predict(frame), known.predict(frame))
    assert model.feature_names_in_.tolist() == list(DECLARED)


def test_other_levels_are_refused_before_anything_is_charged(tmp_path):
    silos = Frames(tmp_path, problem())
    silos.declared = DECLARED | {"ward": ["heart", "lung"]}
    with pytest.raises((Refused, SilosMissing), match="no column 'ward_skin'"):
        fit_elsewhere(estimator(feature_bounds=DECLARED), silos, facts())
    assert not silos.entries("east")


def test_what_is_not_declared_is_named():
    frame, y, _ = problem()
    with pytest.raises(ValueError, match=r"\['ward'\] have no range or levels"):
        SiloRecords("east", frame, y, classes=[0, 1], columns=DECLARED | {"ward": "category"})
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['ward'\]"):
        SiloRecords("east", frame.drop(columns="ward"), y, classes=[0, 1], columns=DECLARED)
    with pytest.raises(ValueError, match="Give n_features, or the columns"):
        Schema({"east": 10})
