"""The paper's protocol from end to end: how it chooses the step, clips, takes FedSGD and scores.

Columns are standardised, rows have norm 1, the penalty is 5e-3. One eta_0 a method serves all data:
of ten values the one that is best in five folds of the most alike silos, (0, 0); a local step is
eta_0 / (s K). The clip norm is the median of the records' gradients at the start, or of each batch,
in a loop of ours with the same noise multipliers and steps; read for free, as in the paper, so
epsilon does not cover it. DP-FedSGD takes all records of a silo in its one step (K s = 1). The
score is the mean over the last tenth of the rounds. 5 of 100 silos a round, 200 rounds, epsilon 3
against the server.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.problem import Problem
from _common.watch import ACCURACY, scores_by_round, tested
from scipy.special import softmax

from scaffold.methods import QUICK_SIZE, model_of, synthetic
from skdpfl.papers import noble2022_local_step

EPSILON, ALPHA, ROUNDS, FRACTION, FOLDS = 3.0, 5e-3, 200, 0.05, 5
#: method -> local steps, share of the records
METHODS = {"DP-SCAFFOLD": (10, 0.2), "DP-FedAvg": (10, 0.2), "DP-FedSGD": (1, 1.0)}
STEPS = tuple(float(f"{value:.2g}") for value in np.geomspace(0.03, 1000, 10))
SPREADS = (0.0, 1.0, 5.0)


def median_norm(problem: Problem) -> float:
    """Return the median of the gradients' norms at the zero model, |p - e_y| |(x, 1)|."""
    k = len(np.unique(problem.y))
    rows = np.sqrt(1 + np.square(problem.X).sum(axis=1))
    return float(np.median(rows) * np.hypot(1 - 1 / k, np.sqrt(k - 1) / k))


def unfitted(method: str, step: float, problem: Problem, quick: bool, seed: int) -> Any:
    """Return the model of a method at eta_0."""
    local_steps, rate = METHODS[method]
    learning_rate = noble2022_local_step(step=step, record_rate=rate, local_steps=local_steps)
    rounds = QUICK_SIZE[2] if quick else ROUNDS
    return model_of(
        method, EPSILON, seed, problem, local_steps=local_steps, sampling_rate=rate,
        n_rounds=rounds, silo_fraction=FRACTION, alpha=ALPHA, clip_norm=median_norm(problem),
        learning_rate=learning_rate,
    )  # fmt: skip


@functools.cache
def chosen(method: str, quick: bool) -> float:
    """Return the eta_0 that is best in five folds of (0, 0)."""
    data = synthetic(0.0, quick, scaled=True)
    fold = np.random.default_rng(0).integers(FOLDS, size=len(data.y))

    def score(step: float) -> float:
        found = []
        for k in range(1 if quick else FOLDS):
            fit, held = fold != k, fold == k
            part = Problem(data.X[fit], data.y[fit], data.silos[fit], data.X[held], data.y[held])
            found.append(tested(unfitted(method, step, part, quick, 100 + k), part).value)
        return float(np.mean(found))

    return max(STEPS[4:7] if quick else STEPS, key=score)


def last_tenth(method: str, spread: float, quick: bool, seed: int) -> Fit:
    """Return the mean accuracy of the last tenth of the rounds, and the last one."""
    problem = synthetic(spread, quick, scaled=True)
    model = unfitted(method, chosen(method, quick), problem, quick, seed)
    value, last = last_of(model, problem)
    return Fit(value, (("last accuracy", np.nan, last), ("eta_0", np.nan, chosen(method, quick))))


def last_of(model: Any, problem: Problem) -> tuple[float, float]:
    """Fit it; return the mean accuracy over the last tenth of the rounds, and the last one."""
    after = model.n_rounds - max(1, model.n_rounds // 10)
    _, points = scores_by_round(model, problem, ACCURACY, every=1, after=after)
    values = [value for _, _, value in points]
    return float(np.mean(values)), values[-1]


def by_batch(method: str, spread: float, quick: bool, seed: int) -> Fit:
    """Return the mean accuracy of the last tenth of the rounds, clipped to batches' medians."""
    problem = synthetic(spread, quick, scaled=True)
    like = unfitted(method, chosen(method, quick), problem, quick, seed)
    silos, sizes = np.unique(problem.silos, return_counts=True)
    k, rate, rng = len(np.unique(problem.y)), like.sampling_rate, np.random.default_rng(seed)
    plan = like.plan_for(silo_sizes=sizes, n_features=problem.X.shape[1], n_classes=k)
    X, X_test = (np.column_stack([X, np.ones(len(X))]) for X in (problem.X, problem.X_test))
    labels, own = np.eye(k)[problem.y], [np.flatnonzero(problem.silos == silo) for silo in silos]
    model, variates = np.zeros((X.shape[1], k)), np.zeros((len(silos), X.shape[1], k))
    pace, local, accuracies = like.learning_rate, like.local_steps, []
    n_cohort, control = round(FRACTION * len(silos)), method == "DP-SCAFFOLD"
    for number in range(like.n_rounds):
        if number * n_cohort % len(silos) == 0:  # dealt like cards
            order = rng.permutation(len(silos))
        cohort = np.roll(order, -number * n_cohort)[:n_cohort]
        common, ends = variates.mean(axis=0), []
        for silo in cohort:
            mine = model.copy()
            for _ in range(local):
                batch = own[silo][rng.random(sizes[silo]) < rate]
                slopes = softmax(X[batch] @ mine, axis=1) - labels[batch]
                norms = np.linalg.norm(slopes, axis=1) * np.linalg.norm(X[batch], axis=1)
                clip = np.median(norms)
                slopes *= np.minimum(1, clip / np.maximum(norms, 1e-12))[:, None]
                noise = plan.noise_multiplier[silo] * clip * rng.normal(size=model.shape)
                gradient = (X[batch].T @ slopes + noise) / (rate * sizes[silo])
                gradient[:-1] += ALPHA * mine[:-1]
                mine -= pace * (gradient + control * (common - variates[silo]))
            ends.append(mine)
        moved = model - np.array(ends)
        variates[cohort] += control * (moved / (local * pace) - common)
        model = np.mean(ends, axis=0)
        if number >= like.n_rounds - max(1, like.n_rounds // 10):
            accuracies.append(np.mean((X_test @ model).argmax(axis=1) == problem.y_test))
    return Fit(float(np.mean(accuracies)), (("last accuracy", np.nan, float(accuracies[-1])),))


def cells(quick: bool) -> list[Cell]:
    """Return the cells, a method's one after the other: they share its eta_0."""
    return [
        Cell(f"{method} K={METHODS[method][0]}{of}", EPSILON,
             partial(fit, method, spread, quick), (), f"({spread:g}, {spread:g})")
        for of, fit in (("", last_tenth), (", batches' medians", by_batch))
        for method in METHODS for spread in ((5.0,) if quick else SPREADS)
    ]  # fmt: skip


FIGURE = Figure(
    "The paper's protocol", "accuracy, last tenth of the rounds", cells,
    leave_out=("last accuracy", "eta_0"),
)  # fmt: skip
