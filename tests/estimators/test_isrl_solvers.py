"""ISRL-DP's solvers behind the estimators: what they find, what they release, what is refused."""

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.privacy.events import Gaussian
from tests.estimators.fits import data


def fit(loss, **kw):
    """Fit without privacy unless told; returns the estimator and the objective's pieces."""
    name = (
        "ISRLDPClassifier" if loss in ("log_loss", "hinge", "squared_hinge") else "ISRLDPRegressor"
    )
    X, y, silos = data(name, n=200, seed=1)
    X, y = X / 2, (y if name == "ISRLDPClassifier" else (y - y.mean()) / y.std())
    options = {"epsilon": np.inf, "alpha": 0.1, "scaling": None, "random_state": 0}
    cls = {"ISRLDPClassifier": ISRLDPClassifier, "ISRLDPRegressor": ISRLDPRegressor}[name]
    return cls(loss=loss, **(options | kw)).fit(X, y, silos=silos), X, y


# ------------------------------------------------------------------ what is released and priced


@pytest.mark.parametrize("solver", ["minibatch", "accelerated", "multistage"])
def test_one_pass_costs_one_gaussian(solver):
    X, y, silos = data("ISRLDPClassifier", n=240)
    clf = ISRLDPClassifier(
        1.0,
        solver=solver,
        sampling="disjoint",
        alpha=0.1,
        scaling=None,
        n_rounds=12,
        calibrate=False,
    ).fit(X, y, silos=silos)
    plan = clf.plan_
    z = float(plan.noise_multiplier[0])
    assert set(plan.groups().compositions) == {((Gaussian(z), 1),)}
    assert clf.sampling_rate_ == pytest.approx(1 / 12)
    sizes = np.bincount(silos)
    np.testing.assert_array_equal(plan.expected_sizes, sizes // 12)
    many = ISRLDPClassifier(1.0, solver=solver, alpha=0.1, scaling=None, n_rounds=12)
    assert z < many.plan_for(silo_sizes=sizes, n_features=3).noise_multiplier[0]


# ------------------------------------------------------------------ steps


def test_optimal_steps_are_the_published_ones():
    clf, X, _ = fit("log_loss", n_rounds=40, learning_rate="optimal", alpha=0.0, epsilon=1e4)
    assert clf.learning_rate_ == pytest.approx(1 / (2 * 0.25 * (X.shape[1] + 1)))
    rows = np.column_stack([X, np.ones(len(X))])  # without privacy: the data's own smoothness
    smoothness = 0.25 * np.linalg.eigvalsh(rows.T @ rows / len(X))[-1]
    for solver in ("minibatch", "accelerated"):
        kw = {"n_rounds": 40, "solver": solver, "learning_rate": "optimal", "alpha": 0.0}
        clf, _, _ = fit("log_loss", **kw)
        assert clf.learning_rate_ == pytest.approx(1 / (2 * smoothness))


@pytest.mark.parametrize("solver", ["minibatch", "accelerated", "multistage", "local"])
def test_radius_bounds_the_parameters(solver):
    clf, _, _ = fit("log_loss", solver=solver, epsilon=1.0, radius=0.2, n_rounds=20)
    assert np.hypot(np.linalg.norm(clf.coef_), clf.intercept_[0]) <= 0.2 * (1 + 1e-9)


@pytest.mark.parametrize("n_rounds", [7, 40])
def test_accelerated_steps_are_those_of_a_loop_with_mu_alpha(n_rounds):
    options = {"solver": "accelerated", "n_rounds": n_rounds, "fit_intercept": False}
    model, X, y = fit("squared_error", **options)  # alpha = 0.1
    v, mu, x, ag = 1 / model.learning_rate_, 0.1, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for r in range(1, n_rounds + 1):
        a, e = 2 / (r + 1), 4 * v / (r * (r + 1))
        mixed = (1 - a) * (mu + e) * ag + a * ((1 - a) * mu + e) * x
        middle = mixed / (e + (1 - a**2) * mu)
        gradient = X.T @ (X @ middle - y) / len(y) + mu * middle
        x = (a * mu * middle + ((1 - a) * mu + e) * x - a * gradient) / (mu + e)
        ag = a * x + (1 - a) * ag
    np.testing.assert_allclose(model.coef_, ag, rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("kw", "words"),
    [
        ({"solver": "newton"}, "'multistage', 'local', 'localized'; got 'newton'"),
        ({"solver": "multistage"}, r"alpha > 0 \(got alpha=0.0\)"),
        ({"solver": "local", "trust": "server"}, 'trust must be "silo"; got .server'),
        ({"local_steps": 3}, 'local_steps=3 is for solver="local"'),
        ({"sampling": "disjoint", "sampling_rate": 0.5}, 'must be "auto"; got 0.5'),
        ({"learning_rate": "fast"}, 'learning_rate must be .*"auto" or "optimal".*got .fast'),
        ({"radius": 0.0}, "radius"),
    ],
)
@pytest.mark.parametrize("cls", [ISRLDPClassifier, ISRLDPRegressor])
def test_what_does_not_exist_or_fit_is_refused(cls, kw, words):
    with pytest.raises(ValueError, match=words):
        cls(**kw).plan_for(silo_sizes=[50, 50], n_features=3)


def test_more_rounds_than_records_is_refused_for_one_pass():
    with pytest.raises(ValueError, match="Use fewer rounds"):
        ISRLDPClassifier(sampling="disjoint", n_rounds=60).plan_for(
            silo_sizes=[50, 70], n_features=3
        )
