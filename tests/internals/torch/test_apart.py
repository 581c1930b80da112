"""More of tests/torch/test_apart.py: what only private names show."""

import numpy as np
import pytest

pytest.importorskip("torch")
from torch import nn

from skdpfl import DPFedAvgClassifier
from skdpfl._pipelines import keeps_rows_apart
from skdpfl.model_selection.scoring import predictions
from skdpfl.models import fitted_one_by_one
from skdpfl.torch import TorchModel
from skdpfl.torch._probe import _LAYERS, is_stack
from tests.torch.test_apart import D, K, Writing, patched, torch

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


STACKS = {
    "conv": [nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 2, 2), nn.MaxPool2d(2, 1), nn.Flatten(),
             nn.Linear(4, K)],
    "norms": [nn.Unflatten(1, (2, 6)), nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.AvgPool1d(2),
              nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, K)],
    "softmax": [nn.Linear(D, 4), nn.Softmax(dim=1), nn.Linear(4, K), nn.LogSoftmax(dim=-1)],
    "within": [nn.Sequential(nn.Linear(D, 4), nn.Sequential(nn.PReLU())), nn.Linear(4, K)],
}  # fmt: skip


def rows():
    return torch.rand((8, D), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", STACKS)
def test_usual_layers_see_batches(name):
    assert is_stack(nn.Sequential(*STACKS[name]).eval(), rows())


def test_a_layer_of_the_list_acts_on_records_for_themselves():
    """Those that need no arguments, on made-up rows with one of large values."""
    tried = 0
    for kind in _LAYERS:
        try:
            layer, z = kind().eval(), torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
        except TypeError:
            continue
        other = z.clone()
        other[0] = 1e3
        if is_stack(nn.Sequential(layer), z):
            assert torch.equal(layer(z.clone())[1:], layer(other)[1:]), kind
            tried += 1
    assert tried > 20


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


OTHERS = {
    "softmax over records": lambda: nn.Sequential(nn.Linear(D, K), nn.Softmax(dim=0)),
    "softmax from behind": lambda: nn.Sequential(nn.Linear(D, K), nn.Softmax(dim=-2)),
    "softmax of any axis": lambda: nn.Sequential(nn.Linear(D, K), nn.Softmax()),
    "flat": lambda: nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (-1, D)), nn.Linear(D, K)),
    "records as channels": lambda: nn.Sequential(nn.Conv1d(3, 3, 1), nn.Linear(D, K)),
    "norm over records": lambda: nn.Sequential(nn.LayerNorm((3, D)), nn.Linear(D, K)),
    "hook": hooked, "replaced": replaced, "method": lambda: patched(D, K),
    "subclass": lambda: nn.Sequential(nn.Linear(D, K), Subclass()),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(D, K)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_modules_see_no_batch(name):
    try:
        assert not is_stack(OTHERS[name]().eval(), rows())
    except RuntimeError:  # layers that fail on records are refused elsewhere
        assert name in ("records as channels", "norm over records")


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
    asked = {
        "reads": "log_probabilities",
        "classes": clf.classes_,
        "together": keeps_rows_apart(clf),
    }
    before, after = (predictions(clf, table, **asked) for table in (X, rare))
    assert np.isfinite(before).all()
    np.testing.assert_array_equal(before[1:], after[1:])
    fitted = fitted_one_by_one(clf.model_)
    raws = [fitted.raw_of_fitted(vars(clf), table) for table in (X, rare)]
    np.testing.assert_array_equal(raws[0][1:], raws[1][1:])
