"""Networks: clipped sums by layer norms are those of single records, in any stack and dtype."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from skdpfl.losses import AbsoluteError, Hinge, LogLoss, SquaredError
from skdpfl.models import MLP, Records, TemperedSigmoid, _clipping, _products, public
from skdpfl.models._activations import ACTIVATIONS
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling import AffineScaling, Scales
from skdpfl.scaling._maps import AffineTarget

DTYPES = [np.float32, np.float64]
NETS = {
    "relu": MLP((7,)),
    "tanh": MLP((5, 4), "tanh"),
    "tempered": MLP((6,), TemperedSigmoid(1.5, 2.5, 0.7)),
    "none": MLP(()),
}
LOSSES = [(LogLoss(), 1), (LogLoss(), 4), (SquaredError(), 1), (Hinge(), 3), (AbsoluteError(), 1)]
every_net = pytest.mark.parametrize("net", NETS)


def problem(net, loss, k, shape=(), n=13, d=5, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    model = NETS[net].build(d, k)
    X = rng.normal(size=(*shape, n, d)).astype(dtype)
    if loss.is_classifier:
        y = rng.integers(0, max(k, 2), (*shape, n))
    else:
        y = (2 * rng.normal(size=(*shape, n))).astype(dtype)
    return model, (0.7 * rng.normal(size=(*shape, model.size))).astype(dtype), X, y


def by_differences(model, params, x, y, loss):
    """A record's gradient, by differences of its loss."""
    step, e = 1e-6, np.eye(model.size)
    ends = [loss.value(y, model.raw(params + s * step * e, x[None]))[:, 0] for s in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)


def one_by_one(model, params, X, y, loss, clip, weights=None):
    """The clipped sum, a record at a time."""
    total = np.zeros(model.size)
    for j in range(len(X)):
        gradient = by_differences(model, params, X[[j]], y[[j]], loss)
        share = 1.0 if weights is None else weights[j]
        total += share * gradient * min(1.0, clip / max(np.linalg.norm(gradient), 1e-300))
    return total


@every_net
@pytest.mark.parametrize(("loss", "k"), LOSSES, ids=str)
@pytest.mark.parametrize("clip", [0.9, np.inf])
def test_sums_are_those_of_single_records_by_differences(net, loss, k, clip):
    model, params, X, y = problem(net, loss, k)
    weights = np.arange(13.0) % 3
    got = model.clipped_gradient_sum(params, X, y, loss, clip_norm=clip, weights=weights, chunk=5)
    want = one_by_one(model, params, X, y, loss, clip, weights)
    np.testing.assert_allclose(got, want, atol=1e-6)


@every_net
def test_single_precision_is_the_same_to_its_digits(net):
    model, params, X, y = problem(net, LogLoss(), 4)
    args = [v.astype(np.float32) for v in (params, X)]
    got = model.clipped_gradient_sum(*args, y, LogLoss(), clip_norm=0.7)
    assert got.dtype == np.float32
    want = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=0.7)
    np.testing.assert_allclose(got, want, atol=2e-5)


@pytest.mark.parametrize(
    "activation", [*ACTIVATIONS.values(), TemperedSigmoid(1.5, 2.5, 0.7)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_slopes_are_derivatives(activation, dtype):
    z = np.linspace(-3, 3, 42)
    ends = [activation.value(z + s * 1e-6) for s in (1, -1)]
    value = activation.value(z.astype(dtype))
    assert value.dtype == dtype
    assert (activation.slope(value) * dtype(1)).dtype == dtype
    numeric = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(activation.slope(value) * 1.0, numeric, atol=1e-5)


# ---- a record's part does not depend on how many others were drawn -------------------------------


@pytest.fixture(params=["compiled", "without", "by output"])
def products(request, monkeypatch):
    if request.param != "compiled":
        monkeypatch.setattr(_products, "compiled", None)
    if request.param == "by output":
        monkeypatch.setattr(_products, "_places_are_alike", lambda d, k, kind: False)


def test_places_of_a_block_that_differ_are_found(monkeypatch):
    original = np.matmul

    def other_bits_at_the_end(a, b, **kw):
        out = original(a, b, **kw)
        out[..., -1, :] = np.nextafter(out[..., -1, :], 9)
        return out

    _products._places_are_alike.cache_clear()
    monkeypatch.setattr(np, "matmul", other_bits_at_the_end)
    assert not _products._places_are_alike(7, 3, np.dtype(np.float32))
    _products._places_are_alike.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("net", ["relu", "tanh", "tempered"])
@pytest.mark.parametrize(("loss", "k"), [(LogLoss(), 3), (LogLoss(), 10), (Hinge(), 1)], ids=str)
def test_a_records_part_is_its_own_to_the_last_bit(products, net, loss, k, dtype):
    model, params, X, y = problem(net, loss, k, n=30, d=67, dtype=dtype)
    rng = np.random.default_rng(1)

    def part(batch, place):
        chosen = (np.arange(len(batch)) == place).astype(dtype)
        return model.clipped_gradient_sum(
            params, X[batch], y[batch], loss, clip_norm=0.3, weights=chosen
        )

    alone = part(np.array([5]), 0)
    for n in (2, 3, 4, 7, 12, 13, 30):
        others = rng.permutation(np.delete(np.arange(30), 5))[: n - 1]
        place = int(rng.integers(n))
        np.testing.assert_array_equal(part(np.insert(others, place, 5), place), alone)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_more_record_changes_a_sum_by_the_clip_norm_even_at_the_edge_of_relu(products, dtype):
    """All records lie where the hidden units are zero but for rounding."""
    rng = np.random.default_rng(0)
    W, V = rng.normal(size=(64, 50)).astype(dtype), rng.normal(size=(50, 3))
    free = np.linalg.svd(W.astype(np.float64))[0][:, 50:]
    start = public(([W, V], [np.zeros(50), np.zeros(3)]))
    model = MLP((50,), start=start).build(64, 3)
    params, y = model.init(None, dtype), np.zeros(30, int)
    for _ in range(5):
        X = np.tile((free @ rng.normal(size=14)).astype(dtype), (30, 1))
        sums = [
            model.clipped_gradient_sum(params, X[:n], y[:n], LogLoss(), clip_norm=1.0)
            for n in range(1, 31)
        ]
        assert np.linalg.norm(np.diff(sums, axis=0), axis=1).max() < 1.001


@every_net
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 31])
@pytest.mark.parametrize("k", [1, 3])
def test_stacks_and_groups_give_each_silos_bits(net, dtype, n, k):
    loss = LogLoss()
    model, params, X, y = problem(net, loss, k, (4,), n, dtype=dtype)
    clip = np.linspace(0.2, 2, 4)
    norms = model.squared_row_norms(X)
    stack = model.clipped_gradient_sum(params, X, y, loss, clip_norm=clip, squared_norms=norms)
    records = Records.in_turn(X.reshape(4 * n, -1), [n] * 4)
    flat = {"clip_norm": clip, "squared_norms": norms.ravel()}
    group = model.clipped_gradient_sums(params, records, y.ravel(), loss, **flat)
    for i in range(4):
        alone = model.clipped_gradient_sum(
            params[i], X[i], y[i], loss, clip_norm=clip[i], squared_norms=norms[i]
        )
        np.testing.assert_array_equal(stack[i], alone)
        np.testing.assert_array_equal(group[i], alone)
    shared = model.clipped_gradient_sum(params[0], X, y, loss, clip_norm=clip)
    np.testing.assert_array_equal(shared[0], stack[0])
    assert shared.shape == (4, model.size)


# ---- the guarantee -------------------------------------------------------------------------------


def exact_norm(model, terms):
    """The squared norm of a record's outer products of stored numbers, as a fraction."""
    total = Fraction(0)
    for a, s in terms:
        squares = [sum(Fraction(float(v)) ** 2 for v in part.ravel()) for part in (a, s)]
        total += (squares[0] + 1) * squares[1]
    return total


def terms_of(monkeypatch, model, *args, **kwargs):
    """What enters each layer, and clipped slopes, as they are multiplied."""
    seen = []

    def keep(self, entering, slopes, chunk):
        seen.append([(a.copy(), s.copy()) for a, s in zip(entering, slopes, strict=True)])
        return np.zeros(self.size)

    monkeypatch.setattr(type(model), "_sums", keep)
    model.clipped_gradient_sum(*args, **kwargs)
    return seen[0]


@pytest.mark.parametrize("net", ["relu", "tanh"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clip", [1e-12, 0.37, 1e6])
def test_no_record_exceeds_the_clip_norm_in_exact_arithmetic(monkeypatch, net, dtype, clip):
    rng, loss = np.random.default_rng(3), SquaredError()
    model = NETS[net].build(5, 1)
    # magnitudes from underflow to overflow in features, targets and parameters
    most = 36 if dtype == np.float32 else 300
    X = rng.normal(size=(300, 5)) * 10.0 ** rng.uniform(-most, most, (300, 1))
    X *= 10.0 ** rng.uniform(-3, 3, (300, 5))
    y = rng.normal(size=300) * 10.0 ** rng.uniform(-most, most, 300)
    params = rng.normal(size=model.size) * 10.0 ** rng.uniform(-12, 6, model.size)
    with np.errstate(over="ignore"):
        X, y, params = (v.astype(dtype) for v in (X, y, params))
    terms = terms_of(monkeypatch, model, params, X, y, loss, clip_norm=clip)
    bound, near = Fraction(clip) ** 2, 0
    for j in range(300):
        norm = exact_norm(model, [(a[j], s[j]) for a, s in terms])
        assert norm <= bound
        near += norm > bound * Fraction(999, 1000)
    assert near > 10  # the bound is met, and not by clipping everything away


def test_features_of_single_precision_in_double_products_do_not_exceed_it_either(monkeypatch):
    """Their norms are rounded to single precision, which is coarser than the slopes'."""
    model, params, X, y = problem("tanh", SquaredError(), 1, n=200, dtype=np.float32)
    norms = model.squared_row_norms(X)
    args = params.astype(float), X.astype(float), y.astype(float), SquaredError()
    terms = terms_of(monkeypatch, model, *args, clip_norm=1e-3, squared_norms=norms)
    worst = max(exact_norm(model, [(a[j], s[j]) for a, s in terms]) for j in range(200))
    assert norms.dtype == np.float32 and worst <= Fraction(1e-3) ** 2


def test_without_its_margin_some_record_exceeds_the_clip_norm(monkeypatch):
    model, params, X, y = problem("tanh", SquaredError(), 1, n=100, dtype=np.float32)
    monkeypatch.setattr(_clipping, "ROUNDINGS", 0)
    terms = terms_of(monkeypatch, model, params, X, y, SquaredError(), clip_norm=0.1)
    norms = [exact_norm(model, [(a[j], s[j]) for a, s in terms]) for j in range(100)]
    assert max(norms) > Fraction(0.1) ** 2


@every_net
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("where", ["X", "y"])
@pytest.mark.parametrize("clip", [0.5, np.inf])
def test_a_record_that_is_not_finite_counts_for_nothing(net, dtype, bad, where, clip):
    loss = SquaredError()
    model, params, X, y = problem(net, loss, 1, dtype=dtype)
    rest = np.arange(13) != 6
    (X if where == "X" else y)[6] = bad
    if np.isfinite(bad) and dtype == np.float64:  # squares do not overflow
        return
    got = model.clipped_gradient_sum(params, X, y, loss, clip_norm=clip)
    X[6] = y[6] = 0
    zero = model.clipped_gradient_sum(
        params, X, y, loss, clip_norm=clip, weights=rest.astype(dtype)
    )
    np.testing.assert_array_equal(got, zero)
    without = model.clipped_gradient_sum(params, X[rest], y[rest], loss, clip_norm=clip)
    np.testing.assert_allclose(got, without, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("net", ["relu", "tempered"])
def test_a_record_of_weight_zero_changes_no_bit(net):
    loss = LogLoss()
    model, params, X, y = problem(net, loss, 3)
    weights = (np.arange(13) != 4).astype(float)
    before = model.clipped_gradient_sum(params, X, y, loss, clip_norm=1.0, weights=weights)
    for value in (1e200, np.nan, -3.0):
        X[4] = value
        after = model.clipped_gradient_sum(params, X, y, loss, clip_norm=1.0, weights=weights)
        np.testing.assert_array_equal(before, after)


# ---- the start, masks and fitted layers ----------------------------------------------------------


@every_net
def test_the_start_follows_from_the_stream_alone(net):
    model = NETS[net].build(50, 3)
    start = [model.init(streams_for(s).stream("init")) for s in (1, 1, 2)]
    np.testing.assert_array_equal(start[0], start[1])
    assert not (start[0] == start[2]).all()
    for w, b in model.split(start[0]):
        assert not b.any()
        assert w.all()
    first = model.split(start[0])[0][0]
    assert 0.7 < np.square(first).mean() * 50 < 1.3
    with pytest.raises(ValueError, match="stream"):
        model.init()


@every_net
def test_masks_mark_weights_and_the_last_layer(net):
    model, params, X, _ = problem(net, LogLoss(), 3)
    intercepts = sum(model.units[1:])
    assert model.penalty_mask().sum() == model.size - intercepts
    scaled = params * np.where(model.output_mask() > 0, 2.5, 1.0)
    np.testing.assert_allclose(model.raw(scaled, X), 2.5 * model.raw(params, X), rtol=1e-12)


@every_net
def test_fitted_layers_predict_in_the_units_of_the_data(net):
    model, params, X, _ = problem(net, SquaredError(), 1)
    scales = Scales(AffineScaling(np.arange(5.0), np.arange(1.0, 6)), AffineTarget(7.0, 3.0))
    fitted = model.fitted_attributes(params, scales, is_classifier=False)
    assert [w.shape for w in fitted["coefs_"]] == list(
        zip(model.units, model.units[1:], strict=False)
    )
    want = scales.target.inverse(model.raw(params, scales.features.transform(X)))
    np.testing.assert_allclose(model.raw_of_fitted(fitted, X), want)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.raw(params, X), model.raw(params, X))
