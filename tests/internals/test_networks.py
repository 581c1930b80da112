"""More of tests/test_networks.py: what only private names show."""

from fractions import Fraction

import numpy as np
import pytest

from skdpfl.losses import Hinge, LogLoss, SquaredError
from skdpfl.models import MLP, _products, public
from tests.test_networks import DTYPES, NETS, problem


@pytest.fixture(params=["compiled", "without", "by output"])
def products(request, monkeypatch):
    if request.param != "compiled":
        monkeypatch.setattr(_products, "compiled", None)
    if request.param == "by output":
        monkeypatch.setattr(_products, "_places_are_alike", lambda d, k, kind: False)


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

    def keep(self, entering, slopes, edges, chunk):
        seen.append([(a.copy(), s.copy()) for a, s in zip(entering, slopes, strict=True)])
        return np.zeros((1, self.size))

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
