"""A random part of the silos each round, of unequal sizes: what the rounds' mean stands for."""

import itertools

import numpy as np
import pytest

from skdpfl.algorithms import MinibatchSGD, Scaffold
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy.mechanisms import NoPrivacy
from skdpfl.privacy.randomness.streams import streams_for
from tests.guaranteed import plan_of

SIZES = np.array([10, 30, 60, 200])


def problem():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), SIZES)
    X = rng.standard_normal((SIZES.sum(), 3))
    return X, X @ rng.standard_normal(3) + codes - 1.5, codes


def fit(algorithm, schedule, sizes=SIZES, steps=1, **plan):
    """Run some cohorts; returns the model."""
    X, y, codes = problem()
    plan = plan_of(
        silo_sizes=sizes,
        steps=(steps,) * len(schedule),
        clip_norm=np.inf,
        noise_multiplier=0.0,
        delta=1e-5,
        weights=sizes / sizes.sum(),
        schedule=tuple(np.asarray(cohort) for cohort in schedule),
        **{"mechanism": NoPrivacy(), **plan},
    )
    data = SiloData.from_codes(X, y, codes, 4)
    model, streams = LinearModel(3, 1, False), streams_for(0)
    work = Work(model, SquaredError(), algorithm, plan, np.dtype(np.float64))
    return run(work, LocalFederation(data, streams), streams, average=False).params


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_mean_over_cohorts_is_the_gradient_of_the_weighted_objective(size):
    """Lowy and Razaviyayn's unbalanced version: (1/M_r) sum over S_r of N p_i g_i is unbiased."""
    X, y, _ = problem()
    cohorts = list(itertools.combinations(range(4), size))
    moves = [fit(MinibatchSGD(1.0), [cohort]) for cohort in cohorts]
    np.testing.assert_allclose(np.mean(moves, axis=0), X.T @ y / len(y), rtol=1e-12)


def test_scaffolds_control_is_the_weighted_mean_of_the_silos_own():
    """After every silo was in once, in cohorts of unequal weight, c = sum_i w_i g_i(x)."""
    X, y, _ = problem()
    algorithm = Scaffold(0.1, 1, warm_start_rounds=2)
    moved = fit(algorithm, [[0, 3], [1, 2], [0, 1, 2, 3]])
    # in the third round each silo corrects its gradient by c - c_i: the mean move is the gradient
    np.testing.assert_allclose(moved, 0.1 * X.T @ y / len(y), rtol=1e-12)
    # and a cohort of one moves by exactly that too: g_i - c_i + c = c at the same point
    alone = fit(algorithm, [[0, 3], [1, 2], [1]])
    scale = 4 * SIZES[1] / SIZES.sum()
    np.testing.assert_allclose(alone, scale * moved, rtol=1e-12)
