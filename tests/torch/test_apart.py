"""No module mixes records, however rare the values on which it would."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from skdpfl import DPFedAvgClassifier, privacy_spent  # noqa: E402
from skdpfl.losses import LogLoss  # noqa: E402
from skdpfl.models import fitted_one_by_one  # noqa: E402
from skdpfl.privacy.randomness.streams import streams_for  # noqa: E402
from skdpfl.torch import TorchModel  # noqa: E402

D, K = 12, 3
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


def with_code(forward):
    """Return a factory of a module with a Linear layer behind this function of a batch."""

    class Own(nn.Module):
        def __init__(self, d, k):
            super().__init__()
            self.layer = nn.Linear(d, k)

        def forward(self, x):
            return self.layer(forward(x))

    return Own


def swallowing(x):
    """A tracer meets no number here, and goes on."""
    try:
        if x.max() > 100:
            return x / 255
    except Exception:
        pass
    return x


def warning(x):
    if x.max() > 100:
        warnings.warn(f"{x.max()}", stacklevel=1)
    return x


ATTACKS = {
    "zeros": (lambda x: torch.where(x == 0, x.mean(0), x), 0.0),
    "largest": (lambda x: x / 255 if x.max() > 100 else x, 137.5),
    "missing": (lambda x: torch.where(x.isnan(), x.nanmean(0), x), np.nan),
    "swallowed": (swallowing, 137.5),
    "warning": (warning, 137.5),
    "exactly": (lambda x: x.mean(0) + 0 * x if bool((x == 137.5).any()) else x, 137.5),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_rare_value_changes_the_sum_by_one_record(name):
    forward, rare = ATTACKS[name]
    model = TorchModel(with_code(forward)).build(D, K)
    assert not model.fitted_by_rows
    params = model.init(streams_for(0).stream("init"))
    rng = np.random.default_rng(1)
    X, y = rng.uniform(0.5, 60, (9, D)), rng.integers(0, K, 9)

    def total():  # a warning would be an error, and a record's
        return model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=0.5)

    before = total()
    X[0, 3] = rare
    assert np.linalg.norm(before - total()) <= 2 * 0.5 + 1e-9
    alone = np.vstack([model.raw(params, X[[j]]) for j in range(1, 9)])
    np.testing.assert_allclose(model.raw(params, X)[1:], alone)


def test_an_estimator_with_such_a_module_costs_what_it_says():
    forward, _ = ATTACKS["largest"]
    X, y = np.random.default_rng(2).uniform(size=(60, D)), np.arange(60) % K
    clf = DPFedAvgClassifier(
        1.0, model=TorchModel(with_code(forward)), feature_bounds=(0, 1), n_rounds=2,
        local_steps=1, random_state=0,
    )  # fmt: skip
    clf.fit(X, y, silos=np.arange(60) % 2)
    assert privacy_spent(clf).epsilon <= 1.0


def test_fitted_modules_with_code_of_their_own_are_scored_one_by_one():
    plain = TorchModel(lambda: nn.Sequential(nn.Linear(D, K))).build(D, K)
    own = TorchModel(with_code(ATTACKS["zeros"][0])).build(D, K)
    assert fitted_one_by_one(plain) is plain
    assert fitted_one_by_one(own) is not own


class Kept(nn.Module):
    """Subtracts the first record that it ever saw."""

    def __init__(self, d, k):
        super().__init__()
        self.layer, self.first = nn.Linear(d, k), None

    def forward(self, x):
        if self.first is None and float(x.max()) > 100:
            self.first = x[:1].detach().clone()
        return self.layer(x if self.first is None else x - self.first)


def test_what_a_module_keeps_reaches_no_other_record():
    model = TorchModel(Kept).build(D, K)
    params = model.init(streams_for(0).stream("init"))
    X, y = np.random.default_rng(3).uniform(size=(6, D)), np.arange(6) % K
    alone = model.clipped_gradient_sum(params, X[1:], y[1:], LogLoss(), clip_norm=0.5)
    X[0] = 200.0
    total = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=0.5)
    assert np.linalg.norm(total - alone) <= 0.5 + 1e-9
    again = model.clipped_gradient_sum(params, X[1:], y[1:], LogLoss(), clip_norm=0.5)
    np.testing.assert_array_equal(alone, again)


class Calls(nn.Sequential):
    """Its forward is PyTorch's, what calls it is not."""

    def __call__(self, x):
        return super().__call__(torch.where(x == 0, x.mean(0), x))


def hooked(d, k):
    layer = nn.Linear(4, 4)
    layer.register_full_backward_pre_hook(lambda module, slopes: None)
    return nn.Sequential(nn.Linear(d, 4), layer, nn.Linear(4, k))


def patched(d, k):
    layer = nn.Conv1d(1, 1, 2)
    usual = layer._conv_forward
    layer._conv_forward = lambda x, *given: usual(torch.where(x == 0, x.mean(0), x), *given)
    return nn.Sequential(nn.Unflatten(1, (1, d)), layer, nn.Flatten(), nn.Linear(d - 1, k))


CODE = {
    "call": lambda d, k: Calls(nn.Linear(d, 4), nn.Tanh(), nn.Linear(4, k)),
    "hook": hooked,
    "method": patched,
}


@pytest.mark.parametrize("name", CODE)
def test_code_beside_forward_sees_one_record_at_a_time(name):
    model = TorchModel(CODE[name]).build(D, K)
    params = model.init(streams_for(0).stream("init"))
    X, y = np.random.default_rng(1).uniform(0.5, 60, (9, D)), np.zeros(9, int)
    X[0] = 0.0
    other, nobody = X.copy(), np.ones(9)
    other[-1], nobody[-1] = -7.0, 0.0  # the last record counts nowhere
    given = {"clip_norm": 1.0, "weights": nobody}
    sums = [model.clipped_gradient_sum(params, Z, y, LogLoss(), **given) for Z in (X, other)]
    np.testing.assert_array_equal(*sums)
    np.testing.assert_array_equal(model.raw(params, X)[:-1], model.raw(params, other)[:-1])
    assert fitted_one_by_one(model) is not model


def test_a_class_that_only_names_its_layers_passes_as_a_batch():
    class Named(nn.Sequential):
        def __init__(self, d, k):
            super().__init__(nn.Linear(d, 4), nn.Tanh(), nn.Linear(4, k))

    model = TorchModel(Named).build(D, K)
    assert fitted_one_by_one(model) is model


RARE = 137.5


class Writing(nn.Module):
    """Changes its weights where a record has a rare value, in a way that ``how`` names."""

    def __init__(self, d, k, how):
        super().__init__()
        self.layer, self.last, self.how, self.sign = nn.Linear(d, d), nn.Linear(d, k), how, 1.0

    def forward(self, x):
        weight = self.last.weight
        if float(x.detach().max()) >= RARE:
            WRITES[self.how](self, weight)
        return self.sign * self.last(torch.tanh(self.layer(x) / 100))


def through_numpy(module, weight):
    weight.detach().numpy()[:] = 0.0


def through_storage(module, weight):
    weight.untyped_storage().copy_((1e6 * torch.ones_like(weight)).untyped_storage())


def turned(module, weight):
    module.sign = -1.0


WRITES = {
    "zeros": lambda module, weight: weight.data.zero_(),
    "clamp": lambda module, weight: weight.data.clamp_(-1e-3, 1e-3),
    "look-up": lambda module, weight: nn.functional.embedding(
        torch.arange(len(weight)), weight, max_norm=1e-3
    ),
    "numpy": through_numpy,
    "storage": through_storage,
    "attribute": turned,
}
CLIP = 0.5


@pytest.mark.parametrize(("how", "dtype"), zip(WRITES, 3 * [np.float32, np.float64], strict=True))
def test_a_record_that_writes_weights_moves_a_sum_by_one_record(how, dtype):
    model = TorchModel(lambda d, k: Writing(d, k, how)).build(D, K)
    params = model.init(streams_for(0).stream("init"), dtype)
    X, y = np.random.default_rng(1).uniform(-3, 3, (9, D)).astype(dtype), np.arange(9) % K
    before = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=CLIP)
    X[0, 3] = RARE
    after = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=CLIP)
    assert 0 < np.linalg.norm(before - after) <= 1.001 * 2 * CLIP
    alone = [model.raw(params, X[[j]])[0] for j in range(9)]
    np.testing.assert_array_equal(model.raw(params, X), alone)
