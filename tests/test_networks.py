"""Networks: clipped sums by layer norms are those of single records, in any stack and dtype."""

import numpy as np
import pytest

from skdpfl.losses import AbsoluteError, Hinge, LogLoss, SquaredError
from skdpfl.models import MLP, Records, TemperedSigmoid
from skdpfl.privacy.randomness.streams import streams_for

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


# ---- a record's part does not depend on how many others were drawn -------------------------------


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


def test_a_network_that_is_larger_than_any_memory_is_refused():
    with pytest.raises(ValueError, match="more than 1e15 parameters"):
        MLP((10**16,)).build(2, 1)
