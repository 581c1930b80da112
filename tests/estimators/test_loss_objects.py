"""A loss is a name or an object: the same fit, searched by its fields, checked like any part."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import skdpfl
from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.losses import NAMED, Hinge, Huber, LogLoss, Loss, Quantile, Weighted
from skdpfl.privacy import PrivacyLedger
from tests.estimators.fits import ESTIMATORS

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
SILOS = np.arange(120) % 4
LINE = X @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=120)
SETTINGS = {"n_rounds": 4, "feature_bounds": (-4, 4), "random_state": 0}


def problem(loss):
    """An estimator and targets for a loss."""
    if loss.is_classifier:
        return ISRLDPClassifier(3.0, classes=[False, True], **SETTINGS), LINE > 0
    y = 1 + np.rint(np.abs(LINE)) if loss.target_range[0] >= 0 else LINE
    return ISRLDPRegressor(3.0, target_bounds=(0, 5), **SETTINGS), y


@pytest.mark.parametrize("name", [*ISRLDPClassifier._losses, *ISRLDPRegressor._losses])
@pytest.mark.filterwarnings("ignore:The noise will drown")
def test_an_object_is_the_loss_of_its_name(name):
    loss = NAMED[name]()
    model, y = problem(loss)
    named = clone(model).set_params(loss=name).fit(X, y, silos=SILOS)
    given = clone(model).set_params(loss=loss).fit(X, y, silos=SILOS)
    assert np.array_equal(given.coef_, named.coef_)
    assert np.array_equal(given.predict(X), named.predict(X))
    assert given.privacy_spent_.epsilon == named.privacy_spent_.epsilon
    has = name in ("log_loss", "ordinal")
    assert hasattr(given, "predict_proba") == hasattr(named, "predict_proba") == has
    plain = given.to_dict()
    assert (plain["loss"], plain["parameters"]) == (name, named.to_dict()["parameters"])
    assert np.array_equal(type(model).from_dict(plain).predict(X), named.predict(X))
    tags = [each.__sklearn_tags__().target_tags.positive_only for each in (given, named)]
    assert tags == [loss.target_range[0] >= 0] * 2


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_tell_the_truth_and_can_be_set(name):
    loss = Hinge() if name.endswith("Classifier") else Quantile(0.9)
    model = getattr(skdpfl, name)(loss=loss)
    assert model.get_params()["loss"] is loss
    assert model.get_params()["loss__smoothing"] is None
    assert "loss__smoothing" not in model.get_params(deep=False)
    copy = clone(model).set_params(loss__smoothing=2.0)
    assert (copy.loss.smoothing, loss.smoothing, copy._loss()) == (2.0, None, copy.loss)
    with pytest.raises(ValueError, match=r"loss__depth: .* has no parameter 'depth'"):
        model.set_params(loss__depth=1)
    with pytest.raises(ValueError, match="loss__q: loss='squared' has no parameter 'q'"):
        model.set_params(loss="squared", loss__q=0.5)


def test_other_objects_are_refused():
    refused = {
        "'squared_error', .*, or a loss object such as .*SquaredError": (
            Hinge(),
            Quantile,
            "mse",
            3,
            None,
        ),
        "sample_weight": (Weighted(Huber()),),
    }
    for words, losses in refused.items():
        for loss in losses:
            with pytest.raises(ValueError, match=words):
                ISRLDPRegressor(loss=loss).fit(X, LINE)
    with pytest.raises(ValueError, match=r"or a loss object such as .*LogLoss\(\)"):
        ISRLDPClassifier(loss=Quantile()).fit(X, LINE > 0)
    assert not hasattr(DPFedAvgClassifier(loss=Hinge()), "predict_proba")


@dataclass(frozen=True)
class Flat(LogLoss):
    """A loss of one's own with probabilities."""


@dataclass(frozen=True)
class Mixes(Loss):
    """Divides by the largest residual of all records."""

    stackable = True
    is_classifier = False

    def value(self, y, raw, *, squared_norms=None):
        return np.abs(raw[..., 0] - y)

    def gradient(self, y, raw, *, squared_norms=None, out=None):
        residuals = raw - y[..., None]
        return np.divide(residuals, np.abs(residuals).max(), out=out)

    def lipschitz(self, n_outputs):
        return 1.0

    def curvature(self, n_outputs):
        return 1.0


class Apart(Mixes):
    """Mixes what it is given, but is given one record at a time."""

    stackable = False


def test_losses_of_ones_own_are_tried_before_anything_is_charged():
    own = ISRLDPClassifier(3.0, loss=Flat(), **SETTINGS).fit(X, LINE > 0, silos=SILOS)
    usual = ISRLDPClassifier(3.0, **SETTINGS).fit(X, LINE > 0, silos=SILOS)
    assert np.array_equal(own.predict_proba(X), usual.predict_proba(X))
    with pytest.raises(ValueError, match=r"Flat.* is a user-defined one"):
        own.to_dict()
    mixing, words = ISRLDPRegressor(3.0, loss=Mixes(), **SETTINGS), "Mixes mixes records"
    with PrivacyLedger(9.0, 1e-3) as ledger, pytest.raises(ValueError, match=words):
        mixing.fit(X, LINE, silos=SILOS)
    assert not ledger.entries
    mixing.set_params(loss=Apart()).fit(X, LINE, silos=SILOS)  # nothing to try
