"""The paid temperature: what is released for it is bounded, noised, priced, and worth it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

import skdpfl
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import LogLoss
from skdpfl.models import LinearModel
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling import Labels, Slopes, TemperaturePlan, calibrated, rarity
from skdpfl.scaling._temperature import Point, drawn, log_odds, posterior_share, slope_terms
from tests.estimators.fits import GUARANTEES
from tests.made_sums import Sending, budgets_of, exact_sums

SHARE = np.sqrt(0.02)
BOUNDS = {"feature_bounds": (-5, 5)}


def logistic(n, seed=0, n_classes=2):
    """Records of a model that is exactly logistic, and their silos."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    raw = X @ rng.normal(size=(5, n_classes))
    if n_classes == 2:
        raw = np.column_stack([np.zeros(n), X @ [1.0, -0.8, 0.5, 0.3, 0.0]])
    y = (raw + rng.gumbel(size=raw.shape)).argmax(axis=1)
    return X, y, rng.integers(0, 4, n)


def plan_of(trust="silo", neighbours="replace", mu=(0.3, 0.5, 1.0), sizes=(100, 300, 50)):
    return TemperaturePlan(budgets_of(sizes, mu, trust=trust, neighbours=neighbours))


def released(plan, exact, streams, number):
    """The noisy mean slope of silos with these exact sums."""
    every = dataclasses.replace(plan.sums, mus=plan.sums.mus[:1], first=number)
    question = every.question(number, plan.asks(np.zeros(0), Point(1.0)))
    return float(question.mean(Sending(exact, streams), streams))


# ---- what is released ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_slope_is_the_derivative_in_the_logarithm_of_the_factor(n_classes):
    """Silos' sums are those of d loss / d log t of their records, as far as nothing is cut."""
    X, y, silos = logistic(60, n_classes=n_classes)
    data, work = work_of(X, y, silos, n_classes)
    params = np.random.default_rng(1).normal(size=work.model.size) / 3
    found = exact_sums(Slopes(params, 1.2, 1e6), data, work=work)

    def loss(u):
        values = LogLoss().value(y, np.exp(u) * work.model.raw(params, X))
        return np.bincount(silos, values)

    u, h = np.log(1.2), 1e-5
    np.testing.assert_allclose(found, (loss(u + h) - loss(u - h)) / (2 * h), atol=1e-4)


def work_of(X, y, silos, n_classes):
    """The silos' data, and a model that was trained on them."""
    data = SiloData.from_codes(X, y, silos, 4)
    model = LinearModel(X.shape[1], 1 if n_classes == 2 else n_classes)
    return data, Work(model, LogLoss(), None, None, X.dtype)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_right_probabilities_have_no_slope_whatever_is_cut(n_classes):
    """Cut slopes alone have one: those of wrong records, the longest, are shortened."""
    rng = np.random.default_rng(0)
    raw = 2.5 * rng.normal(size=(20_000, n_classes))
    if n_classes == 2:
        raw[:, 0] = 0
    y = (raw + rng.gumbel(size=raw.shape)).argmax(axis=1)
    data, work = work_of(raw[:, n_classes == 2 :], y, np.arange(len(y)) % 4, n_classes)
    params = work.model.pack(np.eye(work.model.n_outputs))
    right, timid = (exact_sums(Slopes(params, t, 0.7), data, work=work) / 5000 for t in (1.0, 0.5))
    assert abs(right.mean()) < 0.02
    assert timid.mean() < -0.05


WILD = [0.0, 1.0, -3.0, 1e6, 1e300, -1e300, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("value", WILD)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_record_moves_its_silos_sum_by_twice_the_cut_at_most(n_classes, value):
    """**Formal guarantee**: any other record, and any label, in place of one; exactly so."""
    X, y, silos = logistic(200, n_classes=n_classes)
    data, work = work_of(X, y, silos, n_classes)
    params, cut = 2 * np.random.default_rng(1).normal(size=work.model.size), 0.9
    slopes = Slopes(params, 1.0, cut)
    sums = exact_sums(slopes, data, work=work)
    for label in range(n_classes):
        changed, labels = X.copy(), y.copy()
        changed[17], labels[17] = value, label
        with np.errstate(all="ignore"):
            given = SiloData.from_codes(changed, labels, silos, 4)
            moved = exact_sums(slopes, given, work=work)
        assert np.isfinite(moved).all()
        assert abs(moved - sums)[silos[17]] <= 2 * cut
        assert np.array_equal(np.delete(moved, silos[17]), np.delete(sums, silos[17]))
        alone = SiloData.from_codes(X[17:18], y[17:18], np.zeros(1, int), 1)
        zeroed = sums[silos[17]] - exact_sums(slopes, alone, work=work)
        assert abs(moved[silos[17]] - zeroed) <= cut


def test_terms_are_cut_and_on_one_grid():
    """So that float64 adds them up without rounding, in any order."""
    terms = slope_terms(np.array([*WILD, 0.3, -0.7000001, 1 / 3]), 0.7)
    assert (abs(terms) <= 0.7).all()
    assert (terms[-5:-3] == 0).all()  # infinite ones and NaN count as nothing
    assert (terms * 2**20 == np.rint(terms * 2**20)).all()
    many = slope_terms(np.random.default_rng(0).normal(size=10**5), 4.0)
    assert many.sum() == many[::-1].sum() == sum(many.tolist())


@pytest.mark.parametrize(("trust", "neighbours"), GUARANTEES)
def test_the_noise_is_what_is_priced(trust, neighbours):
    """Each release's standard deviation, from 8,000 draws: 6 standard errors are 5 %."""
    plan, streams, n = plan_of(trust, neighbours), streams_for(3), 8000
    zeros = np.zeros(3)
    drawn = np.array([released(plan, zeros, streams, number) for number in range(n)])
    multipliers = [plan.sums.composition(i)[0][0].noise_multiplier for i in range(3)]
    std = np.array(multipliers) * plan.cut
    if trust == "server":
        expected = std[0] / 450
        assert len(set(multipliers)) == 1
    else:
        expected = np.sqrt(((plan.budgets.weights / plan.budgets.units * std) ** 2).sum())
    assert drawn.std() == pytest.approx(expected, rel=0.05)
    assert abs(drawn.mean()) < 6 * expected / np.sqrt(n)
    # with a margin for grid and rounding, never without
    made = plan.sums.noised(0, plan.asks(np.zeros(0), Point(1.0))).std
    assert (std < made).all() and (made < 1.001 * std).all()


def test_each_release_has_noise_of_its_own():
    plan, streams = plan_of(), streams_for(3)
    several = {released(plan, np.zeros(3), streams, number) for number in range(5)}
    assert len(several) == 5
    alone = [released(plan, 100 * np.eye(3)[i], streams, 0) for i in range(3)]
    assert len(set(alone)) == 3
    factor = plan.budgets.weights / plan.budgets.units
    together = released(plan, np.zeros(3), streams, 0)
    np.testing.assert_allclose(np.array(alone) - together, 100 * factor, rtol=1e-6)


# ---- what is priced ------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_it_is_in_the_plan_the_price_and_the_budget(trust):
    clf = skdpfl.ISRLDPClassifier(1.0, trust=trust, scaling=None)
    plan = clf.plan_for(silo_sizes=[500, 400], n_features=5)
    (setup,) = plan.setup
    (counted, once), (event, count) = setup
    assert (type(event), count, type(counted), once) == (Gaussian, 2, Gaussian, 1)
    for composition in plan.groups().compositions:
        assert dict(composition)[event] == 2
    assert 0.99 <= plan.spent().epsilon <= 1
    # without it the same noise costs less; with it training gets 96 % of mu^2, less the counts'
    off = clf.set_params(calibrate=False).plan_for(silo_sizes=[500, 400], n_features=5)
    assert not off.setup
    more = plan.noise_multiplier[0] / off.noise_multiplier[0]
    counts = (event.noise_multiplier / counted.noise_multiplier) ** 2 * 0.02
    assert 0.01 - 1e-6 < counts < 0.05 + 1e-6
    assert more == pytest.approx(1 / np.sqrt(0.96 - counts), rel=0.005)
    public = clf.set_params(calibrate=True, class_shares={0: 0.3, 1: 0.7})
    (((_, count),),) = public.plan_for(silo_sizes=[500, 400], n_features=5).setup
    assert count == 2  # nothing is counted
    assert 2 * (2 / event.noise_multiplier) ** 2 == pytest.approx(
        0.04 * len(off.steps) * (2 / off.noise_multiplier[0]) ** 2, rel=0.01
    )


def test_each_silo_pays_its_own_release():
    """Budgets, and deltas, that differ: what a silo is charged has its own noise in it."""
    sizes = pd.Series({"a": 300, "b": 300, "c": 300})
    for kw in (
        {"epsilon": {"a": 0.5, "b": 1.0, "c": 2.0}},
        {"epsilon": 1.0, "delta": {"a": 1e-6, "b": 1e-5, "c": 1e-4}},
    ):
        clf = skdpfl.ISRLDPClassifier(scaling=None, **kw)
        plan = clf.plan_for(silo_sizes=sizes, n_features=5)
        noises = [setup[1][0].noise_multiplier for setup in plan.setup]
        assert noises == sorted(noises, reverse=True)
        assert len(set(noises)) == 3
        groups = plan.groups()
        for i in range(3):
            paid = dict(groups.compositions[groups.of_silo[i]])
            assert [paid[event] for event, _ in plan.setup[i]] == [1, 2]
        spent = plan.spent().per_silo
        budgets = pd.Series(kw["epsilon"], index=sizes.index)
        assert (spent <= budgets).all()
        if isinstance(kw["epsilon"], dict):
            assert (spent >= 0.99 * budgets).all()


def test_a_silo_that_never_trains_pays_for_it_all_the_same():
    clf = skdpfl.DPScaffoldClassifier(1.0, scaling=None, silo_fraction=0.5, n_rounds=1)
    plan = clf.plan_for(silo_sizes=[100, 100], n_features=5)
    spent = plan.spent().per_silo
    assert 0 < spent.min() < spent.max() <= 1


def test_a_fit_asks_as_often_as_it_pays(monkeypatch):
    """Executed is priced: two evaluations, of all silos, at the cut and noise of the plan."""
    X, y, silos = logistic(800)
    asked, counted, original, count_all = [], [], Slopes.sums, Labels.sums

    def sums(self, data, work):
        for found in original(self, data, work):
            asked.append((self.cut, *found))
            yield found

    def counts(self, data, work):
        for found in count_all(self, data, work):
            counted.append(found)
            yield found

    monkeypatch.setattr(Slopes, "sums", sums)
    monkeypatch.setattr(Labels, "sums", counts)
    clf = skdpfl.ISRLDPClassifier(2.0, random_state=0, **BOUNDS).fit(X, y, silos=silos)
    assert all(here.tolist() == [0, 1, 2, 3] for _, here, _ in asked)
    cut, _, exact = asked[0]
    assert (abs(exact) <= cut * np.bincount(silos)).all()
    assert max(count for _, count in clf.plan_.setup[0]) == len(asked) == 2
    ((here, sums_of_labels),) = counted
    assert (sums_of_labels + np.bincount(silos) / 2 == np.bincount(silos, y)[here]).all()
    assert clf.temperature_ != 1


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_wild_records_leave_it_in_its_range(trust):
    X, y, silos = logistic(400)
    X[:3] = [[1e300], [-1e300], [1e12]]
    clf = skdpfl.ISRLDPClassifier(1.0, trust=trust, random_state=0, **BOUNDS)
    clf.fit(X, y, silos=silos)
    assert np.exp(-1.5) <= clf.temperature_ <= np.exp(4.0)
    assert np.isfinite(clf.coef_).all()


# ---- when there is none --------------------------------------------------------------------------

OFF = [
    {"calibrate": False},
    {"learning_rate": 0.1},
    {"epsilon": None, "noise_multiplier": 20.0},
    {"epsilon": np.inf},
    {"loss": "hinge"},
    {"unit": "silo", "epsilon": 50.0},
]


@pytest.mark.filterwarnings("ignore:Hiding a whole silo")
@pytest.mark.parametrize("options", OFF, ids=str)
def test_other_fits_have_none(options):
    X, y, silos = logistic(200)
    options = {"scaling": None, "random_state": 0} | options
    clf = skdpfl.DPFedAvgClassifier(**options).fit(X, y, silos=silos)
    assert clf.temperature_ == 1
    assert not clf.plan_.setup


@pytest.mark.parametrize(
    "options", [{"solver": "accelerated", "learning_rate": "optimal"}, {"radius": 2.0}], ids=str
)
def test_published_steps_and_a_radius_are_left_alone(options):
    plan = skdpfl.ISRLDPClassifier(scaling=None, **options)
    assert not plan.plan_for(silo_sizes=[300, 300], n_features=5).setup


# ---- and it works --------------------------------------------------------------------------------


def test_without_noise_it_finds_the_scale():
    """Of an exactly logistic model whose coefficients were halved, or doubled."""
    X, y, silos = logistic(20_000)
    data, work = work_of(X, y, silos, 2)
    plan = plan_of(mu=[50.0] * 4, sizes=np.bincount(silos))
    for wrong in (0.7, 1.4):
        params = work.model.pack(wrong * np.array([[1.0, -0.8, 0.5, 0.3, 0.0]]))
        federation = LocalFederation(data, streams_for(0))
        found = calibrated(plan, federation, work, params, streams_for(0)).factor
        assert abs(np.log(found * wrong)) < 0.6 * abs(np.log(wrong))


def test_a_penalty_counts():
    """Shrinking was asked for: the scale of the penalised objective is looked for."""
    plan = plan_of(mu=[1.0] * 3)

    factors = [plan.find(lambda at, number: 0.0, penalty=p).point.factor for p in (0.0, 1.0)]
    assert factors[1] < 0.9 * factors[0]


@pytest.mark.parametrize("name", ["ISRLDP", "DPScaffold", "DPFedAvg", "DPFederated"])
def test_the_decision_function_is_in_the_units_of_the_coefficients(name):
    X, y, silos = logistic(600, n_classes=3)
    clf = getattr(skdpfl, f"{name}Classifier")(2.0, random_state=0, **BOUNDS)
    clf.fit(X, y, silos=silos)
    assert clf.temperature_ != 1
    np.testing.assert_allclose(clf.decision_function(X), X @ clf.coef_.T + clf.intercept_)


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 0.59), (3.0, 0.56)])
def test_log_loss_and_coefficients_of_a_logistic_model(epsilon, most):
    """Means of 8 fits; 6 standard errors above the mean of 20 others."""
    X, y, _ = logistic(20_000, seed=1)
    losses, first = [], []
    for seed in range(8):
        train = logistic(2000, seed=10 + seed)
        clf = skdpfl.ISRLDPClassifier(epsilon, random_state=seed, **BOUNDS)
        clf.fit(*train[:2], silos=train[2])
        losses.append(log_loss(y, clf.predict_proba(X)))
        first.append(clf.coef_[0, 0])
    assert np.mean(losses) < most
    assert 0.7 < np.mean(first) < 1.4


@pytest.mark.parametrize(("n", "epsilon"), [(300, 0.25), (150, 0.5)])
def test_where_noise_is_nearly_all_probabilities_are_hardly_worse_than_a_constant(n, epsilon):
    """The prior's mean falls with the noise; log losses were .80 and .81 without that."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 6))
        y = (X[:, 0] + rng.logistic(size=n) > 0).astype(int)
        clf = skdpfl.ISRLDPClassifier(epsilon, feature_bounds=(-4, 4), random_state=seed)
        found.append(log_loss(y, clf.fit(X, y, silos=np.arange(n) % 3).predict_proba(X)))
    assert np.mean(found) < np.log(2) + 0.02


# ---- rare labels ---------------------------------------------------------------------------------


def rare(seed, n=1500, a=-2.4):
    """Records with few labels of 1, in six silos, and others for the test."""
    rng = np.random.default_rng(1000 + seed)
    X = rng.normal(size=(n + 4000, 20))
    likely = 1 / (1 + np.exp(-(0.6 * X[:, :4].sum(axis=1) + a)))
    y = (rng.random(len(X)) < likely).astype(int)
    return X[:n], y[:n], rng.integers(0, 6, n), X[n:], y[n:]


@pytest.mark.parametrize(("epsilon", "a", "most"), [(0.5, -2.4, 0.05), (2.0, -4.0, 0.02)])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.filterwarnings("ignore:The noise will drown")
def test_a_model_of_rare_labels_is_hardly_worse_than_their_share(epsilon, a, most, known):
    """Means of 4 fits: 0.13 and 0.04 above the constant without an anchor, now 0.02 and 0.003."""
    lost = []
    for seed in range(4):
        X, y, silos, X_test, y_test = rare(seed, a=a)
        share = y.mean()
        public = round(share, 2)
        given = {"class_shares": {0: 1 - public, 1: public}} if known else {}
        clf = skdpfl.ISRLDPClassifier(epsilon, random_state=seed, **BOUNDS, **given)
        found = clf.fit(X, y, silos=silos).predict_proba(X_test)
        lost.append(log_loss(y_test, found) - log_loss(y_test, np.full(len(y_test), share)))
        assert clf.class_shares_[1] == pytest.approx(share, abs=0.006 if known else 0.25)
    assert np.mean(lost) < most


def test_rare_labels_that_noise_drowns_are_told_of_and_others_not():
    X, y, silos, *_ = rare(0, a=-4.0)
    clf = skdpfl.ISRLDPClassifier(2.0, random_state=0, **BOUNDS)
    with pytest.warns(UserWarning, match=r"will drown.*rarest label has about 0\.0"):
        clf.fit(X, y, silos=silos)
    clf.fit(X, (X[:, 0] > 0).astype(int), silos=silos)  # a warning would be an error
    assert rarity((0.5, 0.5)) == pytest.approx(1) == rarity((1 / 3, 1 / 3, 1 / 3))
    assert rarity((0.9, 0.1)) == pytest.approx(0.25 / 0.09)


@pytest.mark.parametrize("model", ["linear", skdpfl.models.MLP((4,))], ids=["linear", "MLP"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_a_signal_probabilities_are_those_of_the_public_shares(model, n_classes):
    """With noise far beyond the signal; two or three labels, and networks."""
    X, y, silos = logistic(60, n_classes=n_classes)
    shares = {0: 0.9, 1: 0.1} if n_classes == 2 else {0: 0.9, 1: 0.06, 2: 0.04}
    clf = skdpfl.ISRLDPClassifier(
        0.01, model=model, class_shares=shares, classes=list(shares), random_state=0, **BOUNDS
    )
    with pytest.warns(UserWarning, match="will drown"):
        clf.fit(X, y, silos=silos)
    found = clf.predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(found, list(shares.values()), atol=0.03)


def test_the_anchor_is_what_a_factor_of_zero_predicts():
    X, y, silos = logistic(50, n_classes=3)
    _, work = work_of(X, y, silos, 3)
    params = np.random.default_rng(0).normal(size=work.model.size)
    anchor = log_odds((0.5, 0.3, 0.2))
    raw = work.model.raw(drawn(work.model, params, Point(0.0, anchor)), X)
    found = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, [[0.5, 0.3, 0.2]] * 50)
    same = drawn(work.model, params, Point(1.0, anchor))
    np.testing.assert_allclose(same, params)
    assert log_odds((0.8, 0.2)) == (pytest.approx(np.log(0.25)),)


def test_slopes_about_an_anchor_are_derivatives():
    X, y, silos = logistic(60)
    data, work = work_of(X, y, silos, 2)
    params, anchor = np.random.default_rng(1).normal(size=work.model.size) / 3, (-1.5,)

    def losses(u):
        raw = work.model.raw(drawn(work.model, params, Point(np.exp(u), anchor)), X)
        return np.bincount(silos, LogLoss().value(y, raw))

    found = exact_sums(Slopes(params, 1.2, 1e6, anchor), data, work=work)
    slope = (losses(np.log(1.2) + 1e-5) - losses(np.log(1.2) - 1e-5)) / 2e-5
    np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-3)


def test_the_share_is_the_posterior_mean():
    assert posterior_share(0.3, 0.0, 0.001) == 0.3
    assert posterior_share(-0.1, 0.0, 0.001) == 0.001
    assert posterior_share(0.3, 0.001, 0.001) == pytest.approx(0.3, abs=1e-4)
    assert posterior_share(0.3, 50.0, 0.001) == pytest.approx(0.5, abs=0.01)
    assert 0.001 < posterior_share(-0.05, 0.03, 0.001) < 0.05
    assert 0.001 <= posterior_share(-3.0, 0.03, 0.001) < 0.05


def test_class_weights_move_the_anchor_as_they_move_the_optimum():
    X, y, silos, *_ = rare(0)
    odds = []
    for weights in (None, {0: 0.1, 1: 0.9}):
        clf = skdpfl.ISRLDPClassifier(
            0.01, class_weight=weights, class_shares={0: 0.9, 1: 0.1}, random_state=0, **BOUNDS
        )
        with pytest.warns(UserWarning, match="will drown"):
            odds.append(clf.fit(X, y, silos=silos).intercept_[0])
    assert odds[0] == pytest.approx(np.log(1 / 9), abs=0.2)
    assert odds[1] == pytest.approx(0, abs=0.2)


def test_shares_that_were_counted_are_a_leak():
    X, y, silos, *_ = rare(0)
    share = y.mean()
    clf = skdpfl.ISRLDPClassifier(8.0, class_shares={0: 1 - share, 1: share}, **BOUNDS)
    with pytest.warns(skdpfl.exceptions.PrivacyLeakWarning, match="class_shares are the shares"):
        clf.fit(X, y, silos=silos)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([0.5, 0.5], "mapping from label"),
        ({0: 0.5, 1: 0.4}, "must sum to 1"),
        ({0: 1.0, 1: 0.0}, "class_shares"),
        ({0: 0.5, 2: 0.5}, "an entry for each of the labels"),
    ],
    ids=str,
)
def test_shares_that_cannot_be_are_refused(shares, said):
    X, y, silos = logistic(40)
    clf = skdpfl.ISRLDPClassifier(1.0, class_shares=shares, **BOUNDS)
    with pytest.raises(ValueError, match=said):
        clf.fit(X, y, silos=silos)
