"""The noise error of ``summary`` is the standard deviation over fits with new noise."""

import numpy as np
import pytest

from skdpfl.algorithms.average_noise import average_covariance, rounds_of
from skdpfl.models import MLP
from tests.estimators.fits import data, make


def rounds(J, eta, m, n, noise, rng, n_runs):
    """Paths (n_runs, n + 1, P) of gradient steps with momentum, by hand."""
    x = np.zeros((n_runs, len(J)))
    v, path = np.zeros_like(x), [x]
    for _ in range(n):
        v = m * v + (x - 1) @ J.T + noise * rng.normal(size=x.shape)
        x = x - eta * v
        path.append(x)
    return np.array(path).swapaxes(0, 1)


SLOPES = [
    (np.eye(4), 1.25),
    (0.3 * np.eye(4) + 0.7, 1.25),
    (np.diag([0.3, 0.5, 2.0, 4.0]), 1.6),  # flat directions are taken for a part of steep ones
]


@pytest.mark.slow
@pytest.mark.parametrize(("J", "most"), SLOPES, ids=["alike", "correlated", "unlike"])
@pytest.mark.parametrize("last", [50, 25])
def test_errors_of_linear_rounds_are_right(J, most, last):
    """Medians of 200 have a standard error of 3 %, deviations of 2000 paths of 2 %."""
    eta, m, n, noise, rng = 0.05, 0.8, 100, 0.3, np.random.default_rng(0)
    true = rounds(J, eta, m, n, noise, rng, 2000)[:, -last:].mean(axis=1).std(axis=0)
    paths = rounds(J, eta, m, n, noise, rng, 200)
    found = [average_covariance(rounds_of(p, eta, m), noise, last) for p in paths]
    ratio = np.median(np.sqrt([np.diag(each) for each in found]), axis=0) / true
    assert abs(np.log(ratio)).max() < np.log(most), ratio


@pytest.mark.parametrize("last", [50, 25])
def test_intervals_cover_where_draws_are_noise_too(last):
    """The noise is not given, and differs between coordinates by a factor of three."""
    J, eta, m, n, rng = np.eye(4), 0.05, 0.8, 100, np.random.default_rng(0)
    noise = np.array([0.9, 0.3, 0.3, 0.3])
    paths = rounds(J, eta, m, n, noise, rng, 40)
    averages = paths[:, -last:].mean(axis=1)
    truth = rounds(J, eta, m, n, noise, rng, 1000)[:, -last:].mean(axis=(0, 1))
    covariances = [average_covariance(rounds_of(p, eta, m), None, last) for p in paths]
    errors = np.sqrt([np.diag(covariance) for covariance in covariances])
    assert 0.88 <= np.mean(abs(averages - truth) <= 1.96 * errors) <= 0.99
    assert np.median(errors[:, 0] / errors[:, 1]) > 2


def table(loss, correlation, n=4000):
    """Four columns, two of them correlated."""
    rng = np.random.default_rng(0)
    covariance = np.eye(4)
    covariance[0, 1] = covariance[1, 0] = correlation
    X = rng.multivariate_normal(np.zeros(4), covariance, n).clip(-3, 3)
    linear = X @ [0.5, -0.4, 0.3, 0.2]
    y = {
        "poisson": rng.poisson(np.exp(linear + 1)).clip(0, 20),
        "squared_error": (linear + rng.normal(size=n)).clip(-5, 5),
        "log_loss": (2 * linear + rng.logistic(size=n) > 0).astype(int),
    }
    return X, y[loss], rng.integers(0, 5, n)


BOUNDS = {
    "poisson": {"target_bounds": (0, 20)},
    "squared_error": {"target_bounds": (-5, 5)},
    "log_loss": {},
}
REFITS = [
    ("poisson", 0.0, {"epsilon": 2.0}),
    ("poisson", 0.9, {"epsilon": 8.0}),
    ("poisson", 0.9, {"epsilon": 8.0, "n_rounds": 300}),
    ("squared_error", 0.0, {"epsilon": 2.0}),
    ("squared_error", 0.9, {"epsilon": 8.0}),
    ("log_loss", 0.0, {"epsilon": 4.0}),
    ("log_loss", 0.9, {"epsilon": 8.0}),
    ("log_loss", 0.0, {"epsilon": 8.0, "sampling_rate": 0.1}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "correlation", "kw"), REFITS)
def test_errors_are_right_over_refits(loss, correlation, kw):
    """100 fits of the same data with new noise.

    Logarithms of single ratios have a standard error of .09, their mean one of .04.
    """
    X, y, silos = table(loss, correlation)
    name = "ISRLDPClassifier" if loss == "log_loss" else "ISRLDPRegressor"
    found = []
    for seed in range(100):
        given = {"feature_bounds": (-3, 3), "model": "linear", "loss": loss, "random_state": seed}
        model = make(name, **given | BOUNDS.get(loss, {}) | kw)
        found.append(model.fit(X, y, silos=silos).summary().to_numpy())
    coefficients, errors = np.moveaxis(found, 2, 0)
    ratios = np.log(np.median(errors, axis=0) / coefficients.std(axis=0))
    assert abs(ratios.mean()) < np.log(1.25), np.exp(ratios)
    assert abs(ratios).max() < np.log(1.6), np.exp(ratios)


def test_units_and_classes():
    """Errors go by the units of a column; several classes have a column each."""
    X, y, silos = data("ISRLDPClassifier", n_classes=3)
    kw = {"epsilon": 3.0, "random_state": 0, "n_rounds": 30}
    table = make("ISRLDPClassifier", feature_bounds=(-6, 6), **kw).fit(X, y, silos=silos).summary()
    assert table.columns.tolist() == [
        *(f"coefficient of {c}" for c in range(3)),
        *(f"noise error of {c}" for c in range(3)),
    ]
    unit = np.array([1000.0, 1.0, 1.0])
    bounds = (-6 * unit, 6 * unit)
    larger = make("ISRLDPClassifier", feature_bounds=bounds, **kw).fit(X * unit, y, silos=silos)
    ratio = (table / larger.summary()).to_numpy()
    np.testing.assert_allclose(ratio[0], 1000.0, rtol=1e-6)
    np.testing.assert_allclose(ratio[1:], 1.0, rtol=1e-6)


MISSING = {
    "no noise": ("ISRLDPClassifier", {"epsilon": np.inf}),
    "not single gradient steps": ("DPScaffoldClassifier", {"local_steps": 3}),
    "too few to estimate the noise": ("ISRLDPClassifier", {"sampling_rate": 0.5}),
    "a quarter of the rounds": ("ISRLDPClassifier", {"average": 3}),
    "fewer than 20 rounds": ("ISRLDPClassifier", {"n_rounds": 10}),
}


@pytest.mark.parametrize("why", MISSING)
def test_why_there_is_none(why):
    name, kw = MISSING[why]
    X, y, silos = data(name)
    if why.startswith("too few"):  # seven parameters, 25 rounds
        X = np.column_stack([X, X])
    common = {"n_rounds": 25, "scaling": None, "learning_rate": 0.1} | kw
    table = make(name, **common).fit(X, y, silos=silos).summary()
    assert table.columns.tolist() == ["coefficient"]
    assert why in table.attrs["no_noise_error"].replace("there is no noise", "no noise")
    network = make("ISRLDPClassifier", model=MLP((2,)), n_rounds=2, scaling=None)
    assert "not linear" in network.fit(X, y, silos=silos)._noise_error.missing
