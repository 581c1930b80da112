"""More of tests/torch/test_sums.py: what only private names show."""

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("torch")

from skdpfl.losses import AbsoluteError
from tests.torch.test_sums import problem, torch

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
