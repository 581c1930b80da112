"""Curves by cells: values are looked up as they are searched for, columns made as they are read."""

import pickle
import tracemalloc

import numpy as np
import pytest

from skdpfl import ISRLDPRegressor
from skdpfl.choosing._curves import _all_pairs
from skdpfl.models import Additive
from skdpfl.scaling._curves import Cells, cells

RANGES = [(-4.0, 4.0), (0.0, 1.0), (20.0, 90.0), (-1e30, 1e30), (1e6, 1e6 + 1), (-1e-30, 1e-30)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ends", RANGES)
def test_values_are_in_the_cells_that_are_searched_for(ends, dtype):
    """Of 9,000, which are looked up, and of 90; on edges and beside them, far away, and gaps."""
    inner = cells(*ends)
    single, rng = inner.astype(np.float32), np.random.default_rng(0)
    near = [np.nextafter(single, side) for side in np.float32([-np.inf, np.inf])]
    wild = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0, *ends]
    x = np.concatenate([*near, single, wild, rng.uniform(-1, 1, 8000), rng.uniform(*ends, 200)])
    x = np.resize(x, 9000).astype(dtype)
    want = np.searchsorted(single, x.astype(np.float32), side="right")
    found = Cells((inner,))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found.of(x[:, None])[:, 0], want)
    each = [found.of(part[:, None])[:, 0] for part in np.split(x, 100)]
    np.testing.assert_array_equal(np.concatenate(each), want)


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


def test_pairs_of_two_of_many_indicators_are_never_made():
    indicators = np.arange(5000) > 2
    tracemalloc.start()
    pairs = _all_pairs(np.arange(5000), indicators)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first, second = pairs.T
    assert len(pairs) == 3 + 3 * 4997 and (first < second).all() and not indicators[first].any()
    assert peak < 1e7  # all pairs take 200 MB
