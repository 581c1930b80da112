"""How good a model is at silos elsewhere: counted right, noised as priced, paid once."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error

from skdpfl.models import MLP
from skdpfl.remote import RemoteFederation, SilosMissing, score_federation
from tests.remote.silos_here import Here, estimator, fit_here, problem, schema


def of(here, classes=(0, 1)):
    return RemoteFederation(here, schema(here.problem), classes=classes, estimator="a fit")


def test_errors_of_regressors_are_cut_at_the_bound(tmp_path):
    data = X, y, _ = problem("Regressor")
    model = fit_here(estimator("ISRLDPRegressor", feature_bounds=(-4, 4)), data)
    here = Here(tmp_path, data, budget=(1e6, 1e-3))
    with pytest.raises(ValueError, match="Give bound"):
        score_federation(model, of(here, None), epsilon=1.0)
    found = score_federation(model, of(here, None), epsilon=1e4, bound=50.0, random_state=0)
    exact = mean_absolute_error(y, model.predict(X))
    assert found.overall == pytest.approx(exact, abs=0.05)
    cut = score_federation(model, of(here, None), epsilon=1e4, bound=0.5, random_state=1)
    assert cut.overall == pytest.approx(np.minimum(abs(y - model.predict(X)), 0.5).mean(), abs=0.01)


LOSSES = {
    "log loss": ("ISRLDPClassifier", {}, "log_loss", 20.0),
    "log loss of a network": ("DPFedAvgClassifier", {"model": MLP((3,))}, "log_loss", 20.0),
    "squared error": ("ISRLDPRegressor", {"epsilon": 8.0}, "squared_error", 1e3),
    "accuracy of a network": ("DPFedAvgClassifier", {"model": MLP((3,))}, "accuracy", None),
    "clipped features": ("ISRLDPClassifier", {"clip_features": True}, "log_loss", 20.0),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_the_records(tmp_path, name):
    kind, options, measure, bound = LOSSES[name]
    data = X, y, _ = problem("Regressor" if "Regressor" in kind else "Classifier")
    model = fit_here(estimator(kind, feature_bounds=(-1, 1), **options), data)
    here = Here(tmp_path, data, budget=(1e6, 1e-3))
    given = {"measure": measure, "bound": bound, "epsilon": 1e4, "random_state": 0}
    classes = (0, 1) if "Classifier" in kind else None
    found = score_federation(model, of(here, classes), **given).overall
    if measure == "accuracy":
        assert found == pytest.approx(model.score(X, y), abs=0.02)
    elif measure == "log_loss":
        assert found == pytest.approx(log_loss(y, model.predict_proba(X)), abs=0.05)
    else:
        assert found == pytest.approx(mean_squared_error(y, model.predict(X)), abs=3.0)


def test_a_loss_of_probabilities_needs_some(tmp_path):
    model = fit_here(estimator(loss="hinge", feature_bounds=(-4, 4), calibrate=False), problem())
    with pytest.raises(ValueError, match="gives no probabilities"):
        score_federation(
            model, of(Here(tmp_path, problem())), epsilon=1.0, measure="log_loss", bound=3.0
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
