"""More of tests/estimators/test_temperature.py: what only private names show."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

import skdpfl
from skdpfl import scaling
from skdpfl.algorithms import MinibatchSGD, Scaffold
from skdpfl.federation import SiloData, Work
from skdpfl.losses import LogLoss
from skdpfl.models import LinearModel
from skdpfl.models._network import ACTIVATIONS, Network
from skdpfl.privacy.mechanisms import mechanism_for
from skdpfl.scaling._calibration import (
    Directions,
    FactorPosterior,
    ShrinkPlan,
    log_odds,
    part_of_signal,
    posterior_share,
    rescale_towards_anchor,
)
from tests.estimators.fits import data
from tests.estimators.test_temperature import BOUNDS, logistic, rare
from tests.estimators.test_weights import HUGE, weights_of
from tests.made_sums import budgets_of, exact_sums


def plan_of(trust="silo", neighbours="replace", mu=(0.3, 0.5, 1.0), sizes=(100, 300, 50)):
    return scaling.TemperaturePlan(budgets_of(sizes, mu, trust=trust, neighbours=neighbours))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_slope_is_the_derivative_in_the_logarithm_of_the_factor(n_classes):
    """Silos' sums are those of d loss / d log t of their records, as far as nothing is cut."""
    X, y, silos = logistic(60, n_classes=n_classes)
    _, work = work_of(X, y, silos, n_classes)
    params = np.random.default_rng(1).normal(size=work.model.size) / 3
    weights = np.random.default_rng(2).random(len(y))
    data = SiloData.from_codes(X, y, silos, 4, weights=weights)
    found = exact_sums(scaling.Slopes(params, 1.2, 1e6), data, work=work)

    def loss(u):
        values = LogLoss().value(y, np.exp(u) * work.model.raw(params, X))
        return np.bincount(silos, weights * values)

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
    right, timid = (
        exact_sums(scaling.Slopes(params, t, 0.7), data, work=work) / 5000 for t in (1.0, 0.5)
    )
    assert abs(right.mean()) < 0.02
    assert timid.mean() < -0.05


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_fit_asks_as_often_as_it_pays(monkeypatch, n_classes):
    """Executed is priced: one count of two labels, or two slopes at the cut of the plan."""
    X, y, silos = logistic(800, n_classes=n_classes)
    asked, counted, original, count_all = [], [], scaling.Slopes.sums, scaling.Labels.sums

    def sums(self, data, work):
        for found in original(self, data, work):
            asked.append((self.cut, *found))
            yield found

    def counts(self, data, work):
        for found in count_all(self, data, work):
            counted.append(found)
            yield found

    monkeypatch.setattr(scaling.Slopes, "sums", sums)
    monkeypatch.setattr(scaling.Labels, "sums", counts)
    clf = skdpfl.ISRLDPClassifier(2.0, random_state=0, **BOUNDS).fit(X, y, silos=silos)
    assert all(here.tolist() == [0, 1, 2, 3] for _, here, _ in asked)
    for cut, _, exact in asked:
        assert (abs(exact) <= cut * np.bincount(silos)).all()
    first, *_, last = (count for _, count in clf.plan_.setup[0])
    if n_classes == 2:
        assert (first, len(asked), len(counted)) == (1, 0, 1)
    else:
        assert (last, len(asked), len(counted)) == (2, 2, 0)
    for here, sums_of_labels in counted:
        assert (sums_of_labels + np.bincount(silos)[here] / 2 == np.bincount(silos, y)[here]).all()
    assert clf.temperature_ != 1


@pytest.mark.parametrize("clip", [0.01, 20.0])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1)])
@pytest.mark.parametrize("mu", [0.01, 0.3, 5.0])
def test_two_classes_are_shrunk_by_noise_and_coefficients_alone(mu, shares, clip):
    """To public shares' log odds; rounds that are not plain steps have the noise of their end."""
    budgets = budgets_of((100, 300, 50), [mu] * 3)
    plan, model = ShrinkPlan(budgets, shares=shares), LinearModel(2, 1)
    params = np.array([1.0, -2.0, 0.5])
    own = mechanism_for("record", "silo")
    trained = SimpleNamespace(clip_norm=clip, mechanism=own, unit="record", trust="silo")
    work = Work(model, LogLoss(label_free=True), Scaffold(0.1), trained, params.dtype)
    run = scaling.CalibrationRun(plan, None, work, params, None, plan.counted(None, None))
    found = plan.calibrated(run)
    assert plan.sums.mus == plan.labels.mus == ()
    assert plan.level == pytest.approx(2 / (mu * 450) * np.sqrt(3), rel=0.01)
    longest, bend = max(clip, np.sqrt(3) * max(shares)), shares[0] * shares[1]
    unit = np.ones(1)
    along = Directions(unit, unit, (plan.level * longest / bend) ** 2 * unit)
    known = 2, 2, 5.0, along, 1 / (450 * bend)
    assert found.factor == pytest.approx(part_of_signal(*known))
    odds = np.array([0, 0, *log_odds(shares)])
    np.testing.assert_allclose(found.params - odds, found.factor * (params - odds))
    assert scaling.first_raw_prediction(run.labels, None) == odds[2]
    trained.mechanism = SimpleNamespace()  # whose noise nobody knows
    prior = plan.calibrated(run).factor
    assert prior == plan.calibrated(run._replace(params=3 * params)).factor
    assert found.factor != prior


@pytest.mark.parametrize("length", [1.0, 30.0])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_the_shrink_knows_what_rounds_reach_and_the_noise_of_each(momentum, length, monkeypatch):
    """By loops with an optimum of 1, and one for each round's noise: what ends early is longer."""
    budgets, own = budgets_of((450,), [0.5]), mechanism_for("record", "silo")
    plan = ShrinkPlan(budgets, shares=(0.5, 0.5))
    monkeypatch.setattr(type(own), "noise_on_mean", lambda *_: 0.4)
    params, factors = np.array([0.1, -0.2, 0.5]) * length, np.linspace(1, 2, 12)
    trained = SimpleNamespace(clip_norm=20.0, mechanism=own, unit="record", trust="silo")
    trained.n_rounds, trained.factors = 12, (factors[:5], factors[5:])
    method, loss = MinibatchSGD(0.3, momentum), LogLoss(label_free=True)
    work = Work(LinearModel(2, 1), loss, method, trained, params.dtype)
    run = scaling.CalibrationRun(plan, None, work, params, None, plan.counted(None, None), 4)

    eigenvalues = -np.log((np.arange(20) + 0.5) / 20)  # of an exponential distribution
    spread = np.sqrt(1 + np.pi / 8 * 0.05 * length**2)  # of log odds
    bends = eigenvalues / 4 / spread

    def end(curvature, optimum, noise):
        x, v, models = 0.0, 0.0, []
        for moved in noise:
            v = momentum * v + curvature * (x - optimum) + moved
            x = x - 0.3 * v
            models.append(x)
        return np.mean(models[-4:], axis=0)

    variance = sum(end(bends, 0.0, row) ** 2 for row in np.diag(0.4 * factors))
    along = Directions(eigenvalues, end(bends / spread, 1.0, np.zeros(12)), variance)
    expected = part_of_signal(2, 2, 0.05 * length**2, along, 4 * spread / 450)
    assert (expected < 0.9) if length == 1 else (expected > 1.1)
    assert plan.calibrated(run).factor == pytest.approx(expected)


@pytest.mark.parametrize("squared", [0.5, 2.0, 8.0])
def test_the_part_of_signal_is_the_best_factor(squared):
    """Among drawn coefficients with this sum of squares, none has closer predictions."""
    rng, n, sampled = np.random.default_rng(0), 6, 0.05
    values, a, noise = np.array([[0.5, 1.0, 1.5], [0.4, 0.7, 0.9], [0.3, 0.2, 0.2]])
    value, reached, variance = (np.tile(each, 2) for each in (values, a, noise))
    share = rng.random(2_000_000)
    true = np.sqrt(0.3 * share / (1 - share) / n)[:, None] * rng.normal(size=(len(share), n))
    w = reached * (true + np.sqrt(sampled / value) * rng.normal(size=true.shape))
    w += np.sqrt(variance) * rng.normal(size=true.shape)
    here = np.abs(np.square(w).sum(axis=1) / squared - 1) < 0.05
    best = (value * true * w)[here].sum() / (value * np.square(w))[here].sum()
    along = Directions(values, a, noise)
    found = part_of_signal(n, n, squared, along, sampled)
    assert found == pytest.approx(best, rel=0.03)
    long = part_of_signal(n, n, 1e30, along, sampled)  # signal alone
    assert long == pytest.approx(values @ a / (values @ a**2), rel=0.1)
    assert 0 < part_of_signal(1000, 1000, 1.0, along, sampled) < 0.1


def test_a_fit_of_rare_labels_begins_at_their_counted_share():
    """Else gradients of columns whose mean is not 0 do the work of the intercept."""
    X, y, silos, *_ = rare(0)
    clf = skdpfl.ISRLDPClassifier(8.0, random_state=1, **BOUNDS).fit(X, y, silos=silos)
    first = clf.model_.init()
    assert first[-1] == pytest.approx(log_odds(tuple(clf.class_shares_))[0])
    assert not first[:-1].any()


def test_rare_labels_that_noise_drowns_are_told_of_and_others_not():
    X, y, silos, *_ = rare(0, a=-4.0)
    clf = skdpfl.ISRLDPClassifier(2.0, random_state=1, **BOUNDS)
    with pytest.warns(UserWarning, match=r"will drown.*rarest label has about 0\.0"):
        clf.fit(X, y, silos=silos)
    clf.fit(X, (X[:, 0] > 0).astype(int), silos=silos)  # a warning would be an error
    assert scaling.rarity((0.5, 0.5)) == pytest.approx(1) == scaling.rarity((1 / 3, 1 / 3, 1 / 3))
    assert scaling.rarity((0.9, 0.1)) == pytest.approx(0.25 / 0.09)


def test_the_anchor_is_what_a_factor_of_zero_predicts():
    X, y, silos = logistic(50, n_classes=3)
    _, work = work_of(X, y, silos, 3)
    params = np.random.default_rng(0).normal(size=work.model.size)
    anchor = log_odds((0.5, 0.3, 0.2))
    raw = work.model.raw(rescale_towards_anchor(work.model, params, 0.0, anchor), X)
    found = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, [[0.5, 0.3, 0.2]] * 50)
    same = rescale_towards_anchor(work.model, params, 1.0, anchor)
    np.testing.assert_allclose(same, params)
    assert log_odds((0.8, 0.2)) == (pytest.approx(np.log(0.25)),)


def test_the_share_is_the_posterior_mean():
    assert posterior_share(0.3, 0.0, 0.001) == 0.3
    assert posterior_share(-0.1, 0.0, 0.001) == 0.001
    assert posterior_share(0.3, 0.001, 0.001) == pytest.approx(0.3, abs=1e-4)
    assert posterior_share(0.3, 50.0, 0.001) == pytest.approx(0.5, abs=0.01)
    assert 0.001 < posterior_share(-0.05, 0.03, 0.001) < 0.05
    assert 0.001 <= posterior_share(-3.0, 0.03, 0.001) < 0.05


@pytest.mark.parametrize("model", [LinearModel(7, 3), Network(7, 3, (4,), ACTIVATIONS["tanh"])])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_silos_sum_is_its_own_to_the_last_bit(monkeypatch, model, dtype):
    """Silos of one size are computed together, those of more than a block piece by piece."""
    monkeypatch.setattr(scaling._calibration, "_BLOCK", 16)
    rng, sizes = np.random.default_rng(0), [3, 1, 3, 40, 0, 16, 2, 3, 1, 17]
    X, y = rng.normal(size=(sum(sizes), 7)).astype(dtype), rng.integers(0, 3, sum(sizes))
    silos, weights = np.repeat(np.arange(10), sizes), rng.random(len(y)).astype(dtype)
    work = Work(model, LogLoss(), None, None, np.dtype(dtype))
    params = rng.normal(size=model.size).astype(dtype)
    for asked in (scaling.Slopes(params, 1.3, 0.7), scaling.Labels()):
        for order in (np.arange(len(y)), rng.permutation(len(y))):
            columns = X[order], y[order], silos[order]
            data = SiloData.from_codes(*columns, 10, weights=weights[order])
            together = dict(sum_of(asked, data, work))
            assert sorted(together) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
            for silo, found in together.items():
                own = columns[2] == silo
                alone = SiloData.of_one(X[order][own], y[order][own], 0, 1, weights[order][own])
                assert dict(sum_of(asked, alone, work)) == {0: found}


def sum_of(asked, data, work):
    """The silos' numbers, each with its exact sum."""
    return [
        pair for silos, sums in asked.sums(data, work) for pair in zip(silos, sums, strict=True)
    ]


def known_of(plan, variance=1.5, level=0.005):
    return FactorPosterior(variance, 1, level, plan.noise, plan.cut)


def test_what_is_known_after_slopes_is_bayes_rule():
    """For slopes that are normal about those of t*."""
    known = FactorPosterior(1.5, 1, 0.0, 0.05, 0.7)
    seen = [(0.9, -0.1), (0.5, 0.02)]
    likely = known._likely([])
    for factor, slope in seen:
        told = known.slopes(factor)
        likely = likely * norm.pdf(
            slope, told, np.hypot(0.05, scaling._calibration._MISFIT * told[:1])
        )
    after = (likely * known.slopes(0.7)).sum() / likely.sum()
    assert known.expected(seen, 0.7) == pytest.approx(after, rel=1e-9)


@pytest.mark.parametrize("variance", [0.5, 4.0, 50.0])
@pytest.mark.parametrize("reach", [0.5, 1.5])
def test_the_factor_is_found_however_far_predictions_reach(variance, reach):
    """Slopes of normal predictions, whose labels follow a factor of them."""
    rng = np.random.default_rng(0)
    x = np.sqrt(variance) * rng.normal(size=(10**5, 1))
    best = reach / np.sqrt(variance)
    likely = 1 / (1 + np.exp(-best * x[:, 0]))
    y = (rng.random(len(x)) < likely).astype(int)
    plan = plan_of(mu=[30.0] * 3)

    def mean(at, number):
        raw = at * x
        slopes = (LogLoss().gradient(y, raw) * raw).sum(axis=-1)
        return scaling._calibration.centred_slopes(raw, slopes, plan.cut).mean()

    factor, error = plan.find(mean, known_of(plan, variance))
    assert abs(factor - best) * np.sqrt(variance) < 0.5
    assert error > 0


@pytest.mark.slow
@pytest.mark.parametrize("reach", [0.25, 0.6])
def test_the_factors_error_is_that_of_fits_repeated_with_other_noise(reach):
    plan, rng = plan_of(mu=[20.0] * 3), np.random.default_rng(0)
    posterior = known_of(plan)
    nearest = np.abs(scaling._calibration._FACTORS - reach).argmin()

    def found(noise):
        def mean(at, number):
            return posterior.slopes(at)[nearest] + noise * rng.normal()

        return plan.find(mean, posterior)

    repeated = np.std([np.log(found(plan.noise)[0]) for _ in range(300)])
    assert found(0.0)[1] == pytest.approx(repeated, rel=0.25)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_slopes_that_are_expected_are_those_of_such_predictions(n_outputs):
    posterior, n_labels = FactorPosterior(1.5, n_outputs, 0.0, 0.1, 0.7), max(2, n_outputs)
    rng = np.random.default_rng(1)
    raw = 0.8 * np.sqrt(1.5) * rng.normal(size=(10**5, n_outputs))
    y = rng.integers(0, n_labels, len(raw))
    slopes = (LogLoss().gradient(y, raw) * raw).sum(axis=-1)
    found = scaling._calibration.centred_slopes(raw, slopes, 0.7).mean()
    told = posterior.slopes(0.8)[0]  # of labels that do not follow predictions
    np.testing.assert_allclose(told, found, atol=0.03 if n_outputs > 1 else 0.01)


@pytest.mark.parametrize("weight", [*HUGE, np.inf, np.nan])
def test_the_temperature_is_cut_after_weighting(weight):
    X, y, silos = data("ISRLDPClassifier")
    work = Work(LinearModel(3, 1), LogLoss(), None, None, X.dtype)
    params, weights, cut = np.array([1.0, -2.0, 3.0, 0.5]), weights_of(), 0.9

    def sums(weights, **changed):
        given = SiloData.from_codes(X, y, silos, 4, weights=weights)
        with np.errstate(all="ignore"):
            return exact_sums(scaling.Slopes(params, 1.0, cut), given, work=work)

    new = weights.copy()
    new[7] = weight
    before, after = sums(weights), sums(new)
    assert np.isfinite(after).all()
    assert abs(after - before).max() <= 2 * cut
    assert np.array_equal(np.delete(after, silos[7]), np.delete(before, silos[7]))
    assert not np.array_equal(before, sums(None))
