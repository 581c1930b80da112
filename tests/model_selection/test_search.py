"""DPRandomizedSearchCV: one budget, fresh noise, nothing given out that was not paid for."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import ParameterSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.datasets import split_into_silos
from skdpfl.exceptions import BudgetExceeded
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.randomness.streams import streams_for

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)
SILOS = split_into_silos(y, 4, random_state=0)
CLIPS = {"clip_norm": loguniform(0.05, 1.0)}


def base(**params):
    params = {"scaling": None, "n_rounds": 10, "learning_rate": 0.5} | params
    return ISRLDPClassifier(**params)


def search(estimator=None, **params):
    params = {"n_iter": 3, "epsilon": 4.0, "random_state": 0} | params
    return DPRandomizedSearchCV(base() if estimator is None else estimator, CLIPS, **params)


@pytest.mark.parametrize("trust", ["silo", pytest.param("server", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_the_whole_search_costs_its_budget(trust, rate):
    fitted = search(base(trust=trust, sampling_rate=rate)).fit(X, y, silos=SILOS)
    assert 0.97 * 4.0 <= fitted.privacy_spent_.epsilon <= 4.0
    assert fitted.privacy_spent_.delta == 1e-4
    assert fitted.privacy_spent_.trust == trust
    assert fitted.fit_epsilon_ < 4.0


def test_training_records_pay_for_every_fit():
    fitted = search(n_iter=5).fit(X, y, silos=SILOS)
    runs = fitted.best_estimator_.privacy_spent_
    by_hand = price_epsilon(
        tuple((e, 5 * k) for e, k in runs.costs[0].composition), 1e-4, "replace"
    )
    assert by_hand == pytest.approx(fitted.privacy_spent_.epsilon, rel=0.01)
    assert len(fitted.candidates_) == 5
    assert fitted.best_score_ == fitted.candidates_["noisy_score"].max()


@pytest.mark.slow
def test_a_secret_search_gives_out_the_best_run_only():
    fitted = search(base(trust="server")).fit(X, y, silos=SILOS)
    public = {name for name in vars(fitted) if name.endswith("_")}
    assert public == {
        "best_estimator_",
        "best_params_",
        "best_score_",
        "fit_epsilon_",
        "privacy_spent_",
    }


def test_each_silo_pays_for_its_own_part_of_every_candidate():
    """Cohorts differ from candidate to candidate: no silo has the largest part of all."""
    inner = base(silo_fraction=0.5, cohort="poisson", n_rounds=6)
    fitted = search(inner, n_iter=4).fit(X, y, silos=SILOS)
    assert len(fitted.privacy_spent_.costs) > 2
    assert 0.97 * 4.0 <= fitted.privacy_spent_.epsilon <= 4.0


def test_at_every_delta_the_dearer_part_counts():
    """Fits on few records and scores cost alike at the search's delta, not at others."""
    inner = base(sampling_rate=0.02, n_rounds=50)
    spent = search(inner).fit(X, y, silos=SILOS).privacy_spent_
    fits, scores = (price_epsilon(c.composition, 1e-8, "replace") for c in spent.costs)
    assert spent.epsilon_at(1e-8) == max(fits, scores)
    assert abs(fits - scores) > 0.2


@pytest.mark.parametrize("name", ["epsilon", "delta", "noise_multiplier"])
def test_what_decides_the_cost_is_not_searched_over(name):
    with pytest.raises(ValueError, match=f"param_distributions has '{name}'"):
        DPRandomizedSearchCV(base(), {name: [1.0, 2.0]}).fit(X, y)


@pytest.mark.parametrize(
    ("model", "space"),
    [
        (base(), {"trust": ["server"]}),
        (base(trust="server"), {"neighbours": ["add_remove"]}),
        (DPFedAvgClassifier(unit="silo", n_rounds=2, scaling=None), {"unit": ["record"]}),
        (make_pipeline(Normalizer(), base()), {"isrldpclassifier": [base(trust="server")]}),
        (base(), {"silo_column": ["silo"]}),
    ],
)
def test_no_candidate_protects_less_than_the_search_says(model, space):
    with pytest.raises(ValueError, match="has another guarantee than the searched estimator"):
        DPRandomizedSearchCV(model, space, n_iter=1, random_state=0).fit(X, y, silos=SILOS)


def test_every_run_has_fresh_noise_and_a_seed_repeats_the_search():
    one, two = (search().fit(X, y, silos=SILOS) for _ in range(2))
    assert np.array_equal(one.best_estimator_.coef_, two.best_estimator_.coef_)
    same = DPRandomizedSearchCV(base(), {"verbose": [0]}, n_iter=2, epsilon=4.0, random_state=0)
    with pytest.warns(UserWarning, match="has 1 point"):
        scores = same.fit(X, y, silos=SILOS).candidates_["noisy_score"]
    assert scores[0] != scores[1]
    secure = search(random_state=None).fit(X, y, silos=SILOS)
    assert not secure.privacy_spent_.simulation_seeds


def test_the_ledger_is_charged_once_and_before_data():
    with PrivacyLedger() as ledger:
        search().fit(X, y, silos=SILOS)
    assert [entry.name for entry in ledger.entries] == ["DPRandomizedSearchCV"]
    with PrivacyLedger(epsilon=1.0), pytest.raises(BudgetExceeded):
        search().fit(X, y, silos=SILOS)


def test_a_regressor_is_scored_within_its_bounds():
    data, target = load_diabetes(return_X_y=True)
    model = ISRLDPRegressor(scaling=None, n_rounds=5, target_bounds=(0, 400), learning_rate=0.1)
    fitted = DPRandomizedSearchCV(
        model, {"clip_norm": [1.0, 100.0]}, n_iter=2, epsilon=5.0, random_state=0
    ).fit(data, target)
    assert fitted.predict(data).shape == target.shape
    with pytest.raises(ValueError, match="target_bounds"):
        DPRandomizedSearchCV(ISRLDPRegressor(), {}).fit(data, target)


def test_no_warning_tells_of_a_wild_record_that_scores():
    data, target = load_diabetes(return_X_y=True)
    model = ISRLDPRegressor(scaling=None, n_rounds=2, target_bounds=(0, 400), learning_rate=0.1)
    for place in range(0, 440, 40):  # some of these score, whatever the split
        data[place], target[place + 1] = 1e300, 1e300
    fitted = DPRandomizedSearchCV(model, {"clip_norm": [1.0]}, n_iter=1, random_state=0)
    assert np.isfinite(fitted.fit(data, target).best_score_)


@pytest.mark.slow
def test_no_point_of_a_grid_is_paid_for_twice_unless_it_is_warned_of():
    grid = {"clip_norm": [0.1, 0.3, 1.0], "alpha": [0.0, 0.1]}
    for n_iter, most in [(4, 1), (6, 1), (8, 2)]:
        every = DPRandomizedSearchCV(base(), grid, n_iter=n_iter, epsilon=9.0, random_state=0)
        again = pytest.warns(UserWarning, match=rf"has 6 points: n_iter={n_iter} pays")
        with again if n_iter > 6 else nullcontext():
            tried = every.fit(X, y, silos=SILOS).candidates_[["clip_norm", "alpha"]]
        times = tried.value_counts()
        assert len(tried) == n_iter and len(times) == min(n_iter, 6) and times.max() == most


def test_the_seed_of_a_secret_runs_point_does_not_tell_the_next_ones():
    """The best run's point is published; who finds its seed must not know the other runs'."""
    streams = streams_for(5)
    public = {"streams": streams, "sizes": np.array([100]), "few": (X, None), "y": y}
    drawn = search()._candidates("candidates", 6, distinct=False, **public)
    first = int(streams.stream("candidates").integers(0, 2**31, ()))
    clips = [candidate.params["clip_norm"] for candidate in drawn]
    space = [next(iter(ParameterSampler(CLIPS, 1, random_state=first + i))) for i in range(6)]
    assert clips[0] == space[0]["clip_norm"] and len(set(clips)) == 6
    assert set(clips[1:]).isdisjoint(point["clip_norm"] for point in space)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_iter": 0}, "n_iter must be"),
        ({"epsilon": math.inf}, r"epsilon must be a number in \(0, inf\)"),
        ({"holdout": 1.0}, "holdout must be"),
        ({"delta": 2}, "delta must be"),
        ({"estimator": Normalizer()}, "one of skdpfl's"),
        ({"epsilon": 1e-4, "estimator": base(trust="server")}, "too small for"),
    ],
)
def test_bad_arguments(params, words):
    with pytest.raises(ValueError, match=words):
        search(**params).fit(X, y, silos=SILOS)


def test_too_small_a_silo_is_named():
    silos = np.array(["big"] * (len(y) - 1) + ["tiny"])
    with pytest.raises(ValueError, match="'tiny' has too few"):
        search().fit(X, y, silos=silos)
