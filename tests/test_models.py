"""The linear model: sums of clipped gradients, and the guarantee that they carry."""

from fractions import Fraction
from math import fsum, inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl import losses
from skdpfl.models import LinearModel, Records
from skdpfl.privacy.release import relative_error

DTYPES = [np.float32, np.float64]
LOSS_CASES = [
    *(
        (cls(), k)
        for cls in losses.LOSSES
        for k in ((1, 3) if cls.is_classifier else (1,))
        if not cls.one_slope
    ),
    (losses.LogLoss(label_free=True), 1),
    (losses.Hinge(smoothing=2.0), 1),
    (losses.Hinge(smoothing=2.0), 4),
    (losses.AbsoluteError(smoothing=2.0), 1),
    (losses.Quantile(q=0.2, smoothing=2.0), 1),
]
#: leading axes of params and of X; they broadcast
SHAPES = [((), ()), ((), (3,)), ((3,), (3,)), ((3,), ()), ((2, 1), (2, 3))]
every_loss = pytest.mark.parametrize(("loss", "k"), LOSS_CASES, ids=str)


def problem(loss, k, n=17, d=5, params=(), data=(), dtype=np.float64, intercept=True, seed=0):
    rng = np.random.default_rng(seed)
    model = LinearModel(d, k, intercept)
    X = rng.standard_normal((*data, n, d)).astype(dtype)
    if loss.is_classifier:
        y = rng.integers(0, max(k, 2), (*data, n))
    else:
        y = (2 * rng.standard_normal((*data, n))).astype(dtype)
    return model, rng.standard_normal((*params, model.size)).astype(dtype), X, y


def one_by_one(model, w, X, y, loss, clip, weights):
    """The sum for one silo as one would write it: an outer product a record, float64."""
    total = np.zeros(model.size)
    W = w.astype(float).reshape(-1, model.n_outputs)
    for x, target, weight in zip(X.astype(float), y, weights, strict=True):
        a = np.append(x, 1.0) if model.fit_intercept else x
        slope = loss.gradient(np.array([target]), (a @ W)[None], squared_norms=np.array([a @ a]))[0]
        gradient = np.outer(a, slope).ravel()
        largest = loss.largest_slope(np.array([target]), slope[None])
        norm = np.linalg.norm(gradient) if largest is None else largest[0] * np.linalg.norm(a)
        total += weight * gradient * min(1, clip / max(norm, 1e-300))
    return total


# -- what it computes


@every_loss
@pytest.mark.parametrize("clip", [0.7, inf])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_equals_one_gradient_at_a_time(loss, k, clip, intercept, dtype):
    model, w, X, y = problem(loss, k, dtype=dtype, intercept=intercept)
    got = model.clipped_gradient_sum(w, X, y, loss, clip_norm=clip)
    assert got.dtype == dtype
    want = one_by_one(model, w, X, y, loss, clip, np.ones(len(y)))
    tolerance = 2e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("params", "data"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("loss", "k"), [(losses.SquaredError(), 1), (losses.LogLoss(), 4)])
def test_leading_axes_clip_norms_and_weights_broadcast(loss, k, params, data, dtype):
    model, w, X, y = problem(loss, k, params=params, data=data, dtype=dtype)
    shape = np.broadcast_shapes(params, data)
    rng = np.random.default_rng(1)
    clip = rng.uniform(0.2, 2.0, shape)
    weights = rng.integers(0, 3, (*data, 17)).astype(dtype)
    got = model.clipped_gradient_sum(w, X, y, loss, clip_norm=clip, weights=weights)
    assert got.shape == (*shape, model.size)
    assert got.dtype == dtype
    ws, Xs = (np.broadcast_to(v, (*shape, *v.shape[-i:])) for v, i in ((w, 1), (X, 2)))
    ys, weights = (np.broadcast_to(v, (*shape, 17)) for v in (y, weights))
    for i in np.ndindex(*shape):
        want = one_by_one(model, ws[i], Xs[i], ys[i], loss, clip[i], weights[i])
        tolerance = 2e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got[i], want, rtol=tolerance, atol=10 * tolerance)


@every_loss
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_stack_of_silos_gives_each_silos_bits(loss, k, dtype):
    """So that neither the number of jobs nor the stacking changes a model."""
    model, w, X, y = problem(loss, k, n=31, params=(6,), data=(6,), dtype=dtype)
    norms = model.squared_row_norms(X)
    clip = np.linspace(0.3, 3, 6)
    stack = model.clipped_gradient_sum(w, X, y, loss, clip_norm=clip, squared_norms=norms)
    for i in range(6):
        alone = model.clipped_gradient_sum(
            w[i], X[i], y[i], loss, clip_norm=float(clip[i]), squared_norms=norms[i]
        )
        np.testing.assert_array_equal(stack[i], alone)


@every_loss
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [None, "slope", "row"])
def test_limits_computed_before_change_no_bit(loss, k, dtype, bad):
    model, w, X, y = problem(loss, k, params=(4,), data=(4,), dtype=dtype)
    w[1] = np.nan if bad == "slope" else w[1]
    X[2, 3, 0] = np.nan if bad == "row" else X[2, 3, 0]
    norms, clip = model.squared_row_norms(X), np.array([0.3, 0.5, 1.0, inf])
    limits = model.clip_limits(norms, clip)
    assert (limits is None) == (bad == "row")
    kept = None if limits is None else limits.copy()
    common = {"clip_norm": clip, "squared_norms": norms}
    want = model.clipped_gradient_sum(w, X, y, loss, **common)
    records = Records.in_turn(X.reshape(-1, X.shape[-1]), [X.shape[1]] * 4)
    common["squared_norms"] = norms.ravel()
    before = None if limits is None else limits.ravel()
    for _ in range(2):
        got = model.clipped_gradient_sums(w, records, y.ravel(), loss, limits=before, **common)
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(limits, kept)


# -- the guarantee: one record moves the sum by at most clip_norm, whatever it is


def exact_norm(vector):
    """Euclidean norm without overflow or underflow; vectors are short."""
    vector = np.abs(np.asarray(vector, dtype=np.float64))
    largest = vector.max()
    return largest if largest in (0, inf) else largest * sqrt(np.sum((vector / largest) ** 2))


WILD = st.one_of(
    st.sampled_from([0.0, 1.0, 1e9, -1e9, 1e30, 1e-30, 1e-170, 1e-320, 1e300, -1e300])
    | st.sampled_from([np.nan, inf, -inf, 3e38, 1.2e-38, 1.7e308]),
    st.floats(allow_nan=True, allow_infinity=True),
)


@st.composite
def wild_records(draw):
    loss, k = draw(st.sampled_from(LOSS_CASES))
    dtype = draw(st.sampled_from(DTYPES))
    d = draw(st.integers(1, 4))
    model = LinearModel(d, k, draw(st.booleans()))
    with np.errstate(over="ignore"):
        x = np.array([draw(WILD) for _ in range(d)]).astype(dtype)
        w = np.array([draw(WILD) for _ in range(model.size)]).astype(dtype)
        y = draw(st.integers(0, max(k, 2) - 1)) if loss.is_classifier else dtype(draw(WILD))
    clip = draw(st.sampled_from([1e-6, 0.1, 1.0, 3.7, 1e6]))
    return model, loss, x, y, w, clip


@settings(max_examples=500, derandomize=True)
@given(wild_records())
def test_one_record_contributes_at_most_the_clip_norm(case):
    model, loss, x, y, w, clip = case
    part = model.clipped_gradient_sum(w, x[None], np.array([y]), loss, clip_norm=clip)
    assert np.isfinite(part).all()
    assert exact_norm(part) <= clip  # not even by a rounding error
    if not (np.isfinite(x).all() and np.isfinite(y)):
        assert not part.any()


@settings(max_examples=200, derandomize=True)
@given(wild_records(), st.integers(0, 7))
def test_one_record_leaves_the_others_alone(case, seed):
    model, loss, x, y, w, clip = case
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        w = np.clip(np.nan_to_num(w), -10, 10)
    X = rng.standard_normal((6, model.n_features)).astype(w.dtype)
    if loss.is_classifier:
        targets = rng.integers(0, max(model.n_outputs, 2), 6)
    else:
        targets = rng.standard_normal(6).astype(w.dtype)
    X[2], targets[2] = x, y
    others = np.arange(6) != 2
    whole = model.clipped_gradient_sum(w, X, targets, loss, clip_norm=clip)
    rest = model.clipped_gradient_sum(w, X[others], targets[others], loss, clip_norm=clip)
    masked = model.clipped_gradient_sum(
        w, X, targets, loss, clip_norm=clip, weights=others.astype(w.dtype)
    )
    # a shorter batch may round its records elsewhere
    loose = clip * (1e-4 if w.dtype == np.float32 else 1e-9)
    np.testing.assert_allclose(masked, rest, rtol=0, atol=loose)
    assert exact_norm(whole - masked) <= clip * (1 + 2 * 6 * relative_error((6, w.dtype)))
    if not (np.isfinite(x).all() and np.isfinite(y)):
        np.testing.assert_array_equal(whole, masked)


@pytest.mark.parametrize("weights", [None, (1.0, 0.2)], ids=["plain", "weighted"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_clipping_without_labels_balances_where_probabilities_are_true(products, weights, dtype):
    """Record by record: the mean over its labels is 0, which that of other clipping is not."""
    rng, n, clip = np.random.default_rng(0), 60, 0.4
    model, X = LinearModel(4, 1), 3 * rng.normal(size=(n, 4)).astype(dtype)
    params, each = rng.normal(size=5).astype(dtype), Records.in_turn(X, [1] * n)
    odds = np.exp(model.raw(params, X)[:, 0]) * np.divide(*weights or (1, 1))
    for loss in (losses.LogLoss(label_free=True), losses.LogLoss()):
        parts = []
        for label in (0, 1):
            y, own = np.full(n, label), loss
            if weights is not None:
                y = losses.with_weights(y, np.full(n, weights[label]))
                own = losses.loss_for(loss, y)
            norms = model.squared_row_norms(X)
            given = {"clip_norm": clip, "squared_norms": norms}
            parts.append(model.clipped_gradient_sums(params, each, y, own, **given))
        assert max(np.linalg.norm(part, axis=1).max() for part in parts) <= clip
        mean = np.abs(parts[0] + odds[:, None] * parts[1]).max(axis=1) / (1 + odds)
        assert (mean.max() < 1e-6) == loss.label_free
    assert loss.without_labels() == losses.LogLoss(label_free=True)


@every_loss
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, inf, -inf])
def test_a_bad_record_counts_as_zero_in_its_silo_and_elsewhere(loss, k, dtype, bad):
    model, w, X, y = problem(loss, k, params=(4,), data=(4,), dtype=dtype)
    args = {"clip_norm": 0.5, "weights": np.full((4, 17), 2, dtype)}
    weights = args["weights"].copy()
    weights[1, 3] = 0
    want = model.clipped_gradient_sum(w, X, y, loss, clip_norm=0.5, weights=weights)
    spoilt = X.copy()
    spoilt[1, 3, 0] = bad
    got = model.clipped_gradient_sum(w, spoilt, y, loss, **args)
    np.testing.assert_array_equal(got, want)
    norms = model.squared_row_norms(spoilt)
    assert np.flatnonzero(~np.isfinite(norms)).tolist() == [20]
    got = model.clipped_gradient_sum(w, spoilt, y, loss, squared_norms=norms, **args)
    np.testing.assert_array_equal(got, want)
    if y.dtype.kind == "f":
        y = y.copy()
        y[1, 3] = bad
        np.testing.assert_array_equal(model.clipped_gradient_sum(w, X, y, loss, **args), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "layout",
    [
        lambda X: X,
        lambda X: X[..., ::-1, :],
        lambda X: np.repeat(X, 2, axis=-1)[..., ::2],
        lambda X: np.ascontiguousarray(X.swapaxes(-1, -2)).swapaxes(-1, -2),
    ],
    ids=["rows", "backwards", "every other column", "columns"],
)
def test_a_record_of_weight_zero_moves_no_bit(layout, dtype):
    """Records that a step did not draw; sampling is priced as if they were not there."""
    loss, rng = losses.LogLoss(), np.random.default_rng(0)
    X = rng.normal(size=(4, 100, 6)).astype(dtype)
    y, weights = rng.integers(0, 2, size=(4, 100)), rng.integers(0, 2, size=(4, 100)).astype(dtype)
    weights[0, [0, -1]] = 0  # its place, read either way
    model = LinearModel(6, 1)
    w = rng.normal(size=model.size).astype(dtype)
    want = model.clipped_gradient_sum(w, layout(X), y, loss, clip_norm=0.5, weights=weights)
    X[0, 0] = np.finfo(dtype).max  # finite, so that no check of the data refuses it
    got = model.clipped_gradient_sum(w, layout(X), y, loss, clip_norm=0.5, weights=weights)
    np.testing.assert_array_equal(got, want)


def group_of(loss, k, lengths, dtype):
    """Several silos' arguments of ``clipped_gradient_sums``, each a list with one item a silo."""
    model, w, X, y = problem(loss, k, n=max(lengths), params=(5,), data=(5,), dtype=dtype)
    X = [x[:n] for x, n in zip(X, lengths, strict=True)]
    y = [t[:n] for t, n in zip(y, lengths, strict=True)]
    clips = np.linspace(0.3, 3, 5)
    return model, (w, X, y, clips, [model.squared_row_norms(x) for x in X])


def sums_of(model, loss, group, some=slice(None), **kw):
    w, X, y, clips, norms = (part[some] for part in group)
    return model.clipped_gradient_sums(
        w,
        Records.in_turn(np.concatenate(list(X)), map(len, X)),
        np.concatenate(y),
        loss,
        clip_norm=clips,
        squared_norms=np.concatenate(norms),
        **kw,
    )


@every_loss
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(7, 0, 1, 31, 2), (1, 0, 0, 1, 1), (9, 9, 9, 9, 9)], ids=str)
@pytest.mark.parametrize("chunk", [None, 4])
def test_a_group_of_silos_gives_each_silos_bits(products, loss, k, dtype, lengths, chunk):
    """However silos are grouped; and the sums are those of ``clipped_gradient_sum``."""
    model, group = group_of(loss, k, lengths, dtype)
    together = sums_of(model, loss, group, chunk=chunk)
    for i in range(5):
        alone = sums_of(model, loss, group, slice(i, i + 1), chunk=chunk)
        np.testing.assert_array_equal(alone[0], together[i])
        w, x, y, clip, norms = (part[i] for part in group)
        want = model.clipped_gradient_sum(w, x, y, loss, clip_norm=clip, squared_norms=norms)
        tolerance = 1e-4 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(alone[0], want, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(sums_of(model, loss, group, slice(2), chunk=chunk), together[:2])
    if len(set(lengths)) == 1:
        w, X, *rest = group
        as_array = sums_of(model, loss, (w, np.array(X), *rest), chunk=chunk)
        np.testing.assert_array_equal(as_array, together)


@every_loss
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_records_part_is_its_own_to_the_last_bit(products, loss, k, dtype):
    """It depends neither on its place nor on how many records are computed with it."""
    model, w, X, y = problem(loss, k, n=40, d=37, dtype=dtype)
    rng = np.random.default_rng(1)

    def part(rows, at):
        chosen = (np.arange(len(rows)) == at).astype(dtype)
        return model.clipped_gradient_sum(w, X[rows], y[rows], loss, clip_norm=0.3, weights=chosen)

    own = next(j for j in range(40) if part(np.array([j]), 0).any())
    alone = part(np.array([own]), 0)
    for n in (2, 3, 4, 8, 13, 40):
        others, at = rng.permutation(np.delete(np.arange(40), own))[: n - 1], int(rng.integers(n))
        np.testing.assert_array_equal(part(np.insert(others, at, own), at), alone)


@pytest.mark.parametrize("d", [7, 100])
@pytest.mark.parametrize("group", [True, False])
def test_one_more_record_changes_a_sum_by_the_clip_norm_even_where_residuals_change_sign(
    products, group, d
):
    """Long records whose residuals are zero to the last bit: any other bit costs a gradient."""
    rng = np.random.default_rng(0)
    model, loss = LinearModel(d, 1), losses.SquaredError()
    X = (1e5 * rng.standard_normal((40, d))).astype(np.float32)
    params = rng.standard_normal(model.size).astype(np.float32)
    norms = model.squared_row_norms(X)
    # as a library says that they are, for all at once and the other way round
    for y in (X @ params[:-1] + params[-1], model.raw(params, X[::-1])[::-1, 0]):

        def total(n, y=y):
            given = {"clip_norm": 1.0, "squared_norms": norms[:n]}
            if group:
                records = Records.of_silos(X, [slice(0, n)])
                return model.clipped_gradient_sums(params, records, y[:n], loss, **given)[0]
            return model.clipped_gradient_sum(params, X[:n], y[:n], loss, **given)

        sums = [total(n) for n in range(1, 41)]
        assert np.linalg.norm(np.diff(sums, axis=0), axis=1).max() < 1.001


@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 8), (3, 1), (22, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "layout",
    [np.ascontiguousarray, np.asfortranarray, lambda X: np.repeat(X, 2, axis=0)[::2]],
    ids=["rows", "columns", "every other row"],
)
def test_no_bit_tells_of_other_silos_of_the_group(products, d, k, dtype, layout):
    """In shapes where BLAS adds up part of a matrix otherwise than a copy of it."""
    rng = np.random.default_rng(3)
    lengths, model, loss = (8, 14, 3, 2, 6), LinearModel(d, k), losses.LogLoss()
    edges = np.cumsum([0, *lengths])
    X = rng.standard_normal((50, d)).astype(dtype)
    y, params = rng.integers(0, max(k, 2), 50), rng.standard_normal((5, model.size)).astype(dtype)

    def sums(table, some):
        rows = [slice(*edges[i : i + 2]) for i in some]
        index = np.concatenate([np.arange(50)[r] for r in rows])
        norms = model.squared_row_norms(table)[index]
        records = Records.of_silos(table, rows)
        return model.clipped_gradient_sums(
            params[some], records, y[index], loss, clip_norm=1.0, squared_norms=norms
        )

    together = sums(layout(X), [0, 1, 2, 3, 4])
    wild = X.copy()
    wild[edges[1]] = np.nan
    with_wild = sums(layout(wild), [0, 1, 2, 3, 4])
    for i in (0, 2, 3, 4):
        np.testing.assert_array_equal(sums(layout(X), [i])[0], together[i])
        np.testing.assert_array_equal(with_wild[i], together[i])


@every_loss
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, inf])
def test_a_bad_record_counts_as_zero_in_its_group(products, loss, k, dtype, bad):
    model, group = group_of(loss, k, (7, 3, 1, 31, 2), dtype)
    w, X, y, clips, norms = group
    without = [np.delete(v[3], 5, axis=0) for v in (X, y, norms)]
    rest = [[*v[:3], one, v[4]] for v, one in zip((X, y, norms), without, strict=True)]
    want = sums_of(model, loss, (w, rest[0], rest[1], clips, rest[2]))
    X[3] = X[3].copy()
    X[3][5, 0] = bad
    norms[3] = model.squared_row_norms(X[3])
    got = sums_of(model, loss, group)
    np.testing.assert_array_equal(np.delete(got, 3, axis=0), np.delete(want, 3, axis=0))
    np.testing.assert_allclose(got[3], want[3], rtol=1e-4, atol=1e-4)
    if y[0].dtype.kind == "f":
        X[3] = np.nan_to_num(X[3], nan=1.0, posinf=1.0)
        norms[3] = model.squared_row_norms(X[3])
        y[3] = np.where(np.arange(31) == 5, bad, y[3])
        np.testing.assert_array_equal(sums_of(model, loss, group), got)


@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_features_are_clipped_not_lost(dtype):
    """A record of norm 1e15 counts as much as the clip norm allows, in its own direction."""
    for loss, k in (losses.SquaredError(), 1), (losses.LogLoss(), 4):
        model, w, X, y = problem(loss, k, dtype=dtype)
        X[3] *= dtype(1e15)
        w[...] = 0  # no prediction is extreme
        alone, rest, whole = (
            model.clipped_gradient_sum(w, X[rows], y[rows], loss, clip_norm=1.0)
            for rows in ([3], np.delete(np.arange(17), 3), np.arange(17))
        )
        assert 0.999 < exact_norm(alone) <= 1
        np.testing.assert_allclose(whole - rest, alone, rtol=0, atol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_underflow_does_not_hide_a_record(dtype):
    """|x|^2 is 0 in floating point, |x| |slope| is not small."""
    tiny = dtype(1e-25 if dtype == np.float32 else 1e-180)
    huge = dtype(1e38 if dtype == np.float32 else 1e300)
    model = LinearModel(2, 1, fit_intercept=False)
    X, y = np.array([[tiny, -tiny]], dtype), np.array([huge], dtype)
    part = model.clipped_gradient_sum(
        model.init(dtype=dtype), X, y, losses.SquaredError(), clip_norm=1.0
    )
    assert exact_norm(part) <= 1
    raw = model.gradient_sum(model.init(dtype=dtype), X, y, losses.SquaredError())
    assert exact_norm(raw) > 1e10


@every_loss
@pytest.mark.parametrize("value", [np.nan, inf])
def test_a_silo_whose_parameters_diverged_sends_zero(loss, k, value):
    model, w, X, y = problem(loss, k, params=(2,), data=(2,))
    want = model.clipped_gradient_sum(w, X, y, loss, clip_norm=1.0)
    w[0] = value
    got = model.clipped_gradient_sum(w, X, y, loss, clip_norm=1.0)
    np.testing.assert_array_equal(got[1], want[1])
    if np.isnan(value):
        assert not got[0].any()
    assert np.isfinite(got).all()


@every_loss
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_clipped_record_reaches_the_clip_norm(loss, k, dtype):
    """The allowance for rounding must not cost utility."""
    model, w, X, y = problem(loss, k, dtype=dtype)
    if getattr(loss, "label_free", False):  # the label with the larger slope is clipped to C
        y = (model.raw(w, X)[:, 0] < 0).astype(y.dtype)
    sizes = []
    for j in range(17):
        full = exact_norm(model.gradient_sum(w, X[j : j + 1], y[j : j + 1], loss))
        part = model.clipped_gradient_sum(w, X[j : j + 1], y[j : j + 1], loss, clip_norm=full / 2)
        sizes.append(exact_norm(part) / (full / 2) if full else 1)
    assert min(sizes) > 1 - 100 * np.finfo(dtype).eps
    assert max(sizes) <= 1


@pytest.mark.parametrize("n", [3, 50, 400])
@pytest.mark.parametrize("dtype", DTYPES)
def test_adding_up_errs_no_more_than_documented(n, dtype):
    rng = np.random.default_rng(0)
    model = LinearModel(6, 1, fit_intercept=False)
    X = rng.standard_normal((n, 6)).astype(dtype)
    X[: n // 2] *= -1000  # large sums that cancel
    y = np.ones(n, dtype)
    got = model.gradient_sum(model.init(dtype=dtype), X, y, losses.SquaredError())
    exact = [-fsum(column) for column in X.astype(float).T]
    clip = np.linalg.norm(X.astype(float), axis=1).max()
    error = np.linalg.norm(got - exact) / clip
    assert 0 < error <= n * relative_error((n, dtype)) < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows_are_clipped_without_a_rounding_error(dtype):
    """Rows of one large and many small numbers, whose squares a running sum loses."""
    d, clip = 4000, 1.0
    x = np.full(d, sqrt(0.45 * np.finfo(dtype).eps), dtype)
    x[0] = 1
    model = LinearModel(d, 1)
    exact = sum(Fraction(float(v)) ** 2 for v in x) + 1
    got = model.squared_row_norms(x[None])[0]
    assert Fraction(float(got)) >= exact * (1 - Fraction(1, 2**24) * (dtype == np.float32))
    w = np.zeros(model.size, dtype)
    part = model.clipped_gradient_sum(
        w, x[None], dtype([-100]), losses.SquaredError(), clip_norm=clip
    )
    size = sum(Fraction(float(v)) ** 2 for v in part)
    assert 0.999 < size <= Fraction(clip) ** 2


# -- parameters


def test_squared_row_norms_count_the_intercept():
    X = np.array([[3.0, 4.0], [0.0, 0.0], [np.nan, 1.0], [-inf, 1.0], [1e200, 0.0]])
    double = LinearModel(2, 3).squared_row_norms(X)
    np.testing.assert_allclose(double, [26, 1, np.nan, inf, inf], rtol=1e-14)
    assert double[0] > 26  # by the bound of its rounding
    without = LinearModel(2, 3, fit_intercept=False).squared_row_norms(X)
    np.testing.assert_allclose(without[0], 25, rtol=1e-14)
    assert 0 < without[1] < 1e-300
    single = LinearModel(2, 3).squared_row_norms(X[:4].astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, np.float32([26, 1, np.nan, inf]))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_pack_and_unpack_are_inverse_and_mean_what_scikit_learn_means(intercept, k, shape):
    model = LinearModel(4, k, intercept)
    assert model.size == (4 + intercept) * k
    rng = np.random.default_rng(0)
    w, X = rng.standard_normal((*shape, model.size)), rng.standard_normal((*shape, 7, 4))
    coef, bias = model.unpack(w)
    assert coef.shape == (*shape, k, 4)
    assert bias.shape == (*shape, k)
    raw = X @ np.swapaxes(coef, -1, -2) + bias[..., None, :]
    np.testing.assert_allclose(model.raw(w, X), raw, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(model.pack(coef, bias), w)
    coef[...] = bias[...] = 9
    assert not np.any(w == 9)
    zero = model.pack(coef)
    assert zero.size == w.size
    assert intercept == (np.count_nonzero(zero) < zero.size)
