"""Modules as the model of estimators."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from skdpfl import (  # noqa: E402
    Checkpoint,
    DPFedAvgClassifier,
    DPFedAvgRegressor,
    DPFedEXPClassifier,
    DPScaffoldClassifier,
    ISRLDPClassifier,
    ISRLDPRegressor,
)
from skdpfl.losses import LogLoss  # noqa: E402
from skdpfl.privacy.randomness.streams import streams_for  # noqa: E402
from skdpfl.torch import TorchModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(20, 5, (300, 6))
Y = ((X[:, 0] - 20) * (X[:, 1] - 20) > 0).astype(int)
SILOS = np.arange(300) % 3
BOUNDS = {"feature_bounds": (0, 40), "random_state": 0}


def small(d, k):
    return nn.Sequential(nn.Linear(d, 8), nn.Tanh(), nn.Linear(8, k))


def normed(d, k):
    return nn.Sequential(nn.Linear(d, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Linear(8, k))


def digits_net():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(72, 10),
    )


@pytest.mark.parametrize("make", [
    ISRLDPClassifier, DPScaffoldClassifier,
    lambda **k: DPFedAvgClassifier(local_steps=1, trust="server", **k),
    lambda **k: DPFedEXPClassifier(delta=1e-2, **k),
    lambda **k: ISRLDPClassifier(sampling="without_replacement", sampling_rate=0.5, **k),
], ids=["isrl", "scaffold", "server", "whole silos", "fixed batches"])  # fmt: skip
def test_estimators_train_modules_and_spend_their_budget(make):
    model = make(epsilon=8.0, model=TorchModel(normed), n_rounds=4, **BOUNDS)
    model.fit(X, Y, silos=SILOS)
    assert isinstance(model.module_, nn.Module) and not hasattr(model, "coef_")
    assert 0.99 * 8 <= model.privacy_spent_.epsilon <= 8
    assert model.predict_proba(X).shape == (300, 2)
    again = clone(model).fit(X, Y, silos=SILOS)
    for a, b in zip(model.module_.parameters(), again.module_.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("scaling", [None, "private"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_network_without_privacy_fits_data_of_either_precision(scaling, dtype):
    given = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(dtype)
    fit = DPFedAvgClassifier(
        np.inf, model=TorchModel(small), local_steps=1, n_rounds=300, scaling=scaling,
        learning_rate=2.0, random_state=0,
    ).fit(given, Y, silos=SILOS)  # fmt: skip
    assert fit.score(given, Y) > 0.9


def test_a_convolution_learns_digits_privately():
    data, y = load_digits(return_X_y=True)
    fit = DPFedAvgClassifier(
        20.0, model=TorchModel(digits_net), local_steps=1, feature_bounds=(0, 16), random_state=0
    ).fit(data, y, silos=np.arange(len(y)) % 3)
    assert fit.score(data, y) > 0.6


@pytest.mark.parametrize("make", [ISRLDPRegressor, DPFedAvgRegressor])
def test_the_module_predicts_in_original_units(make):
    y = 1000 + 30 * X[:, 0] + RNG.normal(size=300)
    model = make(
        np.inf, model=TorchModel(small), target_bounds=(0, 4000), n_rounds=200, **BOUNDS
    ).fit(X, y, silos=SILOS)
    with torch.no_grad():
        direct = model.module_(torch.tensor(X))[:, 0].numpy()
    np.testing.assert_allclose(model.predict(X), direct)
    assert model.score(X, y) > 0.5 and abs(direct.mean() - y.mean()) < 50


def test_pickles_hold_state_and_not_code():
    model = ISRLDPClassifier(3.0, model=TorchModel(small), n_rounds=2, **BOUNDS)
    model.fit(X, Y, silos=SILOS)
    data = pickle.dumps(model)
    assert b"torch.nn" not in data and b"Sequential" not in data
    for again in (pickle.loads(data), copy.deepcopy(model)):
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert repr(again.module_) == "FittedModule(Sequential)"
    local = ISRLDPClassifier(3.0, model=TorchModel(lambda d, k: nn.Linear(d, k)), n_rounds=2)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local.fit(X, Y))


def test_starts_are_drawn_from_random_state():
    def fitted(seed):
        model = ISRLDPClassifier(
            np.inf, model=TorchModel(small), n_rounds=1, learning_rate=1e-9, feature_bounds=(0, 40),
            random_state=seed,
        )  # fmt: skip
        return model.fit(X, Y).module_.module[0].weight.detach()

    before = torch.random.get_rng_state()
    assert torch.equal(fitted(0), fitted(0)) and not torch.equal(fitted(0), fitted(1))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda d, k: nn.Sequential(nn.Linear(d, 4), nn.BatchNorm1d(4), nn.Linear(4, k)),
         r"BatchNorm1d \(layer '1'\) mixes records.*GroupNorm"),
        (lambda d, k: nn.Sequential(nn.Unflatten(1, (1, d)), nn.InstanceNorm1d(
            1, track_running_stats=True), nn.Flatten(), nn.Linear(d, k)),
         "keeps statistics.*GroupNorm"),
        (lambda d, k: nn.Sequential(nn.Dropout(), nn.Linear(d, k)), "random numbers.*Leave it out"),
        (lambda d, k: Centred(d, k), "Centred mixes records"),
        # what starts at zero hides what is behind it at first, and only then
        (lambda d, k: nn.Sequential(Centred(d, d), zeros(d, k)), "Sequential mixes records"),
        (lambda d, k: Gated(d, k), "Gated mixes records"),
        (lambda d, k: Counting(d, k), "Counting changes its buffers"),
        (lambda d, k: LookedUp(d, k, nn.Embedding(4, 3, max_norm=9.0)), "Embedding.*max_norm"),
        (lambda d, k: LookedUp(d, k, nn.Embedding(4, 3), 0.1), "changes its buffers or parameters"),
        (lambda d, k: nn.Linear(d, 7), r"must return shape \(3, 1\)"),
        (lambda d: nn.Linear(d, 1), r"\['d'\]"),
        (lambda: 3, "must return a torch.nn.Module; got int"),
        (nn.Linear(6, 1), "a callable that returns"),
        (lambda d, k: nn.Flatten(), "must return shape"),
        (lambda d, k: Pair(d, k), "must return one tensor.*got tuple"),
        (lambda d, k: Single(d, k), r"single precision only: mat1.*x\.new_zeros"),
        (lambda d, k: nn.Sequential(nn.Linear(d, k), Lowered()), "precision only: it returns"),
        (lambda d, k: torch.jit.script(nn.Linear(d, k)), "scripted.*the module that it was made"),
        (lambda d, k: nn.DataParallel(nn.Linear(d, k)), r"DataParallel splits.*the module inside"),
        (lambda d, k: LookedUp(d, k, nn.Embedding(4, 3, sparse=True)), "sparse.*Leave sparse=True"),
        (lambda d, k: nn.Linear(d, k).bfloat16(), r"bfloat16: parameters must be.*\.float\(\)"),
        (lambda d, k: Branching(d, k), "Branching mixes records"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:`torch.jit.script")
def test_what_cannot_be_trained_is_refused_with_the_way_out(factory, message):
    model = ISRLDPClassifier(model=TorchModel(factory))
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "n_features_in_")


def test_a_module_that_takes_images_is_told_how_to_get_them():
    model = ISRLDPClassifier(1.0, model=TorchModel(lambda d, k: nn.Conv2d(1, 2, 3)), **BOUNDS)
    with pytest.raises(RuntimeError) as raised:
        model.fit(X, Y)
    assert "nn.Unflatten" in raised.value.__notes__[0]


class Pair(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


class Single(nn.Linear):
    def forward(self, x):
        return super().forward(torch.zeros(x.shape))


class Lowered(nn.Module):
    def forward(self, x):
        return x.float()


class Centred(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class Gated(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.mixed, self.out, self.gate = Centred(d, d), nn.Linear(d, k), nn.Parameter(
            torch.zeros(())
        )  # fmt: skip

    def forward(self, x):
        return self.out(x + self.gate * self.mixed(x))


def zeros(d, k):
    layer = nn.Linear(d, k)
    nn.init.zeros_(layer.weight)
    return layer


class Stopped(nn.Module):
    """Gradients do not reach the first layer."""

    def __init__(self, d, k, how):
        super().__init__()
        self.first, self.last, self.how = nn.Linear(d, 4), nn.Linear(4, k), how
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x):
        if self.how == "detach":
            return self.last(torch.tanh(self.first(x)).detach())
        if self.how == "no_grad":
            with torch.no_grad():
                x = torch.tanh(self.first(x))
            return self.last(x)
        if self.how == "plain":
            return self.last(torch.tanh(self.first(x)))
        x = checkpoint(self.first, x, use_reentrant=self.how == "reentrant")
        return self.last(torch.tanh(x))


def fixed(d, k):
    module = Stopped(d, k, "detach")
    module.first.requires_grad_(False)
    return module


@pytest.mark.parametrize("how", ["detach", "no_grad", "reentrant"])
def test_parameters_that_gradients_do_not_reach_are_told(how):
    model = TorchModel(lambda d, k: Stopped(d, k, how))
    with pytest.warns(UserWarning, match=r"does not train first.weight, first.bias: gradients"):
        model.build(6, 2)


def test_what_runs_forward_again_is_trained():
    """Each record has a module of its own, whose weights stay the same."""
    found = {
        how: TorchModel(lambda d, k, how=how: Stopped(d, k, how)).build(6, 2)
        for how in ("checkpoint", "plain")
    }
    params = found["plain"].init(streams_for(0).stream("init"))
    sums = [m.clipped_gradient_sum(params, X, Y, LogLoss(), clip_norm=1.0) for m in found.values()]
    np.testing.assert_allclose(*sums, atol=1e-12)


@pytest.mark.parametrize("factory", [
    small, normed, fixed, zeros,
    lambda d, k: nn.Sequential(nn.Linear(d, 4), nn.LayerNorm(4), nn.ReLU(), zeros(4, k)),
])  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_parameters_that_train_are_not_told_of(factory):
    TorchModel(factory).build(6, 2)


class Counting(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.layer = nn.Linear(d, k)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += len(x)
        return self.layer(x)


class LookedUp(nn.Module):
    """Cuts the weights that a record looks up; every record's output reads all of them."""

    def __init__(self, d, k, table, longest=None):
        super().__init__()
        self.table, self.last, self.longest = table, nn.Linear(4, k), longest

    def forward(self, x):
        which, weight = x[:, 0].long().clamp(0, 3), self.table.weight
        if self.longest is None:
            found = self.table(which)
        else:
            found = nn.functional.embedding(which, weight, max_norm=self.longest)
        return self.last(found @ weight.T)


class Squeezed(nn.Module):
    def forward(self, x):
        return x.squeeze()


class Branching(nn.Module):
    """Chooses by all records."""

    def __init__(self, d, k):
        super().__init__()
        self.layer = nn.Linear(d, k)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.layer, lambda x: -self.layer(x), (x,))


class Failing(nn.Module):
    """Fails at one record, in a way that ``how`` names."""

    def __init__(self, d, k, how):
        super().__init__()
        self.layer, self.words, self.how = nn.Linear(d, k), nn.Embedding(99, k), how

    def forward(self, x):
        found = self.layer(x)
        if self.how == "token":
            return found + self.words(x[:, 0].long().abs())
        if (x > 99).any():
            if self.how == "raises":
                raise RuntimeError("of a record")
            return found[:, :0] if self.how == "narrow" else found.repeat(1, 2)
        return found + 0 * self.words.weight.sum()


@pytest.mark.parametrize("how", ["token", "raises", "narrow", "wide"])
def test_a_record_at_which_a_module_fails_counts_as_zero(how):
    model = TorchModel(lambda d, k: Failing(d, k, how)).build(6, 2)
    params, some = model.init(streams_for(0).stream("init"), np.float64), X[:9].copy()
    some[4, 0] = 200.0
    want = model.clipped_gradient_sum(
        params, X[:9], Y[:9], LogLoss(), clip_norm=0.5, weights=1.0 - np.eye(9)[4]
    )
    got = model.clipped_gradient_sum(params, some, Y[:9], LogLoss(), clip_norm=0.5)
    np.testing.assert_array_equal(got, want)
    assert np.isnan(model.raw(params, some)[4]).all()


def test_a_lost_axis_of_records_is_refused():
    with pytest.raises(
        ValueError, match=r"returns shape \(8, 4\) for 8 records, but \(32,\) for the same"
    ):
        TorchModel(lambda d, k: nn.Sequential(nn.Linear(d, k), Squeezed())).build(6, 4)


def test_a_module_that_fails_on_one_record_alone_is_told():
    with pytest.raises(ValueError, match="Expected more than 1 value") as raised:
        TorchModel(lambda d, k: nn.Sequential(nn.GroupNorm(1, 1), nn.Linear(d, k))).build(1, 2)
    assert raised.value.__notes__ == [
        "Sequential takes several records together, but fails on one alone."
    ]


def test_a_checkpoint_is_for_one_module(tmp_path):
    """Other layers may have as many parameters, under a function of the same name."""

    def fit(activation):
        def network(d, k):
            return nn.Sequential(nn.Linear(d, 4), activation(), nn.Linear(4, k))

        with Checkpoint(tmp_path / "fit"):
            model = ISRLDPClassifier(3.0, model=TorchModel(network), n_rounds=2, **BOUNDS)
            return model.fit(X, Y).predict_proba(X)

    np.testing.assert_array_equal(fit(nn.Tanh), fit(nn.Tanh))
    with pytest.raises(ValueError, match="to another fit"):
        fit(nn.ReLU)


def test_devices_are_checked():
    with pytest.raises(ValueError, match="device"):
        ISRLDPClassifier(model=TorchModel(small, device="gpu7")).fit(X, Y)


@pytest.mark.parametrize("parameters", [{"solver": "accelerated"}, {"fit_intercept": False}])
def test_what_needs_a_linear_model_is_refused(parameters):
    with pytest.raises(ValueError, match="TorchModel"):
        ISRLDPClassifier(model=TorchModel(small), **parameters).fit(X, Y)
