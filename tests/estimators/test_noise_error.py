"""The noise error of ``summary``: over fits with new noise its intervals cover 95 %."""

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


CURVATURES = {"alike": np.eye(4), "flat": 0.02 * np.eye(4), "correlated": 0.3 * np.eye(4) + 0.7}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CURVATURES)
def test_intervals_cover_for_linear_rounds(kind):
    J, eta, m, n, noise, rng = CURVATURES[kind], 0.05, 0.8, 100, 0.3, np.random.default_rng(0)
    paths = rounds(J, eta, m, n, noise, rng, 40)
    averages = paths[:, n // 2 + 1 :].mean(axis=1)
    truth = rounds(J, eta, m, n, noise, rng, 1000)[:, n // 2 + 1 :].mean(axis=(0, 1))
    errors = np.array(
        [np.sqrt(np.diag(average_covariance(rounds_of(p, eta, m), noise))) for p in paths]
    )
    assert 0.88 <= np.mean(abs(averages - truth) <= 1.96 * errors) <= 0.99


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


def logistic(n=2000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    X[:, 4] = rng.random(n) < 0.004
    y = X @ [1.0, -0.8, 0.5, 0.3, 0.0] + rng.logistic(size=n) > 0
    return X, y.astype(int), rng.integers(0, 5, n)


@pytest.mark.slow
@pytest.mark.parametrize("kw", [{"epsilon": 1.0}, {"epsilon": 8.0, "sampling_rate": 0.1}])
def test_intervals_cover_over_refits(kw):
    """150 fits of the same data with new noise: of 600 intervals, 90 to 99 % hold their mean."""
    X, y, silos = logistic()
    found = []
    for seed in range(150):
        given = {"feature_bounds": (-5, 5), "model": "linear", "random_state": seed}
        model = make("ISRLDPClassifier", **given | kw)
        found.append(model.fit(X[:, :4], y, silos=silos).summary().to_numpy())
    coefficients, errors = np.moveaxis(found, 2, 0)
    covered = abs(coefficients - coefficients.mean(axis=0)) <= 1.96 * errors
    assert 0.9 <= covered.mean() <= 0.99


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
