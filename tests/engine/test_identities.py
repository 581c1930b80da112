"""What algorithms share: SCAFFOLD's invariant, and methods that coincide in special cases."""

import numpy as np
import pytest

from skdpfl.engine import run
from skdpfl.privacy.mechanisms import ServerGradients
from skdpfl.privacy.randomness.streams import streams_for
from tests.engine.reference import Setting
from tests.engine.settings import Watched, federation_of, problem, run_rounds, work_of

SIZES = np.array([5, 9, 2, 6])


def setting(**kw):
    options = {"n_rounds": 6, "steps": [1] * 6, "lr": 0.4, "clip": 0.8, "z": [0.5] * 4}
    return Setting(**(options | {"weights": SIZES / SIZES.sum()} | kw))


COHORTS = {
    "everyone": None,
    "partial": [[0, 2], [1, 2, 3], [1], [0, 3], [0, 1, 2, 3], [2]],
    "empty": [[0, 2], [], [1], [], [0, 1, 3], [2]],
}


@pytest.mark.parametrize("unit", ["record", "silo"])
@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("cohorts", COHORTS)
def test_the_servers_control_is_the_mean_of_the_silos(cohorts, weights, unit, monkeypatch):
    w = SIZES / SIZES.sum() if weights == "size" else np.full(4, 0.25)
    s = setting(steps=[3, 1, 2, 2, 1, 3], cohorts=COHORTS[cohorts], weights=w)
    if unit == "silo":  # messages are clipped, and remembered so, without the noise
        s.z = None
    p = problem()
    silo = {"unit": "silo", "noise_multiplier": 1e-7, "clip_norm": 0.5, "mechanism": None}
    work = work_of("scaffold", p, s, **(silo if unit == "silo" else {}))
    servers = []
    algorithm_type = type(work.algorithm)
    for method in ("aggregate", "idle"):
        original = getattr(algorithm_type, method)

        def watch(self, *args, original=original):
            servers.append(original(self, *args))
            return servers[-1]

        monkeypatch.setattr(algorithm_type, method, watch)
    federation = Watched(federation_of(p))
    run(work, federation, streams_for(0))
    assert len(servers) == 6
    controls = iter(federation.memories)
    last = np.zeros((4, p.size))
    for r, state in enumerate(servers):
        if cohorts != "empty" or len(s.cohorts[r]):
            last = next(controls)
        noise = 0 if unit == "record" else 2e-6
        np.testing.assert_allclose(state.control, w @ last, rtol=1e-9, atol=1e-12 + noise)
    assert np.abs(state.control).max() > 0.01


def test_nothing_is_remembered_from_an_earlier_fit():
    p, s = problem(), setting(steps=[2] * 6)
    federation = federation_of(p)
    first = run_rounds("scaffold", p, s, federation=federation)
    assert np.array_equal(run_rounds("scaffold", p, s, federation=federation), first)


def test_noise_that_is_secret_is_for_one_fit():
    """The same noise at clip norms C and C / 2 cancels: sum_1 - 2 sum_2 has none."""
    p, streams = problem(), streams_for(None)
    work, secret = work_of("minibatch", p, setting()), federation_of(p, seed=None)
    run(work, secret, streams)
    for who, again in (("the silos", secret), ("the server", federation_of(p))):
        with pytest.raises(ValueError, match=f"a second one of {who} would add the same noise"):
            run(work, again, streams)
    exact, secret = work_of("minibatch", p, setting(z=None)), federation_of(p, seed=None)
    for _ in range(2):
        run(exact, secret, streams)


@pytest.mark.parametrize("name", ["fedavg", "scaffold"])
def test_noise_on_the_sum_is_refused_for_local_steps(name):
    p, s = problem(), setting(z=None, on_sum=0.1, steps=[2] * 6)
    with pytest.raises(ValueError, match='trust="server"'):
        run(work_of(name, p, s), federation_of(p), streams_for(0))


@pytest.mark.parametrize("calls", [1, 3])
def test_an_algorithm_that_declares_the_wrong_number_of_gradients_fails(calls):
    from dataclasses import replace

    from skdpfl.algorithms import FedAvg

    class Greedy(FedAvg):
        def local(self, shared, memory, gradient):
            return sum(gradient(shared) for _ in range(calls))

    p, s = problem(), setting(steps=[2] * 6)
    work = replace(work_of("fedavg", p, s), algorithm=Greedy(0.1, 2))
    with pytest.raises(RuntimeError, match="declared 2 private gradients"):
        run(work, federation_of(p), streams_for(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_that_are_noised_later_are_bounded_whatever_the_model(monkeypatch, dtype):
    """A diverging fit with a penalty: what meets the noise is clipped gradients alone."""
    p = problem(alpha=1.0)
    s = setting(z=None, on_sum=0.1, lr=1e7)
    totals, original = [], ServerGradients.release

    def release(self, plan, aggregate, round, keys):
        totals.append(np.abs(aggregate.total).max())
        return original(self, plan, aggregate, round, keys)

    monkeypatch.setattr(ServerGradients, "release", release)
    work, seen = work_of("minibatch", p, s, dtype), []
    run(
        work,
        federation_of(p, dtype),
        streams_for(0),
        average=False,
        on_round=lambda r, x: seen.append(np.abs(x).max()),
    )
    plan = work.plan
    assert max(seen) > 1e30  # beyond any integer that the sum could be released in
    assert max(totals) <= float(plan.record_shares @ plan.largest_batches) * plan.clip_norm
