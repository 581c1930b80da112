"""Shrinking the coefficients of curves: what it removes, what it keeps, and what it assumes."""

import numpy as np
import pytest

from skdpfl.algorithms.average_noise import average_responses
from skdpfl.estimators import _training
from skdpfl.models import Additive
from tests.estimators.fits import make

N = 3000
BOUNDS = {"feature_bounds": (-3, 3), "target_bounds": (-6, 6)}


def table(bend, seed=0):
    """Four columns with straight effects, the first of which may bend."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4)).clip(-3, 3)
    y = X @ [1, 0.5, -0.5, 0] + bend * (np.square(X[:, 0]) - 1) + rng.normal(size=N)
    return X, y.clip(-6, 6)


def fit(kind, bend, **params):
    X, y = table(bend)
    given = {k: v for k, v in BOUNDS.items() if kind == "Regressor" or k == "feature_bounds"}
    y = y if kind == "Regressor" else (y > 0).astype(int)
    given |= {"epsilon": 8.0, "model": "additive", "random_state": 0} | params
    return make(f"ISRLDP{kind}", **given).fit(X, y, silos=np.arange(N) % 3)


def as_released(params, *_):
    return params


def added(model):
    """The squared coefficients of ranks and bins, of all columns and of the first; of products."""
    frame = model.summary()
    square = np.square(frame["coefficient"])
    curves = square[frame.index.str.contains(": ")]
    products = square[frame.index.str.contains(r" \* ")]
    return curves.sum(), curves[curves.index.str.startswith("x0")].sum(), products.sum()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_error_goes_and_effects_stay(kind, monkeypatch):
    model = Additive(interactions=kind == "Regressor")
    straight, bent = fit(kind, 0.0, model=model), fit(kind, 0.7, model=model)
    monkeypatch.setattr(_training, "shrunk", as_released)
    straight_before, bent_before = fit(kind, 0.0, model=model), fit(kind, 0.7, model=model)
    assert sum(added(straight)) < 0.6 * sum(added(straight_before))
    assert kind == "Classifier" or added(straight)[2] < 0.8 * added(straight_before)[2]
    assert added(bent)[1] > 0.9 * added(bent_before)[1]
    assert straight.privacy_spent_.epsilon == straight_before.privacy_spent_.epsilon


@pytest.mark.parametrize(
    "params",
    [
        {"model": "linear"},
        {"solver": "accelerated"},
        {"loss": "huber"},
        {"epsilon": np.inf},
    ],
)
def test_other_fits_are_as_they_were(params, monkeypatch):
    model = fit("Regressor", 0.7, **params)
    monkeypatch.setattr(_training, "shrunk", as_released)
    before = fit("Regressor", 0.7, **params)
    assert np.array_equal(model.coef_, before.coef_)


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("n_last", [None, 7, 10**30])
def test_responses_are_those_of_a_loop(momentum, n_last):
    n, rate, slope = 20, 0.3, 0.4
    for sent in (0, 5, 15, 19):
        x, v, path = 0.0, 0.0, [0.0]
        for k in range(n):
            v = momentum * v + slope * x + (k == sent)
            x -= rate * v
            path.append(x)
        mean = np.mean(path[n // 2 + 1 :] if n_last is None else path[1:][-n_last:])
        found = average_responses(np.array([slope]), n, rate, momentum, n_last)[sent, 0]
        assert found == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("clip", [0.3, 0.7, 2.0])
def test_slopes_are_those_of_a_simulation(clip):
    rng = np.random.default_rng(0)
    raw = 0.4 + 1.5 * rng.normal(size=200_000)
    p = 1 / (1 + np.exp(-raw))
    y = rng.random(raw.size) < p
    wrong = abs(y - p)
    found = _training._of_labels(1.5, 0.4, clip)
    assert found.squared == pytest.approx(np.square(np.minimum(wrong, clip)).mean(), rel=0.02)
    assert found.h == pytest.approx((p * (1 - p) * (wrong < clip)).mean(), rel=0.05)
    residual = abs(rng.normal(size=raw.size)) * np.sqrt(1 - 0.36)
    found = _training._of_numbers(0.6, 0.0, clip)
    assert found.squared == pytest.approx(np.square(np.minimum(residual, clip)).mean(), rel=0.02)
    assert found.h == pytest.approx((residual <= clip).mean(), rel=0.05)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rate", [1e3, 1e200])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_models_that_diverge_are_left_as_they_are(kind, rate):
    model = fit(kind, 0.0, learning_rate=rate, alpha=1.0)
    assert not (np.abs(model.coef_) < 1e50).all()
