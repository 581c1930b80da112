"""Figures 1 and 3, right: MNIST over the rounds, 1000 silos of 20 images of one or two digits.

Accuracy, and the server's steps of FedEXP. A linear model on images of norm 1, 5 local steps, 20
rounds. A third of the images: all silos, and so the noise, are as with 60 images of each, which
take three times as long and are ``fedexp/mnist_whole``.
"""

from __future__ import annotations

import functools
from functools import partial

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.problem import Problem
from _common.watch import course

from fedexp import methods
from skdpfl.datasets import fetch_mnist

LOCAL_STEPS, ROUNDS = 5, 20
#: images of each silo that are used
IMAGES, ALL_IMAGES = 20, 60


@functools.lru_cache(maxsize=2)
def problem(seed: int, quick: bool, images: int) -> Problem:
    """Return the silos, sorted by digit and cut; test images."""
    dealt = {"n_silos": 1000, "split": "sorted", "random_state": seed}
    train = fetch_mnist(subset="train", unit_norm=True, **dealt)
    test = fetch_mnist(subset="test", n_silos=1, unit_norm=True)
    used = np.argsort(train.silos, kind="stable").reshape(1000, -1)
    keep = np.sort(used[:: 10 if quick else 1, :images], axis=None)
    return Problem(
        train.data[keep], train.target[keep], train.silos[keep], test.data, test.target
    )  # fmt: skip


def accuracy(
    method: str, setting: str, epsilon: float, quick: bool, seed: int, images: int = IMAGES,
    **chosen: float,
) -> Fit:  # fmt: skip
    """Return the last accuracy, that of every second round, and the server's steps."""
    data, how = problem(seed, quick, images), {"n_silos": 1000, "size": 7850}
    how |= {"n_rounds": 5 if quick else ROUNDS, "local_steps": LOCAL_STEPS}
    model = methods.model_of(
        methods.WatchedClassifier, method, setting, epsilon, seed, **how, **chosen
    )
    model, fit = course(model, data, seed, every=2)
    return Fit(fit.value, fit.curves + methods.steps_of(model))


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    found = methods.claims(1000, ROUNDS, methods.OWN)
    for setting, method, epsilon in methods.panels(1000, ROUNDS):
        if quick and epsilon < np.inf:
            continue
        tuned = methods.axes(method, epsilon < np.inf)
        fit = partial(accuracy, method, setting, epsilon, quick)
        found.append(Cell(method, epsilon, fit, tuned, setting, metric="last accuracy"))
    return found


FIGURE = Figure(
    "MNIST, 1000 silos of one or two digits", "accuracy", cells, xlabel="round", logx=False,
    panels=("metric", "setting", "epsilon"), leave_out=("last accuracy",),
)  # fmt: skip
