"""DPFedEXP and ``unit="silo"`` as estimators: parameters, what is public, what is fitted."""

import warnings

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl.algorithms import FedExp
from skdpfl.models import Additive

M = 60

ESTIMATORS = {
    "FedEXP": (skdpfl.DPFedEXPClassifier, {}),
    "FedEXP-privunit": (skdpfl.DPFedEXPClassifier, {"mechanism": "privunit"}),
    "FedEXP-server": (skdpfl.DPFedEXPClassifier, {"trust": "server"}),
    "FedAvg": (skdpfl.DPFedAvgClassifier, {"unit": "silo"}),
    "FedAvg-server": (skdpfl.DPFedAvgClassifier, {"unit": "silo", "trust": "server"}),
    "Scaffold": (skdpfl.DPScaffoldClassifier, {"unit": "silo"}),
    "Scaffold-server": (skdpfl.DPScaffoldClassifier, {"unit": "silo", "trust": "server"}),
    "Federated": (skdpfl.DPFederatedClassifier, {"unit": "silo"}),
    "Federated-server": (skdpfl.DPFederatedClassifier, {"unit": "silo", "trust": "server"}),
}


#: small data, so that fits say what they would need
pytestmark = [
    pytest.mark.filterwarnings("ignore:mechanism=.privunit. adds noise"),
    pytest.mark.filterwarnings("ignore:Hiding a whole silo"),
]


def make(name, **kw):
    cls, own = ESTIMATORS[name]
    options = {"n_rounds": 6, "local_steps": 4, "scaling": None, "random_state": 0}
    known = cls._get_param_names()
    return cls(**{k: v for k, v in (options | own | kw).items() if k in known})


def data(sizes=None, d=4, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, M) if sizes is None else np.asarray(sizes)
    silos = np.repeat(np.arange(M), sizes)
    X = rng.normal(size=(len(silos), d)).astype(dtype)
    y = (X @ rng.normal(size=d) + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    y[:2] = 0, 1
    return X, y, silos


# ---- DPFedEXP --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if "FedEXP" in n])
def test_step_sizes_are_fitted(name):
    X, y, silos = data()
    model = make(name, silo_fraction=0.5).fit(X, y, silos=silos)
    assert model.global_step_sizes_.shape == (6,)
    assert (model.global_step_sizes_ >= 1).all()
    assert model.privacy_spent_.unit == "silo"
    assert model.predict_proba(X).shape == (len(X), 2)


WRONG = [
    ({"mechanism": "laplace"}, "mechanism must be one of"),
    ({"mechanism": "privunit", "trust": "server"}, 'trust="silo"'),
    ({"mechanism": "privunit", "epsilon": None, "noise_multiplier": 2.0}, "give epsilon"),
    ({"trust": "shuffler"}, "DPFedEXPClassifier supports trust"),
    ({"silo_weights": "size"}, "silo_weights"),
    ({"epsilon": {0: 1.0}}, "one epsilon"),
]


@pytest.mark.parametrize("params,words", WRONG)
def test_wrong_parameters_are_named(params, words):
    X, y, silos = data()
    with pytest.raises(ValueError, match=words):
        skdpfl.DPFedEXPClassifier(**params).fit(X, y, silos=silos)


@pytest.mark.parametrize(
    "params,words",
    [({"noise_schedule": ("round", 0.9, 2)}, "noise_schedule"), ({"sampling": "disjoint"}, "disj")],
)
def test_what_would_mean_nothing_for_whole_silos_is_refused(params, words):
    X, y, silos = data()
    with pytest.raises(ValueError, match=words):
        make("FedAvg-server", **params).fit(X, y, silos=silos)


def test_squared_norms_are_refused_where_records_are_protected():
    X, y, silos = data()
    with pytest.raises(ValueError, match='unit="silo"'):
        skdpfl.DPFederatedClassifier(algorithm=FedExp(0.1), n_rounds=2).fit(X, y, silos=silos)
    model = skdpfl.DPFederatedClassifier(
        algorithm=FedExp(0.1), n_rounds=2, unit="silo", scaling=None
    )
    model.fit(X, y, silos=silos)


# ---- what is public --------------------------------------------------------------------------


def plain(value):
    """Everything that an attribute holds, as text, arrays in full."""
    value = value.tolist() if isinstance(value, pd.Index) else value
    with np.printoptions(threshold=10**6):
        if isinstance(value, (str, int, float, type(None), tuple, list, np.ndarray)):
            return repr(value)
        fields = vars(value) if hasattr(value, "__dict__") else {}
        return f"{value!r} { ({k: plain(v) for k, v in fields.items()}) }"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_sizes_leave_no_trace(name):
    """Two data sets whose silos differ in size only: nothing but the model may differ."""
    fitted = []
    for sizes in (np.full(M, 10), np.r_[np.full(M - 1, 3), 400]):
        X, y, silos = data(sizes)
        fitted.append(make(name, silo_fraction=0.5).fit(X, y, silos=silos))
    a, b = fitted
    learnt = {"coef_", "intercept_", "global_step_sizes_", "clip_norm_"}
    names = {n for n in vars(a) if n.endswith("_")} - learnt
    assert {"plan_", "privacy_spent_", "silo_ids_", "sampling_rate_"} <= names
    for n in names:
        assert plain(getattr(a, n)) == plain(getattr(b, n)), n
    assert a.plan_.silo_sizes is None and a.privacy_spent_.assignment is None
    assert a.privacy_spent_.to_dict() == b.privacy_spent_.to_dict()
    assert repr(a.plan_) == "PrivacyPlan(60 silos, 6 rounds)"


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if "server" in n])
def test_poisson_cohorts_are_the_default_where_they_amplify(name):
    X, y, silos = data()
    some = make(name, silo_fraction=0.2).fit(X, y, silos=silos)
    assert some.plan_.cohort == "poisson"
    whole = make(name, silo_fraction=0.2, cohort="uniform").fit(X, y, silos=silos)
    assert some.plan_.noise_multiplier[0] < 0.8 * whole.plan_.noise_multiplier[0]
    assert some.privacy_spent_.neighbours == "add_remove"


def test_delta_counts_silos():
    X, y, silos = data(np.full(M, 50))
    assert make("FedEXP").fit(X, y, silos=silos).privacy_spent_.delta == 1e-3
    with pytest.warns(UserWarning, match="whole silo"):
        make("FedEXP", delta=0.02).fit(X, y, silos=silos)
    plan = make("FedEXP").plan_for(silo_sizes={i: 50 for i in range(M)}, n_features=4)
    assert plan.delta[0] == 1e-3 and plan.silo_sizes is None


@pytest.mark.parametrize("name", ESTIMATORS)
def test_wild_silos_do_no_more_than_their_share(name):
    """One silo's data blown up, the same noise: the model moves by 2 C / M a round, or less."""
    X, y, silos = data()
    options = {"n_rounds": 1, "clip_norm": 0.5, "average": False, "epsilon": 3.0}
    calm = make(name, **options).fit(X, y, silos=silos)
    wild = X.copy()
    wild[silos == 7] *= 1e12
    moved = make(name, **options).fit(wild, y, silos=silos)
    ends = [np.append(m.coef_, m.intercept_) for m in (calm, moved)]
    step = 1.0
    if name.startswith("FedEXP"):
        step = max(m.global_step_sizes_.max() for m in (calm, moved))
    if "privunit" not in name:
        assert np.linalg.norm(ends[0] - ends[1]) <= step * 2 * 0.5 / M * (1 + 1e-6)
    assert np.isfinite(ends[1]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, None),
        ({"n_rounds": 20, "local_steps": 5}, "are few for 200 features"),
        ({"scaling": None}, "The model has hardly moved"),
        ({"scaling": None, "n_rounds": 20}, "The model has hardly moved"),
        ({"scaling": None, "n_rounds": 20, "learning_rate": 2.7}, None),
        ({"feature_bounds": (-0.3, 0.3)}, None),
    ],
)
def test_small_steps_are_right_or_warned_of(options, words):
    """200 features in rows of norm 1, of unknown scales under the noise of whole silos."""
    for seed in range(3) if options else (6, 7, 11):  # noise makes the target's scale small
        rng = np.random.default_rng(seed)
        X = (rng.normal(size=(200, 1, 200)) + rng.normal(size=(200, 10, 200))).reshape(-1, 200)
        X /= np.linalg.norm(X, axis=1)[:, None]
        w, silos = rng.normal(size=200) / 200**0.5, np.repeat(np.arange(200), 10)
        model = skdpfl.DPFedEXPRegressor(3.0, trust="server", fit_intercept=False, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.set_params(random_state=seed).fit(X, X @ w, silos=silos)
        assert [str(words) in str(each.message) for each in caught] == [True] * bool(words)
        distance = np.linalg.norm(model.coef_ - w) / np.linalg.norm(w)
        assert distance > 0.45 if words else distance <= 0.45


@pytest.mark.parametrize("size", [3, 10])
def test_local_steps_are_short_enough_for_correlated_columns(size):
    """A silo's own curvature may be several times that of rows of the expected norm."""
    for seed in (1, 4):
        rng = np.random.default_rng(seed)
        X = 0.3 * rng.normal(size=(200 * size, 10)) + rng.normal(size=(200 * size, 1))
        y, silos = X.sum(axis=1) + rng.normal(size=len(X)), np.arange(len(X)) % 200
        model = skdpfl.DPFedEXPRegressor(3.0, trust="server", random_state=seed)
        assert model.fit(X, y, silos=silos).score(X, y) > 0.9


@pytest.mark.parametrize(("common", "size", "epsilon", "seed"), [(0, 5, 2.0, 30), (3, 10, 3.0, 4)])
def test_local_steps_do_not_diverge_where_noise_makes_scales_too_small(common, size, epsilon, seed):
    """One feature's scale is 400 times too small, or all of correlated ones are by a half."""
    rng, silos = np.random.default_rng(seed), np.repeat(np.arange(60), 10)
    X = rng.normal(size=(600, size))
    X += common * rng.normal(size=(600, 1)) if common else 0.0
    y = X @ rng.normal(size=size)
    y += rng.normal(size=600) * (y.std() / 2 if common else 1.0)
    model = skdpfl.DPFedEXPRegressor(epsilon, trust="server", random_state=seed)
    model.fit(X, y, silos=silos)
    assert (model.scaling_.scale < X.std(axis=0) / 1.5).any()
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize(("options", "seeds"), [({}, range(8)), ({"loss": "huber"}, [1])])
def test_a_target_whose_scale_noise_drowns_is_told_of(options, seeds):
    """In one of eight fits predictions are thousands of deviations off."""
    scores, told = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, silos = rng.normal(size=(1200, 5)), np.repeat(np.arange(60), 20)
        y = X @ rng.normal(size=5) + rng.normal(size=1200)
        model = skdpfl.DPFedEXPRegressor(2.0, trust="server", random_state=seed, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores.append(model.fit(X, y, silos=silos).score(X, y))
        told.append(any("by far less than" in str(each.message) for each in caught))
    assert min(scores) < -1 and (len(scores) == 1 or np.median(scores) > 0.7)
    assert all(said for score, said in zip(scores, told, strict=True) if score < 0)
    assert sum(told) <= 1 + sum(score < 0 for score in scores)


def test_a_target_whose_scale_noise_drowns_is_told_of_with_curves():
    """Their coefficients are not compared with noise: the warning is that of counts."""
    rng = np.random.default_rng(13)
    X, silos = rng.normal(size=(1200, 3)), np.arange(1200) % 60
    y = X[:, 0] + rng.normal(size=1200)
    given = {"trust": "server", "feature_bounds": (-3, 3), "random_state": 13}
    model = skdpfl.DPFedEXPRegressor(0.7, model=Additive(3), **given)
    with pytest.warns(UserWarning, match="may vary by far less than"):
        model.fit(X, y, silos=silos)
    assert model.score(X, y) < -1


@pytest.mark.parametrize("weights", [None, {0: 1, 1: 3}])
@pytest.mark.parametrize("name", ["FedEXP", "FedAvg", "Scaffold-server"])
def test_rounds_begin_at_public_shares(name, weights):
    """Where records have them nothing is left to learn; from 0, columns learn the intercept."""
    X = np.ones((600, 2))
    y, silos = np.tile(np.arange(10) == 0, 60).astype(int), np.repeat(np.arange(M), 10)
    options = {"epsilon": np.inf, "n_rounds": 1, "class_weight": weights}
    given = make(name, **options, classes={0: 0.9, 1: 0.1}).fit(X, y, silos=silos)
    odds = np.log(1 / 9 if weights is None else 3 / 9)
    np.testing.assert_allclose(given.decision_function(X), odds, atol=1e-6)
    unknown = make(name, **options).fit(X, y, silos=silos)
    assert abs(unknown.coef_).min() > 0.1 > 1e-6 > abs(given.coef_).max()
