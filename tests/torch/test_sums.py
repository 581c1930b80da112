"""Clipped sums of modules: those of single records, whatever the layers are."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.func import functional_call  # noqa: E402

from skdpfl.losses import LogLoss, SquaredError  # noqa: E402
from skdpfl.models import Records  # noqa: E402
from skdpfl.privacy.randomness.streams import streams_for  # noqa: E402
from skdpfl.torch import TorchModel  # noqa: E402

D = 36
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


class Twice(nn.Module):
    """A layer that is passed twice, and one whose weights another one has, too."""

    def __init__(self, d, k):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(d, 5), nn.Linear(5, 5), nn.Linear(5, k)

    def forward(self, x):
        return self.last(torch.tanh(self.middle(torch.tanh(self.middle(self.first(x))))))


class Tied(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.down, self.up, self.head = nn.Linear(d, 4), nn.Linear(4, d), nn.Linear(d, k)
        self.back = nn.Linear(d, 4, bias=False)
        self.back.weight = self.down.weight

    def forward(self, x):
        return self.head(self.up(torch.tanh(self.down(x))) + self.up(self.back(x)))


class Unhooked(nn.Module):
    """Weights of a Linear layer that are not used by calling it, and a parameter of its own."""

    def __init__(self, d, k):
        super().__init__()
        self.layer, self.scale = nn.Linear(d, k), nn.Parameter(torch.ones(d))

    def forward(self, x):
        return nn.functional.linear(x * self.scale, self.layer.weight, self.layer.bias)


class RecordsLast(nn.Module):
    """Layers that see records on another axis than the first."""

    def __init__(self, d, k):
        super().__init__()
        self.one, self.two = nn.Linear(6, 3), nn.Linear(18, k)

    def forward(self, x):
        z = self.one(x.reshape(-1, 6, 6).transpose(0, 1)).transpose(0, 1)
        return self.two(torch.relu(z).flatten(1))


class Branches(nn.Module):
    """What vmap cannot do: a branch on values."""

    def __init__(self, d, k):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(d), nn.Linear(d, k)

    def forward(self, x):
        rows = [row if float(row.detach().sum()) > 0 else 2 * row for row in self.norm(x)]
        return self.layer(torch.stack(rows))


class Frozen(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.body, self.head = nn.Linear(d, 5), nn.Linear(5, k)
        self.body.requires_grad_(False)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Named(nn.Module):
    """Layers that get their records by name, and what vmap and autograd of functions cannot do."""

    def __init__(self, d, k):
        super().__init__()
        self.layer, self.last = nn.Linear(d, 5), nn.Linear(5, k)
        self.scale = nn.Parameter(torch.ones(d))

    def forward(self, x):
        signs = torch.from_numpy(np.sign(x.detach().numpy())).to(x)
        return self.last(input=torch.tanh(self.layer(input=x + signs * self.scale)))


class Routed(nn.Module):
    """A layer that sees records in an order that depends on them; made-up ones near 0 do not."""

    def __init__(self, d, k):
        super().__init__()
        self.layer, self.last = nn.Linear(d, 5), nn.Linear(5, k)

    def forward(self, x):
        order = torch.argsort((x[:, 0] > 1).long(), stable=True)
        return self.last(torch.tanh(self.layer(x[order]))[torch.argsort(order)])


class Viewed(nn.Module):
    """What needs the results of a convolution in the order that PyTorch gives them."""

    def __init__(self, d, k):
        super().__init__()
        self.one, self.last = nn.Conv2d(1, 3, 3), nn.Linear(48, k)

    def forward(self, x):
        return self.last(torch.tanh(self.one(x.view(-1, 1, 6, 6))).view(len(x), -1))


class Placed(nn.Module):
    """Products whose last bits follow from a record's place, as those of a library may."""

    def __init__(self, d, k):
        super().__init__()
        self.layer = nn.Linear(d, k)

    def forward(self, x):
        places = torch.arange(len(x), dtype=torch.float64)[:, None]
        return self.layer(x) * (1 + 1e-10 * places).to(x.dtype)


class Experts(nn.Module):
    """Layers that see the records on their side of a threshold: as many as there are."""

    def __init__(self, d, k):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(d, 5), nn.Linear(d, 5), nn.Linear(5, k)

    def forward(self, x):
        left, out = x[:, 0] > 0.3, x.new_zeros(len(x), 5)
        out[left] = nn.functional.silu(self.one(x[left]))
        out[~left] = torch.tanh(self.two(x[~left]))
        return self.last(out)


class Waves(nn.Module):
    """Products of complex numbers, and of what is the negative of other numbers."""

    def __init__(self, d, k):
        super().__init__()
        self.weight = nn.Parameter(0.03 * torch.randn(d, 5, 2))
        self.last = nn.Linear(5, k)

    def forward(self, x):
        found = torch.fft.fft(x) @ torch.view_as_complex(self.weight).conj()
        return self.last(found.conj().imag)


class InPlace(nn.Module):
    """Changes its records in place, and takes no wide ones; a parameter has to be positive."""

    def __init__(self, d, k):
        super().__init__()
        self.variance, self.last = nn.Parameter(torch.ones(d)), nn.Linear(d, k)
        self.nothing = nn.Parameter(torch.zeros(0))

    def forward(self, x):
        assert x.max() < 6
        x -= 0.5
        return self.last(x / torch.sqrt(self.variance))


class Recurrent(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.steps, self.last = nn.LSTM(6, 3, batch_first=True), nn.Linear(3, k)

    def forward(self, x):
        return self.last(self.steps(x.reshape(-1, 6, 6))[0][:, -1])


def again(d, k):
    """A layer at two paths."""
    layer = nn.Linear(d, d)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(d, k))


def image(layers):
    return lambda d, k: nn.Sequential(nn.Unflatten(1, (1, 6, 6)), *layers(k))


MODULES = {
    "linear": nn.Linear,
    "mlp": lambda d, k: nn.Sequential(nn.Linear(d, 7), nn.ReLU(inplace=True),
                                      nn.Linear(7, k, bias=False)),
    "conv": image(lambda k: [nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(inplace=True),
                             nn.Conv2d(4, 6, 2, groups=2, dilation=2, bias=False), nn.Tanh(),
                             nn.Flatten(), nn.Linear(6, k)]),
    "oblong": image(lambda k: [nn.Conv2d(1, 4, (3, 2), stride=(1, 2), padding=(0, 1)), nn.Tanh(),
                               nn.Conv2d(4, 6, (1, 3), groups=2), nn.Flatten(), nn.Linear(48, k)]),
    "same": image(lambda k: [nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(72, k)]),
    "norms": image(lambda k: [nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(),
                              nn.LayerNorm(64), nn.PReLU(), nn.Linear(64, k)]),
    "one axis": lambda d, k: nn.Sequential(nn.Unflatten(1, (2, 18)), nn.Conv1d(2, 3, 4),
                                           nn.Flatten(), nn.Linear(45, k)),
    "volume": lambda d, k: nn.Sequential(nn.Unflatten(1, (1, 3, 3, 4)), nn.Conv3d(1, 4, 2),
                                         nn.Tanh(), nn.Conv3d(4, 6, (2, 1, 2), groups=2),
                                         nn.Flatten(), nn.Linear(24, k)),
    "sequence": lambda d, k: nn.Sequential(nn.Unflatten(1, (6, 6)), nn.Linear(6, 3), nn.Tanh(),
                                           nn.Flatten(), nn.LazyLinear(k)),
    "attention": lambda d, k: nn.Sequential(
        nn.Unflatten(1, (6, 6)),
        nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
        nn.Flatten(), nn.Linear(36, k)),
    "twice": Twice, "tied": Tied, "unhooked": Unhooked, "records last": RecordsLast,
    "branches": Branches, "frozen": Frozen, "named": Named,
    "again": again, "routed": Routed, "viewed": Viewed, "experts": Experts, "waves": Waves,
    "in place": InPlace,
    "weight norm": lambda d, k: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(d, 5)), nn.Tanh(), nn.Linear(5, k)),
}  # fmt: skip
#: what may fail on a device for some records
NOT_ON_DEVICES = {"branches", "routed", "experts", "waves", "in place", "named"}
#: and such as are slow, or for places only
ALL = MODULES | {"placed": Placed, "recurrent": Recurrent}
LOG = LogLoss()
LOSSES = [(LOG, 1), (LOG, 4), (SquaredError(), 1)]
every_module = pytest.mark.parametrize("name", MODULES)


def problem(name, loss=LOG, k=4, n=9, shape=(), dtype=np.float64):
    rng = np.random.default_rng(0)
    model = TorchModel(ALL[name]).build(D, k)
    X = rng.normal(size=(*shape, n, D)).astype(dtype)
    classes = rng.integers(0, max(k, 2), (*shape, n))
    y = classes if loss.is_classifier else rng.normal(size=(*shape, n)).astype(dtype)
    params = model.init(streams_for(0).stream("init"), dtype)
    return model, params + 0.1 * rng.normal(size=model.size).astype(dtype), X, y


def one_by_one(model, params, X, y, loss, clip, weights):
    """The clipped sum by autograd, a record at a time; losses' slopes by differences."""
    module = model.factory().double()
    total = np.zeros(model.size)
    for x, t, w in zip(X, y, weights, strict=True):
        leaf = torch.tensor(params, requires_grad=True)
        given, at = {}, 0
        for name, p in module.named_parameters():
            if p.requires_grad:
                given[name] = leaf[at : at + p.numel()].reshape(p.shape)
                at += p.numel()
            else:
                given[name] = dict(model._module.named_parameters())[name].detach().double()
        raw = functional_call(module, given, (torch.tensor(x)[None],))
        z, slope = raw.detach().numpy(), np.zeros(raw.shape[1])
        for c in range(len(slope)):
            step = np.zeros_like(z)
            step[0, c] = 1e-6
            ends = [loss.value(np.array([t]), z + s * step)[0] for s in (1, -1)]
            slope[c] = (ends[0] - ends[1]) / 2e-6
        (g,) = torch.autograd.grad(raw, leaf, torch.tensor(slope)[None], allow_unused=True)
        total += w * g.numpy() * min(1, clip / np.linalg.norm(g.numpy()))
    return total


@every_module
@pytest.mark.parametrize(("loss", "k"), LOSSES, ids=str)
def test_sums_are_those_of_single_records(name, loss, k):
    model, params, X, y = problem(name, loss, k)
    weights = np.arange(9.0) % 3
    for clip in (0.3, 1e6):
        got = model.clipped_gradient_sum(
            params, X, y, loss, clip_norm=clip, weights=weights, chunk=4
        )
        want = one_by_one(model, params, X, y, loss, clip, weights)
        np.testing.assert_allclose(got, want, atol=1e-6 * max(1, np.abs(want).max()))
        assert np.abs(want).max() > 1e-3


def test_each_module_is_computed_as_intended():
    ways = {name: TorchModel(make).build(D, 4)._probed.way for name, make in MODULES.items()}
    assert {name for name in ways if ways[name] == "stacked"} == {
        "linear", "mlp", "conv", "oblong", "same", "norms", "one axis", "volume", "sequence",
        "again",
    }  # fmt: skip
    assert {name for name in ways if ways[name] == "alone"} == {
        "branches", "named", "experts", "waves", "in place"
    }  # fmt: skip
    layers = {name: sorted(TorchModel(MODULES[name]).build(D, 4)._tape(np.float64).layers)
              for name in ("conv", "mlp", "norms", "same", "again")}  # fmt: skip
    assert layers == {"conv": ["1", "3", "6"], "mlp": ["0", "2"], "norms": ["1", "6"],
                      "same": ["3"], "again": ["0", "3"]}  # fmt: skip


@every_module
def test_single_precision_is_the_same_to_its_digits(name):
    model, params, X, y = problem(name)
    args = [v.astype(np.float32) for v in (params, X)]
    got = model.clipped_gradient_sum(*args, y, LogLoss(), clip_norm=0.7)
    assert got.dtype == np.float32 == model.raw(*args).dtype
    want = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=0.7)
    np.testing.assert_allclose(got, want, atol=5e-5)


@pytest.mark.parametrize("name", ["mlp", "conv", "norms"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stacks_and_groups_give_each_silos_bits(name, dtype):
    model, params, X, y = problem(name, shape=(3,), dtype=dtype)
    params = np.stack([params, 2 * params, -params])
    clip = np.array([0.2, 1.0, 2.0])
    stack = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=clip)
    records = Records.in_turn(X.reshape(27, D), [9] * 3)
    norms = model.squared_row_norms(X).ravel()
    group = model.clipped_gradient_sums(
        params, records, y.ravel(), LogLoss(), clip_norm=clip, squared_norms=norms
    )
    raw = model.raw(params, X)
    for i in range(3):
        alone = model.clipped_gradient_sum(params[i], X[i], y[i], LogLoss(), clip_norm=clip[i])
        np.testing.assert_array_equal(stack[i], alone)
        np.testing.assert_array_equal(group[i], alone)
        np.testing.assert_array_equal(raw[i], model.raw(params[i], X[i]))


# ---- the guarantee -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_record_gives_the_same_bits_whatever_is_drawn_with_it(name, dtype):
    """Its place and the number of records, which sampling keeps secret, change none."""
    rng = np.random.default_rng(1)
    slow = TorchModel(ALL[name]).build(D, 4)._probed.way == "alone"
    most = 12 if slow else 300
    model, params, X, y = problem(name, n=most, dtype=dtype)
    own = X[:1].copy(), y[:1].copy()
    want = model.clipped_gradient_sum(params, *own, LOG, clip_norm=0.5)
    assert 0.1 < np.linalg.norm(want) < 0.51
    for n in (2, 7, 8, 9, 39, 65, 90, most):
        n = min(n, most)
        at, weights = rng.integers(n), np.zeros(n)
        (X[at],), (y[at],), weights[at] = *own, 1
        args = X[:n], y[:n], LOG
        got = model.clipped_gradient_sum(params, *args, clip_norm=0.5, weights=weights, chunk=256)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [nn.ELU, nn.SiLU, nn.Softplus, nn.Tanh])
def test_functions_end_within_no_block(function, dtype):
    """The last few numbers are rounded in another way by PyTorch, a few in a hundred of them."""

    def network(d, k):
        return nn.Sequential(nn.Linear(d, 3), function(), nn.Linear(3, k))

    rng = np.random.default_rng(3)
    model = TorchModel(network).build(D, 1)
    X, y = rng.normal(size=(60, D)).astype(dtype), rng.integers(0, 2, 60)
    params = model.init(streams_for(0).stream("init"), dtype)
    for j in range(60):
        alone, own = np.eye(60)[j], slice(j, j + 1)
        want = model.clipped_gradient_sum(params, X[own], y[own], LOG, clip_norm=0.5)
        got = model.clipped_gradient_sum(params, X, y, LOG, clip_norm=0.5, weights=alone)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["mlp", "conv", "norms", "twice"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_bad_record_counts_as_zero_and_changes_no_other(name, bad):
    model, params, X, y = problem(name)
    wild, without = X.copy(), np.ones(9)
    wild[4] = bad
    without[4] = 0
    got = model.clipped_gradient_sum(params, wild, y, LogLoss(), clip_norm=0.5)
    want = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=0.5, weights=without)
    gone = np.array_equal(got, want)
    # a huge record that stays finite is clipped, not dropped
    assert gone or (bad == 1e300 and np.linalg.norm(got - want) <= 0.5 * (1 + 1e-9))
    assert np.isfinite(got).all()


@pytest.mark.parametrize("name", ["linear", "conv"])
def test_a_bad_target_counts_as_zero(name):
    model, params, X, y = problem(name, SquaredError(), 1)
    y[3] = np.nan
    got = model.clipped_gradient_sum(params, X, y, SquaredError(), clip_norm=0.5)
    others = np.arange(9) != 3
    want = model.clipped_gradient_sum(params, X[others], y[others], SquaredError(), clip_norm=0.5)
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_lower_precision_of_products_is_refused():
    model, params, X, y = problem("mlp")
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(RuntimeError, match="highest"):
            model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=1.0)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_chunks_are_added_one_after_the_other():
    model, params, X, y = problem("conv", n=20)
    whole = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=0.5)
    parts = [
        model.clipped_gradient_sum(params, X[i : i + 8], y[i : i + 8], LogLoss(), clip_norm=0.5)
        for i in range(0, 20, 8)
    ]
    got = model.clipped_gradient_sum(params, X, y, LogLoss(), clip_norm=0.5, chunk=8)
    np.testing.assert_array_equal(got, parts[0] + parts[1] + parts[2])
    np.testing.assert_allclose(got, whole, atol=1e-12)
