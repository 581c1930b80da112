"""Solvers of ISRL-DP side by side: ``python benchmarks/isrl/table.py``.

Every solver gets the same number of configurations (three numbers of rounds, five learning rates),
the same clipping norm, features and budget. The configuration is chosen by the mean score of two
splits with noise of their own; the table shows it on five others, mean and standard deviation.
Choosing is not paid for (as in Lowy and Razaviyayn's experiments): the table compares solvers, it
is no recipe for tuning under a budget. A minute or two on two cores.

Data are looked for in ``$SKDPFL_DATA``, see :mod:`skdpfl.datasets`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import functools
import itertools
import multiprocessing
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.problems import ISRL as PROBLEMS
from benchmarks.problems import Problem
from benchmarks.tables import header, markdown, spread
from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.inspection import heterogeneity

EPSILONS = (0.5, 1.0, 3.0, 9.0)
TUNING, REPORTED = (101, 102), (0, 1, 2, 3, 4)
CLIP_NORM = 1.0

MANY, FEW = (15, 40, 100), (5, 15, 40)
PLAIN, FAST = (0.1, 0.3, 1.0, 3.0, 10.0), (0.03, 0.1, 0.3, 1.0, 3.0)
#: name -> parameters, rounds and learning rates to choose from
SOLVERS = {
    "minibatch": ({}, MANY, PLAIN),
    "accelerated": ({"solver": "accelerated"}, MANY, FAST),
    "multistage": ({"solver": "multistage", "alpha": 1e-3}, MANY, FAST),
    "local, 5 steps": ({"solver": "local", "local_steps": 5}, MANY, FAST),
    "one-pass minibatch": ({"sampling": "disjoint"}, FEW, PLAIN),
    "one-pass accelerated": ({"solver": "accelerated", "sampling": "disjoint"}, FEW, FAST),
}


class Job(NamedTuple):
    """One cell of the table."""

    problem: str
    solver: str
    epsilon: float


class Cell(NamedTuple):
    """The chosen configuration and its scores on the reported splits."""

    job: Job
    n_rounds: int
    learning_rate: float
    scores: list[float]


@functools.lru_cache(maxsize=8)
def problem(name: str, seed: int) -> Problem:
    """Return a split, made once in each process."""
    return PROBLEMS[name](seed)


def score(job: Job, seed: int, n_rounds: int, learning_rate: float | str) -> float:
    """Return accuracy or R2 on the test records of one split."""
    data = problem(job.problem, seed)
    cls = ISRLDPRegressor if job.problem == "insurance" else ISRLDPClassifier
    model = cls(
        job.epsilon,
        clip_norm=CLIP_NORM,
        scaling=None,
        n_rounds=n_rounds,
        learning_rate=learning_rate,
        random_state=seed,
        **SOLVERS[job.solver][0],
    )
    return model.fit(data.X, data.y, silos=data.silos).score(data.X_test, data.y_test)


def cell(job: Job) -> Cell:
    """Choose a configuration and run it on the reported splits."""
    warnings.simplefilter("ignore")  # steps of the grid may diverge
    _, rounds, rates = SOLVERS[job.solver]
    grid = list(itertools.product(rounds, rates))
    means = [np.mean([score(job, seed, *chosen) for seed in TUNING]) for chosen in grid]
    best = grid[int(np.argmax(means))]
    return Cell(job, *best, [score(job, seed, *best) for seed in REPORTED])


def table(cells: list[Cell], name: str) -> pd.DataFrame:
    """Return mean and deviation for each solver and epsilon."""
    frame = pd.DataFrame(index=list(SOLVERS), columns=[f"epsilon {e:g}" for e in EPSILONS])
    for one in cells:
        if one.job.problem == name:
            frame.loc[one.job.solver, f"epsilon {one.job.epsilon:g}"] = spread(one.scores)
    return frame


def not_private(name: str) -> float:
    """Return the mean score without privacy: 300 accelerated rounds, published steps."""
    job = Job(name, "accelerated", np.inf)
    return float(np.mean([score(job, seed, 300, "optimal") for seed in REPORTED]))


def disagreement(name: str) -> float:
    """Return upsilon^2 over the mean squared gradient of the silos, at the optimum."""
    data = problem(name, 0)
    loss = "squared_error" if name == "insurance" else "log_loss"
    found = heterogeneity(data.X, data.y, silos=data.silos, loss=loss, alpha=1e-3)
    return found.upsilon_squared


def report(cells: list[Cell], seconds: float) -> str:
    """Return the results file."""
    lines = [
        "# Solvers of ISRL-DP on three problems",
        "",
        f"{header()}; {seconds:.0f} s on two processes. Made by `python benchmarks/isrl/table.py`.",
        "",
        'Trust "silo", one record protected under replacement, delta "auto", clipping norm '
        f"{CLIP_NORM:g}; mean ± standard deviation of five splits with noise of their own. "
        "Configurations chosen on two other splits, 15 for each cell, which is not paid for.",
    ]
    for name in PROBLEMS:
        what = "R2" if name == "insurance" else "accuracy"
        lines += [
            "",
            f"## {name}, {what} (without privacy: {not_private(name):.3f}; silos' "
            f"upsilon^2 at the optimum: {disagreement(name):.3g})",
            "",
            lines_of(table(cells, name)),
        ]
    lines += ["", "## Chosen (rounds, learning rate)", ""]
    index = list(itertools.product(PROBLEMS, SOLVERS))
    chosen = pd.DataFrame(index=index, columns=[f"epsilon {e:g}" for e in EPSILONS])
    for c in cells:
        chosen.loc[[c.job[:2]], f"epsilon {c.job.epsilon:g}"] = f"{c.n_rounds}, {c.learning_rate:g}"
    lines.append(lines_of(chosen))
    return "\n".join(lines) + "\n"


def lines_of(frame: pd.DataFrame) -> str:
    """Return a frame as a Markdown table."""
    rows = [[", ".join(i) if isinstance(i, tuple) else i, *row] for i, *row in frame.itertuples()]
    return markdown(["", *frame.columns], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.md"))
    options = parser.parse_args()
    # the slowest first, so that no process waits for another at the end
    order = sorted(options.problems, key=list(PROBLEMS).index, reverse=True)
    jobs = [Job(*one) for one in itertools.product(order, SOLVERS, EPSILONS)]
    start, cells = time.perf_counter(), []
    with multiprocessing.Pool(options.jobs) as pool:
        for done in pool.imap_unordered(cell, jobs, chunksize=1):
            print(f"{done.job} {done.n_rounds} {done.learning_rate} {np.mean(done.scores):.3f}")
            cells.append(done)
    text = report(cells, time.perf_counter() - start)
    options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
