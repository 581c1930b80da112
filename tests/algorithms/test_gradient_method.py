"""Noise on the sum hides records only if messages are fresh gradients: nothing else gets by."""

from dataclasses import dataclass

import numpy as np
import pytest

from skdpfl import DPFederatedClassifier
from skdpfl.algorithms import Algorithm, FedAvg, GradientMethod, MinibatchSGD, sends_one_gradient
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy.randomness.streams import streams_for
from tests.guaranteed import plan_of


def louder(self, shared, memory, gradient):
    return 1e6 * gradient(shared)


class Louder:
    """Nothing but a method that would be found first."""

    local = louder


class Quiet:
    """Keeps the check at class creation from being asked."""

    def __init_subclass__(cls):
        pass


MIXINS = {
    "local": {"local": louder},
    "remember": {"remember": lambda self, shared, memory, kept: kept},
    "memory_size": {"memory_size": lambda self, size: size},
    "n_gradients": {"n_gradients": lambda self, round: 2},
    "lookup": {"__getattribute__": lambda self, name: object.__getattribute__(self, name)},
    "property": {"local": property(lambda self: louder)},
}


@pytest.mark.parametrize("methods", MIXINS.values(), ids=MIXINS)
def test_final_methods_cannot_come_from_a_mixin(methods):
    mixin = type("Mixin", (), dict(methods))
    with pytest.raises(TypeError, match=f"{next(iter(methods))}"):
        type("Evil", (mixin, MinibatchSGD), {})
    with pytest.raises(TypeError, match="Derive from Algorithm"):
        type("Evil", (MinibatchSGD,), dict(methods))


def through_a_mixin():
    return type("Evil", (Quiet, Louder, MinibatchSGD), {})(1.0)


def on_the_class():
    evil = type("Evil", (MinibatchSGD,), {})
    evil.local = louder
    return evil(1.0)


def on_the_object():
    evil = MinibatchSGD(1.0)
    object.__setattr__(evil, "local", lambda *args: louder(evil, *args))
    return evil


@dataclass(frozen=True)
class Claims(Algorithm):
    """Says that it sends gradients, in the words of an earlier version."""

    releases_only_gradients = True
    local, init = louder, MinibatchSGD.init
    params = MinibatchSGD.params

    def aggregate(self, state, released):
        return state


EVIL = [through_a_mixin, on_the_class, on_the_object, Claims]


def small_fit(algorithm, **options):
    """One round of the engine on two silos."""
    X, y = np.ones((6, 1)), np.arange(6.0)
    data = SiloData.from_codes(X, y, np.arange(6) // 3, 2)
    plan = plan_of(
        silo_sizes=np.array([3, 3]),
        clip_norm=1.0,
        noise_multiplier=np.array(1.0),
        delta=np.array(1e-5),
        **{"steps": (1,)} | options,
    )
    model = LinearModel(1, 1, fit_intercept=False)
    work = Work(model, SquaredError(), algorithm, plan, np.dtype(np.float64))
    streams = streams_for(0)
    return run(work, LocalFederation(data, streams), streams).params


@pytest.mark.parametrize("make", EVIL)
@pytest.mark.parametrize("counted", [{"trust": "server"}, {"gradients_only": True}])
def test_the_engine_looks_at_what_will_run(make, counted):
    with pytest.raises(ValueError, match="needs a GradientMethod"):
        small_fit(make(), **counted)


@pytest.mark.parametrize("make", EVIL)
def test_no_estimator_counts_on_it(make):
    rng = np.random.default_rng(0)
    X, silos = rng.normal(size=(60, 2)), np.arange(60) % 3
    y = X[:, 0] > 0
    options = {"epsilon": 1.0, "n_rounds": 1, "scaling": None}
    with pytest.raises(ValueError, match='trust="server"'):
        DPFederatedClassifier(algorithm=make(), trust="server", **options).fit(X, y, silos=silos)
    plan = DPFederatedClassifier(algorithm=make(), **options).plan_for(
        silo_sizes=[20] * 3, n_features=2
    )
    assert plan.spent().outsider is None


@dataclass(frozen=True)
class Steps(GradientMethod):
    """Plain steps along the mean of what silos send."""

    learning_rate: float = 1.0
    local_steps: int | tuple[int, ...] = 1
    local_learning_rate: float = 0.1

    def init(self, params):
        return params

    def aggregate(self, state, released):
        return state - self.learning_rate * released.mean

    def params(self, state):
        return state


def fitted(algorithm, **options):
    rng = np.random.default_rng(0)
    X, silos = rng.normal(size=(60, 2)), np.arange(60) % 3
    model = DPFederatedClassifier(algorithm=algorithm, scaling=None, random_state=0, **options)
    return model.set_params(n_rounds=2).fit(X, X[:, 0] > 0, silos=silos)


@pytest.mark.filterwarnings("ignore:Hiding a whole silo")
def test_one_server_optimiser_serves_every_trust_and_takes_local_steps():
    """K steps of eta are FedAvg's, whose mean update is -K eta times the mean gradient."""
    for trust, unit in (("server", "record"), ("silo", "record"), ("silo", "silo")):
        model = fitted(Steps(), epsilon=9.0, trust=trust, unit=unit)
        assert np.isfinite(model.coef_).all()
    for budget in (9.0, np.inf):
        here = fitted(Steps(0.3, (3, 3)), epsilon=budget, clip_norm=1.0)
        same = fitted(FedAvg(0.1, 3), epsilon=budget, clip_norm=1.0)
        assert np.allclose(here.coef_, same.coef_, rtol=1e-12)
        assert here.privacy_spent_.epsilon == same.privacy_spent_.epsilon
    assert here.privacy_spent_.outsider is None
    with pytest.raises(ValueError, match="needs an algorithm with one local step per round"):
        fitted(Steps(0.3, 3), epsilon=9.0, trust="server")


def test_several_gradients_a_round_are_no_single_one():
    assert sends_one_gradient(Steps()) and sends_one_gradient(Steps(local_steps=(1, 1)))
    assert not sends_one_gradient(Steps(local_steps=2))
    assert not sends_one_gradient(Steps(local_steps=(1, 2)))
    for counted in ({"trust": "server"}, {"gradients_only": True}):
        with pytest.raises(ValueError, match="needs a GradientMethod"):
            small_fit(Steps(), steps=(2,), **counted)


class Nosy(np.ndarray):
    """Parameters that would look at whatever they are multiplied with."""

    seen: list = []  # noqa: RUF012

    def __array_ufunc__(self, ufunc, method, *inputs, **kw):
        self.seen.extend(inputs)
        plain = [np.asarray(x) for x in inputs]
        return getattr(ufunc, method)(*plain, **kw)

    def __array_function__(self, function, types, args, kw):
        self.seen.extend(args)
        return function(*[np.asarray(x) if isinstance(x, Nosy) else x for x in args], **kw)


def test_parameters_cannot_look_at_records():
    class Reads(MinibatchSGD):
        def broadcast(self, state):
            return state.params.view(Nosy)

    small_fit(Reads(1.0), trust="server")
    assert not Nosy.seen
