"""The spread of silos' gradients: by hand, at optima known otherwise, and its edges."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skdpfl.inspection import heterogeneity


def regression(seed=0, n=90, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1, 10, 0.1, 1] + [0, 5, 0, -1]
    g = np.repeat(["b", "a", "c"], [20, 30, 40])
    y = X @ [1.0, 0.2, -5.0, 0.5] + np.repeat([0.0, 3.0, -1.0], [20, 30, 40])
    return X, y + rng.normal(size=n), g


@pytest.mark.parametrize(("silo_weights", "p"), [("uniform", [1 / 3] * 3), ("size", [3, 2, 4])])
def test_least_squares_by_hand(silo_weights, p):
    """Normal equations give the optimum, plain sums the gradients; silos come sorted: a, b, c."""
    X, y, g = regression()
    A, p, alpha = np.column_stack([X, np.ones(90)]), np.divide(p, np.sum(p)), 0.3
    weight = pd.Series(g).map(dict(zip("abc", p / [30, 20, 40], strict=True))).to_numpy()
    penalty = alpha * np.diag([1, 1, 1, 1, 0])
    w = np.linalg.solve((A.T * weight) @ A + penalty, (A.T * weight) @ y)
    rows = [g == s for s in "abc"]
    each = np.array([A[r].T @ (A[r] @ w - y[r]) / r.sum() + penalty @ w for r in rows])
    ours = heterogeneity(X, y, silos=g, alpha=alpha, silo_weights=silo_weights)
    np.testing.assert_allclose(np.append(ours.coef, ours.intercept), w, rtol=1e-5)
    np.testing.assert_allclose(ours.per_silo.to_numpy(), np.square(each).sum(axis=1), rtol=1e-4)
    assert ours.per_silo.index.tolist() == ["a", "b", "c"]
    assert ours.upsilon_squared == pytest.approx(p @ np.square(each).sum(axis=1), rel=1e-4)
    assert ours.squared_norm_of_mean < 1e-8 * ours.mean_squared_norm


def test_dissimilarity_at_a_point_is_the_variance_of_gradients():
    X, y, g = regression()
    w, b = np.array([0.5, -0.1, 2.0, 0.0]), 0.7
    rows = [g == s for s in "abc"]
    A = np.column_stack([X, np.ones(90)])
    each = np.array([A[r].T @ (X[r] @ w + b - y[r]) / r.sum() for r in rows])
    ours = heterogeneity(X, y, silos=g, coef=w, intercept=b)
    by_hand = np.square(each).sum(axis=1).mean() - np.square(each.mean(axis=0)).sum()
    assert ours.upsilon_squared == pytest.approx(by_hand, rel=1e-10)
    assert ours.squared_norm_of_mean == pytest.approx(np.square(each.mean(axis=0)).sum())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_optimum_is_that_of_scikit_learn(n_classes):
    """alpha = 1 / (C n) with silos weighted by size."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = np.array(["u", "v", "w"])[rng.integers(0, n_classes, size=200)]
    g = rng.integers(0, 4, size=200)
    peer = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(X, y)
    setting = {"silos": g, "loss": "log_loss", "alpha": 0.01}
    ours = heterogeneity(X, y, silo_weights="size", **setting)
    np.testing.assert_allclose(ours.coef, peer.coef_, atol=1e-5)
    there = heterogeneity(
        X, y, silo_weights="size", coef=peer.coef_, intercept=peer.intercept_, **setting
    )
    assert ours.upsilon_squared == pytest.approx(there.upsilon_squared, rel=1e-4)


def test_no_minimiser_warns():
    X, y = np.arange(8.0)[:, None] - 3.5, np.repeat([0, 1], 4)
    with pytest.warns(ConvergenceWarning, match="No minimiser was found.*alpha > 0"):
        heterogeneity(X, y, silos=[0, 1] * 4, loss="log_loss")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "l2"}, "loss must be one of .* got 'l2'"),
        ({"loss": "absolute_error"}, "needs coef"),
        ({"silos": [1.0, np.nan, 2.0, 2.0]}, r"silos has 1 missing value\(s\)"),
        ({"silos": [1, 2]}, "one id per row: X has 4 rows, silos 2"),
        ({"silo_weights": "n"}, "silo_weights must be one of 'uniform', 'size'; got 'n'"),
        ({"alpha": -1}, r"alpha must be a number in \[0, inf\); got -1"),
        ({"coef": [1.0, 2.0]}, r"coef of shape \(1, 2\) is not valid; it must be \(1, 1\)"),
        ({"y": [1, 1, 1, 1], "loss": "log_loss"}, "single class"),
    ],
)
def test_bad_input_is_named(change, message):
    setting = {"X": [[0.0], [1.0], [2.0], [3.0]], "y": [0.0, 1.0, 1.0, 0.0], "silos": [1, 1, 2, 2]}
    with pytest.raises(ValueError, match=message):
        heterogeneity(**(setting | change))
