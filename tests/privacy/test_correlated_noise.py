"""Noise that is correlated over steps, brought from outside: the tree of docs/extending.md."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from skdpfl import DPFederatedClassifier
from skdpfl.algorithms import MinibatchSGD
from skdpfl.engine import run
from skdpfl.federation import Federation, LocalFederation, SiloData, Work
from skdpfl.losses import AbsoluteError
from skdpfl.models import LinearModel
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.mechanisms import ServerGradients, SiloGradients
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import FreshNoise, StepNoise
from skdpfl.privacy.sampling import Disjoint, Everyone, PoissonSampling, WithoutReplacement
from tests.docs.test_snippets import ROOT, snippets
from tests.guaranteed import plan_of as made_plan


def recipe():
    """The classes of the page, not a copy of them."""
    names = {"np": np, "dataclass": dataclass, "__name__": "extending"}
    for code in snippets(Path(ROOT) / "docs" / "extending.md"):
        if "class TreeNoise" in code or "class TreeGradients" in code:
            exec(code, names)
    return names["TreeNoise"], names["TreeGradients"]


TreeNoise, TreeGradients = recipe()
ROUNDS = [1, 2, 3, 7, 8, 31, 32]


def plan_of(sizes, n_rounds, sampling, z=2.0, **kw):
    options = {"mechanism": TreeGradients(), "sampling": sampling} | kw
    numbers = {"steps": (1,) * n_rounds, "clip_norm": 1.0, "noise_multiplier": z, "delta": 1e-5}
    return made_plan(silo_sizes=np.array(sizes), **numbers, **options)


class Impulses:
    """Streams that tell which node a number is from."""

    def __init__(self, n):
        self.n = n

    def stream(self, purpose, silo, node):
        self.node = node
        return self

    def units(self, size, dtype):
        return (np.arange(1, self.n + 1) == self.node).astype(np.int64)


def tree(n):
    """A and M: noise of the steps = A xi, nodes' sums = M k, both by running the recipe."""
    a = TreeNoise(Impulses(n), n).units(np.zeros(1, int), range(n))[:, 0]
    m = np.linalg.inv(a)
    np.testing.assert_allclose(m, np.rint(m), atol=1e-9)
    return a, np.rint(m)


@pytest.mark.parametrize("n", ROUNDS)
def test_released_numbers_follow_from_sums_over_nodes(n):
    """M A = 1 in integers, lower triangular: what part 4 of the proof asks for."""
    a, m = tree(n)
    np.testing.assert_array_equal(m @ a, np.eye(n))
    assert not np.triu(a, 1).any() and not np.triu(m, 1).any()
    for t in range(1, n + 1):  # a node covers as many steps as its lowest binary digit says
        assert np.flatnonzero(m[t - 1]).tolist() == list(range(t - (t & -t), t))


@pytest.mark.parametrize("n", ROUNDS)
def test_the_price_is_the_exact_sensitivity_of_the_tree(n):
    _, m = tree(n)
    exact = {
        Disjoint(n): np.sqrt((m**2).sum(axis=0).max()),
        Everyone(): np.linalg.norm(np.abs(m).sum(axis=1)),
    }
    for sampling, moved in exact.items():
        ((event, count),) = plan_of([64], n, sampling).groups().compositions[0]
        assert (type(event), count) == (Gaussian, 1)
        assert event.noise_multiplier == pytest.approx(2.0 / moved)


class Wire(Federation):
    """Any federation, and what leaves its silos."""

    def __init__(self, inner):
        self.inner, self.sent = inner, []

    n_silos = property(lambda self: self.inner.n_silos)

    def start(self, *args):
        self.inner.start(*args)

    def round(self, *args):
        now = {}
        for silos, messages in self.inner.round(*args):
            now |= dict(zip(silos.tolist(), messages, strict=True))
            yield silos, messages
        self.sent.append([now[silo] for silo in sorted(now)])


def released(plan, X, y, silos, seed=0):
    """The whole units that left the silos, (rounds, silos, size); the model stays where it is."""
    model = LinearModel(X.shape[1], 1, fit_intercept=False)
    data, streams = SiloData.from_codes(X, y, silos, plan.n_silos), streams_for(seed)
    wire = Wire(LocalFederation(data, streams))
    run(Work(model, AbsoluteError(), MinibatchSGD(1e-300), plan, X.dtype), wire, streams)
    noised = plan.mechanism.gradient_terms(plan, model.size, X.dtype).noised
    units = np.array(wire.sent) * plan.expected_sizes[:, None] / noised.grid[:, None]
    np.testing.assert_allclose(units, np.rint(units), atol=0.01)
    return np.rint(units)


def far_apart(n):
    """Records whose gradients are the clip norm long, and the same with one turned round."""
    X, y = np.full((n, 3), 5.0), np.full(n, 9.0)
    for j in range(n):
        other = y.copy()
        other[j] = -9.0
        yield X, y, other


@pytest.mark.parametrize("n", [5, 8])
@pytest.mark.parametrize("sampling", [Everyone(), "disjoint"])
def test_a_record_moves_the_nodes_by_what_is_priced(sampling, n):
    """Neighbours through the engine: one record that joins every round, or any one round.

    The price is attained, up to the share of it that pays for rounding and for the normals' law.
    """
    plan = plan_of([n], n, Disjoint(n) if sampling == "disjoint" else sampling)
    ((event, _),) = plan.groups().compositions[0]
    moved = []
    for X, y, other in far_apart(n):
        ends = [released(plan, X, values, np.zeros(n, int))[:, 0] for values in (y, other)]
        difference = ends[0] - ends[1]
        joined = difference.any(axis=1).sum()
        assert joined == (1 if sampling == "disjoint" else n)
        moved.append(np.linalg.norm(tree(n)[1] @ difference) / 2.0**36)
    priced = 2 / event.noise_multiplier
    assert max(moved) <= (1 - 3.9e-4) * priced
    assert max(moved) >= (1 - 4.1e-4) * priced


def test_fresh_noise_keeps_nothing():
    noise = FreshNoise(streams_for(0), "noise", 3, np.dtype(float))
    assert noise.state(0) == {}
    noise.restore(0, {})
    with pytest.raises(ValueError, match=r"FreshNoise has no state to restore; got \['nodes'\]"):
        noise.restore(0, {"nodes": np.zeros(1)})


# -- through the estimator -----------------------------------------------------------------------


def classifier(**kw):
    options = {
        "n_rounds": 4,
        "scaling": None,
        "mechanism": TreeGradients(),
        "random_state": 0,
        "calibrate": False,
    }
    return DPFederatedClassifier(**(options | kw))


X = np.random.default_rng(0).normal(size=(60, 3))
y = (X[:, 0] > 0).astype(int)
FOUR = np.arange(60) % 4


@pytest.mark.parametrize("how", [{"sampling": "disjoint"}, {"sampling_rate": 1.0}])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_a_fit_meets_its_budget(how, fraction):
    clf = classifier(epsilon=3.0, silo_fraction=fraction, **how).fit(X, y, silos=FOUR)
    spent = clf.privacy_spent_
    assert 0.99 * 3 < spent.epsilon <= 3
    assert spent.n_releases == 4 * fraction
    assert spent.outsider is None  # nothing is proved of sums of correlated noises
    once = 1 + int(spent.n_releases > 1) + int(spent.n_releases > 3)
    lows = [t & -t for t in range(1, spent.n_releases + 1)]
    nodes = once if how.get("sampling") else sum(low**2 for low in lows)
    independent = made_plan(
        silo_sizes=np.array([15]),
        steps=(1,) * nodes,
        clip_norm=1.0,
        noise_multiplier=spent.noise_multiplier,
        delta=1e-3,
    )
    assert independent.spent().epsilon == pytest.approx(spent.epsilon, rel=1e-6)


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement"])
def test_sampling_does_not_amplify_it_and_is_refused(sampling):
    with pytest.raises(ValueError, match='sampling does not amplify privacy; use sampling="disj'):
        classifier(sampling=sampling, sampling_rate=0.2).fit(X, y, silos=FOUR)
    for drawn in (PoissonSampling(0.2), WithoutReplacement(0.2)):
        with pytest.raises(ValueError, match="does not amplify"):
            plan_of([9], 3, drawn)


def test_it_is_for_silos_gradients_of_one_noise_level():
    with pytest.raises(ValueError, match=r"is for unit='record' with trust='silo'; got unit"):
        classifier(trust="server", sampling="disjoint").fit(X, y, silos=FOUR)
    with pytest.raises(ValueError, match="noise_schedule must be None; got"):
        classifier(sampling="disjoint", noise_schedule=("round", 0.9, 1)).fit(X, y, silos=FOUR)
    with pytest.raises(ValueError, match="mechanism must be an object of a subclass of skdpfl"):
        classifier(mechanism="tree").fit(X, y, silos=FOUR)


def test_noise_of_ones_own_needs_a_price_of_its_own():
    with pytest.raises(TypeError, match="Free defines its own noise"):

        class Free(SiloGradients):
            def noise(self, plan, streams, size, dtype):
                return FreshNoise(streams, "noise", size, dtype)


def test_noise_of_ones_own_on_the_servers_sum_is_not_taken_for_that():
    class AtServer(ServerGradients):
        noise, composition = TreeGradients.noise, TreeGradients.composition

    with pytest.raises(ValueError, match=r"AtServer\.noise is the noise on silos' gradients"):
        plan_of([9], 3, Everyone(), trust="server", mechanism=AtServer())


def test_noise_of_another_shape_is_refused():
    class Flat(StepNoise):
        def units(self, silos, steps):
            return np.zeros((len(silos), 3), np.int64)

    class Wrong(TreeGradients):
        noise = staticmethod(lambda *args: Flat())
        composition = TreeGradients.composition

    with pytest.raises(ValueError, match=r"Flat\.units must return shape \(1, 4, 4\)"):
        classifier(mechanism=Wrong(), sampling="disjoint").fit(X, y, silos=FOUR)
