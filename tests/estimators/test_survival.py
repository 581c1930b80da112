"""Survival: Cox's hazard ratios without risk sets, within the budget, from any kind of y."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import skdpfl
from benchmarks.survival import cox, study
from skdpfl import DPFedAvgSurvival, DPFederatedSurvival, ISRLDPSurvival, SiloAdapted
from skdpfl.algorithms import MinibatchSGD
from skdpfl.losses import Ordinal, PiecewiseExponential, signed_times
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.models import OneSlope

INF = np.inf
KINDS = [ISRLDPSurvival, DPFedAvgSurvival, DPFederatedSurvival]
every_kind = pytest.mark.parametrize("kind", KINDS)


def fitted(kind=ISRLDPSurvival, n=400, **kw):
    X, y, silos, _ = study(0, n)
    known = {"epsilon": 3.0, "target_bounds": (0, 10), "feature_bounds": (-4, 4), "n_rounds": 4}
    return kind(**(known | {"random_state": 0} | kw)).fit(X, y, silos=silos)


def with_events(share, n=6000):
    """Return 20 % of early censored records, and about this share with an event in a horizon."""
    rng = np.random.default_rng(0)
    X, early = rng.uniform(-1, 1, (n, 2)), rng.random(n) < 0.2
    time = rng.exponential(-1 / (np.log(1 - share) * np.exp(X[:, 0])))
    left = np.where(early, rng.uniform(0, 0.5, n), 1.0)
    y = pd.DataFrame({"event": time < left, "time": np.minimum(time, left)})
    silos = np.arange(n) % 4
    return X, y, {"silos": silos}, {"target_bounds": (0, 1), "feature_bounds": (-1, 1), "breaks": 4}


# ---- what it estimates ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"trust": "server"},
        {"trust": "secagg"},
        {"epsilon": INF},
        {"unit": "person"},
        {"silos": 1},
        {"silos": 60},
        {"silos": 60, "unit": "silo", "trust": "server", "kind": DPFedAvgSurvival},
        {"kind": DPFederatedSurvival, "algorithm": MinibatchSGD(0.5)},
    ],
    ids=str,
)
def test_rounds_begin_at_the_hazard_of_the_events(more):
    """3 % have an event: the first model's hazard is within a factor of 1.6 of it, not 30 times it.

    The relative noise of the count is at most .1, but .3 with 60 silos' own noise.
    """
    X, y, told, known = with_events(0.03)
    more = {"epsilon": 8.0, "n_rounds": 3, "kind": ISRLDPSurvival} | more
    count = more.pop("silos", 4)
    told["silos"] = np.arange(len(X)) % count
    if more.get("unit") == "person":
        told["persons"] = np.arange(len(X)) // 2
        told["silos"] = told["persons"] % count
    model = more.pop("kind")(**known | more, random_state=0).fit(X, y, **told)
    events, years = y["event"].sum(), y["time"].sum()
    assert abs(model.model_.start - np.log(events / years)) < np.log(1.6 if count < 9 else 4)
    assert model.privacy_spent_.epsilon <= more["epsilon"]
    if more["epsilon"] < INF:
        assert dict(model.privacy_spent_.shares)["events"] >= 0.0099
    else:
        assert abs(model.model_.start - np.log(events / years)) < 1e-3


@pytest.mark.parametrize("epsilon", [3.0, INF])
@pytest.mark.parametrize("all_or_none", [True, False])
def test_all_or_no_records_may_have_an_event(all_or_none, epsilon):
    X, y, told, known = with_events(0.3, n=400)
    y["event"] = all_or_none
    y["time"] = 0.0 if all_or_none else 1.0
    model = ISRLDPSurvival(epsilon, **known, random_state=0, n_rounds=20).fit(X, y, **told)
    survival = model.predict_survival_function(X).to_numpy()
    assert np.isfinite(survival).all() and np.isfinite(model.coef_).all()
    assert (survival[:, -1].mean() < 0.3) if all_or_none else (survival[:, -1].mean() > 0.7)


@pytest.mark.slow
def test_hazard_ratios_are_coxs_within_the_floor():
    """Three silos of 1,500, epsilon 3, secure sums: .12 in the mean; it is about .02."""
    for seed in range(3):
        X, y, silos, _ = study(seed)
        model = ISRLDPSurvival(3, target_bounds=(0, 10), trust="secagg", random_state=seed)
        model.fit(X, y, silos=silos)
        assert np.abs(model.coef_ - cox(X, y)).mean() < 0.05
        assert model.privacy_spent_.epsilon <= 3


def test_without_noise_it_is_the_maximum_of_the_likelihood():
    """Events over time at risk in each interval balance, and so do their features."""
    X, y, silos, hazards = study(1, 1500)
    model = ISRLDPSurvival(INF, target_bounds=(0, 10), breaks=[2, 5]).fit(X, y, silos=silos)
    loss, signed = model._loss(), signed_times(y["died"], y["years"], 10)
    raw = np.log(model.baseline_hazard_.to_numpy() * 10) + model.predict(X)[:, None]
    rest = loss.gradient(signed, raw)
    np.testing.assert_allclose(rest.mean(axis=0), 0, atol=2e-4)
    np.testing.assert_allclose(X.T @ rest.sum(axis=1) / len(X), 0, atol=2e-3)
    np.testing.assert_allclose(model.baseline_hazard_, hazards, rtol=0.25)
    np.testing.assert_allclose(model.coef_, cox(X, y), atol=0.02)


def test_predictions_are_of_the_hazard():
    X, y, _, _ = study(0, 400)
    frame = pd.DataFrame(X, index=np.arange(400) + 7)
    frame.columns = frame.columns.astype(str)
    model = ISRLDPSurvival(INF, target_bounds=(0, 10), breaks=4).fit(frame, y)
    survival = model.predict_survival_function(frame)
    assert survival.columns.tolist() == [2.5, 5.0, 7.5, 10.0]
    assert survival.index.equals(frame.index)
    assert (np.diff(survival, axis=1) <= 0).all()
    hazard, risk = model.baseline_hazard_.to_numpy(), np.exp(model.predict(frame))
    own = model.predict_cumulative_hazard(frame, [0, 1, 6.0])
    np.testing.assert_allclose(own[0], 0)
    np.testing.assert_allclose(own[1.0], risk * hazard[0], rtol=1e-6)
    whole = risk * (2.5 * hazard[0] + 2.5 * hazard[1] + hazard[2])
    np.testing.assert_allclose(own[6.0], whole, rtol=1e-6)
    np.testing.assert_allclose(model.predict_survival_function(frame, 6.0)[6.0], np.exp(-whole))
    with pytest.raises(ValueError, match="target_bounds"):
        model.predict_survival_function(frame, [11.0])


def test_score_is_the_concordance():
    model = fitted(n=300)
    X, y, _, _ = study(3, 300)
    time, event = np.minimum(y["years"], 10), y["died"] & (y["years"] <= 10)
    risk, ordered, pairs = model.predict(X), 0.0, 0
    for i in np.flatnonzero(event):
        after = (time > time[i]) | ((time == time[i]) & ~event)
        pairs += after.sum()
        ordered += (risk[after] < risk[i]).sum() + (risk[after] == risk[i]).sum() / 2
    assert model.score(X, y) == pytest.approx(ordered / pairs)
    assert np.isnan(model.score(X, np.rec.fromarrays([np.zeros(300, bool), time])))


# ---- targets -------------------------------------------------------------------------------------


def forms_of(y):
    frame = pd.DataFrame({"years": y["years"], "died": y["died"]})
    swapped = np.zeros(len(y), [("years", float), ("died", bool)])
    swapped["years"], swapped["died"] = y["years"], y["died"]
    nullable = frame.astype({"died": "boolean", "years": "Float64"})
    return {"structured": y, "swapped": swapped, "frame": frame, "nullable": nullable}


def test_any_form_of_y_is_the_same():
    X, y, silos, _ = study(0, 300)
    found = [fitted(n=300).coef_]
    for form in forms_of(y).values():
        model = ISRLDPSurvival(3.0, target_bounds=(0, 10), feature_bounds=(-4, 4), n_rounds=4)
        found.append(model.set_params(random_state=0).fit(X, form, silos=silos).coef_)
    for each in found:
        np.testing.assert_array_equal(each, found[0])


def test_times_beyond_the_horizon_are_censored_there():
    X, y, silos, _ = study(0, 300)
    later, cut = y.copy(), y.copy()
    beyond = y["years"] > 4
    later["years"][beyond] += 1e6
    cut["years"], cut["died"] = np.minimum(y["years"], 4), y["died"] & ~beyond
    found = [
        ISRLDPSurvival(3.0, target_bounds=(0, 4), random_state=0, n_rounds=3, scaling=None)
        .fit(X, each, silos=silos)
        .coef_
        for each in (y, later, cut)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def of(died, years):
    return pd.DataFrame({"died": died, "years": years})


N = 30
YES, ONES = np.arange(N) % 2 == 0, np.ones(N)
WRONG = {
    "one number": (ONES, "event .* time"),
    "no flag": (of(YES.astype(int), ONES), "event .* time"),
    "two flags": (of(YES, YES), "event .* time"),
    "three columns": (of(YES, ONES).assign(more=1), "event .* time"),
    "missing event": (of(pd.array([None, *YES[1:]], "boolean"), ONES), "event.*'died'.*missing"),
    "missing time": (of(YES, np.where(YES, np.nan, 1)), "time.*'years'.*missing"),
    "negative time": (of(YES, -ONES), "time.*'years'.*at least 0"),
    "text": (of(YES, ["a"] * N), "time.*'years'.*number"),
    "dates": (of(YES, pd.date_range("2020", periods=N)), "time.*'years'.*number"),
    "too few": (of(YES, ONES)[1:], "30 rows.*29 events"),
    "none": (None, "event and a time"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_targets_are_refused_in_words(case):
    y, words = WRONG[case]
    model = ISRLDPSurvival(target_bounds=(0, 10))
    with pytest.raises(ValueError, match=words):
        model.fit(np.zeros((N, 2)), y)
    assert not [name for name in vars(model) if name.endswith("_")]


SETTINGS = {
    "no horizon": ({"target_bounds": None}, "target_bounds"),
    "late start": ({"target_bounds": (1, 10)}, "target_bounds"),
    "endless": ({"target_bounds": (0, INF)}, "target_bounds"),
    "no breaks": ({"breaks": 0}, "breaks"),
    "breaks beyond": ({"breaks": [5, 10]}, "breaks"),
    "breaks that fall": ({"breaks": [5, 2]}, "breaks"),
    "text": ({"breaks": "auto"}, "breaks"),
    "curves": ({"model": "additive"}, "model"),
    "no baseline": ({"fit_intercept": False}, "baseline"),
}


@pytest.mark.parametrize("case", SETTINGS)
@every_kind
def test_wrong_settings_are_refused_in_words(kind, case):
    given, words = SETTINGS[case]
    X, y, silos, _ = study(0, 60)
    with pytest.raises(ValueError, match=words):
        kind(**({"target_bounds": (0, 10)} | given)).fit(X, y, silos=silos)


# ---- around them ---------------------------------------------------------------------------------


@every_kind
def test_a_file_and_a_pickle_predict_the_same(kind):
    model = fitted(kind, breaks=[1, 4.0])
    X, y, _, _ = study(5, 50)
    written = json.loads(json.dumps(model.to_dict(), allow_nan=False))
    for again in (kind.from_dict(written), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        found, want = (m.predict_survival_function(X) for m in (again, model))
        pd.testing.assert_frame_equal(found, want)
        assert again.score(X, y) == model.score(X, y)
        assert again.breaks_.tolist() == [1, 4]


def test_what_is_not_supported_says_so():
    X, y, silos, _ = study(0, 60)
    model = ISRLDPSurvival(target_bounds=(0, 10))
    for ask in (
        lambda: SiloAdapted(model).fit(X, y, silos=silos),
        lambda: DPRandomizedSearchCV(model, {"alpha": [0.0, 1.0]}).fit(X, y, silos=silos),
        lambda: skdpfl.privacy.audit_epsilon(model, silo_sizes={0: 40}, n_features=2),
    ):
        with pytest.raises(ValueError, match="ISRLDPSurvival has events and times"):
            ask()
    with pytest.raises(ValueError, match="exposure"):
        model.fit(X, y, exposure=np.ones(60))
    with pytest.raises(TypeError, match="silo_scores"):
        fitted().score(X, y, silos=silos)
    with pytest.raises(ValueError, match="loss must be one of"):
        skdpfl.ISRLDPRegressor(loss=PiecewiseExponential()).fit(X, y["years"])


# ---- privacy -------------------------------------------------------------------------------------

HOSTILE = [(True, 0.0), (False, 0.0), (True, 1e12), (True, 3.0), (False, 10.0)]


@every_kind
@pytest.mark.parametrize(("died", "years"), HOSTILE)
def test_no_record_moves_a_round_by_more_than_the_clip_norm(kind, died, years):
    """**Formal guarantee**: one round, another record, all parameters: 2 C / n at most."""
    X, y, silos, _ = study(0, 240)
    other, target = X.copy(), y.copy()
    other[7], target[7] = 1e6, (died, years)
    kw = {
        "n_rounds": 1,
        "scaling": None,
        "average": False,
        "clip_norm": 0.6,
        "feature_bounds": None,
    }
    kw |= {"epsilon": None, "noise_multiplier": 1.0, "random_state": 3, "target_bounds": (0, 10)}
    kw |= {"sampling_rate": 1.0, "learning_rate": 1.0}
    before, after = (kind(**kw).fit(a, b, silos=silos) for a, b in ((X, y), (other, target)))
    moved = np.append(after.coef_ - before.coef_, after.intercept_ - before.intercept_)
    assert 0 < np.linalg.norm(moved) <= 2 * 0.6 / 240 * (1 + 1e-9)


ONE_SLOPE = [PiecewiseExponential((0.2, 0.6)), PiecewiseExponential((0.2, 0.6), label_free=True)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ONE_SLOPE, ids=["own", "label_free"])
def test_a_records_gradient_is_one_vector_of_the_norm(loss, dtype):
    """For the numbers as stored, and the derivative of the loss in all parameters."""
    rng, model = np.random.default_rng(0), OneSlope(3, 3)
    X = (rng.normal(size=(400, 1, 3)) * 10 ** rng.uniform(-20, 15, (400, 1, 1))).astype(dtype)
    y = (rng.uniform(-1, 1, (400, 1))).astype(dtype)
    y[:2], X[2] = np.array([[np.nan], [np.inf]]), np.nan
    params = rng.normal(size=(400, 6)).astype(dtype)
    sums = model.clipped_gradient_sum(params, X, y, loss, clip_norm=0.3)
    norms = np.linalg.norm(sums.astype(np.longdouble), axis=1)
    assert (norms <= 0.3).all()
    assert (norms > (0.05 if loss.label_free else 0.29)).sum() > 50
    assert norms[0] == norms[2] == 0
    w, row, step = params[5].astype(float), rng.normal(size=(1, 3)), 1e-6
    own = model.gradient_sum(w, row, np.array([0.5]), loss)
    numeric = [
        (model.mean_loss(w + e, row, np.array([0.5]), loss)
         - model.mean_loss(w - e, row, np.array([0.5]), loss)) / (2 * step)
        for e in step * np.eye(6)
    ]  # fmt: skip
    np.testing.assert_allclose(own, numeric, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("loss", [*ONE_SLOPE, Ordinal(), Ordinal(label_free=True)], ids=str)
def test_a_silos_sum_is_its_own_to_the_last_bit(loss):
    """However many records and silos there are."""
    rng, model = np.random.default_rng(0), OneSlope(5, 3)
    X, params = rng.normal(size=(4, 31, 5)), rng.normal(size=(4, model.size))
    y = rng.integers(0, 4, (4, 31)) if loss.is_classifier else rng.uniform(-1, 1, (4, 31))
    clip = np.linspace(0.3, 2, 4)
    stack = model.clipped_gradient_sum(params, X, y, loss, clip_norm=clip)
    for i in range(4):
        own = model.clipped_gradient_sum(params[i], X[i], y[i], loss, clip_norm=float(clip[i]))
        np.testing.assert_array_equal(stack[i], own)
    whole = model.record_gradients(params[0], X[0], y[0], loss, np.ones(31))
    for j in range(31):
        alone = model.record_gradients(
            params[0], X[0][j : j + 1], y[0][j : j + 1], loss, np.ones(1)
        )
        np.testing.assert_array_equal(whole[j], alone[0])


@pytest.mark.parametrize("loss", [ONE_SLOPE[1], Ordinal(label_free=True)], ids=str)
def test_clipping_without_labels_bounds_all_of_them(loss):
    rng, model = np.random.default_rng(0), OneSlope(2, 3)
    X, params = rng.normal(size=(200, 2)), 2 * rng.normal(size=model.size)
    bound = model.largest_norms(params, X, loss, (X**2).sum(axis=1))
    labels = range(4) if loss.is_classifier else np.linspace(-1, 1, 101)
    norms = [
        np.linalg.norm(
            model.record_gradients(params, X, np.full(200, label), loss, np.ones(200)), axis=1
        )
        for label in labels
    ]
    assert (np.max(norms, axis=0) <= bound * (1 + 1e-12)).all()
    assert (np.max(norms, axis=0) >= bound / 2).all()


@pytest.mark.slow
def test_clipping_without_labels_leaves_hazard_ratios_unbiased():
    """At little budget: half the bias of gradients that are cut by their own norm."""
    found = {True: [], False: []}
    for seed in range(4):
        X, y, silos, _ = study(seed, 1500)
        want = cox(X, y)
        kw = {"target_bounds": (0, 10), "random_state": seed, "feature_bounds": (-4, 4)}
        free = ISRLDPSurvival(1.5, **kw).fit(X, y, silos=silos)
        own = ISRLDPSurvival(1.5, clip_norm=free.clip_norm_, **kw).fit(X, y, silos=silos)
        for key, model in ((True, free), (False, own)):
            found[key].append(want @ model.coef_ / (want @ want) - 1)
    assert abs(np.mean(found[True])) < 0.12
    assert np.mean(found[False]) > 2 * abs(np.mean(found[True]))


def test_no_part_of_the_budget_goes_to_a_targets_scale():
    """The horizon is public: events and time are counted, and nothing else before the rounds."""
    model = ISRLDPSurvival(3.0, target_bounds=(0, 10), scaling=None)
    plan = model.plan_for(silo_sizes=[300, 300], n_features=2)
    assert [len(silo) for silo in plan.setup] == [1]
    model.set_params(calibrate=False)
    assert not model.plan_for(silo_sizes=[300, 300], n_features=2).setup
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(n=2000, n_rounds=40)
