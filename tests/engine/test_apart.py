"""What users plug in cannot mix silos or records, unless a trial of a declared class finds it."""

from dataclasses import dataclass

import numpy as np
import pytest

from skdpfl import DPFedAvgClassifier, DPFederatedClassifier, DPFederatedRegressor
from skdpfl.algorithms import Algorithm, Ball, FedAvg, LocalSGD, Scaffold, takes_stacks
from skdpfl.losses import Huber, LogLoss, SquaredError, record_by_record
from skdpfl.models import MLP, Activation, LinearModel, one_by_one
from skdpfl.privacy import check_independent
from skdpfl.privacy.randomness.streams import streams_for

SIZES = np.array([5, 9, 6, 7])


@dataclass(frozen=True)
class Normalised(FedAvg):
    """Its author forgot the axis: a stack is divided by the norm of all silos' gradients."""

    def local(self, shared, memory, gradient):
        g = gradient(shared)
        return -self.learning_rate * g / np.linalg.norm(g)


@dataclass(frozen=True)
class AboveMean(SquaredError):
    """Looks at the batch: residuals less their mean."""

    def slope(self, r, squared_norms):
        r -= r.mean()
        return r


@dataclass(frozen=True)
class RunningMean(SquaredError):
    """Keeps what it has seen."""

    seen: list = None

    def slope(self, r, squared_norms):
        self.seen.extend(r.ravel().tolist())
        r -= np.mean(self.seen)
        return r


@dataclass(frozen=True)
class Remembers(Algorithm):
    """Keeps the largest gradient of any silo in itself."""

    largest: dict

    def init(self, params):
        return params

    def local(self, shared, memory, gradient):
        g = gradient(shared)
        self.largest["norm"] = max(self.largest.get("norm", 0.0), float(np.linalg.norm(g)))
        return -g / self.largest["norm"]

    def aggregate(self, state, released):
        return state + released.mean

    def params(self, state):
        return state


@dataclass(frozen=True)
class Honest(FedAvg):
    """FedAvg, written once more."""

    def local(self, shared, memory, gradient):
        moved = velocity = 0.0
        for _ in range(gradient.n_steps):
            velocity = self.momentum * velocity + gradient(shared + moved)
            moved = moved - self.learning_rate * velocity
        return moved


@dataclass(frozen=True)
class HonestScaffold(Scaffold):
    """Scaffold with its memory, written once more."""

    def remember(self, shared, memory, kept):
        return super().remember(shared, memory, kept)


@dataclass(frozen=True)
class HonestLoss(LogLoss):
    """The logistic loss, written once more."""

    def gradient(self, y, raw, *, squared_norms=None, out=None):
        return super().gradient(y, raw, squared_norms=squared_norms, out=out)


def onto_ball(x):
    return Ball(0.4)(x)


def records(sizes=SIZES, d=3, seed=0):
    rng = np.random.default_rng(seed)
    n = int(sizes.sum())
    return rng.normal(size=(n, d)), rng.normal(size=n), np.repeat(np.arange(len(sizes)), sizes)


def test_an_honest_estimator_fits_without_a_word_and_with_the_same_bits():
    X, y, codes = records(60 + SIZES)
    settings = {"n_rounds": 5, "scaling": None, "random_state": 0}
    fits = [
        DPFederatedClassifier(2.0, algorithm=kind(0.3, 2), **settings).fit(X, y > 0, silos=codes)
        for kind in (FedAvg, Honest)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].privacy_spent_.epsilon == fits[1].privacy_spent_.epsilon


@pytest.mark.parametrize("k", [1, 3, 12])
@pytest.mark.parametrize("model", [LinearModel, lambda d, k: MLP((4,)).build(d, k)])
def test_honest_losses_have_the_same_bits(k, model):
    rng = np.random.default_rng(1)
    model = model(3, k)
    X, params = rng.normal(size=(2, 9, 3)), rng.normal(size=(2, model.size))
    y = rng.integers(0, max(2, k), (2, 9))
    sums = [
        model.clipped_gradient_sum(params, X, y, loss, clip_norm=0.5)
        for loss in (LogLoss(), record_by_record(HonestLoss()))
    ]
    np.testing.assert_array_equal(*sums)
    assert record_by_record(LogLoss()) == LogLoss()


class Fails(Exception):
    """Of one record."""


@dataclass(frozen=True)
class FailingLoss(LogLoss):
    """Fails at a large raw prediction: raises, or returns another shape."""

    raises: bool = True

    def gradient(self, y, raw, *, squared_norms=None, out=None):
        found = super().gradient(y, raw, squared_norms=squared_norms)
        if np.abs(raw).max() < 50:
            return found
        if self.raises:
            raise Fails
        return found[..., :0]


@dataclass(frozen=True)
class FailingActivation(Activation):
    """Raises at a large input."""

    def value(self, z):
        if np.abs(z).max() > 50:
            raise Fails
        return np.tanh(z)

    def slope(self, value):
        return 1 - value * value


FAILING = {
    "a loss that raises": (LinearModel(3, 1), FailingLoss()),
    "a loss of another shape": (LinearModel(3, 1), FailingLoss(raises=False)),
    "an activation": (MLP((4,), activation=FailingActivation()).build(3, 1), LogLoss()),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_record_at_which_a_part_from_outside_fails_counts_as_zero(name):
    """An error, or a warning, would tell of it."""
    model, loss = FAILING[name]
    X, y, _ = records()
    params = model.init(streams_for(0).stream("init")) + 0.1
    asked = one_by_one(model), record_by_record(loss)
    others = 1.0 - np.eye(len(y))[2]
    want = asked[0].clipped_gradient_sum(params, X, y > 0, asked[1], clip_norm=1.0, weights=others)
    X[2] = 1e4
    got = asked[0].clipped_gradient_sum(params, X, y > 0, asked[1], clip_norm=1.0)
    np.testing.assert_array_equal(got, want)
    trial = one_by_one(model, raises=True), record_by_record(loss, raises=True)
    with pytest.raises((Fails, ValueError)):
        trial[0].clipped_gradient_sum(params, X, y > 0, trial[1], clip_norm=1.0)


@dataclass(frozen=True)
class Centred(Activation):
    """Looks at the batch."""

    def value(self, z):
        return np.tanh(z - z.mean())

    def slope(self, value):
        return 1 - value * value


def test_an_activation_from_outside_sees_one_record():
    X, y, _ = records()
    model = MLP((4,), activation=Centred()).build(3, 1)
    assert one_by_one(model) is not model
    params = model.init(streams_for(0).stream("init"))
    sums = []
    for value in (0.0, 1e3):
        X[0] = value
        apart = one_by_one(model).clipped_gradient_sum
        sums.append(apart(params, X, y, SquaredError(), clip_norm=1.0))
    assert np.linalg.norm(sums[0] - sums[1]) <= 2
    with pytest.raises(ValueError, match="mixes records"):
        check_independent(Centred())


def test_a_class_is_known_by_who_wrote_what_sees_records():
    class Server(FedAvg):
        def aggregate(self, state, released):
            return state + 2 * released.mean

    class Again(Normalised):
        pass

    class Mixin:
        def _step(self, x):
            return x

    class Mixed(Mixin, FedAvg):
        pass

    class Behind(FedAvg, Mixin):
        pass

    class Declared(Normalised):
        stackable = True

    class Undeclared(FedAvg):
        stackable = False

    class Later(Declared):
        def local(self, shared, memory, gradient):
            return gradient(shared)

    assert takes_stacks(Server(0.1))
    assert takes_stacks(Declared(0.1))
    assert takes_stacks(type("Named", (FedAvg,), {"__doc__": "Only a name.", "version": 2})(0.1))
    for kind in (Again, Mixed, Behind, Undeclared, Later):
        assert not takes_stacks(kind(0.1)), kind
    for projection in (onto_ball, Normalised(0.1).local, np.sort, np.array([1.0]).dot, Mixin):
        assert not takes_stacks(LocalSGD(0.1, projection=projection)), projection
    assert takes_stacks(LocalSGD(0.1, projection=Ball(0.4).__call__))
    changed = FedAvg(0.1)
    object.__setattr__(changed, "local", lambda shared, memory, gradient: gradient(shared))
    assert not takes_stacks(changed)


def test_a_method_that_was_replaced_is_noticed(monkeypatch):
    monkeypatch.setattr(FedAvg, "local", Normalised.local)
    assert not takes_stacks(FedAvg(0.1))
    assert takes_stacks(LocalSGD(0.1))


#: what the loss below keeps, and where no copy of it is apart
LARGEST = [0.0]


@dataclass(frozen=True)
class Global(SquaredError):
    """Divides by the largest residual of any call."""

    def slope(self, r, squared_norms):
        LARGEST[0] = max(LARGEST[0], float(np.abs(r).max()))
        r /= LARGEST[0]
        return r


@dataclass(frozen=True)
class OfItsClass(SquaredError):
    """Counts calls in its class."""

    def slope(self, r, squared_norms):
        type(self).calls = getattr(self, "calls", 0) + 1
        return r


def enclosing():
    kept = []

    @dataclass(frozen=True)
    class Enclosed(FedAvg):
        def local(self, shared, memory, gradient):
            kept.append(gradient(shared))
            return -kept[0]

    return Enclosed(0.1)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Normalised(0.5), "mixes silos"), (AboveMean(), "mixes records"),
        (RunningMean([]), "keeps something of a call: its attributes changed"),
        (Remembers({}), "keeps .*: its attributes changed"), (Global(), r"LARGEST changed"),
        (OfItsClass(), r"OfItsClass\.calls"), (enclosing(), r"\(kept\) changed"),
    ],
    ids=lambda p: type(p).__name__,
)  # fmt: skip
def test_authors_are_told(part, message):
    with pytest.raises(ValueError, match=f"{type(part).__name__} .*{message}"):
        check_independent(part)


def test_a_fit_refuses_what_no_copy_holds_apart():
    LARGEST[0] = 0.0  # what is largest already shows no more
    X, y, codes = records(60 + SIZES)
    with pytest.raises(ValueError, match=r"Global keeps something of a call: .*LARGEST"):
        DPFederatedRegressor(
            2.0, loss=Global(), scaling=None, target_bounds=(-4, 4), random_state=0
        ).fit(X, y, silos=codes)


@pytest.mark.parametrize(
    "part",
    [Honest(0.5, 2, momentum=0.1), HonestScaffold(0.1, 2), HonestLoss(), Huber(), MLP((3,))],
    ids=lambda p: type(p).__name__,
)  # fmt: skip
def test_authors_of_honest_ones_hear_nothing(part):
    check_independent(part)


def test_what_is_no_part_is_told():
    with pytest.raises(TypeError, match="got DPFedAvgClassifier"):
        check_independent(DPFedAvgClassifier())


def test_a_model_that_does_not_clip_is_told_and_clipped():
    @dataclass(frozen=True)
    class Long(LinearModel):
        def clipped_gradient_sum(self, params, X, y, loss, *, clip_norm, **options):
            return super().clipped_gradient_sum(params, X, y, loss, clip_norm=9.0, **options)

    with pytest.raises(ValueError, match="longer than clip_norm"):
        check_independent(Long(3, 1))
    X, y, _ = records()
    total = one_by_one(Long(3, 1)).clipped_gradient_sum(
        np.zeros(4), 10 * X[:1], y[:1], SquaredError(), clip_norm=0.5
    )
    assert np.linalg.norm(total) <= 0.5
