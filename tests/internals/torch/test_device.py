"""A device gets each table once, and brings back one sum a step; the CPU stands in for one."""

from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.base import clone  # noqa: E402
from torch import nn  # noqa: E402

from skdpfl import DPFedAvgClassifier  # noqa: E402
from skdpfl.losses import AbsoluteError, LogLoss, SquaredError, Weighted, with_weights  # noqa: E402
from skdpfl.models import Records  # noqa: E402
from skdpfl.torch import TorchModel, _network  # noqa: E402
from skdpfl.torch._device import Device  # noqa: E402
from tests.torch.test_sums import MODULES, NOT_ON_DEVICES, D, problem  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


class Watched(Device):
    """Counts what passes, in numbers."""

    def __init__(self):
        super().__init__("cpu")
        self.sent, self.brought = [], []

    def tensor(self, values):
        self.sent.append(np.size(values))
        return super().tensor(values)

    def array(self, values):
        self.brought.append(values.numel())
        return super().array(values)


LOSSES = {
    "two classes": (LogLoss(), 1), "classes": (LogLoss(), 4), "squared": (SquaredError(), 1),
    "weighted": (Weighted(LogLoss()), 4), "on the CPU": (AbsoluteError(), 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("name", ["mlp", "conv", "sequence", "twice", "in place"])
@pytest.mark.parametrize("chunk", [None, 8, 5])
def test_sums_of_drawn_rows_are_those_of_the_cpu(kind, name, chunk):
    """A block of 128 records holds chunks of 8, not of 5; one record is not finite, one is wild."""
    loss, k = LOSSES[kind]
    plain = loss.loss if isinstance(loss, Weighted) else loss
    model, params, X, y = problem(name, plain, k, n=40)
    X[3], X[7] = np.nan, 1e9
    rows = np.array([3, 30, 1, 7, 7, *range(10, 27), 39])
    if plain is not loss:
        y = with_weights(y, np.linspace(0, 2, 40))
    records = Records(X, rows, np.array([0, 9, len(rows)]))
    norms, clip = model.squared_row_norms(X)[rows], np.array([0.3, np.inf])
    given = {"clip_norm": clip, "squared_norms": norms, "chunk": chunk}
    want = model.clipped_gradient_sums(params, records, y[rows], loss, **given)
    model._place = place = Watched()
    got = model.clipped_gradient_sums(params, records, y[rows], loss, **given)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
    assert np.linalg.norm(want, axis=1).min() > 0.1
    assert place.sent.count(X.size) == 1
    if kind != "on the CPU":
        assert place.brought == [model.size] * 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_a_fit_sends_its_table_once_and_brings_one_sum_a_step(trust, monkeypatch):
    """Predictions are not of the fit; a silo's step sends what is of the drawn records only."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, D)).astype(np.float32), np.arange(300) % 3
    place = Watched()
    monkeypatch.setattr(_network, "place_of", lambda name: place)
    clf = DPFedAvgClassifier(
        3.0, model=TorchModel(MODULES["mlp"]), trust=trust, feature_bounds=(-4, 4), n_rounds=4,
        sampling_rate=0.3, local_steps=1, calibrate=False, random_state=0,
    )  # fmt: skip
    clf.fit(X, y, silos=np.arange(300) % 3)
    size = sum(p.numel() for p in clf.module_.parameters())
    assert place.brought == [size] * 12
    assert place.sent.count(X.size) == 1
    assert len(place.sent) == 1 + 12 * 5
    assert max(n for n in place.sent if n != X.size) <= max(size, 128)
    monkeypatch.undo()
    usual = clone(clf).fit(X, y, silos=np.arange(300) % 3)
    for a, b in zip(clf.module_.parameters(), usual.module_.parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-4)


class Reads(nn.Module):
    """Reads a number of a record by a function of the record."""

    def __init__(self, read, d, k):
        super().__init__()
        self.read, self.table, self.layer = read, nn.Embedding(4, 1), nn.LazyLinear(k)

    def forward(self, x):
        return self.layer(self.read(self, x))


class Clipped(torch.autograd.Function):
    """Its gradient reads a table at the record's numbers."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, slopes):
        (x,) = ctx.saved_tensors
        return slopes * torch.ones(4).to(slopes)[x.clamp(0, 3).long()]


READS = {
    "a token": lambda module, x: module.table(x.clamp(0, 3).long())[..., 0],
    "one of its numbers": lambda module, x: x.gather(1, x.argmax(1, keepdim=True)),
    "a position": lambda module, x: x + module.table(torch.zeros(D, dtype=torch.long))[:, 0],
    "a share": lambda module, x: nn.functional.binary_cross_entropy(
        x.sigmoid(), torch.zeros_like(x), reduction="none"),
    "the masked ones": lambda module, x: x.masked_scatter(x > 9, torch.zeros(4, dtype=x.dtype)),
    "a gradient": lambda module, x: Clipped.apply(x * module.table.weight[0, 0]),
    "a hook": lambda module, x: hooked(x * module.table.weight[0, 0], x),
    "the sorted": lambda module, x: (x * module.table.weight[0, 0]).sort(1).values,
}  # fmt: skip
TAKEN = {
    "rounded": lambda module, x: (3 * x).long().to(x.dtype),
    "in fours": lambda module, x: nn.functional.avg_pool1d(x[:, None], 4)[:, 0],
}


def hooked(z, x):
    """Return z, whose gradient is scattered by the record's numbers."""
    if z.requires_grad:
        z.register_hook(lambda slopes: slopes.scatter(1, x.clamp(0, 3).long(), slopes))
    return z


@pytest.mark.filterwarnings("ignore:.*parameters? .*not trained", "ignore:Lazy modules")
def test_modules_that_may_fail_for_a_record_are_refused(monkeypatch):
    """On a device its failure would end the fit; on the CPU the record counts as zero."""
    modules = MODULES | {name: partial(Reads, read) for name, read in (READS | TAKEN).items()}
    monkeypatch.setattr(_network, "place_of", lambda name: Watched())
    refused = set()
    for name in {*modules} - {"named"}:
        try:
            TorchModel(lambda d, k, make=modules[name]: make(d, k)).build(D, 4)
        except ValueError as error:
            assert "would end the fit" in str(error) and 'Give device="cpu"' in str(error)
            refused.add(name)
    assert refused == {*READS} | NOT_ON_DEVICES - {"named"}
