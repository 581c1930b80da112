"""A penalty of any size: its pull is not clipped, so the automatic step has to bear it.

A model that is worse than a constant has diverged, or clipping has made the penalty much stronger.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import skdpfl
from skdpfl.models import LinearRules

ALPHAS = [0.01, 0.1, 1.0, 10.0]
#: family, options
FAMILIES = [
    ("ISRLDP", {}),
    ("ISRLDP", {"solver": "accelerated"}),
    ("ISRLDP", {"solver": "multistage"}),
    ("ISRLDP", {"solver": "local"}),
    ("ISRLDP", {"learning_rate": "optimal"}),
    ("DPScaffold", {}),
    ("DPScaffold", {"local_steps": 20}),
    ("DPScaffold", {"global_learning_rate": 2.0}),
    ("DPFedAvg", {}),
    ("DPFedAvg", {"local_steps": 20}),
    ("DPFedAvg", {"momentum": 0.9, "global_learning_rate": 0.5}),
    ("DPFedAvg", {"unit": "silo", "trust": "server"}),
    ("DPFederated", {}),
]
RULES = LinearRules()


def problem(kind, n=800, d=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ [1.0, -2.0, 0.0, 0.5, 1.0] + 0.3 * rng.normal(size=n)
    return X, (y > 0).astype(int) if kind == "Classifier" else y, np.arange(n) % 4


def trained(name, kind, alpha, **options):
    X, y, silos = problem(kind)
    known = {"feature_bounds": (-4, 4)}
    known |= {"target_bounds": (-10, 10)} if kind == "Regressor" else {}
    if options.get("unit") == "silo":  # as many silos as there are records: little noise
        silos, known = np.arange(len(y)), {"scaling": None}
    estimator = getattr(skdpfl, name + kind)(
        alpha=alpha, epsilon=10.0, random_state=0, **known, **options
    )
    return estimator.fit(X, y, silos=silos), X, y


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize(("name", "options"), FAMILIES, ids=str)
def test_no_penalty_makes_it_diverge(name, options, kind, alpha):
    model, X, y = trained(name, kind, alpha, **options)
    if kind == "Regressor":
        ridge = Ridge(alpha=alpha * len(y)).fit(X, y)
        share = 0.3 if options.get("unit") == "silo" else 0.6  # silos of one record are unlike
        assert model.score(X, y) > share * ridge.score(X, y) - 0.1
        assert np.linalg.norm(model.coef_) < 1.2 * np.linalg.norm(ridge.coef_) + 0.1
    elif alpha <= 0.1:
        best = LogisticRegression(C=1 / (alpha * len(y))).fit(X, y).score(X, y)
        assert model.score(X, y) > best - 0.12
    else:  # weights near zero: the labels follow the intercept, the directions remain
        raw = model.decision_function(X)
        assert np.abs(raw).max() < 5
        assert np.corrcoef(raw, y)[0, 1] > 0.5


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_clipping_leaves_the_penalty_its_strength(kind, alpha):
    """Weights shrink as Ridge's do, not several times as much."""
    model, X, y = trained("DPFedAvg", kind, alpha)
    reference = Ridge(alpha * len(y)) if kind == "Regressor" else LogisticRegression(
        C=1 / (alpha * len(y))
    )  # fmt: skip
    best = reference.fit(X, y)
    assert np.linalg.norm(model.coef_) > 0.5 * np.linalg.norm(best.coef_)


@pytest.mark.parametrize("server", [1.0, 3.0])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_a_step_never_moves_further_than_the_penalty_bears(momentum, server):
    for eta in (0.01, 1.0, 1e9):
        for alpha in ALPHAS:
            borne = RULES.with_penalty(eta, alpha, server, momentum)
            assert borne * server * alpha < 2 * (1 + momentum)
            assert borne <= eta
        assert RULES.with_penalty(eta, 0.0, server, momentum) == eta
