"""DPRandomizedSearchCV: one budget, fresh noise, nothing given out that was not paid for."""

import math
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import sklearn
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import ParameterSampler, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor, privacy_spent
from skdpfl.datasets import split_into_silos
from skdpfl.exceptions import BudgetExceeded
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.model_selection._noisy_score import NoisyScore
from skdpfl.model_selection._search_budget import divide_budget, within
from skdpfl.model_selection._wrapped import protection_of
from skdpfl.model_selection.holdout import Split
from skdpfl.preprocessing import DPMinMaxScaler
from skdpfl.privacy import PrivacyLedger, PrivacySpent
from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.spending.repetition import Repetition

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


def test_the_published_division_does_not_tell_the_number_of_runs(monkeypatch):
    told = set()
    for runs in (1, 2, 6):
        monkeypatch.setattr(Repetition, "draw", lambda self, stream, k=runs: k)
        fitted = search(base(trust="server")).fit(X, y, silos=SILOS)
        told.add((fitted.fit_epsilon_, fitted.privacy_spent_.epsilon))
    assert len(told) == 1


class Listener:
    """Counts the rounds it is told of, as a callback or a display would."""

    def __init__(self):
        self.calls = 0

    def __call__(self, model):
        self.calls += 1


def test_secret_runs_fail_no_more_often_than_was_priced():
    """The failures of a mechanism lie beside its Renyi curve."""

    def often(failure, falls):
        def price(epsilon, delta):
            z = calibrate(lambda z: ((Gaussian(z), 1),), epsilon, delta, "replace")
            fails = Approximate(0.0, failure * epsilon if falls else failure)
            return PrivacySpent.from_compositions(
                unit="record", trust="server", neighbours="replace", delta=delta,
                compositions=[((Gaussian(z), 1), (fails, 1))],
            )  # fmt: skip

        return price

    law = Repetition(4.0)
    budget = divide_budget("replace", [often(1e-9, False)], 4.0, 1e-5, law)

    def failure(price):
        epsilon = within(budget, price, 1e-5, law, "replace")
        return renyi(price(epsilon, 1e-5).costs[0].composition, 2.0, "replace")[1]

    assert failure(often(1e-9, False)) == 1e-9
    assert failure(often(1.2e-9 / budget.epsilon, True)) <= 1e-9
    with pytest.raises(ValueError, match="fail more often"):
        within(budget, often(1e-8, False), 1e-5, law, "replace")


def test_nothing_is_told_of_secret_runs(monkeypatch):
    """Overflowing scores warn, and rounds are watched: both tell how many runs there were."""
    listener = Listener()
    wild = np.where(np.arange(X.size).reshape(X.shape) == 7, 1e300, X)
    monkeypatch.setattr(Repetition, "draw", lambda self, stream: 4)
    inner = base(trust="server")
    inner._watch = listener
    secret = search(inner)
    monkeypatch.setattr(type(inner), "__sklearn_clone__", _clone_with_watch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        secret.fit(wild, y, silos=SILOS)
    assert listener.calls == 0
    hidden = ["are not called" in str(w.message) for w in caught]
    assert hidden == [True]  # known before any run
    talking = make_pipeline(FunctionTransformer(says_something), inner)
    clips = {"isrldpclassifier__clip_norm": [0.1, 1.0]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        free = {"public": "functiontransformer", "random_state": 0}
        DPRandomizedSearchCV(talking, clips, n_iter=3, epsilon=4.0, **free).fit(X, y)
    hidden = ["are not called" in str(w.message) for w in caught]
    assert hidden == [True]  # known before any run
    open_ = search(base(trust="silo"))
    open_.estimator._watch = listener
    open_.fit(X, y, silos=SILOS)
    assert listener.calls == 3 * 10


def says_something(Z):
    warnings.warn("a run", UserWarning, stacklevel=2)
    return Z


def _clone_with_watch(self):
    copy = type(self)(**{name: clone(v, safe=False) for name, v in self.get_params().items()})
    if hasattr(self, "_watch"):
        copy._watch = self._watch
    return copy


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
    with pytest.raises(ValueError, match="protects something else"):
        DPRandomizedSearchCV(model, space, n_iter=1, random_state=0).fit(X, y, silos=SILOS)


def test_declared_ranges_may_be_a_step_of_what_is_searched():
    pipe = make_pipeline(DPMinMaxScaler(feature_bounds=(-4, 4)), base())
    params = {"isrldpclassifier__clip_norm": [0.1, 1.0]}
    with PrivacyLedger() as ledger:
        fitted = DPRandomizedSearchCV(pipe, params, n_iter=2, random_state=0).fit(X, y)
    assert privacy_spent(fitted).epsilon == pytest.approx(1.0, rel=0.02)
    assert [entry.name for entry in ledger.entries] == ["DPRandomizedSearchCV"]
    paying = make_pipeline(DPMinMaxScaler(), base())
    with pytest.raises(ValueError, match="dpminmaxscaler: DPMinMaxScaler would be paid for"):
        DPRandomizedSearchCV(paying, params, n_iter=2).fit(X, y)


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


def test_scores_are_as_noisy_as_was_priced():
    z, codes = 3.0, np.arange(100) % 4
    rows, truth = np.arange(100), np.ones(100)
    score = NoisyScore(base(), protection_of(base()), Split(rows, {}, rows, codes))

    class Right:
        def predict(self, features):
            return np.ones(len(features))

    noisy = np.array([score.of([Right()] * 4, X, truth, z, streams_for(i)) for i in range(400)])
    # four silos, clip norm sqrt(4)/2 = 1: deviation z * 1 * sqrt(4) / 100; 1600 draws: 5 sigma
    assert noisy.std() == pytest.approx(z * 2 / 100, rel=5 / math.sqrt(2 * 1600))
    assert noisy.mean() == pytest.approx(1.0, abs=5 * z * 2 / 100 / math.sqrt(1600))
    assert abs(np.corrcoef(noisy[:, 0], noisy[:, 1])[0, 1]) < 5 / math.sqrt(400)


def test_the_noise_of_a_score_does_not_tell_the_number_of_runs():
    """Random repetition is about runs of one mechanism, and their number is a secret."""
    n, z = 40, 5.0
    rows, truth = np.arange(n), np.ones(n)
    guarantee = protection_of(base(trust="server"))
    score = NoisyScore(base(), guarantee, Split(rows, {}, rows, np.zeros(n, int)))

    class Right:
        def predict(self, features):
            return np.ones(len(features))

    for runs in (1, 2, 9):
        noisy = np.array([
            score.of([Right()] * runs, X[:n], truth, z, streams_for(i)) for i in range(900 // runs)
        ])  # fmt: skip
        # one sum, clip norm 1/2: deviation z / 2 / 40
        assert noisy.std() == pytest.approx(z / 80, rel=5 / math.sqrt(2 * 900))
        if runs > 1:
            assert abs(np.corrcoef(noisy[:, 0], noisy[:, 1])[0, 1]) < 5 / math.sqrt(len(noisy))


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


def test_pipelines_routing_and_meta_estimators():
    pipe = make_pipeline(Normalizer(), base())
    params = {"isrldpclassifier__clip_norm": [0.1, 1.0]}
    nested = DPRandomizedSearchCV(pipe, params, n_iter=2, epsilon=4.0, random_state=0)
    with sklearn.config_context(enable_metadata_routing=False):
        fitted = clone(nested).fit(X, y, silos=SILOS)
        assert fitted.best_estimator_[-1].silo_ids_.tolist() == [0, 1, 2, 3]
        assert privacy_spent(fitted) == fitted.privacy_spent_
    scores = cross_val_score(search(), X, y, cv=2, params={"silos": SILOS})
    assert scores.shape == (2,)
    with sklearn.config_context(enable_metadata_routing=True):
        outer = make_pipeline(Normalizer(), search()).fit(X, y, silos=SILOS)
        assert len(outer[-1].best_estimator_.silo_ids_) == 4


def test_no_point_of_a_grid_is_paid_for_twice_unless_it_is_warned_of():
    grid = {"clip_norm": [0.1, 0.3, 1.0], "alpha": [0.0, 0.1]}
    for n_iter, most in [(4, 1), (6, 1), (8, 2)]:
        every = DPRandomizedSearchCV(base(), grid, n_iter=n_iter, epsilon=9.0, random_state=0)
        again = pytest.warns(UserWarning, match=rf"has 6 .*n_iter={n_iter} tries .*n_iter=6 leaves")
        with again if n_iter > 6 else nullcontext():
            tried = every.fit(X, y, silos=SILOS).candidates_[["clip_norm", "alpha"]]
        times = tried.value_counts()
        assert len(tried) == n_iter and len(times) == min(n_iter, 6) and times.max() == most


def test_the_seed_of_a_secret_runs_point_does_not_tell_the_next_ones():
    """The best run's point is published; who finds its seed must not know the other runs'."""
    streams = streams_for(5)
    public = {"streams": streams, "sizes": np.array([100]), "X": X, "y": y}
    drawn = search()._candidates("candidates", 6, distinct=False, **public)
    first = int(streams.stream("candidates").integers(0, 2**31, ()))
    clips = [candidate.params["clip_norm"] for candidate in drawn]
    space = [next(iter(ParameterSampler(CLIPS, 1, random_state=first + i))) for i in range(6)]
    assert clips[0] == space[0]["clip_norm"] and len(set(clips)) == 6
    assert set(clips[1:]).isdisjoint(point["clip_norm"] for point in space)


@pytest.mark.slow
def test_secret_runs_may_repeat_points_of_a_grid():
    model = base(trust="server")
    hidden = DPRandomizedSearchCV(model, {"clip_norm": [0.1, 1.0]}, n_iter=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hidden.fit(X, y, silos=SILOS)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_iter": 0}, "n_iter must be"),
        ({"epsilon": math.inf}, r"epsilon must be a number in \(0, inf\)"),
        ({"holdout": 1.0}, "holdout must be"),
        ({"delta": 2}, "delta must be"),
        ({"estimator": Normalizer()}, "one of skdpfl's"),
        ({"epsilon": 1e-4, "estimator": base(trust="server")}, "too little"),
    ],
)
def test_bad_arguments(params, words):
    with pytest.raises(ValueError, match=words):
        search(**params).fit(X, y, silos=SILOS)


def test_too_small_a_silo_is_named():
    silos = np.array(["big"] * (len(y) - 1) + ["tiny"])
    with pytest.raises(ValueError, match="'tiny' has too few"):
        search().fit(X, y, silos=silos)
