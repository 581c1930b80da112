"""trust="secagg": silos share the noise of sums, and price what a coalition is left with."""

import math
from functools import reduce

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from skdpfl import DPFedAvgClassifier, DPFedEXPClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.preprocessing import DPPCA, DPOneHotEncoder, DPSimpleImputer
from skdpfl.privacy import PrivacyLedger, PrivacySpent, SecureAggregation, audit_epsilon, epsilon_of
from tests.estimators.fits import data

TEN = dict.fromkeys("abcdefghij", 200)


def plan(estimator=ISRLDPClassifier, trust="secagg", sizes=TEN, **kw):
    return estimator(trust=trust, **kw).plan_for(silo_sizes=sizes, n_features=5)


def noise(plan):
    """Of the released mean, in clip norms."""
    return plan.mechanism.noise_on_mean(plan) / plan.clip_norm


def test_it_is_a_parameter_like_others():
    two = SecureAggregation(colluding=2)
    assert repr(two) == "SecureAggregation(colluding=2)"
    assert two.get_params() == {"colluding": 2, "spare_rounds": 0}
    clf = clone(ISRLDPClassifier(trust=two))
    assert clf.trust is not two
    assert clf.trust == two != SecureAggregation()
    assert clf.trust.colluding == 2
    for given in ParameterGrid({"trust__colluding": [0, 3], "trust__spare_rounds": [1]}):
        clf.set_params(**given)
    assert (clf.trust.colluding, clf.trust.spare_rounds) == (3, 1)
    spent = plan(trust=clf.trust).spent()
    assert (spent.trust, spent.colluding) == ("secagg", 3)


@pytest.mark.parametrize(("colluding", "spare_rounds"), [(-1, 0), (1.5, 0), (1, -1), (True, 0)])
def test_numbers_that_are_none_are_refused(colluding, spare_rounds):
    with pytest.raises(ValueError, match=r"(colluding|spare_rounds) must be an integer"):
        plan(trust=SecureAggregation(colluding, spare_rounds))


@pytest.mark.parametrize("colluding", [0, 1, 3, 9])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize(
    "options",
    [{"scaling": None, "calibrate": False}, {"feature_bounds": (-1, 1), "model": "linear"}, {}],
    ids=["rounds alone", "in bounds", "without bounds"],
)  # fmt: skip
def test_the_released_noise_is_a_trusted_servers_but_for_the_colluders(colluding, epsilon, options):
    """sqrt(m / (m - t)) times it at the same epsilon, to 2 %, whatever else is released."""
    kw = {"epsilon": epsilon, **options}
    shared = plan(trust=SecureAggregation(colluding), **kw)
    ratio = noise(shared) / noise(plan(trust="server", **kw))
    assert ratio == pytest.approx(math.sqrt(10 / (10 - colluding)), rel=0.02)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_same_numbers_same_model(n_jobs):
    X, y, silos = data("ISRLDPClassifier", n_silos=5)
    models = [
        ISRLDPClassifier(trust=trust, n_jobs=jobs, random_state=3).fit(X, y, silos=silos)
        for trust, jobs in (("secagg", None), (SecureAggregation(), n_jobs))
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    other = ISRLDPClassifier(trust=SecureAggregation(2), random_state=3).fit(X, y, silos=silos)
    assert (other.coef_ != models[0].coef_).any()


@pytest.mark.parametrize(
    ("estimator", "kw", "sizes"),
    [
        (ISRLDPClassifier, {"trust": SecureAggregation(4)}, 4),
        (ISRLDPClassifier, {"trust": "secagg"}, 1),
        (ISRLDPClassifier, {"trust": "secagg", "silo_fraction": 0.25}, 4),
        (ISRLDPRegressor, {"trust": SecureAggregation(7), "target_bounds": (-9, 9)}, 7),
        (DPFedEXPClassifier, {"trust": SecureAggregation(4)}, 4),
    ],
)
def test_too_few_silos_are_an_error_before_anything_is_paid(estimator, kw, sizes):
    X, y, silos = data(estimator.__name__, n_silos=sizes)
    with PrivacyLedger(10.0) as ledger:
        clf = estimator(**kw)
        with pytest.raises(ValueError, match="colluding"):
            clf.fit(X, y, silos=silos)
        assert not hasattr(clf, "coef_")
    assert ledger.spent is None or ledger.spent.epsilon == 0


def test_what_a_fit_says():
    X, y, silos = data("ISRLDPClassifier", n_silos=5)
    clf = ISRLDPClassifier(2.0, trust=SecureAggregation(2), feature_bounds=(-9, 9))
    spent = clf.fit(X, y, silos=silos).privacy_spent_
    assert (spent.trust, spent.colluding, spent.unit) == ("secagg", 2, "record")
    assert "trust='secagg'" in repr(spent) and "colluding=2" in repr(spent)
    assert len(spent.per_silo) == 5
    assert 0 < spent.outsider.epsilon < spent.epsilon <= 2
    assert spent.outsider.trust == "server"


def test_each_silo_has_its_budget():
    """One noise meets them all; who has more pays less than the own budget."""
    budgets = dict(zip("abcdefghij", [1.0, 2.0, *[3.0] * 8], strict=True))
    spent = plan(epsilon=budgets, silo_weights="uniform").spent()
    assert (spent.per_silo <= list(budgets.values())).all()
    assert spent.per_silo["a"] == pytest.approx(1.0, rel=0.01)


# ---- who takes part ---------------------------------------------------------------------------


def gaussian(plan, rounds):
    """The epsilon of that many Gaussian releases with the plan's least noise."""
    return epsilon_of(
        noise_multiplier=plan.noise_multiplier.min(), sampling_rate=1.0, n_steps=int(rounds),
        delta=plan.delta[0], neighbours=plan.neighbours,
    )  # fmt: skip


@pytest.mark.parametrize("cohort", ["auto", "balanced", "uniform", "poisson"])
@pytest.mark.parametrize("neighbours", ["auto", "add_remove"])
def test_whole_silos_pay_for_the_rounds_that_they_are_seen_in(cohort, neighbours):
    """Nothing is amplified: the price is that of participation, for whoever takes part most."""
    kw = {"silo_fraction": 0.1, "n_rounds": 50, "cohort": cohort, "neighbours": neighbours}
    options = {"unit": "silo", "scaling": None, "random_state": 1}
    mine = plan(DPFedAvgClassifier, sizes=[50] * 200, **options, **kw)
    answered = np.bincount(np.concatenate(mine.schedule), minlength=200)
    assert mine.spent().epsilon == pytest.approx(gaussian(mine, answered.max()), rel=1e-3)
    assert mine.neighbours == ("replace" if neighbours == "auto" else neighbours)
    if cohort in ("auto", "balanced"):
        assert answered.max() == answered.min() == 5


def test_poisson_cohorts_of_records_are_priced_by_participation():
    kw = {"cohort": "poisson", "silo_fraction": 0.6, "n_rounds": 12, "sampling_rate": 1.0}
    mine = plan(random_state=4, calibrate=False, scaling=None, **kw)
    answered = np.bincount(np.concatenate(mine.schedule), minlength=10)
    per_silo = mine.spent().per_silo.to_numpy()
    np.testing.assert_allclose(per_silo, [gaussian(mine, n) for n in answered], rtol=1e-3)


# ---- spare rounds -----------------------------------------------------------------------------


@pytest.mark.parametrize("sampling_rate", [1.0, 0.3])
def test_spare_rounds_cost_what_rounds_cost(sampling_rate):
    kw = {"epsilon": None, "noise_multiplier": 30.0, "scaling": None, "calibrate": False,
          "sampling_rate": sampling_rate}  # fmt: skip
    spare = plan(trust=SecureAggregation(spare_rounds=4), n_rounds=6, **kw)
    assert spare.n_rounds == 6
    longer = plan(n_rounds=10, **kw)
    assert spare.spent().epsilon == pytest.approx(longer.spent().epsilon, rel=1e-9)
    assert spare.spent().n_releases == 10


# ---- adding up, reports -----------------------------------------------------------------------


def spent_of(trust, colluding=1):
    given = SecureAggregation(colluding) if trust == "secagg" else trust
    return plan(trust=given, epsilon=1.0, scaling=None).spent()


def test_a_report_says_it_and_is_checked():
    spent = spent_of("secagg", 2)
    report = spent.to_dict()
    assert (report["trust"], report["colluding"]) == ("secagg", 2)
    assert PrivacySpent.from_dict(report) == spent
    assert spent != spent.trusting("secagg", 3)
    assert "colluding" not in spent_of("silo").to_dict()
    for wrong in ({"colluding": -1}, {"colluding": None}, {"colluding": "2"}, {"trust": "silo"}):
        with pytest.raises(ValueError, match="colluding"):
            PrivacySpent.from_dict(report | wrong)
    with pytest.raises(ValueError, match="colluding"):
        PrivacySpent.from_dict({k: v for k, v in report.items() if k != "colluding"})


# ---- searches, transformers, audits -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["record", "silo"])
def test_a_search_charges_every_run(unit):
    """Who sees every run is told nothing less by keeping the best."""
    X, y, silos = data("DPFedAvgClassifier", n=600, n_silos=30)
    inner = DPFedAvgClassifier(
        trust=SecureAggregation(2), unit=unit, n_rounds=4, scaling=None, local_steps=1
    )
    search = DPRandomizedSearchCV(
        inner, {"learning_rate": [0.1, 1.0, 3.0]}, n_iter=3, epsilon=3.0, random_state=0
    ).fit(X, y, silos=silos)
    spent = search.privacy_spent_
    assert (spent.trust, spent.colluding) == ("secagg", 2)
    assert 2.9 < spent.epsilon <= 3
    assert len(search.candidates_) == 3
    assert search.fit_epsilon_ < 3 / math.sqrt(3) * 1.2
    assert search.candidates_["noisy_score"].nunique() == 3


def test_scores_need_honest_silos():
    X, y, silos = data("DPFedAvgClassifier", n=600, n_silos=8)
    inner = DPFedAvgClassifier(
        trust=SecureAggregation(3), unit="silo", n_rounds=4, scaling=None, learning_rate=1.0
    )
    with pytest.raises(ValueError, match="colluding"):  # two of eight silos are held out
        DPRandomizedSearchCV(
            inner, {"learning_rate": [0.1, 1.0]}, n_iter=2, epsilon=30.0, random_state=0
        ).fit(X, y, silos=silos)


@pytest.mark.parametrize(
    "made",
    [
        lambda trust: DPSimpleImputer(4.0, feature_bounds=(-9, 9), trust=trust, random_state=0),
        lambda trust: DPPCA(2, 4.0, trust=trust, random_state=0),
        lambda trust: DPOneHotEncoder(8.0, trust=trust, random_state=0),
    ],
)
def test_transformers_learn_from_the_same_sums(made):
    X, _, silos = data("ISRLDPClassifier", n=2000, n_silos=5)
    X = np.round(X) if isinstance(made("silo"), DPOneHotEncoder) else X
    costs = [made(t).fit(X, silos=silos).privacy_spent_ for t in ("secagg", SecureAggregation(3))]
    assert [(c.trust, c.colluding) for c in costs] == [("secagg", 1), ("secagg", 3)]
    if not isinstance(made("silo"), DPOneHotEncoder):  # what values there are is no sum
        with pytest.raises(ValueError, match="colluding"):
            made(SecureAggregation(5)).fit(X, silos=silos)


@pytest.mark.parametrize("colluding", [0, 3])
def test_means_are_as_exact_as_priced(colluding):
    """The errors of 100 columns' means, over a trusted server's; false alarms below 1e-7."""
    X, silos = np.zeros((20_000, 100)), np.arange(20_000) % 5

    def off(trust):
        imputer = DPSimpleImputer(0.5, feature_bounds=(-1, 1), trust=trust, random_state=1)
        return imputer.fit(X, silos=silos).statistics_

    ratio = off(SecureAggregation(colluding)).std() / off("server").std()
    assert ratio == pytest.approx(math.sqrt(5 / (5 - colluding)), rel=0.5)


@pytest.mark.slow
def test_the_audit_takes_the_colluders_noise_off():
    clf = ISRLDPClassifier(
        4.0, n_rounds=1, sampling_rate=1.0, scaling=None, calibrate=False,
        trust=SecureAggregation(3),
    )  # fmt: skip
    audit = audit_epsilon(clf, silo_sizes=[20] * 4, n_features=4, n_fits=500, random_state=0)
    assert (audit.view, audit.contradicted) == ("server", False)
    assert audit.reported == pytest.approx(4.0, rel=0.01)
    # with the colluders' noise it would look like an epsilon of 1.6
    assert 2.0 < audit.gaussian_bound < 4.0
    with pytest.raises(ValueError, match="nothing is guaranteed of silos' messages"):
        audit_epsilon(clf, silo_sizes=[20] * 4, n_features=4, view="silo")


def test_totals_that_do_not_fit_are_refused_before_the_fit():
    with pytest.raises(ValueError, match="too little to be added exactly"):
        plan(sizes=[10**7] * 10, epsilon=1000.0, scaling=None, calibrate=False, n_rounds=3)


# ---- noise that silos share: the sum of rounded normals costs no more than the normal of its ----

SHARES = [2.0**k for k in range(-1, 7)]


def rounded_normal(s):
    """Probabilities of rint(N(0, s^2)) at -reach..reach, each from the nearer tail."""
    reach = math.ceil(12 * s) + 1
    k = np.arange(reach + 1)
    half = ndtr((0.5 - k) / s) - ndtr((-0.5 - k) / s)
    half[0] = 1 - 2 * ndtr(-0.5 / s)
    return np.concatenate([half[:0:-1], half])


def law_of_sum(shares):
    """The law of the sum of the silos' noises, symmetric about the middle; products are added."""
    return reduce(np.convolve, map(rounded_normal, shares))


# ---- the steps of the proof -------------------------------------------------------------------


def rounded_at_random(s, h, k):
    """(phi_{s sqrt h} * U^h)(k), by its Fourier transform; ``k`` is an array."""
    t = np.linspace(0, 40 / (s * math.sqrt(h)), 200_001)
    transform = np.exp(-h * (s * t) ** 2 / 2) * np.sinc(t / (2 * np.pi)) ** h
    return np.trapezoid(transform * np.cos(np.multiply.outer(k, t)), t) / np.pi


@pytest.mark.parametrize("h", [2, 3, 5, 9])
@pytest.mark.parametrize("s", [0.5, 0.6, 0.8, 1.0, 1.3])
def test_aliasing_is_below_its_bound(s, h):
    """(iii): each probability is within 2^(h+1) exp(-pi^2 s^2), and the bound is no worse than
    the number of mixed terms: from two steps on nothing is left that doubles can hold."""
    law = law_of_sum([s] * h)
    k = np.arange(law.size) - law.size // 2
    near = np.abs(k) <= 12
    apart = np.abs(law[near] - rounded_at_random(s, h, k[near])).max()
    assert apart <= 2 ** (h + 1) * math.exp(-((math.pi * s) ** 2)) + 1e-13
    if h == 2:
        assert apart >= 1e-3 * math.exp(-((math.pi * s) ** 2))
