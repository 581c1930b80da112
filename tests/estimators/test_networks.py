"""Estimators with ``model=MLP(...)``: the whole surface, refusals, and starts."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import skdpfl
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.models import MLP, TemperedSigmoid, public
from tests.estimators.fits import ALL, ESTIMATORS, data
from tests.estimators.test_scikit_learn import EXPECTED

SMALL = {"n_rounds": 4, "scaling": None, "random_state": 0}


def make(name, model=None, **kw):
    options = SMALL | kw
    cls = getattr(skdpfl, name)
    known = cls._get_param_names()
    return cls(
        model=MLP((6,)) if model is None else model,
        **{key: value for key, value in options.items() if key in known},
    )


def network(name, **kw):
    return getattr(skdpfl, name)(model=MLP((4,)), n_rounds=3, **kw)


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [network(ESTIMATORS[0])], expected_failed_checks=lambda estimator: EXPECTED
)
def test_checks(estimator, check):
    check(estimator)


# ---- scikit-learn --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_clone_and_pickle(name):
    X, y, silos = data(name)
    estimator = make(name, MLP((5,), TemperedSigmoid(1.0))).fit(X, y, silos=silos)
    copied = clone(estimator)
    assert not hasattr(copied, "coefs_")
    assert repr(copied.model) == repr(estimator.model)
    assert copied.model is not estimator.model
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict(X), estimator.predict(X))
    refitted = copied.fit(X, y, silos=silos)
    np.testing.assert_array_equal(refitted.predict(X), estimator.predict(X))


# ---- refusals ------------------------------------------------------------------------------------

REFUSED = {
    "accelerated": ({"solver": "accelerated"}, 'use solver="minibatch"'),
    "multistage": ({"solver": "multistage", "alpha": 0.1}, "needs a convex objective"),
    "optimal": ({"learning_rate": "optimal"}, 'use "auto"'),
    "radius": ({"radius": 2.0}, "use alpha"),
    "fit_intercept": ({"fit_intercept": False}, "intercepts in every layer"),
    "a class": ({"model": MLP}, "an object such as"),
    "a word": ({"model": "mlp"}, "an object such as"),
    "sizes": ({"model": MLP((0,))}, "hidden_layer_sizes"),
    "sizes as text": ({"model": MLP("big")}, "sequence of integers"),
    "activation": ({"model": MLP(activation="softplus")}, "TemperedSigmoid"),
    "start": ({"model": MLP(start=[np.ones(3)])}, r"public\(model\)"),
    "start of another shape": (
        {"model": MLP((2,), start=public(([np.ones((2, 3))], [np.ones(3)])))},
        "start has weights of shapes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_said(case):
    params, words = REFUSED[case]
    X, y, silos = data("ISRLDPClassifier")
    with pytest.raises(ValueError, match=words):
        make("ISRLDPClassifier", **params).fit(X, y, silos=silos)


# ---- starts --------------------------------------------------------------------------------------

ALMOST_NOTHING = {"learning_rate": 1e-12, "epsilon": np.inf, "n_rounds": 1, "average": False}


@pytest.mark.parametrize("scaling", [None, "auto"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_public_weights_are_the_start_whatever_the_scales(kind, scaling):
    X, y, silos = data(f"ISRLDP{kind}", n_classes=3)
    theirs = MLPClassifier if kind == "Classifier" else MLPRegressor
    other = theirs(hidden_layer_sizes=(5,), max_iter=20, random_state=0, tol=1.0).fit(X, y)
    bounds = {"feature_bounds": (-6, 8), "target_bounds": (-9, 20), "scaling": scaling}
    model = make(f"ISRLDP{kind}", MLP((5,), start=public(other)), **ALMOST_NOTHING, **bounds)
    model = clone(model).fit(X, y, silos=silos)
    method = "predict_proba" if kind == "Classifier" else "predict"
    got, want = (getattr(m, method)(X) for m in (model, other))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


def test_a_private_model_as_a_start_is_said_to_cost():
    X, y, silos = data("ISRLDPClassifier")
    first = make("ISRLDPClassifier", epsilon=1.0).fit(X, y, silos=silos)
    with pytest.warns(PrivacyLeakWarning, match="the cost is the sum"):
        start = public(first)
    second = make("ISRLDPClassifier", MLP((6,), start=start), epsilon=1.0, random_state=1)
    second.fit(X, y, silos=silos)
    assert (first.privacy_spent_ + second.privacy_spent_).epsilon > 1.3


@pytest.mark.parametrize(
    "given", [MLPClassifier(), ([np.ones((2, 2))], []), ([np.full((2, 1), np.nan)], [np.ones(1)])]
)
def test_public_takes_fitted_networks_only(given):
    with pytest.raises(ValueError, match=r"fitted network|one array|finite"):
        public(given)


def test_the_random_start_is_the_seed_s_and_not_the_noise():
    X, y, silos = data("ISRLDPClassifier")
    starts = {}
    for seed in (0, 1):
        for epsilon in (0.5, np.inf):
            options = ALMOST_NOTHING | {"epsilon": epsilon, "random_state": seed}
            fitted = make("ISRLDPClassifier", **options).fit(X, y, silos=silos)
            starts[seed, epsilon] = fitted.coefs_[0]
    np.testing.assert_allclose(starts[0, 0.5], starts[0, np.inf], atol=1e-9)
    assert not np.allclose(starts[0, np.inf], starts[1, np.inf], atol=1e-2)
