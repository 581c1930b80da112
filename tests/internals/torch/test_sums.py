"""More of tests/torch/test_sums.py: what only private names show."""

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("torch")

from skdpfl.losses import AbsoluteError
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.torch import TorchModel
from skdpfl.torch._blocks import SIZES, cut
from skdpfl.torch._tape import Stacked
from tests.torch.test_sums import ALL, D, Placed, problem, torch

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


@pytest.mark.parametrize("name", ["linear", "mlp", "conv", "norms", "sequence"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_record_is_clipped_for_the_numbers_as_stored(name, dtype, scale, monkeypatch):
    """The exact norm of what is added up, all layers jointly, by fractions."""
    from skdpfl.torch import _device

    model, params, X, y = problem(name, AbsoluteError(), 1, n=8, dtype=dtype)  # a block
    X = (X * scale).astype(dtype)
    seen = []
    original = _device.factors_of

    def watch(parts, clip_norm, finite):
        factors, good = original(parts, clip_norm, finite)
        seen.append((parts, factors))
        return factors, good

    monkeypatch.setattr(_device, "factors_of", watch)
    clip = 0.1
    model.clipped_gradient_sum(params, X, y, AbsoluteError(), clip_norm=clip)
    ((parts, factors),) = seen
    largest = 0
    for j in range(3):
        total = Fraction(0)
        for part in parts:
            if part.left is None:
                rows = [Fraction(v) * Fraction(float(factors[j])) for v in part.right[j].tolist()]
                total += sum(v * v for v in rows)
                continue
            s = (part.right[j].numpy() * factors[j]).tolist()
            a = [*part.left[j].tolist(), *[1.0] * (len(part.names) == 2)]
            total += sum(Fraction(v) ** 2 for v in s) * sum(Fraction(v) ** 2 for v in a)
        largest = max(largest, total)
        assert total <= Fraction(clip) ** 2
    if scale == 1:
        assert largest > Fraction(0.99 * clip) ** 2


def test_a_sum_with_a_factor_ends_within_no_block():
    """It is rounded once or twice, as the compiler had it."""
    from skdpfl.torch._products import SeenOperations

    x = torch.ones(8, 3)
    for alpha, expected in ((1, False), (0.3, True)):
        with SeenOperations() as seen:
            torch.add(x, x, alpha=alpha)
        assert seen.has_ends(8) is expected
        assert not seen.has_ends(7)


def test_where_places_differ_records_are_computed_one_by_one(monkeypatch):
    models = {name: TorchModel(ALL[name]).build(D, 4) for name in ("mlp", "conv", "attention")}
    sizes = {model._blocks_of(np.dtype(np.float64)).sizes for model in models.values()}
    assert sizes == {SIZES}
    forward = Stacked.forward

    def placed(self, params, X):
        return forward(self, params, X) * (1 + 1e-13 * torch.arange(len(X)).to(X)[:, None])

    monkeypatch.setattr(Stacked, "forward", placed)
    model = TorchModel(ALL["mlp"]).build(D, 4)
    assert model._blocks_of(np.dtype(np.float64)).sizes == (1,)


def test_a_module_does_not_know_a_records_place():
    model = TorchModel(Placed).build(D, 4)
    params, x = model.init(streams_for(0).stream("init")), np.ones((5, D))
    assert (model.raw(params, x) == model.raw(params, x[:1])).all()


def test_blocks_take_all_records_once():
    for sizes in (SIZES, (128, 32, 8), (128,), (1,)):
        for n in (0, 1, 8, 9, 89, 127, 128, 129, 300):
            blocks = list(cut(slice(0, n), sizes))
            assert [i for rows, _ in blocks for i in range(n)[rows]] == list(range(n))
            assert all(rows.stop - rows.start <= size for rows, size in blocks)
            assert all(rows.stop - rows.start == sizes[0] for rows, _ in blocks[:-1])
    found = {n: [size for _, size in cut(slice(0, n), (128, 32, 8))] for n in (8, 9, 40, 150, 300)}
    assert found == {8: [8], 9: [32], 40: [128], 150: [128, 32], 300: [128, 128, 128]}
