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
    eta, m, n, noise, rng = 0.1, 0.8, 100, 0.3, np.random.default_rng(0)
    true = rounds(J, eta, m, n, noise, rng, 2000)[:, -last:].mean(axis=1).std(axis=0)
    paths = rounds(J, eta, m, n, noise, rng, 200)
    found = [average_covariance(rounds_of(p, eta, m), noise, last) for p in paths]
    known = [np.sqrt(np.diag(each)) for each, corrected in found if corrected < 0.5]
    assert len(known) > 100
    ratio = np.median(known, axis=0) / true
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
    errors = np.sqrt([np.diag(covariance) for covariance, _ in covariances])
    assert 0.88 <= np.mean(abs(averages - truth) <= 1.96 * errors) <= 0.99
    assert np.median(errors[:, 0] / errors[:, 1]) > 2


@pytest.mark.parametrize(("slope", "told"), [(0.0, True), (0.02, True), (2.0, False)])
def test_noise_that_hardly_fades_is_told(slope, told):
    """Within 100 rounds, by at most two fifths; otherwise to a part in e^50."""
    eta, m, n, rng = 0.05, 0.8, 100, np.random.default_rng(0)
    paths = rounds(slope * np.eye(4), eta, m, n, 0.3, rng, 40)
    shares = [average_covariance(rounds_of(p, eta, m), 0.3)[1] for p in paths]
    assert np.mean((np.array(shares) >= 0.5) == told) > 0.8, shares


@pytest.mark.parametrize(("n", "least"), [(100, 0.45), (200, 0.55)])
def test_a_walk_beside_steep_directions_is_told(n, least):
    """In most of 100 paths; from the shrunk slopes alone in two fifths of them."""
    J, rng = np.diag([0.0] + [2.0] * 9), np.random.default_rng(0)
    paths = rounds(J, 0.05, 0.8, n, 0.3, rng, 100)
    told = [average_covariance(rounds_of(p, 0.05, 0.8), 0.3)[1] >= 0.5 for p in paths]
    assert np.mean(told) > least


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
    ("poisson", 0.0, {"epsilon": 8.0}),
    ("squared_error", 0.0, {"epsilon": 8.0, "n_rounds": 40}),
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
    """100 fits of the same data with new noise; where it is known.

    Logarithms of single ratios have a standard error of .09, their mean one of .04. In each set
    both limits are five of these from what was measured.
    """
    X, y, silos = table(loss, correlation)
    name = "ISRLDPClassifier" if loss == "log_loss" else "ISRLDPRegressor"
    found = []
    for seed in range(100):
        given = {"feature_bounds": (-3, 3), "model": "linear", "loss": loss, "random_state": seed}
        model = make(name, **given | BOUNDS.get(loss, {}) | kw)
        summary = model.fit(X, y, silos=silos).summary()
        found.append(summary.reindex(columns=["coefficient", "noise error"]).to_numpy())
    coefficients, errors = np.moveaxis(found, 2, 0)
    assert np.isfinite(errors[:, 0]).mean() > 0.5
    ratios = np.log(np.nanmedian(errors, axis=0) / coefficients.std(axis=0))
    assert np.log(0.7) < ratios.mean() < np.log(1.5), np.exp(ratios)
    assert abs(ratios).max() < np.log(2), np.exp(ratios)


def test_what_noise_errors_are_conditional_on():
    """The frame says that the private scales are given, if there are some."""
    X, y, silos = table("log_loss", 0.3)
    kw = {"feature_bounds": (-3, 3), "model": "linear", "random_state": 0, "epsilon": 8.0}
    frame = make("ISRLDPClassifier", **kw).fit(X, y, silos=silos).summary()
    assert (frame["noise error"] > 0).all() and frame.attrs["no_noise_error"] == ""
    assert "private scales" in frame.attrs["noise_error_given"]
    frame = make("ISRLDPClassifier", scaling=None, **kw).fit(X, y, silos=silos).summary()
    assert frame.attrs["noise_error_given"] == ""


@pytest.mark.slow
def test_noise_in_what_all_classes_share_is_counted():
    """It changes no probability and never fades, so it is most of each coefficient's.

    Of 60 fits: logarithms of ratios have a standard error of .11; without it they were log .4.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4)).clip(-3, 3)
    y = np.argmax(1.5 * X[:, :3] + rng.gumbel(size=(4000, 3)), axis=1)
    kw = {"epsilon": 8.0, "model": "linear", "feature_bounds": (-3, 3)}
    fits = (make("ISRLDPClassifier", random_state=k, **kw) for k in range(60))
    found = np.array([fit.fit(X, y, silos=np.arange(4000) % 4).summary() for fit in fits])
    ratios = np.median(found[:, :, 3:], axis=0) / found[:, :, :3].std(axis=0)
    assert abs(np.log(ratios)).max() < np.log(1.9), ratios


def test_units_and_classes():
    """Errors go by the units of a column; several classes have a column each."""
    X, y, silos = data("ISRLDPClassifier", n=2000, n_classes=3)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(y.size) < 0.3, rng.integers(0, 3, y.size), y)  # so that slopes settle
    kw = {"epsilon": 3.0, "random_state": 0, "n_rounds": 100, "learning_rate": 20.0}
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
    "too few to estimate the noise": ("ISRLDPClassifier", {}),
    "a quarter of the rounds": ("ISRLDPClassifier", {"average": 3}),
    "fewer than 40 rounds": ("ISRLDPClassifier", {"n_rounds": 39}),
    "noise fades so slowly": ("ISRLDPClassifier", {"learning_rate": 0.001}),
}


@pytest.mark.parametrize("why", MISSING)
def test_why_there_is_none(why):
    name, kw = MISSING[why]
    X, y, silos = data(name)
    if why.startswith("too few"):  # 13 parameters, 50 rounds
        X = np.column_stack([X] * 4)
    common = {"n_rounds": 50, "scaling": None, "learning_rate": 0.1} | kw
    table = make(name, **common).fit(X, y, silos=silos).summary()
    assert table.columns.tolist() == ["coefficient"]
    assert why in table.attrs["no_noise_error"].replace("there is no noise", "no noise")
    network = make("ISRLDPClassifier", model=MLP((2,)), n_rounds=2, scaling=None)
    assert "not linear" in network.fit(X, y, silos=silos)._noise_error.missing
