"""Every loss of the table, and each of its variants, against the properties it states."""

from dataclasses import fields, replace
from math import inf, log

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import metrics

from skdpfl.losses import (
    LOSSES,
    AbsoluteError,
    Gamma,
    Hinge,
    Huber,
    LogLoss,
    NegativeBinomial,
    OfLogMean,
    Ordinal,
    Poisson,
    Quantile,
    SquaredError,
    SquaredHinge,
    Tweedie,
)

VARIANTS = (
    Huber(delta=0.3),
    Quantile(q=0.1),
    Quantile(q=0.8, smoothing=2.0),
    Poisson(largest=4.0),
    Gamma(largest=3.0),
    Tweedie(power=1.2),
    Tweedie(power=1.7, largest=4.0),
    NegativeBinomial(dispersion=0.4, largest=5.0),
)


def instances(classes):
    """Each class with its defaults and, where it has one, with two Moreau parameters."""
    for cls in classes:
        yield cls()
        if any(field.name == "smoothing" for field in fields(cls)):
            yield from (cls(smoothing=b) for b in (0.7, 20.0))


def cases(losses):
    for loss in losses:
        for n_classes in (2, 3, 7) if loss.is_classifier else (None,):
            yield loss, loss.n_outputs(n_classes)


CASES = list(cases((*instances(LOSSES), *VARIANTS)))
SMOOTHED = [(loss, k) for loss, k in CASES if getattr(loss, "smoothing", None) is not None]
every_case = pytest.mark.parametrize(("loss", "k"), CASES, ids=str)
every_smoothed = pytest.mark.parametrize(("loss", "k"), SMOOTHED, ids=str)


def records(loss, k, shape=(200,), seed=0, scale=3.0, dtype=np.float64):
    """Targets, raw predictions and squared norms, nowhere within 1e-6 of a kink."""
    rng = np.random.default_rng(seed)
    raw = (scale * rng.standard_normal((*shape, k))).astype(dtype)
    if loss.is_classifier:
        y = rng.integers(0, max(k, 2), shape)
    else:
        y = rng.standard_normal(shape).astype(dtype)
        low = loss.target_range[0]
        y = y if low == -inf else low + np.abs(y)
    return y, raw, rng.uniform(0.3, 4.0, shape).astype(dtype)


# -- the properties, as functions, so that a loss from outside can be put through them too


def check_gradient_is_the_derivative(loss, k, step=1e-6):
    y, raw, norms = records(loss, k)
    gradient = loss.gradient(y, raw, squared_norms=norms)
    for c in range(k):
        ahead, behind = raw.copy(), raw.copy()
        ahead[:, c] += step
        behind[:, c] -= step
        difference = loss.value(y, ahead, squared_norms=norms)
        difference = difference - loss.value(y, behind, squared_norms=norms)
        # a smoothed kink's slope may turn within the step, by at most 20/0.3 a unit
        np.testing.assert_allclose(gradient[:, c], difference / (2 * step), rtol=1e-6, atol=7e-5)


def check_convex(loss, k):
    y, here, norms = records(loss, k, seed=1)
    there = records(loss, k, seed=2)[1]
    ends = [loss.value(y, raw, squared_norms=norms) for raw in (here, there)]
    for t in (0.1, 0.5, 0.8):
        between = loss.value(y, (1 - t) * here + t * there, squared_norms=norms)
        assert np.all(between <= (1 - t) * ends[0] + t * ends[1] + 1e-12)


def check_lipschitz(loss, k):
    bound = loss.lipschitz(k)
    y, raw, norms = records(loss, k, shape=(3000,), scale=30.0)
    y = y if loss.is_classifier or bound < inf else 1000 * y
    size = np.linalg.norm(loss.gradient(y, raw, squared_norms=norms), axis=-1).max()
    assert size <= bound * (1 + 1e-15)
    # reached, or not there: a bound that is too large would cost utility unseen
    # slopes of cut targets are bounded, by a number that depends on the cut
    cut = isinstance(loss, NegativeBinomial) and loss.largest < inf
    assert size > (0.999 * bound if bound < inf else loss.largest / 2 if cut else 30)


def check_curvature(loss, k):
    y, here, norms = records(loss, k, shape=(2000,), seed=1, scale=1.0)
    there = here + 1e-3 * records(loss, k, shape=(2000,), seed=2)[1]
    turn = loss.gradient(y, here, squared_norms=norms) - loss.gradient(
        y, there, squared_norms=norms
    )
    ratio = np.linalg.norm(turn, axis=-1) / np.linalg.norm(here - there, axis=-1)
    assert np.all(ratio <= loss.curvature(k) * (1 + 1e-9))
    # and as a function of w, where a move of |dw| shifts raw by at most |a| |dw|
    assert np.all(ratio * norms <= loss.smoothness(k, float(norms.max())) * (1 + 1e-9))


def check_records_are_separate(loss, k):
    y, raw, norms = records(loss, k, shape=(9,))
    value = loss.value(y, raw, squared_norms=norms)
    gradient = loss.gradient(y, raw, squared_norms=norms)
    raw[4], norms[4] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        others = np.arange(9) != 4
        same_value = loss.value(y, raw, squared_norms=norms)
        same_gradient = loss.gradient(y, raw, squared_norms=norms)
    np.testing.assert_array_equal(value[others], same_value[others])
    np.testing.assert_array_equal(gradient[others], same_gradient[others])


PROPERTIES = [
    check_gradient_is_the_derivative,
    check_convex,
    check_lipschitz,
    check_curvature,
    check_records_are_separate,
]


@every_case
@pytest.mark.parametrize("check", PROPERTIES)
def test_property(check, loss, k):
    check(loss, k)


# -- hand values

HAND = [
    # loss, y, raw, squared norm, value, gradient
    (LogLoss(), 1, [0.0], 1, log(2), [-0.5]),
    (LogLoss(), 0, [2.0], 1, 2.1269280110429727, [0.8807970779778824]),
    (LogLoss(), 1, [2.0], 1, 0.12692801104297252, [-0.11920292202211757]),
    (LogLoss(), 0, [-800.0], 1, 0.0, [0.0]),
    (LogLoss(), 1, [-800.0], 1, 800.0, [-1.0]),
    (LogLoss(), 0, [1.0, 2.0, 3.0], 1, 2.4076059644443806,
     [-0.90996942682961954, 0.24472847105479767, 0.66524095577482178]),
    (Hinge(), 1, [0.25], 1, 0.75, [-1.0]),
    (Hinge(), 0, [0.25], 1, 1.25, [1.0]),
    (Hinge(), 1, [1.0], 1, 0.0, [0.0]),
    (Hinge(), 2, [0.5, -2.0, 0.5], 1, 2.0, [1.0, 0.0, -1.0]),
    (Hinge(smoothing=2.0), 1, [0.25], 4, 0.140625, [-0.375]),
    (Hinge(smoothing=2.0), 1, [-3.0], 4, 3.0, [-1.0]),
    (SquaredHinge(), 1, [0.25], 1, 0.5625, [-1.5]),
    (SquaredHinge(), 1, [0.5, 0.5], 1, 2.5, [3.0, -1.0]),
    (SquaredError(), 1.0, [4.0], 1, 4.5, [3.0]),
    (Huber(delta=2.0), 1.0, [2.0], 1, 0.5, [1.0]),
    (Huber(delta=2.0), 1.0, [-4.0], 1, 8.0, [-2.0]),
    (AbsoluteError(), 1.0, [-1.0], 1, 2.0, [-1.0]),
    (AbsoluteError(), 1.0, [1.0], 1, 0.0, [0.0]),
    (AbsoluteError(smoothing=2.0), 1.0, [2.0], 4, 0.25, [0.5]),
    (AbsoluteError(smoothing=2.0), 1.0, [-9.0], 4, 9.0, [-1.0]),
    (Quantile(q=0.25), 1.0, [-1.0], 1, 0.5, [-0.25]),
    (Quantile(q=0.25), 1.0, [3.0], 1, 1.5, [0.75]),
    (Quantile(q=0.25, smoothing=1.0), 1.0, [1.5], 2, 0.1875, [0.5]),
    (Quantile(q=0.25, smoothing=1.0), 1.0, [-9.0], 2, 2.25, [-0.25]),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "y", "raw", "norm", "value", "gradient"), HAND, ids=str)
def test_hand_values(loss, y, raw, norm, value, gradient):
    y, raw, norm = np.array([y]), np.array([raw]), np.array([float(norm)])
    got = loss.value(y, raw, squared_norms=norm)
    np.testing.assert_allclose(got, [value], rtol=1e-15, atol=1e-15)
    got = loss.gradient(y, raw, squared_norms=norm)
    np.testing.assert_allclose(got, [gradient], rtol=1e-15, atol=2.5e-16)


# -- arrays: dtypes, layouts, leading axes, out=


@every_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_that_of_raw(loss, k, dtype):
    y, raw, norms = records(loss, k, dtype=dtype)
    exact_value = loss.value(y, raw.astype(float), squared_norms=norms.astype(float))
    exact_gradient = loss.gradient(y, raw.astype(float), squared_norms=norms.astype(float))
    targets = [y, y.astype(np.float64)]
    if not loss.is_classifier:
        norms = norms.astype(np.float64)
    elif k == 1:
        targets.append(y.astype(bool))
    for target in targets:
        value = loss.value(target, raw, squared_norms=norms)
        gradient = loss.gradient(target, raw, squared_norms=norms)
        assert value.dtype == gradient.dtype == dtype
        assert value.shape == raw.shape[:-1]
        assert gradient.shape == raw.shape
        rtol = 1e-5 if dtype == np.float32 else 1e-14
        np.testing.assert_allclose(value, exact_value, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(gradient, exact_gradient, rtol=rtol, atol=rtol)


@every_case
def test_out_may_be_new_or_raw_itself_in_either_layout(loss, k):
    y, raw, norms = records(loss, k, shape=(2, 11))
    kept = raw.copy()
    want = loss.gradient(y, raw, squared_norms=norms)
    np.testing.assert_array_equal(raw, kept)
    by_class = raw.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    padded = np.zeros((2, 11, k + 3))[..., :k]
    padded[...] = raw
    for inplace in (raw, by_class, padded):
        got = loss.gradient(y, inplace, squared_norms=norms, out=inplace)
        assert got is inplace
        np.testing.assert_allclose(inplace, want, rtol=1e-14, atol=1e-15)
    out = np.empty_like(want)
    assert loss.gradient(y, kept, squared_norms=norms, out=out) is out
    np.testing.assert_array_equal(out, want)


@every_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_out_predictions_give_finite_gradients_without_a_warning(loss, k, dtype):
    y, raw, norms = records(loss, k, dtype=dtype)
    raw *= dtype(1e15 if loss.lipschitz(k) == inf else np.finfo(dtype).max / 30)
    assert np.isfinite(loss.gradient(y, raw, squared_norms=norms)).all()
    if loss.lipschitz(k) < inf:
        assert not np.isnan(loss.value(y, raw / 2, squared_norms=norms)).any()


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_loss_gradients_and_their_squares_are_never_subnormal(k, dtype):
    y, raw, _ = records(LogLoss(), k, scale=1.0, dtype=dtype)
    for scale in (10, 100, 1000):
        size = np.abs(LogLoss().gradient(y, raw * dtype(scale)))
        assert not np.any((size > 0) & (size**2 < 1e6 * np.finfo(dtype).tiny))


@pytest.mark.parametrize("code", [3, 7])
def test_a_code_out_of_range_raises(code):
    for loss in (LogLoss(), Hinge()):
        with pytest.raises(IndexError):
            loss.gradient(np.array([0, code, 1]), np.zeros((3, 3)))


# -- Moreau envelopes against a numerical minimisation in parameter space


def evenly(loss):
    """The part of a loss that is smoothed, and the slope of the linear rest."""
    return (replace(loss, q=0.5), 0.5 - loss.q) if isinstance(loss, Quantile) else (loss, 0.0)


def numerical_envelope(loss, k, y, w, a):
    """Return min_v f(v) + b/2 |w - v|^2 and its minimiser, by an epigraph programme (SLSQP).

    f is a sum over outputs of max(low r, high r): one slack variable over two planes an output.
    """
    plain, b = replace(loss, smoothing=None), loss.smoothing
    d = len(a)

    def split(x):
        return x[: d * k].reshape(d, k), x[d * k :]

    def planes(x):
        v, slack = split(x)
        z = a @ v
        if isinstance(loss, Hinge):
            sign = np.where(np.arange(k) == y, 1, -1) if k > 1 else np.array([2 * y - 1])
            sides = [0 * z, 1 - sign * z]
        else:
            low, high = (-0.5, 0.5) if isinstance(loss, Quantile) else (-1, 1)
            sides = [low * (z - y), high * (z - y)]
        return np.concatenate([slack - side for side in sides])

    def objective(x):
        v, slack = split(x)
        return slack.sum() + b / 2 * np.sum((w - v) ** 2)

    start = np.concatenate([w.ravel(), 1 + np.abs(planes(np.append(w.ravel(), np.zeros(k))))[:k]])
    found = minimize(
        objective,
        start,
        constraints={"type": "ineq", "fun": planes},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    v, _ = split(found.x)
    target = np.array([y])
    return plain.value(target, (a @ v)[None])[0] + b / 2 * np.sum((w - v) ** 2), v


@every_smoothed
def test_moreau_envelope_is_the_minimum_and_its_gradient_b_times_the_step_to_the_prox(loss, k):
    if k == 7:
        k = 2  # the same formula; the programme in 7 d variables is slow
    rng = np.random.default_rng(3)
    for _ in range(6):
        a, w = rng.standard_normal(3), rng.standard_normal((3, k))
        y = rng.integers(0, max(k, 2)) if loss.is_classifier else rng.standard_normal()
        part, tilt = evenly(loss)
        want, v = numerical_envelope(part, k, y, w, a)
        want += tilt * (a @ w - y)[0]
        args = np.array([y]), (a @ w)[None]
        norm = {"squared_norms": np.array([a @ a])}
        np.testing.assert_allclose(loss.value(*args, **norm), [want], rtol=1e-7, atol=1e-7)
        gradient = np.outer(a, loss.gradient(*args, **norm)[0])
        np.testing.assert_allclose(
            gradient, loss.smoothing * (w - v) + tilt * a[:, None], rtol=1e-4, atol=1e-4
        )


@every_smoothed
def test_moreau_envelope_of_a_record_without_features_is_the_loss(loss, k):
    y, raw, _ = records(loss, k)
    raw[:5] = y[:5, None] if not loss.is_classifier else 0  # residual exactly 0 too
    none = np.zeros(len(y))
    plain = replace(loss, smoothing=None)
    tilt = evenly(loss)[1]  # at a residual of 0: another subgradient
    want = plain.gradient(y, raw) + tilt * (raw == y[:, None])
    np.testing.assert_allclose(loss.gradient(y, raw, squared_norms=none), want, rtol=1e-14)
    want = plain.value(y, raw)
    np.testing.assert_allclose(loss.value(y, raw, squared_norms=none), want, rtol=1e-14, atol=1e-15)


# -- scikit-learn's metrics, classes, parameters


@pytest.mark.parametrize("n_classes", [2, 4])
def test_log_loss_agrees_with_scikit_learn(n_classes):
    loss = LogLoss()
    y, raw, _ = records(loss, loss.n_outputs(n_classes))
    proba = loss.predict_proba(raw)
    np.testing.assert_allclose(proba.sum(axis=-1), 1, rtol=1e-14)
    np.testing.assert_allclose(loss.value(y, raw).mean(), metrics.log_loss(y, proba), rtol=1e-12)
    np.testing.assert_array_equal(loss.predict(raw), proba.argmax(axis=-1))


def test_the_others_agree_with_scikit_learn():
    for q in (0.1, 0.5):
        y, raw, _ = records(Quantile(), 1)
        want = metrics.mean_pinball_loss(y, raw[:, 0], alpha=q)
        np.testing.assert_allclose(Quantile(q=q).value(y, raw).mean(), want, rtol=1e-13)
    for loss in (Poisson(), Gamma(), Tweedie(1.4)):
        y, raw, _ = records(loss, 1)
        mean, power = np.exp(raw[:, 0]), {Poisson(): 1, Gamma(): 2}.get(loss, 1.4)
        want = metrics.mean_tweedie_deviance(y, mean, power=power)
        np.testing.assert_allclose(loss.deviance(y, mean).mean(), want, rtol=1e-12)
    want = metrics.mean_squared_error(y, raw[:, 0]) / 2
    np.testing.assert_allclose(SquaredError().value(y, raw).mean(), want, rtol=1e-13)
    y, raw, _ = records(Hinge(), 1)
    want = metrics.hinge_loss(y, raw[:, 0])
    np.testing.assert_allclose(Hinge().value(y, raw).mean(), want, rtol=1e-13)


@pytest.mark.parametrize(
    "loss", [loss for loss, _ in CASES if isinstance(loss, OfLogMean) and loss.largest == inf]
)
def test_deviance_is_twice_the_loss_above_that_of_the_target(loss):
    y, raw, _ = records(loss, 1)
    y += 0.01
    above = loss.value(y, raw) - loss.value(y, np.log(y)[:, None])
    np.testing.assert_allclose(loss.deviance(y, np.exp(raw[:, 0])), 2 * above, atol=1e-9, rtol=1e-9)


@every_case
def test_predictions(loss, k):
    _, raw, _ = records(loss, k, shape=(2, 300))
    got = loss.predict(raw)
    assert got.shape == (2, 300)
    if loss.is_classifier:
        assert set(np.unique(got)) == set(range(k + 1 if loss.one_slope else max(k, 2)))
    else:
        mean = np.exp(raw) if loss.link == "log" else raw
        np.testing.assert_array_equal(got, mean[..., 0])
    assert hasattr(loss, "predict_proba") == isinstance(loss, LogLoss | Ordinal)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Huber(delta=0), r"delta must be a number in \(0, inf\); got 0"),
        (lambda: Huber(delta=inf), "delta must be .* got inf"),
        (lambda: Quantile(q=1.0), r"q must be a number in \(0, 1\); got 1.0"),
        (lambda: Quantile(smoothing=0.0), r"smoothing must be a number in \(0, inf\) \(or None\)"),
        (lambda: Hinge(smoothing=float("nan")), "smoothing must.*nan"),
        (lambda: AbsoluteError(smoothing=-1), "smoothing must.*-1"),
        (lambda: Tweedie(power=3), "not convex"),
        (lambda: Tweedie(0.5), "not convex"),
        (lambda: NegativeBinomial(dispersion=0), "dispersion must"),
    ],
)
def test_bad_parameters_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
