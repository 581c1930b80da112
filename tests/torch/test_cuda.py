"""Sums on a GPU, where there is one: a record's part is bounded, and the same in any company."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skdpfl.losses import AbsoluteError, LogLoss  # noqa: E402
from skdpfl.models import Records  # noqa: E402
from skdpfl.torch import TorchModel  # noqa: E402
from tests.torch.test_sums import LOSSES, MODULES, NOT_ON_DEVICES, D, problem  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]
CLIP = 0.5
on_all = pytest.mark.parametrize("name", sorted({*MODULES} - NOT_ON_DEVICES))
in_both = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def both(name, loss, k, n, dtype):
    """Return a problem, and its model on a GPU."""
    model, params, X, y = problem(name, loss, k, n=n, dtype=dtype)
    there = TorchModel(MODULES[name], device="cuda").build(D, k)
    return model, there, params, X, y


@on_all
@in_both
@pytest.mark.parametrize(("loss", "k"), [*LOSSES, (AbsoluteError(), 1)], ids=str)
def test_sums_are_those_of_the_cpu(name, dtype, loss, k):
    here, there, params, X, y = both(name, loss, k, 40, dtype)
    rows = np.arange(0, 40, 3)
    records, norms = Records(X, rows, np.array([0, 9, len(rows)])), here.squared_row_norms(X)[rows]
    sums = [
        model.clipped_gradient_sums(
            params, records, y[rows], loss, clip_norm=CLIP, squared_norms=norms, chunk=8
        )
        for model in (here, there)
    ]
    digits = {np.float32: 1e-4, np.float64: 1e-9}[dtype]
    np.testing.assert_allclose(sums[1], sums[0], atol=digits)
    assert there._blocks_of(np.dtype(dtype)).sizes[0] == 1024


@on_all
@in_both
def test_a_record_moves_a_sum_by_no_more_than_is_priced(name, dtype):
    """It is replaced, by itself in other units, too; alone and with others it has the same bits."""
    n = 300
    _, model, params, X, y = both(name, LogLoss(), 4, n, dtype)
    given = {"clip_norm": CLIP, "chunk": 256}
    before = model.clipped_gradient_sum(params, X, y, LogLoss(), **given)
    for factor in (-1.0, 1e-3, 1e4):
        other = X.copy()
        other[0] *= factor
        after = model.clipped_gradient_sum(params, other, y, LogLoss(), **given)
        rounding = n * CLIP * np.finfo(dtype).eps
        assert np.linalg.norm(after - before) <= 2 * CLIP * (1 + 1e-6) + rounding
    alone = model.clipped_gradient_sum(params, X[:1], y[:1], LogLoss(), **given)
    assert 0.1 < np.linalg.norm(alone.astype(float)) <= CLIP * (1 + 1e-6)
    own = np.zeros(n, dtype)
    for at in range(0, n, 7):
        X[[0, at]], y[[0, at]] = X[[at, 0]], y[[at, 0]]
        own[at] = 1
        got = model.clipped_gradient_sum(params, X, y, LogLoss(), weights=own, **given)
        np.testing.assert_array_equal(got, alone)
        X[[0, at]], y[[0, at]], own[at] = X[[at, 0]], y[[at, 0]], 0
