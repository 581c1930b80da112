"""The papers' steps and schedules: by hand, by grids, and on problems with known constants."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from skdpfl import papers
from skdpfl.algorithms import FedAvg, theory
from tests.algorithms.problem import Quadratic

# ----------------------------------------------------------------------------- FedAvg, SCAFFOLD


def test_noble_scaffold_by_hand():
    steps = papers.noble2022_scaffold_steps(
        smoothness=3.0, n_silos=100, silo_rate=0.04, local_steps=5
    )
    assert steps.global_step == pytest.approx(2.0)
    assert steps.local_step == pytest.approx(0.04 ** (2 / 3) / (24 * 3 * 5 * 2))


def test_noble_fedavg_by_hand():
    setting = {"smoothness": 3.0, "n_silos": 100, "silo_rate": 0.09, "local_steps": 5}
    steps = papers.noble2022_fedavg_steps(dissimilarity=2.0, **setting)
    assert steps.global_step == pytest.approx(3.0)
    assert steps.local_step == pytest.approx(1 / (8 * (1 + 4) * 3 * 5 * 3))


def test_noble_experiments_by_hand():
    assert papers.noble2022_local_step(step=0.5, record_rate=0.1, local_steps=20) == 0.25


def test_noble_strongly_convex_by_hand():
    setting = {"smoothness": 3.0, "n_silos": 100, "silo_rate": 0.04, "local_steps": 5}
    steps = papers.noble2022_scaffold_steps(strong_convexity=2.0, **setting)
    assert steps.local_step == pytest.approx(0.04 / (54 * 2 * 5 * 2))
    flat = papers.noble2022_scaffold_steps(strong_convexity=1e-3, **setting)
    assert flat == papers.noble2022_scaffold_steps(**setting)


def test_noble_weights_grow_by_the_contraction_of_a_round():
    steps = papers.StepSizes(2.0, 0.01)
    weights = papers.noble2022_weights(steps, strong_convexity=0.5, local_steps=10, n_rounds=4)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights[:-1] / weights[1:], 1 - 0.5 * 10 * 2.0 * 0.01 / 2)
    many = papers.noble2022_weights(steps, strong_convexity=0.5, local_steps=10, n_rounds=10**5)
    assert np.isfinite(many).all()
    with pytest.raises(ValueError, match=r"StepSizes\(.*are not valid"):
        papers.noble2022_weights(steps, strong_convexity=10.0, local_steps=10, n_rounds=4)


# ----------------------------------------------------------------------------- minibatch SGD


@pytest.mark.parametrize("n, n_silos", [(2, 1), (10, 3), (1000, 25)])
def test_stability_of_strongly_convex_losses(n, n_silos):
    """By hand; and above the mean's excess for mu/2 |w - x|^2 in a ball: mu Var / (2 n M)."""
    radius, mu = 1.5, 0.7
    setting = {"lipschitz": 2 * mu * radius, "strong_convexity": mu}
    bound = papers.lowy2023_stability(**setting, n_records=n, n_silos=n_silos)
    assert bound == pytest.approx(4 * (2 * mu * radius) ** 2 / mu / (n * n_silos - 1))
    assert bound >= mu * radius**2 / (2 * n * n_silos)
    with pytest.raises(ValueError, match="n_silos"):
        papers.lowy2023_stability(**setting, n_records=1, n_silos=1)


CONVEX = {
    "lipschitz": 2.0, "smoothness": 0.1, "diameter": 3.0, "n_records": 1000, "n_silos": 25,
    "n_parameters": 10, "n_rounds": 35, "batch": 100, "epsilon": 1.0, "delta": 1e-6,
}  # fmt: skip


def without(setting, *names):
    return {k: v for k, v in setting.items() if k not in names}


@pytest.mark.parametrize(
    ("change", "by_hand"),
    [
        # sampling: D / (L sqrt R)
        ({}, 3 / (2 * math.sqrt(35))),
        # privacy: epsilon n sqrt M / sqrt(256 R d ln ln) times that
        (
            {"epsilon": 0.2},
            3 / (2 * math.sqrt(35)) * 0.2 * 1000 * 5
            / math.sqrt(256 * 35 * 10 * math.log(2.5 * 35 * 100 / 1e-3) * math.log(2e6)),
        ),
        # stability: sqrt(n M / (4 R)) times that
        (
            {"n_records": 30, "n_silos": 1, "batch": 30, "epsilon": 1e4},
            3 / (2 * math.sqrt(35)) * math.sqrt(30 / 140),
        ),
        ({"smoothness": 50.0}, 1 / 50),
    ],
)  # fmt: skip
def test_lowy_step_by_hand(change, by_hand):
    assert papers.lowy2023_step(**(CONVEX | change)) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("n_records", [100, 1000])
def test_lowy_step_nearly_minimises_the_bound(epsilon, n_records):
    """The minimum of the three terms' own best steps costs at most (1/sqrt 3 + sqrt 3)/2."""
    setting = CONVEX | {"epsilon": epsilon, "n_records": n_records}
    step = papers.lowy2023_step(**setting)
    bounded = without(setting, "smoothness")
    grid = [papers.lowy2023_bound(step * x, **bounded) for x in np.geomspace(0.1, 10, 201)]
    assert papers.lowy2023_bound(step, **bounded) <= 1.155 * min(grid)


def test_lowy_rounds_by_hand():
    setting = without(CONVEX, "n_rounds", "batch")
    private = 1000 / math.sqrt(10 * math.log(1e6))
    assert private**2 * 25 < 25_000 * 8
    many = max(0.1 * 3 / 2 * 5 * min(math.sqrt(1000), private), 25 * min(1000, private**2))
    assert papers.lowy2023_rounds(**setting) == math.ceil(many)
    steep = setting | {"smoothness": 1e4}
    assert papers.lowy2023_rounds(**steep) == math.ceil(1e4 * 3 / 2 * 5 * math.sqrt(1000))


def test_effective_silos_by_hand():
    """Convexity: never more than the mean, and equal to it where nothing varies."""
    M, M_prime = theory.effective_silos([1, 2, 4])
    assert pytest.approx(3 / (1 + 0.5 + 0.25)) == M
    assert M_prime == pytest.approx(math.sqrt(3 / (1 + 0.25 + 0.0625)))
    assert theory.effective_silos([5, 5]) == pytest.approx((5, 5))
    with pytest.raises(ValueError, match="counts="):
        theory.effective_silos([0, 3])


# ----------------------------------------------------------------------------- strong convexity


@pytest.mark.parametrize("n_rounds", [1, 2, 3, 10, 101, 1000])
@pytest.mark.parametrize(("mu", "largest"), [(1.0, 0.5), (0.1, 0.5), (2.0, 0.01)])
def test_stich_schedule_by_loop(n_rounds, mu, largest):
    g, steps, weights = 1 / largest, [], []
    for t in range(n_rounds):
        if n_rounds <= g / mu:
            steps.append(largest)
            weights.append((1 - mu / g) ** -(t + 1))
        elif t < math.ceil(n_rounds / 2):
            steps.append(largest)
            weights.append(0.0)
        else:
            place = 2 * g / mu + t - math.ceil(n_rounds / 2)
            steps.append(2 / (mu * place))
            weights.append(place**2)
    settings = {"strong_convexity": mu, "largest_step": largest}
    own_steps, own_weights = theory.stich2019_schedule(n_rounds=n_rounds, **settings)
    np.testing.assert_allclose(own_steps, steps, rtol=1e-12)
    if sum(weights) > 0:
        np.testing.assert_allclose(own_weights, np.divide(weights, sum(weights)), rtol=1e-9)
    assert np.all(own_steps <= largest * (1 + 1e-12))
    assert own_weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_rounds", [3, 30, 300])
@pytest.mark.parametrize("mu", [0.9, 0.1, 0.01])
def test_stich_lemma_holds(seed, n_rounds, mu):
    """Any sequence that obeys the recursion with equality, excesses at random."""
    rng = np.random.default_rng(seed)
    settings = {"strong_convexity": mu, "largest_step": 0.5}
    steps, weights = theory.stich2019_schedule(n_rounds=n_rounds, **settings)
    c, r = rng.uniform(0, 2), 10.0
    first, excesses = r, []
    for step in steps:
        most = (1 - mu * step) * r / step + c * step  # keeps r at least 0
        excesses.append(rng.choice([0.0, 0.5, 1.0]) * most)
        r = (1 - mu * step) * r - step * excesses[-1] + c * step**2
    bound = papers.stich2019_bound(
        n_rounds=n_rounds, strong_convexity=mu, largest_step=0.5, squared_distance=first, noise=c
    )
    assert weights @ excesses + mu * r <= bound


def test_stich_survives_many_rounds():
    """Weights grow geometrically when the rounds are few for the conditioning: no overflow."""
    settings = {"strong_convexity": 1e-5, "largest_step": 0.99}
    _, weights = theory.stich2019_schedule(n_rounds=100_000, **settings)
    assert np.all(np.isfinite(weights))
    with pytest.raises(ValueError, match=r"largest_step=2\.0 is not valid; it must be below"):
        theory.stich2019_schedule(n_rounds=3, strong_convexity=1.0, largest_step=2.0)


# ----------------------------------------------------------------------------- AC-SA


def excess(curvature, w):
    return (curvature * w**2).sum(axis=-1) / 2


def test_acsa_scale_is_the_best():
    problem = {"n_rounds": 20, "variance": 5.0, "squared_distance": 2.0}
    best = theory.acsa_scale(smoothness=0.01, **problem)
    grid = [papers.acsa_bound(scale=best * x, **problem) for x in (0.9, 0.99, 1.01, 1.1)]
    assert papers.acsa_bound(scale=best, **problem) < min(grid)
    assert theory.acsa_scale(smoothness=1e6, **problem) == 2e6


@pytest.mark.parametrize("n_rounds", [1, 7, 8, 9, 100, 5000])
def test_multistage_keeps_to_the_rounds(n_rounds):
    problem = {"smoothness": 2, "strong_convexity": 1, "variance": 0.3, "excess": 1}
    stages = theory.multistage(n_rounds=n_rounds, **problem)
    spent = sum(stage.n_rounds for stage in stages)
    assert 1 <= spent <= n_rounds
    longer = theory.multistage(n_rounds=10 * n_rounds + 1000, **problem)
    assert spent + longer[len(stages)].n_rounds > n_rounds
    for k, stage in enumerate(stages, start=1):
        R = stage.n_rounds
        noisy = math.sqrt(0.3 * R * (R + 1) * (R + 2) / (3 * 2.0 ** (1 - k)))
        assert stage.scale == pytest.approx(max(4, noisy))


@pytest.mark.parametrize(("N", "M"), [(1, 1), (5, 1), (5, 2), (5, 5)])
def test_gradient_variance_of_drawn_silos(N, M):
    """The heterogeneity term is the exact variance of a mean drawn without replacement."""
    means = np.random.default_rng(2).normal(size=(N, 3))
    upsilon = np.square(means - means.mean(axis=0)).sum(axis=1).mean()
    draws = np.array([means[list(s)].mean(axis=0) for s in itertools.combinations(range(N), M)])
    exact = np.square(draws - means.mean(axis=0)).sum(axis=1).mean()
    setting = {"lipschitz": 2.0, "batch": 8, "n_silos": N, "silos_per_round": M}
    ours = papers.gradient_variance(
        noise=0.5, n_parameters=3, heterogeneity=float(upsilon), **setting
    )
    assert ours == pytest.approx(4 / (M * 8) + exact + 3 * 0.25 / M)


# ----------------------------------------------------------------------------- round counts

COUNTS = {
    "lipschitz": 2.0, "smoothness": 0.5, "n_records": 1000, "n_silos": 25, "silos_per_round": 9,
    "n_parameters": 10, "batch": 100, "epsilon": 1.0, "delta": 1e-6,
}  # fmt: skip
PRIVATE = 1000 / math.sqrt(10 * math.log(1e6))


def test_accelerated_rounds_by_hand():
    noisy = papers.lowy2023_accelerated_rounds(diameter=3.0, **COUNTS)
    assert noisy == math.ceil(max(math.sqrt(0.5 * 3 / 2 * 3 * PRIVATE), PRIVATE**2 / 100))
    full = COUNTS | {"silos_per_round": 25, "batch": 1000}
    quiet = papers.lowy2023_accelerated_rounds(diameter=3.0, **full)
    assert quiet == math.ceil(math.sqrt(0.5 * 3 / 2 * 5 * PRIVATE))


def test_multistage_rounds_by_hand():
    full = COUNTS | {"silos_per_round": 25, "batch": 1000}
    rounds = papers.lowy2023_multistage_rounds(strong_convexity=0.02, excess=4.0, **full)
    assert rounds == math.ceil(5 * math.log(4 * 0.02 * 25 * 1e6 / (4 * 10)))
    partly = papers.lowy2023_multistage_rounds(strong_convexity=0.02, excess=4.0, **COUNTS)
    assert partly == math.ceil(max(5 * math.log(4 * 0.02 * 9 * 1e6 / (4 * 10)), PRIVATE**2 / 100))
    hopeless = full | {"epsilon": 1e-6}
    assert papers.lowy2023_multistage_rounds(strong_convexity=0.02, excess=4, **hopeless) == 1


def test_one_pass_rounds_nearly_minimise_the_rate():
    """beta D^2/R^2 + s D/sqrt R, with the one-pass noise of batches n/R, on a grid of R."""
    setting = without(COUNTS, "silos_per_round", "batch") | {"epsilon": 20.0, "smoothness": 50.0}
    best = theory.lowy2023_one_pass_rounds(diameter=3.0, **setting)

    def rate(R):
        sigma = 2 * math.sqrt(32 * math.log(1e6)) * R / (1000 * 20)
        return 50 * 9 / R**2 + sigma * math.sqrt(10 / 25) * 3 / math.sqrt(R)

    assert 1 < best < 1000
    assert rate(best) <= 1.05 * min(map(rate, range(1, 1001)))


def test_one_pass_rounds_stay_within_the_records():
    setting = without(COUNTS, "silos_per_round", "batch")
    assert theory.lowy2023_one_pass_rounds(diameter=1e-9, **setting) == 1
    assert theory.lowy2023_one_pass_rounds(diameter=1e9, **setting) == 1000


def test_smoothing_by_hand():
    setting = without(COUNTS, "silos_per_round", "batch", "smoothness")
    convex = theory.lowy2023_smoothing(diameter=4.0, **setting)
    assert convex == pytest.approx(2 / 4 * 5 * min(math.sqrt(1000), PRIVATE))
    strongly = theory.lowy2023_smoothing(strong_convexity=0.1, **(setting | {"epsilon": 0.1}))
    assert strongly == pytest.approx(0.1 * 25 * (0.1 * PRIVATE) ** 2)
    with pytest.raises(ValueError, match="give exactly one"):
        theory.lowy2023_smoothing(**setting)
    with pytest.raises(ValueError, match="give exactly one"):
        theory.lowy2023_smoothing(diameter=1.0, strong_convexity=1.0, **setting)


def test_regularisation_balances_the_bound():
    """With lambda = s/(2 D sqrt R) the penalty costs at most lambda D^2/2 = s D/(4 sqrt R)."""
    penalty = papers.lowy2023_regularisation(variance=9.0, diameter=2.0, n_rounds=16)
    assert penalty * 2.0**2 / 2 == pytest.approx(3 * 2 / (4 * 4))


# ----------------------------------------------------------------------------- all of them


@pytest.mark.parametrize(
    ("function", "setting", "message"),
    [
        (papers.lowy2023_step, CONVEX | {"batch": 2000}, r"batch .* \[1, 1000\]; got 2000"),
        (papers.lowy2023_step, CONVEX | {"diameter": -1}, r"diameter .* \(0, inf\); got -1"),
        (papers.gradient_variance, {"lipschitz": 1, "batch": 1, "n_silos": 3,
                                    "silos_per_round": 4, "noise": 0, "n_parameters": 1},
         r"silos_per_round .* \[1, 3\]; got 4"),
        (papers.acsa_bound, {"n_rounds": 0, "scale": 1.0, "variance": 1, "squared_distance": 1},
         "n_rounds .* got 0"),
        (papers.noble2022_local_step, {"step": 1, "record_rate": 2, "local_steps": 1},
         r"record_rate .* \(0, 1\]; got 2"),
    ],
)  # fmt: skip
def test_bad_input_is_named(function, setting, message):
    with pytest.raises(ValueError, match=message):
        function(**setting)


# ----------------------------------------------------------------------------- local steps

SPLITS = [(1, 24), (2, 12), (6, 4), (24, 1)]


def curved(curvatures, seed=0, drift=2.0):
    """A problem whose silos have multiples of one Hessian, and its constants."""
    made = Quadratic.make([1.0, 0.3, 0.05], n_silos=len(curvatures), drift=drift, seed=seed)
    factors = np.sqrt(np.asarray(curvatures, float))[made.codes]
    made = dataclasses.replace(made, X=made.X * factors[:, None], y=made.y * factors)
    rows = [made.codes == i for i in range(made.n_silos)]
    hessians = np.array([made.X[r].T @ made.X[r] / r.sum() for r in rows])
    optima = np.array([np.linalg.lstsq(made.X[r], made.y[r], rcond=None)[0] for r in rows])
    return made, {"hessians": hessians, "optima": optima, "start": np.zeros(3), "step": 0.4}


def excess_of(params, setting):
    """The mean of the silos' objectives, over its least value."""

    def mean(w):
        off = w - setting["optima"]
        return np.einsum("ia,iab,ib->", off, setting["hessians"], off) / 2 / len(off)

    normal = np.einsum("iab,ib->a", setting["hessians"], setting["optima"])
    return mean(params) - mean(np.linalg.solve(setting["hessians"].sum(0), normal))


@pytest.mark.parametrize(("local_steps", "n_rounds"), SPLITS)
@pytest.mark.parametrize("curvatures", [(1, 1, 1, 1), (0.2, 1, 2, 0.8)], ids=["alike", "unlike"])
def test_local_steps_excess_is_what_runs_have(curvatures, local_steps, n_rounds):
    made, setting = curved(curvatures)
    found = made.run(FedAvg(0.4, local_steps), made.plan(n_rounds, local_steps), average=False)
    split = {"local_steps": local_steps, "n_rounds": n_rounds}
    excess = papers.local_steps_excess(**setting, **split, noise=0.0)
    assert excess.of_mean == pytest.approx(excess_of(found, setting), rel=1e-9)
    assert excess.of_noise == 0


@pytest.mark.slow
@pytest.mark.parametrize(("local_steps", "n_rounds"), [(1, 24), (6, 4)])
def test_local_steps_excess_counts_noise(local_steps, n_rounds):
    """A mean of 400 runs: off by 5.5 standard errors once in 2e7 tests."""
    made, setting = curved((0.2, 1, 2, 0.8))
    plan = made.plan(n_rounds, local_steps, noise=0.7, clip_norm=1e4)
    algorithm = FedAvg(0.4, local_steps)
    runs = [made.run(algorithm, plan, seed=seed, average=False) for seed in range(400)]
    seen = np.array([excess_of(params, setting) for params in runs])
    split = {"local_steps": local_steps, "n_rounds": n_rounds}
    excess = papers.local_steps_excess(**setting, **split, noise=0.7)
    assert excess.of_noise > 0.1 * excess.of_mean
    assert abs(seen.mean() - sum(excess)) < 5.5 * seen.std() / math.sqrt(len(seen))


def test_a_first_stage_that_never_ends_is_cut():
    given = {"smoothness": 1.0, "strong_convexity": 1e-300, "variance": 1e18, "excess": 1.0}
    (stage,) = theory.multistage(n_rounds=7, **given)
    assert stage.n_rounds == 7
