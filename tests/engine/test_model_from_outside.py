"""A network from outside the package: its sums are those by hand, its plans real ones."""

from dataclasses import dataclass

import numpy as np
import pytest

from skdpfl import DPScaffoldRegressor, ISRLDPRegressor
from skdpfl.losses import LogLoss, SquaredError
from skdpfl.models import Architecture, Model, Rules

D, WIDTH = 3, 4


class ShortSteps(Rules):
    """Steps of a model whose curvature nobody knows."""

    def learning_rate(self, clip, n_steps, momentum, noise, task):
        return 0.3 * super().learning_rate(clip, n_steps, momentum, noise, task)


@dataclass(frozen=True)
class Tanh(Model):
    """One hidden layer: raw = tanh(X V + c) W + b."""

    n_features: int
    n_outputs: int
    width: int = WIDTH

    @property
    def size(self):
        return (self.n_features + 1) * self.width + (self.width + 1) * self.n_outputs

    def init(self, stream=None, dtype=np.float64):
        return (0.5 * stream.normal(self.size)).astype(dtype)

    def penalty_mask(self):
        hidden = np.repeat([1.0, 0.0], [self.n_features * self.width, self.width])
        output = np.repeat([1.0, 0.0], [self.width * self.n_outputs, self.n_outputs])
        return np.concatenate([hidden, output])

    @property
    def rules(self):
        return ShortSteps()

    def split(self, params):
        ends = np.cumsum([self.n_features * self.width, self.width, self.width * self.n_outputs])
        V, c, W, b = np.split(params, ends)
        return V.reshape(-1, self.width), c, W.reshape(self.width, -1), b

    def raw(self, params, X):
        V, c, W, b = self.split(params)
        return np.tanh(X @ V + c) @ W + b

    def record_gradients(self, params, X, y, loss, squared_norms):
        V, c, W, b = self.split(params)
        hidden = np.tanh(X @ V + c)
        outer = loss.gradient(y, hidden @ W + b, squared_norms=squared_norms)
        inner = (outer @ W.T) * (1 - hidden**2)
        n = len(X)
        parts = X[:, :, None] * inner[:, None], inner, hidden[:, :, None] * outer[:, None], outer
        return np.concatenate([part.reshape(n, -1) for part in parts], axis=1)

    def fitted_attributes(self, params, maps, *, is_classifier):
        V, c, W, b = self.split(params)
        V, c = maps.features.unscale(V.T, c)
        W, b = maps.target.unscale(W.T, b)
        return {"coefs_": [V.T, W.T], "intercepts_": [c, b]}

    def raw_of_fitted(self, attributes, X):
        (V, W), (c, b) = attributes["coefs_"], attributes["intercepts_"]
        return np.tanh(X @ V + c) @ W + b


class OneLayer(Architecture):
    """What an estimator is given."""

    def build(self, n_features, n_outputs):
        return Tanh(n_features, n_outputs)


def by_hand(model, params, X, y, loss, clip, weights=None):
    """The clipped sum, one record and one parameter at a time, by differences of the loss."""
    total, step = np.zeros(model.size), 1e-6
    for j in range(len(X)):
        x, target = X[j : j + 1], np.asarray(y)[j : j + 1]
        gradient = np.zeros(model.size)
        for p in range(model.size):
            move = step * (np.arange(model.size) == p)
            ahead = loss.value(target, model.raw(params + move, x))
            gradient[p] = (ahead - loss.value(target, model.raw(params - move, x)))[0] / (2 * step)
        share = 1.0 if weights is None else weights[j]
        total += share * gradient * min(1.0, clip / np.linalg.norm(gradient))
    return total


def records(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, D))
    return X, X[:, 0] * X[:, 1] + 0.1 * X[:, 2]


@pytest.mark.parametrize(("loss", "k"), [(SquaredError(), 1), (LogLoss(), 3)], ids=str)
@pytest.mark.parametrize("chunk", [None, 2])
def test_clipped_sums_are_those_by_hand(loss, k, chunk):
    rng, model = np.random.default_rng(1), Tanh(D, k)
    X, _ = records(10)
    y = rng.integers(0, k, 10) if loss.is_classifier else rng.normal(size=10)
    params, weights = rng.normal(size=(2, model.size)), rng.integers(0, 2, (2, 5)).astype(float)
    stacked = X.reshape(2, 5, D), y.reshape(2, 5)
    clip = np.array([0.3, 1.5])
    got = model.clipped_gradient_sum(
        params, *stacked, loss, clip_norm=clip, weights=weights, chunk=chunk
    )
    for i in range(2):
        want = by_hand(model, params[i], *(a[i] for a in stacked), loss, clip[i], weights[i])
        np.testing.assert_allclose(got[i], want, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", ["X", "y"])
def test_a_record_counts_for_the_clip_norm_at_most_and_not_at_all_if_not_finite(dtype, bad):
    model, (X, y) = Tanh(D, 1), records(40)
    X, y = (30 * X).astype(dtype), (1e4 * y).astype(dtype)
    params = np.random.default_rng(0).normal(size=model.size).astype(dtype)
    for j in range(40):  # all of them clipped
        one = model.clipped_gradient_sum(params, X[[j]], y[[j]], SquaredError(), clip_norm=0.7)
        assert 0.69 < np.linalg.norm(one.astype(np.longdouble)) <= 0.7
    whole = model.clipped_gradient_sum(params, X[1:], y[1:], SquaredError(), clip_norm=0.7)
    (X if bad == "X" else y)[0] = np.inf
    got = model.clipped_gradient_sum(params, X, y, SquaredError(), clip_norm=0.7)
    np.testing.assert_array_equal(got, whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "epsilon", "n_rounds"),
    [(ISRLDPRegressor, np.inf, 100), (DPScaffoldRegressor, 8.0, "auto")],
)
def test_estimators_need_no_more_than_the_model(make, epsilon, n_rounds):
    X, y = records(600)
    X, y, silos = 10 + 3 * X, 5 + 2 * y, np.arange(600) % 3
    model = make(epsilon, model=OneLayer(), feature_bounds=(0, 20), random_state=0)
    model.set_params(n_rounds=n_rounds).fit(X, y, silos=silos)
    assert [w.shape for w in model.coefs_] == [(D, WIDTH), (WIDTH, 1)]
    assert not hasattr(model, "coef_")
    assert model.plan_.spent().epsilon <= epsilon
    assert model.score(X, y) > (0.5 if epsilon == np.inf else 0.1)  # a linear model: 0.01
