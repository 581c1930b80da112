"""More of tests/torch/test_by_rows.py: what only private names show."""

import numpy as np
import pytest

pytest.importorskip("torch")
from torch import nn
from torch.nn import functional as F

from skdpfl import DPFedAvgClassifier
from skdpfl._pipelines import keeps_rows_apart
from skdpfl.model_selection.scoring import predictions
from skdpfl.models import fitted_one_by_one
from skdpfl.torch import TorchModel
from skdpfl.torch._by_rows import by_rows
from tests.torch.test_by_rows import D, K, Writing, torch, with_code

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


KNOWN = {
    "linear": [nn.Linear(D, K)],
    "conv": [nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 2, 2), nn.MaxPool2d(2, 1), nn.Flatten(),
             nn.Linear(4, K)],
    "norms": [nn.Unflatten(1, (2, 6)), nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.AvgPool1d(2),
              nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, K)],
    "attention": [nn.Unflatten(1, (3, 4)),
                  nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True), nn.Flatten(),
                  nn.Linear(12, K)],
    "softmax": [nn.Linear(D, 4), nn.Softmax(dim=1), nn.Linear(4, K), nn.LogSoftmax(dim=-1)],
}  # fmt: skip


ACTIVATIONS = [
    nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU,
    nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus,
    nn.Softsign, nn.Tanh, nn.Tanhshrink,
]  # fmt: skip


KNOWN |= {kind.__name__: [nn.Linear(D, 4), kind(), nn.Linear(4, K)] for kind in ACTIVATIONS}


class Residual(nn.Module):
    """What people write: layers called in turn, sums, functions of single numbers, axes by name."""

    def __init__(self, d=D, k=K):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(d, 8), nn.Linear(8, 8), nn.Linear(16, k)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        z = torch.relu(self.one(x))
        z = z + F.gelu(self.two(z)) * self.scale
        return self.last(torch.cat([z, torch.softmax(z, dim=1)], dim=1).view(x.size(0), -1))


class Attention(nn.Module):
    """Attention over the parts of a record."""

    def __init__(self, d=D, k=K):
        super().__init__()
        self.attend, self.last = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, k)

    def forward(self, x):
        z = x.reshape(x.shape[0], 3, 4)
        z = z + self.attend(z, z, z, need_weights=False)[0]
        return self.last(z.mean(dim=1))


def rows():
    return torch.rand((8, D), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", KNOWN)
def test_usual_layers_see_batches(name):
    module = nn.Sequential(*KNOWN[name]).eval()
    assert by_rows(module, rows()) is module


@pytest.mark.parametrize("kind", [Residual, Attention])
def test_usual_code_sees_batches_as_the_graph_that_was_checked(kind):
    module = kind().eval()
    graph = by_rows(module, rows())
    assert isinstance(graph, torch.fx.GraphModule)
    assert torch.equal(graph(rows()), module(rows()))
    assert [n for n, _ in graph.named_parameters()] and {
        n for n, _ in graph.named_parameters()
    } == {n for n, _ in module.named_parameters()}
    assert TorchModel(kind).build(D, K)._found.watched


def hooked():
    module = nn.Sequential(nn.Linear(D, K))
    module[0].register_forward_hook(lambda layer, given, out: out - out.mean(0))
    return module


def replaced():
    module = nn.Sequential(nn.Linear(D, K))
    module[0].forward = lambda x: x[:, :K] - x[:, :K].mean(0)
    return module


class Subclass(nn.ReLU):
    def forward(self, x):
        return torch.relu(x - x.max())


UNKNOWN = {
    "softmax over records": lambda: nn.Sequential(nn.Linear(D, K), nn.Softmax(dim=0)),
    "softmax from behind": lambda: nn.Sequential(nn.Linear(D, K), nn.Softmax(dim=-2)),
    "sequence of records": lambda: nn.Sequential(
        nn.TransformerEncoderLayer(D, 2, 5, dropout=0.0, batch_first=True), nn.Linear(D, K)
    ),
    "records second": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 4)), nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0), nn.Flatten(),
        nn.Linear(D, K),
    ),
    "own activation": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 4)),
        nn.TransformerEncoderLayer(
            4, 2, 5, dropout=0.0, batch_first=True, activation=lambda x: x - x.mean()
        ),
        nn.Flatten(), nn.Linear(D, K),
    ),
    "hook": hooked, "replaced": replaced,
    "subclass": lambda: nn.Sequential(nn.Linear(D, K), Subclass()),
}  # fmt: skip


OPERATIONS = {
    "mean": lambda x: x - x.mean(), "mean over records": lambda x: x - x.mean(0),
    "mean by name": lambda x: x - x.mean(dim=0), "last but one": lambda x: x - x.mean(-2),
    "flipped": lambda x: x.flip(0), "transposed": lambda x: (x.T - x.T.mean(1, keepdim=True)).T,
    "norm": lambda x: x / x.norm(), "sorted": lambda x: x.sort(0).values,
    "first record": lambda x: x - x[0], "other rows": lambda x: x[torch.arange(len(x))],
    "where": lambda x: torch.where(x == 0, x.mean(0), x), "flat": lambda x: x.flatten().view(-1, D),
    "product": lambda x: (x @ x.T) @ x, "joined": lambda x: torch.cat([x, x], 0)[: len(x)],
    "size": lambda x: x / x.shape[0], "cumulative": lambda x: x.cumsum(0),
    "column": lambda x: x + x[:, 0],
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_layers_that_may_mix_are_not_known(name):
    assert by_rows(UNKNOWN[name]().eval(), rows()) is None


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_that_may_mix_are_not_known(name):
    assert by_rows(with_code(OPERATIONS[name])(D, K).eval(), rows()) is None


@pytest.mark.parametrize("how", ["zeros", "attribute"])
def test_scores_never_share_a_fitted_module_between_records(how):
    """One record with the rare value changes one prediction, and no other."""
    X, y = np.random.default_rng(2).uniform(-3, 3, (12, D)), np.arange(12) % K
    clf = DPFedAvgClassifier(
        1.0, model=TorchModel(lambda d, k: Writing(d, k, how)), feature_bounds=(-200, 200),
        n_rounds=1, local_steps=1, random_state=0,
    )  # fmt: skip
    clf.fit(X, y)
    rare = X.copy()
    rare[0, 3] = 1e9
    asked = {"reads": "shares", "classes": clf.classes_, "together": keeps_rows_apart(clf)}
    before, after = (predictions(clf, table, **asked) for table in (X, rare))
    np.testing.assert_array_equal(before[1:], after[1:])
    fitted = fitted_one_by_one(clf.model_)
    raws = [fitted.raw_of_fitted(vars(clf), table) for table in (X, rare)]
    np.testing.assert_array_equal(raws[0][1:], raws[1][1:])
