"""What "auto" chooses: from public numbers only, around what was given, priced and executed."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import skdpfl
from skdpfl.privacy.events import Gaussian
from tests.estimators.fits import ALL, CLASSIFIERS, data, make

BOUNDED = {"feature_bounds": (-4, 4), "target_bounds": (-20, 20)}
FITTED = ("n_rounds_", "clip_norm_", "sampling_rate_")


@pytest.mark.parametrize(
    ("epsilon", "model", "most"),
    [(8.0, "linear", 0.003), (30.0, "linear", 0.003), (8.0, "auto", 0.02)],
)
def test_steps_that_do_not_saturate_are_stable(epsilon, model, most):
    """Correlated columns and little noise: log losses were 0.56 to 0.84 above the optimum's.

    Those of curves, whose columns took most of a row's norm, were 0.047 above it.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24_000, 1)) * 0.95**0.5 + rng.normal(size=(24_000, 8)) * 0.05**0.5
    raw = X @ rng.normal(size=8)
    y = (2 * raw / raw.std() + rng.logistic(size=len(X)) > 0).astype(int)
    train, test = slice(4_000, None), slice(4_000)
    options = {"trust": "secagg", "feature_bounds": (-5, 5), "random_state": 0}
    clf = skdpfl.ISRLDPClassifier(epsilon, model=model, **options)
    clf.fit(X[train], y[train], silos=np.arange(20_000) % 4)
    exact = LogisticRegression(C=1e6).fit(X[train], y[train])
    found, least = (log_loss(y[test], each.predict_proba(X[test])) for each in (clf, exact))
    assert found < least + most


# ---- what is given is respected, and the rest adapts --------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_rounds", 7), ("clip_norm", 0.37), ("sampling_rate", 0.3), ("learning_rate", 0.21)],
)
@pytest.mark.parametrize("estimator", ALL)
def test_given_parameters_are_respected(estimator, name, value):
    X, y, silos = data(estimator)
    fitted = make(estimator, random_state=0, **BOUNDED, **{name: value}).fit(X, y, silos=silos)
    assert getattr(fitted, name + "_") == value
    assert fitted.plan_.clip_norm == fitted.clip_norm_
    assert fitted.plan_.n_rounds == fitted.n_rounds_
    assert fitted.privacy_spent_.epsilon <= 1


# ---- public numbers only -------------------------------------------------------------------------


def twins(name, **kw):
    """Two fits on records of the same numbers that have nothing else in common."""
    X, y, silos = data(name)
    rng = np.random.default_rng(1)
    other = rng.permutation(X.ravel()).reshape(X.shape) * 3 + 1
    for records, target in ((X, y), (other, rng.permutation(y))):
        yield make(name, random_state=0, **kw).fit(records, target, silos=silos)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scaling", [BOUNDED, {}, {"scaling": None}])
@pytest.mark.parametrize("name", ALL)
def test_same_numbers_same_choices(name, scaling):
    one, two = twins(name, **scaling)
    for attribute in FITTED:
        assert getattr(one, attribute) == getattr(two, attribute)
    for field in ("steps", "clip_norm", "setup", "unit", "trust", "neighbours", "sampling"):
        assert getattr(one.plan_, field) == getattr(two.plan_, field)
    assert np.array_equal(one.plan_.noise_multiplier, two.plan_.noise_multiplier)
    if scaling == {"scaling": None}:  # else the step knows what was paid for
        assert one.learning_rate_ == two.learning_rate_


# ---- scales are released within the budget, or not at all ----------------------------------------


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("name", ["ISRLDPClassifier", "ISRLDPRegressor"])
def test_scales_are_charged(name, trust):
    X, y, silos = data(name)
    off = {"calibrate": False} if name in CLASSIFIERS else {}
    fitted, plain = (
        make(name, trust=trust, random_state=0, **off, **scaling).fit(X, y, silos=silos)
        for scaling in (BOUNDED, {"scaling": None})
    )
    (setup,) = fitted.plan_.setup
    events = dict(setup)
    assert events
    assert all(isinstance(event, Gaussian) for event in events)
    assert not plain.plan_.setup
    for priced in (fitted, plain):
        assert 0.99 <= priced.privacy_spent_.epsilon <= 1
    # mu of the scales and mu of the training add in squares: the training has more noise
    assert fitted.plan_.noise_multiplier[0] > 1.02 * plain.plan_.noise_multiplier[0]
    steps = sum(fitted.plan_.steps)
    total = sum(n * (2 / e.noise_multiplier) ** 2 for e, n in events.items())
    total += steps * (2 / fitted.plan_.noise_multiplier[0]) ** 2
    alone = steps * (2 / plain.plan_.noise_multiplier[0]) ** 2
    assert total == pytest.approx(alone, rel=1e-2)


@pytest.mark.parametrize("name", ["ISRLDPClassifier", "ISRLDPRegressor"])
def test_a_warning_says_what_to_give(name):
    X, y, silos = data(name)
    wide = np.tile(X, (1, 20))
    with pytest.warns(UserWarning, match=r"Give feature_bounds=\(low, high\)"):
        make(name, random_state=0, epsilon=0.5).fit(wide, y, silos=silos)
    for silent in (BOUNDED, {"scaling": None}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "The noise will drown")  # more budget is needed
            make(name, random_state=0, epsilon=0.5, **silent).fit(wide, y, silos=silos)
            make(name, epsilon=0.5).plan_for(silo_sizes=[60] * 4, n_features=60)
