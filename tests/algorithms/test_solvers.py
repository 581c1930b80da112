"""Every solver finds the optimum without noise and keeps its published bound with it."""

import math

import numpy as np
import pytest

from skdpfl import algorithms, papers
from skdpfl.algorithms.theory import Stage
from tests.algorithms.problem import Quadratic

#: all silos have one optimum
EQUAL = Quadratic.make([1.0, 0.5, 0.2], seed=2)
EASY = Quadratic.make([1.0, 0.5, 0.2], drift=0.3)
HARD = Quadratic.make(np.geomspace(1, 1e-3, 6), seed=1)
BETA = 1.0


# ------------------------------------------------------------------ published bounds, with noise

N_RUNS = 30


def mean_excess(problem, solver, plan, n_runs=N_RUNS, average=True):
    """Mean over seeds, and five standard errors: above a true mean with probability < 3e-7."""
    excess = [problem.excess(problem.run(solver, plan, s, average)) for s in range(n_runs)]
    return float(np.mean(excess)), 5 * float(np.std(excess) / math.sqrt(n_runs))


@pytest.mark.parametrize("noise", [0.05, 0.5])
@pytest.mark.parametrize("problem", [EASY, HARD], ids=["easy", "hard"])
def test_accelerated_keeps_ghadimi_and_lans_bound(problem, noise):
    n_rounds, d, silos = 40, len(problem.optimum), problem.n_silos
    constants = {
        "n_rounds": n_rounds,
        "variance": d * noise**2 / silos,
        "squared_distance": problem.squared_distance,
    }
    scale = algorithms.theory.acsa_scale(smoothness=BETA, **constants)
    plan = problem.plan(n_rounds, noise=noise, clip_norm=1e3)
    mean, error = mean_excess(problem, algorithms.AcceleratedSGD(scale), plan)
    assert mean + error < papers.acsa_bound(scale=scale, **constants)
    # and the bound is about this solver: plain steps of the same first length do not reach it
    assert mean > 1e-3 * papers.acsa_bound(scale=scale, **constants)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_minibatch_keeps_lowy_and_razaviyayns_bound(epsilon):
    problem, n_rounds = Quadratic.make([1.0, 0.5, 0.2], n_silos=5, n=100, seed=3), 50
    d, n, diameter = 3, 100, 2 * math.sqrt(problem.squared_distance)
    lipschitz = problem.gradient_norm(diameter / 2)
    logs = math.log(2.5 * n_rounds / 1e-5) * math.log(2e5)
    noise = 16 * lipschitz * math.sqrt(n_rounds * logs) / (epsilon * n)
    constants = {
        "lipschitz": lipschitz, "diameter": diameter, "n_records": n, "n_silos": 5,
        "n_parameters": d, "n_rounds": n_rounds, "batch": n, "epsilon": epsilon, "delta": 1e-5,
    }  # fmt: skip
    step = papers.lowy2023_step(smoothness=BETA, **constants)
    ball = algorithms.Ball(diameter / 2)
    solver = algorithms.MinibatchSGD(
        step, projection=ball, output_weights=(0.0, *(1.0,) * n_rounds)
    )
    plan = problem.plan(n_rounds, noise=noise, clip_norm=lipschitz)
    mean, error = mean_excess(problem, solver, plan)
    assert mean + error < papers.lowy2023_bound(step, **constants)


def test_local_sgd_keeps_khaled_mishchenko_and_richtariks_bounds():
    """Theorems 2 and 4 of "Tighter theory for local SGD" (2020): equal and differing silos."""
    steps, n_rounds, noise = 4, 20, 0.3
    for problem, drift in ((Quadratic.make([1.0, 0.3], seed=4), 0.0), (EASY, 0.3)):
        step = 1 / (8 * BETA * steps)
        solver = algorithms.LocalSGD(step, steps)
        plan = problem.plan(n_rounds, steps, noise=noise, clip_norm=1e3)
        mean, error = mean_excess(problem, solver, plan)
        d, silos = len(problem.optimum), problem.n_silos
        variance, distance = d * noise**2, problem.squared_distance / (step * steps * n_rounds)
        if not drift:
            bound = 2 * distance + 2 * step * variance / silos
            bound += 4 * step**2 * BETA * variance * (steps - 1)
        else:
            centers = np.array([problem.own_gradient(i) for i in range(silos)])
            spread = variance + float(np.square(centers).sum(axis=1).mean())
            bound = 4 * distance + 20 * step * spread / silos
            bound += 16 * step**2 * BETA * (steps - 1) ** 2 * spread
        assert mean + error < bound


# ------------------------------------------------------------------ by hand


@pytest.mark.parametrize("mu", [0.005, 0.2])  # every model counts, or those of the second half
def test_stichs_weights_are_those_of_the_models_before_each_round(mu):
    n_rounds = 12
    steps, weights = algorithms.theory.stich2019_schedule(
        n_rounds=n_rounds + 1, strong_convexity=mu, largest_step=0.5
    )
    steps = steps[:-1]
    x, before = np.zeros(3), []
    for step in steps:
        before.append(x)
        x = x - step * EQUAL.eigenvalues * (x - EQUAL.optimum)
    before.append(x)  # a thirteenth round, if there were one, would begin here
    expected = sum(w * x for w, x in zip(weights, before, strict=True))
    solver = algorithms.MinibatchSGD(tuple(steps.tolist()), output_weights=tuple(weights.tolist()))
    found = EQUAL.run(solver, EQUAL.plan(n_rounds))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    moved = sum(w * x for w, x in zip(weights[:-1], before[1:], strict=True)) / weights[:-1].sum()
    assert not np.allclose(moved, expected, rtol=1e-4)
    # a number of last rounds overrules the weights
    last = EQUAL.run(solver, EQUAL.plan(n_rounds), average=2)
    np.testing.assert_allclose(last, (before[-1] + before[-2]) / 2, rtol=1e-10)


@pytest.mark.parametrize(
    "stages",
    [(Stage(9, 2.0),), (Stage(4, 2.0), Stage(3, 3.0), Stage(6, 2.5))],
    ids=["accelerated", "multistage"],
)
def test_accelerated_averages_are_those_of_an_independent_loop(stages):
    """The average has the weights 1, 2, ... of the last stage's iterates x_1, x_2, ..."""
    mu, n_rounds = 0.2, sum(stage.n_rounds for stage in stages)
    ag = np.zeros(3)
    for stage in stages:
        x, iterates = ag, []
        for r in range(1, stage.n_rounds + 1):
            a, e = 2 / (r + 1), 4 * stage.scale / (r * (r + 1))
            mixed = (1 - a) * (mu + e) * ag + a * ((1 - a) * mu + e) * x
            middle = mixed / (e + (1 - a**2) * mu)
            gradient = EASY.eigenvalues * (middle - EASY.optimum)
            # x minimises a [<g, x> + mu/2 |middle - x|^2] + [(1-a) mu + e] / 2 |x_before - x|^2
            x = (a * mu * middle + ((1 - a) * mu + e) * x - a * gradient) / (mu + e)
            iterates.append(x)
            ag = np.average(iterates, axis=0, weights=np.arange(1, r + 1))
    plan = EASY.plan(n_rounds)
    for aggregated, expected in ((True, ag), (False, x)):
        solver = algorithms.MultistageSGD(stages, mu, aggregated=aggregated)
        np.testing.assert_allclose(EASY.run(solver, plan), expected, rtol=1e-12)
        if len(stages) == 1:
            alone = algorithms.AcceleratedSGD(stages[0].scale, mu, aggregated=aggregated)
            np.testing.assert_allclose(EASY.run(alone, plan), expected, rtol=1e-12)


def test_multistage_starts_anew_from_the_last_aggregate():
    stages = (Stage(3, 2.0), Stage(4, 5.0))
    both = algorithms.MultistageSGD(stages, 0.2)
    plan = EASY.plan(7, noise=0.2, clip_norm=1e3)
    state, other = both.init(np.zeros(3)), None
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((7, 3))
    for r, g in enumerate(gradients):
        if r in (0, 3):
            alone = algorithms.AcceleratedSGD(stages[r // 3].scale, 0.2)
            other = alone.init(both.params(state))
        np.testing.assert_array_equal(both.broadcast(state), alone.broadcast(other))
        state, other = (
            both.aggregate(state, algorithms.Released(g)),
            alone.aggregate(other, algorithms.Released(g)),
        )
    np.testing.assert_array_equal(both.params(state), alone.params(other))
    assert np.isfinite(EASY.run(both, plan)).all()


@pytest.mark.parametrize(
    "solver",
    [algorithms.AcceleratedSGD(2.0), algorithms.MultistageSGD((Stage(4, 2.0),) * 3, 0.2)],
    ids=["accelerated", "multistage"],
)
def test_a_round_without_silos_does_not_count(solver):
    state = solver.aggregate(solver.init(np.zeros(3)), algorithms.Released(np.ones(3)))
    idle = solver.idle(state)
    assert np.array_equal(solver.broadcast(idle), solver.broadcast(state))
