"""Without privacy, untuned: scikit-learn's optimum, or near it where records or silos are drawn.

Silos are sorted by the target, the worst case: no two are alike.
"""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import skdpfl


def slow(*values):
    return [pytest.param(*value, marks=pytest.mark.slow) for value in values]


KINDS = "Classifier", "Regressor"


SHARES = (0.1, 0.2, 0.3, 0.4)
#: family, options, whether silos count alike, or for how much each
FAMILIES = [
    ("ISRLDP", {}, False),
    ("ISRLDP", {"solver": "accelerated"}, False),
    ("ISRLDP", {"solver": "multistage"}, False),
    ("ISRLDP", {"solver": "local"}, False),
    ("ISRLDP", {"learning_rate": "optimal"}, False),
    ("DPScaffold", {}, False),
    ("DPScaffold", {"unit": "silo", "trust": "server"}, True),
    ("DPFedAvg", {}, False),
    ("DPFedAvg", {"unit": "silo"}, True),
    ("DPFedEXP", {}, True),
    ("DPFederated", {}, False),
    ("ISRLDP", {"silo_weights": dict(enumerate(SHARES))}, SHARES),
    ("DPScaffold", {"silo_weights": dict(enumerate(SHARES))}, SHARES),
]
#: what is drawn, or walked, besides
WAYS = [
    ("ISRLDP", {"sampling_rate": 0.1}),
    ("ISRLDP", {"silo_fraction": 0.5}),
    ("ISRLDP", {"sampling": "disjoint"}),
    ("ISRLDP", {"solver": "accelerated", "silo_fraction": 0.5}),
    ("ISRLDP", {"solver": "local", "local_steps": 20}),
    ("DPScaffold", {"sampling_rate": 0.1}),
    ("DPScaffold", {"local_steps": 20, "silo_fraction": 0.5}),
    ("DPScaffold", {"global_learning_rate": 0.5, "local_steps": 5}),
    ("DPScaffold", {"unit": "silo", "trust": "server", "silo_fraction": 0.5}),
    ("DPFedAvg", {"local_steps": 20, "silo_weights": {0: 1.0, 1: 20.0, 2: 1.0, 3: 1.0}}),
    ("DPFedAvg", {"momentum": 0.9, "sampling_rate": 0.1}),
    ("DPFedAvg", {"sampling": "disjoint"}),
    ("DPFedEXP", {"local_steps": 10}),
    ("DPFedEXP", {"silo_fraction": 0.5}),
    ("DPFederated", {"sampling_rate": 0.1, "silo_fraction": 0.5}),
]


def problem(kind, n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X[:, 1] += X[:, 0]
    signal = X @ [1.0, -2.0, 0.0, 0.5] + 5
    y = signal + 0.3 * rng.normal(size=n)
    if kind == "Classifier":
        y = (signal - 5 + rng.logistic(size=n) > 0).astype(int)
    silos = np.empty(n, dtype=int)
    silos[np.argsort(signal)] = np.repeat([0, 1, 2, 3], [n // 8, n // 2, n // 8, n // 4])
    return 3 * X + 7, y, silos


def fitted(name, kind, alpha, **options):
    X, y, silos = problem(kind)
    cls = getattr(skdpfl, name + kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = cls(epsilon=np.inf, alpha=alpha, random_state=0, **options)
        return model.fit(X, y, silos=silos), X, y, silos


def raw_and_best(model, X, y, silos, alike):
    """Scaled predictions of the model and of the optimum of the objective."""
    Z, alpha = model.scaling_.transform(X), model.alpha * len(y)
    shares = np.array(alike if isinstance(alike, tuple) else [0.25] * 4)
    weights = len(y) * (shares / np.bincount(silos))[silos] if alike else np.ones(len(y))
    if hasattr(model, "classes_"):
        best = LogisticRegression(C=1 / alpha, tol=1e-10, max_iter=9999).fit(Z, y, weights)
        return model.decision_function(X), best.decision_function(Z)
    best = Ridge(alpha=alpha).fit(Z, (y - y.mean()) / y.std(), weights)
    return (model.predict(X) - y.mean()) / y.std(), best.predict(Z)


#: of both kinds and all penalties, two pairs are fast
HERE = [("Classifier", 0.01), ("Regressor", 1.0)]
ELSEWHERE = [pair for pair in product(KINDS, [0.01, 0.1, 1.0, 10.0]) if pair not in HERE]


@pytest.mark.parametrize(("kind", "alpha"), [*HERE, *slow(*ELSEWHERE)])
@pytest.mark.parametrize(("name", "options", "alike"), FAMILIES, ids=str)
def test_the_optimum_untuned(name, options, alike, kind, alpha):
    model, *rest = fitted(name, kind, alpha, **options)
    raw, best = raw_and_best(model, *rest, alike)
    # accelerated steps take mu = alpha, which the intercept, not penalised, does not have
    np.testing.assert_allclose(raw, best, atol=1e-2 if options and alpha >= 1 else 5e-4)


def ways():
    """Every way with either kind; without a penalty, every second pair is fast."""
    for i, (way, kind) in enumerate(product(WAYS, KINDS)):
        yield from slow(*((*way, kind, alpha) for alpha in (0.1, 10.0)))
        here = [(*way, kind, 0.0)]
        yield from here if (i + i // 2) % 2 else slow(*here)


@pytest.mark.parametrize(("name", "options", "kind", "alpha"), [*ways()], ids=str)
def test_nothing_that_is_drawn_or_walked_diverges(name, options, kind, alpha):
    """Never worse than a constant; nearly all of what a small penalty leaves."""
    model, X, y, _ = fitted(name, kind, alpha, **options)
    constant = max(y.mean(), 1 - y.mean()) if kind == "Classifier" else 0.0
    lost = 0.2 if alpha == 10 else 0.02  # the intercept of few steps, where weights are near zero
    assert model.score(X, y) > constant - lost
    if alpha < 1:
        best = LogisticRegression() if kind == "Classifier" else Ridge()
        assert model.score(X, y) > 0.75 * best.fit(X, y).score(X, y)


# ---- and what was given is respected, in words ---------------------------------------------------


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize("name", ["ISRLDP", "DPScaffold", "DPFedAvg", "DPFedEXP"])
def test_steps_that_are_too_long_are_told(name, kind):
    X, y, silos = problem(kind)
    cls = getattr(skdpfl, name + kind)
    with pytest.warns(UserWarning, match="diverge"):
        cls(epsilon=np.inf, learning_rate=30.0, alpha=0.1, n_rounds=50).fit(X, y, silos=silos)


@pytest.mark.parametrize("seeds", [range(1), *slow([range(1, 5)])])
@pytest.mark.parametrize("loss", ["huber", "log_loss", "squared_hinge"])
def test_momentum_does_not_cycle_where_the_curvature_changes(loss, seeds):
    """Heavy tails: steps that a quadratic bears went round the optimum for ever."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.standard_t(2.5, size=(200, 3)) @ rng.normal(size=(3, 3))
        y = X @ rng.normal(size=3) + rng.standard_t(1.5, size=200)
        cls = skdpfl.ISRLDPRegressor
        if loss != "huber":
            cls, y = skdpfl.ISRLDPClassifier, (y > 0).astype(int)
        options = {"epsilon": np.inf, "loss": loss, "alpha": 0.01}
        model = cls(**options).fit(X, y)
        best = cls(solver="accelerated", n_rounds=1200, **options).fit(X, y)
        size = np.linalg.norm(best.coef_)
        assert np.linalg.norm(model.coef_ - best.coef_) < 1e-3 * size
