"""How good a model is at silos elsewhere: counted right, noised as priced, paid once."""

import numpy as np
import pytest
from sklearn import metrics

from skdpfl import SiloAdapted
from skdpfl.models import MLP, Additive
from skdpfl.remote import Refused, RemoteFederation, SilosMissing, score_federation
from tests.remote.silos_here import NAMES, Here, estimator, fit_here, problem, schema


def of(here, classes=(0, 1)):
    return RemoteFederation(here, schema(here.problem), classes=classes, estimator="a fit")


def test_errors_of_regressors_are_cut_at_the_bound(tmp_path):
    data = X, y, _ = problem("Regressor")
    model = fit_here(estimator("ISRLDPRegressor", feature_bounds=(-4, 4)), data)
    here = Here(tmp_path, data, budget=(1e6, 1e-3))
    with pytest.raises(ValueError, match="Give bound"):
        score_federation(model, of(here, None), epsilon=1.0)
    found = score_federation(model, of(here, None), epsilon=1e4, bound=50.0, random_state=0)
    exact = metrics.mean_absolute_error(y, model.predict(X))
    assert found.overall == pytest.approx(-exact, abs=0.05)
    cut = score_federation(model, of(here, None), epsilon=1e4, bound=0.5, random_state=1)
    assert cut.overall == pytest.approx(
        -np.minimum(abs(y - model.predict(X)), 0.5).mean(), abs=0.01
    )


EXACT = {
    "accuracy": lambda model, X, y: metrics.accuracy_score(y, model.predict(X)),
    "balanced_accuracy": lambda model, X, y: metrics.balanced_accuracy_score(y, model.predict(X)),
    "neg_log_loss": lambda model, X, y: -metrics.log_loss(y, model.predict_proba(X)),
    "roc_auc": lambda model, X, y: metrics.roc_auc_score(y, model.decision_function(X)),
    "neg_mean_absolute_error": lambda model, X, y: (
        -metrics.mean_absolute_error(y, model.predict(X))
    ),
    "r2": lambda model, X, y: metrics.r2_score(y, model.predict(X)),
}
NETWORK = {"model": MLP((3,))}
MEASURES = {
    "accuracy of a network": ("DPFedAvgClassifier", NETWORK, "accuracy", None),
    "balanced accuracy": ("ISRLDPClassifier", {"class_weight": {1: 4}}, "balanced_accuracy", None),
    "log loss": ("ISRLDPClassifier", {}, "neg_log_loss", 20.0),
    "log loss of a network": ("DPFedAvgClassifier", NETWORK, "neg_log_loss", 20.0),
    "clipped features": ("ISRLDPClassifier", {"clip_features": True}, "neg_log_loss", 20.0),
    "curves": ("ISRLDPClassifier", {"model": Additive(4, True)}, "neg_log_loss", 20.0),
    "area": ("ISRLDPClassifier", {"epsilon": 20.0}, "roc_auc", None),
    "area of margins": ("ISRLDPClassifier", {"loss": "hinge", "epsilon": 20.0}, "roc_auc", None),
    "r2": ("ISRLDPRegressor", {"epsilon": 8.0, "target_bounds": (-20, 20)}, "r2", None),
    "half the range": ("ISRLDPRegressor", {"target_bounds": (-40, 40)}, None, None),
}


@pytest.mark.parametrize("name", MEASURES)
def test_scores_are_those_of_the_records(tmp_path, name):
    kind, options, measure, bound = MEASURES[name]
    data = X, y, silos = problem("Regressor" if "Regressor" in kind else "Classifier")
    model = fit_here(estimator(kind, feature_bounds=(-1, 1), **options), data)
    here = Here(tmp_path, data, budget=(1e7, 1e-3))
    given = {"measure": measure, "bound": bound, "epsilon": 1e6, "random_state": 0}
    found = score_federation(model, of(here, (0, 1) if "Classifier" in kind else None), **given)
    exact = EXACT[measure or "neg_mean_absolute_error"]
    slack = 0.035 if measure == "roc_auc" else 0.005
    assert found.overall == pytest.approx(exact(model, X, y), abs=slack)
    assert found.overall_noise < 0.01
    for i, silo in enumerate(NAMES[:3]):
        own = exact(model, X[silos == i], y[silos == i])
        assert found.per_silo[silo] == pytest.approx(
            own, abs=0.15 if measure == "roc_auc" else 0.02
        )


def test_own_parts_of_silos_are_not_scored(tmp_path):
    data = X, y, silos = problem()
    adapted = SiloAdapted(estimator(feature_bounds=(-4, 4))).fit(X, y, silos=silos)
    with pytest.raises(Refused, match="may not leave the silo"):
        score_federation(adapted, of(Here(tmp_path, data)), epsilon=1.0)


def test_a_loss_of_probabilities_needs_some(tmp_path):
    model = fit_here(estimator(loss="hinge", feature_bounds=(-4, 4), calibrate=False), problem())
    with pytest.raises(ValueError, match="has no probabilities"):
        score_federation(
            model, of(Here(tmp_path, problem())), epsilon=1.0, measure="neg_log_loss", bound=3.0
        )


def test_a_silo_answers_a_score_once_and_within_its_budget(tmp_path):
    data = problem()
    model = fit_here(estimator(feature_bounds=(-4, 4)), data)
    here = Here(tmp_path, data, budget=(2.0, 1e-4), allow_simulation=False)
    federation = of(here)
    one = score_federation(model, federation, epsilon=1.0)
    answers = {name: here.gate(name).answer(letter) for name, letter in here.letters[4:]}
    assert answers == dict(here.answers[4:])
    with pytest.raises(SilosMissing, match="ledger has left"):
        for _ in range(4):
            score_federation(model, federation, epsilon=1.0)
    assert 0 < one.overall_noise < min(one.noise.values())
    with pytest.raises(SilosMissing, match="knows the seed"):
        score_federation(model, federation, epsilon=1.0, random_state=0)
