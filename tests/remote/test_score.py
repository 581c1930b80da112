"""How good a model is at silos elsewhere: counted right, noised as priced, paid once."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error

from skdpfl.federation import SumPlan
from skdpfl.models import MLP, LinearModel
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from skdpfl.remote import Refused, RemoteFederation, SilosMissing, score_federation
from skdpfl.remote._measures import Predictor, Scored
from skdpfl.remote._row import SumRow, checked
from skdpfl.scaling import SquashScaling
from tests.made_sums import budgets_of
from tests.remote.silos_here import NAMES, Here, estimator, fit_here, problem, schema


def of(here, classes=(0, 1)):
    return RemoteFederation(here, schema(here.problem), classes=classes, estimator="a fit")


def linear(coef):
    coef = np.array(coef)
    arrays = {"coef_": coef, "intercept_": np.zeros(len(coef))}
    return Predictor(LinearModel(coef.shape[1], len(coef)), arrays, None, False)


def asked(mu=1.0, n=50, neighbours="replace", measure="accuracy", bound=1.0, model=None):
    plan = SumPlan(budgets_of([n], mu, neighbours=neighbours), "score", (np.array([mu]),))
    return plan, Scored(measure, bound, model or linear([[1.0]]))


@pytest.mark.parametrize("squashed", [False, True])
def test_accuracies_are_those_of_the_records(tmp_path, squashed):
    """With a large budget the answers are the exact ones; each silo pays once."""
    data = X, y, silos = problem()
    model = fit_here(estimator(feature_bounds=(-4, 4)), data)
    if squashed:  # as small budgets without bounds have it
        model.scaling_ = SquashScaling()
    here = Here(tmp_path, data, budget=(1e6, 1e-3))
    found = score_federation(model, of(here), epsilon=1e4, random_state=0)
    right = model.predict(X) == y
    for i, name in enumerate(NAMES):
        assert found.per_silo[name] == pytest.approx(right[silos == i].mean(), abs=0.02)
        assert len(here.entries(name)) == 1
        assert found.epsilon[name] == pytest.approx(1e4, rel=1e-3)
    assert found.overall == pytest.approx(right.mean(), abs=0.01)


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


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_row_prices_what_it_is_asked_for(neighbours):
    plan, what = asked(1.4, neighbours=neighbours)
    row = SumRow("a", 50, 1e-5, "record", "silo", neighbours, (plan,), what)
    assert row.spent(None).epsilon == pytest.approx(gaussian_epsilon(1.4, 1e-5), rel=1e-6)
    change = 2 if neighbours == "replace" else 1
    assert row.spent(None).noise_multiplier == pytest.approx(change / 1.4)
    assert row.spent(None).n_releases == 1
    assert plan.noised(0, what).std >= change / 2 / 1.4


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


def test_other_models_and_numbers_are_refused(tmp_path):
    here = Here(tmp_path, problem())
    with pytest.raises(Refused, match="this is neither"):
        score_federation(object(), of(here), epsilon=1.0)
    model = fit_here(estimator(feature_bounds=(-4, 4)), problem())
    model.coef_ = model.coef_[:, :2]
    with pytest.raises(ValueError, match="measure is one of"):
        score_federation(model, of(here), epsilon=1.0, measure="squared_error", bound=1.0)
    with pytest.raises(SilosMissing, match="other features or classes"):
        score_federation(model, of(here), epsilon=1.0)
    with pytest.raises(Refused, match="too little"):
        checked(*sum_at(1e13), 1, 2, None)
    for wrong in ({"bound": np.nan}, {"bound": 0.0}, {"bound": 2.0}):
        with pytest.raises(Refused, match=r"bound of an|do not belong"):
            checked(*sum_at(**wrong), 1, 2, None)
    for wrong in ({"mu": 0.0}, {"mu": np.nan}, {"n": 0}):
        plan, what = asked(**wrong)
        with pytest.raises(Refused, match="do not belong"):
            SumRow("a", wrong.get("n", 50), 1e-5, "record", "silo", "replace", (plan,), what)


def sum_at(mu=1.0, **options):
    plan, what = asked(mu, **options)
    return plan, 0, what
