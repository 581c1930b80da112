"""Curves by cells: values are looked up as they are searched for, columns made as they are read."""

import pickle
import tracemalloc

import numpy as np
import pytest

from skdpfl import ISRLDPRegressor
from skdpfl.choosing._choose import _all_pairs
from skdpfl.models import Additive
from skdpfl.scaling._curves import N_CELLS, cells_of, edges_of

RANGES = [(-4.0, 4.0), (0.0, 1.0), (20.0, 90.0), (-1e30, 1e30), (1e6, 1e6 + 1), (-1e-30, 1e-30)]


@pytest.mark.parametrize("ends", RANGES)
def test_values_of_either_precision_are_in_the_cells_between_edges(ends):
    """Far away, and gaps; as single precision tells values from edges."""
    low, high = np.array(ends)[:, None]
    edges, rng = edges_of(*ends), np.random.default_rng(0)
    near = low[0] + (high[0] - low[0]) * 10 ** rng.uniform(-5, 0, 500)
    x = np.concatenate([edges, rng.uniform(*ends, 1000), near]).astype(np.float32)
    found = cells_of(x[:, None], low, high)[:, 0].astype(int)
    np.testing.assert_array_equal(cells_of(x[:, None].astype(float), low, high)[:, 0], found)
    assert (edges.size, found.dtype.kind) == (N_CELLS + 1, "i")
    inside = (x >= np.float32(low)) & (x <= np.float32(high))
    slack = 2e-6 * (high - low) + np.spacing(np.abs(x))
    assert (edges[found[inside]] <= x[inside] + slack[inside]).all()
    assert (x[inside] <= edges[found[inside] + 1] + slack[inside]).all()
    assert (np.diff(found[inside][np.argsort(x[inside], kind="stable")]) >= 0).all()
    wild = np.array([np.nan, np.inf, 3e38, -np.inf, -3e38])[:, None]
    beyond = [N_CELLS + 1] * 3 + [N_CELLS] * 2
    assert cells_of(wild, low, high).ravel().tolist() == beyond


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1e308, 1e308), (0.0, 1e-310), (0.0, 5e-324)])
def test_no_value_gives_a_warning(ends):
    """Neither those beyond single precision, nor bounds whose width is."""
    x = np.array([1e300, -1e300, 5e-324, 0.0, np.nan])[:, None]
    found = cells_of(x, *np.array(ends)[:, None]).ravel()
    assert found.max() <= N_CELLS + 1 and found[-1] == N_CELLS + 1


def test_whole_numbers_on_even_edges_are_to_their_right():
    for high in (2, 4, 7, 28, 41, 64):
        x, ends = np.arange(1, high), (np.zeros(1), np.full(1, float(high)))
        below, at = (cells_of(x[:, None] + by, *ends) for by in (-1e-3, 0.0))
        assert ((at > below)[:, 0] | (x * 64 % high > 0)).all()


def fitted(model, d=3, n=6000, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).clip(-4, 4)
    X[:, 0] = np.rint(X[:, 0])
    y = np.abs(X[:, 1]) + 0.1 * rng.standard_normal(n)
    model.set_params(random_state=0, trust="server", feature_bounds=(-4, 4), **options)
    return model.fit(X, y if isinstance(model, ISRLDPRegressor) else y > 0.7), X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_columns_are_those_of_the_blocks(dtype):
    """Each curve's centred columns times its block; known cells change no bit; rows are alone."""
    model = ISRLDPRegressor(8.0, model=Additive(interactions=True), target_bounds=(-1, 5))
    model, X = fitted(model)
    scaling, X = model.scaling_, X.astype(dtype)
    found, columns = scaling.transform(X), scaling.within(X)
    assert found.dtype == columns.dtype == dtype
    want = columns.copy()
    for number, block in enumerate(scaling.blocks):
        places = scaling.curves.places(number)
        want[:, places] = columns[:, places].astype(float) @ block
    np.testing.assert_allclose(found, want, atol=100 * np.finfo(dtype).eps)
    table = scaling.expanded(X)
    assert table.cells.nbytes == X.size
    again = scaling.expanded(X[::-1], table.cells[::-1])
    np.testing.assert_array_equal(again.dense(), found[::-1])
    np.testing.assert_array_equal(scaling.transform(X[5:6]), found[5:6])
    gap = X[:1] * np.nan
    assert np.isnan(scaling.transform(gap)).all()
    again = pickle.loads(pickle.dumps(scaling))
    assert not [name for name in [*vars(again), *vars(again.curves)] if name.startswith("_")]
    np.testing.assert_array_equal(again.transform(X), found)


@pytest.mark.parametrize("step", [1.0, 0.0])
def test_columns_of_whole_numbers_are_centred_and_scaled_by_their_counts(step):
    """Few values, at the lower ends of their cells: ranks were off by up to 1.85 deviations."""
    rng, n = np.random.default_rng(0), 6000
    X = rng.exponential(3.0, (n, 1)).clip(0, 32)
    X = np.floor(X / step) * step if step else X
    given = {"feature_bounds": (0, 32), "target_bounds": (-3, 3), "trust": "server"}
    model = ISRLDPRegressor(20.0, model="additive", random_state=0, n_rounds=2, **given)
    found = model.fit(X, rng.normal(size=n).clip(-3, 3)).scaling_.transform(X)
    assert found.shape == (n, 6)
    assert np.abs(found.mean(axis=0)).max() < 0.1  # half a cell is .08 deviations
    value, *others = np.square(found).mean(axis=0)
    assert value == pytest.approx(1, abs=0.2)
    assert sum(others) == pytest.approx(1, abs=0.1)


def test_pairs_of_two_of_many_indicators_are_never_made():
    indicators = np.arange(5000) > 2
    tracemalloc.start()
    pairs = _all_pairs(np.arange(5000), indicators)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first, second = pairs.T
    assert len(pairs) == 3 + 3 * 4997 and (first < second).all() and not indicators[first].any()
    assert peak < 1e7  # all pairs take 200 MB
