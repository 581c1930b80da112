"""What the theorems promise: bounds on the excess loss over epsilon, at the theorems' own noise.

25 silos of 1238 records, 51 parameters (as MNIST), losses 1-Lipschitz and 0.25-smooth, a domain of
diameter 10; strongly convex: with modulus 0.01. Rounds are the theorems', whose constants are 1.
"shuffled": theorems 5.1 and 5.2, the same bounds at the noise that this library adds behind a
shuffler, minibatch SGD in at most 300 rounds. "lower bound": theorem 2.2, with constants (strongly
convex: on a domain of diameter 100). "order": figure 3, the paper's table of rates, constants 1:
below which nobody gets where each silo adds the noise, a trusted server, or each record. No data. A
bound above the loss of the zero model, 0.69, says nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from functools import partial

from _common.cells import Figure, known

from skdpfl import ISRLDPClassifier, papers
from skdpfl.algorithms.theory import acsa_scale, lowy2023_one_pass_rounds, multistage

N, D, SILOS, DELTA = 1238, 51, 25, 1 / 1238**2
LIPSCHITZ, SMOOTHNESS, DIAMETER, MODULUS, EXCESS = 1.0, 0.25, 10.0, 0.01, math.log(2)
BUDGET = {"n_records": N, "n_parameters": D, "delta": DELTA}
CONVEX = {"lipschitz": LIPSCHITZ, "smoothness": SMOOTHNESS, "diameter": DIAMETER}
SHUFFLED_ROUNDS, NOISE_BY = (30, 300), ("record", "silo", "server")
ALL = {"n_silos": SILOS, "silos_per_round": SILOS}


def noise(epsilon: float, n_rounds: int) -> tuple[float, int]:
    """Return the theorem's noise and batches."""
    setting = {"epsilon": epsilon, "delta": DELTA, "n_records": N, "n_rounds": n_rounds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = min(N, math.ceil(papers.lowy2023_batch(**setting, form="theory")))
        sigma = papers.lowy2023_sigma(**setting, batch=batch, lipschitz=LIPSCHITZ, form="theory")
    return sigma, batch


def variance(sigma: float, batch: int) -> float:
    """Return s^2 of the mean of all silos' noisy gradients."""
    known = {"lipschitz": LIPSCHITZ, "n_parameters": D} | ALL
    return papers.gradient_variance(batch=batch, noise=sigma, **known)


def minibatch(epsilon: float) -> float:
    """Return the bound of noisy minibatch SGD."""
    n_rounds = papers.lowy2023_rounds(**CONVEX, **BUDGET, n_silos=SILOS, epsilon=epsilon)
    _, batch = noise(epsilon, n_rounds)
    known = {"n_silos": SILOS, "n_rounds": n_rounds, "batch": batch, "epsilon": epsilon} | BUDGET
    step = papers.lowy2023_step(**CONVEX, **known)
    return papers.lowy2023_bound(step, lipschitz=LIPSCHITZ, diameter=DIAMETER, **known)


def accelerated(epsilon: float) -> float:
    """Return the bound of accelerated minibatch SGD on the loss with the theorem's penalty."""
    rounds = partial(papers.lowy2023_accelerated_rounds, **CONVEX, **BUDGET, **ALL, epsilon=epsilon)
    _, batch = noise(epsilon, rounds(batch=N))
    n_rounds = rounds(batch=batch)
    return smooth(n_rounds, variance(noise(epsilon, n_rounds)[0], batch))


def one_pass(epsilon: float) -> float:
    """Return the bound of accelerated SGD in one pass over the records."""
    n_rounds = lowy2023_one_pass_rounds(**CONVEX, **BUDGET, n_silos=SILOS, epsilon=epsilon)
    setting = {"epsilon": epsilon, "delta": DELTA, "n_records": N, "n_rounds": n_rounds}
    batch = N // n_rounds
    sigma = papers.lowy2023_sigma(**setting, batch=batch, lipschitz=LIPSCHITZ, form="one pass")
    return smooth(n_rounds, variance(sigma, batch))


@functools.cache
def shuffled(epsilon: float, n_rounds: int, **solver: str) -> float:
    """Return the noise of one silo that the mean has behind a shuffler, for clip norm 1."""
    model = ISRLDPClassifier(
        epsilon, delta=DELTA, trust="shuffler", n_rounds=n_rounds, clip_norm=LIPSCHITZ,
        scaling=None, fit_intercept=False, **solver,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 25 silos hide little at a large epsilon
        plan = model.plan_for(silo_sizes=[N] * SILOS, n_features=D)
    return plan.mechanism.noise_on_mean(plan) * math.sqrt(SILOS)


def minibatch_shuffled(epsilon: float) -> float:
    """Return the least bound of minibatch SGD on whole silos, over rounds and steps."""
    found = []
    for n_rounds in SHUFFLED_ROUNDS:
        noise = shuffled(epsilon, n_rounds)
        known = {"n_silos": SILOS, "n_rounds": n_rounds, "batch": N, "epsilon": epsilon} | BUDGET
        bound = partial(
            papers.lowy2023_bound, lipschitz=LIPSCHITZ, diameter=DIAMETER, noise=noise, **known
        )
        slope = bound(1.0) - DIAMETER**2 / (2 * n_rounds)  # D^2 / (2 eta R) + slope eta
        best = DIAMETER / math.sqrt(2 * n_rounds * slope)
        found.append(bound(min(1 / SMOOTHNESS, best)))
    return min(found)


def one_pass_shuffled(epsilon: float) -> float:
    """Return the bound of accelerated SGD in one pass, of sums of bits."""
    n_rounds = lowy2023_one_pass_rounds(**CONVEX, **BUDGET, n_silos=SILOS, epsilon=epsilon)
    sigma = shuffled(epsilon, n_rounds, solver="accelerated", sampling="disjoint")
    return smooth(n_rounds, variance(sigma, N // n_rounds))


def least(epsilon: float, setting: str, noise_by: str | None) -> float:
    """Return what nobody gets below, or its order."""
    known = {"strong_convexity": MODULUS} if "strongly" in setting else {"diameter": DIAMETER}
    known |= {"lipschitz": LIPSCHITZ, "n_records": N, "n_silos": SILOS, "n_parameters": D}
    if noise_by is None:
        return papers.lowy2023_lower_bound(epsilon=epsilon, delta=DELTA, **known)
    return papers.lowy2023_rate(epsilon=epsilon, noise_by=noise_by, **known)


def smooth(n_rounds: int, s2: float) -> float:
    """Return AC-SA's bound, and what the penalty costs at most."""
    penalty = papers.lowy2023_regularisation(variance=s2, diameter=DIAMETER, n_rounds=n_rounds)
    problem = {"n_rounds": n_rounds, "variance": s2, "squared_distance": DIAMETER**2}
    scale = acsa_scale(smoothness=SMOOTHNESS + penalty, **problem)
    return papers.acsa_bound(scale=scale, **problem) + penalty * DIAMETER**2 / 2


def strongly_convex(epsilon: float) -> float:
    """Return the bound of minibatch SGD with Stich's steps."""
    n_rounds = papers.lowy2023_rounds(**CONVEX, **BUDGET, n_silos=SILOS, epsilon=epsilon)
    sigma, _ = noise(epsilon, n_rounds)
    moment = LIPSCHITZ**2 + D * sigma**2 / SILOS
    return papers.stich2019_bound(
        n_rounds=n_rounds, strong_convexity=MODULUS, largest_step=1 / (2 * SMOOTHNESS),
        squared_distance=DIAMETER**2, noise=moment,
    )  # fmt: skip


def stages(epsilon: float) -> float:
    """Return the bound of the multi-stage solver: half for each stage that fits in."""
    curved = {"smoothness": SMOOTHNESS, "strong_convexity": MODULUS, "excess": EXCESS}
    rounds = partial(papers.lowy2023_multistage_rounds, lipschitz=LIPSCHITZ, **curved, **ALL)
    rounds = partial(rounds, **BUDGET, epsilon=epsilon)
    _, batch = noise(epsilon, rounds(batch=N))
    n_rounds = rounds(batch=batch)
    s2 = variance(noise(epsilon, n_rounds)[0], batch)
    uncut = multistage(n_rounds=100 * n_rounds + 10_000_000, variance=s2, **curved)
    ends = itertools.accumulate(stage.n_rounds for stage in uncut)
    return EXCESS * 0.5 ** sum(end <= n_rounds for end in ends)


METHODS = {
    "minibatch": ("convex", minibatch),
    "accelerated": ("convex", accelerated),
    "one pass, accelerated": ("convex", one_pass),
    "minibatch, shuffled": ("convex", minibatch_shuffled),
    "one pass, shuffled": ("convex", one_pass_shuffled),
    "minibatch, Stich's steps": ("strongly convex", strongly_convex),
    "multistage": ("strongly convex", stages),
}


def cells(quick: bool) -> list:
    """Return the cells; they take no time."""
    epsilons = (0.75, 18.0) if quick else (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 3.0, 6.0, 12.0, 18.0)
    methods = [
        (setting, name, bound)
        for name, (setting, bound) in METHODS.items()
        if not (quick and name == "minibatch, shuffled")
    ]
    for setting, by in itertools.product(("convex", "strongly convex"), (None, *NOISE_BY)):
        name = f"order, noise by {by}" if by else "lower bound"
        methods.append((setting, name, partial(least, setting=setting, noise_by=by)))
    return [
        known(method, epsilon, partial(bound, epsilon), setting=setting, x=epsilon)
        for setting, method, bound in methods
        for epsilon in epsilons
    ]


FIGURE = Figure(
    "ISRL-DP: bounds on the excess loss, 25 silos of 1238 records", "bound", cells,
    higher_is_better=False, logy=True, seeds=(0,),
)  # fmt: skip
